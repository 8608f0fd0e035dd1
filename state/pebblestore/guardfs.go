package pebblestore

import (
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

var errLocked = errors.New("locked")

// guardFS makes the database failed at the first failed write, and refuses to change files afterwards.
type guardFS struct {
	vfs.FS
	db *db
}

// retryPause is how long the creation of a file takes in a failed database. Pebble repeats a failed flush at once and for ever.
const retryPause = 50 * time.Millisecond

// blocked returns the error of a failed database.
func (g *guardFS) blocked() error {
	if err := g.db.err(); err != nil {
		return err
	}
	return nil
}

// check makes the database failed if an operation was.
func (g *guardFS) check(err error) error {
	if err != nil {
		g.db.fail(err)
	}
	return err
}

func (g *guardFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := g.blocked(); err != nil {
		g.db.pause(retryPause)
		return nil, err
	}
	f, err := g.FS.Create(name, category)
	return g.file(f, err)
}

func (g *guardFS) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	if err := g.blocked(); err != nil {
		return nil, err
	}
	f, err := g.FS.OpenReadWrite(name, category, opts...)
	return g.file(f, err)
}

func (g *guardFS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := g.blocked(); err != nil {
		return nil, err
	}
	f, err := g.FS.ReuseForWrite(oldname, newname, category)
	return g.file(f, err)
}

func (g *guardFS) file(f vfs.File, err error) (vfs.File, error) {
	if g.check(err) != nil {
		return nil, err
	}
	return &guardFile{f, g}, nil
}

func (g *guardFS) OpenDir(name string) (vfs.File, error) {
	f, err := g.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &guardFile{f, g}, nil
}

func (g *guardFS) Link(oldname, newname string) error {
	if err := g.blocked(); err != nil {
		return err
	}
	return g.check(g.FS.Link(oldname, newname))
}

func (g *guardFS) Rename(oldname, newname string) error {
	if err := g.blocked(); err != nil {
		return err
	}
	return g.check(g.FS.Rename(oldname, newname))
}

func (g *guardFS) MkdirAll(dir string, perm os.FileMode) error {
	if err := g.blocked(); err != nil {
		return err
	}
	return g.check(g.FS.MkdirAll(dir, perm))
}

func (g *guardFS) Remove(name string) error {
	if err := g.blocked(); err != nil {
		return err
	}
	return g.FS.Remove(name)
}

func (g *guardFS) RemoveAll(name string) error {
	if err := g.blocked(); err != nil {
		return err
	}
	return g.FS.RemoveAll(name)
}

func (g *guardFS) Unwrap() vfs.FS { return g.FS }

// Lock locks the database for this process too, where the operating system's lock is one per process. The lock is kept by the database, so that it can be
// released without Pebble.
func (g *guardFS) Lock(name string) (io.Closer, error) {
	l, err := g.FS.Lock(name)
	if err != nil {
		if strings.Contains(err.Error(), "held by current process") || strings.Contains(err.Error(), "already locked") {
			return nil, errLocked
		}
		return nil, err
	}
	g.db.lock = &lockOnce{c: l}
	return g.db.lock, nil
}

type lockOnce struct {
	once sync.Once
	c    io.Closer
}

func (l *lockOnce) Close() (err error) {
	l.once.Do(func() { err = l.c.Close() })
	return err
}

// guardFile is a file that was opened for writing, or a directory that is synced.
type guardFile struct {
	vfs.File
	g *guardFS
}

func (f *guardFile) Write(p []byte) (int, error) {
	if err := f.g.blocked(); err != nil {
		return 0, err
	}
	n, err := f.File.Write(p)
	return n, f.g.check(err)
}

func (f *guardFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.g.blocked(); err != nil {
		return 0, err
	}
	n, err := f.File.WriteAt(p, off)
	return n, f.g.check(err)
}

func (f *guardFile) Sync() error {
	if err := f.g.blocked(); err != nil {
		return err
	}
	return f.g.check(f.File.Sync())
}

func (f *guardFile) SyncData() error {
	if err := f.g.blocked(); err != nil {
		return err
	}
	return f.g.check(f.File.SyncData())
}

func (f *guardFile) SyncTo(length int64) (bool, error) {
	if err := f.g.blocked(); err != nil {
		return false, err
	}
	full, err := f.File.SyncTo(length)
	return full, f.g.check(err)
}
