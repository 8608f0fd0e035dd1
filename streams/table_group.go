package streams

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"

	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/topology"
)

// GroupBy groups the rows by a new key, each with a new value, always through a repartition topic. A row for which f returns a nil key or value takes no
// part (F-062).
func (t *Table[K, V]) GroupBy[K2, V2 any](f func(key K, value V) (K2, V2), opts ...GroupOption) *GroupedTable[K2, V2] {
	c := t.b.operator("KTABLE-SELECT-", gather(opts, GroupOption.group))
	c.need(f)
	t.info.sendOld(true)
	a := simple(c, t.above, func(tk *task, n *nodeInfo) sink[K, change[V]] {
		return &groupTable[K, V, K2, V2]{base: base{tk, n}, f: f, same: sameKey[K2](), versioned: t.info.versioned, nullKey: isNull[K2](), nullValue: isNull[V2]()}
	})
	return &GroupedTable[K2, V2]{above: a, serdes: serdes[K2, V2]{givenSerde[K2](c, true), givenSerde[V2](c, false)}, topic: c.opts.name}
}

// GroupedTable is a table grouped by a new key: KGroupedTable. When a row changes, its old value is subtracted and its new one added, in
// this order; the two are one step where the group stays the same (KIP-904).
type GroupedTable[K, V any] struct {
	above
	serdes serdes[K, V]
	topic  string // name of the repartition topic that the program gave
	shared *above // below that topic, once the first aggregation has made it
}

// Count counts the rows of each group.
func (g *GroupedTable[K, V]) Count(store string, opts ...AggregateOption) *Table[K, int64] {
	return aggregateTable(g, "KTABLE-AGGREGATE-", store, tableAggregation[K, V, int64]{
		initial: zero[int64], value: serde.Int64,
		add:      func(n int64, _ K, _ V) int64 { return n + 1 },
		subtract: func(n int64, _ K, _ V) int64 { return n - 1 },
	}, opts)
}

// Reduce combines the rows of each group; subtract undoes what add did. The first value of a group is taken as it is.
func (g *GroupedTable[K, V]) Reduce(store string, add, subtract func(aggregate, value V) V, opts ...AggregateOption) *Table[K, V] {
	agg := tableAggregation[K, V, V]{value: g.serdes.value}
	if add != nil && subtract != nil {
		agg.add = func(a V, _ K, v V) V { return add(a, v) }
		agg.subtract = func(a V, _ K, v V) V { return subtract(a, v) }
		agg.first = func(v V) V { return v }
	}
	return aggregateTable(g, "KTABLE-REDUCE-", store, agg, opts)
}

// Aggregate folds the rows of each group; subtract undoes what add did. Either may be called alone: subtract for a row that left the group, add for one
// that joined it.
func (g *GroupedTable[K, V]) Aggregate[A any](store string, initial func() A, add, subtract func(aggregate A, key K, value V) A, opts ...AggregateOption) *Table[K, A] {
	agg := tableAggregation[K, V, A]{initial: initial, add: add, subtract: subtract}
	if initial == nil {
		agg.add = nil
	}
	return aggregateTable(g, "KTABLE-AGGREGATE-", store, agg, opts)
}

// tableAggregation is what the aggregation of a grouped table computes. first, if set, makes the aggregate of the first value, instead of initial and add.
type tableAggregation[K, V, A any] struct {
	initial       func() A
	add, subtract func(A, K, V) A
	first         func(V) A
	value         serde.Serde[A]
}

func aggregateTable[K, V, A any](g *GroupedTable[K, V], prefix, store string, agg tableAggregation[K, V, A], opts []AggregateOption) *Table[K, A] {
	o := gather(opts, AggregateOption.aggregate)
	kv := topology.Store{Name: store, Kind: topology.KeyValueStore, Timestamped: true, Caching: true, Logging: true}
	if store == "" {
		kv.Name = g.b.newStoreName("KTABLE-AGGREGATE-") // also of a reduce, as in Kafka Streams
	}
	o.applyStore(&kv)
	names := &call{b: g.b, opts: o}
	sinkName, sourceName := names.part("-sink", "KSTREAM-SINK-"), names.part("-source", "KSTREAM-SOURCE-")
	c := g.b.operator(prefix, o)
	c.need(agg.add)
	c.need(agg.subtract)
	key := serdeFor(g.b, c.name, c.at, true, o.serdes, g.serdes.key)
	value := serdeFor(g.b, c.name, c.at, false, o.serdes, agg.value)
	info := newTableInfo(c, kv, true)
	c.own(kv, shapeOf[K, A](rowsByKey))
	from := g.throughTopic(c, key, kv.Name, sinkName, sourceName, store != "")
	st := c.add(func(tg *topology.Graph) {
		c.addStore(tg, kv, store != "")
		c.node(tg, specOf(func(tk *task, n *nodeInfo) sink[K, change[V]] {
			return &tableAggregator[K, V, A]{base{tk, n}, agg, isNull[A](), newMaterialized(tk, n, info, key, value)}
		}), []string{kv.Name}, from.name)
	}, from.step)
	return &Table[K, A]{above{b: g.b, step: st, name: c.name, sources: from.sources}, serdes[K, A]{key, value}, info, storeView(info, key, value)}
}

