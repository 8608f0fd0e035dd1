package streams

import (
	"fmt"
	"iter"

	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/streams/window"
	"github.com/millrace/millrace/topology"
)

// WindowedTable is a table with a row per key and window: what a windowed aggregation yields, KTable<Windowed<K>, V>. It is a type of its own
// because Go refuses a Table whose methods lead to a Table of a bigger key.
type WindowedTable[K, V any] struct {
	above
	serdes serdes[window.Windowed[K], V]
	info   *tableInfo
	inner  serde.Serde[K]
	end    func(start int64) int64 // of windows, in ms; nil: sessions
	closes closing
}

// closing says when the windows of a table are final.
type closing struct {
	after int64 // ms of stream time after the end of a window
	never bool
}

// Filter is [Table.Filter].
func (t *WindowedTable[K, V]) Filter(keep func(key window.Windowed[K], value V) bool, opts ...StepOption) *WindowedTable[K, V] {
	return t.filter(keep, true, opts)
}

// FilterNot is [Table.FilterNot].
func (t *WindowedTable[K, V]) FilterNot(drop func(key window.Windowed[K], value V) bool, opts ...StepOption) *WindowedTable[K, V] {
	return t.filter(drop, false, opts)
}

func (t *WindowedTable[K, V]) filter(f func(window.Windowed[K], V) bool, want bool, opts []StepOption) *WindowedTable[K, V] {
	c := t.b.operator("KTABLE-FILTER-", gather(opts, StepOption.step))
	c.need(f)
	info := t.derived()
	info.old = t.info.sendOld(false)
	a := simple(c, t.above, func(tk *task, n *nodeInfo) sink[window.Windowed[K], change[V]] {
		out := &materialized[window.Windowed[K], V]{info: info}
		return &tableFilter[window.Windowed[K], V]{base: base{tk, n}, f: f, want: want, out: out}
	})
	return &WindowedTable[K, V]{a, kept(c, t.serdes), info, t.inner, t.end, t.closes}
}

// derived is the info of a table that is made of t and has no store.
func (t *WindowedTable[K, V]) derived() *tableInfo {
	info := &tableInfo{}
	info.fromParent(t.info)
	return info
}

// MapValues is [Table.MapValues].
func (t *WindowedTable[K, V]) MapValues[U any](f func(value V) U, opts ...StepOption) *WindowedTable[K, U] {
	c := t.b.operator("KTABLE-MAPVALUES-", gather(opts, StepOption.step))
	c.need(f)
	return mapWindowed(c, t, func(_ window.Windowed[K], v V) U { return f(v) })
}

// MapValuesWithKey is [Table.MapValuesWithKey].
func (t *WindowedTable[K, V]) MapValuesWithKey[U any](f func(key window.Windowed[K], value V) U, opts ...StepOption) *WindowedTable[K, U] {
	c := t.b.operator("KTABLE-MAPVALUES-", gather(opts, StepOption.step))
	c.need(f)
	return mapWindowed(c, t, f)
}

func mapWindowed[K, V, U any](c *call, t *WindowedTable[K, V], f func(window.Windowed[K], V) U) *WindowedTable[K, U] {
	info := t.derived()
	a := simple(c, t.above, func(tk *task, n *nodeInfo) sink[window.Windowed[K], change[V]] {
		out := &materialized[window.Windowed[K], U]{info: info}
		return &tableMap[window.Windowed[K], V, U]{base: base{tk, n}, f: f, null: isNull[U](), out: out}
	})
	sd := kept(c, serdes[window.Windowed[K], U]{key: t.serdes.key})
	return &WindowedTable[K, U]{a, sd, info, t.inner, t.end, t.closes}
}

// ToStream is [Table.ToStream].
func (t *WindowedTable[K, V]) ToStream(opts ...StepOption) *WindowedStream[K, V] {
	c := t.b.operator("KTABLE-TOSTREAM-", gather(opts, StepOption.step))
	a := simple(c, t.above, func(tk *task, n *nodeInfo) sink[window.Windowed[K], change[V]] {
		return &toStream[window.Windowed[K], V]{}
	})
	return &WindowedStream[K, V]{a, kept(c, t.serdes)}
}

