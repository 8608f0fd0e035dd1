package window_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/streams/window"
)

// F-080, F-081: what definitions mean in milliseconds, and those that mean nothing.
func TestFixedWindows(t *testing.T) {
	for _, c := range []struct {
		name    string
		windows window.FixedWindows
		want    window.Spec
		says    string // of the error
	}{
		{"tumbling", window.Tumbling(time.Hour), window.Spec{Size: 3_600_000, Advance: 3_600_000}, ""},
		{"grace", window.Tumbling(time.Second).Grace(time.Minute), window.Spec{Size: 1000, Advance: 1000, Grace: 60_000}, ""},
		{"the last grace counts", window.Tumbling(time.Second).Grace(time.Minute).Grace(0), window.Spec{Size: 1000, Advance: 1000}, ""},
		{"hopping", window.Hopping(time.Second, 300*time.Millisecond), window.Spec{Size: 1000, Advance: 300}, ""},
		{"hopping as tumbling", window.Hopping(time.Second, time.Second), window.Spec{Size: 1000, Advance: 1000}, ""},
		{"rounded down", window.Hopping(1999*time.Microsecond, 1001*time.Microsecond).Grace(999 * time.Microsecond), window.Spec{Size: 1, Advance: 1}, ""},
		{"no size", window.Tumbling(0), window.Spec{}, "size 0s is below one millisecond"},
		{"negative size", window.Tumbling(-time.Hour), window.Spec{}, "size -1h0m0s"},
		{"too small", window.Tumbling(999 * time.Microsecond), window.Spec{}, "size 999µs"},
		{"no advance", window.Hopping(time.Second, 0), window.Spec{}, "advance 0s is below one millisecond"},
		{"gaps", window.Hopping(time.Second, 1001*time.Millisecond), window.Spec{}, "advance 1.001s is longer than the size 1s"},
		{"negative grace", window.Tumbling(time.Second).Grace(-1), window.Spec{}, "grace -1ns is negative"},
		{"beyond all time", window.Tumbling(math.MaxInt64).Grace(time.Millisecond), window.Spec{}, "too long together"},
		{"never made", window.FixedWindows{}, window.Spec{}, "size 0s"},
	} {
		got, err := c.windows.Spec()
		switch {
		case c.says != "":
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: got %v, want %q", c.name, err, c.says)
			}
		case err != nil || got != c.want:
			t.Errorf("%s: got %+v, %v, want %+v", c.name, got, err, c.want)
		}
	}
}

// F-090: join windows reach into the past and the future, or lie in one of them.
func TestJoinWindows(t *testing.T) {
	for _, c := range []struct {
		name    string
		windows window.JoinWindows
		want    window.JoinSpec
		says    string
	}{
		{"both ways", window.Within(time.Second), window.JoinSpec{Before: 1000, After: 1000}, ""},
		{"only later", window.Within(0).After(time.Minute).Grace(time.Second), window.JoinSpec{After: 60_000, Grace: 1000}, ""},
		{"in the past", window.Within(time.Minute).After(-time.Second), window.JoinSpec{Before: 60_000, After: -1000}, ""},
		{"one moment", window.Within(0).Before(-time.Second).After(time.Second), window.JoinSpec{Before: -1000, After: 1000}, ""},
		{"ends before it begins", window.Within(0).Before(-time.Second), window.JoinSpec{}, "ends 1s before it begins"},
		{"negative difference", window.Within(-time.Second), window.JoinSpec{}, "ends 2s before it begins"},
		{"negative grace", window.Within(0).Grace(-time.Second), window.JoinSpec{}, "grace -1s is negative"},
		{"beyond all time", window.Within(math.MaxInt64), window.JoinSpec{}, "too long together"},
	} {
		got, err := c.windows.Spec()
		switch {
		case c.says != "":
			if err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s: got %v, want %q", c.name, err, c.says)
			}
		case err != nil || got != c.want:
			t.Errorf("%s: got %+v, %v, want %+v", c.name, got, err, c.want)
		}
	}
}
