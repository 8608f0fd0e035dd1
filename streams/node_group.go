package streams

import (
	"errors"

	"github.com/millrace/millrace/tasks"
)

// groupTable gives the changes of a table new keys and values (F-061…F-063).
type groupTable[K, V, K2, V2 any] struct {
	base
	children[K2, change[V2]]
	f         func(K, V) (K2, V2)
	same      func(a, b K2) bool
	versioned bool // what is above is: only the latest version of a row counts (F-065)
	nullKey   func(K2) bool
	nullValue func(V2) bool
}

func (n *groupTable[K, V, K2, V2]) process(r rec[K, change[V]]) {
	if n.versioned && r.value.stale {
		return
	}
	n.enter()
	newKey, newValue, add := n.mapped(r.key, r.value.new, !r.value.newNull)
	oldKey, oldValue, subtract := n.mapped(r.key, r.value.old, r.value.hasOld)
	out := rec[K2, change[V2]]{ts: r.ts, headers: r.headers}
	if add && subtract && n.same(oldKey, newKey) {
		out.key, out.value = oldKey, change[V2]{new: newValue, old: oldValue, hasOld: true}
		n.forward(out)
		return
	}
	if subtract {
		out.key, out.value = oldKey, change[V2]{newNull: true, old: oldValue, hasOld: true}
		n.forward(out)
	}
	if add {
		out.key, out.value = newKey, change[V2]{new: newValue}
		n.forward(out)
	}
}

func (n *groupTable[K, V, K2, V2]) mapped(key K, value V, ok bool) (k K2, v V2, _ bool) {
	if !ok {
		return k, v, false
	}
	k, v = n.f(key, value)
	return k, v, (n.nullKey == nil || !n.nullKey(k)) && (n.nullValue == nil || !n.nullValue(v))
}

// tableAggregator folds the rows of each group into one (F-061).
type tableAggregator[K, V, A any] struct {
	base
	agg  tableAggregation[K, V, A]
	null func(A) bool
	out  *materialized[K, A]
}

func (n *tableAggregator[K, V, A]) attach(child sink[K, change[A]]) { n.out.attach(child) }
func (n *tableAggregator[K, V, A]) open() error                     { return n.out.open() }

func (n *tableAggregator[K, V, A]) process(r rec[K, change[V]]) {
	if r.nullKey {
		tasks.Throw(errors.New("a record of a repartition topic has no key: " + n.info.name))
	}
	n.enter()
	kv := n.out.kv
	key := kv.encodeKey(r.key)
	row := kv.get(key)
	var c change[A]
	c.setOld(row)
	ts, now, ok := r.ts, row.value, row.ok
	if r.value.hasOld && ok {
		now = n.agg.subtract(now, r.key, r.value.old)
		ok = n.null == nil || !n.null(now)
		ts = max(ts, row.ts)
	}
	if !r.value.newNull {
		switch {
		case ok:
			now = n.agg.add(now, r.key, r.value.new)
		case n.agg.first != nil:
			now = n.agg.first(r.value.new)
		default:
			now = n.agg.add(n.agg.initial(), r.key, r.value.new)
		}
		ok = n.null == nil || !n.null(now)
		ts = max(ts, row.ts)
	}
	if c.newNull = !ok; ok {
		c.new = now
	}
	put := kv.putEncoded(key, c.new, c.newNull, kv.timeOf(c.newNull, ts, r.ts), r.headers)
	n.out.sent(rec[K, change[A]]{key: r.key, value: c, ts: ts, headers: r.headers}, put)
}
