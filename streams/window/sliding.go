package window

import (
	"fmt"
	"time"
)

// SlidingWindows are aligned to records and not to a grid, see [Sliding].
type SlidingWindows struct{ difference, grace time.Duration }

// Sliding windows hold the records that are at most difference apart. A new window appears whenever its content differs: one that ends at a record, and,
// if later records are near, one that begins one millisecond after it (KIP-450, F-085). Windows that would begin before 1970 are one, [0, difference].
func Sliding(difference time.Duration) SlidingWindows { return SlidingWindows{difference: difference} }

// Grace accepts records that are late by up to d, counted from the end of the last window that they would be in.
func (w SlidingWindows) Grace(d time.Duration) SlidingWindows { w.grace = d; return w }

// Spec returns the definition in milliseconds. It refuses a difference below one millisecond and a negative grace.
func (w SlidingWindows) Spec() (Spec, error) {
	s := Spec{Kind: KindSliding, Size: w.difference.Milliseconds(), Grace: w.grace.Milliseconds()}
	if s.Size <= 0 {
		return s, fmt.Errorf("time difference %v is below one millisecond", w.difference)
	}
	return s, checkGrace(w.difference, 2*s.Size, w.grace)
}

func (SlidingWindows) definition() {}
