package state

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/windows"
)

// fileLock is a file that at most one process has locked. The operating system releases it with the process.
type fileLock struct{ f *os.File }

// lockPath locks a file, which it makes if needed, and writes the pid into it. It is a *[LockedError] if it is locked.
func lockPath(path string) (*fileLock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return nil, fmt.Errorf("state: lock state directory: %w", err)
	}
	// The pid at the start of the file stays readable to others: the lock is on a byte far behind it.
	at := windows.Overlapped{OffsetHigh: 1}
	err = windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &at)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		b := make([]byte, 32)
		n, _ := f.ReadAt(b, 0) // the pid only makes the message better
		_ = f.Close()
		pid, _ := strconv.Atoi(string(b[:n]))
		return nil, &LockedError{Path: path, PID: pid}
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())), 0)
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("state: lock %s: %w", path, err)
	}
	return &fileLock{f}, nil
}

func (l *fileLock) close() error { return l.f.Close() }

// syncDir does nothing: directories can't be synced here.
func syncDir(string) error { return nil }
