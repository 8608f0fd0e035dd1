package streams

import (
	"fmt"
	"reflect"
	"time"

	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/streams/window"
	"github.com/millrace/millrace/topology"
)

// Grouped is a stream whose records of one key are together: KGroupedStream. Records with a null key or value are dropped by its
// aggregations. An aggregation that returns nil deletes the row.
type Grouped[K, V any] struct {
	above
	serdes serdes[K, V]
	topic  string // name of the repartition topic that the program gave
	shared *above // below that topic, once the first aggregation has made it
}

// Count counts the records of each key.
func (g *Grouped[K, V]) Count(store string, opts ...AggregateOption) *Table[K, int64] {
	g.b.waste(store, opts)
	return aggregate(g, "KSTREAM-AGGREGATE-", store, nil, counting[K, V](), opts)
}

// waste takes a name from the counter for a count that has options of a store but no name for it: there a Java program has a Materialized without a name,
// with which Kafka Streams' count generates two (F-039).
func (b *Builder) waste(store string, opts []AggregateOption) {
	o := gather(opts, AggregateOption.aggregate)
	o.name = ""
	if store == "" && !reflect.DeepEqual(o, options{}) {
		b.newStoreName("")
	}
}

// Reduce combines the values of each key. The first value is taken as it is.
func (g *Grouped[K, V]) Reduce(store string, f func(aggregate, value V) V, opts ...AggregateOption) *Table[K, V] {
	return aggregate(g, "KSTREAM-REDUCE-", store, f, reducing[K](f, g.serdes.value), opts)
}

// Aggregate folds the values of each key, beginning with what initial returns.
func (g *Grouped[K, V]) Aggregate[A any](store string, initial func() A, add func(aggregate A, key K, value V) A, opts ...AggregateOption) *Table[K, A] {
	if initial == nil {
		add = nil
	}
	return aggregate(g, "KSTREAM-AGGREGATE-", store, add, aggregation[K, V, A]{initial: initial, add: add}, opts)
}

// aggregation is what an aggregating node computes. first, if set, makes the aggregate of the first value, instead of initial and add.
type aggregation[K, V, A any] struct {
	initial func() A
	add     func(A, K, V) A
	first   func(V) A
	value   serde.Serde[A] // known without options; may be nil
}

func zero[T any]() (v T) { return v }

// counting is the aggregation of Count, and reducing that of Reduce.
func counting[K, V any]() aggregation[K, V, int64] {
	return aggregation[K, V, int64]{initial: zero[int64], add: func(n int64, _ K, _ V) int64 { return n + 1 }, value: serde.Int64}
}

func reducing[K, V any](f func(aggregate, value V) V, value serde.Serde[V]) aggregation[K, V, V] {
	return aggregation[K, V, V]{add: func(a V, _ K, v V) V { return f(a, v) }, first: func(v V) V { return v }, value: value}
}

// aggregated is what all aggregations have in common: names, serdes, the repartition topic, the store.
func aggregated[K, V, A any](g *Grouped[K, V], prefix, store string, f any, value serde.Serde[A], o options, kind topology.Store) (*call, above, serdes[K, A], topology.Store) {
	if store == "" {
		kind.Name = g.b.newStoreName(prefix)
	} else {
		kind.Name = store
	}
	c := g.b.operator(prefix, o)
	if f != nil {
		c.need(f)
	}
	o.applyStore(&kind)
	key := serdeFor(g.b, c.name, c.at, true, o.serdes, g.serdes.key)
	agg := serdeFor(g.b, c.name, c.at, false, o.serdes, value)
	from := g.above
	if g.rekeyed {
		from = g.throughTopic(c, kind.Name, key)
	}
	return c, from, serdes[K, A]{key, agg}, kind
}

// throughTopic makes the repartition topic of the grouping. If the program named it, all aggregations of the grouping share it (F-041).
func (g *Grouped[K, V]) throughTopic(c *call, store string, key serde.Serde[K]) above {
	if g.shared != nil && g.topic != "" {
		for range 3 { // an aggregation takes the names of a topic from the counter also when it shares one
			g.b.newName("")
		}
		g.b.bump(g.shared.step)
		return *g.shared
	}
	prefix := g.topic
	if prefix == "" {
		prefix = store
		if topology.CheckName(store) != nil {
			prefix = c.name + "-store" // own reports the name
		}
	}
	value := serdeFor(g.b, c.name, c.at, false, nil, g.serdes.value)
	a := repartition(c, g.above, prefix, key, value, topology.Repartition{}, nil)
	g.shared = &a
	return a
}

