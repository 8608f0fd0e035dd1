//go:build unix

package state

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// fileLock is a file that at most one process has locked. The operating system releases it with the process.
type fileLock struct{ f *os.File }

// lockPath locks a file, which it makes if needed, and writes the pid into it. It is a *[LockedError] if it is locked.
func lockPath(path string) (*fileLock, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return nil, fmt.Errorf("state: lock state directory: %w", err)
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		b, _ := io.ReadAll(io.LimitReader(f, 32)) // the pid only makes the message better
		_ = f.Close()
		pid, _ := strconv.Atoi(strings.TrimSpace(string(b)))
		return nil, &LockedError{Path: path, PID: max(pid, 0)}
	}
	if err == nil {
		err = f.Truncate(0)
	}
	if err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("state: lock %s: %w", path, err)
	}
	return &fileLock{f}, nil
}

func (l *fileLock) close() error { return l.f.Close() }

// syncDir makes the entries of a directory durable.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = f.Sync()
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}
