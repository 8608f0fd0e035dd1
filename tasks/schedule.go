package tasks

import "time"

// punctuation is one thing a task does from time to time, by its stream time or by the wall clock (F-143…F-146).
type punctuation struct {
	every   int64 // ms
	next    int64 // ms of its clock
	f       func(now int64)
	stopped bool
}

// due calls f if now has reached the next slot. Missed slots become one call, and the grid is kept.
func (p *punctuation) due(now int64) bool {
	if p.stopped || now < p.next {
		return false
	}
	missed := (now - p.next) / p.every
	p.next += (missed + 1) * p.every
	p.f(now)
	return true
}

// schedule is what a task has scheduled on one clock.
type schedule struct{ list []*punctuation }

func (s *schedule) add(p *punctuation) (stop func()) {
	s.list = append(s.list, p)
	return func() { p.stopped = true }
}

// run calls what is due and reports whether anything was. Punctuations may add and stop others.
func (s *schedule) run(now int64) bool {
	ran, stopped := false, false
	for i := 0; i < len(s.list); i++ {
		ran = s.list[i].due(now) || ran
		stopped = stopped || s.list[i].stopped
	}
	if stopped {
		kept := s.list[:0]
		for _, p := range s.list {
			if !p.stopped {
				kept = append(kept, p)
			}
		}
		s.list = kept
	}
	return ran
}

// next is when something is due next.
func (s *schedule) next() (at int64, ok bool) {
	for _, p := range s.list {
		if !p.stopped && (!ok || p.next < at) {
			at, ok = p.next, true
		}
	}
	return at, ok
}

// toMillis rounds up, so that a schedule never fires early; below one millisecond is one.
func toMillis(d time.Duration) int64 {
	return max(1, int64((d+time.Millisecond-1)/time.Millisecond))
}
