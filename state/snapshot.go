package state

import (
	"bytes"
	"fmt"
	"sync"
	"time"

	"github.com/millrace/millrace/topology"
)

// Snapshot is a read-only view of a task's stores as the last commit before it left them. It holds resources of the database and must be closed.
//
// A snapshot and everything made from it belong to one goroutine, which need not be the stores' owner. When the stores close while it is open, they wait
// briefly and then cut it off: every later call returns [ErrClosed].
type Snapshot struct {
	stores    *Stores
	committed committed

	mu struct {
		sync.Mutex // held during every use of the database
		err        error
		homes      map[*home]Snapshotter
		walks      map[*walk]struct{}
	}
	released chan struct{} // closed by Close
	once     sync.Once
}

// view is a store in a snapshot.
type view struct {
	snapshot *Snapshot
	store    *rowStore // only what never changes: spec, layout and home
	observed int64
	buf      []byte
}

// Snapshot returns a view of the last commit. It may be called by any goroutine.
func (s *Stores) Snapshot() (*Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.closed {
		return nil, ErrClosed
	}
	sn := &Snapshot{stores: s, committed: s.mu.committed, released: make(chan struct{})}
	sn.mu.homes = map[*home]Snapshotter{}
	sn.mu.walks = map[*walk]struct{}{}
	for _, h := range s.homes {
		db, err := h.db.Snapshot()
		if err != nil {
			sn.end(err)
			return nil, fmt.Errorf("state: snapshot of task %s: %w", s.opts.Task, err)
		}
		sn.mu.homes[h] = db
	}
	s.mu.snapshots[sn] = struct{}{}
	return sn, nil
}

// Readers returns how many snapshots are open. It may be called by any goroutine.
func (s *Stores) Readers() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.mu.snapshots)
}

// end releases what the snapshot holds and makes later calls return err. It reports whether it was open.
func (sn *Snapshot) end(err error) bool {
	sn.mu.Lock()
	defer sn.mu.Unlock()
	if sn.mu.err != nil {
		return false
	}
	sn.mu.err = err
	for w := range sn.mu.walks {
		_ = w.cur.Close() // the walk's own error was told to its reader
		w.cur, w.closed = nil, true
	}
	clear(sn.mu.walks)
	for _, db := range sn.mu.homes {
		_ = db.Close()
	}
	return true
}

// Close releases the snapshot and its iterators. Closing it again does nothing.
func (sn *Snapshot) Close() error {
	sn.once.Do(func() {
		sn.end(ErrClosed)
		s := sn.stores
		s.mu.Lock()
		delete(s.mu.snapshots, sn)
		s.mu.Unlock()
		close(sn.released)
	})
	return nil
}

// InputOffsets returns the next offsets to read as of the snapshot: what it has seen of the input. The map must not be changed.
func (sn *Snapshot) InputOffsets() map[TopicPartition]int64 { return sn.committed.inputs }

// StreamTime returns the task's stream time as of the snapshot, -1 if unknown.
func (sn *Snapshot) StreamTime() int64 { return sn.committed.streamTime }

// ChangelogOffset returns the next offset of a store's changelog as of the snapshot; it is not ok if there is none.
func (sn *Snapshot) ChangelogOffset(store string) (next int64, ok bool) {
	m, ok := sn.committed.stores[store]
	return max(m.next, 0), ok && m.next >= 0
}

func (sn *Snapshot) view(name string, kind topology.StoreKind) (view, error) {
	st, err := sn.stores.Store(name)
	if err != nil {
		return view{}, err
	}
	if st.Spec().Kind != kind {
		return view{}, fmt.Errorf("%w: %q in task %s is a %s store", ErrNoStore, name, sn.stores.opts.Task, st.Spec().Kind)
	}
	return view{snapshot: sn, store: st.rows(), observed: sn.committed.stores[name].observed}, nil
}

