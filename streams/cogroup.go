package streams

import (
	"fmt"

	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/streams/window"
	"github.com/millrace/millrace/topology"
)

// Cogrouped folds several streams of one key, each with values of its own type, into one aggregate: CogroupedKStream (KIP-150, F-074). The streams must
// have the same number of partitions; one whose key was changed goes through a repartition topic, so where there are several of those, name their
// groupings. Records with a null key or value are dropped. An aggregation that returns nil deletes the row.
type Cogrouped[K, A any] struct {
	b       *Builder
	key     serde.Serde[K] // of the first stream
	streams []*cogroupStream[K, A]
}

// cogroupStream is one stream of a cogroup. The type of its values is known to its functions only.
type cogroupStream[K, A any] struct {
	grouped  *above // that of the Grouped, by which it is told from others
	from     above
	through  func(c *call, store string, key serde.Serde[K]) above
	below    *above // its repartition topic, which all aggregations of a cogroup share
	plain    func(t *tableInfo, sd serdes[K, A], initial func() A) spec
	windowed func(t *tableInfo, sd serdes[K, A], initial func() A, w timeSpec) spec
	sessions func(t *tableInfo, sd serdes[K, A], initial func() A, merge func(K, A, A) A, w window.SessionSpec) spec
}

// Cogroup begins an aggregation over several streams, see [Cogrouped].
func (g *Grouped[K, V]) Cogroup[A any](add func(aggregate A, key K, value V) A) *Cogrouped[K, A] {
	return cogroup(&Cogrouped[K, A]{b: g.b, key: g.serdes.key}, g, add)
}

// Cogroup adds a stream and how its values are folded in. It returns a changed copy.
func (g *Cogrouped[K, A]) Cogroup[V any](other *Grouped[K, V], add func(aggregate A, key K, value V) A) *Cogrouped[K, A] {
	return cogroup(g, other, add)
}

func cogroup[K, V, A any](g *Cogrouped[K, A], other *Grouped[K, V], add func(A, K, V) A) *Cogrouped[K, A] {
	c := &call{b: g.b, name: "cogroup", at: g.b.line()}
	c.need(add)
	if other == nil {
		c.mistake(fmt.Errorf("%w: the other stream is nil", ErrBadOption))
		return g
	}
	c.same(other.above)
	for _, s := range g.streams {
		if s.grouped == &other.above {
			c.mistake(fmt.Errorf("%w: the stream below %s is in the cogroup already, and its records would be folded in twice", ErrBadOption, other.name))
			return g
		}
	}
	s := &cogroupStream[K, A]{grouped: &other.above, from: other.above}
	if other.rekeyed {
		s.through = other.throughTopic
	}
	of := func(initial func() A) aggregation[K, V, A] { return aggregation[K, V, A]{initial: initial, add: add} }
	s.plain = func(t *tableInfo, sd serdes[K, A], initial func() A) spec { return aggregateNode(t, sd, of(initial)) }
	s.windowed = func(t *tableInfo, sd serdes[K, A], initial func() A, w timeSpec) spec {
		return windowNode(t, sd, of(initial), w, OnWindowUpdate)
	}
	s.sessions = func(t *tableInfo, sd serdes[K, A], initial func() A, merge func(K, A, A) A, w window.SessionSpec) spec {
		return sessionNode(t, sd, of(initial), merge, w, OnWindowUpdate)
	}
	return &Cogrouped[K, A]{g.b, g.key, append(g.streams[:len(g.streams):len(g.streams)], s)}
}

// Aggregate keeps the aggregate of each key, beginning with what initial returns.
func (g *Cogrouped[K, A]) Aggregate(store string, initial func() A, opts ...AggregateOption) *Table[K, A] {
	kind := topology.Store{Kind: topology.KeyValueStore, Timestamped: true, Caching: true, Logging: true}
	m := g.aggregate(store, kind, opts, initial)
	t := newTableInfo(m.call, m.store, true)
	m.own(m.store, shapeOf[K, A](rowsByKey))
	out := m.add(mergeNode[K, A](), func(s *cogroupStream[K, A]) spec { return s.plain(t, m.sd, initial) })
	return &Table[K, A]{out, m.sd, t, storeView(t, m.sd.key, m.sd.value)}
}

// WindowedBy aggregates by key and window.
func (g *Cogrouped[K, A]) WindowedBy(w window.Definition) *WindowedCogrouped[K, A] {
	return &WindowedCogrouped[K, A]{g, w}
}

// SessionsBy aggregates by key and session.
func (g *Cogrouped[K, A]) SessionsBy(w window.SessionWindows) *SessionCogrouped[K, A] {
	return &SessionCogrouped[K, A]{g, w}
}

// WindowedCogrouped is a [Cogrouped] by window: TimeWindowedCogroupedKStream (F-075). Nulls and late records are treated as by [WindowedGrouped]; each
// stream has a time of its own, by which its records are late.
type WindowedCogrouped[K, A any] struct {
	g      *Cogrouped[K, A]
	window window.Definition
}

