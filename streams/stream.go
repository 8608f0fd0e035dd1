package streams

import (
	"fmt"
	"io"
	"iter"
	"math"
	"reflect"
	"slices"
	"strconv"

	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/topology"
)

// serdes are what is known about the bytes of a stream at one place; nil is unknown (F-034).
type serdes[K, V any] struct {
	key   serde.Serde[K]
	value serde.Serde[V]
}

// Stream is a stream of independent records: Kafka Streams' KStream. A handle is cheap, and using it twice feeds both users.
//
// How each method treats null keys and values is told by the package comment; methods only mention where they differ.
type Stream[K, V any] struct {
	above
	serdes serdes[K, V]
}

// Filter keeps the records for which keep is true. A null value reaches keep as the zero V.
func (s *Stream[K, V]) Filter(keep func(key K, value V) bool, opts ...StepOption) *Stream[K, V] {
	c := s.b.operator("KSTREAM-FILTER-", gather(opts, StepOption.step))
	c.need(keep)
	a := simple(c, s.above, func(t *task, n *nodeInfo) sink[K, V] { return &filter[K, V]{base: base{t, n}, f: keep, want: true} })
	return &Stream[K, V]{a, kept(c, s.serdes)}
}

// FilterNot drops the records for which drop is true.
func (s *Stream[K, V]) FilterNot(drop func(key K, value V) bool, opts ...StepOption) *Stream[K, V] {
	c := s.b.operator("KSTREAM-FILTER-", gather(opts, StepOption.step))
	c.need(drop)
	a := simple(c, s.above, func(t *task, n *nodeInfo) sink[K, V] { return &filter[K, V]{base: base{t, n}, f: drop} })
	return &Stream[K, V]{a, kept(c, s.serdes)}
}

// DropNulls drops the records whose value is null: the tombstones of a table.
func (s *Stream[K, V]) DropNulls(opts ...StepOption) *Stream[K, V] {
	return s.FilterRecords(func(r Record[K, V]) bool { return !r.NullValue }, opts...)
}

// FilterRecords is Filter on the whole record: nulls, time and headers.
func (s *Stream[K, V]) FilterRecords(keep func(r Record[K, V]) bool, opts ...StepOption) *Stream[K, V] {
	c := s.b.operator("KSTREAM-FILTER-", gather(opts, StepOption.step))
	c.need(keep)
	a := simple(c, s.above, func(t *task, n *nodeInfo) sink[K, V] { return &filterRecords[K, V]{base: base{t, n}, f: keep} })
	return &Stream[K, V]{a, kept(c, s.serdes)}
}

// MapValues replaces each value. A null stays null, without a call of f; a nil that f returns is a null.
func (s *Stream[K, V]) MapValues[U any](f func(value V) U, opts ...StepOption) *Stream[K, U] {
	c := s.b.operator("KSTREAM-MAPVALUES-", gather(opts, StepOption.step))
	c.need(f)
	a := simple(c, s.above, func(t *task, n *nodeInfo) sink[K, V] {
		return &mapValues[K, V, U]{base: base{t, n}, f: f, null: isNull[U]()}
	})
	return mapped[K, V, U](c, s, a)
}

// MapValuesWithKey is MapValues for an f that reads the key.
func (s *Stream[K, V]) MapValuesWithKey[U any](f func(key K, value V) U, opts ...StepOption) *Stream[K, U] {
	c := s.b.operator("KSTREAM-MAPVALUES-", gather(opts, StepOption.step))
	c.need(f)
	a := simple(c, s.above, func(t *task, n *nodeInfo) sink[K, V] {
		return &mapValuesWithKey[K, V, U]{base: base{t, n}, f: f, null: isNull[U]()}
	})
	return mapped[K, V, U](c, s, a)
}

// TryMapValues is MapValues for an f that can fail, strconv.Atoi for one. An error goes to [Config.OnProcessError], which decides between
// stopping, skipping the record and the dead letter topic.
func (s *Stream[K, V]) TryMapValues[U any](f func(value V) (U, error), opts ...StepOption) *Stream[K, U] {
	c := s.b.operator("KSTREAM-MAPVALUES-", gather(opts, StepOption.step))
	c.need(f)
	a := simple(c, s.above, func(t *task, n *nodeInfo) sink[K, V] {
		return &tryMapValues[K, V, U]{base: base{t, n}, f: f, null: isNull[U]()}
	})
	return mapped[K, V, U](c, s, a)
}

