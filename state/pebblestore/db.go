package pebblestore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/objstorage/objstorageprovider"
	"github.com/cockroachdb/pebble/v2/sstable"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/millrace/millrace/state"
)

// db is a [state.DB].
type db struct {
	dir    string
	fs     *guardFS
	pebble *pebble.DB
	writer sstable.WriterOptions
	log    *slog.Logger
	lock   *lockOnce

	reader *pebble.Iterator // for Get; nil after a commit

	failOnce sync.Once
	failErr  error         // set before failed is closed
	failed   chan struct{} // closed when the database failed
	broken   atomic.Bool   // a goroutine of Pebble was ended
	closing  atomic.Bool

	moved       chan struct{} // a flush or compaction ended
	stallBytes  uint64        // of batches that wait to be flushed
	sinceStall  int           // bytes committed since makeRoom looked
	closedState atomic.Bool
}

// fail makes the database failed, for the first reason given.
func (d *db) fail(err error) {
	d.failOnce.Do(func() {
		d.failErr = d.wrap(err)
		close(d.failed)
		d.log.LogAttrs(context.Background(), slog.LevelError, "database failed", slog.String("error", d.failErr.Error()))
	})
}

// err returns why the database failed, nil if it did not.
func (d *db) err() error {
	select {
	case <-d.failed:
		return d.failErr
	default:
		return nil
	}
}

// pause slows down a goroutine of Pebble that repeats what fails.
func (d *db) pause(t time.Duration) {
	if d.closing.Load() {
		return
	}
	<-time.After(t)
}

// signal tells makeRoom that something was flushed or compacted.
func (d *db) signal() {
	select {
	case d.moved <- struct{}{}:
	default:
	}
}

// apart calls a function of Pebble on a goroutine of its own, since the goroutine may be ended by Fatalf.
func (d *db) apart(fn func() error) error {
	result := make(chan error, 1)
	go func() {
		done := false
		defer func() {
			if !done {
				result <- errors.Join(errEnded, d.err())
			}
		}()
		err := fn()
		done = true
		result <- err
	}()
	return <-result
}

var errEnded = errors.New("pebblestore: the database broke an invariant")

// Get implements [state.Reader]. It seeks with an iterator that stays open until something is committed: Pebble's own Get opens one for each table that
// may have the key, which takes longer than to look into it.
func (d *db) Get(dst, key []byte) ([]byte, bool, error) {
	if d.reader == nil {
		it, err := d.pebble.NewIter(&pebble.IterOptions{UseL6Filters: true})
		if err != nil {
			return dst, false, d.wrap(err)
		}
		d.reader = it
	}
	if !d.reader.SeekPrefixGE(key) || !bytes.Equal(d.reader.Key(), key) {
		return dst, false, d.wrap(d.reader.Error())
	}
	value, err := d.reader.ValueAndErr()
	if err != nil {
		return dst, false, d.wrap(err)
	}
	return append(dst, value...), true, nil
}

// releaseReader closes the iterator of Get, since something is to be committed.
func (d *db) releaseReader() {
	if d.reader != nil {
		_ = d.reader.Close() // its errors were told by Get
		d.reader = nil
	}
}

func (d *db) get(r pebble.Reader, dst, key []byte) ([]byte, bool, error) {
	value, closer, err := r.Get(key)
	if err != nil {
		if errors.Is(err, pebble.ErrNotFound) {
			return dst, false, nil
		}
		return dst, false, d.wrap(err)
	}
	dst = append(dst, value...)
	return dst, true, d.wrap(closer.Close())
}

// NewCursor implements [state.Reader].
func (d *db) NewCursor() (state.Cursor, error) { return d.newCursor(d.pebble) }

func (d *db) newCursor(r pebble.Reader) (state.Cursor, error) {
	it, err := r.NewIter(nil)
	if err != nil {
		return nil, d.wrap(err)
	}
	return &cursor{d: d, Iterator: it}, nil
}

// Snapshot implements [state.DB].
func (d *db) Snapshot() (state.Snapshotter, error) {
	return &snapshot{d, d.pebble.NewSnapshot()}, nil
}

type snapshot struct {
	d    *db
	snap *pebble.Snapshot
}

func (s *snapshot) Get(dst, key []byte) ([]byte, bool, error) { return s.d.get(s.snap, dst, key) }
func (s *snapshot) NewCursor() (state.Cursor, error)          { return s.d.newCursor(s.snap) }
func (s *snapshot) Close() error                              { return s.snap.Close() }

type cursor struct {
	d *db
	*pebble.Iterator
	err error
}

func (c *cursor) Value() []byte {
	v, err := c.Iterator.ValueAndErr()
	if err != nil && c.err == nil {
		c.err = err
	}
	return v
}

func (c *cursor) Err() error {
	if c.err != nil {
		return c.d.wrap(c.err)
	}
	return c.d.wrap(c.Iterator.Error())
}

func (c *cursor) Close() error { return c.d.wrap(c.Iterator.Close()) }

// NewBatch implements [state.DB].
func (d *db) NewBatch(size int) state.Batch {
	return &batch{d, d.pebble.NewBatchWithSize(size + 64)}
}

type batch struct {
	d *db
	b *pebble.Batch
}

