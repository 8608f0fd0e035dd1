package state

import (
	"fmt"
	"slices"

	"github.com/millrace/millrace/topology"
)

// Header is a record header. It is an alias of an unnamed type, so that packages need not share a declaration.
type Header = struct {
	Key   string
	Value []byte
}

// ChangelogFunc takes an update that belongs into a store's changelog. The key has the changelog's form, the value is without the time of timestamped
// stores, and nil for a tombstone.
//
// From a store with caching key and value never change afterwards, and may be kept. From a store without caching only the key may be kept; the value is
// overwritten by later updates. The headers are valid during the call.
type ChangelogFunc func(key, value []byte, ts int64, headers []Header) error

// Update is what a flush tells of a row: all its updates since the last flush, as one.
type Update struct {
	Key          []byte // the user's key
	Start, End   int64  // of a window (End is unknown to the store, and 0) or a session
	Old          []byte // the value at the last flush, nil if there was none or it is not wanted
	OldTimestamp int64  // -1 if Old is nil or has none
	New          []byte // nil for a deletion
	Timestamp    int64  // of the last update
	Headers      []Header
	Topic        string // of the input record that the last update came from, "" if there was none, see [Stores.From]
	Offset       int64  // of that record, -1 if there was none
}

// FlushFunc is told of an updated row by a flush. The update is valid during the call; its byte slices never change and may be kept.
type FlushFunc func(u *Update) error

// Store is what stores of all kinds have in common.
type Store interface {
	// Name returns the store's name.
	Name() string
	// Spec returns the declaration the store was made from.
	Spec() topology.Store
	// SetChangelog sets who is told of updates for the changelog; nil, the default, is nobody.
	SetChangelog(ChangelogFunc)
	// SetFlushListener sets who is told of updated rows at each flush of a store with caching. With old, updates carry the old value.
	SetFlushListener(fn FlushFunc, old bool)
	// Flush tells changelog and listener of every row that was updated since the last flush, in the order of the last updates. After an error the rows
	// that were not told yet will be told by the next flush.
	Flush() error
	// DirtyBytes returns about how much memory the updates since the last commit take.
	DirtyBytes() int64
	// CachedBytes returns about how much memory the rows kept for reading take.
	CachedBytes() int64
	// ApproximateLen returns about how many rows there are, exactly if they are few.
	ApproximateLen() (int64, error)

	rows() *rowStore
}

// rowStore is a store of rows under changelog keys: what the kinds of stores have in common.
type rowStore struct {
	owner  *Stores
	spec   topology.Store
	layout layout
	home   *home
	set    *writeSet
	limit  int64 // of clean bytes in set

	changelog ChangelogFunc
	listener  FlushFunc
	wantOld   bool

	index  *tree[*entry]     // dirty rows by suffix; nil until first needed
	chains map[string]*chain // dirty rows by user key; nil until first needed

	keepFrom int64  // expired rows from here on are not deleted
	observed int64  // greatest time seen, -1 for none; for retention
	flushed  int64  // likewise, of the rows that were flushed
	seq      uint32 // of the last row put, in stores with duplicates

	meta    storeMeta // as committed
	restore *restoreBuffer

	rawBuf []byte
	update Update
	open   []*walk
	spare  []*walk
	err    error // why the store is not usable
}

// chain holds the dirty rows of one user key, latest first.
type chain struct{ head *entry }

func (s *rowStore) Name() string                  { return s.spec.Name }
func (s *rowStore) Spec() topology.Store          { return s.spec }
func (s *rowStore) SetChangelog(fn ChangelogFunc) { s.changelog = fn }
func (s *rowStore) DirtyBytes() int64             { return s.set.dirtyBytes }
func (s *rowStore) CachedBytes() int64            { return s.set.cleanBytes }
func (s *rowStore) rows() *rowStore               { return s }

func (s *rowStore) SetFlushListener(fn FlushFunc, old bool) { s.listener, s.wantOld = fn, old }

// fewRows is how many rows ApproximateLen counts one by one.
const fewRows = 10_000

// ApproximateLen implements [Store].
func (s *rowStore) ApproximateLen() (int64, error) {
	it := s.iterate(allTime(nil, nil), false)
	defer it.Close()
	var n int64
	for n < fewRows && it.Next() {
		n++
	}
	if err := it.Err(); err != nil || n < fewRows {
		return n, err
	}
	lower := append([]byte(nil), s.layout.prefix[:]...)
	upper := successor(append([]byte(nil), lower...))
	if s.layout.indexed {
		upper = s.layout.indexBound(0)
	}
	committed, err := s.home.db.ApproximateCount(lower, upper)
	return max(committed, n), err
}

