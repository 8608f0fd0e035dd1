package streams

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/millrace/millrace/state"
	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/streams/window"
	"github.com/millrace/millrace/topology"
)

// joinWindow keeps the records of one side of a stream-stream join, once its children have looked for partners.
type joinWindow[K, V any] struct {
	base
	children[K, V]
	store *windowStore[K, V]
}

func newJoinWindow[K, V any](b base, spec topology.Store, key serde.Serde[K], value serde.Serde[V]) *joinWindow[K, V] {
	return &joinWindow[K, V]{base: b, store: openWindow(b.t, spec, key, value)}
}

func (n *joinWindow[K, V]) process(r rec[K, V]) {
	n.forward(r)
	if r.nullKey {
		return
	}
	n.enter()
	n.store.put(n.store.encodeKey(r.key), r.ts, r.value, r.nullValue, r.ts, r.headers)
}

// streamJoin pairs the records of one side with those of the other that lie in the window (F-096…F-103).
type streamJoin[K, V, W, R any] struct {
	base
	children[K, R]
	w     window.JoinSpec // as seen from this side
	outer bool            // records of this side that find no partner are given as well
	other *windowStore[K, W]
	side  *joinSide[K, V, R] // nil in an inner join
	f     joiner[K, V, W, R]
	null  func(R) bool
}

func newStreamJoin[K, V, W, R any](b base, w window.JoinSpec, outer bool, other *windowStore[K, W], side *joinSide[K, V, R], f joiner[K, V, W, R]) *streamJoin[K, V, W, R] {
	return &streamJoin[K, V, W, R]{base: b, w: w, outer: outer, other: other, side: side, f: f, null: isNull[R]()}
}

func (n *streamJoin[K, V, W, R]) process(r rec[K, V]) {
	if n.side != nil {
		n.side.tracker.now = max(n.side.tracker.now, r.ts)
	}
	if n.outer && r.nullKey && !r.nullValue {
		n.alone(r)
		return
	}
	if r.nullKey || r.nullValue {
		n.t.ctx.Drop("null key or value in a join")
		return
	}
	n.enter()
	if n.side != nil && r.ts == n.side.tracker.now {
		n.giveUnmatched(r)
	}
	key := n.other.encodeKey(r.key)
	from, to := max(0, r.ts-n.w.Before), max(0, r.ts+n.w.After)
	it := n.other.store.Fetch(key, from, to, false)
	matched := false
	for it.Next() {
		matched = true
		start := it.Start()
		if n.side != nil {
			n.side.matched(key, start, r.ts)
		}
		w := n.other.decodeValue(it.Value())
		n.enter()
		n.give(r, n.f(r.key, r.value, true, w, true), max(r.ts, start))
	}
	if err := it.Close(); err != nil {
		n.t.storeFailed(n.other.spec.Name, "fetch", err)
	}
	if matched || !n.outer {
		return
	}
	if to < n.side.tracker.now {
		n.alone(r)
		return
	}
	n.side.tracker.first = min(n.side.tracker.first, r.ts)
	n.side.park(key, r)
}

// alone gives a record that has no partner, at once.
func (n *streamJoin[K, V, W, R]) alone(r rec[K, V]) {
	n.enter()
	var none W
	n.give(r, n.f(r.key, r.value, true, none, false), r.ts)
}

func (n *streamJoin[K, V, W, R]) give(r rec[K, V], result R, ts int64) {
	n.forward(rec[K, R]{r.key, result, ts, r.headers, r.nullKey, n.null != nil && n.null(result)})
}

// selfJoin pairs the records of a stream with each other, and each with itself, from one store (F-055). The order of results is that of the two stores that
// a join has otherwise: what the record finds as one of the left side, then what it finds as one of the right side, with itself where its own time is in
// between.
type selfJoin[K, V, R any] struct {
	base
	children[K, R]
	w     window.JoinSpec
	store *windowStore[K, V]
	f     joiner[K, V, V, R]
	now   int64 // greatest time of a record, -1 before the first
	null  func(R) bool
}

func newSelfJoin[K, V, R any](b base, w window.JoinSpec, store *windowStore[K, V], f joiner[K, V, V, R]) *selfJoin[K, V, R] {
	return &selfJoin[K, V, R]{base: b, w: w, store: store, f: f, now: -1, null: isNull[R]()}
}

