package window

import (
	"errors"
	"fmt"
	"iter"
	"math"
	"time"
)

// UnlimitedWindows is the single window of [Unlimited].
type UnlimitedWindows struct{ start time.Time }

// Unlimited is the single window that begins at start and never ends, and so never closes. Records before start are in no window (F-089). The End of its
// keys is the greatest number of milliseconds there is.
func Unlimited(start time.Time) UnlimitedWindows { return UnlimitedWindows{start} }

// Spec returns the definition in milliseconds. It refuses a start before 1970.
func (w UnlimitedWindows) Spec() (Spec, error) {
	s := Spec{Kind: KindUnlimited, Size: math.MaxInt64, Start: w.start.UnixMilli()}
	if s.Start < 0 {
		return s, fmt.Errorf("unlimited window starts at %v, before 1970", w.start)
	}
	return s, nil
}

func (UnlimitedWindows) definition() {}

// Window is a window without its key. It contains Start and not End.
type Window struct{ Start, End time.Time }

// bounds are those of the window in ms. Nothing is before the epoch.
func (w Window) bounds() (start, end int64) { return max(0, w.Start.UnixMilli()), w.End.UnixMilli() }

// An Assigner maps a time to windows; implement it for windows that follow a calendar, a shift plan, a time zone (F-094).
type Assigner interface {
	// Windows yields every window that contains t, in ascending order of Start. It must be a pure function. A window that begins before 1970 is taken to
	// begin there.
	Windows(t time.Time) iter.Seq[Window]

	// MaxSize is the length of the longest window; retention is derived from it. A longer window stops the task.
	MaxSize() time.Duration
}

// CustomWindows are windows from an [Assigner].
type CustomWindows struct {
	assigner Assigner
	grace    time.Duration
}

// Custom takes windows from a. Rows of the store know where their window begins; where it ends is asked of a again, so a must not change its mind while
// the store lives.
func Custom(a Assigner) CustomWindows { return CustomWindows{assigner: a} }

// Grace accepts records that are late by up to d, counted from the end of their window.
func (w CustomWindows) Grace(d time.Duration) CustomWindows { w.grace = d; return w }

// Spec returns the definition in milliseconds. It refuses a nil assigner, a size below one millisecond and a negative grace.
func (w CustomWindows) Spec() (Spec, error) {
	if w.assigner == nil {
		return Spec{}, errors.New("there is no assigner")
	}
	if d, ok := w.assigner.(days); ok && d.at == nil {
		return Spec{}, errors.New("there is no time zone")
	}
	s := Spec{Kind: KindCustom, Size: w.assigner.MaxSize().Milliseconds(), Grace: w.grace.Milliseconds(), Assigner: w.assigner}
	if s.Size <= 0 {
		return s, fmt.Errorf("the longest window, %v, is below one millisecond", w.assigner.MaxSize())
	}
	return s, checkGrace(w.assigner.MaxSize(), s.Size, w.grace)
}

func (CustomWindows) definition() {}

// Assign calls take for each custom window of a time, all in ms. The error says what is wrong with a window.
func (s Spec) Assign(ts int64, take func(start, end int64)) error {
	last := int64(-1)
	for w := range s.Assigner.Windows(time.UnixMilli(ts).UTC()) {
		start, end := w.bounds()
		switch {
		case ts < start || ts >= end:
			return fmt.Errorf("window %v to %v does not contain %v, which it was assigned to", w.Start, w.End, time.UnixMilli(ts).UTC())
		case end-start > s.Size:
			return fmt.Errorf("window %v to %v is longer than %v, the longest there is", w.Start, w.End, time.Duration(s.Size)*time.Millisecond)
		case start <= last:
			return fmt.Errorf("window %v to %v does not come after the one before it", w.Start, w.End)
		}
		take(start, end)
		last = start
	}
	return nil
}

// Days are calendar days at a place, 23 and 25 hours long where clocks change.
func Days(at *time.Location) CustomWindows { return Custom(days{at}) }

type days struct{ at *time.Location }

// MaxSize implements [Assigner]: the longest day since 1970, at Vostok station in 1994, when the clock went back by seven hours.
func (d days) MaxSize() time.Duration { return 31 * time.Hour }

// Windows implements [Assigner].
func (d days) Windows(t time.Time) iter.Seq[Window] {
	return func(yield func(Window) bool) {
		year, month, day := t.In(d.at).Date()
		w := Window{d.midnight(year, month, day), d.midnight(year, month, day+1)}
		for i := 2; !t.Before(w.End); i++ { // clocks went back over midnight: the day before has begun a second time
			w = Window{w.End, d.midnight(year, month, day+i)}
		}
		yield(w)
	}
}

// midnight is the first moment of a day: where clocks change at midnight, there may be none or two of them.
func (d days) midnight(year int, month time.Month, day int) time.Time {
	want := time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
	t := time.Date(year, month, day, 0, 0, 0, 0, d.at)
	if d.date(t).Before(want) { // it does not exist
		_, t = t.ZoneBounds()
		return t
	}
	if since, _ := t.ZoneBounds(); !since.IsZero() {
		_, now := t.Zone()
		_, before := since.Add(-1).Zone()
		if first := t.Add(time.Duration(now-before) * time.Second); first.Before(since) && d.date(first).Equal(want) {
			return first // it exists twice
		}
	}
	return t
}

// date is the day of a time at the place, as if it were UTC.
func (d days) date(t time.Time) time.Time {
	year, month, day := t.In(d.at).Date()
	return time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
}
