package main

import (
	"testing"
	"time"

	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/streamstest"
)

func TestViewsByRegion(t *testing.T) {
	topology, err := viewsByRegion()
	if err != nil {
		t.Fatal(err)
	}
	d := streamstest.New(t, topology, streamstest.Partitions("pageviews-*", 3))
	look, know, out := d.Input(views), d.Input(users), d.Output(regions)
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	counted := func(region string, minute time.Time, n int64) streams.Record[string, Views] {
		return streams.Record[string, Views]{Key: region, Value: Views{minute, n}}
	}

	look.PipeAt(noon, "ada", View{"/"})
	out.Expect(counted("unknown", noon, 1))
	know.PipeAt(noon, "ada", User{"Ada", "europe"})
	out.Expect() // views that were counted stay where they were
	look.PipeAt(noon.Add(time.Second), "ada", View{"/"})
	look.PipeAt(noon.Add(2*time.Second), "ada", View{"/docs"})
	out.Expect(counted("europe", noon, 1), counted("europe", noon, 2))

	know.PipeAt(noon.Add(time.Minute), "ada", User{"Ada", "asia"})
	look.PipeAt(noon.Add(time.Minute), "ada", View{"/"})
	out.Expect(counted("asia", noon.Add(time.Minute), 1))
	know.PipeNull("ada")
	look.PipeAt(noon.Add(time.Minute), "ada", View{"/"})
	out.Expect(counted("unknown", noon.Add(time.Minute), 1))
}
