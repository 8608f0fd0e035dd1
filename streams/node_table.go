package streams

import (
	"fmt"
	"math"

	"github.com/millrace/millrace/state"
	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/tasks"
	"github.com/millrace/millrace/topology"
)

// tableSource keeps the latest value of each key, if the table is materialised, and hands changes on (F-005).
type tableSource[K, V any] struct {
	base
	out *materialized[K, V]
}

func newTableSource[K, V any](t *task, n *nodeInfo, info *tableInfo, key serde.Serde[K], value serde.Serde[V]) *tableSource[K, V] {
	return &tableSource[K, V]{base{t, n}, newMaterialized(t, n, info, key, value)}
}

func (s *tableSource[K, V]) attach(child sink[K, change[V]]) { s.out.attach(child) }
func (s *tableSource[K, V]) open() error                     { return s.out.open() }

func (s *tableSource[K, V]) process(r rec[K, V]) {
	if r.nullKey {
		s.t.ctx.Drop("null key in a table")
		return
	}
	c := change[V]{new: r.value, newNull: r.nullValue}
	if s.out.wantsOld() {
		c.setOld(s.out.kv.lookup(r.key))
	}
	s.out.set(rec[K, change[V]]{key: r.key, value: c, ts: r.ts, headers: r.headers})
}

// materialized hands changes of a table on: at once, or through a store of its own, which with caching does it when it is flushed.
type materialized[K, V any] struct {
	children[K, change[V]]
	base
	info *tableInfo
	key  serde.Serde[K]
	val  serde.Serde[V]
	kv   *keyValue[K, V] // nil: no store
}

func newMaterialized[K, V any](t *task, n *nodeInfo, info *tableInfo, key serde.Serde[K], value serde.Serde[V]) *materialized[K, V] {
	return &materialized[K, V]{base: base{t, n}, info: info, key: key, val: value}
}

func (m *materialized[K, V]) open() error {
	if m.info == nil || !m.info.keep {
		return nil
	}
	m.kv = openKeyValue(m.t, m.info.store, m.key, m.val)
	if m.kv.versions != nil {
		m.kv.versions.SetDropListener(func(int64, int64) { m.t.ctx.Drop("older than the history of a versioned table") })
	}
	if m.caches() {
		m.kv.store.SetFlushListener(m.t.flushes(m.flushed), m.info.old)
	}
	return nil
}

// caches reports whether changes are handed on when the store is flushed, and not at once.
func (m *materialized[K, V]) caches() bool { return m.info.store.Caching && m.t.cfg.caching }

// wantsOld reports whether the node must look up the old value of a row itself, as its changes carry it and no cache knows it.
func (m *materialized[K, V]) wantsOld() bool { return m.kv != nil && m.info.old && !m.caches() }

// set puts a row and hands the change on.
func (m *materialized[K, V]) set(r rec[K, change[V]]) {
	if m.kv == nil {
		m.forward(r)
		return
	}
	m.sent(r, m.kv.put(r.key, r.value.new, r.value.newNull, r.ts, r.headers))
}

// sent hands on the change of a row that was put, unless a cache will do it or the row came too late for its history.
func (m *materialized[K, V]) sent(r rec[K, change[V]], put putResult) {
	if m.caches() || put == notPut {
		return
	}
	r.value.stale = put == putStale
	if !m.info.old {
		r.value = r.value.withoutOld()
	}
	m.forward(r)
}

// flushed takes a row that the cache lets go.
func (m *materialized[K, V]) flushed(u *state.Update) error {
	m.enter()
	r := rec[K, change[V]]{ts: u.Timestamp, headers: u.Headers}
	r.key = m.kv.decodeKey(u.Key)
	if u.New == nil {
		r.value.newNull = true
	} else {
		r.value.new = m.kv.decodeValue(u.New)
	}
	if u.Old != nil {
		r.value.old, r.value.hasOld = m.kv.decodeValue(u.Old), true
	}
	m.forward(r)
	return nil
}

// found is a row as a store has it: a value and its time, or nothing.
type found[V any] struct {
	value V
	ts    int64 // -1 if there is none
	ok    bool
}

