package main

import (
	"testing"
	"time"

	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/streamstest"
)

func TestDedup(t *testing.T) {
	topology, err := dedup()
	if err != nil {
		t.Fatal(err)
	}
	d := streamstest.New(t, topology, streamstest.Partitions(events.Name(), 2))
	in, out := d.Input(events), d.Output(unique)
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	event := func(id, text string) streams.Record[string, string] {
		return streams.Record[string, string]{Key: id, Value: text}
	}

	in.PipeAt(noon, "1", "a")
	in.PipeAt(noon, "1", "b")
	in.PipeAt(noon, "2", "c")
	in.PipeAt(noon.Add(memory), "1", "d") // the last moment
	out.Expect(event("1", "a"), event("2", "c"))
	in.PipeAt(noon.Add(memory+time.Millisecond), "1", "e") // the first after it
	out.Expect(event("1", "e"))
	in.PipeAt(noon.Add(5*time.Minute), "1", "f") // late, and near to both
	out.Expect()
	in.PipeAt(noon.Add(-time.Minute), "2", "g") // out of order
	out.Expect()

	d.Restart(streamstest.StateLost) // the store comes back from its changelog
	in.PipeAt(noon.Add(memory+time.Millisecond), "1", "h")
	out.Expect()
	in.PipeAt(noon.Add(time.Hour), "1", "i")
	out.Expect(event("1", "i"))
}

func TestEventWithoutIDFails(t *testing.T) {
	topology, err := dedup()
	if err != nil {
		t.Fatal(err)
	}
	d := streamstest.New(t, topology)
	d.Input(events).PipeValues("nobody knows")
	if d.Err() == nil {
		t.Error("no error")
	}
}