func aggregate[K, V, A any](g *Grouped[K, V], prefix, store string, f any, agg aggregation[K, V, A], opts []AggregateOption) *Table[K, A] {
	o := gather(opts, AggregateOption.aggregate)
	kind := topology.Store{Kind: topology.KeyValueStore, Timestamped: true, Caching: true, Logging: true}
	c, from, sd, kv := aggregated[K, V, A](g, prefix, store, f, agg.value, o, kind)
	t := newTableInfo(c, kv, true)
	c.own(kv, shapeOf[K, A](rowsByKey))
	s := c.add(func(tg *topology.Graph) {
		c.addStore(tg, kv, store != "")
		c.node(tg, aggregateNode(t, sd, agg), []string{kv.Name}, from.name)
	}, from.step)
	return &Table[K, A]{above{b: g.b, step: s, name: c.name, sources: from.sources}, sd, t, storeView(t, sd.key, sd.value)}
}

// aggregateNode is the node of an aggregation without windows.
func aggregateNode[K, V, A any](t *tableInfo, sd serdes[K, A], agg aggregation[K, V, A]) spec {
	return specOf(func(tk *task, n *nodeInfo) sink[K, V] { return newAggregate(tk, n, t, sd, agg) })
}

// WindowedBy groups by key and window.
func (g *Grouped[K, V]) WindowedBy(w window.Definition) *WindowedGrouped[K, V] {
	return &WindowedGrouped[K, V]{g: g, window: w}
}

// SessionsBy groups by key and session.
func (g *Grouped[K, V]) SessionsBy(w window.SessionWindows) *SessionGrouped[K, V] {
	return &SessionGrouped[K, V]{g: g, window: w}
}

// Emit says when a windowed aggregation speaks.
type Emit uint8

const (
	// OnWindowUpdate sends every change of a window, the default.
	OnWindowUpdate Emit = iota
	// OnWindowClose sends only the final result of a window, when its end and grace have passed (KIP-825). Closed windows are looked for when a record
	// comes that is in time, and at most once per second of wall-clock time; a result has the time of its row and the headers of that record. Windows
	// whose rows have expired by then are not sent: where stream time may jump, give the aggregation a [Retention] that covers it (F-092).
	//
	// Unlimited and custom windows do not close: a Build error.
	OnWindowClose
)

// WindowedGrouped is grouped by key and window: TimeWindowedKStream. Records with a null key are dropped; with tumbling, hopping, custom and unlimited
// windows a null value is counted and reaches add as the zero V, with sliding ones it is dropped, as in Kafka Streams. A record that is late by more than
// the window's grace is dropped from that window and counted.
type WindowedGrouped[K, V any] struct {
	g      *Grouped[K, V]
	window window.Definition
	emit   Emit
}

// Emit sets when results are sent. It returns a changed copy.
func (g *WindowedGrouped[K, V]) Emit(e Emit) *WindowedGrouped[K, V] {
	return &WindowedGrouped[K, V]{g.g, g.window, e}
}

// Count counts the records of each key and window.
func (g *WindowedGrouped[K, V]) Count(store string, opts ...AggregateOption) *WindowedTable[K, int64] {
	if _, sliding := g.window.(window.SlidingWindows); !sliding { // Kafka Streams' count of sliding windows generates one
		g.g.b.waste(store, opts)
	}
	return windowed(g, "KSTREAM-AGGREGATE-", store, nil, counting[K, V](), opts)
}

// Reduce combines the values of each key and window.
func (g *WindowedGrouped[K, V]) Reduce(store string, f func(aggregate, value V) V, opts ...AggregateOption) *WindowedTable[K, V] {
	return windowed(g, "KSTREAM-REDUCE-", store, f, reducing[K](f, g.g.serdes.value), opts)
}

// Aggregate folds the values of each key and window. The key that add sees is the record's, without the window.
func (g *WindowedGrouped[K, V]) Aggregate[A any](store string, initial func() A, add func(aggregate A, key K, value V) A, opts ...AggregateOption) *WindowedTable[K, A] {
	if initial == nil {
		add = nil
	}
	return windowed(g, "KSTREAM-AGGREGATE-", store, add, aggregation[K, V, A]{initial: initial, add: add}, opts)
}

