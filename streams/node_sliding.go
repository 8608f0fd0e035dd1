package streams

import (
	"slices"

	"github.com/millrace/millrace/state"
	"github.com/millrace/millrace/streams/window"
)

// slidingAggregate folds the records of a key into windows that are aligned to them (F-085, F-086). For every record there is a window that ends at it,
// the left one, and if there are later records within the difference, one that begins a millisecond after it, the right one. Both ends are inclusive. What
// a new window holds is found in its neighbours: no record is kept.
type slidingAggregate[K, V, A any] struct {
	windowResults[K, A]
	sd     serdes[K, A]
	agg    aggregation[K, V, A]
	null   func(A) bool
	w      window.Spec
	store  *windowStore[K, A]
	key    []byte
	starts []int64 // of the windows that were met for the record at hand
}

func newSlidingAggregate[K, V, A any](t *task, n *nodeInfo, info *tableInfo, sd serdes[K, A], agg aggregation[K, V, A], w window.Spec, emit Emit) *slidingAggregate[K, V, A] {
	return &slidingAggregate[K, V, A]{windowResults: newWindowResults[K, A](t, n, info, emit), sd: sd, agg: agg, null: isNull[A](), w: w}
}

func (n *slidingAggregate[K, V, A]) open() error {
	n.store = openWindow(n.t, n.table.store, n.sd.key, n.sd.value)
	n.openResults(n.store.store, n.flushed)
	return nil
}

func (n *slidingAggregate[K, V, A]) process(r rec[K, V]) {
	if r.nullKey || r.nullValue {
		n.t.ctx.Drop("null key or value in an aggregation")
		return
	}
	n.enter()
	n.observed = max(n.observed, r.ts)
	if end := r.ts + n.w.Size; end < n.observed-n.w.Grace {
		n.late(r.ts, r.ts, end)
		return
	}
	n.key = append(n.key[:0], n.store.encodeKey(r.key)...)
	n.starts = n.starts[:0]
	if r.ts < n.w.Size { // closed windows are not looked for here, as in Kafka Streams
		n.early(r)
		return
	}
	n.slide(r)
	if n.onClose != nil {
		n.giveClosed(r)
	}
}

// neighbours is what the windows around a record tell.
type neighbours[A any] struct {
	before   int64    // time of the record before it, -1 if none is near
	left     found[A] // of the last window that ends before it
	right    found[A] // of the last window that contains it and begins no later, before it was added
	hasLeft  bool     // the window that ends at it is there already
	hasRight bool     // so is the one that begins after it
}

// slide adds a record to the windows that contain it and makes those that it gives rise to. Windows are walked backwards, from that which would begin
// after the record to the last one that ends before it.
func (n *slidingAggregate[K, V, A]) slide(r rec[K, V]) {
	around, known := neighbours[A]{before: -1}, false
	it := n.fetch(r.ts-2*n.w.Size, r.ts+1, true)
walk:
	for it.Next() {
		start := it.Start()
		n.starts = append(n.starts, start)
		switch end := start + n.w.Size; {
		case start == r.ts+1:
			around.hasRight = true
		case end > r.ts:
			if !around.right.ok {
				around.right = n.row(it)
			}
			n.update(start, n.row(it), r)
		case end == r.ts:
			around.hasLeft = true
			if known = it.Timestamp() >= r.ts; !known {
				around.before = it.Timestamp()
			}
			n.update(start, n.row(it), r)
			if known { // a record of this time has made all windows
				break walk
			}
		default:
			around.left, around.before = n.row(it), it.Timestamp()
			break walk
		}
	}
	n.finish(it)
	if !known {
		n.create(around, r)
	}
}

// fetch walks windows of the record's key. As in Kafka Streams, a cache shows what has expired, too, and the store of final results keeps rows for one
// millisecond longer.
func (n *slidingAggregate[K, V, A]) fetch(from, to int64, reverse bool) state.Iterator {
	from = max(0, from)
	switch {
	case n.caches:
		return n.store.store.FetchHeld(n.key, from, to, reverse)
	case n.onClose != nil:
		return n.store.store.FetchHeld(n.key, max(from, n.store.store.StreamTime()-n.table.store.Retention.Milliseconds()), to, reverse)
	}
	return n.store.store.Fetch(n.key, from, to, reverse)
}

