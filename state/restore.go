package state

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"

	"github.com/millrace/millrace/topology"
)

// RestoreRecord is a record of a changelog: the key in the changelog's form, the value nil for a tombstone.
type RestoreRecord struct {
	Key, Value []byte
	Timestamp  int64
	Headers    []Header // of the record; only buffers look at them
}

// restoreBuffer holds restored rows until there are enough to be sorted and written at once.
type restoreBuffer struct {
	data  []byte
	rows  []restoredRow
	next  int64
	empty bool // the store had no rows when the buffer was begun, so that nothing needs to be deleted

	order, spare []sortKey
	touched      byte // keeps touch from being optimised away
}

// restoredRow lies in data: suffix, then value in the database's form.
type restoredRow struct {
	at       uint32
	keyLen   uint32
	valueLen int32 // -1 for a tombstone
}

// restoredRowSize is what a row takes beside its bytes.
const restoredRowSize = 12 + 2*16

// Restore adds records of a store's changelog, in the order of their offsets, and moves the changelog offset to nextOffset, the next one to read. Rows are
// buffered, and written together with the offset; reads and [Stores.Commit] see them all. Nobody is told of the updates. There must be no updates since the
// last commit. The records are not kept.
func (s *Stores) Restore(store string, records []RestoreRecord, nextOffset int64) error {
	if err := s.usable(); err != nil {
		return err
	}
	st, err := s.Store(store)
	if err != nil {
		return err
	}
	r := st.rows()
	if len(r.set.dirty) > 0 {
		return fmt.Errorf("state: restore of store %q, which has updates", store)
	}
	if r.restore == nil {
		if err := s.beginRestore(r); err != nil {
			return s.fail(err)
		}
	}
	if r.set.n > 0 {
		r.forget(true) // rows that were read meanwhile
	}
	b := r.restore
	for i := range records {
		if err := r.addRestored(&records[i]); err != nil {
			return err
		}
	}
	b.next = nextOffset
	if int64(len(b.data)+len(b.rows)*restoredRowSize) >= s.opts.RestoreBytes {
		if err := r.settle(); err != nil {
			return s.fail(err)
		}
	}
	return nil
}

// FinishRestore writes what [Stores.Restore] has buffered for a store and frees the buffer. Snapshots show the rows from then on.
func (s *Stores) FinishRestore(store string) error {
	if err := s.usable(); err != nil {
		return err
	}
	st, err := s.Store(store)
	if err != nil {
		return err
	}
	r := st.rows()
	if err := r.settle(); err != nil {
		return s.fail(err)
	}
	r.restore = nil
	return nil
}

func (s *Stores) beginRestore(r *rowStore) error {
	empty, err := r.isEmpty()
	if err != nil {
		return err
	}
	r.restore = &restoreBuffer{next: r.meta.next, empty: empty}
	return nil
}

// isEmpty tells whether the database has no row of the store.
func (s *rowStore) isEmpty() (bool, error) {
	cur, err := s.home.cursor()
	if err != nil {
		return false, err
	}
	defer s.home.putCursor(cur)
	lower := append([]byte(nil), s.layout.prefix[:]...)
	cur.SetBounds(lower, successor(append([]byte(nil), lower...)))
	return !cur.First(), cur.Err()
}

// addRestored adds a record to the buffer.
func (s *rowStore) addRestored(rec *RestoreRecord) error {
	if s.spec.Kind == topology.BufferStore {
		if err := checkBuffered(rec); err != nil {
			return fmt.Errorf("state: restore of store %q: %w", s.spec.Name, err)
		}
	}
	b := s.restore
	if s.spec.Kind == topology.VersionedStore {
		row, ok := s.restoredVersion(rec)
		if !ok {
			return nil
		}
		rec = &row
	}
	if len(rec.Key) < s.layout.tail {
		return fmt.Errorf("state: restore of store %q: a key of %d bytes is not one of a %s store", s.spec.Name, len(rec.Key), s.spec.Kind)
	}
	if s.layout.tail > 0 {
		t := s.layout.time(rec.Key)
		if t < 0 {
			return fmt.Errorf("state: restore of store %q: a key has the negative time %d", s.spec.Name, t)
		}
		s.observed = max(s.observed, t)
		s.flushed = s.observed
		if s.layout.tail == windowTailLen && s.spec.Duplicates {
			_, _, seq, _ := SplitWindowKey(rec.Key)
			s.seq = max(s.seq, seq)
		}
		if s.expired(rec.Key) {
			return nil
		}
	}
	row := restoredRow{at: uint32(len(b.data)), valueLen: -1}
	b.data = s.layout.appendSuffix(b.data, rec.Key)
	row.keyLen = uint32(len(b.data)) - row.at
	if rec.Value != nil {
		n := len(b.data)
		b.data = s.layout.appendValue(b.data, rec.Value, rec.Timestamp)
		row.valueLen = int32(len(b.data) - n)
	}
	b.rows = append(b.rows, row)
	return nil
}

