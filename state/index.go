package state

import (
	"bytes"
	"encoding/binary"
)

// indexBound returns the lower bound, with the store's prefix, of index rows from a time on.
func (l *layout) indexBound(t int64) []byte {
	return binary.BigEndian.AppendUint64(append([]byte(nil), l.prefix[:]...), uint64(t)|indexBit)
}

// ByTime calls fn for the rows of all keys whose window starts in from..to, both inclusive, in the order of starts and then of keys. Rows that have expired
// are among them until they are deleted. Key and value are valid during the call, which may change the store; an error of fn ends the walk and is returned.
// The store must have been declared with a time index.
func (s *Window) ByTime(from, to int64, fn func(key []byte, start int64, value []byte, ts int64) error) error {
	return s.byTime(from, to, func(row, value []byte, ts int64) error {
		key, start, _, _ := SplitWindowKey(row)
		return fn(key, start, value, ts)
	})
}

// ByTime is [Window.ByTime] for sessions: those that end in from..to, in the order of ends, then of starts and keys.
func (s *Session) ByTime(from, to int64, fn func(key []byte, start, end int64, value []byte) error) error {
	return s.byTime(from, to, func(row, value []byte, _ int64) error {
		key, start, end, _ := SplitSessionKey(row)
		return fn(key, start, end, value)
	})
}

// byTime walks the index rows in the database, and with them those of the rows that are only in the write set. Whether a row is still there, and what it
// holds, is looked up.
func (s *timedStore) byTime(from, to int64, fn func(row, value []byte, ts int64) error) error {
	l := &s.layout
	if !l.indexed {
		panic("state: store " + s.spec.Name + " has no time index")
	}
	if err := s.settle(); err != nil {
		return err
	}
	from = max(from, 0)
	if to = min(to, s.observed); from > to {
		return s.err
	}
	dirty := s.dirtyIndex(from, to)
	cur, err := s.home.cursor()
	if err != nil {
		return err
	}
	defer s.home.putCursor(cur)
	cur.SetBounds(l.indexBound(from), l.indexBound(to+1))
	var row, value []byte
	for ok := cur.First(); ok || len(dirty) > 0; {
		c := -1
		switch {
		case !ok:
			c = 1
		case len(dirty) > 0:
			c = bytes.Compare(cur.Key()[prefixLen:], dirty[0])
		}
		index := []byte(nil)
		if c <= 0 {
			index = cur.Key()[prefixLen:]
		} else {
			index = dirty[0]
		}
		var whole bool
		if row, whole = l.appendIndexed(row[:0], index); !whole {
			return s.home.corrupt("a row of the time index does not have its form", nil)
		}
		v, ts, there, err := s.get(row)
		if err != nil {
			return err
		}
		if there {
			value = append(value[:0], v...)
			if err := fn(row, value, ts); err != nil {
				return err
			}
		}
		if c <= 0 {
			ok = cur.Next()
		}
		if c >= 0 {
			dirty = dirty[1:]
		}
	}
	return cur.Err()
}

// dirtyIndex returns the index suffixes of the dirty rows of from..to, sorted.
func (s *timedStore) dirtyIndex(from, to int64) [][]byte {
	w := s.set
	var list [][]byte
	for _, row := range w.dirty {
		if e := w.at(row); e.flags&absent == 0 {
			if t := s.layout.time(e.key); t >= from && t <= to {
				list = append(list, s.layout.appendIndex(nil, e.key))
			}
		}
	}
	order, _ := sortRows(len(list), func(i uint32) []byte { return list[i] }, nil, nil)
	sorted := make([][]byte, len(list))
	for i, o := range order {
		sorted[i] = list[o.i]
	}
	return sorted
}

// reindexBatch is how many index rows are written at once.
const reindexBatch = 10_000

// reindex makes the time index of a store that had none, or drops that of one which is to have none, and notes in the store's description which it is.
func (h *home) reindex(store string, l *layout, m storeMeta) error {
	b := h.db.NewBatch(256)
	end := successor(append([]byte(nil), l.prefix[:]...))
	b.DeleteRange(l.indexBound(0), end) // what an unfinished attempt has left, too
	if m.indexed {
		if err := b.Commit(); err != nil {
			return err
		}
		cur, err := h.db.NewCursor()
		if err != nil {
			return err
		}
		defer cur.Close()
		cur.SetBounds(append([]byte(nil), l.prefix[:]...), l.indexBound(0))
		b = h.db.NewBatch(256)
		n := 0
		var row, index []byte
		for ok := cur.First(); ok; ok = cur.Next() {
			var whole bool
			if row, whole = l.appendKey(row[:0], cur.Key()[prefixLen:]); !whole {
				b.Abandon()
				return h.corrupt("a row does not have the form of its store", nil)
			}
			index = l.appendIndex(index[:0], row)
			key, _ := b.Set(prefixLen+len(index), 0)
			copy(key[copy(key, l.prefix[:]):], index)
			if n++; n%reindexBatch == 0 {
				if err := b.Commit(); err != nil {
					return err
				}
				b = h.db.NewBatch(256)
			}
		}
		if err := cur.Err(); err != nil {
			b.Abandon()
			return err
		}
	}
	name, row := metaKey(metaStore, store), m.append(nil)
	key, value := b.Set(len(name), len(row))
	copy(key, name)
	copy(value, row)
	if err := b.Commit(); err != nil {
		return err
	}
	h.meta.stores[store] = m
	return nil
}
