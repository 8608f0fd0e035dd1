package pebblestore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"syscall"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/millrace/millrace/state"
)

// Options are what the databases of a process share. The zero value is good for a process with some ten tasks.
type Options struct {
	// CacheBytes is the size of the cache of blocks, over all databases. The default, at 0, is 192 MiB, of which only what is read is used.
	CacheBytes int64
	// MemTableBytes is the size of a memtable. A commit of half of it or more bypasses the memtable. The default, at 0, is 4 MiB.
	MemTableBytes int
	// Compress makes tables smaller and everything slower, with Snappy.
	Compress bool
	// Logger takes Pebble's complaints; nil is silence.
	Logger *slog.Logger
	// FS is the file system; nil is the operating system's.
	FS vfs.FS
}

// Defaults of [Options].
const (
	DefaultCacheBytes    = 192 << 20
	DefaultMemTableBytes = 4 << 20
)

// openFiles bounds how many files the databases of a process keep open.
const openFiles = 1000

// Engine opens databases that share a cache of blocks and one of open files. It may be used by any goroutine.
type Engine struct {
	opts  Options
	cache *pebble.Cache
	files *pebble.FileCache
	log   *slog.Logger

	mu struct {
		sync.Mutex
		closed bool
	}
}

// New returns an engine, to be closed after its databases.
func New(opts Options) *Engine {
	if opts.CacheBytes == 0 {
		opts.CacheBytes = DefaultCacheBytes
	}
	if opts.MemTableBytes == 0 {
		opts.MemTableBytes = DefaultMemTableBytes
	}
	if opts.FS == nil {
		opts.FS = vfs.Default
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	return &Engine{
		opts: opts, log: opts.Logger, cache: pebble.NewCache(opts.CacheBytes),
		files: pebble.NewFileCache(max(2, runtime.GOMAXPROCS(0)), openFiles),
	}
}

// Close releases the caches. Closing it again does nothing.
func (e *Engine) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.closed {
		return nil
	}
	e.mu.closed = true
	e.files.Unref()
	e.cache.Unref()
	return nil
}

// Open opens the database in dir, and makes it if there is none. A database that can't be read is a *[state.CorruptError]; one that may not be read or
// written is not, and nothing of it is changed.
func (e *Engine) Open(dir string) (state.DB, error) {
	d := &db{
		dir: dir, fs: &guardFS{FS: e.opts.FS}, log: e.log.With("dir", dir),
		failed: make(chan struct{}), moved: make(chan struct{}, 1), stallBytes: uint64(max(16*e.opts.MemTableBytes, 32<<20)),
	}
	d.fs.db = d
	d.removeLeftovers()
	opts := e.options(d)
	err := contained(func() (err error) {
		d.pebble, err = pebble.Open(dir, opts)
		return err
	})
	if err == nil {
		err = d.err()
	}
	if err != nil {
		return nil, d.openError(err)
	}
	d.writer = opts.MakeWriterOptions(0, d.pebble.TableFormat())
	return d, nil
}

func (e *Engine) options(d *db) *pebble.Options {
	opts := &pebble.Options{
		FS:                          d.fs,
		Cache:                       e.cache,
		FileCache:                   e.files,
		DisableWAL:                  true,
		FormatMajorVersion:          pebble.FormatNewest,
		MemTableSize:                uint64(e.opts.MemTableBytes),
		MemTableStopWritesThreshold: 1000, // db.makeRoom waits instead, and can be told of a failure
		L0StopWritesThreshold:       1000,
		L0CompactionThreshold:       4,
		LBaseMaxBytes:               64 << 20,
		MaxManifestFileSize:         8 << 20,
		Logger:                      logger{d},
		EventListener: &pebble.EventListener{
			BackgroundError: d.fail,
			DataCorruption: func(info pebble.DataCorruptionInfo) {
				d.fail(&state.CorruptError{Path: d.dir, What: info.Path, Err: info.Details})
			},
			FlushEnd:      func(pebble.FlushInfo) { d.signal() },
			CompactionEnd: func(pebble.CompactionInfo) { d.signal() },
		},
	}
	compression := func() *sstable.CompressionProfile { return sstable.NoCompression }
	if e.opts.Compress {
		compression = func() *sstable.CompressionProfile { return sstable.SnappyCompression }
	}
	for i := range opts.Levels {
		opts.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
		opts.Levels[i].Compression = compression
		opts.Levels[i].BlockSize = 4 << 10
		opts.Levels[i].IndexBlockSize = 256 << 10
	}
	opts.TargetFileSizes[0] = 8 << 20
	opts.Experimental.FileCacheShards = 1
	opts.FlushSplitBytes = 8 << 20
	opts.EnsureDefaults()
	return opts
}

// contained calls fn and makes a panic in it an error. Pebble panics on some forms of damage.
func contained(fn func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &damage{fmt.Sprint(r)}
		}
	}()
	return fn()
}

// damage is a panic.
type damage struct{ what string }

func (d *damage) Error() string { return d.what }

// openError says what an error of Open means.
func (d *db) openError(err error) error {
	var pathErr *fs.PathError
	switch {
	case errors.Is(err, fs.ErrPermission), full(err), errors.Is(err, syscall.EROFS), errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE):
		return d.wrap(err)
	case errors.Is(err, errLocked):
		return fmt.Errorf("pebblestore: %s is open already", d.dir)
	case errors.As(err, &pathErr) && errors.Is(err, syscall.ENOTDIR):
		return &state.CorruptError{Path: d.dir, What: "it is not a directory", Err: err}
	}
	return &state.CorruptError{Path: d.dir, What: "the database can't be opened", Err: err}
}

// full tells whether an error is want of space.
func full(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT)
}

// wrap adds the directory to an error, and gives it its type.
func (d *db) wrap(err error) error {
	if err == nil {
		return nil
	}
	return d.wrapError(err)
}

func (d *db) wrapError(err error) error {
	var corrupt *state.CorruptError
	switch {
	case errors.As(err, &corrupt):
		return err
	case full(err):
		return &state.FullError{Path: d.dir, Err: err}
	case pebble.IsCorruptionError(err):
		return &state.CorruptError{Path: d.dir, What: "a table", Err: err}
	}
	return fmt.Errorf("pebblestore: %s: %w", d.dir, err)
}

// logger takes Pebble's messages. What Pebble calls fatal makes the database failed.
type logger struct{ d *db }

func (l logger) Infof(string, ...any) {}

func (l logger) Errorf(format string, args ...any) {
	l.d.log.LogAttrs(context.Background(), slog.LevelWarn, "database error", slog.String("error", fmt.Sprintf(format, args...)))
}

// Fatalf returns where Pebble goes on with an error, which is in a failed commit. Anything else is a broken invariant, of which we only know that nothing
// may be done after it: the goroutine ends. Those calls of Pebble that get there run on goroutines of their own, see [db.apart].
func (l logger) Fatalf(format string, args ...any) {
	err := fmt.Errorf(format, args...)
	for _, arg := range args {
		if cause, ok := arg.(error); ok {
			err = cause
		}
	}
	l.d.fail(err)
	if strings.HasPrefix(format, "pebble: fatal commit error") {
		return
	}
	l.d.broken.Store(true)
	runtime.Goexit()
}
