package window_test

import (
	"fmt"
	"iter"
	"math"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/millrace/millrace/streams/window"
)

type assigner struct {
	size    time.Duration
	windows []window.Window
}

func (a assigner) MaxSize() time.Duration { return a.size }
func (a assigner) Windows(time.Time) iter.Seq[window.Window] {
	return func(yield func(window.Window) bool) {
		for _, w := range a.windows {
			if !yield(w) {
				return
			}
		}
	}
}

// F-085, F-087, F-089, F-094: what is wrong with a definition.
func TestBadDefinitions(t *testing.T) {
	for _, c := range []struct {
		spec func() error
		says string
	}{
		{func() error { _, err := window.Sliding(0).Spec(); return err }, "time difference 0s is below one millisecond"},
		{func() error { _, err := window.Sliding(-time.Second).Spec(); return err }, "time difference -1s is below one millisecond"},
		{func() error { _, err := window.Sliding(time.Second).Grace(-1).Spec(); return err }, "grace -1ns is negative"},
		{func() error { _, err := window.Sliding(math.MaxInt64 / 2).Grace(time.Hour).Spec(); return err }, "are too long together"},
		{func() error { _, err := window.Session(0).Spec(); return err }, "session gap 0s is below one millisecond"},
		{func() error { _, err := window.Session(time.Second).Grace(-time.Second).Spec(); return err }, "grace -1s is negative"},
		{func() error { _, err := window.Session(math.MaxInt64).Grace(math.MaxInt64).Spec(); return err }, "are too long together"},
		{func() error { _, err := window.Unlimited(ms(-1)).Spec(); return err }, "before 1970"},
		{func() error { _, err := window.Custom(nil).Spec(); return err }, "there is no assigner"},
		{func() error { _, err := window.Custom(assigner{}).Spec(); return err }, "the longest window, 0s, is below one millisecond"},
		{func() error { _, err := window.Custom(assigner{size: time.Hour}).Grace(-1).Spec(); return err }, "grace -1ns is negative"},
		{func() error { _, err := window.Days(nil).Spec(); return err }, "there is no time zone"},
	} {
		if err := c.spec(); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("got %v, want %s", err, c.says)
		}
	}
	for name, spec := range map[string]func() error{
		"sliding": func() error { _, err := window.Sliding(time.Millisecond).Spec(); return err },
		"session": func() error { _, err := window.Session(time.Millisecond).Grace(time.Hour).Spec(); return err },
		"epoch":   func() error { _, err := window.Unlimited(ms(0)).Spec(); return err },
	} {
		if err := spec(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// F-094: the windows of a time, and those that an assigner must not yield.
func TestAssign(t *testing.T) {
	w := func(start, end int64) window.Window { return window.Window{Start: ms(start), End: ms(end)} }
	for name, c := range map[string]struct {
		windows []window.Window
		want    string
		says    string
	}{
		"none":                {nil, "", ""},
		"two":                 {[]window.Window{w(0, 11), w(5, 15)}, "0-11 5-15", ""},
		"before the epoch":    {[]window.Window{w(-3, 12)}, "0-12", ""},
		"ends at the time":    {[]window.Window{w(0, 10)}, "", "does not contain"},
		"begins after it":     {[]window.Window{w(11, 12)}, "", "does not contain"},
		"the same once more":  {[]window.Window{w(0, 11), w(0, 12)}, "0-11", "does not come after"},
		"too long":            {[]window.Window{w(0, 21)}, "", "is longer than 20ms"},
		"as long as can be":   {[]window.Window{w(0, 20)}, "0-20", ""},
		"ends where it began": {[]window.Window{w(10, 10)}, "", "does not contain"},
	} {
		spec, err := window.Custom(assigner{20 * time.Millisecond, c.windows}).Spec()
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		err = spec.Assign(10, func(start, end int64) {
			got = append(got, fmt.Sprintf("%d-%d", start, end))
		})
		if s := strings.Join(got, " "); s != c.want || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %q, %v", name, s, err)
		}
	}
}

// F-094: calendar days where clocks change at midnight, or go back over it, and where a day is missing.
func TestDays(t *testing.T) {
	for _, c := range []struct {
		zone, at, start string
		hours           float64
	}{
		{"Europe/Berlin", "2026-03-29T12:00:00+02:00", "2026-03-29T00:00:00+01:00", 23},
		{"Europe/Berlin", "2026-10-25T23:59:59+01:00", "2026-10-25T00:00:00+02:00", 25},
		{"Europe/Berlin", "2026-06-01T00:00:00+02:00", "2026-06-01T00:00:00+02:00", 24},
		{"America/Sao_Paulo", "2018-11-04T12:00:00-02:00", "2018-11-04T01:00:00-02:00", 23}, // no midnight
		{"America/Havana", "2025-11-02T12:00:00-05:00", "2025-11-02T00:00:00-04:00", 25},    // two midnights
		{"America/Havana", "2025-11-02T00:30:00-05:00", "2025-11-02T00:00:00-04:00", 25},
		{"Pacific/Apia", "2011-12-29T12:00:00-10:00", "2011-12-29T00:00:00-10:00", 24}, // the 30th did not take place
		{"Pacific/Apia", "2011-12-31T12:00:00+14:00", "2011-12-31T00:00:00+14:00", 24},
		{"Antarctica/Casey", "2010-03-04T23:30:00+08:00", "2010-03-05T00:00:00+11:00", 27}, // from two in the morning back to eleven in the evening
		{"UTC", "1970-01-01T00:00:00Z", "1970-01-01T00:00:00Z", 24},
	} {
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		at, err := time.Parse(time.RFC3339, c.at)
		if err != nil {
			t.Fatal(err)
		}
		start, err := time.Parse(time.RFC3339, c.start)
		if err != nil {
			t.Fatal(err)
		}
		spec, err := window.Days(zone).Spec()
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		if err := spec.Assign(at.UnixMilli(), func(from, to int64) {
			n++
			if from != start.UnixMilli() || time.Duration(to-from)*time.Millisecond != time.Duration(c.hours*float64(time.Hour)) {
				t.Errorf("%s at %s: from %v for %v", c.zone, c.at, time.UnixMilli(from).In(zone), time.Duration(to-from)*time.Millisecond)
			}
			if end := spec.End(from); end != to {
				t.Errorf("%s at %s: the end is found at %v", c.zone, c.at, time.UnixMilli(end).In(zone))
			}
		}); err != nil || n != 1 {
			t.Errorf("%s at %s: %d windows, %v", c.zone, c.at, n, err)
		}
	}
}
