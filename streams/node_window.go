package streams

import (
	"fmt"
	"math"
	"time"

	"github.com/millrace/millrace/state"
	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/streams/window"
	"github.com/millrace/millrace/tasks"
	"github.com/millrace/millrace/topology"
)

// windowResults is how the rows of a windowed aggregation leave its node: at each update, when the store is flushed, or when their window has closed.
type windowResults[K, A any] struct {
	base
	children[window.Windowed[K], change[A]]
	table    *tableInfo
	caches   bool
	onClose  *closeTracker // nil: updates are given
	observed int64         // highest time this node has seen; unknown after a start
}

func newWindowResults[K, A any](t *task, n *nodeInfo, table *tableInfo, emit Emit) windowResults[K, A] {
	r := windowResults[K, A]{base: base{t, n}, table: table, observed: -1}
	if emit == OnWindowClose {
		r.onClose = &closeTracker{last: -1}
	}
	return r
}

// openResults finds out how rows leave. flushed is told of those that a cache lets go.
func (n *windowResults[K, A]) openResults(store state.Store, flushed state.FlushFunc) {
	if n.onClose != nil {
		n.onClose.open(n.t, n.table.store.Name)
	} else if n.caches = n.table.store.Caching && n.t.cfg.caching; n.caches {
		store.SetFlushListener(n.t.flushes(flushed), n.table.old)
	}
}

// sent hands on the change of a row that was put, unless a cache will do it or it waits for its window to close.
func (n *windowResults[K, A]) sent(r rec[window.Windowed[K], change[A]]) {
	if n.caches || n.onClose != nil {
		return
	}
	if !n.table.old {
		r.value = r.value.withoutOld()
	}
	n.forward(r)
}

// keepsExpired reports whether windows that have expired before they could be given are kept.
func (n *windowResults[K, A]) keepsExpired() bool { return n.table.store.Caching && n.t.cfg.caching }

// late counts a record that came too late for a window.
func (n *windowResults[K, A]) late(ts, start, end int64) {
	n.t.ctx.Drop("late for its window")
	n.t.log.Debug("record is late for its window", "node", n.info.name, "time", ts, "window start", start, "window end", end, "stream time", n.observed)
}

// flushedChange is what a cache lets go.
func flushedChange[K, A any](s *keyValue[K, A], u *state.Update) (c change[A]) {
	if u.New == nil {
		c.newNull = true
	} else {
		c.new = s.decodeValue(u.New)
	}
	if u.Old != nil {
		c.old, c.hasOld = s.decodeValue(u.Old), true
	}
	return c
}

// windowAggregate folds the records of a key and window into a row (F-080…F-083, F-089, F-094).
type windowAggregate[K, V, A any] struct {
	windowResults[K, A]
	sd    serdes[K, A]
	agg   aggregation[K, V, A]
	null  func(A) bool
	w     window.Spec
	store *windowStore[K, A]
	key   []byte // of the record at hand; the store's own buffer may be used again by a child that reads the store
}

func newWindowAggregate[K, V, A any](t *task, n *nodeInfo, info *tableInfo, sd serdes[K, A], agg aggregation[K, V, A], w window.Spec, emit Emit) *windowAggregate[K, V, A] {
	return &windowAggregate[K, V, A]{windowResults: newWindowResults[K, A](t, n, info, emit), sd: sd, agg: agg, null: isNull[A](), w: w}
}

func (n *windowAggregate[K, V, A]) open() error {
	n.store = openWindow(n.t, n.table.store, n.sd.key, n.sd.value)
	n.openResults(n.store.store, n.flushed)
	if n.onClose != nil && n.keepsExpired() {
		n.store.store.KeepFrom(n.closedFrom())
	}
	return nil
}

func (n *windowAggregate[K, V, A]) process(r rec[K, V]) {
	if r.nullKey {
		n.t.ctx.Drop("null key in an aggregation")
		return
	}
	n.enter()
	n.observed = max(n.observed, r.ts)
	n.key = append(n.key[:0], n.store.encodeKey(r.key)...)
	switch n.w.Kind {
	case window.KindUnlimited:
		if r.ts >= n.w.Start {
			n.take(n.w.Start, math.MaxInt64, r)
		}
	case window.KindCustom:
		if err := n.w.Assign(r.ts, func(start, end int64) { n.take(start, end, r) }); err != nil {
			tasks.Throw(fmt.Errorf("%s: %w", n.info.name, err))
		}
	default:
		for start := firstWindow(n.w, r.ts); start <= r.ts; start += n.w.Advance {
			n.take(start, start+n.w.Size, r)
		}
	}
	if n.onClose != nil {
		n.giveClosed(r)
	}
}

// firstWindow is the start of the first fixed window that contains a time.
func firstWindow(w window.Spec, ts int64) int64 {
	return max(0, ts-w.Size+w.Advance) / w.Advance * w.Advance
}

// take adds a record to the window start..end, unless that has closed.
func (n *windowAggregate[K, V, A]) take(start, end int64, r rec[K, V]) {
	if end <= n.observed-n.w.Grace {
		n.late(r.ts, start, end)
		return
	}
	n.enter()
	c, ts := n.agg.fold(n.store.get(n.key, start), r, n.null)
	n.store.put(n.key, start, c.new, c.newNull, c.storedAt(ts, r.ts), r.headers)
	n.sent(rec[window.Windowed[K], change[A]]{key: windowOf(r.key, start, end), value: c, ts: ts, headers: r.headers})
}

func (n *windowAggregate[K, V, A]) flushed(u *state.Update) error {
	n.enter()
	key := windowOf(n.store.decodeKey(u.Key), u.Start, n.w.End(u.Start))
	n.forward(rec[window.Windowed[K], change[A]]{key: key, value: flushedChange(&n.store.keyValue, u), ts: u.Timestamp, headers: u.Headers})
	return nil
}