func windowed[K, V, A any](g *WindowedGrouped[K, V], prefix, store string, f any, agg aggregation[K, V, A], opts []AggregateOption) *WindowedTable[K, A] {
	o := gather(opts, AggregateOption.aggregate)
	w, needs, bad := timeWindows(g.window, g.emit)
	c, from, sd, ws := aggregated[K, V, A](g.g, prefix, store, f, agg.value, o, w.store(needs, g.emit))
	c.checkWindows(&ws, needs, bad)
	if g.emit == OnWindowClose && w.Kind == window.KindSliding {
		ws.Caching = false // as in Kafka Streams, which caches those of fixed windows (F-093)
	}
	t := &tableInfo{store: ws, at: c.at, keep: true}
	c.own(ws, shapeOf[K, A](rowsByWindow))
	s := c.add(func(tg *topology.Graph) {
		c.addStore(tg, ws, store != "")
		c.node(tg, windowNode(t, sd, agg, w, g.emit), []string{ws.Name}, from.name)
	}, from.step)
	return windowedTable(above{b: g.g.b, step: s, name: c.name, sources: from.sources, windowed: true}, sd, t, w)
}

// timeSpec is a valid definition of windows, or what there is of one that is not.
type timeSpec struct {
	window.Spec
	def window.Definition
}

// timeWindows resolves a definition. needs is how long its windows need rows to be kept.
func timeWindows(def window.Definition, emit Emit) (w timeSpec, needs time.Duration, bad error) {
	if def == nil {
		return w, 0, fmt.Errorf("%w: it is nil", ErrBadWindow)
	}
	w.def = def
	if w.Spec, bad = def.Spec(); bad != nil {
		return w, 0, fmt.Errorf("%w: %w", ErrBadWindow, bad)
	}
	ms := w.Size + w.Grace
	switch w.Kind {
	case window.KindUnlimited:
		return w, window.Unbounded, w.mustClose(emit)
	case window.KindSliding: // a record may need the window of one that is two differences older
		ms += w.Size
	}
	return w, time.Duration(ms) * time.Millisecond, w.mustClose(emit)
}

func (w timeSpec) mustClose(emit Emit) error {
	if emit == OnWindowClose && (w.Kind == window.KindUnlimited || w.Kind == window.KindCustom) {
		return fmt.Errorf("%w: OnWindowClose is for tumbling, hopping and sliding windows and for sessions", ErrBadWindow)
	}
	return nil
}

// store is the store of an aggregation by window.
func (w timeSpec) store(retention time.Duration, emit Emit) topology.Store {
	s := topology.Store{
		Kind: topology.WindowStore, Timestamped: true, Caching: true, Logging: true, Retention: retention,
		WindowSize: time.Duration(w.Size) * time.Millisecond, TimeIndex: emit == OnWindowClose,
	}
	if w.Kind == window.KindUnlimited {
		s.WindowSize = window.Unbounded
	}
	return s
}

// checkWindows reports what is wrong with windows, or with the retention that was given for them.
func (c *call) checkWindows(s *topology.Store, needs time.Duration, bad error) {
	switch {
	case bad != nil:
		c.mistake(bad)
	case s.Retention < needs:
		c.mistake(fmt.Errorf("%w: retention %v is below %v, which the windows and their grace need (F-046)", ErrBadWindow, s.Retention, needs))
	}
}

// windowNode is the node of an aggregation by window.
func windowNode[K, V, A any](t *tableInfo, sd serdes[K, A], agg aggregation[K, V, A], w timeSpec, emit Emit) spec {
	return specOf(func(tk *task, n *nodeInfo) sink[K, V] {
		if w.Kind == window.KindSliding {
			return newSlidingAggregate(tk, n, t, sd, agg, w.Spec, emit)
		}
		return newWindowAggregate(tk, n, t, sd, agg, w.Spec, emit)
	})
}

// windowedTable is the handle of an aggregation by window.
func windowedTable[K, A any](a above, sd serdes[K, A], t *tableInfo, w timeSpec) *WindowedTable[K, A] {
	out := &WindowedTable[K, A]{above: a, info: t, inner: sd.key, closes: closing{after: w.Grace, never: w.Kind == window.KindUnlimited}}
	out.serdes.value = sd.value
	if sd.key != nil && w.def != nil {
		out.serdes.key = window.SerdeOf(sd.key, w.def)
	}
	out.end = w.End
	return out
}
