package state

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
)

// Iterator walks rows of a store. It must be closed. Rows that are updated while it is open may show as before or after the update; a row that stays is
// returned once. Committing, discarding or restoring expires it.
//
//	it := store.Range(from, to, false)
//	defer it.Close()
//	for it.Next() {
//		use(it.Key(), it.Value())
//	}
//	return it.Err()
//
// Key and value are valid until the next call. An iterator is used by one goroutine, the one that owns the store or snapshot. It is a handle, to be passed
// by value, and harmless after Close.
type Iterator struct {
	w   *walk
	gen uint32
}

// Next moves to the next row, at first to the first, and reports whether there is one.
func (it Iterator) Next() bool { return it.gen == it.w.gen && it.w.Next() }

// Key returns the row's key: the user's key without window or session.
func (it Iterator) Key() []byte { return it.w.key }

// Value returns the row's value.
func (it Iterator) Value() []byte { return it.w.value }

// Timestamp returns the row's time, -1 if the store keeps none.
func (it Iterator) Timestamp() int64 { return it.w.ts }

// Start returns the start of the row's window or session.
func (it Iterator) Start() int64 { return it.w.start }

// End returns the end of the row's session.
func (it Iterator) End() int64 { return it.w.end }

// Sequence tells rows of one key and window start apart, in stores with duplicates.
func (it Iterator) Sequence() uint32 { return it.w.seq }

// Err returns why Next returned false, or nil if there are no more rows.
func (it Iterator) Err() error {
	if it.gen != it.w.gen {
		return ErrClosed
	}
	return it.w.err
}

// Close releases the iterator and returns Err. Closing it again does nothing.
func (it Iterator) Close() error {
	if it.gen != it.w.gen {
		return nil
	}
	return it.w.Close()
}

// walk is the state of an [Iterator]. Those of stores are used again, with a new gen.
type walk struct {
	gen     uint32
	layout  *layout
	store   *rowStore // nil in a snapshot
	view    *view     // nil in a store
	cur     Cursor
	path    string // of the database, for errors
	reverse bool
	scan    scan

	bounds       []byte // of scan
	lower, upper []byte // of the span, with the store's prefix
	inSpan       bool
	curOK        bool               // cur is at a row of the span
	tree         treeCursor[*entry] // over dirty rows, if its tree is set
	rows         []*entry           // instead: dirty rows in the order of the walk
	nextRow      int                // in rows
	dirtyKey     []byte             // suffix of the next dirty row of the span, nil if there is none
	dirtyRow     *entry
	dirtyBuf     []byte
	advance      advance // what the last Next returned, and is now to be left

	key, value, keyBuf []byte
	ts, start, end     int64
	seq                uint32
	closed             bool
	err                error
}

type advance uint8

const (
	advanceCursor advance = 1 << iota
	advanceDirty
)

// scan says which rows to walk. Windowed rows are walked segment by segment; the rows of a key are then in the order of time.
type scan struct {
	first, last []byte // user keys or, of key-value stores, keys; inclusive, nil is open
	upper       []byte // exclusive, instead of last, for prefixes

	from, to    int64 // time, inclusive
	latestStart int64 // of sessions
	held        bool  // also what has expired and is not deleted

	segment, lastSegment int64 // to be walked yet, in the direction of the walk
	done                 bool
}

func (it *walk) Next() bool {
	if it.view == nil {
		return it.next()
	}
	return it.view.next(it)
}

func (it *walk) Close() error {
	if it.view != nil {
		return it.view.closeWalk(it)
	}
	if it.closed {
		return it.err
	}
	s := it.store
	if i := slices.Index(s.open, it); i >= 0 { // not expired
		s.open = slices.Delete(s.open, i, i+1)
		if it.cur != nil {
			s.home.putCursor(it.cur)
		}
	}
	it.closed, it.cur = true, nil
	if len(s.spare) < 4 {
		s.spare = append(s.spare, it)
	}
	return it.err
}

