package state

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Versioned is a store of the history of each key: the values it has had, each with the time it was valid from (KIP-889).
//
// Its stream time is the greatest time that was ever put. A put that is older than stream time − retention is dropped and counted, though it is in the
// changelog. Of what was valid before then only the latest version of a key can be read, and versions are deleted when their key is next put.
//
// A row is the escaped key and the time, 8 bytes, and begins with a byte that tells a value from a deletion. A changelog has the key as it is, the value,
// and the time as that of the record. Versioned stores have no caching.
type Versioned struct {
	rowStore
	tell   ChangelogFunc
	buf    []byte
	value  []byte
	gone   [][]byte
	drops  int64
	onDrop func(time, earliest int64)
}

// Version is a value and when it was valid. Value is valid until the next write and must not be changed.
type Version struct {
	Value []byte
	From  int64
	To    int64 // exclusive; -1 for the latest version
}

const (
	versionDeleted = 0
	versionValue   = 1
	versionTail    = 8
)

// SetChangelog implements [Store]. The function is told of every version that is put, with its key and time; values may be kept.
func (s *Versioned) SetChangelog(fn ChangelogFunc) { s.tell = fn }

// SetDropListener sets who is told of puts that are dropped because they came too late: their time and the earliest that would have been kept.
func (s *Versioned) SetDropListener(fn func(time, earliest int64)) { s.onDrop = fn }

// StreamTime returns the greatest time that was put, -1 if nothing was.
func (s *Versioned) StreamTime() int64 { return s.observed }

// Dropped returns how many puts were dropped because they came too late, since the store was opened.
func (s *Versioned) Dropped() int64 { return s.drops }

// earliest is the earliest time that may be put, and of which there is history.
func (s *Versioned) earliest() int64 {
	if s.observed < 0 {
		return 0
	}
	return max(0, s.observed-s.spec.Retention.Milliseconds())
}

func versionKey(dst, key []byte, from int64) []byte {
	return binary.BigEndian.AppendUint64(appendEscaped(dst, key), uint64(from))
}

func versionTime(row []byte) int64 {
	return int64(binary.BigEndian.Uint64(row[len(row)-versionTail:]))
}

// versions walks the versions of a key that are valid from a time in from..to, the latest first.
func (s *Versioned) versions(key []byte, from, to int64) Iterator {
	return s.iterate(allTime(versionKey(nil, key, from), versionKey(nil, key, to)), true)
}

// Put adds a version of a key; nil deletes it from that time on. validTo is when the version after it begins, -1 if it is the latest; stored is false if
// it came too late. It copies what it keeps.
func (s *Versioned) Put(key, value []byte, at int64, headers []Header) (validTo int64, stored bool, err error) {
	if at < 0 {
		return -1, false, fmt.Errorf("state: store %q: the time %d is negative", s.spec.Name, at)
	}
	if earliest := s.earliest(); at < earliest {
		s.drops++
		if s.onDrop != nil {
			s.onDrop(at, earliest)
		}
		return -1, false, s.log(key, value, at, headers)
	}
	s.observed = max(s.observed, at)
	s.buf = versionKey(s.buf[:0], key, at)
	s.value = append(append(s.value[:0], versionDeleted), value...)
	if value != nil {
		s.value[0] = versionValue
	}
	if err := s.put(s.buf, s.value, at, nil); err != nil {
		return -1, false, err
	}
	if err := s.log(key, value, at, headers); err != nil {
		return -1, false, err
	}
	validTo, err = s.settlePut(key, at)
	return validTo, true, err
}

// log tells the changelog of a version. It also has those that came too late, as Kafka Streams' has.
func (s *Versioned) log(key, value []byte, at int64, headers []Header) error {
	if s.err != nil || s.tell == nil {
		return s.err
	}
	return s.tell(append([]byte{}, key...), value, at, headers)
}

// settlePut finds the version after the one just put, and deletes those of the key that nobody can read any more.
func (s *Versioned) settlePut(key []byte, at int64) (validTo int64, err error) {
	validTo, s.gone = -1, s.gone[:0]
	earliest, reached := s.earliest(), false
	it := s.versions(key, 0, math.MaxInt64)
	defer it.Close()
	for it.Next() {
		from := versionTime(it.Key())
		if from > at {
			validTo = from
		}
		if from > earliest {
			continue
		}
		if reached || it.Value()[0] == versionDeleted {
			s.gone = append(s.gone, append([]byte(nil), it.Key()...))
		}
		reached = true
	}
	if err := it.Err(); err != nil {
		return validTo, err
	}
	for _, row := range s.gone {
		if err := s.put(row, nil, -1, nil); err != nil {
			return validTo, err
		}
	}
	return validTo, nil
}

