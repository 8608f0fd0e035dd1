// Command sessions cuts the clicks of each user into visits: a visit ends when its user does nothing for half an hour.
//
//	go run ./examples/sessions                            # a broker inside the process, nothing to install
//	go run ./examples/sessions -brokers localhost:9092    # any Kafka with streams groups
//
// A click that comes late may join two visits. Each visit that is no more gets a null, so that the output is a table: the last value of each key, which is the
// user and the visit's begin and end, is what holds.
package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/examples/internal/demo"
	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/streams/window"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Click is on a page at a time. Its key is the user.
type Click struct {
	At   time.Time
	Page string
}

// Visit has its clicks in the order of time.
type Visit []Click

var (
	clicks = streams.NewTopic("sessions-clicks", serde.String, serde.JSON[Click]()).TimestampFrom(func(_ string, c Click) time.Time { return c.At })
	visits = streams.NewTopic("sessions-visits", window.SessionSerde(serde.String), serde.JSON[Visit]())
)

// visiting is the whole topology.
func visiting() (*streams.Topology, error) {
	b := streams.NewBuilder()
	b.Stream(clicks).
		GroupByKey().
		SessionsBy(window.Session(30*time.Minute).Grace(time.Hour)).
		Aggregate("visits", newVisit, Visit.with, merge, streams.ValueSerde(serde.JSON[Visit]())).
		ToStream().
		To(visits)
	return b.Build()
}

func newVisit() Visit { return Visit{} }

// with adds a click. The aggregate is shared with the store, so it is copied.
func (v Visit) with(_ string, c Click) Visit { return sorted(append(slices.Clone(v), c)) }

func merge(_ string, a, b Visit) Visit { return sorted(slices.Concat(a, b)) }

func sorted(v Visit) Visit {
	slices.SortStableFunc(v, func(a, b Click) int { return a.At.Compare(b.At) })
	return v
}

func main() {
	demo.Main(demo.Program{
		Name:     "sessions",
		Topology: visiting,
		Config:   func(cfg *streams.Config) { cfg.CacheBytes = -1 }, // show every update, also those of one moment
		Inputs:   []string{clicks.Name()},
		Outputs: []demo.Output{demo.Print(visits, func(r streams.Record[window.Windowed[string], Visit]) string {
			visit := fmt.Sprintf("%s  %s to %s", r.Key.Key, r.Key.Start.Format("15:04"), r.Key.End.Format("15:04"))
			if r.NullValue {
				return visit + "  is no more"
			}
			for _, c := range r.Value {
				visit += "  " + c.Page
			}
			return visit
		})},
		Sample: func() ([]*kgo.Record, error) { return sample(time.Now().Add(-4 * time.Hour).Truncate(time.Hour)) },
	})
}

// sample has two visits of ada, and then the click that makes them one; kim comes twice.
func sample(begin time.Time) ([]*kgo.Record, error) {
	at := func(minutes int, user, page string) streams.Record[string, Click] {
		t := begin.Add(time.Duration(minutes) * time.Minute)
		return demo.At(t, user, Click{t, page})
	}
	return demo.Records(clicks,
		at(0, "ada", "/"), at(10, "ada", "/docs"), at(12, "kim", "/"), at(55, "ada", "/buy"), at(30, "ada", "/blog"), at(80, "kim", "/docs"))
}