// iterate starts a walk over a store.
func (s *rowStore) iterate(sc scan, reverse bool) Iterator {
	it := s.newWalk(sc, reverse)
	if it.err == nil && !it.scan.done {
		it.tree.t = s.sorted()
	}
	return Iterator{it, it.gen}
}

// iterateKey starts a walk over the rows of one user key.
func (s *rowStore) iterateKey(sc scan, reverse bool) Iterator {
	it := s.newWalk(sc, reverse)
	if it.err != nil || it.scan.done {
		return Iterator{it, it.gen}
	}
	for e := s.chained(sc.first); e != nil; e = e.next {
		t := s.layout.time(e.key)
		if t < it.scan.from {
			break
		}
		if t <= it.scan.to {
			it.rows = append(it.rows, e)
		}
	}
	if !reverse {
		slices.Reverse(it.rows)
	}
	return Iterator{it, it.gen}
}

func (s *rowStore) newWalk(sc scan, reverse bool) *walk {
	var it *walk
	if n := len(s.spare); n > 0 {
		it = s.spare[n-1]
		s.spare = s.spare[:n-1]
		*it = walk{
			gen: it.gen + 1, bounds: it.bounds[:0], lower: it.lower[:0], upper: it.upper[:0], tree: treeCursor[*entry]{path: it.tree.path[:0]},
			rows: it.rows[:0], dirtyBuf: it.dirtyBuf[:0], keyBuf: it.keyBuf[:0],
		}
	} else {
		it = new(walk)
	}
	it.layout, it.store, it.path, it.reverse, it.scan = &s.layout, s, s.home.path, reverse, sc
	it.scan.first, it.scan.last = it.keepBounds(sc.first, sc.last)
	it.err = s.err
	if it.err == nil {
		it.err = s.settle()
	}
	it.scan.prepare(&s.layout, s.observed, reverse)
	if it.err == nil && !it.scan.done {
		it.cur, it.err = s.home.cursor()
	}
	s.open = append(s.open, it)
	return it
}

// keepBounds copies bounds, since the walk uses them later on.
func (it *walk) keepBounds(first, last []byte) ([]byte, []byte) {
	n := len(first)
	if it.bounds == nil {
		it.bounds = []byte{} // an empty bound is not nil, which would be open
	}
	it.bounds = append(append(it.bounds[:0], first...), last...)
	if first != nil {
		first = it.bounds[:n:n]
	}
	if last != nil {
		last = it.bounds[n:]
	}
	return first, last
}

// prepare clips the scan to the rows that are kept.
func (sc *scan) prepare(l *layout, observed int64, reverse bool) {
	if sc.first != nil && sc.last != nil && bytes.Compare(sc.first, sc.last) > 0 {
		sc.done = true
		return
	}
	if l.tail == 0 {
		return
	}
	earliest := oldest(observed, l.retention)
	if sc.held {
		earliest = l.segment(observed-l.retention) * l.interval
	}
	sc.from = max(sc.from, earliest, 0)
	sc.to = min(sc.to, observed)
	if sc.from > sc.to {
		sc.done = true
		return
	}
	sc.segment, sc.lastSegment = l.segment(sc.from), l.segment(sc.to)
	if reverse {
		sc.segment, sc.lastSegment = sc.lastSegment, sc.segment
	}
}

// oldest returns the earliest time that is visible in a store which has seen the time observed.
func oldest(observed, retention int64) int64 { return observed - retention + 1 }

