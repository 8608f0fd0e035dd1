package streams

import (
	"fmt"
	"iter"
	"math"
	"time"

	"github.com/millrace/millrace/state"
	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/streams/window"
	"github.com/millrace/millrace/topology"
)

// SessionHandle names a session store, see [KeyValueHandle].
type SessionHandle[K, V any] struct {
	store topology.Store
	key   serde.Serde[K]
	value serde.Serde[V]
	of    *Builder // whose table this is the store of; nil for a store declared by itself
}

// NewSessionStore declares a store of one value per key and session. [Retention] says how long sessions are kept, counted from their end to the latest end
// that was put; there is no default. It has a changelog and no cache, unless options say otherwise (F-176).
func NewSessionStore[K, V any](name string, key serde.Serde[K], value serde.Serde[V], opts ...StoreOption) SessionHandle[K, V] {
	s := topology.Store{Name: name, Kind: topology.SessionStore, Logging: true}
	o := gather(opts, StoreOption.store)
	o.applyStore(&s)
	return SessionHandle[K, V]{s, key, value, nil}
}

func (h SessionHandle[K, V]) storeName() string { return h.store.Name }
func (h SessionHandle[K, V]) builder() *Builder { return h.of }
func (h SessionHandle[K, V]) prepare(t *task)   { openSession(t, h.store, h.key, h.value) }

func (h SessionHandle[K, V]) declaration() (topology.Store, error) {
	if h.store.Retention < time.Millisecond {
		return h.store, fmt.Errorf("%w: store %s: retention %v is below one millisecond; set it with streams.Retention", ErrBadWindow, h.store.Name, h.store.Retention)
	}
	return h.store, declared(h.store, h.key == nil, h.value == nil)
}

func (h SessionHandle[K, V]) shape() storeShape { return shapeOf[K, V](rowsBySession) }

// SessionStore holds values by key and session. Both ends of a session are inclusive. Sessions that ended longer ago than the retention are gone.
type SessionStore[K, V any] interface {
	Put(session window.Windowed[K], value V) // nil deletes
	Delete(session window.Windowed[K])
	Get(key K, start, end time.Time) (value V, ok bool)
	// Find walks the sessions of a key that end at earliestEnd or later and start at latestStart or earlier, by their end.
	Find(key K, earliestEnd, latestStart time.Time) iter.Seq2[window.Windowed[K], V]
	FindRange(first, last Bound[K], earliestEnd, latestStart time.Time) iter.Seq2[window.Windowed[K], V]
	Fetch(key K) iter.Seq2[window.Windowed[K], V]
	Backward(key K) iter.Seq2[window.Windowed[K], V]
	All() iter.Seq2[window.Windowed[K], V]
}

func (h SessionHandle[K, V]) open(t *task) SessionStore[K, V] {
	s := openSession(t, h.store, h.key, h.value)
	if s.view == nil { // made once, as processors ask for it with every record
		s.view = sessionView[K, V]{s, isNull[V]()}
	}
	return s.view
}

// sessionView is a task's session store as a processor sees it.
type sessionView[K, V any] struct {
	s    *sessionStore[K, V]
	null func(V) bool
}

func spanOf[K any](w window.Windowed[K]) span { return span{w.Start.UnixMilli(), w.End.UnixMilli()} }

func (v sessionView[K, V]) Put(session window.Windowed[K], value V) {
	null := v.null != nil && v.null(value)
	v.s.put(v.s.encodeKey(session.Key), spanOf(session), value, null, v.s.t.now, v.s.t.headers)
}

func (v sessionView[K, V]) Delete(session window.Windowed[K]) {
	var none V
	v.s.put(v.s.encodeKey(session.Key), spanOf(session), none, true, v.s.t.now, v.s.t.headers)
}

func (v sessionView[K, V]) Get(key K, start, end time.Time) (value V, ok bool) {
	row := v.s.get(v.s.encodeKey(key), span{start.UnixMilli(), end.UnixMilli()})
	return row.value, row.ok
}

func (v sessionView[K, V]) Find(key K, earliestEnd, latestStart time.Time) iter.Seq2[window.Windowed[K], V] {
	return v.rows(func() state.Iterator {
		return v.s.store.Find(v.s.encodeKey(key), earliestEnd.UnixMilli(), latestStart.UnixMilli(), false)
	})
}

func (v sessionView[K, V]) FindRange(first, last Bound[K], earliestEnd, latestStart time.Time) iter.Seq2[window.Windowed[K], V] {
	bound := keyValueView[K, V]{s: &v.s.keyValue}.bound
	return v.rows(func() state.Iterator {
		return v.s.store.FindRange(bound(first), bound(last), earliestEnd.UnixMilli(), latestStart.UnixMilli(), false)
	})
}