// fold is the change that a record makes to a row, and the time of the result (F-058). The old value of a row that did not exist is what initial
// returned, as in Kafka Streams; it is only seen without a cache.
func (a *aggregation[K, V, A]) fold(row found[A], r rec[K, V], null func(A) bool) (c change[A], ts int64) {
	switch {
	case row.ok:
		c.old, c.hasOld = row.value, true
	case a.first != nil:
		c.new = a.first(r.value)
		c.newNull = r.nullValue || null != nil && null(c.new)
		return c, r.ts
	default:
		c.old = a.initial()
		c.hasOld = null == nil || !null(c.old)
	}
	c.new = a.add(c.old, r.key, r.value)
	c.newNull = null != nil && null(c.new)
	return c, max(r.ts, row.ts)
}

// timeOf is the time with which a change of an aggregate goes to the store, see [change.storedAt]. A versioned store keeps the time of deletions as well.
func (s *keyValue[K, V]) timeOf(null bool, ts, record int64) int64 {
	if null && s.versions == nil {
		return record
	}
	return ts
}

// storedAt is the time with which a change of an aggregate goes to its store: ts, that of the result. A deletion keeps no time, and so its changelog record,
// and what a cache hands on, has that of the record that caused it.
func (c change[A]) storedAt(ts, record int64) int64 {
	if c.newNull {
		return record
	}
	return ts
}

// aggregator folds the records of a key into a row: count, reduce and aggregate without windows (F-058).
type aggregator[K, V, A any] struct {
	base
	out  *materialized[K, A]
	agg  aggregation[K, V, A]
	null func(A) bool
}

func newAggregate[K, V, A any](t *task, n *nodeInfo, info *tableInfo, sd serdes[K, A], agg aggregation[K, V, A]) *aggregator[K, V, A] {
	return &aggregator[K, V, A]{base{t, n}, newMaterialized(t, n, info, sd.key, sd.value), agg, isNull[A]()}
}

func (n *aggregator[K, V, A]) attach(child sink[K, change[A]]) { n.out.attach(child) }
func (n *aggregator[K, V, A]) open() error                     { return n.out.open() }

func (n *aggregator[K, V, A]) process(r rec[K, V]) {
	if r.nullKey || r.nullValue {
		n.t.ctx.Drop("null key or value in an aggregation")
		return
	}
	n.enter()
	kv := n.out.kv
	key := kv.encodeKey(r.key)
	c, ts := n.agg.fold(kv.get(key), r, n.null)
	put := kv.putEncoded(key, c.new, c.newNull, kv.timeOf(c.newNull, ts, r.ts), r.headers)
	n.out.sent(rec[K, change[A]]{key: r.key, value: c, ts: ts, headers: r.headers}, put)
}

// tableFilter keeps the rows that match. Without the old value it can't know whether a row was in the result, so every row that does not match is
// deleted from it (F-066).
type tableFilter[K, V any] struct {
	base
	f         func(K, V) bool
	want      bool
	versioned bool // what is above is: it must hear of every deletion
	out       *materialized[K, V]
}

func (n *tableFilter[K, V]) attach(child sink[K, change[V]]) { n.out.attach(child) }
func (n *tableFilter[K, V]) open() error                     { return n.out.open() }

func (n *tableFilter[K, V]) process(r rec[K, change[V]]) {
	n.enter()
	var c change[V]
	if c.newNull = r.value.newNull || n.f(r.key, r.value.new) != n.want; !c.newNull {
		c.new = r.value.new
	}
	if n.out.info.old {
		if n.out.kv != nil {
			c.setOld(n.out.kv.lookup(r.key))
		} else if r.value.hasOld && n.f(r.key, r.value.old) == n.want {
			c.old, c.hasOld = r.value.old, true
		}
		if c.newNull && !c.hasOld && !n.versioned {
			return
		}
	}
	c.stale = r.value.stale
	r.value = c
	n.out.set(r)
}

// tableMap replaces the value of each row.
type tableMap[K, V, U any] struct {
	base
	f    func(K, V) U
	null func(U) bool
	out  *materialized[K, U]
}

func (n *tableMap[K, V, U]) attach(child sink[K, change[U]]) { n.out.attach(child) }
func (n *tableMap[K, V, U]) open() error                     { return n.out.open() }