// get returns the row under a changelog key. The value is valid until the next write.
func (s *rowStore) get(key []byte) (value []byte, ts int64, ok bool, err error) {
	e, hash := s.set.lookup(key)
	if e == nil {
		if e, err = s.load(key, hash); err != nil {
			return nil, -1, false, err
		}
	}
	e.flags |= referenced
	if e.flags&absent != 0 {
		return nil, -1, false, nil
	}
	return e.value, e.ts, true, nil
}

// load brings a row, or the knowledge that there is none, from the database into the write set.
func (s *rowStore) load(key []byte, hash uint32) (*entry, error) {
	value, ts, ok, err := s.fromDB(key)
	if err != nil {
		return nil, err
	}
	if s.set.cleanBytes > s.limit && !s.set.flushing {
		s.compact()
	}
	e := s.set.insert(key, hash)
	if ok {
		s.set.setValue(e, value, ts)
	}
	return e, nil
}

// fromDB reads a row from the database. The value is valid until the next call.
func (s *rowStore) fromDB(key []byte) (value []byte, ts int64, ok bool, err error) {
	if s.err != nil {
		return nil, -1, false, s.err
	}
	if err := s.settle(); err != nil {
		return nil, -1, false, err
	}
	s.rawBuf = append(s.rawBuf[:0], s.layout.prefix[:]...)
	s.rawBuf = s.layout.appendSuffix(s.rawBuf, key)
	n := len(s.rawBuf)
	raw, ok, err := s.home.db.Get(s.rawBuf, s.rawBuf[:n:n])
	if err != nil || !ok {
		return nil, -1, false, err
	}
	s.rawBuf = raw
	value, ts, ok = s.layout.splitValue(raw[n:])
	if !ok {
		return nil, -1, false, s.home.corrupt(fmt.Sprintf("a row of store %q has no timestamp", s.spec.Name), nil)
	}
	return value, ts, true, nil
}

// compact makes room in the write set for more clean rows.
func (s *rowStore) compact() {
	s.set = s.set.compacted(s.limit / 2)
	if s.index != nil {
		s.index.clear()
	}
	clear(s.chains)
	for _, row := range s.set.dirty {
		s.enlist(s.set.at(row))
	}
}

// put sets the row under a changelog key; a nil value deletes it.
func (s *rowStore) put(key, value []byte, ts int64, headers []Header) error {
	if s.err != nil {
		return s.err
	}
	w := s.set
	e, hash := w.lookup(key)
	known := e != nil
	if !known {
		e = w.insert(key, hash)
	}
	if s.spec.Caching {
		if e.flags&pending == 0 {
			s.keepPrior(e, known)
		}
		w.touch(e)
		e.headers = cloneHeaders(headers)
		e.source, e.offset = s.owner.source, s.owner.offset
	}
	w.setValue(e, value, ts)
	e.flags |= referenced
	if w.soil(e) {
		s.enlist(e)
	}
	if s.spec.Caching || s.changelog == nil {
		return nil
	}
	return s.changelog(e.key, e.current(), ts, headers)
}

// current returns the value of a row, nil if there is none.
func (e *entry) current() []byte {
	if e.flags&absent != 0 {
		return nil
	}
	return e.value
}

// keepPrior notes what a row was at the last flush, before its first update since.
func (s *rowStore) keepPrior(e *entry, known bool) {
	e.prior = nil
	e.flags &^= priorKnown | priorThere
	if !known {
		return
	}
	e.flags |= priorKnown
	if e.flags&absent == 0 {
		e.flags |= priorThere
		if s.wantOld {
			s.set.keepPrior(e, e.value, e.ts)
			e.flags |= shared
		}
	}
}

// learnPrior reads from the database what a row was at the last flush. A row that was flushed since the last commit would be known.
func (s *rowStore) learnPrior(e *entry) error {
	value, ts, ok, err := s.fromDB(e.key)
	if err != nil {
		return err
	}
	e.flags |= priorKnown
	if ok {
		e.flags |= priorThere
		if s.wantOld {
			s.set.keepPrior(e, s.set.arena.clone(value), ts)
		}
	}
	return nil
}

func cloneHeaders(headers []Header) *[]Header {
	if len(headers) == 0 {
		return nil
	}
	c := make([]Header, len(headers))
	for i, h := range headers {
		c[i] = Header{h.Key, slices.Clone(h.Value)}
	}
	return &c
}

