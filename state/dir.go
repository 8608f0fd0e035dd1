package state

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/millrace/millrace/topology"
)

// Dir is the state directory of an application in a process:
//
//	<state dir>/<application id>/.lock                            held while the process runs; the process' pid
//	<state dir>/<application id>/kafka-streams-process-metadata   the process' id, which outlives it
//	<state dir>/<application id>/<task id>/                       a task's database
//	<state dir>/<application id>/<task id>.removing-*             on its way out
//
// A Dir may be used by any goroutine. Within the process it also says which task directories are in use, see [Dir.Acquire].
type Dir struct {
	path      string
	processID string
	log       *slog.Logger
	now       func() time.Time
	lock      *fileLock

	mu struct {
		sync.Mutex
		closed   bool
		claims   map[topology.TaskID]*Claim
		released map[topology.TaskID]time.Time
		removals int
		wipes    int
	}
}

// DirOptions say which state directory [OpenDir] opens.
type DirOptions struct {
	StateDir      string
	ApplicationID string
	Logger        *slog.Logger     // nil is silence
	Now           func() time.Time // nil is time.Now
}

const (
	lockFile      = ".lock"
	processFile   = "kafka-streams-process-metadata"
	removalMarker = ".removing-"
	dirPerm       = 0o750
)

// LockedError tells that another process, or another part of this one, uses the state directory.
type LockedError struct {
	Path string
	PID  int // the holder's, 0 if unknown
}

func (e *LockedError) Error() string {
	holder := "another process"
	switch e.PID {
	case 0:
	case os.Getpid():
		holder = fmt.Sprintf("this process (pid %d)", e.PID)
	default:
		holder = fmt.Sprintf("the process with pid %d", e.PID)
	}
	return fmt.Sprintf("state: state directory %s is in use by %s; stop it, or give this one another state directory", e.Path, holder)
}

// BusyError tells that another worker of the process still has a task's directory.
type BusyError struct {
	Task     topology.TaskID
	Released <-chan struct{} // closed when it was given back; then it may be tried again
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("state: the directory of task %s is in use by another worker", e.Task)
}

