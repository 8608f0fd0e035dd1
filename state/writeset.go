package state

import (
	"bytes"
	"hash/maphash"
)

// writeSet is what a store holds in memory: rows that were written since the last commit (dirty), and rows that are as in the database (clean). Rows are
// found by hash. What only some workloads need, an order of the keys or the rows of one key, is built when first asked for, see [rowStore].
//
// Rows and their bytes are never moved while they are in use: the table grows by chunks, and bytes come from an arena whose chunks are left to the garbage
// collector. So slices stay readable even after the write set that they came from is gone.
type writeSet struct {
	seed   maphash.Seed
	slots  []slot
	chunks [][]entry
	n      int
	arena  arena
	priors []prior // not yet used

	flushing bool // log is being walked

	dirty []uint32 // rows that differ from the database, each once
	log   []uint32 // rows in the order of their updates; an update counts if the row's pos points at it
	live  int      // updates in log that count

	touched byte // keeps touchRows from being optimised away

	dirtyBytes int64
	cleanBytes int64
}

// slot of the hash table: the row's number plus one, so that the zero slot is empty.
type slot struct {
	hash uint32
	row  uint32
}

// entry is one row.
type entry struct {
	key     []byte
	value   []byte
	ts      int64
	prior   *prior    // what was last flushed, if it is wanted and there was something
	headers *[]Header // of the last update, nil if it had none
	next    *entry    // the dirty row of the same user key that comes before this one in time
	offset  int64     // of the input record that the last update came from
	hash    uint32
	pos     uint32 // in log
	row     uint32
	source  uint16 // its topic, a number in Stores
	flags   entryFlags
}

// prior is what a row was before its first update since the last flush.
type prior struct {
	value []byte
	ts    int64
}

type entryFlags uint8

const (
	absent     entryFlags = 1 << iota // there is no such row: a tombstone if dirty
	dirty                             // differs from the database
	pending                           // changelog and listener don't know yet
	shared                            // others hold the value's bytes, so that it must not be overwritten
	referenced                        // used since the last compaction
	priorKnown                        // whether there was a row at the last flush is known
	priorThere                        // and there was one
)

const (
	chunkShift = 7
	chunkLen   = 1 << chunkShift
	entrySize  = 104 + 16 // of an entry and its slots, for accounting
)

func newWriteSet() *writeSet {
	return &writeSet{seed: maphash.MakeSeed(), slots: make([]slot, 64)}
}

func (w *writeSet) at(row uint32) *entry {
	return &w.chunks[row>>chunkShift][row&(chunkLen-1)]
}