// get reads a row. The value is the caller's.
func (v *view) get(key []byte) (value []byte, ts int64, ok bool, err error) {
	sn := v.snapshot
	sn.mu.Lock()
	defer sn.mu.Unlock()
	if sn.mu.err != nil {
		return nil, -1, false, sn.mu.err
	}
	l := &v.store.layout
	v.buf = l.appendSuffix(append(v.buf[:0], l.prefix[:]...), key)
	raw, ok, err := sn.mu.homes[v.store.home].Get(nil, v.buf)
	if err != nil || !ok {
		return nil, -1, false, err
	}
	if value, ts, ok = l.splitValue(raw); !ok {
		return nil, -1, false, v.store.home.corrupt(fmt.Sprintf("a row of store %q has no timestamp", v.store.spec.Name), nil)
	}
	return value, ts, true, nil
}

// iterate starts a walk.
func (v *view) iterate(sc scan, reverse bool) Iterator {
	sn := v.snapshot
	w := &walk{layout: &v.store.layout, view: v, path: v.store.home.path, reverse: reverse, scan: sc}
	w.scan.first, w.scan.last = w.keepBounds(sc.first, sc.last)
	w.scan.prepare(w.layout, v.observed, reverse)
	sn.mu.Lock()
	defer sn.mu.Unlock()
	if w.err = sn.mu.err; w.err == nil && !w.scan.done {
		if w.cur, w.err = sn.mu.homes[v.store.home].NewCursor(); w.err == nil {
			sn.mu.walks[w] = struct{}{}
		}
	}
	return Iterator{w, 0}
}

// next moves a walk. Key and value are copied, since the database may be cut off at any time.
func (v *view) next(w *walk) bool {
	sn := v.snapshot
	sn.mu.Lock()
	defer sn.mu.Unlock()
	if w.err == nil {
		w.err = sn.mu.err
	}
	if w.err != nil || !w.next() {
		return false
	}
	w.key, w.value = bytes.Clone(w.key), append([]byte{}, w.value...)
	return true
}

func (v *view) closeWalk(w *walk) error {
	sn := v.snapshot
	sn.mu.Lock()
	defer sn.mu.Unlock()
	if w.cur != nil && sn.mu.err == nil {
		delete(sn.mu.walks, w)
		if err := w.cur.Close(); err != nil && w.err == nil {
			w.err = err
		}
	}
	w.cur, w.closed = nil, true
	return w.err
}

// readerGrace is how long Close waits for snapshots before it cuts them off.
const readerGrace = time.Second

// Close writes restored rows that wait, makes the last commit durable and releases everything. Updates since the last commit are lost. It waits briefly for
// snapshots and then cuts them off; it reports how many in the log. Closing again returns [ErrClosed].
func (s *Stores) Close() error {
	s.mu.Lock()
	if s.mu.closed {
		s.mu.Unlock()
		return ErrClosed
	}
	s.mu.closed = true
	var readers []*Snapshot
	for sn := range s.mu.snapshots {
		readers = append(readers, sn)
	}
	s.mu.Unlock()

	var err error
	failed := s.failed != nil // and it was reported when it happened
	for _, st := range s.list {
		r := st.rows()
		if s.failed == nil {
			if err = r.settle(); err != nil {
				_ = s.fail(err)
			}
		}
		r.expireIterators(ErrClosed)
		r.err = ErrClosed
		r.set, r.restore, r.index, r.chains = newWriteSet(), nil, nil, nil
	}
	if e := s.releaseCursors(); e != nil && err == nil {
		err = e
	}
	s.cutOff(readers)
	for _, h := range s.homes {
		if e := h.db.Close(); e != nil && err == nil {
			err = fmt.Errorf("state: close %s of task %s: %w", h.path, s.opts.Task, e)
		}
	}
	s.failed = ErrClosed
	if failed {
		return nil
	}
	return err
}

// cutOff waits for the readers and ends those that stay.
func (s *Stores) cutOff(readers []*Snapshot) {
	if len(readers) == 0 {
		return
	}
	timer := time.NewTimer(readerGrace)
	defer timer.Stop()
	cut := 0
	for _, sn := range readers {
		select {
		case <-sn.released:
			continue
		default:
		}
		select {
		case <-sn.released:
		case <-timer.C:
			timer.Reset(0)
			if sn.end(ErrClosed) {
				cut++
			}
		}
	}
	if cut > 0 {
		s.log.Warn("closed stores that were still being read", "snapshots", cut)
	}
}