// nextSpan moves the bounds to the next range of keys, and reports whether there was one.
func (it *walk) nextSpan() bool {
	sc, l := &it.scan, it.layout
	if sc.done {
		return false
	}
	it.lower = append(it.lower[:0], l.prefix[:]...)
	it.upper = append(it.upper[:0], l.prefix[:]...)
	if l.tail == 0 {
		sc.done = true
		it.lower = append(it.lower, sc.first...)
		switch {
		case sc.last != nil:
			it.upper = append(append(it.upper, sc.last...), 0)
		case sc.upper != nil:
			it.upper = append(it.upper, sc.upper...)
		default:
			it.upper = successor(it.upper)
		}
		return true
	}
	it.lower = binary.BigEndian.AppendUint64(it.lower, uint64(sc.segment))
	it.upper = binary.BigEndian.AppendUint64(it.upper, uint64(sc.segment))
	oneKey := sc.first != nil && sc.last != nil && len(sc.first) == len(sc.last) && bytes.Equal(sc.first, sc.last)
	if sc.first != nil {
		it.lower = appendEscaped(it.lower, sc.first)
	}
	if oneKey {
		it.lower = binary.BigEndian.AppendUint64(it.lower, uint64(sc.from))
		it.upper = appendEscaped(it.upper, sc.last)
		it.upper = binary.BigEndian.AppendUint64(it.upper, uint64(sc.to))
		it.upper = append(it.upper, afterTail...)
	} else if sc.last != nil {
		it.upper = append(appendEscaped(it.upper, sc.last), afterTail...)
	} else {
		it.upper = successor(it.upper)
	}
	switch {
	case sc.segment == sc.lastSegment:
		sc.done = true
	case it.reverse:
		sc.segment--
	default:
		sc.segment++
	}
	return true
}

// afterTail is above every rest of a suffix after the escaped key.
var afterTail = bytes.Repeat([]byte{0xff}, sessionTailLen+1)

// successor returns the least key that is above all keys with prefix b, in place; nil if there is none.
func successor(b []byte) []byte {
	for i := len(b) - 1; i >= 0; i-- {
		if b[i] != 0xff {
			b[i]++
			return b[:i+1]
		}
	}
	return nil
}

func (it *walk) next() bool {
	if it.err != nil || it.closed {
		return false
	}
	for {
		if !it.inSpan && !it.enterSpan() {
			return false
		}
		it.leave()
		if !it.curOK {
			if it.err = it.cur.Err(); it.err != nil {
				return false
			}
			if it.dirtyKey == nil {
				it.inSpan = false
				continue
			}
		}
		if it.choose() {
			return true
		}
		if it.err != nil {
			return false
		}
	}
}

// enterSpan positions both sources at the start of the next range of keys.
func (it *walk) enterSpan() bool {
	if it.cur == nil || !it.nextSpan() {
		return false
	}
	it.inSpan, it.advance = true, 0
	it.cur.SetBounds(it.lower, it.upper)
	if it.reverse {
		it.curOK = it.cur.Last()
	} else {
		it.curOK = it.cur.First()
	}
	it.dirtyKey = nil
	switch {
	case it.tree.t == nil:
		it.nextDirty()
	case it.reverse:
		it.setDirty(it.tree.seekBefore(it.upperSuffix()))
	default:
		it.setDirty(it.tree.seek(it.lower[prefixLen:]))
	}
	return true
}

// leave moves past the row that the last Next returned.
func (it *walk) leave() {
	if it.advance&advanceCursor != 0 {
		if it.reverse {
			it.curOK = it.cur.Prev()
		} else {
			it.curOK = it.cur.Next()
		}
	}
	if it.advance&advanceDirty != 0 {
		it.nextDirty()
	}
	it.advance = 0
}

func (it *walk) nextDirty() {
	switch {
	case it.tree.t == nil:
		it.dirtyKey = nil
		if it.nextRow == len(it.rows) {
			return
		}
		row := it.rows[it.nextRow]
		it.dirtyBuf = it.layout.appendSuffix(it.dirtyBuf[:0], row.key)
		if it.outside(it.dirtyBuf) {
			return // it belongs to a later span
		}
		it.dirtyKey, it.dirtyRow = it.dirtyBuf, row
		it.nextRow++
	case it.reverse:
		it.setDirty(it.tree.prev())
	default:
		it.setDirty(it.tree.next())
	}
}

func (it *walk) setDirty(ok bool) {
	it.dirtyKey = nil
	if ok && !it.outside(it.tree.key) {
		it.dirtyKey, it.dirtyRow = it.tree.key, it.tree.val
	}
}

