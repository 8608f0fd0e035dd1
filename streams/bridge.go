package streams

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/millrace/millrace/streams/internal/bridge"
	"github.com/millrace/millrace/streams/window"
	"github.com/millrace/millrace/tasks"
	"github.com/millrace/millrace/topology"
)

func init() {
	bridge.Program = func(b bridge.Task) (tasks.Program, error) {
		cfg := b.Config.(Config).withDefaults()
		return newTask(&taskConfig{
			ctx: context.Background(), naming: b.Naming, topology: b.Topology.(*Topology).t, wrap: b.Topology.(*Topology).wrap, timestamps: cfg.Timestamps, log: b.Logger, print: cfg.Print,
			onDecodeError: cfg.OnDecodeError, onProcessError: cfg.OnProcessError, onProduceError: cfg.OnProduceError,
			deadLetters: cfg.DeadLetterTopic, stateDir: func(topology.TaskID) string { return b.StateDir }, caching: cfg.CacheBytes >= 0, globals: b.Globals,
		}, b.Sub, b.ID)
	}
	bridge.Store = func(handle any, programs func() []tasks.Program, guard func(func())) (any, error) {
		h, ok := handle.(interface {
			StoreRef
			openParts(p parts) any
			typed(t *task) bool
		})
		if !ok {
			return nil, fmt.Errorf("a %T cannot be opened by a test", handle)
		}
		p := parts{func() (list []*task) {
			for _, p := range programs() {
				list = append(list, p.(*task))
			}
			return list
		}, guard}
		if !h.typed(p.tasks()[0]) {
			return nil, fmt.Errorf("the store %q has other types than a %T", h.storeName(), handle)
		}
		return h.openParts(p), nil
	}
	bridge.Touch = func(p tasks.Program, ms int64) {
		t := p.(*task)
		t.now, t.headers = ms, nil
	}
}

// parts are the tasks that have a part of a store, by partition, and the guard that a test puts around every use of it.
type parts struct {
	tasks func() []*task
	guard func(func())
}

// of gives the part that a key is in: the one that has it or, if none does, the one that the default partitioner chooses.
func (p parts) of(key []byte, has func(t *task) bool) *task {
	list := p.tasks()
	for _, t := range list {
		if len(list) > 1 && has(t) {
			return t
		}
	}
	return list[tasks.PartitionFor(key, len(list))]
}

// typed reports whether the store of a task has the types of the handle.
func (h KeyValueHandle[K, V]) typed(t *task) bool {
	_, ok := t.stores[h.store.Name].(*keyValue[K, V])
	return ok || t.stores[h.store.Name] == nil
}

func (h WindowHandle[K, V]) typed(t *task) bool {
	_, ok := t.stores[h.store.Name].(*windowStore[K, V])
	return ok || t.stores[h.store.Name] == nil
}

func (h KeyValueHandle[K, V]) openParts(p parts) any {
	return KeyValueStore[K, V](keyValueParts[K, V]{h, p})
}

func (h WindowHandle[K, V]) openParts(p parts) any {
	return WindowStore[K, V](windowParts[K, V]{h, p})
}

// keyValueParts is a key-value store over its parts. Rows of several parts come in the order of their encoded keys, as in one.
type keyValueParts[K, V any] struct {
	h KeyValueHandle[K, V]
	p parts
}

// in runs f with the part that a key is in.
func (s keyValueParts[K, V]) in(key K, f func(view KeyValueStore[K, V])) {
	s.p.guard(func() {
		first := openKeyValue(s.p.tasks()[0], s.h.store, s.h.key, s.h.value)
		f(s.h.open(s.p.of(first.encodeKey(key), func(t *task) bool {
			_, ok := s.h.open(t).Get(key)
			return ok
		})))
	})
}

func (s keyValueParts[K, V]) Get(key K) (value V, ok bool) {
	s.in(key, func(view KeyValueStore[K, V]) { value, ok = view.Get(key) })
	return value, ok
}

func (s keyValueParts[K, V]) GetRecord(key K) (r Record[K, V], ok bool) {
	s.in(key, func(view KeyValueStore[K, V]) { r, ok = view.GetRecord(key) })
	return r, ok
}

func (s keyValueParts[K, V]) Put(key K, value V) {
	s.in(key, func(view KeyValueStore[K, V]) { view.Put(key, value) })
}

func (s keyValueParts[K, V]) PutRecord(r Record[K, V]) {
	s.in(r.Key, func(view KeyValueStore[K, V]) { view.PutRecord(r) })
}

func (s keyValueParts[K, V]) PutIfAbsent(key K, value V) (old V, ok bool) {
	s.in(key, func(view KeyValueStore[K, V]) { old, ok = view.PutIfAbsent(key, value) })
	return old, ok
}

