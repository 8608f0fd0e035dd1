package streams

// tableJoin takes the changes of one side of a table-table join and looks up the other side (F-110…F-112).
type tableJoin[K, V, W, R any] struct {
	base
	children[K, change[R]]
	tableSide
	other func(K) found[W]
	f     joiner[K, V, W, R]
	null  func(R) bool
}

func newTableJoin[K, V, W, R any](b base, side tableSide, other func(K) found[W], f joiner[K, V, W, R]) *tableJoin[K, V, W, R] {
	return &tableJoin[K, V, W, R]{base: b, tableSide: side, other: other, f: f, null: isNull[R]()}
}

func (n *tableJoin[K, V, W, R]) process(r rec[K, change[V]]) {
	if r.nullKey {
		n.t.ctx.Drop("null key in a join")
		return
	}
	if n.versioned && r.value.stale {
		n.t.ctx.Drop("out of order in a join of a versioned table")
		return
	}
	n.enter()
	w := n.other(r.key)
	if !w.ok && (n.needsOther || r.value.newNull && !r.value.hasOld) {
		return
	}
	out := rec[K, change[R]]{key: r.key, ts: max(r.ts, w.ts), headers: r.headers}
	var ok bool
	out.value.new, ok = n.join(r.key, r.value.new, !r.value.newNull, w)
	out.value.newNull = !ok
	out.value.stale = r.value.stale
	if n.old {
		out.value.old, out.value.hasOld = n.join(r.key, r.value.old, r.value.hasOld, w)
	}
	n.forward(out)
}

// join computes a row of the result; ok is false if there is none.
func (n *tableJoin[K, V, W, R]) join(key K, v V, vok bool, w found[W]) (r R, ok bool) {
	if !vok && (n.needsThis || !w.ok) {
		return r, false
	}
	r = n.f(key, v, vok, w.value, w.ok)
	return r, n.null == nil || !n.null(r)
}

// tableMerge takes what both sides of a join give, and keeps it if the result is materialised.
type tableMerge[K, R any] struct{ out *materialized[K, R] }

func (n *tableMerge[K, R]) attach(child sink[K, change[R]]) { n.out.attach(child) }
func (n *tableMerge[K, R]) open() error                     { return n.out.open() }
func (n *tableMerge[K, R]) process(r rec[K, change[R]])     { n.out.set(r) }