// mapped is the stream below an operator that replaces the value and keeps the key.
func mapped[K, V, U any](c *call, s *Stream[K, V], a above) *Stream[K, U] {
	a.step.changes = changesValue
	return &Stream[K, U]{a, kept(c, serdes[K, U]{key: s.serdes.key})}
}

// kept is sd with the serdes that the options name instead of those that come down the stream.
func kept[K, V any](c *call, sd serdes[K, V]) serdes[K, V] {
	if key := givenSerde[K](c, true); key != nil {
		sd.key = key
	}
	if value := givenSerde[V](c, false); value != nil {
		sd.value = value
	}
	return sd
}

// givenSerde is the serde that the options name, nil if none does.
func givenSerde[T any](c *call, key bool) serde.Serde[T] {
	for _, g := range c.opts.serdes {
		if g.key == key && !g.other {
			if s, ok := g.serde.(serde.Serde[T]); ok {
				return s
			}
			c.mistake(wrongSerde(g, reflect.TypeFor[T]()))
		}
	}
	return nil
}

// FlatMapValues replaces each value by any number of values, in order. A null gives none.
func (s *Stream[K, V]) FlatMapValues[S ~[]U, U any](f func(value V) S, opts ...StepOption) *Stream[K, U] {
	c := s.b.operator("KSTREAM-FLATMAPVALUES-", gather(opts, StepOption.step))
	c.need(f)
	return s.flatMapValues(c, func(_ K, v V, emit func(U)) {
		for _, u := range f(v) {
			emit(u)
		}
	})
}

// FlatMapValuesSeq is FlatMapValues over an iterator, such as strings.FieldsSeq, which needs no slice.
func (s *Stream[K, V]) FlatMapValuesSeq[U any](f func(value V) iter.Seq[U], opts ...StepOption) *Stream[K, U] {
	c := s.b.operator("KSTREAM-FLATMAPVALUES-", gather(opts, StepOption.step))
	c.need(f)
	return s.flatMapValues(c, func(_ K, v V, emit func(U)) {
		for u := range f(v) {
			emit(u)
		}
	})
}

// FlatMapValuesWithKey is FlatMapValues for an f that reads the key.
func (s *Stream[K, V]) FlatMapValuesWithKey[S ~[]U, U any](f func(key K, value V) S, opts ...StepOption) *Stream[K, U] {
	c := s.b.operator("KSTREAM-FLATMAPVALUES-", gather(opts, StepOption.step))
	c.need(f)
	return s.flatMapValues(c, func(k K, v V, emit func(U)) {
		for _, u := range f(k, v) {
			emit(u)
		}
	})
}

func (s *Stream[K, V]) flatMapValues[U any](c *call, f func(k K, v V, emit func(U))) *Stream[K, U] {
	a := simple(c, s.above, func(t *task, n *nodeInfo) sink[K, V] { return newFlatMapValues(base{t, n}, f) })
	return mapped[K, V, U](c, s, a)
}

// Map replaces key and value. A null value reaches f as the zero V and stays null, whatever f returns beside the key.
func (s *Stream[K, V]) Map[K2, V2 any](f func(key K, value V) (K2, V2), opts ...RekeyOption) *Stream[K2, V2] {
	c := s.b.operator("KSTREAM-MAP-", gather(opts, RekeyOption.rekey))
	c.need(f)
	a := simple(c, s.above, func(t *task, n *nodeInfo) sink[K, V] {
		return &mapBoth[K, V, K2, V2]{base: base{t, n}, f: f, nullKey: isNull[K2](), nullValue: isNull[V2]()}
	})
	return rekeyed[K2, V2](c, a)
}

// TryMap is Map for an f that can fail, see TryMapValues.
func (s *Stream[K, V]) TryMap[K2, V2 any](f func(key K, value V) (K2, V2, error), opts ...RekeyOption) *Stream[K2, V2] {
	c := s.b.operator("KSTREAM-MAP-", gather(opts, RekeyOption.rekey))
	c.need(f)
	a := simple(c, s.above, func(t *task, n *nodeInfo) sink[K, V] {
		return &tryMap[K, V, K2, V2]{base: base{t, n}, f: f, nullKey: isNull[K2](), nullValue: isNull[V2]()}
	})
	return rekeyed[K2, V2](c, a)
}