// outside tells whether a suffix lies beyond the end of the span.
func (it *walk) outside(suffix []byte) bool {
	if it.reverse {
		return bytes.Compare(suffix, it.lower[prefixLen:]) < 0
	}
	upper := it.upperSuffix()
	return upper != nil && bytes.Compare(suffix, upper) >= 0
}

// upperSuffix returns the end of the span without the store's prefix, nil if it is the end of the store: then the bound is the next prefix.
func (it *walk) upperSuffix() []byte {
	if bytes.HasPrefix(it.upper, it.layout.prefix[:]) {
		return it.upper[prefixLen:]
	}
	return nil
}

// choose makes the lower of the two sources' rows the current one, and reports whether it is to be returned.
func (it *walk) choose() bool {
	c := -1 // the cursor's row
	switch {
	case !it.curOK:
		c = 1
	case it.dirtyKey != nil:
		c = bytes.Compare(it.cur.Key()[prefixLen:], it.dirtyKey)
		if it.reverse {
			c = -c
		}
	}
	switch {
	case c < 0:
		it.advance = advanceCursor
		return it.takeCursor()
	case c > 0:
		it.advance = advanceDirty
	default:
		it.advance = advanceCursor | advanceDirty
	}
	return it.takeDirty()
}

func (it *walk) takeDirty() bool {
	e := it.dirtyRow
	if e.flags&absent != 0 {
		return false
	}
	it.value, it.ts = e.value, e.ts
	if !it.layout.timestamped {
		it.ts = -1
	}
	switch it.layout.tail {
	case 0:
		it.key = e.key
	case windowTailLen:
		it.key, it.start, it.seq, _ = SplitWindowKey(e.key)
	case sessionTailLen:
		it.key, it.start, it.end, _ = SplitSessionKey(e.key)
	}
	return it.wanted()
}

func (it *walk) takeCursor() bool {
	suffix := it.cur.Key()[prefixLen:]
	var ok bool
	if it.value, it.ts, ok = it.layout.splitValue(it.cur.Value()); !ok {
		it.err = it.corrupt()
		return false
	}
	if it.layout.tail == 0 {
		it.key = suffix
		return true
	}
	n := len(suffix) - it.layout.tail
	if n < segmentLen+terminatorLen {
		it.err = it.corrupt()
		return false
	}
	it.key, it.keyBuf = unescape(it.keyBuf, suffix[segmentLen:n-terminatorLen])
	t := int64(binary.BigEndian.Uint64(suffix[n:]))
	if it.layout.tail == windowTailLen {
		it.start, it.seq = t, binary.BigEndian.Uint32(suffix[n+8:])
	} else {
		it.start, it.end = int64(binary.BigEndian.Uint64(suffix[n+8:])), t
	}
	return it.wanted()
}

func (it *walk) corrupt() error {
	return &CorruptError{Path: it.path, What: "a row does not have the form of its store"}
}

// wanted tells whether a windowed row lies within the times of the scan. Keys lie within the bounds of the span.
func (it *walk) wanted() bool {
	switch it.layout.tail {
	case windowTailLen:
		return it.start >= it.scan.from && it.start <= it.scan.to
	case sessionTailLen:
		return it.end >= it.scan.from && it.end <= it.scan.to && it.start <= it.scan.latestStart
	}
	return true
}

// expireIterators ends the open iterators.
func (s *rowStore) expireIterators(err error) {
	for _, it := range s.open {
		if it.cur != nil {
			s.home.putCursor(it.cur)
			it.cur = nil
		}
		it.inSpan, it.scan.done = false, true
		if it.err == nil {
			it.err = err
		}
	}
	clear(s.open)
	s.open = s.open[:0]
}

// allTime is a scan without bounds of time.
func allTime(first, last []byte) scan {
	return scan{first: first, last: last, from: math.MinInt64, to: math.MaxInt64, latestStart: math.MaxInt64}
}