// WindowStore names the store of a tumbling, hopping, sliding, custom or unlimited window, for processors, tests and queries. A table that was made of
// another has none, and one of sessions has a store of another kind: using its handle is a Build error.
func (t *WindowedTable[K, V]) WindowStore() WindowHandle[K, V] {
	t.mustBe(topology.WindowStore, "SessionStore")
	return WindowHandle[K, V]{t.info.store, t.inner, t.serdes.value, t.b, t.end}
}

// SessionStore names the store of a session window, see [WindowedTable.WindowStore].
func (t *WindowedTable[K, V]) SessionStore() SessionHandle[K, V] {
	t.mustBe(topology.SessionStore, "WindowStore")
	return SessionHandle[K, V]{t.info.store, t.inner, t.serdes.value, t.b}
}

func (t *WindowedTable[K, V]) mustBe(kind topology.StoreKind, use string) {
	if t.info.store.Name != "" && t.info.store.Kind != kind {
		t.b.mistake(t.name, t.b.line(), fmt.Errorf("%w: its store is a %v store; use %s", ErrBadOption, t.info.store.Kind, use))
	}
}

// WindowedStream is a stream of windowed keys, KStream<Windowed<K>, V>. Map, SelectKey, FlatMap, GroupBy and Process lead back to a [Stream];
// [Unwindowed] does for whatever is missing here.
type WindowedStream[K, V any] struct {
	above
	serdes serdes[window.Windowed[K], V]
}

// Filter is [Stream.Filter].
func (s *WindowedStream[K, V]) Filter(keep func(key window.Windowed[K], value V) bool, opts ...StepOption) *WindowedStream[K, V] {
	return s.filter(keep, true, opts)
}

// FilterNot is [Stream.FilterNot].
func (s *WindowedStream[K, V]) FilterNot(drop func(key window.Windowed[K], value V) bool, opts ...StepOption) *WindowedStream[K, V] {
	return s.filter(drop, false, opts)
}

func (s *WindowedStream[K, V]) filter(f func(window.Windowed[K], V) bool, want bool, opts []StepOption) *WindowedStream[K, V] {
	c := s.b.operator("KSTREAM-FILTER-", gather(opts, StepOption.step))
	c.need(f)
	a := simple(c, s.above, func(t *task, n *nodeInfo) sink[window.Windowed[K], V] {
		return &filter[window.Windowed[K], V]{base: base{t, n}, f: f, want: want}
	})
	return &WindowedStream[K, V]{a, kept(c, s.serdes)}
}

// DropNulls is [Stream.DropNulls].
func (s *WindowedStream[K, V]) DropNulls(opts ...StepOption) *WindowedStream[K, V] {
	return s.FilterRecords(func(r Record[window.Windowed[K], V]) bool { return !r.NullValue }, opts...)
}

// FilterRecords is [Stream.FilterRecords].
func (s *WindowedStream[K, V]) FilterRecords(keep func(r Record[window.Windowed[K], V]) bool, opts ...StepOption) *WindowedStream[K, V] {
	c := s.b.operator("KSTREAM-FILTER-", gather(opts, StepOption.step))
	c.need(keep)
	a := simple(c, s.above, func(t *task, n *nodeInfo) sink[window.Windowed[K], V] {
		return &filterRecords[window.Windowed[K], V]{base: base{t, n}, f: keep}
	})
	return &WindowedStream[K, V]{a, kept(c, s.serdes)}
}

// MapValues is [Stream.MapValues].
func (s *WindowedStream[K, V]) MapValues[U any](f func(value V) U, opts ...StepOption) *WindowedStream[K, U] {
	c := s.b.operator("KSTREAM-MAPVALUES-", gather(opts, StepOption.step))
	c.need(f)
	a := simple(c, s.above, func(t *task, n *nodeInfo) sink[window.Windowed[K], V] {
		return &mapValues[window.Windowed[K], V, U]{base: base{t, n}, f: f, null: isNull[U]()}
	})
	return &WindowedStream[K, U]{a, kept(c, serdes[window.Windowed[K], U]{key: s.serdes.key})}
}