// rekeyed is the stream below an operator that may change key and value.
func rekeyed[K2, V2 any](c *call, a above) *Stream[K2, V2] {
	a.rekeyed = a.rekeyed || !c.opts.keepsPlaces
	if a.step.changes == 0 { // it is no processor
		a.step.changes = changesKey
	}
	a.windowed = false
	return &Stream[K2, V2]{a, serdes[K2, V2]{givenSerde[K2](c, true), givenSerde[V2](c, false)}}
}

// FlatMap replaces each record by those that f emits, in order. A null value gives none.
func (s *Stream[K, V]) FlatMap[K2, V2 any](f func(key K, value V, emit func(K2, V2)), opts ...RekeyOption) *Stream[K2, V2] {
	c := s.b.operator("KSTREAM-FLATMAP-", gather(opts, RekeyOption.rekey))
	c.need(f)
	a := simple(c, s.above, func(t *task, n *nodeInfo) sink[K, V] { return newFlatMap(base{t, n}, f) })
	return rekeyed[K2, V2](c, a)
}

// SelectKey replaces the key. What needs records of a key together below (grouping, joins, tables) then goes through a repartition topic.
func (s *Stream[K, V]) SelectKey[K2 any](f func(key K, value V) K2, opts ...RekeyOption) *Stream[K2, V] {
	c := s.b.operator("KSTREAM-KEY-SELECT-", gather(opts, RekeyOption.rekey))
	c.need(f)
	a := simple(c, s.above, func(t *task, n *nodeInfo) sink[K, V] {
		return &selectKey[K, V, K2]{base: base{t, n}, f: f, null: isNull[K2]()}
	})
	out := rekeyed[K2, V](c, a)
	if out.serdes.value == nil {
		out.serdes.value = s.serdes.value
	}
	return out
}

// MapRecords is Map on the whole record. It sees nulls, and it may set them, the time and the headers.
func (s *Stream[K, V]) MapRecords[K2, V2 any](f func(r Record[K, V]) Record[K2, V2], opts ...RekeyOption) *Stream[K2, V2] {
	c := s.b.operator("KSTREAM-MAP-", gather(opts, RekeyOption.rekey))
	c.need(f)
	a := simple(c, s.above, func(t *task, n *nodeInfo) sink[K, V] { return &mapRecords[K, V, K2, V2]{base: base{t, n}, f: f} })
	return rekeyed[K2, V2](c, a)
}

// Peek calls f with every record and passes it on.
func (s *Stream[K, V]) Peek(f func(key K, value V), opts ...StepOption) *Stream[K, V] {
	c := s.b.operator("KSTREAM-PEEK-", gather(opts, StepOption.step))
	c.need(f)
	a := simple(c, s.above, func(t *task, n *nodeInfo) sink[K, V] { return &peek[K, V]{base: base{t, n}, f: f} })
	return &Stream[K, V]{a, kept(c, s.serdes)}
}

// ForEach calls f with every record and ends the stream.
func (s *Stream[K, V]) ForEach(f func(key K, value V), opts ...StepOption) {
	c := s.b.operator("KSTREAM-FOREACH-", gather(opts, StepOption.step))
	c.need(f)
	simple(c, s.above, func(t *task, n *nodeInfo) sink[K, V] { return &peek[K, V]{base: base{t, n}, f: f} })
}

// TryForEach is ForEach for an f that can fail, see TryMapValues.
func (s *Stream[K, V]) TryForEach(f func(key K, value V) error, opts ...StepOption) {
	c := s.b.operator("KSTREAM-FOREACH-", gather(opts, StepOption.step))
	c.need(f)
	simple(c, s.above, func(t *task, n *nodeInfo) sink[K, V] { return &tryForEach[K, V]{base: base{t, n}, f: f} })
}

// Print writes every record to [Config.Print], as "[label]: key, value"; a null is written as null.
func (s *Stream[K, V]) Print(label string, opts ...StepOption) {
	printer[K, V](s.b.operator("KSTREAM-PRINTER-", gather(opts, StepOption.step)), s.above, label)
}

func printer[K, V any](c *call, from above, label string) {
	simple(c, from, func(t *task, n *nodeInfo) sink[K, V] {
		return &tryRecord[K, V]{base: base{t, n}, f: func(r Record[K, V]) error {
			key, value := fmt.Sprint(r.Key), fmt.Sprint(r.Value)
			if r.NullKey {
				key = "null"
			}
			if r.NullValue {
				value = "null"
			}
			_, err := io.WriteString(t.cfg.print, "["+label+"]: "+key+", "+value+"\n")
			return err
		}}
	})
}