// row decodes a row that is walked over, each time anew, as functions of the user may change an aggregate in place.
func (n *slidingAggregate[K, V, A]) row(it state.Iterator) found[A] {
	return found[A]{n.store.decodeValue(it.Value()), it.Timestamp(), true}
}

func (n *slidingAggregate[K, V, A]) finish(it state.Iterator) {
	if err := it.Close(); err != nil {
		n.t.storeFailed(n.store.spec.Name, "fetch", err)
	}
}

// create makes the windows that a record gives rise to: the right one of the record before it, its own left one, its own right one.
func (n *slidingAggregate[K, V, A]) create(around neighbours[A], r rec[K, V]) {
	if after := around.before + 1; around.before >= 0 && after+n.w.Size >= r.ts && !slices.Contains(n.starts, after) {
		n.update(after, found[A]{ts: -1}, r)
	}
	if !around.hasLeft {
		start := r.ts - n.w.Size
		content := found[A]{ts: -1}
		if around.before >= start {
			content = found[A]{around.left.value, r.ts, true}
		}
		n.update(start, content, r)
	}
	if !around.hasRight {
		n.createRight(around.right, r)
	}
}

// createRight makes the right window of a record, if later records are in it: those of a window that the record fell into.
func (n *slidingAggregate[K, V, A]) createRight(content found[A], r rec[K, V]) {
	if !content.ok || content.ts <= r.ts {
		return
	}
	start := r.ts + 1
	n.store.put(n.key, start, content.value, false, content.ts, r.headers)
	out := rec[window.Windowed[K], change[A]]{key: windowOf(r.key, start, start+n.w.Size), ts: content.ts, headers: r.headers}
	out.value.new = content.value
	n.sent(out)
}

// early adds a record whose left window would begin before 1970. All such records share the window [0, difference]. Where no other window contains the
// record, all that this one holds is of one side of it, so that it tells what the right window holds.
func (n *slidingAggregate[K, V, A]) early(r rec[K, V]) {
	around := neighbours[A]{before: -1}
	combined := found[A]{ts: -1}
	it := n.fetch(0, r.ts+1, false)
	for it.Next() {
		start := it.Start()
		n.starts = append(n.starts, start)
		switch {
		case start == 0:
			combined, around.right = n.row(it), n.row(it)
			if combined.ts < r.ts {
				around.before = combined.ts
			}
		case start <= r.ts:
			around.right = n.row(it)
			n.update(start, n.row(it), r)
		default:
			around.hasRight = true
		}
	}
	n.finish(it)
	if !around.hasRight {
		n.createRight(around.right, r)
	}
	if after := around.before + 1; around.before >= 0 && !slices.Contains(n.starts, after) {
		n.update(after, found[A]{ts: -1}, r)
	}
	n.update(0, combined, r)
}

// update adds a record to the window that begins at start and holds row, unless it has closed.
func (n *slidingAggregate[K, V, A]) update(start int64, row found[A], r rec[K, V]) {
	end := start + n.w.Size
	if end < n.observed-n.w.Grace {
		n.late(r.ts, start, end)
		return
	}
	n.enter()
	c, ts := n.agg.fold(row, r, n.null)
	n.store.put(n.key, start, c.new, c.newNull, c.storedAt(ts, r.ts), r.headers)
	n.sent(rec[window.Windowed[K], change[A]]{key: windowOf(r.key, start, end), value: c, ts: ts, headers: r.headers})
}

func (n *slidingAggregate[K, V, A]) flushed(u *state.Update) error {
	n.enter()
	key := windowOf(n.store.decodeKey(u.Key), u.Start, u.Start+n.w.Size)
	n.forward(rec[window.Windowed[K], change[A]]{key: key, value: flushedChange(&n.store.keyValue, u), ts: u.Timestamp, headers: u.Headers})
	return nil
}

// giveClosed gives the windows that have closed since they were last given. An inclusive end closes one millisecond later.
func (n *slidingAggregate[K, V, A]) giveClosed(r rec[K, V]) {
	closed := n.observed - n.w.Grace
	if !n.onClose.due(n.t.ctx.Now(), closed) {
		return
	}
	from, to := int64(0), closed-n.w.Size-1 // of starts
	if n.onClose.last >= 0 {
		from = max(0, n.onClose.last-n.w.Size)
	}
	if to < 0 {
		return
	}
	giveRows(&n.windowResults, n.store, n.w, from, to, r.headers)
	n.onClose.done(closed)
}
