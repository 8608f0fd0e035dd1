package streams

// pass hands on what it gets: a merge, or a branch.
type pass[K, V any] struct{ children[K, V] }

func (n *pass[K, V]) process(r rec[K, V]) { n.forward(r) }

type filter[K, V any] struct {
	base
	children[K, V]
	f    func(K, V) bool
	want bool
}

func (n *filter[K, V]) process(r rec[K, V]) {
	n.enter()
	if n.f(r.key, r.value) == n.want {
		n.forward(r)
	}
}

type filterRecords[K, V any] struct {
	base
	children[K, V]
	f func(Record[K, V]) bool
}

func (n *filterRecords[K, V]) process(r rec[K, V]) {
	n.enter()
	if n.f(r.record()) {
		n.forward(r)
	}
}

// nullKeyFilter stands before a repartition topic. What it drops is counted, which Kafka Streams does not do.
type nullKeyFilter[K, V any] struct {
	children[K, V]
	t    *task
	info *nodeInfo
	keep bool
}

func (n *nullKeyFilter[K, V]) process(r rec[K, V]) {
	if r.nullKey && !n.keep {
		n.t.ctx.Drop("null key before a repartition topic")
		return
	}
	n.forward(r)
}

type mapValues[K, V, U any] struct {
	base
	children[K, U]
	f    func(V) U
	null func(U) bool
}

func (n *mapValues[K, V, U]) process(r rec[K, V]) {
	out := rec[K, U]{key: r.key, ts: r.ts, headers: r.headers, nullKey: r.nullKey, nullValue: r.nullValue}
	if !r.nullValue {
		n.enter()
		out.value = n.f(r.value)
		out.nullValue = n.null != nil && n.null(out.value)
	}
	n.forward(out)
}

type mapValuesWithKey[K, V, U any] struct {
	base
	children[K, U]
	f    func(K, V) U
	null func(U) bool
}

func (n *mapValuesWithKey[K, V, U]) process(r rec[K, V]) {
	out := rec[K, U]{key: r.key, ts: r.ts, headers: r.headers, nullKey: r.nullKey, nullValue: r.nullValue}
	if !r.nullValue {
		n.enter()
		out.value = n.f(r.key, r.value)
		out.nullValue = n.null != nil && n.null(out.value)
	}
	n.forward(out)
}

type tryMapValues[K, V, U any] struct {
	base
	children[K, U]
	f    func(V) (U, error)
	null func(U) bool
}

func (n *tryMapValues[K, V, U]) process(r rec[K, V]) {
	out := rec[K, U]{key: r.key, ts: r.ts, headers: r.headers, nullKey: r.nullKey, nullValue: r.nullValue}
	if !r.nullValue {
		n.enter()
		v, err := n.f(r.value)
		if err != nil {
			n.failed(ProcessRecord, err)
			return
		}
		out.value = v
		out.nullValue = n.null != nil && n.null(v)
	}
	n.forward(out)
}

// flatMapValues keeps the record at hand in a field, so that the function which emits is made once and not per record.
type flatMapValues[K, V, U any] struct {
	base
	children[K, U]
	f    func(K, V, func(U))
	emit func(U)
	out  rec[K, U]
	null func(U) bool
}

func newFlatMapValues[K, V, U any](b base, f func(K, V, func(U))) *flatMapValues[K, V, U] {
	n := &flatMapValues[K, V, U]{base: b, f: f, null: isNull[U]()}
	n.emit = func(u U) {
		out := n.out
		out.value = u
		out.nullValue = n.null != nil && n.null(u)
		n.forward(out)
		n.enter()
	}
	return n
}

func (n *flatMapValues[K, V, U]) process(r rec[K, V]) {
	if r.nullValue {
		return
	}
	n.enter()
	n.out = rec[K, U]{key: r.key, ts: r.ts, headers: r.headers, nullKey: r.nullKey}
	n.f(r.key, r.value, n.emit)
}

type flatMap[K, V, K2, V2 any] struct {
	base
	children[K2, V2]
	f    func(K, V, func(K2, V2))
	emit func(K2, V2)
	out  rec[K2, V2]
}