// Get returns the latest version of a key. It is not ok if there is none, or if it is a deletion.
func (s *Versioned) Get(key []byte) (v Version, ok bool, err error) {
	return s.GetAsOf(key, math.MaxInt64)
}

// GetAsOf returns the version of a key that was valid at a time. It is not ok if there was none, or if the time is before what the history reaches back to
// and not that of the latest version.
func (s *Versioned) GetAsOf(key []byte, at int64) (v Version, ok bool, err error) {
	if at < 0 {
		return v, false, s.err
	}
	v.To = -1
	latest := true
	it := s.versions(key, 0, math.MaxInt64)
	defer it.Close()
	for it.Next() {
		v.From = versionTime(it.Key())
		if v.From > at {
			v.To, latest = v.From, false
			continue
		}
		if !latest && at < s.earliest() || it.Value()[0] == versionDeleted {
			return Version{}, false, nil
		}
		s.value = append(s.value[:0], it.Value()[1:]...)
		v.Value = s.value
		return v, true, nil
	}
	return Version{}, false, it.Err()
}

// Delete deletes a key from a time on and returns the version that was valid then. stored is false if the deletion came too late.
func (s *Versioned) Delete(key []byte, at int64, headers []Header) (old Version, ok, stored bool, err error) {
	if at >= s.earliest() {
		if old, ok, err = s.GetAsOf(key, at); err != nil {
			return old, false, false, err
		}
		old.Value = append([]byte(nil), old.Value...)
	}
	_, stored, err = s.Put(key, nil, at, headers)
	return old, ok && stored, stored, err
}

// Versions walks the history of a key, the latest first, deletions left out: what was valid at some time in from..to.
func (s *Versioned) Versions(key []byte, from, to int64, yield func(v Version) bool) error {
	next := int64(-1)
	it := s.versions(key, 0, math.MaxInt64)
	defer it.Close()
	for it.Next() {
		v := Version{Value: it.Value()[1:], From: versionTime(it.Key()), To: next}
		next = v.From
		if v.From > to || it.Value()[0] == versionDeleted {
			continue
		}
		if v.To >= 0 && v.To <= max(from, s.earliest()) || !yield(v) {
			break
		}
	}
	return it.Err()
}

// All walks the latest version of every key, in the order of keys, deletions left out.
func (s *Versioned) All(yield func(key []byte, v Version) bool) error {
	it := s.iterate(allTime(nil, nil), true)
	defer it.Close()
	var last, key []byte
	type found struct {
		key []byte
		v   Version
	}
	var list []found // backwards, since the latest version of a key comes first only that way
	for it.Next() {
		row := it.Key()
		user := row[:len(row)-versionTail-terminatorLen]
		if last != nil && string(last) == string(user) {
			continue
		}
		last = append(last[:0], user...)
		if it.Value()[0] == versionDeleted {
			continue
		}
		key, _ = unescape(nil, append([]byte(nil), user...))
		list = append(list, found{key, Version{Value: append([]byte(nil), it.Value()[1:]...), From: versionTime(row), To: -1}})
	}
	if err := it.Err(); err != nil {
		return err
	}
	for i := len(list) - 1; i >= 0; i-- {
		if !yield(list[i].key, list[i].v) {
			break
		}
	}
	return nil
}

// restored makes the row of a record of the store's changelog. It is not ok for one that is too old.
func (s *rowStore) restoredVersion(rec *RestoreRecord) (row RestoreRecord, ok bool) {
	earliest := max(0, s.observed-s.spec.Retention.Milliseconds())
	if rec.Timestamp < earliest {
		return row, false
	}
	s.observed = max(s.observed, rec.Timestamp)
	row = RestoreRecord{Key: versionKey(nil, rec.Key, rec.Timestamp), Value: []byte{versionDeleted}, Timestamp: rec.Timestamp}
	if rec.Value != nil {
		row.Value = append([]byte{versionValue}, rec.Value...)
	}
	return row, true
}
