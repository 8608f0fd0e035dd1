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
	return aggregate(g, "KSTREAM-AGGREGATE-", store, nil, aggregation[K, V, int64]{
		initial: zero[int64], add: func(n int64, _ K, _ V) int64 { return n + 1 }, value: serde.Int64,
	}, opts)
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
	return aggregate(g, "KSTREAM-REDUCE-", store, f, aggregation[K, V, V]{
		add: func(a V, _ K, v V) V { return f(a, v) }, first: func(v V) V { return v }, value: g.serdes.value,
	}, opts)
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
	c.own(KeyValueHandle[K, A]{kv, sd.key, sd.value, g.b})
	s := c.add(func(tg *topology.Graph) {
		c.addStore(tg, kv, store != "")
		c.node(tg, specOf(func(tk *task, n *nodeInfo) sink[K, V] { return newAggregate(tk, n, t, sd, agg) }), []string{kv.Name}, from.name)
	}, from.step)
	return &Table[K, A]{above{b: g.b, step: s, name: c.name, sources: from.sources}, sd, t, storeView(t, sd.key, sd.value)}
}

// WindowedBy groups by key and window.
func (g *Grouped[K, V]) WindowedBy(w window.Definition) *WindowedGrouped[K, V] {
	return &WindowedGrouped[K, V]{g: g, window: w}
}

// WindowedGrouped is grouped by key and window: TimeWindowedKStream. Records with a null key are dropped; a null value is counted and reaches add
// as the zero V, as in Kafka Streams. A record that is late by more than the window's grace is dropped from that window and counted.
type WindowedGrouped[K, V any] struct {
	g      *Grouped[K, V]
	window window.Definition
}

// Count counts the records of each key and window.
func (g *WindowedGrouped[K, V]) Count(store string, opts ...AggregateOption) *WindowedTable[K, int64] {
	g.g.b.waste(store, opts)
	return windowed(g, "KSTREAM-AGGREGATE-", store, nil, aggregation[K, V, int64]{
		initial: zero[int64], add: func(n int64, _ K, _ V) int64 { return n + 1 }, value: serde.Int64,
	}, opts)
}

// Reduce combines the values of each key and window.
func (g *WindowedGrouped[K, V]) Reduce(store string, f func(aggregate, value V) V, opts ...AggregateOption) *WindowedTable[K, V] {
	return windowed(g, "KSTREAM-REDUCE-", store, f, aggregation[K, V, V]{
		add: func(a V, _ K, v V) V { return f(a, v) }, first: func(v V) V { return v }, value: g.g.serdes.value,
	}, opts)
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
	kind := topology.Store{Kind: topology.WindowStore, Timestamped: true, Caching: true, Logging: true}
	var w window.Spec
	var bad error = fmt.Errorf("%w: it is nil", ErrBadWindow)
	if g.window != nil {
		if w, bad = g.window.Spec(); bad != nil {
			bad = fmt.Errorf("%w: %w", ErrBadWindow, bad)
		}
	}
	kind.WindowSize = time.Duration(w.Size) * time.Millisecond
	kind.Retention = time.Duration(w.Size+w.Grace) * time.Millisecond
	needs := kind.Retention
	c, from, sd, ws := aggregated[K, V, A](g.g, prefix, store, f, agg.value, o, kind)
	if bad != nil {
		c.mistake(bad)
	}
	if bad == nil && ws.Retention < needs {
		c.mistake(fmt.Errorf("%w: retention %v is below window size and grace, %v (F-046)", ErrBadWindow, ws.Retention, needs))
	}
	t := &tableInfo{store: ws, at: c.at, keep: true}
	c.own(WindowHandle[K, A]{ws, sd.key, sd.value, g.g.b})
	s := c.add(func(tg *topology.Graph) {
		c.addStore(tg, ws, store != "")
		c.node(tg, specOf(func(tk *task, n *nodeInfo) sink[K, V] { return newWindowAggregate(tk, n, t, sd, agg, w) }), []string{ws.Name}, from.name)
	}, from.step)
	key := window.Serde(sd.key, kind.WindowSize)
	if sd.key == nil {
		key = nil
	}
	return &WindowedTable[K, A]{
		above:  above{b: g.g.b, step: s, name: c.name, sources: from.sources, windowed: true},
		serdes: serdes[window.Windowed[K], A]{key, sd.value}, info: t, inner: sd.key,
	}
}