// Merge takes the records of both streams, in no promised order between the two.
func (s *Stream[K, V]) Merge(other *Stream[K, V], opts ...StepOption) *Stream[K, V] {
	c := s.b.operator("KSTREAM-MERGE-", gather(opts, StepOption.step))
	if other == nil {
		c.mistake(fmt.Errorf("%w: the other stream is nil", ErrBadOption))
		return s
	}
	c.same(other.above)
	st := c.add(func(g *topology.Graph) {
		c.node(g, specOf(func(t *task, n *nodeInfo) sink[K, V] { return &pass[K, V]{} }), nil, s.name, other.name)
	}, s.step, other.step)
	st.changes = merges
	a := above{b: s.b, step: st, name: c.name, sources: copartition(s.above, other.above), rekeyed: s.rekeyed || other.rekeyed}
	return &Stream[K, V]{a, kept(c, s.serdes)}
}

// Split opens a choice: each record goes to the first branch whose condition it meets.
func (s *Stream[K, V]) Split(opts ...StepOption) *Branches[K, V] {
	c := s.b.operator("KSTREAM-BRANCH-", gather(opts, StepOption.step))
	choice := &choice[K, V]{}
	a := simple(c, s.above, func(t *task, n *nodeInfo) sink[K, V] { return &branch[K, V]{base: base{t, n}, choice: choice} })
	return &Branches[K, V]{a, kept(c, s.serdes), choice, false}
}

// Branches is a stream being split. What no branch wants is dropped, unless there is a Default.
type Branches[K, V any] struct {
	above
	serdes    serdes[K, V]
	choice    *choice[K, V]
	defaulted bool
}

// Branch takes the records for which is is true and that no earlier branch took. With [Named], the name is appended to that of the Split; without, the
// position of the branch is, counted from 1 (F-015).
func (b *Branches[K, V]) Branch(is func(key K, value V) bool, opts ...StepOption) *Stream[K, V] {
	o := gather(opts, StepOption.step)
	if o.name == "" {
		o.name = strconv.Itoa(len(b.choice.conditions) + 1)
	}
	s := b.add(o, is)
	return s
}

// Default takes what is left. It comes last, and once.
func (b *Branches[K, V]) Default(opts ...StepOption) *Stream[K, V] {
	o := gather(opts, StepOption.step)
	if o.name == "" {
		o.name = "0"
	}
	s := b.add(o, func(K, V) bool { return true })
	b.defaulted = true
	return s
}

func (b *Branches[K, V]) add(o options, is func(key K, value V) bool) *Stream[K, V] {
	c := &call{b: b.b, name: b.name + o.name, at: b.b.line(), opts: o}
	c.need(is)
	b.b.newName("") // a branch takes one from the counter, though it is named after the split (F-015)
	if b.defaulted {
		c.mistake(ErrUnfinishedSplit)
		c.name = b.b.newName(b.name) // a name nobody has, so that there is one mistake and not two
	}
	if !b.b.built { // a topology that runs keeps its branches
		b.choice.conditions = append(b.choice.conditions, is)
	}
	a := simple(c, b.above, func(t *task, n *nodeInfo) sink[K, V] { return &pass[K, V]{} })
	return &Stream[K, V]{a, kept(c, b.serdes)}
}

// Repartition sends the stream through a topic of the application, so that records of one key meet in one task. The topic is called
// <application id>-<name>-repartition; [Unnamed] takes a generated name.
func (s *Stream[K, V]) Repartition(name string, opts ...RepartitionOption) *Stream[K, V] {
	o := gather(opts, RepartitionOption.repartition)
	if name == "" {
		name = o.name
	}
	if name == "" {
		name = s.b.newName("KSTREAM-REPARTITION-")
	}
	c := &call{b: s.b, name: name, at: s.b.line(), opts: o}
	var partitions int32
	if n := o.partitions; n != nil {
		if partitions = int32(*n); *n < 1 || *n > math.MaxInt32 {
			c.mistake(fmt.Errorf("%w: %d partitions", ErrBadOption, *n))
		}
	}
	key := serdeFor(s.b, c.name, c.at, true, o.serdes, s.serdes.key)
	value := serdeFor(s.b, c.name, c.at, false, o.serdes, s.serdes.value)
	a := repartition(c, s.above, name, key, value, topology.Repartition{Partitions: partitions}, partitionerOf[K, V](c))
	a.step.again = nil // what the program asks for stays
	return &Stream[K, V]{a, serdes[K, V]{key, value}}
}

