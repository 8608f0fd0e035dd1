package state

import "fmt"

// Window is a store of one value per key and window start or, with duplicates, of any number.
//
// Its stream time is the greatest window start that was ever put. Rows that start at stream time − retention or before are expired: reads don't show them,
// puts of them are dropped and counted, though they are in the changelog, and they are deleted segment by segment.
type Window struct {
	timedStore
	key []byte
}

// Get returns the value of a key and window start. The value is valid until the next write; it must not be changed. In a store with duplicates use Fetch.
func (s *Window) Get(key []byte, start int64) (value []byte, ts int64, ok bool, err error) {
	if start < oldest(s.observed, s.layout.retention) || start > s.observed {
		return nil, -1, false, s.err
	}
	s.key = AppendWindowKey(s.key[:0], key, start, 0)
	return s.get(s.key)
}

// Put sets the value of a key and window start; nil deletes it. In a store with duplicates it adds one, and nil changes nothing, but takes a number and a
// place in the changelog, as in Kafka Streams. It copies what it keeps.
// The time ts is kept with the value if the store is timestamped, and is that of the changelog record.
func (s *Window) Put(key, value []byte, start, ts int64, headers []Header) error {
	if start < 0 {
		return fmt.Errorf("state: store %q: window start %d is negative", s.spec.Name, start)
	}
	var seq uint32
	if s.spec.Duplicates {
		s.seq = (s.seq + 1) & 0x7fffffff
		seq = s.seq
		if value == nil {
			if s.spec.InMemory { // likewise: there, stores in memory take the time of a nil, and those on disk do not
				s.observed = max(s.observed, start)
			}
			return s.onlyLog(AppendWindowKey(nil, key, start, seq), nil, ts, headers)
		}
	}
	if !s.observe(start, 0) {
		return s.onlyLog(AppendWindowKey(nil, key, start, seq), value, ts, headers)
	}
	s.key = AppendWindowKey(s.key[:0], key, start, seq)
	return s.put(s.key, value, ts, headers)
}

// Delete deletes the row of a key and window start.
func (s *Window) Delete(key []byte, start, ts int64) error { return s.Put(key, nil, start, ts, nil) }

// Fetch walks the windows of a key that start in from..to, both inclusive, by start.
func (s *Window) Fetch(key []byte, from, to int64, reverse bool) Iterator {
	return s.iterateKey(windowScan(notNil(key), notNil(key), from, to), reverse)
}

// FetchHeld is Fetch that also shows rows which have expired, as long as their segment has not.
func (s *Window) FetchHeld(key []byte, from, to int64, reverse bool) Iterator {
	sc := windowScan(notNil(key), notNil(key), from, to)
	sc.held = true
	return s.iterateKey(sc, reverse)
}

// FetchRange walks the windows of the keys first..last that start in from..to; all bounds are inclusive, a nil key is open. The rows of a key come by
// start; the order of rows of different keys is not promised.
func (s *Window) FetchRange(first, last []byte, from, to int64, reverse bool) Iterator {
	return s.iterate(windowScan(first, last, from, to), reverse)
}

// All walks all windows, in the order of FetchRange.
func (s *Window) All(reverse bool) Iterator { return s.iterate(allTime(nil, nil), reverse) }

func windowScan(first, last []byte, from, to int64) scan {
	sc := allTime(first, last)
	sc.from, sc.to = from, to
	return sc
}

// notNil makes a nil key, which would be open, the empty one.
func notNil(key []byte) []byte {
	if key == nil {
		return []byte{}
	}
	return key
}
