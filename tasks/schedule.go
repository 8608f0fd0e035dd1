package tasks

import (
	"slices"
	"time"
)

// punctuation is one thing a task does from time to time, by its stream time or by the wall clock (F-143…F-146).
type punctuation struct {
	every   int64 // ms
	next    int64 // ms of its clock
	f       func(now int64)
	stopped bool
}

// call calls f, as now has reached the next slot. Missed slots become one call, and the grid is kept.
func (p *punctuation) call(now int64) {
	missed := (now - p.next) / p.every
	p.next += (missed + 1) * p.every
	p.f(now)
}

// schedule is what a task has scheduled on one clock.
type schedule struct{ list []*punctuation }

func (s *schedule) add(p *punctuation) (stop func()) {
	s.list = append(s.list, p)
	return func() { p.stopped = true }
}

// run calls what is due, in the order in which it became due, and reports whether anything was. Punctuations may add and stop others.
func (s *schedule) run(now int64) (ran bool) {
	for p := s.first(); p != nil && p.next <= now; p = s.first() {
		p.call(now)
		ran = true
	}
	s.list = slices.DeleteFunc(s.list, func(p *punctuation) bool { return p.stopped })
	return ran
}

// first is what is due first, nil if nothing will be.
func (s *schedule) first() (first *punctuation) {
	for _, p := range s.list {
		if !p.stopped && (first == nil || p.next < first.next) {
			first = p
		}
	}
	return first
}

// next is when something is due next.
func (s *schedule) next() (at int64, ok bool) {
	if p := s.first(); p != nil {
		return p.next, true
	}
	return 0, false
}

// toMillis rounds up, so that a schedule never fires early; below one millisecond is one.
func toMillis(d time.Duration) int64 {
	return max(1, int64((d+time.Millisecond-1)/time.Millisecond))
}