func (v sessionView[K, V]) Fetch(key K) iter.Seq2[window.Windowed[K], V] {
	return v.rows(func() state.Iterator { return v.s.store.Fetch(v.s.encodeKey(key), false) })
}

func (v sessionView[K, V]) Backward(key K) iter.Seq2[window.Windowed[K], V] {
	return v.rows(func() state.Iterator { return v.s.store.Find(v.s.encodeKey(key), 0, math.MaxInt64, true) })
}

func (v sessionView[K, V]) All() iter.Seq2[window.Windowed[K], V] {
	return v.rows(func() state.Iterator { return v.s.store.All(false) })
}

func (v sessionView[K, V]) rows(open func() state.Iterator) iter.Seq2[window.Windowed[K], V] {
	return func(yield func(window.Windowed[K], V) bool) {
		it := open()
		defer it.Close()
		for it.Next() {
			if !yield(windowOf(v.s.decodeKey(it.Key()), it.Start(), it.End()), v.s.decodeValue(it.Value())) {
				return
			}
		}
		if err := it.Err(); err != nil {
			v.s.t.storeFailed(v.s.spec.Name, "find", err)
		}
	}
}

// typed reports whether the store of a task has the types of the handle.
func (h SessionHandle[K, V]) typed(t *task) bool {
	_, ok := t.stores[h.store.Name].(*sessionStore[K, V])
	return ok || t.stores[h.store.Name] == nil
}

func (h SessionHandle[K, V]) openParts(p parts) any {
	return SessionStore[K, V](sessionParts[K, V]{h, p})
}

// sessionParts is a session store over its parts, for tests. Rows of several parts come part by part.
type sessionParts[K, V any] struct {
	h SessionHandle[K, V]
	p parts
}

// in runs f with the part that a key is in.
func (s sessionParts[K, V]) in(key K, f func(view SessionStore[K, V])) {
	s.p.guard(func() {
		first := openSession(s.p.tasks()[0], s.h.store, s.h.key, s.h.value)
		f(s.h.open(s.p.of(first.encodeKey(key), func(t *task) bool {
			for range s.h.open(t).Fetch(key) {
				return true
			}
			return false
		})))
	})
}

func (s sessionParts[K, V]) Put(session window.Windowed[K], value V) {
	s.in(session.Key, func(view SessionStore[K, V]) { view.Put(session, value) })
}

func (s sessionParts[K, V]) Delete(session window.Windowed[K]) {
	s.in(session.Key, func(view SessionStore[K, V]) { view.Delete(session) })
}

func (s sessionParts[K, V]) Get(key K, start, end time.Time) (value V, ok bool) {
	s.in(key, func(view SessionStore[K, V]) { value, ok = view.Get(key, start, end) })
	return value, ok
}

func (s sessionParts[K, V]) Find(key K, earliestEnd, latestStart time.Time) iter.Seq2[window.Windowed[K], V] {
	return s.rows(func(view SessionStore[K, V]) iter.Seq2[window.Windowed[K], V] {
		return view.Find(key, earliestEnd, latestStart)
	})
}

func (s sessionParts[K, V]) FindRange(first, last Bound[K], earliestEnd, latestStart time.Time) iter.Seq2[window.Windowed[K], V] {
	return s.rows(func(view SessionStore[K, V]) iter.Seq2[window.Windowed[K], V] {
		return view.FindRange(first, last, earliestEnd, latestStart)
	})
}

func (s sessionParts[K, V]) Fetch(key K) iter.Seq2[window.Windowed[K], V] {
	return s.rows(func(view SessionStore[K, V]) iter.Seq2[window.Windowed[K], V] { return view.Fetch(key) })
}

func (s sessionParts[K, V]) Backward(key K) iter.Seq2[window.Windowed[K], V] {
	return s.rows(func(view SessionStore[K, V]) iter.Seq2[window.Windowed[K], V] { return view.Backward(key) })
}

func (s sessionParts[K, V]) All() iter.Seq2[window.Windowed[K], V] {
	return s.rows(func(view SessionStore[K, V]) iter.Seq2[window.Windowed[K], V] { return view.All() })
}

// rows reads all rows before it hands out the first, so that a test may do what it likes meanwhile.
func (s sessionParts[K, V]) rows(of func(view SessionStore[K, V]) iter.Seq2[window.Windowed[K], V]) iter.Seq2[window.Windowed[K], V] {
	type row struct {
		key   window.Windowed[K]
		value V
	}
	return func(yield func(window.Windowed[K], V) bool) {
		var rows []row
		s.p.guard(func() {
			for _, t := range s.p.tasks() {
				for k, v := range of(s.h.open(t)) {
					rows = append(rows, row{k, v})
				}
			}
		})
		for _, r := range rows {
			if !yield(r.key, r.value) {
				return
			}
		}
	}
}
