package streams

import (
	"fmt"
	"time"

	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/topology"
)

// VersionedHandle names a store that keeps the history of each key, see [StoreHandle].
type VersionedHandle[K, V any] struct {
	store topology.Store
	key   serde.Serde[K]
	value serde.Serde[V]
	of    *Builder // whose table this is the store of; nil for a store declared by itself
}

// NewVersionedStore declares a store that keeps the history of each key, as far back as history from the greatest time that was put (KIP-889).
func NewVersionedStore[K, V any](name string, key serde.Serde[K], value serde.Serde[V], history time.Duration, opts ...StoreOption) VersionedHandle[K, V] {
	s := topology.Store{Name: name, Kind: topology.VersionedStore, Logging: true, Retention: history}
	o := gather(opts, StoreOption.store)
	o.applyStore(&s)
	s.Caching = false
	return VersionedHandle[K, V]{s, key, value, nil}
}

// VersionedStore holds the history of each key.
type VersionedStore[K, V any] interface {
	// Put sets the value of a key from a time on. It reports false, and does nothing, if that is before the history.
	Put(key K, value V, at time.Time) (stored bool)
	// Delete deletes a key from a time on, and returns what was valid then.
	Delete(key K, at time.Time) (old V, ok bool)
	// Get returns the latest version.
	Get(key K) (v Version[V], ok bool)
	// GetAsOf returns the version that was valid at a time. Before the history there is only the latest one, if it is as old.
	GetAsOf(key K, at time.Time) (v Version[V], ok bool)
}

// Version is a value and the time it was valid from and, unless it is the latest, to. To is the zero time for the latest.
type Version[V any] struct {
	Value    V
	From, To time.Time
}

func (h VersionedHandle[K, V]) storeName() string { return h.store.Name }
func (h VersionedHandle[K, V]) builder() *Builder { return h.of }

func (h VersionedHandle[K, V]) declaration() (topology.Store, error) {
	if h.store.Retention < 0 {
		return h.store, fmt.Errorf("%w: store %s: a history of %v", ErrBadOption, h.store.Name, h.store.Retention)
	}
	return h.store, declared(h.store, h.key == nil, h.value == nil)
}

func (h VersionedHandle[K, V]) shape() storeShape { return shapeOf[K, V](rowsByKey) }

func (h VersionedHandle[K, V]) prepare(t *task) { openKeyValue(t, h.store, h.key, h.value) }

func (h VersionedHandle[K, V]) open(t *task) VersionedStore[K, V] {
	return versionedView[K, V]{openKeyValue(t, h.store, h.key, h.value), isNull[V]()}
}

// VersionedStore names the store of a table that keeps history ([Versioned]), for processors, tests and queries. Using the handle of another table is a Build
// error.
func (t *Table[K, V]) VersionedStore() VersionedHandle[K, V] {
	if !t.info.keep || t.info.store.Kind != topology.VersionedStore {
		t.b.mistake(t.name, t.b.line(), fmt.Errorf("%w: the table has no versioned store; give it one with streams.Materialized and streams.Versioned", ErrBadOption))
	}
	return VersionedHandle[K, V]{t.info.store, t.serdes.key, t.serdes.value, t.b}
}

// versionedView is a task's versioned store as a processor sees it.
type versionedView[K, V any] struct {
	s    *keyValue[K, V]
	null func(V) bool
}

func (v versionedView[K, V]) Put(key K, value V, at time.Time) (stored bool) {
	return v.s.put(key, value, v.null != nil && v.null(value), at.UnixMilli(), v.s.t.headers) != notPut
}

func (v versionedView[K, V]) Delete(key K, at time.Time) (old V, ok bool) {
	before, had, _, err := v.s.versions.Delete(v.s.encodeKey(key), at.UnixMilli(), v.s.t.headers)
	if err != nil {
		v.s.t.storeFailed(v.s.spec.Name, "delete", err)
	}
	if had {
		old = v.s.decodeValue(before.Value)
	}
	return old, had
}

func (v versionedView[K, V]) Get(key K) (Version[V], bool) { return v.version(key, maxTime) }

func (v versionedView[K, V]) GetAsOf(key K, at time.Time) (Version[V], bool) {
	return v.version(key, at.UnixMilli())
}

// maxTime is later than any record.
const maxTime = 1<<63 - 1

func (v versionedView[K, V]) version(key K, at int64) (found Version[V], ok bool) {
	raw, ok, err := v.s.versions.GetAsOf(v.s.encodeKey(key), at)
	if err != nil {
		v.s.t.storeFailed(v.s.spec.Name, "get", err)
	}
	if !ok {
		return found, false
	}
	found = Version[V]{Value: v.s.decodeValue(raw.Value), From: time.UnixMilli(raw.From).UTC()}
	if raw.To >= 0 {
		found.To = time.UnixMilli(raw.To).UTC()
	}
	return found, true
}

// typed and openParts are for tests, see bridge.go.
func (h VersionedHandle[K, V]) typed(t *task) bool {
	_, ok := t.stores[h.store.Name].(*keyValue[K, V])
	return ok || t.stores[h.store.Name] == nil
}

func (h VersionedHandle[K, V]) openParts(p parts) any {
	return VersionedStore[K, V](versionedParts[K, V]{h, p})
}

// versionedParts is a versioned store over its parts.
type versionedParts[K, V any] struct {
	h VersionedHandle[K, V]
	p parts
}

func (s versionedParts[K, V]) in(key K, f func(view VersionedStore[K, V])) {
	s.p.guard(func() {
		first := openKeyValue(s.p.tasks()[0], s.h.store, s.h.key, s.h.value)
		f(s.h.open(s.p.of(first.encodeKey(key), func(t *task) bool {
			_, ok := s.h.open(t).Get(key)
			return ok
		})))
	})
}

func (s versionedParts[K, V]) Put(key K, value V, at time.Time) (stored bool) {
	s.in(key, func(view VersionedStore[K, V]) { stored = view.Put(key, value, at) })
	return stored
}

func (s versionedParts[K, V]) Delete(key K, at time.Time) (old V, ok bool) {
	s.in(key, func(view VersionedStore[K, V]) { old, ok = view.Delete(key, at) })
	return old, ok
}

func (s versionedParts[K, V]) Get(key K) (v Version[V], ok bool) {
	s.in(key, func(view VersionedStore[K, V]) { v, ok = view.Get(key) })
	return v, ok
}

func (s versionedParts[K, V]) GetAsOf(key K, at time.Time) (v Version[V], ok bool) {
	s.in(key, func(view VersionedStore[K, V]) { v, ok = view.GetAsOf(key, at) })
	return v, ok
}