// MapValuesWithKey is [Stream.MapValuesWithKey].
func (s *WindowedStream[K, V]) MapValuesWithKey[U any](f func(key window.Windowed[K], value V) U, opts ...StepOption) *WindowedStream[K, U] {
	c := s.b.operator("KSTREAM-MAPVALUES-", gather(opts, StepOption.step))
	c.need(f)
	a := simple(c, s.above, func(t *task, n *nodeInfo) sink[window.Windowed[K], V] {
		return &mapValuesWithKey[window.Windowed[K], V, U]{base: base{t, n}, f: f, null: isNull[U]()}
	})
	return &WindowedStream[K, U]{a, kept(c, serdes[window.Windowed[K], U]{key: s.serdes.key})}
}

// TryMapValues is [Stream.TryMapValues].
func (s *WindowedStream[K, V]) TryMapValues[U any](f func(value V) (U, error), opts ...StepOption) *WindowedStream[K, U] {
	c := s.b.operator("KSTREAM-MAPVALUES-", gather(opts, StepOption.step))
	c.need(f)
	a := simple(c, s.above, func(t *task, n *nodeInfo) sink[window.Windowed[K], V] {
		return &tryMapValues[window.Windowed[K], V, U]{base: base{t, n}, f: f, null: isNull[U]()}
	})
	return &WindowedStream[K, U]{a, kept(c, serdes[window.Windowed[K], U]{key: s.serdes.key})}
}

// FlatMapValues is [Stream.FlatMapValues].
func (s *WindowedStream[K, V]) FlatMapValues[S ~[]U, U any](f func(value V) S, opts ...StepOption) *WindowedStream[K, U] {
	c := s.b.operator("KSTREAM-FLATMAPVALUES-", gather(opts, StepOption.step))
	c.need(f)
	return s.flatMapValues(c, func(_ window.Windowed[K], v V, emit func(U)) {
		for _, u := range f(v) {
			emit(u)
		}
	})
}

// FlatMapValuesSeq is [Stream.FlatMapValuesSeq].
func (s *WindowedStream[K, V]) FlatMapValuesSeq[U any](f func(value V) iter.Seq[U], opts ...StepOption) *WindowedStream[K, U] {
	c := s.b.operator("KSTREAM-FLATMAPVALUES-", gather(opts, StepOption.step))
	c.need(f)
	return s.flatMapValues(c, func(_ window.Windowed[K], v V, emit func(U)) {
		for u := range f(v) {
			emit(u)
		}
	})
}

func (s *WindowedStream[K, V]) flatMapValues[U any](c *call, f func(k window.Windowed[K], v V, emit func(U))) *WindowedStream[K, U] {
	a := simple(c, s.above, func(t *task, n *nodeInfo) sink[window.Windowed[K], V] { return newFlatMapValues(base{t, n}, f) })
	return &WindowedStream[K, U]{a, kept(c, serdes[window.Windowed[K], U]{key: s.serdes.key})}
}

// Peek is [Stream.Peek].
func (s *WindowedStream[K, V]) Peek(f func(key window.Windowed[K], value V), opts ...StepOption) *WindowedStream[K, V] {
	c := s.b.operator("KSTREAM-PEEK-", gather(opts, StepOption.step))
	c.need(f)
	a := simple(c, s.above, func(t *task, n *nodeInfo) sink[window.Windowed[K], V] {
		return &peek[window.Windowed[K], V]{base: base{t, n}, f: f}
	})
	return &WindowedStream[K, V]{a, kept(c, s.serdes)}
}

