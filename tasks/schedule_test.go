package tasks

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// F-144, F-145, F-146: slots lie on a grid, missed ones become one call, and the grid is kept.
func TestF146PunctuationGrid(t *testing.T) {
	var s schedule
	var calls []int64
	s.add(&punctuation{every: 10, next: 10, f: func(now int64) { calls = append(calls, now) }})
	for _, c := range []struct {
		now  int64
		runs bool
		next int64
	}{
		{9, false, 10}, {10, true, 20}, {10, false, 20}, {19, false, 20}, {25, true, 30}, {71, true, 80}, {80, true, 90},
	} {
		if ran := s.run(c.now); ran != c.runs {
			t.Errorf("at %d: ran %v", c.now, ran)
		}
		if next, ok := s.next(); !ok || next != c.next {
			t.Errorf("at %d: next at %d (%v), want %d", c.now, next, ok, c.next)
		}
	}
	if want := []int64{10, 25, 71, 80}; !slices.Equal(calls, want) {
		t.Errorf("called at %v, want %v", calls, want)
	}
}

// F-144: the first record fires a schedule of stream time; F-145: one of the wall clock first waits an interval.
func TestF144FirstPunctuation(t *testing.T) {
	c := Context{now: 1000, streamTime: -1}
	var calls []string
	c.ScheduleStream(10*time.Second, func(now int64) { calls = append(calls, fmt.Sprint("stream ", now)) })
	c.ScheduleWall(10*time.Second, func(now int64) { calls = append(calls, fmt.Sprint("wall ", now)) })
	c.wall.run(1000)
	c.stream.run(3)
	c.wall.run(10999)
	c.wall.run(11000)
	if want := []string{"stream 3", "wall 11000"}; !slices.Equal(calls, want) {
		t.Errorf("got %v, want %v", calls, want)
	}
}

// Punctuations may stop themselves and others, and add new ones, while they run.
func TestPunctuationsChangeTheSchedule(t *testing.T) {
	var s schedule
	var calls []string
	var stopB func()
	stopA := s.add(&punctuation{every: 10, f: func(int64) {
		calls = append(calls, "a")
		stopB()
		s.add(&punctuation{every: 100, f: func(int64) { calls = append(calls, "c") }})
	}})
	stopB = s.add(&punctuation{every: 10, f: func(int64) { calls = append(calls, "b") }})
	s.run(0)
	if want := []string{"a", "c"}; !slices.Equal(calls, want) {
		t.Fatalf("got %v, want %v", calls, want)
	}
	if len(s.list) != 2 {
		t.Errorf("%d punctuations are left, want 2", len(s.list))
	}
	stopA()
	stopA()
	if at, ok := s.next(); !ok || at != 100 {
		t.Errorf("next at %d (%v)", at, ok)
	}
	if s.run(50) {
		t.Error("a stopped punctuation ran")
	}
}

func TestIntervalsAreWholeMilliseconds(t *testing.T) {
	for d, want := range map[time.Duration]int64{
		0: 1, time.Nanosecond: 1, time.Millisecond: 1, time.Millisecond + 1: 2, 1500 * time.Microsecond: 2, time.Second: 1000,
	} {
		if got := toMillis(d); got != want {
			t.Errorf("%v is %d ms, want %d", d, got, want)
		}
	}
}
