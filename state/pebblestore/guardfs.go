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
//
// The manifest is an exception: Pebble can't go on when an edit of it fails, and panics on a goroutine of its own where it tries (in the roll-back of a
// compaction of level 0). So it is told that all is well. Nothing comes of it: no file is removed or made any more, every commit, flush and bulk of a failed
// database returns the failure, and the manifest on disk stays what it was, perhaps with the beginning of one more record, which the next Open ignores.
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
	err := g.blocked()
	if err == nil {
		var f vfs.File
		if f, err = g.FS.Create(name, category); err == nil {
			return &guardFile{f, g, g.ofManifest(name)}, nil
		}
		g.db.fail(err)
	}
	if g.ofManifest(name) {
		return vfs.NewMem().Create("unwritten", category)
	}
	g.db.pause(retryPause)
	return nil, err
}

// ofManifest tells whether a file is the manifest or names it.
func (g *guardFS) ofManifest(name string) bool {
	base := g.PathBase(name)
	return strings.HasPrefix(base, "MANIFEST-") || strings.HasPrefix(base, "marker.manifest.")
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
	return &guardFile{f, g, false}, nil
}

func (g *guardFS) OpenDir(name string) (vfs.File, error) {
	f, err := g.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &guardFile{f, g, true}, nil // for the files of the manifest
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
	g     *guardFS
	quiet bool // failures are not told
}

// write does what changes the file, unless the database failed.
func (f *guardFile) write(change func() error) error {
	err := f.g.blocked()
	if err == nil {
		err = f.g.check(change())
	}
	if f.quiet {
		return nil
	}
	return err
}

func (f *guardFile) Write(p []byte) (n int, err error) {
	err = f.write(func() (err error) { n, err = f.File.Write(p); return err })
	if f.quiet {
		n = len(p)
	}
	return n, err
}

func (f *guardFile) WriteAt(p []byte, off int64) (n int, err error) {
	err = f.write(func() (err error) { n, err = f.File.WriteAt(p, off); return err })
	if f.quiet {
		n = len(p)
	}
	return n, err
}

func (f *guardFile) Sync() error     { return f.write(f.File.Sync) }
func (f *guardFile) SyncData() error { return f.write(f.File.SyncData) }

func (f *guardFile) SyncTo(length int64) (full bool, err error) {
	err = f.write(func() (err error) { full, err = f.File.SyncTo(length); return err })
	return full, err
}