func (n *selfJoin[K, V, R]) process(r rec[K, V]) {
	if r.nullKey || r.nullValue {
		n.t.ctx.Drop("null key or value in a join")
		return
	}
	n.enter()
	n.now = max(n.now, r.ts)
	// A record that its store would not take does not meet itself either.
	meetsItself := r.ts > n.now-(n.w.Size()+n.w.Grace)+1
	key := n.store.encodeKey(r.key)
	n.each(key, r.ts-n.w.Before, r.ts+n.w.After, func(start int64, other V) { n.give(r, r.value, other, max(r.ts, start)) })
	n.each(key, r.ts-n.w.After, r.ts+n.w.Before, func(start int64, other V) {
		if start > r.ts && meetsItself {
			meetsItself = false
			n.give(r, r.value, r.value, r.ts)
		}
		n.give(r, other, r.value, max(r.ts, start))
	})
	if meetsItself {
		n.give(r, r.value, r.value, r.ts)
	}
}

// each calls f with the records of a key between two times.
func (n *selfJoin[K, V, R]) each(key []byte, from, to int64, f func(start int64, value V)) {
	it := n.store.store.Fetch(key, max(0, from), max(0, to), false)
	for it.Next() {
		f(it.Start(), n.store.decodeValue(it.Value()))
	}
	if err := it.Close(); err != nil {
		n.t.storeFailed(n.store.spec.Name, "fetch", err)
	}
}

func (n *selfJoin[K, V, R]) give(r rec[K, V], left, right V, ts int64) {
	n.enter()
	result := n.f(r.key, left, true, right, true)
	n.forward(rec[K, R]{r.key, result, ts, r.headers, r.nullKey, n.null != nil && n.null(result)})
}

// giveUnmatched gives the parked records of both sides whose window has closed, with the time they had and the headers of r, which made the time pass.
func (n *streamJoin[K, V, W, R]) giveUnmatched(r rec[K, V]) {
	t := n.side.tracker
	// Without a parked record, first is the greatest number and the sum wraps around: then the store is looked at, as after a start it may hold some.
	if t.first+n.w.After+n.w.Grace >= t.now || n.t.ctx.Now() < t.nextLook {
		return
	}
	t.nextLook = n.t.ctx.Now() + emitInterval
	n.side.unmatched(n.w.Grace, func(key K, ts int64, result R) {
		n.forward(rec[K, R]{key: key, value: result, ts: ts, headers: r.headers, nullValue: n.null != nil && n.null(result)})
		n.enter()
	}, r.ts)
}

// emitInterval is how long, in ms of wall-clock time, a left or outer join waits between two looks for records that found no partner.
const emitInterval = 1000

// joinTracker is what both sides of a left or outer join know about time.
type joinTracker struct {
	now      int64 // greatest time of a record of either side; -1 before the first
	first    int64 // time of the first parked record, as far as known
	nextLook int64 // wall-clock ms
}

// parkedRecords are the records of both sides that have found no partner yet, in a store that both sides share. Its keys are a record's time (8 bytes), 1 for
// the left side or 0, and the record's key; the value is a list of all values that came with one such key, each after the same byte (F-097, F-101).
type parkedRecords[K, V, W any] struct {
	*keyValue[K, V] // the key serde is that of the records; values are encoded here
	left            serde.Serde[V]
	right           serde.Serde[W]
	tracker         joinTracker
	gone            [][]byte
	buf             []byte
}

func openParked[K, V, W any](t *task, spec topology.Store, key serde.Serde[K], left serde.Serde[V], right serde.Serde[W]) *parkedRecords[K, V, W] {
	name := spec.Name + " as parked records"
	if p, ok := t.stores[name].(*parkedRecords[K, V, W]); ok {
		return p
	}
	p := &parkedRecords[K, V, W]{keyValue: openKeyValue(t, spec, key, left), left: left, right: right, tracker: joinTracker{now: -1, first: math.MaxInt64}}
	if t.cfg != nil { // wired not only to be checked
		t.stores[name] = p
	}
	return p
}

const (
	sideOffset  = 8 // of the byte that tells the sides apart, in a key
	parkedKeyAt = sideOffset + 1
)

func (p *parkedRecords[K, V, W]) keyOf(key []byte, ts int64, side byte) []byte {
	p.buf = append(append(binary.BigEndian.AppendUint64(p.buf[:0], uint64(ts)), side), key...)
	return p.buf
}

// joinSide is one side's view of the parked records: what differs between left and right.
type joinSide[K, V, R any] struct {
	tracker   *joinTracker
	park      func(key []byte, r rec[K, V])
	matched   func(key []byte, otherTS, now int64) // a record of the other side, parked or not, has found a partner
	unmatched func(grace int64, give func(K, int64, R), now int64)
}

const (
	leftByte  = 1
	rightByte = 0
)

func leftSide[K, V, W, R any](p *parkedRecords[K, V, W], w window.JoinSpec, f joiner[K, V, W, R]) *joinSide[K, V, R] {
	if p == nil {
		return nil
	}
	return &joinSide[K, V, R]{
		tracker:   &p.tracker,
		park:      func(key []byte, r rec[K, V]) { parkRecord(p, leftByte, p.left, key, r) },
		matched:   func(key []byte, otherTS, now int64) { p.remove(p.keyOf(key, otherTS, rightByte), now) },
		unmatched: func(grace int64, give func(K, int64, R), now int64) { giveParked(p, w, grace, f, give, now) },
	}
}

