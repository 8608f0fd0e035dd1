package streams

import (
	"errors"
	"fmt"
	"iter"
	"reflect"
	"time"

	"github.com/millrace/millrace/state"
	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/streams/window"
	"github.com/millrace/millrace/topology"
)

// StoreRef is any store handle.
type StoreRef interface {
	storeName() string
	declaration() (topology.Store, error)
	shape() storeShape
	builder() *Builder // of the table whose store this is, if it is a table's
	prepare(t *task)   // fixes the types of the store in a task
}

// storeShape is what all handles of a store have in common: how its rows are found, and the types of keys and values. Operators note the shape of their
// store and not its handle: a handle that becomes an interface makes the compiler write out all views of the store, whether or not the program looks at it.
type storeShape struct {
	rows       rowKind
	key, value reflect.Type
}

// rowKind is how rows are found.
type rowKind int

const (
	rowsHidden rowKind = iota // by nobody but the operator
	rowsByKey
	rowsByWindow
	rowsBySession
)

func shapeOf[K, V any](rows rowKind) storeShape {
	return storeShape{rows, reflect.TypeFor[K](), reflect.TypeFor[V]()}
}

// StoreHandle is the typed name of a store. S is what it opens to in a processor and in a test.
type StoreHandle[S any] interface {
	StoreRef
	open(t *task) S
}

// KeyValueHandle and WindowHandle name stores. One value serves processors ([TaskContext.Store]), tests and queries.
type (
	KeyValueHandle[K, V any] struct {
		store topology.Store
		key   serde.Serde[K]
		value serde.Serde[V]
		of    *Builder // whose table this is the store of; nil for a store declared by itself
	}
	WindowHandle[K, V any] struct {
		store topology.Store
		key   serde.Serde[K]
		value serde.Serde[V]
		of    *Builder                // whose table this is the store of; nil for a store declared by itself
		end   func(start int64) int64 // of a table's windows, in ms; nil: one size later
	}
)

// NewKeyValueStore declares a store of one value per key, with the time of its last update. It has a changelog and no cache, unless options say
// otherwise (F-176).
func NewKeyValueStore[K, V any](name string, key serde.Serde[K], value serde.Serde[V], opts ...StoreOption) KeyValueHandle[K, V] {
	s := topology.Store{Name: name, Kind: topology.KeyValueStore, Timestamped: true, Logging: true}
	o := gather(opts, StoreOption.store)
	o.applyStore(&s)
	return KeyValueHandle[K, V]{s, key, value, nil}
}

// NewWindowStore declares a store of one value per key and window start. size is the length of a window; [Retention] says how long rows are kept, by
// default one size.
func NewWindowStore[K, V any](name string, key serde.Serde[K], value serde.Serde[V], size time.Duration, opts ...StoreOption) WindowHandle[K, V] {
	s := topology.Store{Name: name, Kind: topology.WindowStore, Timestamped: true, Logging: true, WindowSize: size, Retention: size}
	o := gather(opts, StoreOption.store)
	o.applyStore(&s)
	return WindowHandle[K, V]{s, key, value, nil, nil}
}

func (h KeyValueHandle[K, V]) storeName() string { return h.store.Name }
func (h WindowHandle[K, V]) storeName() string   { return h.store.Name }

func (h KeyValueHandle[K, V]) declaration() (topology.Store, error) {
	return h.store, declared(h.store, h.key == nil, h.value == nil)
}

func (h WindowHandle[K, V]) declaration() (topology.Store, error) {
	if h.store.WindowSize < time.Millisecond {
		return h.store, fmt.Errorf("%w: store %s: window size %v is below one millisecond", ErrBadWindow, h.store.Name, h.store.WindowSize)
	}
	if h.store.Retention < h.store.WindowSize {
		return h.store, fmt.Errorf("%w: store %s: retention %v is below the window size %v", ErrBadWindow, h.store.Name, h.store.Retention, h.store.WindowSize)
	}
	return h.store, declared(h.store, h.key == nil, h.value == nil)
}

func declared(s topology.Store, noKey, noValue bool) error {
	switch {
	case noKey:
		return fmt.Errorf("%w of the key: store %s", ErrNoSerde, s.Name)
	case noValue:
		return fmt.Errorf("%w of the value: store %s", ErrNoSerde, s.Name)
	case s.Kind == topology.KeyValueStore && s.Retention != 0:
		return fmt.Errorf("%w: store %s has no windows, and so no retention", ErrBadOption, s.Name)
	}
	return nil
}

func (h KeyValueHandle[K, V]) builder() *Builder { return h.of }
func (h WindowHandle[K, V]) builder() *Builder   { return h.of }

