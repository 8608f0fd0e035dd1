package streams

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"time"

	"github.com/millrace/millrace/state"
	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/tasks"
	"github.com/millrace/millrace/topology"
)

// GlobalTable is a table that every process has whole: GlobalKTable.
type GlobalTable[K, V any] struct {
	b      *Builder
	serdes serdes[K, V]
	store  topology.Store
}

// Store names the table's store for queries, tests and processors, which may only read it.
func (t *GlobalTable[K, V]) Store() KeyValueHandle[K, V] {
	return KeyValueHandle[K, V]{t.store, t.serdes.key, t.serdes.value, t.b}
}

// GlobalTable reads every partition of a topic in every process, completely before any task starts, and always from the beginning. It has no changelog and no
// time: a record of a stream meets the row that is there when it is processed (F-007). A record that does not decode goes to [Config.OnDecodeError].
func (b *Builder) GlobalTable[K, V any](from Topic[K, V], opts ...TableOption) *GlobalTable[K, V] {
	o := gather(opts, TableOption.table)
	store := tableStore(o)
	if !o.hasStore {
		store.Name = b.newStoreName(from.name + "-")
	}
	c, source := b.globalSource(o, from.name)
	store.Caching, store.Logging = false, false
	if o.history != nil {
		c.mistake(fmt.Errorf("%w: a global table keeps no history", ErrBadOption))
	}
	src := from.source()
	src.key = serdeFor(b, c.name, c.at, true, o.serdes, src.key)
	src.value = serdeFor(b, c.name, c.at, false, o.serdes, src.value)
	t := &GlobalTable[K, V]{b, serdes[K, V]{src.key, src.value}, store}
	info := &tableInfo{store: store, at: c.at, keep: true}
	c.ownGlobal(store, shapeOf[K, V](rowsByKey))
	c.addGlobal(source, store, src, specOf(func(tk *task, n *nodeInfo) sink[K, V] {
		return newTableSource(tk, n, info, src.key, src.value)
	}))
	return t
}

// GlobalStore feeds a store that every process has whole, through a processor of its own that also runs when the store is filled at a start. All
// other processors may read the store, without [WithStores], and none may write to it. It has no changelog (F-008).
func (b *Builder) GlobalStore[K, V any, P Processor[K, V, None, None]](store StoreRef, from Topic[K, V], newProcessor func() P, opts ...SourceOption) {
	c, source := b.globalSource(gather(opts, SourceOption.source), from.name)
	c.need(newProcessor)
	src := from.source()
	src.key = serdeFor(b, c.name, c.at, true, nil, src.key)
	src.value = serdeFor(b, c.name, c.at, false, nil, src.value)
	if store == nil {
		c.mistake(fmt.Errorf("%w: a store is nil", ErrBadOption))
		return
	}
	s, err := store.declaration()
	switch {
	case err != nil:
		c.mistake(err)
	case store.builder() != nil:
		c.mistake(fmt.Errorf("%w: store %q is that of a table", ErrBadOption, s.Name))
	}
	c.ownGlobal(s, store.shape())
	s.Caching, s.Logging = false, false
	c.addGlobal(source, s, src, specOf(func(tk *task, n *nodeInfo) sink[K, V] {
		store.prepare(tk)
		return newProcess(base{tk, n}, newProcessor)
	}))
}

// globalSource begins a global table or store: its processor, and the name of its source.
func (b *Builder) globalSource(o options, topic string) (c *call, source string) {
	names := &call{b: b, at: b.line(), opts: o}
	source = names.part("-source", "KSTREAM-SOURCE-")
	c = b.operator("KTABLE-SOURCE-", o)
	c.checkTopics([]string{topic})
	return c, source
}

// ownGlobal notes a global store, which a processor may have named before.
func (c *call) ownGlobal(s topology.Store, shape storeShape) {
	if d := c.b.stores[s.Name]; d != nil && !d.owned && d.shape == shape {
		d.owned, d.global = true, true
		return
	}
	c.own(s, shape)
	if d := c.b.stores[s.Name]; d != nil && d.at == c.at {
		d.global = true
	}
}

