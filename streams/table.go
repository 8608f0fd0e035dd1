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

// tableInfo is what the builder decides about the node behind a table while the program goes on: whether it has a store, and whether its changes carry the
// old value.
type tableInfo struct {
	store topology.Store
	at    string
	keep  bool // it is materialised
	old   bool // its changes carry the old value

	// versioned tells whether its changes may be stale: it has a versioned store, or has none and is made of a table that is so.
	versioned bool

	// derive asks the tables that this one is made of for old values; nil for one that is read from a topic or aggregated.
	derive func(force bool) bool
}

func newTableInfo(c *call, store topology.Store, keep bool) *tableInfo {
	return &tableInfo{store: store, at: c.at, keep: keep, versioned: store.Kind == topology.VersionedStore}
}

// sendOld asks for the old value in the changes of the table (F-070). A table that is read from a topic and has no store can't know it: with force it gets
// one, without it the answer is no.
func (t *tableInfo) sendOld(force bool) bool {
	if t.old {
		return true
	}
	switch {
	case t.derive != nil:
		t.old = t.derive(force)
	case t.keep || force:
		t.keep, t.old = true, true
	}
	return t.old
}

// fromParent is how a table that is made of one other, row by row, comes by old values: from its own store, or from those of the other.
func (t *tableInfo) fromParent(parent *tableInfo) {
	t.versioned = t.versioned || !t.keep && parent.versioned
	t.derive = func(force bool) bool { return t.keep || parent.sendOld(force) }
}

// tableView is how others look rows of a table up: in its store, or in that of a table above, through its functions (F-067, F-069).
type tableView[K, V any] struct {
	need   func()          // makes sure that there is a store
	stores func() []string // the stores that the lookup reads
	make   func(t *task) func(key K) found[V]

	// asOf looks up what was valid at a time; nil if the table has no history.
	asOf func(t *task) func(key K, at int64) found[V]
}

// storeView looks up in the table's own store.
func storeView[K, V any](info *tableInfo, key serde.Serde[K], value serde.Serde[V]) tableView[K, V] {
	v := tableView[K, V]{
		need:   func() { info.keep = true },
		stores: func() []string { return []string{info.store.Name} },
		make:   func(t *task) func(K) found[V] { return openKeyValue(t, info.store, key, value).lookup },
	}
	if info.store.Kind == topology.VersionedStore {
		v.asOf = func(t *task) func(K, int64) found[V] { return openKeyValue(t, info.store, key, value).lookupAsOf }
	}
	return v
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
	out := derive(c, t, func(base base, out *materialized[K, V]) sink[K, change[V]] {
		return &tableFilter[K, V]{base: base, f: f, want: want, versioned: t.info.versioned, out: out}
	}, func(k K, v V) (V, bool) { return v, f(k, v) == want })
	out.info.old = t.info.sendOld(false) // so that rows which never matched need no deletion, where that costs nothing (F-066)
	return out
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

// derived is the result of a table operator: with a store if the options ask for one.
type derived[K, R any] struct {
	serdes serdes[K, R]
	info   *tableInfo
	view   tableView[K, R]
}

// derivedTable begins the result of a table operator. sd is what is known of its serdes without the options.
func derivedTable[K, R any](c *call, sd serdes[K, R]) *derived[K, R] {
	c.checkHistory()
	if c.opts.hasStore {
		sd.key = serdeFor(c.b, c.name, c.at, true, c.opts.serdes, sd.key)
		sd.value = serdeFor(c.b, c.name, c.at, false, c.opts.serdes, sd.value)
	} else {
		sd = kept(c, sd)
	}
	d := &derived[K, R]{serdes: sd, info: newTableInfo(c, tableStore(c.opts), c.opts.hasStore)}
	if c.opts.hasStore {
		c.own(d.info.store, shapeOf[K, R](rowsByKey))
	}
	d.view = storeView(d.info, sd.key, sd.value)
	return d
}

// write adds the store and the node that gives the result.
func (d *derived[K, R]) write[V any](g *topology.Graph, c *call, make func(base, *materialized[K, R]) sink[K, change[V]], parents ...string) {
	var stores []string
	if d.info.keep {
		stores = []string{d.info.store.Name}
		c.addStore(g, d.info.store, true)
	}
	c.node(g, specOf(func(t *task, n *nodeInfo) sink[K, change[V]] {
		return make(base{t, n}, newMaterialized(t, n, d.info, d.serdes.key, d.serdes.value))
	}), stores, parents...)
}

// table is the handle of the result.
func (d *derived[K, R]) table(c *call, st *step, sources []string) *Table[K, R] {
	return &Table[K, R]{above{b: c.b, step: st, name: c.name, sources: sources}, d.serdes, d.info, d.view}
}

// derive adds a table operator that computes each row from one row of t.
func derive[K, V, U any](c *call, t *Table[K, V], make func(base, *materialized[K, U]) sink[K, change[V]], row func(K, V) (U, bool)) *Table[K, U] {
	sd := serdes[K, U]{key: t.serdes.key}
	sd.value, _ = any(t.serdes.value).(serde.Serde[U])
	d := derivedTable(c, sd)
	d.info.fromParent(t.info)
	st := c.add(func(g *topology.Graph) { d.write(g, c, make, t.name) }, t.step)
	if !d.info.keep {
		d.view = t.view.mapped(row)
	}
	return d.table(c, st, t.sources)
}

// mapped looks rows up through a function. A row for which it returns false is none.
func (v tableView[K, V]) mapped[U any](f func(K, V) (U, bool)) tableView[K, U] {
	through := func(key K, a found[V]) found[U] {
		if !a.ok {
			return found[U]{ts: -1}
		}
		if u, ok := f(key, a.value); ok {
			return found[U]{u, a.ts, true}
		}
		return found[U]{ts: -1} // what is not in the result has no time
	}
	out := tableView[K, U]{need: v.need, stores: v.stores, make: func(t *task) func(K) found[U] {
		above := v.make(t)
		return func(key K) found[U] { return through(key, above(key)) }
	}}
	if v.asOf != nil {
		out.asOf = func(t *task) func(K, int64) found[U] {
			above := v.asOf(t)
			return func(key K, at int64) found[U] { return through(key, above(key, at)) }
		}
	}
	return out
}

// ToStream gives the changes of the table as records; a deletion is a record with a null value.
func (t *Table[K, V]) ToStream(opts ...StepOption) *Stream[K, V] {
	c := t.b.operator("KTABLE-TOSTREAM-", gather(opts, StepOption.step))
	a := simple(c, t.above, func(tk *task, n *nodeInfo) sink[K, change[V]] { return &toStream[K, V]{} })
	return &Stream[K, V]{a, kept(c, t.serdes)}
}

// Store names the table's store for processors, tests and queries. A table read from a topic is kept in a store from then on. A derived one must have
// been given one with [Materialized]: using the handle of another is a Build error. After Build nothing gets a store any more.
func (t *Table[K, V]) Store() KeyValueHandle[K, V] {
	if t.info.store.Name != "" && !t.b.built {
		t.info.keep = true
	}
	return KeyValueHandle[K, V]{t.info.store, t.serdes.key, t.serdes.value, t.b}
}