// lookup returns the row of key, or nil, and the key's hash for [writeSet.insert].
func (w *writeSet) lookup(key []byte) (*entry, uint32) {
	hash := uint32(maphash.Bytes(w.seed, key))
	mask := uint32(len(w.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		s := w.slots[i]
		if s.row == 0 {
			return nil, hash
		}
		if s.hash == hash {
			if e := w.at(s.row - 1); bytes.Equal(e.key, key) {
				return e, hash
			}
		}
	}
}

// insert adds a row for key, which must not be there. It copies the key. The row is clean and absent.
func (w *writeSet) insert(key []byte, hash uint32) *entry {
	if w.n >= len(w.slots)*3/4 {
		w.grow()
	}
	if w.n == len(w.chunks)<<chunkShift {
		w.chunks = append(w.chunks, make([]entry, chunkLen))
	}
	row := uint32(w.n)
	w.n++
	e := w.at(row)
	e.key = w.arena.clone(key)
	e.hash, e.row, e.flags = hash, row, absent
	w.place(slot{hash, row + 1})
	w.cleanBytes += e.size()
	return e
}

func (w *writeSet) place(s slot) {
	mask := uint32(len(w.slots) - 1)
	i := s.hash & mask
	for w.slots[i].row != 0 {
		i = (i + 1) & mask
	}
	w.slots[i] = s
}

func (w *writeSet) grow() {
	old := w.slots
	w.slots = make([]slot, 2*len(old))
	for _, s := range old {
		if s.row != 0 {
			w.place(s)
		}
	}
}

func (e *entry) size() int64 { return int64(len(e.key)+cap(e.value)) + entrySize }

// setValue copies value into the row, in place if it fits and nobody else holds the old bytes. A nil value makes the row absent.
func (w *writeSet) setValue(e *entry, value []byte, ts int64) {
	e.ts = ts
	if value == nil {
		e.flags |= absent
		return
	}
	e.flags &^= absent
	if e.flags&shared == 0 && e.value != nil && len(value) <= cap(e.value) {
		e.value = e.value[:len(value)]
		copy(e.value, value)
		return
	}
	grown := int64(len(value) - cap(e.value))
	if e.flags&dirty != 0 {
		w.dirtyBytes += grown
	} else {
		w.cleanBytes += grown
	}
	e.value = w.arena.clone(value)
	e.flags &^= shared
}

// keepPrior notes the row's value as what was last flushed.
func (w *writeSet) keepPrior(e *entry, value []byte, ts int64) {
	if len(w.priors) == 0 {
		w.priors = make([]prior, chunkLen)
	}
	e.prior = &w.priors[0]
	w.priors = w.priors[1:]
	*e.prior = prior{value, ts}
}

// touch notes an update in the order of updates.
func (w *writeSet) touch(e *entry) {
	if e.flags&pending != 0 {
		if int(e.pos) == len(w.log)-1 {
			return
		}
	} else {
		e.flags |= pending
		w.live++
	}
	if len(w.log) >= 1024 && len(w.log) >= 4*w.live && !w.flushing {
		w.packLog()
	}
	e.pos = uint32(len(w.log))
	w.log = append(w.log, e.row)
}

// packLog drops updates that don't count.
func (w *writeSet) packLog() {
	kept := w.log[:0]
	for i, row := range w.log {
		if e := w.at(row); e.flags&pending != 0 && e.pos == uint32(i) {
			e.pos = uint32(len(kept))
			kept = append(kept, row)
		}
	}
	w.log = kept
}

// soil makes the row dirty and reports whether it was clean.
func (w *writeSet) soil(e *entry) bool {
	if e.flags&dirty != 0 {
		return false
	}
	e.flags |= dirty
	w.dirty = append(w.dirty, e.row)
	size := e.size()
	w.dirtyBytes += size
	w.cleanBytes -= size
	return true
}

// wash makes every row clean, after they were written to the database.
func (w *writeSet) wash() {
	for _, row := range w.dirty {
		e := w.at(row)
		e.flags &^= dirty
		e.next = nil
	}
	w.dirty = w.dirty[:0]
	w.cleanBytes += w.dirtyBytes
	w.dirtyBytes = 0
}

// compacted returns a write set with the dirty rows, and of the clean ones those that were used since the last compaction, if these are no more than limit.
func (w *writeSet) compacted(limit int64) *writeSet {
	c := &writeSet{seed: w.seed, slots: make([]slot, 64)}
	move := func(e *entry) *entry {
		n := c.insert(e.key, e.hash)
		n.ts, n.prior, n.headers = e.ts, e.prior, e.headers
		n.flags = e.flags &^ (dirty | shared | referenced)
		if e.flags&absent == 0 {
			n.value = c.arena.clone(e.value)
			c.cleanBytes += int64(cap(n.value))
		}
		return n
	}
	for i, row := range w.log {
		if e := w.at(row); e.flags&pending != 0 && e.pos == uint32(i) {
			n := move(e)
			if e.flags&dirty != 0 {
				c.soil(n)
			}
			n.pos = uint32(len(c.log))
			c.log = append(c.log, n.row)
			c.live++
		}
	}
	for _, row := range w.dirty {
		if e := w.at(row); e.flags&pending == 0 {
			c.soil(move(e))
		}
	}
	for row := range uint32(w.n) {
		if e := w.at(row); e.flags&(dirty|pending) == 0 && e.flags&referenced != 0 && c.cleanBytes+e.size() <= limit {
			move(e)
		}
	}
	return c
}

// arena hands out bytes from chunks. They are never reused.
type arena struct {
	free []byte
	next int
}

const (
	minArenaChunk = 4 << 10
	maxArenaChunk = 256 << 10
)

// clone returns a copy of b, never nil, without room to grow.
func (a *arena) clone(b []byte) []byte {
	p := a.alloc(len(b))
	copy(p, b)
	return p
}

func (a *arena) alloc(n int) []byte {
	if n == 0 {
		return []byte{}
	}
	if n > len(a.free) {
		if n > maxArenaChunk/4 {
			return make([]byte, n)
		}
		a.next = min(max(2*a.next, minArenaChunk), maxArenaChunk)
		for a.next < n {
			a.next *= 2
		}
		a.free = make([]byte, a.next)
	}
	p := a.free[:n:n]
	a.free = a.free[n:]
	return p
}