// OpenDir makes and locks a state directory. It is a *[LockedError] if it is in use.
func OpenDir(opts DirOptions) (*Dir, error) {
	if opts.StateDir == "" {
		return nil, errors.New("state: no state directory is configured")
	}
	if id := opts.ApplicationID; id == "" || id == "." || id == ".." || strings.ContainsAny(id, `/\`) || strings.ContainsRune(id, 0) {
		return nil, fmt.Errorf("state: application id %q can't be the name of a directory", id)
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	path, err := filepath.Abs(filepath.Join(opts.StateDir, opts.ApplicationID))
	if err != nil {
		return nil, fmt.Errorf("state: state directory: %w", err)
	}
	d := &Dir{path: path, log: opts.Logger.With("dir", path), now: opts.Now}
	d.mu.claims = map[topology.TaskID]*Claim{}
	d.mu.released = map[topology.TaskID]time.Time{}
	if err := os.MkdirAll(path, dirPerm); err != nil {
		return nil, fmt.Errorf("state: make state directory: %w", err)
	}
	if d.lock, err = lockPath(filepath.Join(path, lockFile)); err != nil {
		var locked *LockedError
		if errors.As(err, &locked) {
			locked.Path = path
		}
		return nil, err
	}
	if d.processID, err = d.readProcessID(); err == nil {
		err = d.finishRemovals()
	}
	if err != nil {
		_ = d.lock.close()
		return nil, err
	}
	return d, nil
}

// Path returns the application's directory.
func (d *Dir) Path() string { return d.path }

// ProcessID returns the id that the process keeps over restarts, a UUID.
func (d *Dir) ProcessID() string { return d.processID }

// TaskPath returns the directory of a task.
func (d *Dir) TaskPath(id topology.TaskID) string { return filepath.Join(d.path, id.String()) }

// Close releases the lock. Claims must have been given back.
func (d *Dir) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.closed {
		return nil
	}
	if n := len(d.mu.claims); n > 0 {
		return fmt.Errorf("state: close of %s while %d tasks use it", d.path, n)
	}
	d.mu.closed = true
	return d.lock.close()
}

// Claim is the right to a task's directory within the process.
type Claim struct {
	Task topology.TaskID
	Path string

	dir      *Dir
	released chan struct{}
}

// Acquire claims a task's directory. It is a *[BusyError] while another worker has it.
func (d *Dir) Acquire(id topology.TaskID) (*Claim, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.closed {
		return nil, ErrClosed
	}
	if c := d.mu.claims[id]; c != nil {
		return nil, &BusyError{Task: id, Released: c.released}
	}
	c := &Claim{Task: id, Path: d.TaskPath(id), dir: d, released: make(chan struct{})}
	d.mu.claims[id] = c
	return c, nil
}

// Release gives the directory back. Its stores must be closed. Releasing it again does nothing.
func (c *Claim) Release() {
	d := c.dir
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.mu.claims[c.Task] == c {
		delete(d.mu.claims, c.Task)
		d.mu.released[c.Task] = d.now()
		close(c.released)
	}
}

// Wipe removes the directory of the claim, whose stores must be closed. The reason goes to the log; the wipe is counted.
func (c *Claim) Wipe(reason string) error {
	d := c.dir
	d.mu.Lock()
	if d.mu.claims[c.Task] != c {
		d.mu.Unlock()
		return fmt.Errorf("state: wipe of task %s, which is not claimed", c.Task)
	}
	moved, err := d.moveAsideLocked(c.Task)
	if err == nil {
		d.mu.wipes++
	}
	d.mu.Unlock()
	if err != nil {
		return err
	}
	d.log.Warn("wiped a task's state", "task", c.Task.String(), "reason", reason)
	return d.remove(moved)
}

// Wipes returns how many task directories were wiped.
func (d *Dir) Wipes() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.mu.wipes
}

// moveAsideLocked renames a task's directory, so that it is gone at once and as a whole. It returns "" if there is none. It needs d.mu.
func (d *Dir) moveAsideLocked(id topology.TaskID) (moved string, err error) {
	d.mu.removals++
	moved = fmt.Sprintf("%s%s%d-%d", d.TaskPath(id), removalMarker, d.now().UnixNano(), d.mu.removals)
	err = os.Rename(d.TaskPath(id), moved)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("state: remove state of task %s: %w", id, err)
	}
	return moved, nil
}

func (d *Dir) remove(moved string) error {
	if moved == "" {
		return nil
	}
	if err := os.RemoveAll(moved); err != nil {
		return fmt.Errorf("state: remove state: %w", err)
	}
	return nil
}

// finishRemovals removes what was moved aside by a process that died.
func (d *Dir) finishRemovals() error {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return fmt.Errorf("state: list state directory: %w", err)
	}
	for _, e := range entries {
		if strings.Contains(e.Name(), removalMarker) {
			if err := d.remove(filepath.Join(d.path, e.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// Tasks returns the tasks that have a directory, in order.
func (d *Dir) Tasks() ([]topology.TaskID, error) {
	entries, err := os.ReadDir(d.path)
	if err != nil {
		return nil, fmt.Errorf("state: list state directory: %w", err)
	}
	var ids []topology.TaskID
	for _, e := range entries {
		if id, err := topology.ParseTaskID(e.Name()); err == nil && e.IsDir() {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, topology.TaskID.Compare)
	return ids, nil
}

// Dormant returns the tasks that have a directory which nobody claims, in order.
func (d *Dir) Dormant() ([]topology.TaskID, error) {
	ids, err := d.Tasks()
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.DeleteFunc(ids, func(id topology.TaskID) bool { return d.mu.claims[id] != nil }), nil
}

// Clean removes the directories of tasks that were neither claimed nor written to for longer than age, and returns the tasks.
func (d *Dir) Clean(age time.Duration) ([]topology.TaskID, error) {
	ids, err := d.Dormant()
	if err != nil {
		return nil, err
	}
	var removed []topology.TaskID
	for _, id := range ids {
		written, err := lastWrite(d.TaskPath(id))
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			return removed, fmt.Errorf("state: clean task %s: %w", id, err)
		}
		ok, err := d.removeDormant(id, func(now time.Time) bool {
			return now.Sub(written) > age && now.Sub(d.mu.released[id]) > age
		})
		if err != nil {
			return removed, err
		}
		if ok {
			removed = append(removed, id)
			d.log.Info("removed the state of a task that went elsewhere", "task", id.String())
		}
	}
	return removed, nil
}

// removeDormant removes a task's directory if nobody claims it and old agrees, which is asked with d.mu held: nobody can claim it in between.
func (d *Dir) removeDormant(id topology.TaskID, old func(now time.Time) bool) (bool, error) {
	d.mu.Lock()
	if d.mu.closed || d.mu.claims[id] != nil || !old(d.now()) {
		d.mu.Unlock()
		return false, nil
	}
	moved, err := d.moveAsideLocked(id)
	delete(d.mu.released, id)
	d.mu.Unlock()
	if err != nil || moved == "" {
		return false, err
	}
	return true, d.remove(moved)
}

// lastWrite returns when a directory or a file in it was last changed.
func lastWrite(dir string) (time.Time, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return time.Time{}, err
	}
	last := info.ModTime()
	entries, err := os.ReadDir(dir)
	if err != nil {
		return time.Time{}, err
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && info.ModTime().After(last) {
			last = info.ModTime()
		}
	}
	return last, nil
}

// CleanUp removes the state of all tasks, none of which may be claimed. Lock and process id stay.
func (d *Dir) CleanUp() error {
	d.mu.Lock()
	n := len(d.mu.claims)
	d.mu.Unlock()
	if n > 0 {
		return fmt.Errorf("state: clean-up of %s while %d tasks use it", d.path, n)
	}
	ids, err := d.Tasks()
	if err != nil {
		return err
	}
	for _, id := range ids {
		if _, err := d.removeDormant(id, func(time.Time) bool { return true }); err != nil {
			return err
		}
	}
	return nil
}
