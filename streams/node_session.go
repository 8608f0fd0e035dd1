package streams

import (
	"github.com/millrace/millrace/state"
	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/streams/window"
	"github.com/millrace/millrace/topology"
)

// sessionAggregate folds the records of a key into sessions. A record takes over the sessions that are at most one gap away: they are withdrawn, and one
// that spans them all takes their place (F-087, F-088).
type sessionAggregate[K, V, A any] struct {
	windowResults[K, A]
	sd     serdes[K, A]
	agg    aggregation[K, V, A]
	merge  func(key K, a, b A) A
	null   func(A) bool
	w      window.SessionSpec
	store  *sessionStore[K, A]
	key    []byte
	merged []span
}

// span is a session: its first and its last time, both inclusive, in ms.
type span struct{ start, end int64 }

func newSessionAggregate[K, V, A any](t *task, n *nodeInfo, info *tableInfo, sd serdes[K, A], agg aggregation[K, V, A], merge func(K, A, A) A, w window.SessionSpec, emit Emit) *sessionAggregate[K, V, A] {
	return &sessionAggregate[K, V, A]{windowResults: newWindowResults[K, A](t, n, info, emit), sd: sd, agg: agg, merge: merge, null: isNull[A](), w: w}
}

func (n *sessionAggregate[K, V, A]) open() error {
	n.store = openSession(n.t, n.table.store, n.sd.key, n.sd.value)
	n.openResults(n.store.store, n.flushed)
	return nil
}

func (n *sessionAggregate[K, V, A]) process(r rec[K, V]) {
	if r.nullKey {
		n.t.ctx.Drop("null key in an aggregation")
		return
	}
	n.enter()
	n.observed = max(n.observed, r.ts)
	closed := n.observed - n.w.Grace - n.w.Gap
	n.key = append(n.key[:0], n.store.encodeKey(r.key)...)
	whole, sum := n.find(r)
	if whole.end < closed {
		n.late(r.ts, whole.start, whole.end)
	} else {
		n.replace(whole, sum, r)
	}
	if n.onClose != nil {
		n.giveClosed(closed, r.headers)
	}
}

// find collects the sessions that a record takes over in n.merged. It returns the session that spans them and the record, and what they hold together.
func (n *sessionAggregate[K, V, A]) find(r rec[K, V]) (whole span, sum found[A]) {
	if n.agg.initial != nil {
		sum.value = n.agg.initial()
		sum.ok = n.null == nil || !n.null(sum.value)
	}
	whole = span{r.ts, r.ts}
	n.merged = n.merged[:0]
	find := n.store.store.Find
	if n.caches { // a cache shows what has expired, too
		find = n.store.store.FindHeld
	}
	it := find(n.key, r.ts-n.w.Gap, r.ts+n.w.Gap, false)
	for it.Next() {
		s := span{it.Start(), it.End()}
		n.merged = append(n.merged, s)
		whole = span{min(whole.start, s.start), max(whole.end, s.end)}
		part := n.store.decodeValue(it.Value())
		if n.agg.first != nil && !sum.ok {
			sum = found[A]{value: part, ok: true}
			continue
		}
		n.enter()
		sum.value = n.merge(r.key, sum.value, part)
		sum.ok = n.null == nil || !n.null(sum.value)
	}
	if err := it.Close(); err != nil {
		n.t.storeFailed(n.store.spec.Name, "find", err)
	}
	return whole, sum
}