// partitionerOf is the partitioner that the options name.
func partitionerOf[K, V any](c *call) func(Record[K, V], int) Placement {
	if c.opts.partitioner == nil {
		return nil
	}
	f, ok := c.opts.partitioner.(func(Record[K, V], int) Placement)
	if !ok {
		c.mistake(fmt.Errorf("%w: PartitionBy has %T, where the stream is of %v and %v", ErrBadOption, c.opts.partitioner, reflect.TypeFor[K](), reflect.TypeFor[V]()))
	} else {
		c.need(f)
	}
	return f
}

// To writes the stream to a topic, which must exist. The key decides about the partition, as Java's producer does it, unless the topic or an option says
// otherwise.
func (s *Stream[K, V]) To(topic Topic[K, V], opts ...SinkOption) {
	c := s.b.operator("KSTREAM-SINK-", gather(opts, SinkOption.sink))
	c.checkTopics([]string{topic.name})
	key := serdeFor(s.b, c.name, c.at, true, c.opts.serdes, topic.key)
	value := serdeFor(s.b, c.name, c.at, false, c.opts.serdes, topic.value)
	p := partitionerOf[K, V](c)
	if p == nil {
		p = topic.partitioner
	}
	c.add(func(g *topology.Graph) {
		out := sinkSpec(topic.name, false, key, value, p)
		g.Add(topology.Node{Name: c.name, Kind: topology.Sink, Topic: topic.name, At: c.at, Payload: out}, s.b.resolve(s.name))
	}, s.step)
}

// Route writes each record to the topic that f names, which must exist. Serdes are those of the stream, or [KeySerde] and [ValueSerde].
func (s *Stream[K, V]) Route(f func(r Record[K, V], from Origin) string, opts ...SinkOption) {
	route(s.b.operator("KSTREAM-SINK-", gather(opts, SinkOption.sink)), s.above, s.serdes, f)
}

func route[K, V any](c *call, from above, sd serdes[K, V], f func(r Record[K, V], from Origin) string) {
	c.need(f)
	key := serdeFor(c.b, c.name, c.at, true, c.opts.serdes, sd.key)
	value := serdeFor(c.b, c.name, c.at, false, c.opts.serdes, sd.value)
	p := partitionerOf[K, V](c)
	c.add(func(g *topology.Graph) {
		out := routeSpec(f, key, value, p)
		g.Add(topology.Node{Name: c.name, Kind: topology.Sink, Dynamic: "func", At: c.at, Payload: out}, c.b.resolve(from.name))
	}, from.step)
}

// GroupByKey groups by the present key.
func (s *Stream[K, V]) GroupByKey(opts ...GroupOption) *Grouped[K, V] {
	c := &call{b: s.b, name: s.name, at: s.b.line(), opts: gather(opts, GroupOption.group)}
	c.checkName()
	return grouped(c, s.above, s.serdes)
}

// GroupBy groups by a new key, through a repartition topic.
func (s *Stream[K, V]) GroupBy[K2 any](f func(key K, value V) K2, opts ...GroupOption) *Grouped[K2, V] {
	c := s.b.operator("KSTREAM-KEY-SELECT-", gather(opts, GroupOption.group))
	c.need(f)
	a := simple(c, s.above, func(t *task, n *nodeInfo) sink[K, V] {
		return &selectKey[K, V, K2]{base: base{t, n}, f: f, null: isNull[K2]()}
	})
	a.rekeyed, a.windowed, a.step.changes = true, false, changesKey
	return grouped(c, a, serdes[K2, V]{value: s.serdes.value})
}

func grouped[K, V any](c *call, a above, sd serdes[K, V]) *Grouped[K, V] {
	return &Grouped[K, V]{above: a, serdes: kept(c, sd), topic: c.opts.name}
}