func newFlatMap[K, V, K2, V2 any](b base, f func(K, V, func(K2, V2))) *flatMap[K, V, K2, V2] {
	n := &flatMap[K, V, K2, V2]{base: b, f: f}
	nullKey, nullValue := isNull[K2](), isNull[V2]()
	n.emit = func(k K2, v V2) {
		out := n.out
		out.key, out.value = k, v
		out.nullKey = nullKey != nil && nullKey(k)
		out.nullValue = nullValue != nil && nullValue(v)
		n.forward(out)
		n.enter()
	}
	return n
}

func (n *flatMap[K, V, K2, V2]) process(r rec[K, V]) {
	if r.nullValue {
		return
	}
	n.enter()
	n.out = rec[K2, V2]{ts: r.ts, headers: r.headers}
	n.f(r.key, r.value, n.emit)
}

type mapBoth[K, V, K2, V2 any] struct {
	base
	children[K2, V2]
	f         func(K, V) (K2, V2)
	nullKey   func(K2) bool
	nullValue func(V2) bool
}

func (n *mapBoth[K, V, K2, V2]) process(r rec[K, V]) {
	n.enter()
	k, v := n.f(r.key, r.value)
	n.forward(remade(r, k, v, n.nullKey, n.nullValue))
}

// remade is the record that a key-and-value mapper makes of r. A null value stays null, whatever the mapper said.
func remade[K, V, K2, V2 any](r rec[K, V], k K2, v V2, nullKey func(K2) bool, nullValue func(V2) bool) rec[K2, V2] {
	out := rec[K2, V2]{key: k, ts: r.ts, headers: r.headers, nullValue: r.nullValue}
	out.nullKey = nullKey != nil && nullKey(k)
	if !r.nullValue {
		out.value = v
		out.nullValue = nullValue != nil && nullValue(v)
	}
	return out
}

type tryMap[K, V, K2, V2 any] struct {
	base
	children[K2, V2]
	f         func(K, V) (K2, V2, error)
	nullKey   func(K2) bool
	nullValue func(V2) bool
}

func (n *tryMap[K, V, K2, V2]) process(r rec[K, V]) {
	n.enter()
	k, v, err := n.f(r.key, r.value)
	if err != nil {
		n.failed(ProcessRecord, err)
		return
	}
	n.forward(remade(r, k, v, n.nullKey, n.nullValue))
}

type selectKey[K, V, K2 any] struct {
	base
	children[K2, V]
	f    func(K, V) K2
	null func(K2) bool
}

func (n *selectKey[K, V, K2]) process(r rec[K, V]) {
	n.enter()
	k := n.f(r.key, r.value)
	n.forward(rec[K2, V]{k, r.value, r.ts, r.headers, n.null != nil && n.null(k), r.nullValue})
}

type mapRecords[K, V, K2, V2 any] struct {
	base
	children[K2, V2]
	f func(Record[K, V]) Record[K2, V2]
}

func (n *mapRecords[K, V, K2, V2]) process(r rec[K, V]) {
	n.enter()
	out := recOf(n.f(r.record()))
	if n.checkTime(out.ts) {
		n.forward(out)
	}
}

type peek[K, V any] struct {
	base
	children[K, V]
	f func(K, V)
}

func (n *peek[K, V]) process(r rec[K, V]) {
	n.enter()
	n.f(r.key, r.value)
	n.forward(r)
}

type tryForEach[K, V any] struct {
	base
	f func(K, V) error
}

func (n *tryForEach[K, V]) process(r rec[K, V]) {
	n.enter()
	if err := n.f(r.key, r.value); err != nil {
		n.failed(ProcessRecord, err)
	}
}

type tryRecord[K, V any] struct {
	base
	f func(Record[K, V]) error
}

func (n *tryRecord[K, V]) process(r rec[K, V]) {
	n.enter()
	if err := n.f(r.record()); err != nil {
		n.failed(ProcessRecord, err)
	}
}

// choice is what a split and its branches share: the conditions, in the order of the branches.
type choice[K, V any] struct{ conditions []func(K, V) bool }

// branch hands each record to the first child whose condition it meets. Child i belongs to condition i.
type branch[K, V any] struct {
	base
	children[K, V]
	choice *choice[K, V]
}

func (n *branch[K, V]) process(r rec[K, V]) {
	for i, is := range n.choice.conditions {
		n.enter()
		if !is(r.key, r.value) {
			continue
		}
		if i == 0 {
			n.first.process(r)
		} else {
			n.more[i-1].process(r)
		}
		return
	}
	n.t.ctx.Drop("no branch")
}
