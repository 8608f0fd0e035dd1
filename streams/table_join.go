package streams

import (
	"fmt"
	"slices"

	"github.com/millrace/millrace/topology"
)

// Join has a row for each key that both tables have. A change on either side updates the result, whose time is the later of the two rows' (F-110).
func (t *Table[K, V]) Join[W, R any](other *Table[K, W], f func(value V, other W) R, opts ...TableOption) *Table[K, R] {
	return joinTables(t, other, f, joinInner, func(_ K, v V, _ bool, w W, _ bool) R { return f(v, w) }, opts)
}

// LeftJoin has a row for each key of t; ok is false where the other table has none.
func (t *Table[K, V]) LeftJoin[W, R any](other *Table[K, W], f func(value V, other W, ok bool) R, opts ...TableOption) *Table[K, R] {
	return joinTables(t, other, f, joinLeft, func(_ K, v V, _ bool, w W, ok bool) R { return f(v, w, ok) }, opts)
}

// OuterJoin has a row for each key of either table. At least one of valueOK and otherOK is true, save where f is asked for the old result of a row that the
// other table alone had.
func (t *Table[K, V]) OuterJoin[W, R any](other *Table[K, W], f func(value V, valueOK bool, other W, otherOK bool) R, opts ...TableOption) *Table[K, R] {
	return joinTables(t, other, f, joinOuter, func(_ K, v V, vok bool, w W, wok bool) R { return f(v, vok, w, wok) }, opts)
}

// JoinWithKey is Join for an f that reads the key.
func (t *Table[K, V]) JoinWithKey[W, R any](other *Table[K, W], f func(key K, value V, other W) R, opts ...TableOption) *Table[K, R] {
	return joinTables(t, other, f, joinInner, func(k K, v V, _ bool, w W, _ bool) R { return f(k, v, w) }, opts)
}

// LeftJoinWithKey is LeftJoin for an f that reads the key.
func (t *Table[K, V]) LeftJoinWithKey[W, R any](other *Table[K, W], f func(key K, value V, other W, ok bool) R, opts ...TableOption) *Table[K, R] {
	return joinTables(t, other, f, joinLeft, func(k K, v V, _ bool, w W, ok bool) R { return f(k, v, w, ok) }, opts)
}

// OuterJoinWithKey is OuterJoin for an f that reads the key.
func (t *Table[K, V]) OuterJoinWithKey[W, R any](other *Table[K, W], f func(key K, value V, valueOK bool, other W, otherOK bool) R, opts ...TableOption) *Table[K, R] {
	return joinTables(t, other, f, joinOuter, f, opts)
}

// joinKind says which sides of a join must have a row.
type joinKind uint8

const (
	joinInner joinKind = iota
	joinLeft
	joinOuter
)

// joiner computes the row of a join; one that a side lacks is the zero value and false.
type joiner[K, V, W, R any] func(key K, value V, valueOK bool, other W, otherOK bool) R

func (f joiner[K, V, W, R]) reversed() joiner[K, W, V, R] {
	return func(k K, w W, wok bool, v V, vok bool) R { return f(k, v, vok, w, wok) }
}

// joinTables adds the three nodes of a join: one for the changes of each side, which looks the other side up, and one that merges what they give.
func joinTables[K, V, W, R any](t *Table[K, V], other *Table[K, W], given any, kind joinKind, f joiner[K, V, W, R], opts []TableOption) *Table[K, R] {
	c := t.b.operator("KTABLE-MERGE-", gather(opts, TableOption.table))
	c.need(given)
	this, that := c.part("-join-this", "KTABLE-JOINTHIS-"), c.part("-join-other", "KTABLE-JOINOTHER-")
	out := derivedTable(c, serdes[K, R]{key: t.serdes.key})
	if other == nil {
		c.mistake(fmt.Errorf("%w: the other table is nil", ErrBadOption))
		return out.table(c, t.step, t.sources)
	}
	c.same(other.above)
	if kind != joinInner {
		t.info.sendOld(true)
	}
	if kind == joinOuter {
		other.info.sendOld(true)
	}
	t.view.need()
	other.view.need()
	left := tableSide{needsThis: kind != joinOuter, needsOther: kind == joinInner, versioned: t.info.versioned}
	right := tableSide{needsThis: kind == joinInner, needsOther: kind != joinOuter, versioned: other.info.versioned}
	out.info.derive = func(bool) bool {
		t.info.sendOld(true)
		other.info.sendOld(true)
		left.old, right.old = true, true
		return true
	}
	sources := copartition(t.above, other.above)
	st := c.add(func(g *topology.Graph) {
		c.nodeNamed(g, this, specOf(func(tk *task, n *nodeInfo) sink[K, change[V]] {
			return newTableJoin(base{tk, n}, left, other.view.make(tk), f)
		}), other.view.stores(), t.name)
		c.nodeNamed(g, that, specOf(func(tk *task, n *nodeInfo) sink[K, change[W]] {
			return newTableJoin(base{tk, n}, right, t.view.make(tk), f.reversed())
		}), t.view.stores(), other.name)
		out.write(g, c, func(_ base, m *materialized[K, R]) sink[K, change[R]] { return &tableMerge[K, R]{m} }, this, that)
		c.copartitioned(g, sources)
	}, t.step, other.step)
	if !out.info.keep {
		out.view = joinView(t.view, other.view, kind, f)
	}
	return out.table(c, st, sources)
}

// joinView looks up the row of a join that has no store: it is made of the rows of both sides.
func joinView[K, V, W, R any](left tableView[K, V], right tableView[K, W], kind joinKind, f joiner[K, V, W, R]) tableView[K, R] {
	null := isNull[R]()
	return tableView[K, R]{
		need: func() { left.need(); right.need() },
		stores: func() []string {
			all := slices.Clone(left.stores())
			for _, s := range right.stores() {
				if !slices.Contains(all, s) {
					all = append(all, s)
				}
			}
			return all
		},
		make: func(tk *task) func(K) found[R] {
			this, other := left.make(tk), right.make(tk)
			return func(key K) found[R] {
				v := this(key)
				if !v.ok && kind != joinOuter {
					return found[R]{ts: -1}
				}
				w := other(key)
				if !w.ok && (kind == joinInner || !v.ok) {
					return found[R]{ts: -1}
				}
				r := f(key, v.value, v.ok, w.value, w.ok)
				if null != nil && null(r) { // a row that the joiner refuses has no time either
					return found[R]{ts: -1}
				}
				return found[R]{r, max(v.ts, w.ts), true}
			}
		},
	}
}

// tableSide says when one side of a join has a result, as [joinKind] does it for both.
type tableSide struct {
	needsThis, needsOther bool
	old                   bool // changes carry the old value
	versioned             bool // the table of this side is: only the latest version of a row counts (F-113)
}