// Flush implements [Store].
func (s *rowStore) Flush() error {
	if s.err != nil {
		return s.err
	}
	w := s.set
	w.flushing = true
	defer func() { w.flushing = false }()
	for i := 0; i < len(w.log); i++ { // the listener may make it longer
		e := w.at(w.log[i])
		if e.flags&pending == 0 || e.pos != uint32(i) {
			continue
		}
		if err := s.tell(e); err != nil {
			return err
		}
	}
	w.log = w.log[:0]
	return nil
}

// tell tells changelog and listener of an updated row.
func (s *rowStore) tell(e *entry) error {
	gone := e.flags&absent != 0
	if s.listener != nil && (gone || s.wantOld) && e.flags&priorKnown == 0 {
		if err := s.learnPrior(e); err != nil {
			return err
		}
	}
	old, there := e.prior, e.flags&priorThere != 0
	if s.layout.tail > 0 {
		at := s.layout.time(e.key)
		if at < oldest(s.flushed, s.layout.retention) {
			old, there = nil, false // it expired in the store below what Kafka Streams has for a cache, which hears of time when it is flushed
		}
		s.flushed = max(s.flushed, at)
	}
	var headers []Header
	if e.headers != nil {
		headers = *e.headers
	}
	if s.listener == nil || !gone || there {
		value := e.current()
		e.flags |= shared
		if s.changelog != nil {
			if err := s.changelog(e.key, value, e.ts, headers); err != nil {
				return err
			}
		}
		s.done(e)
		if s.listener == nil {
			return nil
		}
		u := &s.update
		*u = Update{New: value, OldTimestamp: -1, Timestamp: e.ts, Headers: headers, Topic: s.owner.sources[e.source], Offset: e.offset}
		s.layout.nameUpdate(u, e.key)
		if s.wantOld && old != nil {
			u.Old, u.OldTimestamp = old.value, old.ts
		}
		return s.listener(u)
	}
	s.done(e) // a row that came and went between two flushes never was
	return nil
}

// done marks a row as told.
func (s *rowStore) done(e *entry) {
	e.flags &^= pending
	e.prior, e.headers = nil, nil
	s.set.live--
}

// nameUpdate fills in the user's key and the times from a changelog key.
func (l *layout) nameUpdate(u *Update, key []byte) {
	switch l.tail {
	case 0:
		u.Key = key
	case windowTailLen:
		u.Key, u.Start, _, _ = SplitWindowKey(key)
	case sessionTailLen:
		u.Key, u.Start, u.End, _ = SplitSessionKey(key)
	}
}

// enlist adds a row that became dirty to the orders that are kept.
func (s *rowStore) enlist(e *entry) {
	if s.index != nil {
		s.index.set(s.suffix(e), e)
	}
	if s.chains != nil {
		s.link(e)
	}
}

// suffix returns the suffix of a row, never nil.
func (s *rowStore) suffix(e *entry) []byte {
	if s.layout.tail == 0 {
		return e.key
	}
	return s.layout.appendSuffix(make([]byte, 0, len(e.key)+segmentLen+terminatorLen), e.key)
}

// link adds a row to the chain of its user key.
func (s *rowStore) link(e *entry) {
	key := s.layout.userKey(e.key)
	c := s.chains[string(key)]
	if c == nil {
		c = new(chain)
		s.chains[string(key)] = c
	}
	at := &c.head
	for *at != nil && string((*at).key[len(key):]) > string(e.key[len(key):]) {
		at = &(*at).next
	}
	e.next = *at
	*at = e
}

// chained returns the dirty rows of a user key, latest first, linked by next.
func (s *rowStore) chained(key []byte) *entry {
	if s.chains == nil {
		s.chains = make(map[string]*chain)
		for _, row := range s.set.dirty {
			s.link(s.set.at(row))
		}
	}
	if c := s.chains[string(key)]; c != nil {
		return c.head
	}
	return nil
}

// sorted returns the dirty rows by suffix.
func (s *rowStore) sorted() *tree[*entry] {
	if s.index == nil {
		s.index = newTree[*entry]()
		for _, row := range s.set.dirty {
			e := s.set.at(row)
			s.index.set(s.suffix(e), e)
		}
	}
	return s.index
}

// forget makes every row clean or, if discarded, unknown.
func (s *rowStore) forget(discard bool) {
	s.expireIterators(ErrIteratorExpired)
	if discard {
		s.set = newWriteSet()
	} else {
		s.set.wash()
		if s.set.cleanBytes > s.limit {
			s.set = s.set.compacted(s.limit / 2)
		}
	}
	if s.index != nil {
		s.index.clear()
	}
	clear(s.chains)
}