func (h KeyValueHandle[K, V]) prepare(t *task) {
	if !t.isGlobal(h.store.Name) {
		openKeyValue(t, h.store, h.key, h.value)
	}
}
func (h WindowHandle[K, V]) prepare(t *task) { openWindow(t, h.store, h.key, h.value) }

func (h KeyValueHandle[K, V]) shape() storeShape { return shapeOf[K, V](rowsByKey) }
func (h WindowHandle[K, V]) shape() storeShape   { return shapeOf[K, V](rowsByWindow) }

// declare notes that a processor uses a store, and adds the store unless an operator has it already. It returns the store's name.
func (c *call) declare(ref StoreRef) string {
	if ref == nil {
		c.mistake(fmt.Errorf("%w: a store handle is nil", ErrBadOption))
		return ""
	}
	s, err := ref.declaration()
	if of := ref.builder(); of != nil { // what is wrong with the declaration was reported where the table is made
		switch {
		case of != c.b:
			err = fmt.Errorf("%w: store %q", ErrOtherBuilder, s.Name)
		case s.Name == "":
			err = fmt.Errorf("%w: the table has no store; give it one with streams.Materialized", ErrBadOption)
		default:
			err = kindFits(ref, s)
		}
	} else if bad := topology.CheckName(s.Name); bad != nil {
		err = fmt.Errorf("store: %w", badName(bad))
	}
	if err != nil {
		c.mistake(err)
		return ""
	}
	if d := c.b.stores[s.Name]; d == nil {
		c.b.stores[s.Name] = &declaredStore{store: s, as: s, shape: ref.shape(), at: c.at}
	} else if d.shape != ref.shape() || !reflect.DeepEqual(d.as, s) {
		c.mistake(fmt.Errorf("%w: %q, with other types or options at %s", ErrStoreConflict, s.Name, d.at))
	}
	return s.Name
}

// kindFits refuses the plain handle of a table that keeps history.
func kindFits(ref StoreRef, s topology.Store) error {
	if _, plain := ref.(interface{ plain() }); plain && s.Kind == topology.VersionedStore {
		return fmt.Errorf("%w: the store %q keeps history; take its handle from Table.VersionedStore", ErrBadOption, s.Name)
	}
	return nil
}

func (h KeyValueHandle[K, V]) plain() {}

// own notes the store of an operator. No other operator may have one of the same name.
func (c *call) own(s topology.Store, shape storeShape) {
	if err := topology.CheckName(s.Name); err != nil {
		c.mistake(fmt.Errorf("store: %w", badName(err)))
		return
	}
	if s.Kind == topology.KeyValueStore && s.Retention != 0 {
		c.mistake(fmt.Errorf("%w: store %s has no windows, and so no retention", ErrBadOption, s.Name))
	}
	if c.opts.history != nil && s.Kind != topology.VersionedStore {
		c.mistake(fmt.Errorf("%w: store %s is a %s store and keeps no history", ErrBadOption, s.Name, s.Kind))
	}
	switch d := c.b.stores[s.Name]; {
	case d == nil:
		c.b.stores[s.Name] = &declaredStore{store: s, as: s, shape: shape, at: c.at, owned: true}
	case d.owned:
		c.mistake(fmt.Errorf("%w: store %q is that of the operator at %s", ErrDuplicateName, s.Name, d.at))
	default:
		c.mistake(fmt.Errorf("%w: %q, for a processor at %s; give that one the handle of the table", ErrStoreConflict, s.Name, d.at))
	}
}

// addStore writes the store of an operator. What is wrong with its name was reported by own.
func (c *call) addStore(g *topology.Graph, s topology.Store, named bool) {
	if !named && c.b.opts.requireNames {
		c.mistake(fmt.Errorf("%w: store %s; give it one of your own", ErrNameRequired, s.Name))
	}
	if topology.CheckName(s.Name) == nil && !g.HasStore(s.Name) {
		g.AddStore(s, c.at)
	}
}

// Stores, as processors see them, return no errors. A store that fails (a broken disk, bytes that do not decode) ends the processing of the record, and its
// task stops before anything is sent or committed that was derived from the failure. Order is by encoded key. A store belongs to its task's goroutine.

// KeyValueStore holds one value per key, with the time of its last update. Tables are stores of this kind.
type KeyValueStore[K, V any] interface {
	Get(key K) (value V, ok bool)
	GetRecord(key K) (r Record[K, V], ok bool) // with its time
	Put(key K, value V)                        // at the time of the record being processed; nil deletes
	PutRecord(r Record[K, V])                  // at r's time; a null value deletes
	PutIfAbsent(key K, value V) (old V, ok bool)
	Delete(key K) (old V, ok bool)
	All() iter.Seq2[K, V]
	Range(from, to Bound[K]) iter.Seq2[K, V]
	Prefix(prefix []byte) iter.Seq2[K, V] // of encoded keys
	Backward(from, to Bound[K]) iter.Seq2[K, V]
	ApproximateLen() int64
}

