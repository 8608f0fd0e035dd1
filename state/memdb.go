package state

import (
	"bytes"
	"sync"
	"sync/atomic"
)

// MemoryEngine opens databases that live in memory and are empty at first. The directory is not touched.
type MemoryEngine struct{}

// Open returns an empty database.
func (MemoryEngine) Open(string) (DB, error) { return NewMemoryDB(), nil }

// NewMemoryDB returns an empty database in memory.
func NewMemoryDB() DB { return &memDB{rows: newTree[[]byte]()} }

type memDB struct {
	mu   sync.Mutex // held while rows changes, and while it is cloned; the owner reads without it
	rows *tree[[]byte]
	size atomic.Int64
}

func (d *memDB) Get(dst, key []byte) ([]byte, bool, error) { return treeGet(d.rows, dst, key) }

func treeGet(t *tree[[]byte], dst, key []byte) ([]byte, bool, error) {
	v, ok := t.get(key)
	return append(dst, v...), ok, nil
}

func (d *memDB) NewCursor() (Cursor, error) {
	return &memCursor{cur: treeCursor[[]byte]{t: d.clone()}}, nil
}

func (d *memDB) clone() *tree[[]byte] {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rows.clone()
}

func (d *memDB) NewBatch(int) Batch             { return &memBatch{db: d} }
func (d *memDB) NewBulk() (Bulk, error)         { return &memBulk{memBatch{db: d}}, nil }
func (d *memDB) Flush() error                   { return nil }
func (d *memDB) Close() error                   { return nil }
func (d *memDB) Metrics() DBMetrics             { return DBMetrics{MemoryBytes: d.size.Load()} }
func (d *memDB) Snapshot() (Snapshotter, error) { return &memSnapshot{d.clone()}, nil }

func (d *memDB) ApproximateCount(lower, upper []byte) (int64, error) {
	cur := memCursor{cur: treeCursor[[]byte]{t: d.rows}, lower: lower, upper: upper}
	var n int64
	for ok := cur.First(); ok; ok = cur.Next() {
		n++
	}
	return n, nil
}

type memSnapshot struct{ rows *tree[[]byte] }

func (s *memSnapshot) Get(dst, key []byte) ([]byte, bool, error) { return treeGet(s.rows, dst, key) }
func (s *memSnapshot) NewCursor() (Cursor, error) {
	return &memCursor{cur: treeCursor[[]byte]{t: s.rows}}, nil
}
func (s *memSnapshot) Close() error { return nil }

type memCursor struct {
	cur          treeCursor[[]byte]
	lower, upper []byte
}

func (c *memCursor) SetBounds(lower, upper []byte) { c.lower, c.upper = lower, upper }
func (c *memCursor) First() bool                   { return c.cur.seek(c.lower) && c.inside() }
func (c *memCursor) Last() bool                    { return c.cur.seekBefore(c.upper) && c.inside() }
func (c *memCursor) Next() bool                    { return c.cur.next() && c.inside() }
func (c *memCursor) Prev() bool                    { return c.cur.prev() && c.inside() }
func (c *memCursor) Key() []byte                   { return c.cur.key }
func (c *memCursor) Value() []byte                 { return c.cur.val }
func (c *memCursor) Err() error                    { return nil }
func (c *memCursor) Close() error                  { return nil }

func (c *memCursor) inside() bool {
	return bytes.Compare(c.cur.key, c.lower) >= 0 && (c.upper == nil || bytes.Compare(c.cur.key, c.upper) < 0)
}

// memBatch keeps its writes as they come and applies them in order.
type memBatch struct {
	db  *memDB
	ops []memOp
}

type memOp struct {
	kind       memOpKind
	key, value []byte // of a range: the bounds
}

type memOpKind uint8

const (
	memSet memOpKind = iota
	memDelete
	memDeleteRange
)

func (b *memBatch) Set(keyLen, valueLen int) (key, value []byte) {
	row := make([]byte, keyLen+valueLen)
	key, value = row[:keyLen:keyLen], row[keyLen:]
	b.ops = append(b.ops, memOp{memSet, key, value})
	return key, value
}

func (b *memBatch) Delete(keyLen int) []byte {
	key := make([]byte, keyLen)
	b.ops = append(b.ops, memOp{memDelete, key, nil})
	return key
}

func (b *memBatch) DeleteRange(lower, upper []byte) {
	b.ops = append(b.ops, memOp{memDeleteRange, bytes.Clone(lower), bytes.Clone(upper)})
}

func (b *memBatch) Commit() error {
	d := b.db
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, op := range b.ops {
		switch op.kind {
		case memSet:
			old, _ := d.rows.get(op.key)
			if d.rows.set(op.key, op.value) {
				d.size.Add(int64(len(op.key)))
			}
			d.size.Add(int64(len(op.value) - len(old)))
		case memDelete:
			d.delete(op.key)
		case memDeleteRange:
			cur := treeCursor[[]byte]{t: d.rows}
			for ok := cur.seek(op.key); ok && bytes.Compare(cur.key, op.value) < 0; ok = cur.next() {
				d.delete(cur.key)
			}
		default:
			panic("state: unknown operation in a batch")
		}
	}
	b.ops = nil
	return nil
}

// delete removes a row. The caller holds d.mu.
func (d *memDB) delete(key []byte) {
	if v, ok := d.rows.get(key); ok {
		d.rows.delete(key)
		d.size.Add(-int64(len(key) + len(v)))
	}
}

func (b *memBatch) Abandon() { b.ops = nil }

type memBulk struct{ memBatch }

func (b *memBulk) Set(key, value []byte) error {
	k, v := b.memBatch.Set(len(key), len(value))
	copy(k, key)
	copy(v, value)
	return nil
}

func (b *memBulk) Delete(key []byte) error {
	copy(b.memBatch.Delete(len(key)), key)
	return nil
}