// addGlobal adds the two nodes of a global store.
func (c *call) addGlobal[K, V any](source string, store topology.Store, src sourceSpec[K, V], processor spec) {
	c.add(func(g *topology.Graph) {
		g.Add(topology.Node{Name: source, Kind: topology.Source, Global: true, Topics: src.names, At: c.at, Payload: sourceSpecOf(src, c.opts)})
		c.addStore(g, store, true)
		c.node(g, processor, []string{store.Name}, source)
	})
}

// JoinGlobal looks up the row of t that by names. The stream need not be partitioned like t, and keeps its key. A record with a null value, or for which by
// returns nil, takes no part (F-108).
func (s *Stream[K, V]) JoinGlobal[GK, W, R any](t *GlobalTable[GK, W], by func(key K, value V) GK, f func(value V, row W) R, opts ...StepOption) *Stream[K, R] {
	return joinGlobal(s, t, by, f, false, func(_ K, _ GK, v V, w W, _ bool) R { return f(v, w) }, opts)
}

// LeftJoinGlobal also gives the records that have no row in t, with ok false.
func (s *Stream[K, V]) LeftJoinGlobal[GK, W, R any](t *GlobalTable[GK, W], by func(key K, value V) GK, f func(value V, row W, ok bool) R, opts ...StepOption) *Stream[K, R] {
	return joinGlobal(s, t, by, f, true, func(_ K, _ GK, v V, w W, ok bool) R { return f(v, w, ok) }, opts)
}

// JoinGlobalWithKey is JoinGlobal for an f that reads the key and the looked-up key (KIP-1340).
func (s *Stream[K, V]) JoinGlobalWithKey[GK, W, R any](t *GlobalTable[GK, W], by func(key K, value V) GK, f func(key K, rowKey GK, value V, row W) R, opts ...StepOption) *Stream[K, R] {
	return joinGlobal(s, t, by, f, false, func(k K, g GK, v V, w W, _ bool) R { return f(k, g, v, w) }, opts)
}

// LeftJoinGlobalWithKey is LeftJoinGlobal for an f that reads the key and the looked-up key.
func (s *Stream[K, V]) LeftJoinGlobalWithKey[GK, W, R any](t *GlobalTable[GK, W], by func(key K, value V) GK, f func(key K, rowKey GK, value V, row W, ok bool) R, opts ...StepOption) *Stream[K, R] {
	return joinGlobal(s, t, by, f, true, f, opts)
}

func joinGlobal[K, V, GK, W, R any](s *Stream[K, V], t *GlobalTable[GK, W], by func(K, V) GK, given any, left bool, f func(K, GK, V, W, bool) R, opts []StepOption) *Stream[K, R] {
	c := s.b.operator("KSTREAM-LEFTJOIN-", gather(opts, StepOption.step)) // also of inner joins, as in Kafka Streams
	c.need(by)
	c.need(given)
	if t == nil {
		c.mistake(fmt.Errorf("%w: the global table is nil", ErrBadOption))
		return &Stream[K, R]{above: s.above}
	}
	if t.b != s.b {
		c.mistake(fmt.Errorf("%w: the global table %s", ErrOtherBuilder, t.store.Name))
	}
	a := simple(c, s.above, func(tk *task, n *nodeInfo) sink[K, V] {
		return &globalLookup[K, V, GK, W, R]{
			base: base{tk, n}, rows: newGlobalRows(tk, t.store, t.serdes.key, t.serdes.value), by: by, f: f, left: left,
			nullKey: isNull[GK](), null: isNull[R](),
		}
	})
	a.step.relaxed = left
	return mapped[K, V, R](c, s, a)
}

// globalLookup joins each record with a row of a global table.
type globalLookup[K, V, GK, W, R any] struct {
	base
	children[K, R]
	rows    *globalRows[GK, W]
	by      func(K, V) GK
	f       func(K, GK, V, W, bool) R
	left    bool
	nullKey func(GK) bool
	null    func(R) bool
}

