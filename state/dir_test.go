package state

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/topology"
)

func openDir(t *testing.T, stateDir, app string) *Dir {
	t.Helper()
	d, err := OpenDir(DirOptions{StateDir: stateDir, ApplicationID: app})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}

func makeTask(t *testing.T, d *Dir, id topology.TaskID) {
	t.Helper()
	if err := os.MkdirAll(d.TaskPath(id), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(d.TaskPath(id), "rows"), []byte("rows"), 0o640); err != nil {
		t.Fatal(err)
	}
}

// TestDirLock is B-022: a second holder is refused with directory and pid; another application in the same place is not.
func TestDirLock(t *testing.T) {
	stateDir := t.TempDir()
	d := openDir(t, stateDir, "app")
	openDir(t, stateDir, "other app")
	_, err := OpenDir(DirOptions{StateDir: stateDir, ApplicationID: "app"})
	var locked *LockedError
	if !errors.As(err, &locked) || locked.Path != filepath.Join(stateDir, "app") || locked.PID != os.Getpid() {
		t.Fatalf("a second open says %v", err)
	}
	if want := filepath.Join(stateDir, "app", "3_14"); d.TaskPath(topology.TaskID{Subtopology: 3, Partition: 14}) != want {
		t.Fatalf("the path of a task is %s", d.TaskPath(topology.TaskID{Subtopology: 3, Partition: 14}))
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	again := openDir(t, stateDir, "app")
	if again.ProcessID() != d.ProcessID() {
		t.Fatalf("process id %s became %s", d.ProcessID(), again.ProcessID())
	}
}

// TestDirLockOfAnotherProcess runs this test binary a second time, as the process that is refused.
func TestDirLockOfAnotherProcess(t *testing.T) {
	if stateDir := os.Getenv("MILLRACE_TEST_STATE_DIR"); stateDir != "" {
		_, err := OpenDir(DirOptions{StateDir: stateDir, ApplicationID: "app"})
		fmt.Println("open says", err)
		return
	}
	stateDir := t.TempDir()
	openDir(t, stateDir, "app")
	cmd := exec.Command(os.Args[0], "-test.run=^TestDirLockOfAnotherProcess$")
	cmd.Env = append(os.Environ(), "MILLRACE_TEST_STATE_DIR="+stateDir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if s := string(out); !strings.Contains(s, filepath.Join(stateDir, "app")) || !strings.Contains(s, fmt.Sprintf("pid %d", os.Getpid())) {
		t.Fatalf("another process says %s", s)
	}
}

func TestApplicationIDsThatAreNoDirectories(t *testing.T) {
	for _, app := range []string{"", ".", "..", "a/b", `a\b`, "a\x00"} {
		if _, err := OpenDir(DirOptions{StateDir: t.TempDir(), ApplicationID: app}); err == nil {
			t.Errorf("application id %q was taken", app)
		}
	}
	if _, err := OpenDir(DirOptions{ApplicationID: "app"}); err == nil {
		t.Error("a state directory was made up")
	}
}

// TestDamagedProcessFile is B-024 for the small files of the directory.
func TestDamagedProcessFile(t *testing.T) {
	for name, damage := range map[string]func(path string) error{
		"empty":     func(path string) error { return os.Truncate(path, 0) },
		"half":      func(path string) error { return os.Truncate(path, 20) },
		"zeros":     func(path string) error { return os.WriteFile(path, make([]byte, 4096), 0o640) },
		"no uuid":   func(path string) error { return os.WriteFile(path, []byte(`{"processId":"x"}`), 0o640) },
		"gone":      os.Remove,
		"directory": func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o750)) },
	} {
		t.Run(name, func(t *testing.T) {
			stateDir := t.TempDir()
			d := openDir(t, stateDir, "app")
			_ = d.Close()
			if err := damage(filepath.Join(d.Path(), processFile)); err != nil {
				t.Fatal(err)
			}
			d2 := openDir(t, stateDir, "app")
			if d2.ProcessID() == d.ProcessID() || !uuidForm.MatchString(d2.ProcessID()) {
				t.Fatalf("process id %s became %s", d.ProcessID(), d2.ProcessID())
			}
			_ = d2.Close()
			if d3 := openDir(t, stateDir, "app"); d3.ProcessID() != d2.ProcessID() {
				t.Fatal("the new process id was not kept")
			}
		})
	}
	t.Run("lock file is a directory", func(t *testing.T) {
		stateDir := t.TempDir()
		path := filepath.Join(stateDir, "app", lockFile)
		if err := os.MkdirAll(path, 0o750); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenDir(DirOptions{StateDir: stateDir, ApplicationID: "app"}); err == nil || !strings.Contains(err.Error(), path) {
			t.Fatalf("open says %v", err)
		}
	})
	t.Run("no temporary files stay", func(t *testing.T) {
		d := openDir(t, t.TempDir(), "app")
		entries, err := os.ReadDir(d.Path())
		if err != nil || len(entries) != 2 {
			t.Fatalf("%v, %v", entries, err)
		}
	})
}