// giveClosed gives the windows that have closed since they were last given, with the headers of the record that made time pass.
func (n *windowAggregate[K, V, A]) giveClosed(r rec[K, V]) {
	closed := n.observed - n.w.Grace
	if !n.onClose.due(n.t.ctx.Now(), closed) {
		return
	}
	from, to := n.closedFrom(), closed-n.w.Size // of starts
	if to < 0 || n.onClose.last >= 0 && sameWindows(n.w, from-1, to) {
		return
	}
	giveRows(&n.windowResults, n.store, n.w, from, to, r.headers)
	n.onClose.done(closed)
}

// closedFrom is the start of the first window that may have to be given.
func (n *windowAggregate[K, V, A]) closedFrom() int64 {
	if n.onClose.last < 0 {
		return 0
	}
	return max(0, n.onClose.last-n.w.Size) + 1
}

// sameWindows reports whether two times lie in the same windows.
func sameWindows(w window.Spec, a, b int64) bool {
	return a/w.Advance == b/w.Advance && firstWindow(w, a) == firstWindow(w, b)
}

// giveRows hands on the rows of windows that start in from..to, in the order of starts. As in Kafka Streams, rows that have expired are given only if the
// store has a cache; then they are kept until they have been given.
func giveRows[K, A any](n *windowResults[K, A], s *windowStore[K, A], w window.Spec, from, to int64, headers Headers) {
	if n.keepsExpired() {
		s.store.KeepFrom(to + 1)
	} else {
		live := s.store.StreamTime() - n.table.store.Retention.Milliseconds()
		if n.table.store.InMemory { // where a row lives a millisecond less
			live++
		}
		from = max(from, live)
	}
	err := s.store.ByTime(from, to, func(key []byte, start int64, value []byte, ts int64) error {
		n.enter()
		out := rec[window.Windowed[K], change[A]]{key: windowOf(s.decodeKey(key), start, w.End(start)), ts: ts, headers: headers}
		out.value.new = s.decodeValue(value)
		n.forward(out)
		return nil
	})
	if err != nil {
		n.t.storeFailed(s.spec.Name, "walk", err)
	}
}

// closeTracker says when to look for windows that have closed: when a record comes, and at most once per second of wall-clock time (F-092).
type closeTracker struct {
	t     *task
	store string
	last  int64 // up to where closed windows were given; -1 unknown. It is part of what a commit keeps.
	next  int64 // wall-clock ms of the next look
}

func (c *closeTracker) open(t *task, store string) {
	c.t, c.store = t, store
	if last, ok := t.ctx.Metadata(store); ok {
		c.last = last
	}
}

// due reports whether it is time to look, and something may have closed.
func (c *closeTracker) due(now, closed int64) bool {
	if now < c.next {
		return false
	}
	c.next = now + emitInterval
	return c.last < 0 || c.last < closed
}

// done notes up to where closed windows were given.
func (c *closeTracker) done(closed int64) {
	c.last = closed
	c.t.ctx.SetMetadata(c.store, closed)
}

func windowOf[K any](key K, start, end int64) window.Windowed[K] {
	return window.Windowed[K]{Key: key, Start: time.UnixMilli(start).UTC(), End: time.UnixMilli(end).UTC()}
}

// windowStore is a typed window store of a task.
type windowStore[K, V any] struct {
	keyValue[K, V]
	store *state.Window
	view  WindowStore[K, V] // for processors
}

func openWindow[K, V any](t *task, spec topology.Store, key serde.Serde[K], value serde.Serde[V]) *windowStore[K, V] {
	if t.cfg == nil { // wired only to be checked
		return &windowStore[K, V]{keyValue: keyValue[K, V]{t: t, spec: spec, key: key, value: value}}
	}
	if s, ok := t.stores[spec.Name].(*windowStore[K, V]); ok {
		return s
	}
	s := &windowStore[K, V]{keyValue: newTyped(t, spec, key, value)}
	t.openLater(spec.Name, s, func() (err error) {
		s.store, err = t.ctx.Stores.Window(spec.Name)
		return err
	})
	return s
}

// newTyped is what typed stores of all kinds have in common.
func newTyped[K, V any](t *task, spec topology.Store, key serde.Serde[K], value serde.Serde[V]) keyValue[K, V] {
	topic := t.placeOf(spec)
	return keyValue[K, V]{t: t, spec: spec, key: key, value: value, keyPlace: serde.Place{Topic: topic, Key: true}, place: serde.Place{Topic: topic}}
}

// openLater notes a typed store of the task and how it is opened: when the task is, or at once if it is open already.
func (t *task) openLater(name string, s any, open func() error) {
	t.onlyOnce(name)
	t.stores[name] = s
	t.onOpen = append(t.onOpen, open)
	if t.ctx != nil {
		if err := t.openStores(); err != nil {
			t.storeFailed(name, "open", err)
		}
	}
}

func (s *windowStore[K, V]) get(key []byte, start int64) found[V] {
	b, ts, ok, err := s.store.Get(key, start)
	if err != nil {
		s.t.storeFailed(s.spec.Name, "get", err)
	}
	if !ok {
		return found[V]{ts: -1}
	}
	return found[V]{s.decodeValue(b), ts, true}
}

func (s *windowStore[K, V]) put(key []byte, start int64, value V, null bool, ts int64, headers Headers) {
	if err := s.store.Put(key, s.encodeValue(value, null), start, ts, headers); err != nil {
		s.t.storeFailed(s.spec.Name, "put", err)
	}
}