func (n *tableMap[K, V, U]) process(r rec[K, change[V]]) {
	out := rec[K, change[U]]{key: r.key, ts: r.ts, headers: r.headers, value: change[U]{newNull: r.value.newNull, stale: r.value.stale}}
	c := &out.value
	if !c.newNull {
		n.enter()
		c.new = n.f(r.key, r.value.new)
		c.newNull = n.null != nil && n.null(c.new)
	}
	if n.out.wantsOld() {
		c.setOld(n.out.kv.lookup(r.key))
	} else if n.out.kv == nil && n.out.info.old && r.value.hasOld {
		n.enter()
		c.old = n.f(r.key, r.value.old)
		c.hasOld = n.null == nil || !n.null(c.old)
	}
	n.out.set(out)
}

// toStream makes records of changes (F-024).
type toStream[K, V any] struct{ children[K, V] }

func (n *toStream[K, V]) process(r rec[K, change[V]]) {
	n.forward(rec[K, V]{key: r.key, value: r.value.new, ts: r.ts, headers: r.headers, nullValue: r.value.newNull})
}

// tableLookup joins each record with the row of its key (F-105).
type tableLookup[K, V, W, R any] struct {
	base
	children[K, R]
	row  func(K) found[W]
	asOf func(K, int64) found[W] // instead of row, of a versioned table (F-106)
	f    func(K, V, W, bool) R
	left bool
	null func(R) bool
}

func (n *tableLookup[K, V, W, R]) process(r rec[K, V]) {
	if r.nullValue || r.nullKey && !n.left {
		n.t.ctx.Drop("null key or value in a join")
		return
	}
	n.enter()
	var row found[W]
	switch {
	case r.nullKey:
	case n.asOf != nil:
		row = n.asOf(r.key, r.ts)
	default:
		row = n.row(r.key)
	}
	if !row.ok && !n.left {
		return
	}
	out := rec[K, R]{key: r.key, ts: r.ts, headers: r.headers, nullKey: r.nullKey}
	out.value = n.f(r.key, r.value, row.value, row.ok)
	out.nullValue = n.null != nil && n.null(out.value)
	n.forward(out)
}

// keyValue is a typed key-value store of a task. A store that fails ends the task: it throws.
type keyValue[K, V any] struct {
	t        *task
	spec     topology.Store
	store    *state.KeyValue
	versions *state.Versioned // instead of store, in a versioned table
	key      serde.Serde[K]
	value    serde.Serde[V]
	keyPlace serde.Place
	place    serde.Place
	keyBuf   []byte
	valueBuf []byte
	view     KeyValueStore[K, V] // for processors
}

// openKeyValue opens a store of the task; all nodes that use it share what it returns. Types of one store agree, as the handles that name it do.
func openKeyValue[K, V any](t *task, spec topology.Store, key serde.Serde[K], value serde.Serde[V]) *keyValue[K, V] {
	if t.cfg == nil { // wired only to be checked
		return &keyValue[K, V]{t: t, spec: spec, key: key, value: value}
	}
	if s, ok := t.stores[spec.Name].(*keyValue[K, V]); ok {
		return s
	}
	s := new(newTyped(t, spec, key, value))
	t.openLater(spec.Name, s, func() (err error) {
		if spec.Kind == topology.VersionedStore {
			s.versions, err = t.ctx.Stores.Versioned(spec.Name)
		} else {
			s.store, err = t.ctx.Stores.KeyValue(spec.Name)
		}
		return err
	})
	return s
}

func (s *keyValue[K, V]) encodeKey(key K) []byte {
	b, err := s.key.Append(s.keyBuf[:0], s.keyPlace, key)
	if err != nil {
		s.t.storeFailed(s.spec.Name, "encode key", err)
	}
	s.keyBuf = b
	return b
}

func (s *keyValue[K, V]) decodeKey(b []byte) K {
	k, err := s.key.Decode(s.keyPlace, b)
	if err != nil {
		s.t.storeFailed(s.spec.Name, "decode key", err)
	}
	return k
}