func rightSide[K, V, W, R any](p *parkedRecords[K, V, W], w window.JoinSpec, f joiner[K, V, W, R]) *joinSide[K, W, R] {
	if p == nil {
		return nil
	}
	return &joinSide[K, W, R]{
		tracker:   &p.tracker,
		park:      func(key []byte, r rec[K, W]) { parkRecord(p, rightByte, p.right, key, r) },
		matched:   func(key []byte, otherTS, now int64) { p.remove(p.keyOf(key, otherTS, leftByte), now) },
		unmatched: func(grace int64, give func(K, int64, R), now int64) { giveParked(p, w, grace, f, give, now) },
	}
}

// The form of a list of values, each with its length (F-079): see serde.List.
const (
	listHead    = 5 // a marker and the number of values
	variableLen = 1
)

// parkRecord adds a record to those that wait.
func parkRecord[K, V, W, T any](p *parkedRecords[K, V, W], side byte, s serde.Serde[T], key []byte, r rec[K, T]) {
	at := p.keyOf(key, r.ts, side)
	old, _, ok, err := p.store.Get(at)
	if err != nil {
		p.t.storeFailed(p.spec.Name, "get", err)
	}
	list := append(p.valueBuf[:0], old...)
	if !ok {
		list = append(list, variableLen, 0, 0, 0, 0)
	}
	binary.BigEndian.PutUint32(list[1:], binary.BigEndian.Uint32(list[1:])+1)
	begin := len(list)
	list = append(list, 0, 0, 0, 0, side)
	if list, err = s.Append(list, p.place, r.value); err != nil {
		p.t.storeFailed(p.spec.Name, "encode value", err)
	}
	binary.BigEndian.PutUint32(list[begin:], uint32(len(list)-begin-4))
	p.valueBuf = list
	if err := p.store.Put(at, list, r.ts, nil); err != nil {
		p.t.storeFailed(p.spec.Name, "put", err)
	}
}

// remove takes the records under a key out of those that wait, if there are any.
func (p *parkedRecords[K, V, W]) remove(key []byte, now int64) {
	_, _, ok, err := p.store.Get(key)
	if err == nil && ok {
		err = p.store.Delete(key, now)
	}
	if err != nil {
		p.t.storeFailed(p.spec.Name, "delete", err)
	}
}

// giveParked gives the parked records whose window has closed, by time. It stops where windows of both sides are open, which is where later ones can't
// have closed.
func giveParked[K, V, W, R any](p *parkedRecords[K, V, W], w window.JoinSpec, grace int64, f joiner[K, V, W, R], give func(K, int64, R), now int64) {
	p.tracker.first = math.MaxInt64
	p.gone = p.gone[:0]
	it := p.store.All(false)
	leftOpen, rightOpen := false, false
	for it.Next() {
		at := it.Key()
		ts, left := int64(binary.BigEndian.Uint64(at)), at[sideOffset] == leftByte
		p.tracker.first = ts
		if leftOpen && rightOpen {
			break
		}
		if left && ts+w.After+grace >= p.tracker.now {
			leftOpen = true
			continue
		}
		if !left && ts+w.Before+grace >= p.tracker.now {
			rightOpen = true
			continue
		}
		p.gone = append(p.gone, slices.Clone(at))
		eachParked(p, it, left, f, give)
	}
	if err := it.Close(); err != nil {
		p.t.storeFailed(p.spec.Name, "all", err)
	}
	for _, at := range p.gone {
		if err := p.store.Delete(at, now); err != nil {
			p.t.storeFailed(p.spec.Name, "delete", err)
		}
	}
}

// eachParked gives the records of one row.
func eachParked[K, V, W, R any](p *parkedRecords[K, V, W], it state.Iterator, left bool, f joiner[K, V, W, R], give func(K, int64, R)) {
	at := slices.Clone(it.Key()) // what give leads to may use the store
	ts, list := int64(binary.BigEndian.Uint64(at)), slices.Clone(it.Value())
	for list = list[listHead:]; len(list) >= 4; {
		n := 4 + binary.BigEndian.Uint32(list)
		data := list[5:n] // without the byte that tells the sides apart, which the key has as well
		list = list[n:]
		key := p.decodeKey(at[parkedKeyAt:])
		var v V
		var w W
		var err error
		if left {
			v, err = p.left.Decode(p.place, data)
		} else {
			w, err = p.right.Decode(p.place, data)
		}
		if err != nil {
			p.t.storeFailed(p.spec.Name, "decode value", err)
		}
		give(key, ts, f(key, v, left, w, !left))
	}
}
