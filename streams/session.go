package streams

import (
	"fmt"
	"time"

	"github.com/millrace/millrace/streams/window"
	"github.com/millrace/millrace/topology"
)

// SessionGrouped is grouped by key and session: SessionWindowedKStream. Records with a null key are dropped; a null value is counted and reaches add as
// the zero V. A record takes over all sessions that are at most one gap away: each of them is withdrawn with a tombstone, then the session that spans them
// is sent. Results have the time at which their session ends. A record is late, dropped and counted, when the session that it would make ended more than
// gap and grace ago (F-087).
type SessionGrouped[K, V any] struct {
	g      *Grouped[K, V]
	window window.SessionWindows
	emit   Emit
}

// Emit sets when results are sent. It returns a changed copy.
func (g *SessionGrouped[K, V]) Emit(e Emit) *SessionGrouped[K, V] {
	return &SessionGrouped[K, V]{g.g, g.window, e}
}

// Count counts the records of each session.
func (g *SessionGrouped[K, V]) Count(store string, opts ...AggregateOption) *WindowedTable[K, int64] {
	g.g.b.waste(store, opts)
	return sessions(g, "KSTREAM-AGGREGATE-", store, counting[K, V](), func(_ K, a, b int64) int64 { return a + b }, nil, opts)
}

// Reduce combines the values of each session; f also merges sessions.
func (g *SessionGrouped[K, V]) Reduce(store string, f func(aggregate, value V) V, opts ...AggregateOption) *WindowedTable[K, V] {
	return sessions(g, "KSTREAM-REDUCE-", store, reducing[K](f, g.g.serdes.value), func(_ K, a, b V) V { return f(a, b) }, []any{f}, opts)
}

// Aggregate folds the values of each session. merge joins two sessions that grew together; it must be associative, and what initial returns must change
// nothing, as a new session is merged with those that it takes over before the record is added.
func (g *SessionGrouped[K, V]) Aggregate[A any](store string, initial func() A, add func(aggregate A, key K, value V) A, merge func(key K, a, b A) A, opts ...AggregateOption) *WindowedTable[K, A] {
	return sessions(g, "KSTREAM-AGGREGATE-", store, aggregation[K, V, A]{initial: initial, add: add}, merge, []any{initial, add, merge}, opts)
}

func sessions[K, V, A any](g *SessionGrouped[K, V], prefix, store string, agg aggregation[K, V, A], merge func(K, A, A) A, given []any, opts []AggregateOption) *WindowedTable[K, A] {
	o := gather(opts, AggregateOption.aggregate)
	w, needs, bad := sessionWindows(g.window)
	c, from, sd, ss := aggregated[K, V, A](g.g, prefix, store, nil, agg.value, o, sessionStoreOf(needs, g.emit))
	c.needAll(given...)
	c.checkWindows(&ss, needs, bad)
	if g.emit == OnWindowClose {
		ss.Caching = false // as in Kafka Streams (F-093)
	}
	t := &tableInfo{store: ss, at: c.at, keep: true}
	c.own(ss, shapeOf[K, A](rowsBySession))
	s := c.add(func(tg *topology.Graph) {
		c.addStore(tg, ss, store != "")
		c.node(tg, sessionNode(t, sd, agg, merge, w, g.emit), []string{ss.Name}, from.name)
	}, from.step)
	return sessionTable(above{b: g.g.b, step: s, name: c.name, sources: from.sources, windowed: true}, sd, t, w)
}

// needAll reports the first of some functions that is nil.
func (c *call) needAll(given ...any) {
	before := len(c.b.errs)
	for _, f := range given {
		if c.need(f); len(c.b.errs) > before {
			return
		}
	}
}

// sessionWindows resolves a definition of sessions. needs is how long they need rows to be kept.
func sessionWindows(def window.SessionWindows) (w window.SessionSpec, needs time.Duration, bad error) {
	if w, bad = def.Spec(); bad != nil {
		return w, 0, fmt.Errorf("%w: %w", ErrBadWindow, bad)
	}
	return w, time.Duration(w.Gap+w.Grace) * time.Millisecond, nil
}

// sessionStoreOf is the store of an aggregation by session.
func sessionStoreOf(retention time.Duration, emit Emit) topology.Store {
	return topology.Store{Kind: topology.SessionStore, Caching: true, Logging: true, Retention: retention, TimeIndex: emit == OnWindowClose}
}

// sessionNode is the node of an aggregation by session.
func sessionNode[K, V, A any](t *tableInfo, sd serdes[K, A], agg aggregation[K, V, A], merge func(K, A, A) A, w window.SessionSpec, emit Emit) spec {
	return specOf(func(tk *task, n *nodeInfo) sink[K, V] { return newSessionAggregate(tk, n, t, sd, agg, merge, w, emit) })
}

// sessionTable is the handle of an aggregation by session.
func sessionTable[K, A any](a above, sd serdes[K, A], t *tableInfo, w window.SessionSpec) *WindowedTable[K, A] {
	out := &WindowedTable[K, A]{above: a, info: t, inner: sd.key, closes: closing{after: w.Gap + w.Grace}}
	out.serdes.value = sd.value
	if sd.key != nil {
		out.serdes.key = window.SessionSerde(sd.key)
	}
	return out
}