func (b *batch) Set(keyLen, valueLen int) (key, value []byte) {
	op := b.b.SetDeferred(keyLen, valueLen)
	return op.Key, op.Value
}

func (b *batch) Delete(keyLen int) []byte { return b.b.DeleteDeferred(keyLen).Key }

func (b *batch) DeleteRange(lower, upper []byte) {
	_ = b.b.DeleteRange(lower, upper, nil) // fails only in indexed batches
}

func (b *batch) Abandon() { _ = b.b.Close() }

func (b *batch) Commit() error {
	b.d.releaseReader()
	if err := b.d.makeRoom(b.b.Len()); err != nil {
		b.Abandon()
		return err
	}
	if err := b.d.pebble.Apply(b.b, pebble.NoSync); err != nil {
		return b.d.wrap(err)
	}
	if err := b.d.err(); err != nil {
		return err
	}
	return b.b.Close()
}

// stallTables is how many overlapping layers of new tables make a commit wait for compactions.
const stallTables = 24

// makeRoom waits until no more than so much waits to be flushed and compacted. It looks only now and then.
func (d *db) makeRoom(size int) error {
	if err := d.err(); err != nil {
		return err
	}
	if d.sinceStall += size; d.sinceStall < 1<<20 {
		return nil
	}
	d.sinceStall = 0
	for {
		m := d.pebble.Metrics()
		if m.MemTable.Size < d.stallBytes && m.Levels[0].Sublevels < stallTables {
			return nil
		}
		select {
		case <-d.moved:
		case <-d.failed:
			return d.failErr
		}
	}
}

// leftover is the name of a table that is being made for a bulk.
const leftover = "bulk.tmp"

// removeLeftovers removes what a process left that died.
func (d *db) removeLeftovers() {
	_ = d.fs.FS.Remove(d.fs.PathJoin(d.dir, leftover))
}

// NewBulk implements [state.DB].
func (d *db) NewBulk() (state.Bulk, error) {
	if err := d.makeRoom(1 << 20); err != nil {
		return nil, err
	}
	path := d.fs.PathJoin(d.dir, leftover)
	f, err := d.fs.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, d.wrap(err)
	}
	return &bulk{d: d, path: path, w: sstable.NewWriter(objstorageprovider.NewFileWritable(f), d.writer)}, nil
}

type bulk struct {
	d    *db
	path string
	w    *sstable.Writer
}

func (b *bulk) Set(key, value []byte) error { return b.d.wrap(b.w.Set(key, value)) }
func (b *bulk) Delete(key []byte) error     { return b.d.wrap(b.w.Delete(key)) }

func (b *bulk) Abandon() {
	_ = b.w.Close()
	b.d.removeLeftovers()
}

func (b *bulk) Commit() error {
	b.d.releaseReader()
	if err := b.w.Close(); err != nil {
		b.d.removeLeftovers()
		return b.d.wrap(err)
	}
	err := b.d.apart(func() error { return b.d.pebble.Ingest(context.Background(), []string{b.path}) })
	if err == nil {
		err = b.d.err()
	}
	return b.d.wrap(err)
}

// ApproximateCount implements [state.DB]: from the size of some rows, and of all tables.
func (d *db) ApproximateCount(lower, upper []byte) (int64, error) {
	cur, err := d.NewCursor()
	if err != nil {
		return 0, err
	}
	defer cur.Close()
	const sample = 1000
	var n, bytes int64
	cur.SetBounds(lower, upper)
	for ok := cur.First(); ok && n < sample; ok = cur.Next() {
		n++
		bytes += int64(len(cur.Key()) + len(cur.Value()))
	}
	if err := cur.Err(); err != nil || n < sample {
		return n, err
	}
	total, err := d.pebble.EstimateDiskUsage(lower, upper)
	if err != nil {
		return n, d.wrap(err)
	}
	return max(n, int64(total)*n/max(bytes, 1)), nil
}

// Flush implements [state.DB].
func (d *db) Flush() error {
	if err := d.err(); err != nil {
		return err
	}
	var flushed <-chan struct{}
	if err := d.apart(func() (err error) {
		flushed, err = d.pebble.AsyncFlush()
		return err
	}); err != nil {
		return d.wrap(err)
	}
	select {
	case <-flushed:
		return d.err()
	case <-d.failed:
		return d.failErr
	}
}

// Close implements [state.DB].
func (d *db) Close() error {
	if d.closedState.Swap(true) {
		return state.ErrClosed
	}
	d.releaseReader()
	err := d.Flush()
	d.closing.Store(true)
	if d.broken.Load() {
		// Pebble would wait for what can't happen any more. Its memory is lost; its files are out of its reach.
		_ = d.lock.Close()
		return fmt.Errorf("pebblestore: %s: not closed in order: %w", d.dir, err)
	}
	if e := d.apart(d.pebble.Close); e != nil && err == nil {
		err = d.wrap(e)
	}
	_ = d.lock.Close()
	return err
}

// Metrics implements [state.DB].
func (d *db) Metrics() state.DBMetrics {
	m := d.pebble.Metrics()
	return state.DBMetrics{DiskBytes: int64(m.DiskSpaceUsage()), MemoryBytes: int64(m.MemTable.Size)}
}
