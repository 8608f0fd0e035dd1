//go:build kafka

package chaos

import (
	"bufio"
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/millrace/millrace/integration/kafka"
	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/serde"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

var (
	seed   = flag.Uint64("chaos.seed", 0, "seed of the moments of death; 0 takes one from the clock")
	rounds = flag.Int("chaos.rounds", 20, "how often a process is killed")
)

const (
	application = "chaos"
	partitions  = 4
	keys        = 50
)

var (
	input  = streams.NewTopic("chaos-in", serde.String, serde.Bytes)
	output = streams.NewTopic("chaos-out", serde.String, serde.Int64)
)

// The test's own binary is also the process that is killed.
func TestMain(m *testing.M) {
	if dir := os.Getenv("CHAOS_STATE_DIR"); dir != "" {
		if err := child(dir, os.Getenv("CHAOS_BROKERS")); err != nil {
			fmt.Fprintln(os.Stderr, "child:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// child counts records by key, exactly once and without a cache, so that every number from 1 on is written once for each key.
func child(dir, brokers string) error {
	b := streams.NewBuilder()
	b.Stream(input).GroupByKey().Count("counts", streams.NoCaching).ToStream().To(output)
	topology, err := b.Build()
	if err != nil {
		return err
	}
	app, err := streams.New(streams.Config{
		ApplicationID: application, Brokers: strings.Split(brokers, ","), StateDir: dir, Workers: 2, Guarantee: streams.ExactlyOnce,
		Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo})),
	}, topology)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	go func() {
		if app.Wait(ctx, streams.Running) == nil {
			fmt.Println("running")
		}
	}()
	return app.Run(ctx)
}

// victim is a child process.
type victim struct {
	cmd     *exec.Cmd
	running chan struct{} // closed when it says so
	ended   chan error
	log     *logBuffer
}

// logBuffer keeps what a process logs.
type logBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func start(t *testing.T, dir, brokers string) *victim {
	t.Helper()
	v := &victim{cmd: exec.Command(os.Args[0]), running: make(chan struct{}), ended: make(chan error, 1), log: &logBuffer{}}
	v.cmd.Env = append(os.Environ(), "CHAOS_STATE_DIR="+dir, "CHAOS_BROKERS="+brokers)
	v.cmd.Stderr = v.log
	v.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := v.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := v.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		once := sync.OnceFunc(func() { close(v.running) })
		for s := bufio.NewScanner(out); s.Scan(); {
			if s.Text() == "running" {
				once()
			}
		}
		_, _ = io.Copy(io.Discard, out)
		v.ended <- v.cmd.Wait()
	}()
	return v
}

// await waits until the process runs all its tasks.
func (v *victim) await(t *testing.T) {
	t.Helper()
	select {
	case <-v.running:
	case err := <-v.ended:
		t.Fatalf("the process ended: %v\n%s", err, v.log)
	case <-time.After(time.Minute):
		v.kill()
		t.Fatalf("the process does not run after a minute:\n%s", v.log)
	}
}

func (v *victim) kill() {
	_ = v.cmd.Process.Kill()
	<-v.ended
}

// freeze stops the process from running, as a machine that hangs; thaw lets it go on.
func (v *victim) freeze(t *testing.T) { v.signal(t, syscall.SIGSTOP) }
func (v *victim) thaw(t *testing.T)   { v.signal(t, syscall.SIGCONT) }

func (v *victim) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := v.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// stop ends the process in an orderly way.
func (v *victim) stop(t *testing.T) {
	t.Helper()
	if err := v.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := <-v.ended; err != nil {
		t.Errorf("the process ended with %v:\n%s", err, v.log)
	}
}

// B-026, B-031: a process that counts exactly once is killed at random moments, now and then with a second one beside it. Nothing is lost, nothing is counted
// twice, and no state is thrown away.
func TestB026KilledWhileCounting(t *testing.T) {
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-chaos.seed=%d", *seed)
	random := rand.New(rand.NewPCG(*seed, 0))
	cluster := kafka.Test(t, kafka.Options{Config: map[string]string{
		"group.streams.session.timeout.ms": "2000", "group.streams.heartbeat.interval.ms": "200", "group.streams.assignment.interval.ms": "0",
	}})
	brokers := strings.Join(cluster.Addresses(), ",")
	cl, err := kgo.NewClient(kgo.SeedBrokers(cluster.Addresses()...), kgo.DefaultProduceTopic(input.Name()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	adm := kadm.NewClient(cl)
	ctx, cancel := context.WithTimeout(context.Background(), 8*time.Minute)
	defer cancel()
	if _, err := adm.CreateTopics(ctx, partitions, 1, nil, input.Name(), output.Name()); err != nil {
		t.Fatal(err)
	}

	sent := make([]int64, keys) // acknowledged, by key
	producing, stopProducing := context.WithCancel(ctx)
	var producer sync.WaitGroup
	producer.Go(func() {
		tick := time.NewTicker(2 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-producing.Done():
				return
			case <-tick.C:
				k := rand.IntN(keys)
				r := &kgo.Record{Key: fmt.Appendf(nil, "key-%d", k), Value: []byte("x")}
				cl.Produce(ctx, r, func(_ *kgo.Record, err error) {
					if err != nil {
						t.Errorf("produce: %v", err)
						return
					}
					atomic.AddInt64(&sent[k], 1)
				})
			}
		}
	})

	dir, second := t.TempDir(), t.TempDir()
	var logs []*logBuffer
	for round := range *rounds {
		v := start(t, dir, brokers)
		logs = append(logs, v.log)
		var other *victim
		if round%7 == 5 {
			other = start(t, second, brokers)
			logs = append(logs, other.log)
		}
		v.await(t)
		moment := time.NewTimer(time.Duration(random.Int64N(int64(1500 * time.Millisecond))))
		<-moment.C
		v.kill()
		if other != nil {
			other.await(t)
			other.kill()
		}
	}
	stopProducing()
	producer.Wait()
	if err := cl.Flush(ctx); err != nil {
		t.Fatal(err)
	}
	last := start(t, dir, brokers)
	logs = append(logs, last.log)
	last.await(t)
	awaitNoLag(ctx, t, adm, last)
	last.stop(t)

	counted, folded := readCounts(ctx, t, cluster.Addresses())
	var total int64
	for k, n := range sent {
		key := fmt.Sprintf("key-%d", k)
		total += n
		if int64(len(counted[key])) != n {
			t.Errorf("%s: %d results for %d records", key, len(counted[key]), n)
		}
		for i := int64(1); i <= n; i++ {
			if times := counted[key][i]; times != 1 {
				t.Errorf("%s: the count %d was written %d times", key, i, times)
				break
			}
		}
		if folded[key] != n {
			t.Errorf("%s: the changelog says %d, want %d", key, folded[key], n)
		}
	}
	t.Logf("%d records, %d kills", total, *rounds)
	for _, l := range logs {
		for line := range strings.Lines(l.String()) {
			if strings.Contains(line, "emptied") || strings.Contains(line, "wiped") {
				t.Errorf("state was thrown away: %s", line)
			}
		}
	}
}

// awaitNoLag waits until the group has committed the end of the input.
func awaitNoLag(ctx context.Context, t *testing.T, adm *kadm.Client, v *victim) {
	t.Helper()
	for {
		ends, err := adm.ListEndOffsets(ctx, input.Name())
		if err != nil || ends.Error() != nil {
			t.Fatal(err, ends.Error())
		}
		committed, err := adm.FetchOffsets(ctx, application)
		if err != nil {
			t.Fatal(err)
		}
		var lag int64
		ends.Each(func(o kadm.ListedOffset) {
			lag += o.Offset
			if c, ok := committed.Lookup(o.Topic, o.Partition); ok && c.At > 0 {
				lag -= c.At
			}
		})
		if lag == 0 {
			return
		}
		select {
		case <-time.After(100 * time.Millisecond):
		case <-ctx.Done():
			t.Fatalf("%d records are left:\n%s", lag, v.log)
		}
	}
}

// readCounts reads what is committed: how often each count of each key was written, and the last of each key in the changelog.
func readCounts(ctx context.Context, t *testing.T, brokers []string) (counted map[string]map[int64]int, folded map[string]int64) {
	t.Helper()
	changelog := application + "-counts-changelog"
	cl, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics(output.Name(), changelog), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.KeepControlRecords(), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListCommittedOffsets(ctx, output.Name(), changelog)
	if err != nil || ends.Error() != nil {
		t.Fatal(err, ends.Error())
	}
	type place struct {
		topic     string
		partition int32
	}
	open := map[place]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Offset > 0 {
			open[place{o.Topic, o.Partition}] = o.Offset
		}
	})
	counted, folded = map[string]map[int64]int{}, map[string]int64{}
	for len(open) > 0 {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			if !r.Attrs.IsControl() {
				n := int64(binary.BigEndian.Uint64(r.Value))
				if r.Topic == changelog {
					folded[string(r.Key)] = n
				} else {
					if counted[string(r.Key)] == nil {
						counted[string(r.Key)] = map[int64]int{}
					}
					counted[string(r.Key)][n]++
				}
			}
			if p := (place{r.Topic, r.Partition}); r.Offset+1 >= open[p] {
				delete(open, p)
			}
		})
	}
	return counted, folded
}
