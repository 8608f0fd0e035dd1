package main

import (
	"testing"
	"time"

	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/streamstest"
)

func TestSilence(t *testing.T) {
	topology, err := silence()
	if err != nil {
		t.Fatal(err)
	}
	d := streamstest.New(t, topology)
	in, out := d.Input(readings), d.Output(alerts)
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	after := func(s int) time.Time { return noon.Add(time.Duration(s) * time.Second) }
	alert := func(at int, sensor string, a Alert) streams.Record[string, Alert] {
		return streams.Record[string, Alert]{Key: sensor, Value: a, Timestamp: after(at)}
	}

	in.PipeAt(after(0), "a", 20)
	in.PipeAt(after(0), "b", 20)
	in.PipeAt(after(60), "b", 20)
	out.Expect() // a minute is not more than a minute
	in.PipeAt(after(75), "b", 20)
	out.Expect(alert(75, "a", Alert{true, after(0)}))
	in.PipeAt(after(90), "b", 20)
	out.Expect() // said once
	in.PipeAt(after(30), "a", 20)
	out.Expect(alert(30, "a", Alert{false, after(30)})) // a late reading is one, too
	in.PipeAt(after(100), "b", 20)
	out.Expect(alert(100, "a", Alert{true, after(30)}))

	d.Restart(streamstest.StateLost) // the store comes back from its changelog
	in.PipeAt(after(120), "a", 20)
	in.PipeAt(after(110), "a", 20)
	out.Expect(alert(120, "a", Alert{false, after(120)}))
	in.PipeAt(after(200), "a", 20)
	out.Expect(alert(200, "b", Alert{true, after(100)}))
}