// ForEach is [Stream.ForEach].
func (s *WindowedStream[K, V]) ForEach(f func(key window.Windowed[K], value V), opts ...StepOption) {
	c := s.b.operator("KSTREAM-FOREACH-", gather(opts, StepOption.step))
	c.need(f)
	simple(c, s.above, func(t *task, n *nodeInfo) sink[window.Windowed[K], V] {
		return &peek[window.Windowed[K], V]{base: base{t, n}, f: f}
	})
}

// Print is [Stream.Print]. A windowed key is written as "[key@start/end]", with times in milliseconds, as in Java.
func (s *WindowedStream[K, V]) Print(label string, opts ...StepOption) {
	printer[window.Windowed[K], V](s.b.operator("KSTREAM-PRINTER-", gather(opts, StepOption.step)), s.above, label)
}

// Merge is [Stream.Merge].
func (s *WindowedStream[K, V]) Merge(other *WindowedStream[K, V], opts ...StepOption) *WindowedStream[K, V] {
	c := s.b.operator("KSTREAM-MERGE-", gather(opts, StepOption.step))
	if other == nil {
		c.mistake(fmt.Errorf("%w: the other stream is nil", ErrBadOption))
		return s
	}
	c.same(other.above)
	st := c.add(func(g *topology.Graph) {
		c.node(g, specOf(func(t *task, n *nodeInfo) sink[window.Windowed[K], V] { return &pass[window.Windowed[K], V]{} }), nil, s.name, other.name)
	}, s.step, other.step)
	st.changes = merges
	a := above{b: s.b, step: st, name: c.name, sources: copartition(s.above, other.above), rekeyed: s.rekeyed || other.rekeyed, windowed: true}
	return &WindowedStream[K, V]{a, kept(c, s.serdes)}
}

// Map is [Stream.Map].
func (s *WindowedStream[K, V]) Map[K2, V2 any](f func(key window.Windowed[K], value V) (K2, V2), opts ...RekeyOption) *Stream[K2, V2] {
	c := s.b.operator("KSTREAM-MAP-", gather(opts, RekeyOption.rekey))
	c.need(f)
	a := simple(c, s.above, func(t *task, n *nodeInfo) sink[window.Windowed[K], V] {
		return &mapBoth[window.Windowed[K], V, K2, V2]{base: base{t, n}, f: f, nullKey: isNull[K2](), nullValue: isNull[V2]()}
	})
	return rekeyed[K2, V2](c, a)
}

// MapRecords is [Stream.MapRecords].
func (s *WindowedStream[K, V]) MapRecords[K2, V2 any](f func(r Record[window.Windowed[K], V]) Record[K2, V2], opts ...RekeyOption) *Stream[K2, V2] {
	c := s.b.operator("KSTREAM-MAP-", gather(opts, RekeyOption.rekey))
	c.need(f)
	a := simple(c, s.above, func(t *task, n *nodeInfo) sink[window.Windowed[K], V] {
		return &mapRecords[window.Windowed[K], V, K2, V2]{base: base{t, n}, f: f}
	})
	return rekeyed[K2, V2](c, a)
}

// FlatMap is [Stream.FlatMap].
func (s *WindowedStream[K, V]) FlatMap[K2, V2 any](f func(key window.Windowed[K], value V, emit func(K2, V2)), opts ...RekeyOption) *Stream[K2, V2] {
	c := s.b.operator("KSTREAM-FLATMAP-", gather(opts, RekeyOption.rekey))
	c.need(f)
	a := simple(c, s.above, func(t *task, n *nodeInfo) sink[window.Windowed[K], V] { return newFlatMap(base{t, n}, f) })
	return rekeyed[K2, V2](c, a)
}

// SelectKey is [Stream.SelectKey].
func (s *WindowedStream[K, V]) SelectKey[K2 any](f func(key window.Windowed[K], value V) K2, opts ...RekeyOption) *Stream[K2, V] {
	c := s.b.operator("KSTREAM-KEY-SELECT-", gather(opts, RekeyOption.rekey))
	c.need(f)
	a := simple(c, s.above, func(t *task, n *nodeInfo) sink[window.Windowed[K], V] {
		return &selectKey[window.Windowed[K], V, K2]{base: base{t, n}, f: f, null: isNull[K2]()}
	})
	out := rekeyed[K2, V](c, a)
	if out.serdes.value == nil {
		out.serdes.value = s.serdes.value
	}
	return out
}

