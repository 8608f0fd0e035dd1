// Command dedup lets each event pass once, however often it is sent within ten minutes: a processor with a window store.
//
//	go run ./examples/dedup                            # a broker inside the process, nothing to install
//	go run ./examples/dedup -brokers localhost:9092    # any Kafka with streams groups
//
// Events have an id, which is their key. The store has a row for each id that passed, at the time of the event, and forgets rows by itself as time goes on. An
// event is looked for before and after its own time, because copies may come out of order.
package main

import (
	"fmt"
	"time"

	"github.com/millrace/millrace/examples/internal/demo"
	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/serde"
	"github.com/twmb/franz-go/pkg/kgo"
)

// memory is how far apart in time two events with one id may be and yet be the same. What comes later than that, counted from the latest event, passes.
const memory = 10 * time.Minute

var (
	events = streams.NewTopic("dedup-events", serde.String, serde.String)
	unique = streams.NewTopic("dedup-unique", serde.String, serde.String)

	// The rows must last for events that are late as well, hence twice.
	passed = streams.NewWindowStore("passed", serde.String, serde.Bool, memory, streams.Retention(2*memory))
)

// dedup is the whole topology.
func dedup() (*streams.Topology, error) {
	b := streams.NewBuilder()
	b.Stream(events).
		ProcessValuesFunc(once, streams.WithStores(passed), streams.Named("once")). // the key stays, so nothing is repartitioned
		To(unique)
	return b.Build()
}

func once(ctx *streams.FixedKeyContext[string, string], r streams.FixedKeyRecord[string, string]) error {
	id, ok := r.Key()
	if !ok {
		return fmt.Errorf("an event has no id")
	}
	store, at := ctx.Store(passed), r.Record().Timestamp
	for range store.Fetch(id, at.Add(-memory), at.Add(memory)) {
		return nil // there is one
	}
	store.Put(id, true, at)
	ctx.Forward(r)
	return nil
}

func main() {
	demo.Main(demo.Program{
		Name:     "dedup",
		Topology: dedup,
		Inputs:   []string{events.Name()},
		Outputs:  []demo.Output{demo.Print(unique, func(r streams.Record[string, string]) string { return r.Key + "  " + r.Value })},
		Sample:   func() ([]*kgo.Record, error) { return sample(time.Now().Add(-time.Hour)) },
	})
}

// sample has three events, of which two are sent again, and one much later.
func sample(begin time.Time) ([]*kgo.Record, error) {
	return demo.Records(events,
		demo.At(begin, "e1", "paid 250"),
		demo.At(begin.Add(time.Second), "e2", "paid 700"),
		demo.At(begin, "e1", "paid 250, again"),
		demo.At(begin.Add(time.Minute), "e3", "paid 4900"),
		demo.At(begin.Add(9*time.Minute), "e2", "paid 700, again"),
		demo.At(begin.Add(30*time.Minute), "e1", "another payment that happens to have the same id"))
}