// Bound is an inclusive end of a range of keys; the zero value is open.
type Bound[K any] struct {
	key K
	set bool
}

// Key bounds a range at key, which belongs to it.
func Key[K any](key K) Bound[K] { return Bound[K]{key, true} }

// WindowStore holds values by key and window start. Times in ranges are window starts, inclusive. Rows older than the retention are gone.
type WindowStore[K, V any] interface {
	Put(key K, value V, start time.Time)
	Delete(key K, start time.Time)
	Get(key K, start time.Time) (value V, ok bool)
	Fetch(key K, from, to time.Time) iter.Seq2[window.Windowed[K], V]
	FetchRange(first, last Bound[K], from, to time.Time) iter.Seq2[window.Windowed[K], V]
	All() iter.Seq2[window.Windowed[K], V]
	Backward(key K, from, to time.Time) iter.Seq2[window.Windowed[K], V]
}

func (h KeyValueHandle[K, V]) open(t *task) KeyValueStore[K, V] {
	if t.isGlobal(h.store.Name) {
		return globalView[K, V]{newGlobalRows(t, h.store, h.key, h.value)}
	}
	s := openKeyValue(t, h.store, h.key, h.value)
	if s.view == nil { // made once, as processors ask for it with every record
		s.view = keyValueView[K, V]{s, isNull[V]()}
	}
	if t.readOnly {
		return readOnlyView[K, V]{s.view, s.spec.Name}
	}
	return s.view
}

func (h WindowHandle[K, V]) open(t *task) WindowStore[K, V] {
	if t.isGlobal(h.store.Name) {
		panic(fmt.Sprintf("streams: store %q: global stores are key-value stores", h.store.Name))
	}
	s := openWindow(t, h.store, h.key, h.value)
	if s.view == nil {
		end := h.end
		if size := h.store.WindowSize.Milliseconds(); end == nil {
			end = func(start int64) int64 { return start + size }
		}
		s.view = windowView[K, V]{s, isNull[V](), end}
	}
	return s.view
}

// readOnlyView is a store that only its updater may change, as other processors see it.
type readOnlyView[K, V any] struct {
	KeyValueStore[K, V]
	name string
}

func (v readOnlyView[K, V]) refuse() {
	panic(fmt.Sprintf("streams: the store %q may only be changed by the processor that was given to Builder.ReadOnlyStore", v.name))
}

func (v readOnlyView[K, V]) Put(K, V)                          { v.refuse() }
func (v readOnlyView[K, V]) PutRecord(Record[K, V])            { v.refuse() }
func (v readOnlyView[K, V]) PutIfAbsent(K, V) (old V, ok bool) { v.refuse(); return old, ok }
func (v readOnlyView[K, V]) Delete(K) (old V, ok bool)         { v.refuse(); return old, ok }

// keyValueView is a task's store as a processor sees it.
type keyValueView[K, V any] struct {
	s    *keyValue[K, V]
	null func(V) bool
}

func (v keyValueView[K, V]) isNull(value V) bool { return v.null != nil && v.null(value) }

func (v keyValueView[K, V]) Get(key K) (value V, ok bool) {
	row := v.s.lookup(key)
	return row.value, row.ok
}

func (v keyValueView[K, V]) GetRecord(key K) (r Record[K, V], ok bool) {
	row := v.s.lookup(key)
	if !row.ok {
		return r, false
	}
	return Record[K, V]{Key: key, Value: row.value, Timestamp: time.UnixMilli(row.ts).UTC()}, true
}

func (v keyValueView[K, V]) Put(key K, value V) {
	v.s.put(key, value, v.isNull(value), v.s.t.now, v.s.t.headers)
}

func (v keyValueView[K, V]) PutRecord(r Record[K, V]) {
	if r.NullKey {
		v.s.t.storeFailed(v.s.spec.Name, "put", errors.New("the key is null"))
	}
	v.s.put(r.Key, r.Value, r.NullValue || v.isNull(r.Value), r.Timestamp.UnixMilli(), r.Headers)
}

func (v keyValueView[K, V]) PutIfAbsent(key K, value V) (old V, ok bool) {
	if old, ok = v.Get(key); !ok {
		v.Put(key, value)
	}
	return old, ok
}

