package state

import (
	"fmt"
	"math"
)

// Session is a store of one value per key and session. Both ends of a session are inclusive.
//
// Its stream time is the greatest session end that was ever put. Sessions that end at stream time − retention or before are expired: reads don't show them,
// puts of them are dropped and counted, though they are in the changelog, and they are deleted segment by segment. With caching or a time index, a session
// that ends exactly at stream time − retention can be put: the aggregation of sessions takes records for one millisecond longer than its rows are shown, and
// the flush listener, or who walks the index, is to hear of them. With caching it takes over sessions that have expired, too, and so these can be removed, in
// silence.
type Session struct {
	timedStore
	key []byte
}

// Get returns the value of a session. The value is valid until the next write; it must not be changed.
func (s *Session) Get(key []byte, start, end int64) (value []byte, ok bool, err error) {
	if end < oldest(s.observed, s.layout.retention) || end > s.observed || start < 0 {
		return nil, false, s.err
	}
	s.key = AppendSessionKey(s.key[:0], key, start, end)
	value, _, ok, err = s.get(s.key)
	return value, ok, err
}

// Put sets the value of a session; nil removes it. It copies what it keeps. The time ts is that of the changelog record.
func (s *Session) Put(key, value []byte, start, end, ts int64, headers []Header) error {
	if start < 0 || end < start {
		return fmt.Errorf("state: store %q: %d..%d is not a session", s.spec.Name, start, end)
	}
	late := int64(0)
	if s.spec.Caching || s.spec.TimeIndex {
		late = 1
	}
	if s.spec.Caching && value == nil {
		s.observed = max(s.observed, end)
	} else if !s.observe(end, late) {
		return s.onlyLog(AppendSessionKey(nil, key, start, end), value, ts, headers)
	}
	s.key = AppendSessionKey(s.key[:0], key, start, end)
	return s.put(s.key, value, ts, headers)
}

// Remove removes a session.
func (s *Session) Remove(key []byte, start, end, ts int64) error {
	return s.Put(key, nil, start, end, ts, nil)
}

// Find walks the sessions of a key that end at earliestEnd or later and start at latestStart or earlier, by end and then start.
func (s *Session) Find(key []byte, earliestEnd, latestStart int64, reverse bool) Iterator {
	return s.iterateKey(sessionScan(notNil(key), notNil(key), earliestEnd, math.MaxInt64, latestStart), reverse)
}

// FindHeld is Find that also shows sessions which have expired, as long as their segment has not.
func (s *Session) FindHeld(key []byte, earliestEnd, latestStart int64, reverse bool) Iterator {
	sc := sessionScan(notNil(key), notNil(key), earliestEnd, math.MaxInt64, latestStart)
	sc.held = true
	return s.iterateKey(sc, reverse)
}

// FindRange walks such sessions of the keys first..last; both are inclusive, nil is open. The sessions of a key come by end and then start; the order of
// sessions of different keys is not promised.
func (s *Session) FindRange(first, last []byte, earliestEnd, latestStart int64, reverse bool) Iterator {
	return s.iterate(sessionScan(first, last, earliestEnd, math.MaxInt64, latestStart), reverse)
}

// FindEnding walks the sessions of all keys that end in earliestEnd..latestEnd, both inclusive, in the order of FindRange.
func (s *Session) FindEnding(earliestEnd, latestEnd int64, reverse bool) Iterator {
	return s.iterate(sessionScan(nil, nil, earliestEnd, latestEnd, math.MaxInt64), reverse)
}

// Fetch walks all sessions of a key.
func (s *Session) Fetch(key []byte, reverse bool) Iterator {
	return s.Find(key, 0, math.MaxInt64, reverse)
}

// All walks all sessions, in the order of FindRange.
func (s *Session) All(reverse bool) Iterator { return s.iterate(allTime(nil, nil), reverse) }

func sessionScan(first, last []byte, earliestEnd, latestEnd, latestStart int64) scan {
	sc := allTime(first, last)
	sc.from, sc.to, sc.latestStart = earliestEnd, latestEnd, latestStart
	return sc
}