// GroupBy is [Stream.GroupBy].
func (s *WindowedStream[K, V]) GroupBy[K2 any](f func(key window.Windowed[K], value V) K2, opts ...GroupOption) *Grouped[K2, V] {
	c := s.b.operator("KSTREAM-KEY-SELECT-", gather(opts, GroupOption.group))
	c.need(f)
	a := simple(c, s.above, func(t *task, n *nodeInfo) sink[window.Windowed[K], V] {
		return &selectKey[window.Windowed[K], V, K2]{base: base{t, n}, f: f, null: isNull[K2]()}
	})
	a.rekeyed, a.windowed, a.step.changes = true, false, changesKey
	return grouped(c, a, serdes[K2, V]{value: s.serdes.value})
}

// To is [Stream.To]. Records are partitioned by the key within the window, as in Java.
func (s *WindowedStream[K, V]) To(topic Topic[window.Windowed[K], V], opts ...SinkOption) {
	c := s.b.operator("KSTREAM-SINK-", gather(opts, SinkOption.sink))
	c.checkTopics([]string{topic.name})
	key := serdeFor(s.b, c.name, c.at, true, c.opts.serdes, topic.key)
	value := serdeFor(s.b, c.name, c.at, false, c.opts.serdes, topic.value)
	p := partitionerOf[window.Windowed[K], V](c)
	if p == nil {
		p = topic.partitioner
	}
	c.add(func(g *topology.Graph) {
		out := sinkSpec(topic.name, false, key, value, p)
		g.Add(topology.Node{Name: c.name, Kind: topology.Sink, Topic: topic.name, At: c.at, Payload: out}, s.b.resolve(s.name))
	}, s.step)
}

// Route is [Stream.Route]. Records are partitioned by the key within the window, as in Java.
func (s *WindowedStream[K, V]) Route(f func(r Record[window.Windowed[K], V], from Origin) string, opts ...SinkOption) {
	route(s.b.operator("KSTREAM-SINK-", gather(opts, SinkOption.sink)), s.above, s.serdes, f)
}

// Process is [Stream.Process].
func (s *WindowedStream[K, V]) Process[KOut, VOut any, P Processor[window.Windowed[K], V, KOut, VOut]](newProcessor func() P, opts ...ProcessOption) *Stream[KOut, VOut] {
	c := s.b.processor("KSTREAM-PROCESSOR-", gather(opts, ProcessOption.process))
	c.need(newProcessor)
	a := addProcessor(c, s.above, func(t *task, n *nodeInfo) sink[window.Windowed[K], V] { return newProcess(base{t, n}, newProcessor) })
	return rekeyed[KOut, VOut](c, a)
}

// ProcessFunc is [Stream.ProcessFunc].
func (s *WindowedStream[K, V]) ProcessFunc[KOut, VOut any](f func(ctx *Context[KOut, VOut], r Record[window.Windowed[K], V]) error, opts ...ProcessOption) *Stream[KOut, VOut] {
	c := s.b.processor("KSTREAM-PROCESSOR-", gather(opts, ProcessOption.process))
	c.need(f)
	a := addProcessor(c, s.above, func(t *task, n *nodeInfo) sink[window.Windowed[K], V] {
		return newProcess(base{t, n}, func() processorFunc[window.Windowed[K], V, KOut, VOut] { return f })
	})
	return rekeyed[KOut, VOut](c, a)
}

// Unwindowed gives s as an ordinary stream whose keys are windowed, for the operators that [WindowedStream] lacks: Split, ToTable, joins. It
// adds no node. It is a function because as a method it would be an instantiation cycle.
func Unwindowed[K, V any](s *WindowedStream[K, V]) *Stream[window.Windowed[K], V] {
	return &Stream[window.Windowed[K], V]{s.above, s.serdes}
}