func (v keyValueView[K, V]) Delete(key K) (old V, ok bool) {
	old, ok = v.Get(key)
	var none V
	v.s.put(key, none, true, v.s.t.now, v.s.t.headers) // also where there is nothing: Kafka Streams writes a tombstone to the changelog
	return old, ok
}

func (v keyValueView[K, V]) ApproximateLen() int64 {
	n, err := v.s.store.ApproximateLen()
	if err != nil {
		v.s.t.storeFailed(v.s.spec.Name, "length", err)
	}
	return n
}

func (v keyValueView[K, V]) All() iter.Seq2[K, V] {
	return v.rows(func() state.Iterator { return v.s.store.All(false) })
}

func (v keyValueView[K, V]) Range(from, to Bound[K]) iter.Seq2[K, V] {
	return v.rows(func() state.Iterator { return v.s.store.Range(v.bound(from), v.bound(to), false) })
}

func (v keyValueView[K, V]) Backward(from, to Bound[K]) iter.Seq2[K, V] {
	return v.rows(func() state.Iterator { return v.s.store.Range(v.bound(from), v.bound(to), true) })
}

func (v keyValueView[K, V]) Prefix(prefix []byte) iter.Seq2[K, V] {
	return v.rows(func() state.Iterator { return v.s.store.Prefix(prefix, false) })
}

func (v keyValueView[K, V]) bound(b Bound[K]) []byte {
	if !b.set {
		return nil
	}
	key, err := v.s.key.Append([]byte{}, v.s.keyPlace, b.key)
	if err != nil {
		v.s.t.storeFailed(v.s.spec.Name, "encode key", err)
	}
	return key
}

func (v keyValueView[K, V]) rows(open func() state.Iterator) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		it := open()
		defer it.Close()
		for it.Next() {
			if !yield(v.s.decodeKey(it.Key()), v.s.decodeValue(it.Value())) {
				return
			}
		}
		if err := it.Err(); err != nil {
			v.s.t.storeFailed(v.s.spec.Name, "range", err)
		}
	}
}

// windowView is a task's window store as a processor sees it.
type windowView[K, V any] struct {
	s    *windowStore[K, V]
	null func(V) bool
	end  func(start int64) int64
}

func (v windowView[K, V]) Put(key K, value V, start time.Time) {
	null := v.null != nil && v.null(value)
	v.s.put(v.s.encodeKey(key), start.UnixMilli(), value, null, v.s.t.now, v.s.t.headers)
}

func (v windowView[K, V]) Delete(key K, start time.Time) {
	var none V
	v.s.put(v.s.encodeKey(key), start.UnixMilli(), none, true, v.s.t.now, v.s.t.headers)
}

func (v windowView[K, V]) Get(key K, start time.Time) (value V, ok bool) {
	row := v.s.get(v.s.encodeKey(key), start.UnixMilli())
	return row.value, row.ok
}

func (v windowView[K, V]) Fetch(key K, from, to time.Time) iter.Seq2[window.Windowed[K], V] {
	return v.rows(func() state.Iterator {
		return v.s.store.Fetch(v.s.encodeKey(key), from.UnixMilli(), to.UnixMilli(), false)
	})
}

func (v windowView[K, V]) Backward(key K, from, to time.Time) iter.Seq2[window.Windowed[K], V] {
	return v.rows(func() state.Iterator {
		return v.s.store.Fetch(v.s.encodeKey(key), from.UnixMilli(), to.UnixMilli(), true)
	})
}

func (v windowView[K, V]) FetchRange(first, last Bound[K], from, to time.Time) iter.Seq2[window.Windowed[K], V] {
	bound := keyValueView[K, V]{s: &v.s.keyValue}.bound
	return v.rows(func() state.Iterator {
		return v.s.store.FetchRange(bound(first), bound(last), from.UnixMilli(), to.UnixMilli(), false)
	})
}

func (v windowView[K, V]) All() iter.Seq2[window.Windowed[K], V] {
	return v.rows(func() state.Iterator { return v.s.store.All(false) })
}

func (v windowView[K, V]) rows(open func() state.Iterator) iter.Seq2[window.Windowed[K], V] {
	return func(yield func(window.Windowed[K], V) bool) {
		it := open()
		defer it.Close()
		for it.Next() {
			if !yield(windowOf(v.s.decodeKey(it.Key()), it.Start(), v.end(it.Start())), v.s.decodeValue(it.Value())) {
				return
			}
		}
		if err := it.Err(); err != nil {
			v.s.t.storeFailed(v.s.spec.Name, "fetch", err)
		}
	}
}

// StoreNameOf is the name of a store, for test drivers and tools.
func StoreNameOf(h StoreRef) string { return h.storeName() }
