package state

// timedStore is what window and session stores have in common: rows expire.
type timedStore struct {
	rowStore
	dropped int64
	onDrop  func(time, earliest int64)
}

// StreamTime returns the greatest time that was put, -1 if nothing was.
func (s *timedStore) StreamTime() int64 { return s.observed }

// Oldest returns the start of the oldest segment that is not expired as a whole. Expired rows may be there from then on.
func (s *timedStore) Oldest() int64 {
	return s.layout.segment(s.observed-s.layout.retention) * s.layout.interval
}

// KeepFrom keeps rows from a time on from being deleted, though they are expired, until it is called with a later one. What is kept does not outlive a
// restoration from the changelog.
func (s *timedStore) KeepFrom(t int64) { s.keepFrom = t }

// Dropped returns how many puts were dropped because they came too late, since the store was opened.
func (s *timedStore) Dropped() int64 { return s.dropped }

// SetDropListener sets who is told of puts that are dropped because they came too late: the time of the row and the earliest that would have been kept.
func (s *timedStore) SetDropListener(fn func(time, earliest int64)) { s.onDrop = fn }

// observe moves the store's stream time and reports whether a row of time t is to be kept: until it is late ms beyond retention.
func (s *timedStore) observe(t, late int64) bool {
	s.observed = max(s.observed, t)
	earliest := oldest(s.observed, s.layout.retention) - late
	if t >= earliest {
		return true
	}
	s.dropped++
	if s.onDrop != nil {
		s.onDrop(t, earliest)
	}
	return false
}

// onlyLog sends to the changelog a put that changes nothing in the store. Nobody needs it there, but Kafka Streams has it, and a changelog is the same whoever
// writes it. A store with caching leaves it out: its rows reach the changelog when it is flushed.
func (s *timedStore) onlyLog(key, value []byte, ts int64, headers []Header) error {
	if s.err != nil || s.changelog == nil || s.spec.Caching {
		return s.err
	}
	return s.changelog(key, value, ts, headers)
}

// expired tells whether the row with a changelog key is beyond retention.
func (s *rowStore) expired(key []byte) bool {
	return s.layout.tail > 0 && s.layout.time(key) < oldest(s.observed, s.layout.retention)
}