func (n *globalLookup[K, V, GK, W, R]) process(r rec[K, V]) {
	if r.nullValue {
		n.t.ctx.Drop("null key or value in a join")
		return
	}
	n.enter()
	key := n.by(r.key, r.value)
	row := found[W]{ts: -1}
	if n.nullKey == nil || !n.nullKey(key) {
		row = n.rows.lookup(key)
	} else if !n.left {
		n.t.ctx.Drop("null key or value in a join")
		return
	}
	if !row.ok && !n.left {
		return
	}
	out := rec[K, R]{key: r.key, ts: r.ts, headers: r.headers, nullKey: r.nullKey}
	out.value = n.f(r.key, key, r.value, row.value, row.ok)
	out.nullValue = n.null != nil && n.null(out.value)
	n.forward(out)
}

// globalRows reads a global store from a task, whose goroutine is not the one that fills it.
type globalRows[K, V any] struct {
	kv keyValue[K, V] // serdes and buffers of the task's own
}

func newGlobalRows[K, V any](t *task, spec topology.Store, key serde.Serde[K], value serde.Serde[V]) *globalRows[K, V] {
	topic := t.placeOf(spec)
	if t.cfg != nil {
		if sub := t.cfg.topology.Global(spec.Name); sub != nil {
			topic = sub.SourceTopics[0]
		}
	}
	return &globalRows[K, V]{keyValue[K, V]{t: t, spec: spec, key: key, value: value, keyPlace: serde.Place{Topic: topic, Key: true}, place: serde.Place{Topic: topic}}}
}

// with calls f with the store, while nobody changes it.
func (g *globalRows[K, V]) with(f func(kv *state.KeyValue)) {
	g.kv.t.cfg.globals.Read(func(s *state.Stores) {
		kv, err := s.KeyValue(g.kv.spec.Name)
		if err != nil {
			g.kv.t.storeFailed(g.kv.spec.Name, "open", err)
		}
		f(kv)
	})
}

func (g *globalRows[K, V]) lookup(key K) (row found[V]) {
	raw := g.kv.encodeKey(key)
	g.with(func(kv *state.KeyValue) {
		g.kv.store = kv
		row = g.kv.get(raw)
	})
	return row
}

// globalView is a global store as a processor sees it. What would change it panics. Ranges show the store as it was at the last batch of its topic.
type globalView[K, V any] struct{ g *globalRows[K, V] }

func (v globalView[K, V]) Get(key K) (value V, ok bool) {
	row := v.g.lookup(key)
	return row.value, row.ok
}

func (v globalView[K, V]) GetRecord(key K) (r Record[K, V], ok bool) {
	row := v.g.lookup(key)
	if !row.ok {
		return r, false
	}
	return Record[K, V]{Key: key, Value: row.value, Timestamp: time.UnixMilli(row.ts).UTC()}, true
}

func (v globalView[K, V]) readOnly() {
	panic(fmt.Sprintf("streams: the global store %q may only be changed by the processor that was given to Builder.GlobalStore", v.g.kv.spec.Name))
}

func (v globalView[K, V]) Put(K, V)                          { v.readOnly() }
func (v globalView[K, V]) PutRecord(Record[K, V])            { v.readOnly() }
func (v globalView[K, V]) PutIfAbsent(K, V) (old V, ok bool) { v.readOnly(); return old, ok }
func (v globalView[K, V]) Delete(K) (old V, ok bool)         { v.readOnly(); return old, ok }
func (v globalView[K, V]) All() iter.Seq2[K, V]              { return v.rows(nil, nil, false) }
func (v globalView[K, V]) Range(from, to Bound[K]) iter.Seq2[K, V] {
	return v.rows(v.bound(from), v.bound(to), false)
}

func (v globalView[K, V]) Backward(from, to Bound[K]) iter.Seq2[K, V] {
	return v.rows(v.bound(from), v.bound(to), true)
}

