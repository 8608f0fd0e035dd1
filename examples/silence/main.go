// Command silence says which sensors have not reported for a minute: a processor of its own, with a store and a schedule.
//
//	go run ./examples/silence                            # a broker inside the process, nothing to install
//	go run ./examples/silence -brokers localhost:9092    # any Kafka with streams groups
//
// What does not happen has no record, so something else must run the check: a punctuation. Here it follows the time of the records (streams.StreamTime), so
// that the same readings give the same alerts when they are processed again; with streams.WallClock it would also run while no sensor reports at all.
package main

import (
	"fmt"
	"time"

	"github.com/millrace/millrace/examples/internal/demo"
	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/serde"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Alert is about a sensor, whose name is the key.
type Alert struct {
	Silent bool      // or back
	Since  time.Time // the last reading before the silence, or the first after it
}

var (
	readings = streams.NewTopic("silence-readings", serde.String, serde.Float64)
	alerts   = streams.NewTopic("silence-alerts", serde.String, serde.JSON[Alert]())

	last = streams.NewKeyValueStore("last-readings", serde.String, serde.JSON[state]())
)

// state is what is known of a sensor.
type state struct {
	At     time.Time
	Silent bool
}

// silence is the whole topology.
func silence() (*streams.Topology, error) {
	b := streams.NewBuilder()
	b.Stream(readings).
		Process(newWatchman, streams.WithStores(last), streams.Named("watchman")).
		To(alerts)
	return b.Build()
}

// watchman notes when each sensor reported, and looks every ten seconds for those that are late. There is one for each task.
type watchman struct{ patience time.Duration }

func newWatchman() *watchman { return &watchman{patience: time.Minute} }

// Init is called once per task.
func (w *watchman) Init(ctx *streams.Context[string, Alert]) error {
	ctx.Schedule(10*time.Second, streams.StreamTime, w.check)
	return nil
}

func (w *watchman) check(ctx *streams.Context[string, Alert], now time.Time) error {
	sensors := ctx.Store(last)
	for sensor, s := range sensors.All() {
		if s.Silent || now.Sub(s.At) <= w.patience {
			continue
		}
		ctx.Forward(ctx.Record(sensor, Alert{Silent: true, Since: s.At}))
		sensors.Put(sensor, state{s.At, true})
	}
	return nil
}

// Process is called for each reading.
func (w *watchman) Process(ctx *streams.Context[string, Alert], r streams.Record[string, float64]) error {
	sensors := ctx.Store(last)
	known, ok := sensors.Get(r.Key)
	if ok && r.Timestamp.Before(known.At) {
		return nil // out of order
	}
	if known.Silent {
		ctx.Forward(ctx.Record(r.Key, Alert{Since: r.Timestamp}))
	}
	sensors.Put(r.Key, state{At: r.Timestamp})
	return nil
}

func main() {
	demo.Main(demo.Program{
		Name:     "silence",
		Topology: silence,
		Inputs:   []string{readings.Name()},
		Outputs: []demo.Output{demo.Print(alerts, func(r streams.Record[string, Alert]) string {
			if r.Value.Silent {
				return fmt.Sprintf("%s  %s is silent since %s", r.Timestamp.Format(time.TimeOnly), r.Key, r.Value.Since.Format(time.TimeOnly))
			}
			return fmt.Sprintf("%s  %s is back", r.Timestamp.Format(time.TimeOnly), r.Key)
		})},
		Sample: func() ([]*kgo.Record, error) { return sample(time.Now().Add(-time.Hour).Truncate(time.Minute)) },
	})
}

// sample has twenty sensors that report every twenty seconds, for five minutes. Sensor 7 pauses for two of them.
func sample(begin time.Time) ([]*kgo.Record, error) {
	var list []streams.Record[string, float64]
	for at := begin; at.Before(begin.Add(5 * time.Minute)); at = at.Add(20 * time.Second) {
		for i := range 20 {
			if i == 7 && at.After(begin.Add(time.Minute)) && at.Before(begin.Add(3*time.Minute)) {
				continue
			}
			list = append(list, demo.At(at, fmt.Sprintf("sensor-%d", i), 20+float64(i)/10))
		}
	}
	return demo.Records(readings, list...)
}