// ToTable reads the stream as the changelog of a table: the last record of a key is its row, a null value deletes it. Records with a null key are
// dropped. After a key change it goes through a repartition topic.
func (s *Stream[K, V]) ToTable(opts ...TableOption) *Table[K, V] {
	c := s.b.operator("KSTREAM-TOTABLE-", gather(opts, TableOption.table))
	c.checkHistory()
	store := tableStore(c.opts)
	if !c.opts.hasStore {
		store.Name = s.b.newStoreName("KSTREAM-TOTABLE-")
	}
	key := serdeFor(s.b, c.name, c.at, true, c.opts.serdes, s.serdes.key)
	value := serdeFor(s.b, c.name, c.at, false, c.opts.serdes, s.serdes.value)
	from := s.above
	if s.rekeyed {
		from = repartition(c, s.above, c.name, key, value, topology.Repartition{}, nil)
	}
	t := newTableInfo(c, store, c.opts.hasStore)
	if t.keep {
		c.own(store, shapeOf[K, V](rowsByKey))
	}
	st := c.add(func(g *topology.Graph) {
		var stores []string
		if t.keep {
			stores = []string{store.Name}
			c.addStore(g, store, c.opts.hasStore)
		}
		c.node(g, specOf(func(tk *task, n *nodeInfo) sink[K, V] { return newTableSource(tk, n, t, key, value) }), stores, from.name)
	}, from.step)
	return &Table[K, V]{above{b: s.b, step: st, name: c.name, sources: from.sources}, serdes[K, V]{key, value}, t, storeView(t, key, value)}
}

// JoinTable looks the key of each record up in t, as t is at that moment. The result has the record's time and headers. A record with a null key or
// value takes no part.
func (s *Stream[K, V]) JoinTable[W, R any](t *Table[K, W], f func(value V, row W) R, opts ...LookupOption) *Stream[K, R] {
	return lookup(s, t, f, false, func(_ K, v V, w W, _ bool) R { return f(v, w) }, opts)
}

// LeftJoinTable also gives the records whose key has no row, or is null, with ok false.
func (s *Stream[K, V]) LeftJoinTable[W, R any](t *Table[K, W], f func(value V, row W, ok bool) R, opts ...LookupOption) *Stream[K, R] {
	return lookup(s, t, f, true, func(_ K, v V, w W, ok bool) R { return f(v, w, ok) }, opts)
}

// JoinTableWithKey is JoinTable for an f that reads the key.
func (s *Stream[K, V]) JoinTableWithKey[W, R any](t *Table[K, W], f func(key K, value V, row W) R, opts ...LookupOption) *Stream[K, R] {
	return lookup(s, t, f, false, func(k K, v V, w W, _ bool) R { return f(k, v, w) }, opts)
}

// LeftJoinTableWithKey is LeftJoinTable for an f that reads the key.
func (s *Stream[K, V]) LeftJoinTableWithKey[W, R any](t *Table[K, W], f func(key K, value V, row W, ok bool) R, opts ...LookupOption) *Stream[K, R] {
	return lookup(s, t, f, true, f, opts)
}

func lookup[K, V, W, R any](s *Stream[K, V], t *Table[K, W], given any, left bool, f func(K, V, W, bool) R, opts []LookupOption) *Stream[K, R] {
	o := gather(opts, LookupOption.lookup)
	from, sd := s.above, s.serdes
	before := len(s.b.errs)
	if s.rekeyed {
		c := &call{b: s.b, name: o.name, at: s.b.line(), opts: o}
		if o.name == "" {
			c.name = s.name
		}
		c.checkName()
		o = c.opts
		name := c.name
		if o.name == "" {
			name = s.name
		}
		sd.key = serdeFor(s.b, name, c.at, true, o.serdes, s.serdes.key)
		sd.value = serdeFor(s.b, name, c.at, false, o.serdes, s.serdes.value)
		from = c.throughJoinTopic(s.above, name, sd.key, sd.value)
	}
	prefix := "KSTREAM-JOIN-"
	if left {
		prefix = "KSTREAM-LEFTJOIN-"
	}
	c := s.b.operator(prefix, o)
	s.b.rename(before, s.name, c.name)
	c.need(given)
	if t == nil {
		c.mistake(fmt.Errorf("%w: the table is nil", ErrBadOption))
		return &Stream[K, R]{above: from, serdes: serdes[K, R]{key: sd.key}}
	}
	c.same(t.above)
	t.view.need()
	sources := copartition(from, t.above)
	st := c.add(func(g *topology.Graph) {
		c.node(g, specOf(func(tk *task, n *nodeInfo) sink[K, V] {
			l := &tableLookup[K, V, W, R]{base: base{tk, n}, f: f, left: left, null: isNull[R]()}
			if t.view.asOf != nil {
				l.asOf = t.view.asOf(tk)
			} else {
				l.row = t.view.make(tk)
			}
			return l
		}), t.view.stores(), from.name)
		c.copartitioned(g, sources)
	}, from.step) // the table is looked at, and does not flow: its own way does not become relaxed
	st.needs, st.relaxed = t.step, left
	return &Stream[K, R]{above{b: s.b, step: st, name: c.name, sources: sources}, serdes[K, R]{key: sd.key}}
}