// throughTopic makes the repartition topic of the grouping, which carries old and new values (F-064). If the program named it, all aggregations of the
// grouping share it.
func (g *GroupedTable[K, V]) throughTopic(c *call, key serde.Serde[K], store, sinkName, sourceName string, named bool) above {
	if g.shared != nil && g.topic != "" {
		g.b.bump(g.shared.step)
		return *g.shared
	}
	topic := g.topic
	if topic == "" {
		topic = store
		if !named && c.b.opts.requireNames {
			c.mistake(fmt.Errorf("%w: repartition topic %s-repartition; name the grouping with streams.Named", ErrNameRequired, topic))
		}
	}
	topic += "-repartition"
	value := changeSerde[V]{serdeFor(c.b, c.name, c.at, false, nil, g.serdes.value)}
	s := &step{name: sourceName, at: c.at, parents: []*step{g.step}}
	s.write = func(tg *topology.Graph) {
		if other := tg.Node(sourceName); other != nil {
			c.mistake(fmt.Errorf("%w: repartition topic %s is that of the operator at %s", ErrDuplicateName, topic, other.At))
			return
		}
		tg.AddRepartition(topic, topology.Repartition{})
		tg.Add(topology.Node{Name: sinkName, Kind: topology.Sink, Topic: topic, At: c.at, Payload: sinkSpec[K, change[V]](topic, true, key, value, nil)}, g.name)
		in := sourceSpecOf(sourceSpec[K, change[V]]{names: []string{topic}, key: key, value: value}, options{})
		tg.Add(topology.Node{Name: sourceName, Kind: topology.Source, Topics: []string{topic}, At: c.at, Payload: in})
	}
	c.b.steps = append(c.b.steps, s)
	g.shared = &above{b: c.b, step: s, name: sourceName, sources: []string{sourceName}}
	return *g.shared
}

// sameKey is made once per node: whether two keys are equal.
func sameKey[K any]() func(a, b K) bool {
	if t := reflect.TypeFor[K](); t.Comparable() && t.Kind() != reflect.Interface {
		return func(a, b K) bool { return any(a) == any(b) }
	}
	return func(a, b K) bool { return reflect.DeepEqual(a, b) }
}

// changeSerde is the form of changes on repartition topics: the new value's bytes, the old value's, and a last byte that says which are there; with both,
// the length of the new value comes first (F-064). Three more forms of that byte, which other writers may use, are read as well.
type changeSerde[V any] struct{ inner serde.Serde[V] }

const (
	oldOnly      = 0
	newOnly      = 1
	oldAndNew    = 2
	latestOffset = 3 // added to the others where a byte before says whether the change is the latest
)

// Append implements [serde.Serde].
func (s changeSerde[V]) Append(dst []byte, at serde.Place, c change[V]) (_ []byte, err error) {
	switch {
	case c.newNull && !c.hasOld:
		return dst, errors.New("a change has neither an old nor a new value")
	case c.newNull:
		dst, err = s.inner.Append(dst, at, c.old)
		return append(dst, oldOnly), err
	case !c.hasOld:
		dst, err = s.inner.Append(dst, at, c.new)
		return append(dst, newOnly), err
	}
	start := len(dst)
	if dst, err = s.inner.Append(dst, at, c.new); err != nil {
		return dst, err
	}
	n := len(dst) - start
	var length [binary.MaxVarintLen64]byte
	head := binary.PutVarint(length[:], int64(n))
	dst = append(dst, length[:head]...)
	copy(dst[start+head:], dst[start:start+n])
	copy(dst[start:], length[:head])
	dst, err = s.inner.Append(dst, at, c.old)
	return append(dst, oldAndNew), err
}

// Decode implements [serde.Serde].
func (s changeSerde[V]) Decode(at serde.Place, data []byte) (c change[V], err error) {
	if len(data) == 0 {
		return c, errors.New("a change of a table has at least one byte")
	}
	form, data := data[len(data)-1], data[:len(data)-1]
	if form >= latestOffset {
		if len(data) == 0 {
			return c, errors.New("a change of a table ends early")
		}
		form, data = form-latestOffset, data[:len(data)-1]
	}
	switch form {
	case oldOnly:
		c.newNull, c.hasOld = true, true
		c.old, err = s.inner.Decode(at, data)
	case newOnly:
		c.new, err = s.inner.Decode(at, data)
	case oldAndNew:
		n, head := binary.Varint(data)
		if head <= 0 || n < 0 || n > int64(len(data)-head) {
			return c, errors.New("a change of a table has a wrong length")
		}
		c.hasOld = true
		if c.new, err = s.inner.Decode(at, data[head:head+int(n)]); err == nil {
			c.old, err = s.inner.Decode(at, data[head+int(n):])
		}
	default:
		err = fmt.Errorf("a change of a table has the unknown form %d", form)
	}
	return c, err
}