// settle writes the restored rows that are still buffered.
func (s *rowStore) settle() error {
	if s.restore == nil || (len(s.restore.rows) == 0 && s.restore.next == s.meta.next) {
		return nil
	}
	return s.owner.writeRestored(s)
}

// writeRestored writes the buffered rows and the offset as one atom.
func (s *Stores) writeRestored(r *rowStore) error {
	b := r.restore
	h := r.home
	r.expireIterators(ErrIteratorExpired)
	if err := h.releaseCursors(); err != nil {
		return err
	}
	next := h.meta
	next.owned = true
	next.stores = maps.Clone(h.meta.stores)
	m := r.nextMeta()
	m.next = b.next
	next.stores[r.spec.Name] = m
	if m.floor > r.meta.floor && !b.empty {
		drop := h.db.NewBatch(64)
		r.dropSegments(drop, m.floor)
		if err := drop.Commit(); err != nil {
			return err
		}
	}
	bulk, err := h.db.NewBulk()
	if err != nil {
		return err
	}
	if err := b.fill(bulk, s.metaRows(h, next), &r.layout, m.floor); err != nil {
		bulk.Abandon()
		return err
	}
	if err := s.apply(h, bulk, next); err != nil {
		return err
	}
	b.data, b.rows, b.empty = b.data[:0], b.rows[:0], false
	return nil
}

// gather is how many rows are brought into the processor's cache at once.
const gather = 64

// touch reads the rows' first bytes. They lie in the order of the changelog, and waiting for them one by one takes longer than to write them.
func (b *restoreBuffer) touch(rows []sortKey) {
	var sum byte
	for _, o := range rows {
		if row := &b.rows[o.i]; row.keyLen > 0 {
			sum += b.data[row.at]
		}
	}
	b.touched += sum
}

// fill adds metadata and the buffered rows, sorted, to a loader. Of the updates of a row the last counts.
func (b *restoreBuffer) fill(bulk Bulk, metadata []metaRow, l *layout, floor int64) error {
	for _, row := range metadata {
		if err := bulk.Set(row.key, row.value); err != nil {
			return err
		}
	}
	suffix := func(i uint32) []byte {
		row := b.rows[i]
		return b.data[row.at : row.at+row.keyLen]
	}
	b.order, b.spare = sortRows(len(b.rows), suffix, b.order, b.spare)
	key := append([]byte(nil), l.prefix[:]...)
	var indexed []uint32 // rows whose index rows follow
	for n, o := range b.order {
		if n%gather == 0 {
			b.touch(b.order[n:min(n+gather, len(b.order))])
		}
		row := b.rows[o.i]
		key = append(key[:prefixLen], suffix(o.i)...)
		if n+1 < len(b.order) && b.order[n+1].head == o.head && bytes.Equal(suffix(b.order[n+1].i), key[prefixLen:]) {
			continue // a later update follows
		}
		if l.tail > 0 && int64(binary.BigEndian.Uint64(key[prefixLen:])) < floor {
			continue // it expired while it was waiting
		}
		var err error
		if row.valueLen >= 0 {
			at := row.at + row.keyLen
			err = bulk.Set(key, b.data[at:at+uint32(row.valueLen)])
		} else if !b.empty {
			err = bulk.Delete(key)
		}
		if err != nil {
			return err
		}
		if l.indexed && (row.valueLen >= 0 || !b.empty) {
			indexed = append(indexed, o.i)
		}
	}
	return b.fillIndex(bulk, l, indexed)
}

// fillIndex adds the index rows of restored rows.
func (b *restoreBuffer) fillIndex(bulk Bulk, l *layout, rows []uint32) error {
	var suffixes []byte
	ends := make([]int, 1, len(rows)+1)
	var key []byte
	for _, i := range rows {
		row := b.rows[i]
		key, _ = l.appendKey(key[:0], b.data[row.at:row.at+row.keyLen])
		suffixes = l.appendIndex(suffixes, key)
		ends = append(ends, len(suffixes))
	}
	suffix := func(i uint32) []byte { return suffixes[ends[i]:ends[i+1]] }
	order, _ := sortRows(len(rows), suffix, nil, nil)
	key = append(key[:0], l.prefix[:]...)
	for _, o := range order {
		key = append(key[:prefixLen], suffix(o.i)...)
		var err error
		if b.rows[rows[o.i]].valueLen >= 0 {
			err = bulk.Set(key, nil)
		} else {
			err = bulk.Delete(key)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