// replace puts the session that a record has made in the place of those that it takes over.
func (n *sessionAggregate[K, V, A]) replace(whole span, sum found[A], r rec[K, V]) {
	if whole != (span{r.ts, r.ts}) {
		for _, s := range n.merged {
			c := change[A]{newNull: true}
			if n.table.old && !n.caches {
				c.setOld(n.store.get(n.key, s))
			}
			var none A
			n.store.put(n.key, s, none, true, r.ts, r.headers)
			n.give(r.key, s, c)
		}
	}
	n.enter()
	var c change[A]
	if n.agg.first != nil && !sum.ok {
		c.new, c.newNull = n.agg.first(r.value), r.nullValue
	} else {
		c.new = n.agg.add(sum.value, r.key, r.value)
	}
	c.newNull = c.newNull || n.null != nil && n.null(c.new)
	n.store.put(n.key, whole, c.new, c.newNull, r.ts, r.headers)
	n.give(r.key, whole, c)
}

// give hands on a change at once, with the time at which the session ends and, as in Kafka Streams, without headers.
func (n *sessionAggregate[K, V, A]) give(key K, s span, c change[A]) {
	n.sent(rec[window.Windowed[K], change[A]]{key: windowOf(key, s.start, s.end), value: c, ts: s.end})
}

func (n *sessionAggregate[K, V, A]) flushed(u *state.Update) error {
	n.enter()
	key := windowOf(n.store.decodeKey(u.Key), u.Start, u.End)
	n.forward(rec[window.Windowed[K], change[A]]{key: key, value: flushedChange(&n.store.keyValue, u), ts: u.End, headers: u.Headers})
	return nil
}

// giveClosed gives the sessions that have closed since they were last given, by their end. The end is inclusive, so it closes one millisecond later.
func (n *sessionAggregate[K, V, A]) giveClosed(closed int64, headers Headers) {
	if !n.onClose.due(n.t.ctx.Now(), closed) {
		return
	}
	from, to := max(0, n.onClose.last), closed-1 // of ends
	if to < from {
		return
	}
	// As in Kafka Streams, a store on disk gives what it still has; one in memory nothing that has expired.
	if n.table.store.InMemory {
		from = max(from, n.store.store.StreamTime()-n.table.store.Retention.Milliseconds()+1)
	} else {
		from = max(from, n.store.store.Oldest())
	}
	err := n.store.store.ByTime(from, to, func(key []byte, start, end int64, value []byte) error {
		n.enter()
		out := rec[window.Windowed[K], change[A]]{key: windowOf(n.store.decodeKey(key), start, end), ts: end, headers: headers}
		out.value.new = n.store.decodeValue(value)
		n.forward(out)
		return nil
	})
	if err != nil {
		n.t.storeFailed(n.store.spec.Name, "walk", err)
	}
	n.onClose.done(closed)
}

// sessionStore is a typed session store of a task.
type sessionStore[K, V any] struct {
	keyValue[K, V]
	store *state.Session
	view  SessionStore[K, V] // for processors
}

func openSession[K, V any](t *task, spec topology.Store, key serde.Serde[K], value serde.Serde[V]) *sessionStore[K, V] {
	if t.cfg == nil { // wired only to be checked
		return &sessionStore[K, V]{keyValue: keyValue[K, V]{t: t, spec: spec, key: key, value: value}}
	}
	if s, ok := t.stores[spec.Name].(*sessionStore[K, V]); ok {
		return s
	}
	s := &sessionStore[K, V]{keyValue: newTyped(t, spec, key, value)}
	t.openLater(spec.Name, s, func() (err error) {
		s.store, err = t.ctx.Stores.Session(spec.Name)
		return err
	})
	return s
}

func (s *sessionStore[K, V]) get(key []byte, at span) found[V] {
	b, ok, err := s.store.Get(key, at.start, at.end)
	if err != nil {
		s.t.storeFailed(s.spec.Name, "get", err)
	}
	if !ok {
		return found[V]{ts: -1}
	}
	return found[V]{s.decodeValue(b), at.end, true}
}

func (s *sessionStore[K, V]) put(key []byte, at span, value V, null bool, ts int64, headers Headers) {
	if err := s.store.Put(key, s.encodeValue(value, null), at.start, at.end, ts, headers); err != nil {
		s.t.storeFailed(s.spec.Name, "put", err)
	}
}