func (s *keyValue[K, V]) decodeValue(b []byte) V {
	v, err := s.value.Decode(s.place, b)
	if err != nil {
		s.t.storeFailed(s.spec.Name, "decode value", err)
	}
	return v
}

// encodeValue returns the bytes of a value, valid until the next call; nil is a null.
func (s *keyValue[K, V]) encodeValue(value V, null bool) []byte {
	if null {
		return nil
	}
	b, err := s.value.Append(s.valueBuf[:0], s.place, value)
	if err != nil {
		s.t.storeFailed(s.spec.Name, "encode value", err)
	}
	if b == nil { // an empty value, which is not a null
		b = []byte{}
	}
	s.valueBuf = b
	return b
}

// get reads a row by its encoded key.
func (s *keyValue[K, V]) get(key []byte) found[V] {
	if s.versions != nil {
		return s.asOf(key, math.MaxInt64)
	}
	b, ts, ok, err := s.store.Get(key)
	if err != nil {
		s.t.storeFailed(s.spec.Name, "get", err)
	}
	if !ok {
		return found[V]{ts: -1}
	}
	return found[V]{s.decodeValue(b), ts, true}
}

func (s *keyValue[K, V]) lookup(key K) found[V] { return s.get(s.encodeKey(key)) }

// asOf reads a row of a versioned table as it was at a time.
func (s *keyValue[K, V]) asOf(key []byte, at int64) found[V] {
	v, ok, err := s.versions.GetAsOf(key, at)
	if err != nil {
		s.t.storeFailed(s.spec.Name, "get", err)
	}
	if !ok {
		return found[V]{ts: -1}
	}
	return found[V]{s.decodeValue(v.Value), v.From, true}
}

func (s *keyValue[K, V]) lookupAsOf(key K, at int64) found[V] { return s.asOf(s.encodeKey(key), at) }

// putResult says what became of a row that was put.
type putResult uint8

const (
	putLatest putResult = iota
	putStale            // a later version of the row is there already
	notPut              // it came too late for the history
)

func (s *keyValue[K, V]) put(key K, value V, null bool, ts int64, headers Headers) putResult {
	return s.putEncoded(s.encodeKey(key), value, null, ts, headers)
}

func (s *keyValue[K, V]) putEncoded(key []byte, value V, null bool, ts int64, headers Headers) putResult {
	if s.versions != nil {
		to, stored, err := s.versions.Put(key, s.encodeValue(value, null), ts, headers)
		switch {
		case err != nil:
			s.t.storeFailed(s.spec.Name, "put", err)
		case !stored:
			return notPut
		case to >= 0:
			return putStale
		}
		return putLatest
	}
	if err := s.store.Put(key, s.encodeValue(value, null), ts, headers); err != nil {
		s.t.storeFailed(s.spec.Name, "put", err)
	}
	return putLatest
}

// StoreError is a store that failed: its disk, or bytes that do not decode. The task stops before anything is sent that was derived from the failure.
type StoreError struct {
	Store string
	Op    string
	Err   error
}

func (e *StoreError) Error() string { return "store " + e.Store + ": " + e.Op + ": " + e.Err.Error() }

// Unwrap returns the cause.
func (e *StoreError) Unwrap() error { return e.Err }

func (t *task) storeFailed(store, op string, err error) {
	tasks.Throw(&StoreError{store, op, err})
}

// onlyOnce panics if a store is open already, with other types than those it is now asked for.
func (t *task) onlyOnce(store string) {
	if t.stores[store] != nil {
		panic(fmt.Sprintf("streams: store %q has other types than the handle it is asked for with", store))
	}
}

// placeOf is the topic that serdes of a store are told: its changelog, also if it has none (F-035).
func (t *task) placeOf(spec topology.Store) string {
	if t.cfg == nil {
		return ""
	}
	if spec.SourceTopic != "" {
		return spec.SourceTopic
	}
	return t.cfg.naming.ApplicationID + "-" + spec.Name + "-changelog"
}

// openStores opens the stores that nodes asked for when they were made.
func (t *task) openStores() error {
	for len(t.onOpen) > 0 {
		f := t.onOpen[0]
		t.onOpen = t.onOpen[1:]
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}
