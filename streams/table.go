package streams

import (
	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/topology"
)

// Table is a changelog: one row per key, changing over time. Kafka Streams' KTable. Its functions are never called for a deleted row, and
// every operator passes deletions on.
type Table[K, V any] struct {
	above
	serdes serdes[K, V]
	info   *tableInfo
	view   tableView[K, V]
}

// tableInfo is the store behind a table, which a source table may or may not need.
type tableInfo struct {
	store topology.Store
	at    string
	keep  bool // it is materialised
}

// tableView is how others look rows of a table up: in its store, or in that of a table above, through its functions (F-067, F-069).
type tableView[K, V any] struct {
	need   func()          // makes sure that there is a store
	stores func() []string // the stores that the lookup reads
	make   func(t *task) func(key K) (value V, ts int64, ok bool)
}

// storeView looks up in the table's own store.
func storeView[K, V any](info *tableInfo, key serde.Serde[K], value serde.Serde[V]) tableView[K, V] {
	return tableView[K, V]{
		need:   func() { info.keep = true },
		stores: func() []string { return []string{info.store.Name} },
		make:   func(t *task) func(K) (V, int64, bool) { return openKeyValue(t, info.store, key, value).lookup },
	}
}

// Filter keeps the rows for which keep is true. A row that stops matching is deleted from the result.
func (t *Table[K, V]) Filter(keep func(key K, value V) bool, opts ...TableOption) *Table[K, V] {
	return t.filter(keep, true, opts)
}

// FilterNot drops the rows for which drop is true.
func (t *Table[K, V]) FilterNot(drop func(key K, value V) bool, opts ...TableOption) *Table[K, V] {
	return t.filter(drop, false, opts)
}

func (t *Table[K, V]) filter(f func(key K, value V) bool, want bool, opts []TableOption) *Table[K, V] {
	c := t.b.operator("KTABLE-FILTER-", gather(opts, TableOption.table))
	c.need(f)
	return derive(c, t, func(base base, out *materialized[K, V]) sink[K, change[V]] {
		return &tableFilter[K, V]{base: base, f: f, want: want, out: out}
	}, func(k K, v V) (V, bool) { return v, f(k, v) == want })
}

// MapValues replaces the value of each row. f must be a pure function: without [Materialized] it is called again for lookups.
func (t *Table[K, V]) MapValues[U any](f func(value V) U, opts ...TableOption) *Table[K, U] {
	c := t.b.operator("KTABLE-MAPVALUES-", gather(opts, TableOption.table))
	c.need(f)
	return mapTable(c, t, func(_ K, v V) U { return f(v) })
}

// MapValuesWithKey is MapValues for an f that reads the key.
func (t *Table[K, V]) MapValuesWithKey[U any](f func(key K, value V) U, opts ...TableOption) *Table[K, U] {
	c := t.b.operator("KTABLE-MAPVALUES-", gather(opts, TableOption.table))
	c.need(f)
	return mapTable(c, t, f)
}

func mapTable[K, V, U any](c *call, t *Table[K, V], f func(K, V) U) *Table[K, U] {
	null := isNull[U]()
	return derive(c, t, func(base base, out *materialized[K, U]) sink[K, change[V]] {
		return &tableMap[K, V, U]{base: base, f: f, null: null, out: out}
	}, func(k K, v V) (U, bool) {
		u := f(k, v)
		return u, null == nil || !null(u)
	})
}

// derive adds a table operator that computes each row from one row of t, with a store if the options ask for one.
func derive[K, V, U any](c *call, t *Table[K, V], make func(base, *materialized[K, U]) sink[K, change[V]], row func(K, V) (U, bool)) *Table[K, U] {
	store := tableStore(c.opts)
	info := &tableInfo{store: store, at: c.at, keep: c.opts.hasStore}
	sd := serdes[K, U]{t.serdes.key, givenSerde[U](c, false)}
	if sd.value == nil {
		if same, ok := any(t.serdes.value).(serde.Serde[U]); ok && c.name != "" {
			sd.value = same
		}
	}
	if c.opts.hasStore {
		sd.key = serdeFor(c.b, c.name, c.at, true, nil, sd.key)
		sd.value = serdeFor(c.b, c.name, c.at, false, c.opts.serdes, sd.value)
		c.own(KeyValueHandle[K, U]{store, sd.key, sd.value, c.b})
	}
	s := c.add(func(g *topology.Graph) {
		var stores []string
		if info.keep {
			stores = []string{store.Name}
			c.addStore(g, store, true)
		}
		c.node(g, specOf(func(tk *task, n *nodeInfo) sink[K, change[V]] {
			return make(base{tk, n}, newMaterialized(tk, n, info, sd.key, sd.value))
		}), stores, t.name)
	}, t.step)
	view := storeView(info, sd.key, sd.value)
	if !info.keep {
		parent := t.view
		view = tableView[K, U]{need: parent.need, stores: parent.stores, make: func(tk *task) func(K) (U, int64, bool) {
			above := parent.make(tk)
			return func(key K) (u U, ts int64, ok bool) {
				v, ts, ok := above(key)
				if !ok {
					return u, ts, false
				}
				u, ok = row(key, v)
				return u, ts, ok
			}
		}}
	}
	return &Table[K, U]{above{b: c.b, step: s, name: c.name, sources: t.sources}, sd, info, view}
}

// ToStream gives the changes of the table as records; a deletion is a record with a null value.
func (t *Table[K, V]) ToStream(opts ...StepOption) *Stream[K, V] {
	c := t.b.operator("KTABLE-TOSTREAM-", gather(opts, StepOption.step))
	a := simple(c, t.above, func(tk *task, n *nodeInfo) sink[K, change[V]] { return &toStream[K, V]{} })
	return &Stream[K, V]{a, t.serdes}
}

// Store names the table's store for processors, tests and queries. A table read from a topic is kept in a store from then on. A derived one must have
// been given one with [Materialized]: using the handle of another is a Build error.
func (t *Table[K, V]) Store() KeyValueHandle[K, V] {
	if t.info.store.Name != "" {
		t.info.keep = true
	}
	return KeyValueHandle[K, V]{t.info.store, t.serdes.key, t.serdes.value, t.b}
}