func TestClaims(t *testing.T) {
	d := openDir(t, t.TempDir(), "app")
	id := topology.TaskID{Subtopology: 0, Partition: 1}
	c, err := d.Acquire(id)
	if err != nil {
		t.Fatal(err)
	}
	_, err = d.Acquire(id)
	var busy *BusyError
	if !errors.As(err, &busy) || busy.Task != id {
		t.Fatalf("a second claim is %v", err)
	}
	select {
	case <-busy.Released:
		t.Fatal("a claim that is held counts as released")
	default:
	}
	if err := d.Close(); err == nil {
		t.Fatal("closed with a claim")
	}
	if err := d.CleanUp(); err == nil {
		t.Fatal("cleaned up with a claim")
	}
	c.Release()
	<-busy.Released
	c2, err := d.Acquire(id)
	if err != nil {
		t.Fatal(err)
	}
	c.Release() // of the old claim must not give the new one back
	if _, err := d.Acquire(id); !errors.As(err, &busy) {
		t.Fatalf("the new claim was lost: %v", err)
	}
	makeTask(t, d, id)
	if err := c2.Wipe("it is damaged"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(c2.Path); !errors.Is(err, fs.ErrNotExist) || d.Wipes() != 1 {
		t.Fatalf("after a wipe: %v, %d wipes", err, d.Wipes())
	}
	c2.Release()
	if err := c2.Wipe("again"); err == nil {
		t.Fatal("wiped without a claim")
	}
}

func TestCleanUpKeepsLockAndProcess(t *testing.T) {
	stateDir := t.TempDir()
	d := openDir(t, stateDir, "app")
	for p := range int32(3) {
		makeTask(t, d, topology.TaskID{Subtopology: 1, Partition: p})
	}
	left := filepath.Join(d.Path(), "1_9"+removalMarker+"1")
	if err := os.Mkdir(left, 0o750); err != nil {
		t.Fatal(err)
	}
	ids, err := d.Dormant()
	if err != nil || len(ids) != 3 || ids[2].Partition != 2 {
		t.Fatalf("dormant: %v, %v", ids, err)
	}
	if err := d.CleanUp(); err != nil {
		t.Fatal(err)
	}
	if ids, err := d.Tasks(); err != nil || len(ids) != 0 {
		t.Fatalf("tasks: %v, %v", ids, err)
	}
	_ = d.Close()
	d2 := openDir(t, stateDir, "app")
	if d2.ProcessID() != d.ProcessID() {
		t.Fatal("the process id went with the clean-up")
	}
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("a removal that was begun was not ended: %v", err)
	}
}

// TestCleanerAndReturningTasks is B-023: a task moves between workers while the cleaner runs, with an age that it often just exceeds.
func TestCleanerAndReturningTasks(t *testing.T) {
	var clock struct {
		sync.Mutex
		now time.Time
	}
	clock.now = time.Now().Add(time.Hour) // so that the files are old
	now := func() time.Time {
		clock.Lock()
		defer clock.Unlock()
		return clock.now
	}
	const age = time.Second
	d, err := OpenDir(DirOptions{StateDir: t.TempDir(), ApplicationID: "app", Now: now})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	id, stale := topology.TaskID{Partition: 1}, topology.TaskID{Partition: 2}
	makeTask(t, d, id)
	makeTask(t, d, stale)
	c, err := d.Acquire(id)
	if err != nil {
		t.Fatal(err)
	}
	if removed, err := d.Clean(age); err != nil || !slices.Equal(removed, []topology.TaskID{stale}) {
		t.Fatalf("cleaned %v, %v", removed, err)
	}
	done := make(chan struct{})
	var cleaners sync.WaitGroup
	for range 2 {
		cleaners.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
				}
				if _, err := d.Clean(age); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	for i := range 100 {
		if _, err := os.Stat(filepath.Join(c.Path, "rows")); err != nil {
			t.Errorf("move %d: the rows are gone: %v", i, err)
			break
		}
		c.Release()
		clock.Lock()
		clock.now = clock.now.Add(time.Duration(i%11) * age / 10) // at most age
		clock.Unlock()
		if c, err = d.Acquire(id); err != nil {
			t.Fatal(err)
		}
		clock.Lock()
		clock.now = clock.now.Add(time.Minute) // claimed, it may take long
		clock.Unlock()
	}
	close(done)
	cleaners.Wait()
	c.Release()
	clock.now = clock.now.Add(age + 1)
	if removed, err := d.Clean(age); err != nil || !slices.Equal(removed, []topology.TaskID{id}) {
		t.Fatalf("cleaned %v, %v", removed, err)
	}
	if entries, err := os.ReadDir(d.Path()); err != nil || len(entries) != 2 {
		t.Fatalf("left are %v, %v", entries, err)
	}
}

// TestDirPermission checks that what may not be read is not replaced.
func TestDirPermission(t *testing.T) {
	if os.Getuid() == 0 {
		t.Log("the superuser may read everything; what is left is the error's form")
	}
	stateDir := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(stateDir, nil, 0o640); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenDir(DirOptions{StateDir: stateDir, ApplicationID: "app"}); err == nil || !strings.Contains(err.Error(), stateDir) {
		t.Fatalf("open in a file says %v", err)
	}
}