// Process runs a [Processor] of yours: one per task, made by newProcessor. It may change the key.
func (s *Stream[K, V]) Process[KOut, VOut any, P Processor[K, V, KOut, VOut]](newProcessor func() P, opts ...ProcessOption) *Stream[KOut, VOut] {
	c := s.b.processor("KSTREAM-PROCESSOR-", gather(opts, ProcessOption.process))
	c.need(newProcessor)
	a := addProcessor(c, s.above, func(t *task, n *nodeInfo) sink[K, V] { return newProcess(base{t, n}, newProcessor) })
	return rekeyed[KOut, VOut](c, a)
}

// ProcessFunc is Process for a function that needs no life cycle: it may fail, forward any number of records and use stores.
func (s *Stream[K, V]) ProcessFunc[KOut, VOut any](f func(ctx *Context[KOut, VOut], r Record[K, V]) error, opts ...ProcessOption) *Stream[KOut, VOut] {
	c := s.b.processor("KSTREAM-PROCESSOR-", gather(opts, ProcessOption.process))
	c.need(f)
	a := addProcessor(c, s.above, func(t *task, n *nodeInfo) sink[K, V] {
		return newProcess(base{t, n}, func() processorFunc[K, V, KOut, VOut] { return f })
	})
	return rekeyed[KOut, VOut](c, a)
}

// ProcessValues runs a [FixedKeyProcessor] of yours. It cannot change the key, so nothing below needs a repartition.
func (s *Stream[K, V]) ProcessValues[VOut any, P FixedKeyProcessor[K, V, VOut]](newProcessor func() P, opts ...ProcessOption) *Stream[K, VOut] {
	c := s.b.processor("KSTREAM-PROCESSVALUES-", gather(opts, ProcessOption.process))
	c.need(newProcessor)
	a := addProcessor(c, s.above, func(t *task, n *nodeInfo) sink[K, V] { return newProcessValues(base{t, n}, newProcessor) })
	return mapped[K, V, VOut](c, s, a)
}

// ProcessValuesFunc is ProcessValues for a function that needs no life cycle.
func (s *Stream[K, V]) ProcessValuesFunc[VOut any](f func(ctx *FixedKeyContext[K, VOut], r FixedKeyRecord[K, V]) error, opts ...ProcessOption) *Stream[K, VOut] {
	c := s.b.processor("KSTREAM-PROCESSVALUES-", gather(opts, ProcessOption.process))
	c.need(f)
	a := addProcessor(c, s.above, func(t *task, n *nodeInfo) sink[K, V] {
		return newProcessValues(base{t, n}, func() fixedKeyFunc[K, V, VOut] { return f })
	})
	return mapped[K, V, VOut](c, s, a)
}

// processor begins the call of an operator of the user's. Unlike others it takes nothing from the counter if it has a name.
func (b *Builder) processor(prefix string, o options) *call {
	before := b.counter
	c := b.operator(prefix, o)
	if o.name != "" {
		b.counter = before
	}
	return c
}

// addProcessor adds a node with stores of the user's.
func addProcessor[K, V any](c *call, from above, make func(t *task, n *nodeInfo) sink[K, V]) above {
	var names []string
	for _, ref := range c.opts.stores {
		if name := c.declare(ref); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	s := c.add(func(g *topology.Graph) {
		names = c.declaredStores(g, names)
		c.node(g, specOf(func(t *task, n *nodeInfo) sink[K, V] {
			for _, ref := range c.opts.stores {
				ref.prepare(t)
			}
			return make(t, n)
		}), names, from.name)
	}, from.step)
	s.changes = changesValue // and perhaps the key, but Kafka Streams does not merge what is below a processor
	return above{b: c.b, step: s, name: c.name, sources: from.sources, rekeyed: from.rekeyed}
}