func (s keyValueParts[K, V]) Delete(key K) (old V, ok bool) {
	s.in(key, func(view KeyValueStore[K, V]) { old, ok = view.Delete(key) })
	return old, ok
}

func (s keyValueParts[K, V]) ApproximateLen() (n int64) {
	s.p.guard(func() {
		for _, t := range s.p.tasks() {
			n += s.h.open(t).ApproximateLen()
		}
	})
	return n
}

func (s keyValueParts[K, V]) All() iter.Seq2[K, V] {
	return s.rows(1, func(view KeyValueStore[K, V]) iter.Seq2[K, V] { return view.All() })
}

func (s keyValueParts[K, V]) Range(from, to Bound[K]) iter.Seq2[K, V] {
	return s.rows(1, func(view KeyValueStore[K, V]) iter.Seq2[K, V] { return view.Range(from, to) })
}

func (s keyValueParts[K, V]) Backward(from, to Bound[K]) iter.Seq2[K, V] {
	return s.rows(-1, func(view KeyValueStore[K, V]) iter.Seq2[K, V] { return view.Backward(from, to) })
}

func (s keyValueParts[K, V]) Prefix(prefix []byte) iter.Seq2[K, V] {
	return s.rows(1, func(view KeyValueStore[K, V]) iter.Seq2[K, V] { return view.Prefix(prefix) })
}

// rows reads all rows before it hands out the first, so that a test may do what it likes meanwhile.
func (s keyValueParts[K, V]) rows(direction int, of func(view KeyValueStore[K, V]) iter.Seq2[K, V]) iter.Seq2[K, V] {
	type row struct {
		raw   []byte
		key   K
		value V
	}
	return func(yield func(K, V) bool) {
		var rows []row
		s.p.guard(func() {
			list := s.p.tasks()
			for _, t := range list {
				for k, v := range of(s.h.open(t)) {
					r := row{key: k, value: v}
					if len(list) > 1 {
						r.raw = slices.Clone(openKeyValue(t, s.h.store, s.h.key, s.h.value).encodeKey(k))
					}
					rows = append(rows, r)
				}
			}
		})
		slices.SortStableFunc(rows, func(a, b row) int { return direction * bytes.Compare(a.raw, b.raw) })
		for _, r := range rows {
			if !yield(r.key, r.value) {
				return
			}
		}
	}
}

// windowParts is a window store over its parts. Rows of several parts come part by part.
type windowParts[K, V any] struct {
	h WindowHandle[K, V]
	p parts
}

// in runs f with the part that a key is in.
func (s windowParts[K, V]) in(key K, f func(view WindowStore[K, V])) {
	s.p.guard(func() {
		first := openWindow(s.p.tasks()[0], s.h.store, s.h.key, s.h.value)
		f(s.h.open(s.p.of(first.encodeKey(key), func(t *task) bool {
			for range s.h.open(t).Fetch(key, time.UnixMilli(0), time.UnixMilli(math.MaxInt64)) {
				return true
			}
			return false
		})))
	})
}

func (s windowParts[K, V]) Put(key K, value V, start time.Time) {
	s.in(key, func(view WindowStore[K, V]) { view.Put(key, value, start) })
}

func (s windowParts[K, V]) Delete(key K, start time.Time) {
	s.in(key, func(view WindowStore[K, V]) { view.Delete(key, start) })
}

func (s windowParts[K, V]) Get(key K, start time.Time) (value V, ok bool) {
	s.in(key, func(view WindowStore[K, V]) { value, ok = view.Get(key, start) })
	return value, ok
}

func (s windowParts[K, V]) Fetch(key K, from, to time.Time) iter.Seq2[window.Windowed[K], V] {
	return s.rows(func(view WindowStore[K, V]) iter.Seq2[window.Windowed[K], V] { return view.Fetch(key, from, to) })
}

func (s windowParts[K, V]) Backward(key K, from, to time.Time) iter.Seq2[window.Windowed[K], V] {
	return s.rows(func(view WindowStore[K, V]) iter.Seq2[window.Windowed[K], V] { return view.Backward(key, from, to) })
}

func (s windowParts[K, V]) FetchRange(first, last Bound[K], from, to time.Time) iter.Seq2[window.Windowed[K], V] {
	return s.rows(func(view WindowStore[K, V]) iter.Seq2[window.Windowed[K], V] {
		return view.FetchRange(first, last, from, to)
	})
}

func (s windowParts[K, V]) All() iter.Seq2[window.Windowed[K], V] {
	return s.rows(func(view WindowStore[K, V]) iter.Seq2[window.Windowed[K], V] { return view.All() })
}

// rows reads all rows before it hands out the first, so that a test may do what it likes meanwhile.
func (s windowParts[K, V]) rows(of func(view WindowStore[K, V]) iter.Seq2[window.Windowed[K], V]) iter.Seq2[window.Windowed[K], V] {
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
