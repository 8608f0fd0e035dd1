package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestMain lets the test binary play the command: with MILLRACE_RUN set it is the command.
func TestMain(m *testing.M) {
	if os.Getenv("MILLRACE_RUN") != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

// command runs millrace as a process of its own.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), "MILLRACE_RUN=1")
	return cmd
}

// startDev starts "millrace dev" and returns its address and what ends it with an interrupt.
func startDev(t *testing.T, args ...string) (addr string, interrupt func() error) {
	t.Helper()
	cmd := command(t, append([]string{"dev", "--listen", "127.0.0.1:0"}, args...)...)
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := false
	t.Cleanup(func() {
		if !ended {
			cmd.Process.Kill()
			cmd.Wait()
		}
	})
	lines := bufio.NewReader(out)
	first, err := lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	addr, ok := strings.CutPrefix(strings.TrimSpace(first), "development broker on ")
	if !ok {
		t.Fatalf("first line is %q", first)
	}
	return addr, func() error {
		ended = true
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			return err
		}
		rest, err := io.ReadAll(lines)
		if err != nil {
			return err
		}
		if !strings.HasSuffix(string(rest), "stopped\n") {
			return fmt.Errorf("last words are %q", rest)
		}
		return cmd.Wait()
	}
}

func admin(t *testing.T, addr string) *kadm.Client {
	t.Helper()
	c, err := kgo.NewClient(kgo.SeedBrokers(addr))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return kadm.NewClient(c)
}

func TestDevServesUntilInterrupted(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	addr, interrupt := startDev(t, "--topic", "clicks:4", "--topic", "users:1", "--data", data)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	adm := admin(t, addr)
	topics, err := adm.ListTopics(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if got := len(topics["clicks"].Partitions); got != 4 {
		t.Errorf("topic clicks has %d partitions, want 4", got)
	}
	if _, err := adm.CreateTopic(ctx, 2, 1, nil, "later"); err != nil {
		t.Fatal(err)
	}
	if err := interrupt(); err != nil {
		t.Fatalf("after an interrupt: %v", err)
	}

	// The data is there at the next start, and topics asked for again stay as they are.
	addr, interrupt = startDev(t, "--topic", "clicks:7", "--topic", "new:3", "--data", data)
	topics, err = admin(t, addr).ListTopics(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int{"clicks": 4, "users": 1, "later": 2, "new": 3} {
		if got := len(topics[name].Partitions); got != want {
			t.Errorf("topic %s has %d partitions, want %d", name, got, want)
		}
	}
	if err := interrupt(); err != nil {
		t.Fatalf("after an interrupt: %v", err)
	}
}

func TestDevRefuses(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"dev", "--listen", ln.Addr().String()}, ln.Addr().String() + " is taken by another process; choose another address with --listen"},
		{[]string{"dev", "--topic", "clicks"}, "--topic clicks: want name:partitions"},
		{[]string{"dev", "--topic", "clicks:0", "--topic", ":1"}, "--topic :1: want name:partitions"},
		{[]string{"dev", "--release", "3.9"}, "--release 3.9: want 4.4, 4.3 or 4.2"},
		{[]string{"dev", "extra"}, "unknown command"},
		{[]string{"dev", "--listen", "nowhere"}, "missing port"},
	} {
		out, err := command(t, tt.args...).CombinedOutput()
		if err == nil {
			t.Errorf("%v ended with exit code 0", tt.args)
		}
		if !strings.Contains(string(out), tt.want) {
			t.Errorf("%v said %q, want %q", tt.args, out, tt.want)
		}
	}
}
