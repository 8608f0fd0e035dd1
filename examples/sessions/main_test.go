package main

import (
	"testing"
	"time"

	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/streamstest"
	"github.com/millrace/millrace/streams/window"
)

func TestVisiting(t *testing.T) {
	topology, err := visiting()
	if err != nil {
		t.Fatal(err)
	}
	d := streamstest.New(t, topology, streamstest.WithConfig(streams.Config{CacheBytes: -1}))
	in, out := d.Input(clicks), d.Output(visits)
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	click := func(minute int, page string) Click { return Click{noon.Add(time.Duration(minute) * time.Minute), page} }
	pipe := func(user string, c Click) { in.Pipe(user, c) }
	visit := func(user string, clicks ...Click) streams.Record[window.Windowed[string], Visit] {
		return streams.Record[window.Windowed[string], Visit]{Key: window.At(user, clicks[0].At, clicks[len(clicks)-1].At), Value: clicks}
	}
	gone := func(r streams.Record[window.Windowed[string], Visit]) streams.Record[window.Windowed[string], Visit] {
		return r.Null()
	}

	a, b, c, late := click(0, "/"), click(10, "/docs"), click(55, "/buy"), click(30, "/blog")
	pipe("ada", a)
	out.Expect(visit("ada", a))
	pipe("ada", b)
	out.Expect(gone(visit("ada", a)), visit("ada", a, b))
	pipe("ada", c) // 45 minutes later
	out.Expect(visit("ada", c))
	pipe("kim", a)
	out.Expect(visit("kim", a))
	pipe("ada", late) // 20 minutes after the one, and 25 before the other
	out.Expect(gone(visit("ada", a, b)), gone(visit("ada", c)), visit("ada", a, b, late, c))

	d.Restart(streamstest.StateLost)
	last := click(85, "/thanks") // the gap itself still belongs to the visit
	pipe("ada", last)
	out.Expect(gone(visit("ada", a, c)), visit("ada", a, b, late, c, last))
}
