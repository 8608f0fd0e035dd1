package window

import (
	"fmt"
	"math"
	"time"
)

// JoinWindows say how far apart in time two records may be and still join, see [Within].
type JoinWindows struct{ before, after, grace time.Duration }

// Within joins records that are at most difference apart, in either direction.
func Within(difference time.Duration) JoinWindows {
	return JoinWindows{before: difference, after: difference}
}

// Before says how much older than this stream's record the other one may be. Negative means that it must be newer.
func (w JoinWindows) Before(d time.Duration) JoinWindows { w.before = d; return w }

// After says how much newer than this stream's record the other one may be. Negative means that it must be older.
func (w JoinWindows) After(d time.Duration) JoinWindows { w.after = d; return w }

// Grace accepts records that are late by up to d. Left and outer joins emit an unmatched record only when it has passed.
func (w JoinWindows) Grace(d time.Duration) JoinWindows { w.grace = d; return w }

// JoinSpec is a definition of join windows in milliseconds.
type JoinSpec struct{ Before, After, Grace int64 }

// Size is how far apart two records of a window may be.
func (s JoinSpec) Size() int64 { return s.Before + s.After }

// Spec returns the definition in milliseconds. It refuses windows that end before they begin, and a negative grace (F-090).
func (w JoinWindows) Spec() (JoinSpec, error) {
	s := JoinSpec{w.before.Milliseconds(), w.after.Milliseconds(), w.grace.Milliseconds()}
	switch {
	case s.Size() < 0:
		return s, fmt.Errorf("the join window ends %v before it begins: before is %v, after is %v", -(w.before + w.after), w.before, w.after)
	case w.grace < 0:
		return s, fmt.Errorf("grace %v is negative", w.grace)
	case s.Size()+s.Grace > math.MaxInt64/int64(time.Millisecond):
		return s, fmt.Errorf("before %v, after %v and grace %v are too long together", w.before, w.after, w.grace)
	}
	return s, nil
}