// Aggregate keeps the aggregate of each key and window.
func (g *WindowedCogrouped[K, A]) Aggregate(store string, initial func() A, opts ...AggregateOption) *WindowedTable[K, A] {
	w, needs, bad := timeWindows(g.window, OnWindowUpdate)
	m := g.g.aggregate(store, w.store(needs, OnWindowUpdate), opts, initial)
	m.checkWindows(&m.store, needs, bad)
	t := &tableInfo{store: m.store, at: m.at, keep: true}
	m.own(m.store, shapeOf[K, A](rowsByWindow))
	out := m.add(mergeNode[window.Windowed[K], A](), func(s *cogroupStream[K, A]) spec { return s.windowed(t, m.sd, initial, w) })
	out.windowed = true
	return windowedTable(out, m.sd, t, w)
}

// SessionCogrouped is a [Cogrouped] by session: SessionWindowedCogroupedKStream (F-075). Nulls and late records are treated as by [SessionGrouped]; each
// stream has a time of its own, by which its records are late.
type SessionCogrouped[K, A any] struct {
	g      *Cogrouped[K, A]
	window window.SessionWindows
}

// Aggregate keeps the aggregate of each session; merge joins two, see [SessionGrouped.Aggregate].
func (g *SessionCogrouped[K, A]) Aggregate(store string, initial func() A, merge func(key K, a, b A) A, opts ...AggregateOption) *WindowedTable[K, A] {
	w, needs, bad := sessionWindows(g.window)
	m := g.g.aggregate(store, sessionStoreOf(needs, OnWindowUpdate), opts, initial, merge)
	m.checkWindows(&m.store, needs, bad)
	t := &tableInfo{store: m.store, at: m.at, keep: true}
	m.own(m.store, shapeOf[K, A](rowsBySession))
	out := m.add(mergeNode[window.Windowed[K], A](), func(s *cogroupStream[K, A]) spec { return s.sessions(t, m.sd, initial, merge, w) })
	out.windowed = true
	return sessionTable(out, m.sd, t, w)
}

// mergeNode is the node that all streams of a cogroup end in.
func mergeNode[K, A any]() spec {
	return specOf(func(*task, *nodeInfo) sink[K, change[A]] { return &pass[K, change[A]]{} })
}

// cogrouping is an aggregation of a cogroup under way. Each stream has a node that changes the store, and one node merges what they give.
type cogrouping[K, A any] struct {
	*call   // its name is that of the merging node
	named   bool
	store   topology.Store
	sd      serdes[K, A]
	streams []*cogroupStream[K, A]
	from    []above
	nodes   []string
}

// aggregate takes names in the order of Kafka Streams: the store, the repartition topics, a node per stream, the merge.
func (g *Cogrouped[K, A]) aggregate(store string, kind topology.Store, opts []AggregateOption, given ...any) *cogrouping[K, A] {
	o := gather(opts, AggregateOption.aggregate)
	c := &call{b: g.b, at: g.b.line(), opts: o}
	before := len(g.b.errs)
	c.checkName()
	kind.Name = store
	if store == "" {
		kind.Name = g.b.newStoreName("COGROUPKSTREAM-AGGREGATE-")
	}
	o.applyStore(&kind)
	m := &cogrouping[K, A]{call: c, named: store != "", store: kind, streams: g.streams}
	m.sd.key = serdeFor(g.b, c.name, c.at, true, o.serdes, g.key)
	m.sd.value = serdeFor[A](g.b, c.name, c.at, false, o.serdes, nil)
	for _, s := range g.streams {
		m.from = append(m.from, s.parent(c, kind.Name, m.sd.key))
	}
	for i := range g.streams {
		m.nodes = append(m.nodes, c.part(fmt.Sprintf("-cogroup-agg-%d", i), "COGROUPKSTREAM-AGGREGATE-"))
	}
	c.name = c.part("-cogroup-merge", "COGROUPKSTREAM-MERGE-")
	g.b.rename(before, "", c.name)
	c.needAll(given...)
	return m
}

// parent is the place below which the node of a stream goes.
func (s *cogroupStream[K, A]) parent(c *call, store string, key serde.Serde[K]) above {
	switch {
	case s.through == nil:
		return s.from
	case s.below == nil:
		a := s.through(c, store, key)
		s.below = &a
	default: // an aggregation takes the names of a topic from the counter also when it shares one
		for range 3 {
			c.b.newName("")
		}
	}
	return *s.below
}

func (m *cogrouping[K, A]) add(merge spec, node func(*cogroupStream[K, A]) spec) above {
	sources := copartition(m.from...)
	var parents []*step
	for _, f := range m.from {
		parents = append(parents, f.step)
	}
	s := m.call.add(func(g *topology.Graph) {
		m.addStore(g, m.store, m.named)
		for i, s := range m.streams {
			m.nodeNamed(g, m.nodes[i], node(s), []string{m.store.Name}, m.from[i].name)
		}
		m.node(g, merge, nil, m.nodes...)
		m.copartitioned(g, sources)
	}, parents...)
	return above{b: m.b, step: s, name: m.name, sources: sources}
}