func (v globalView[K, V]) Prefix(prefix []byte) iter.Seq2[K, V] {
	return v.iterate(func(s *state.KeyValueView) state.Iterator { return s.Prefix(prefix, false) })
}

func (v globalView[K, V]) ApproximateLen() (n int64) {
	v.g.with(func(kv *state.KeyValue) {
		var err error
		if n, err = kv.ApproximateLen(); err != nil {
			v.g.kv.t.storeFailed(v.g.kv.spec.Name, "approximate length", err)
		}
	})
	return n
}

func (v globalView[K, V]) bound(b Bound[K]) []byte {
	if !b.set {
		return nil
	}
	return slices.Clone(v.g.kv.encodeKey(b.key))
}

func (v globalView[K, V]) rows(from, to []byte, reverse bool) iter.Seq2[K, V] {
	return v.iterate(func(s *state.KeyValueView) state.Iterator { return s.Range(from, to, reverse) })
}

func (v globalView[K, V]) iterate(open func(*state.KeyValueView) state.Iterator) iter.Seq2[K, V] {
	kv := &v.g.kv
	return func(yield func(K, V) bool) {
		snapshot, err := kv.t.cfg.globals.Stores().Snapshot()
		if err != nil {
			kv.t.storeFailed(kv.spec.Name, "snapshot", err)
		}
		defer snapshot.Close()
		s, err := snapshot.KeyValue(kv.spec.Name)
		if err != nil {
			kv.t.storeFailed(kv.spec.Name, "snapshot", err)
		}
		it := open(s)
		defer it.Close()
		for it.Next() {
			if !yield(kv.decodeKey(it.Key()), kv.decodeValue(it.Value())) {
				return
			}
		}
		if err := it.Err(); err != nil {
			kv.t.storeFailed(kv.spec.Name, "range", err)
		}
	}
}

// isGlobal reports whether a store is global, and the task is not the one that fills it.
func (t *task) isGlobal(store string) bool {
	return t.cfg != nil && t.cfg.globals != nil && t.cfg.topology.Subtopology(t.id.Subtopology) != nil && t.cfg.globals.Has(store)
}

// openGlobals opens the global stores, before any task.
func (p *instance) openGlobals() error {
	subs := p.app.topology.t.Globals
	if len(subs) == 0 {
		return nil
	}
	cfg := &p.app.cfg
	dir := ""
	if p.dir != nil {
		dir = filepath.Join(p.dir.Path(), "global")
	}
	var err error
	p.globals, err = tasks.OpenGlobal(tasks.GlobalConfig{
		ApplicationID: cfg.ApplicationID, Subs: subs, Dir: dir, Engine: p.stateEngine(), Clock: cfg.Clock, Logger: cfg.Logger,
		NewProgram: func(sub *topology.Subtopology, id topology.TaskID) (tasks.Program, error) {
			return newTask(p.tasks, sub, id)
		},
	})
	if err != nil {
		return fmt.Errorf("streams: %w", err)
	}
	p.tasks.globals = p.globals
	return nil
}

// runGlobals fills the global stores until ctx ends, and returns when they have reached the ends that their topics had. What goes wrong afterwards ends
// the app.
func (p *instance) runGlobals(ctx context.Context) error {
	if p.globals == nil {
		return nil
	}
	ready, failed := make(chan struct{}), make(chan error, 1)
	p.group.Go(func() {
		err := p.globals.Run(ctx, p.log, p.changelog, func() { close(ready) })
		if err == nil {
			return
		}
		select {
		case <-ready:
			p.failures <- failure{&worker{name: "global stores", global: true}, err}
		default:
			failed <- err
		}
	})
	select {
	case <-ready:
		return nil
	case err := <-failed:
		if missing, ok := errors.AsType[*tasks.MissingTopicError](err); ok {
			return fmt.Errorf("%w: %s, of a global store", ErrMissingSourceTopic, missing.Topic)
		}
		return fmt.Errorf("streams: %w", err)
	case <-ctx.Done():
		return nil
	}
}
