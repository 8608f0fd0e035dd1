package streams

import (
	"errors"
	"fmt"
	"slices"

	"github.com/millrace/millrace/tasks"
	"github.com/millrace/millrace/topology"
)

// ValueTransformer computes the value of a table row with a context and stores. ok is false for a deletion, and a false result is one. Init and Close are
// optional, as for a [Processor]. The context can't forward.
type ValueTransformer[K, V, U any] interface {
	Transform(ctx *FixedKeyContext[K, U], key K, value V, ok bool) (result U, resultOK bool, err error)
}

// TransformValues is MapValues with stores and a context. Unlike it, it is also called for deletions. Without [Materialized] another transformer is made for
// each operator below that looks rows up, and run again for each lookup, also of a row that does not exist (F-068).
func (t *Table[K, V]) TransformValues[U any, T ValueTransformer[K, V, U]](newTransformer func() T, stores []StoreRef, opts ...TableOption) *Table[K, U] {
	c := t.b.operator("KTABLE-TRANSFORMVALUES-", gather(opts, TableOption.table))
	c.need(newTransformer)
	var names []string
	for _, ref := range stores {
		if name := c.declare(ref); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	d := derivedTable(c, serdes[K, U]{key: t.serdes.key})
	d.info.fromParent(t.info)
	st := c.add(func(g *topology.Graph) {
		used := c.declaredStores(g, names)
		if d.info.keep {
			c.addStore(g, d.info.store, true)
			used = append(used, d.info.store.Name)
		}
		c.node(g, specOf(func(tk *task, n *nodeInfo) sink[K, change[V]] {
			for _, ref := range stores {
				ref.prepare(tk)
			}
			return &tableTransform[K, V, U, T]{
				base: base{tk, n}, run: newTransform[K, V, U](base{tk, n}, newTransformer),
				out: newMaterialized(tk, n, d.info, d.serdes.key, d.serdes.value),
			}
		}), used, t.name)
	}, t.step)
	if !d.info.keep {
		d.view = t.view.transformed(c.name, stores, newTransformer)
	}
	return d.table(c, st, t.sources)
}

// declaredStores adds the stores that a processor declared, save global ones, which need no connection. It returns their names.
func (c *call) declaredStores(g *topology.Graph, names []string) (used []string) {
	for _, name := range names {
		d := c.b.stores[name]
		if d.global {
			continue
		}
		if !g.HasStore(name) {
			g.AddStore(d.store, d.at)
		}
		used = append(used, name)
	}
	return used
}

// transformed looks rows up through a transformer of its own.
func (v tableView[K, V]) transformed[U any, T ValueTransformer[K, V, U]](name string, refs []StoreRef, newTransformer func() T) tableView[K, U] {
	runner := func(t *task) func(K, found[V]) found[U] {
		info := &nodeInfo{name: name}
		for _, ref := range refs {
			ref.prepare(t)
			info.stores = append(info.stores, ref.storeName())
		}
		run := newTransform[K, V, U](base{t, info}, newTransformer)
		t.onOpen = append(t.onOpen, run.open)
		t.onClose = append(t.onClose, run.close)
		return func(key K, row found[V]) found[U] {
			if u, ok := run.at(row.ts, nil, key, row.value, row.ok); ok {
				return found[U]{u, row.ts, true}
			}
			return found[U]{ts: -1}
		}
	}
	out := tableView[K, U]{
		need: v.need,
		stores: func() []string {
			all := slices.Clone(v.stores())
			for _, ref := range refs {
				if s := ref.storeName(); !slices.Contains(all, s) {
					all = append(all, s)
				}
			}
			return all
		},
		make: func(t *task) func(K) found[U] {
			above, run := v.make(t), runner(t)
			return func(key K) found[U] { return run(key, above(key)) }
		},
	}
	if v.asOf != nil {
		out.asOf = func(t *task) func(K, int64) found[U] {
			above, run := v.asOf(t), runner(t)
			return func(key K, at int64) found[U] { return run(key, above(key, at)) }
		}
	}
	return out
}

// transform runs a ValueTransformer of the user's.
type transform[K, V, U any] struct {
	base
	make func() ValueTransformer[K, V, U]
	t    ValueTransformer[K, V, U]
	ctx  FixedKeyContext[K, U]
	null func(U) bool
}

func newTransform[K, V, U any, T ValueTransformer[K, V, U]](b base, make func() T) *transform[K, V, U] {
	return &transform[K, V, U]{base: b, make: func() ValueTransformer[K, V, U] { return make() }, null: isNull[U]()}
}

func (n *transform[K, V, U]) open() error {
	if n.base.t.cfg == nil {
		return nil
	}
	n.ctx.TaskContext = TaskContext{n.base.t.cfg.ctx, n.base.t, n.info}
	n.ctx.out.first = noForward[K, U]{}
	n.enter()
	n.t = n.make()
	return initProcessor(n.t, &n.ctx)
}

func (n *transform[K, V, U]) close() error { return closeProcessor(n.t) }

// at transforms a value at a time. What was known about the record at hand is put back afterwards.
func (n *transform[K, V, U]) at(ts int64, headers Headers, key K, value V, ok bool) (result U, _ bool) {
	t := n.base.t
	now, before, at := t.now, t.headers, t.at
	t.now, t.headers = ts, headers
	n.enter()
	result, ok, err := n.t.Transform(&n.ctx, key, value, ok)
	if err != nil {
		n.failed(ProcessRecord, err)
		ok = false
	}
	ok = ok && (n.null == nil || !n.null(result))
	t.now, t.headers, t.at = now, before, at
	return result, ok
}

// noForward stands where the children of a transformer would be.
type noForward[K, V any] struct{}

func (noForward[K, V]) process(rec[K, V]) {
	tasks.Throw(errors.New("a ValueTransformer returns its result and can't forward"))
}

// tableTransform computes rows with a transformer.
type tableTransform[K, V, U any, T ValueTransformer[K, V, U]] struct {
	base
	run *transform[K, V, U]
	out *materialized[K, U]
}

func (n *tableTransform[K, V, U, T]) attach(child sink[K, change[U]]) { n.out.attach(child) }
func (n *tableTransform[K, V, U, T]) close() error                    { return n.run.close() }

func (n *tableTransform[K, V, U, T]) open() error {
	if err := n.out.open(); err != nil {
		return err
	}
	return n.run.open()
}

func (n *tableTransform[K, V, U, T]) process(r rec[K, change[V]]) {
	out := rec[K, change[U]]{key: r.key, ts: r.ts, headers: r.headers, value: change[U]{stale: r.value.stale}}
	c := &out.value
	var ok bool
	c.new, ok = n.run.at(r.ts, r.headers, r.key, r.value.new, !r.value.newNull)
	c.newNull = !ok
	if n.out.wantsOld() {
		c.setOld(n.out.kv.lookup(r.key))
	} else if n.out.kv == nil && n.out.info.old {
		c.old, c.hasOld = n.run.at(r.ts, r.headers, r.key, r.value.old, r.value.hasOld)
	}
	n.out.set(out)
}

// ReadOnlyStore feeds a store that is restored from its input topic instead of from a changelog. The processor must put every record
// unchanged, since a restored store has never seen it; all others may only read (KIP-813, F-136).
func (b *Builder) ReadOnlyStore[K, V any, P Processor[K, V, None, None]](store StoreRef, from Topic[K, V], newProcessor func() P, opts ...SourceOption) {
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
	case s.Kind != topology.KeyValueStore && s.Kind != topology.VersionedStore:
		c.mistake(fmt.Errorf("%w: store %q is a %s store, which no topic of plain records can restore", ErrBadOption, s.Name, s.Kind))
	}
	if d := c.b.stores[s.Name]; d == nil {
		c.own(s, store.shape())
	} else if d.owned || d.shape != store.shape() {
		c.mistake(fmt.Errorf("%w: %q, at %s", ErrStoreConflict, s.Name, d.at))
	}
	s.Caching, s.Logging, s.SourceTopic = false, true, from.name
	if d := c.b.stores[s.Name]; d != nil {
		d.store, d.owned = s, true
	}
	processor := specOf(func(tk *task, n *nodeInfo) sink[K, V] {
		store.prepare(tk)
		return newProcess(base{tk, n}, newProcessor)
	})
	processor.updates = s.Name
	c.add(func(g *topology.Graph) {
		g.Add(topology.Node{Name: source, Kind: topology.Source, Topics: src.names, At: c.at, Payload: sourceSpecOf(src, c.opts)})
		if !g.HasStore(s.Name) {
			c.addStore(g, s, true)
		}
		c.node(g, processor, []string{s.Name}, source)
	})
}
