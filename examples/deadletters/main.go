// Command deadletters prices orders, and writes what it can't to topics of their own: what does not decode to one, what cannot be priced to another.
//
//	go run ./examples/deadletters                            # a broker inside the process, nothing to install
//	go run ./examples/deadletters -brokers localhost:9092    # any Kafka with streams groups
//
// A handler decides about each failed record: skip it, with or without a letter, or stop. Letters are part of the task's commit, so that under -exactly-once each
// failed record has exactly one. They have the record as it was read, and Kafka Streams' headers about what failed and where (KIP-1034). One topic for
// everything needs no handler: Config.DeadLetterTopic with streams.LogAndResume.
package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/millrace/millrace/examples/internal/demo"
	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/serde"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Order is what somebody wants.
type Order struct {
	Item  string
	Count int64
}

var (
	orders = streams.NewTopic("deadletters-orders", serde.String, serde.JSON[Order]())
	priced = streams.NewTopic("deadletters-priced", serde.String, serde.Int64)

	// Letters are read as text: the bytes that failed.
	unreadable = streams.NewTopic("deadletters-unreadable", serde.String, serde.String)
	rejected   = streams.NewTopic("deadletters-rejected", serde.String, serde.String)
)

var cents = map[string]int64{"pen": 250, "bag": 4900}

// errNoPrice is an error of the business: the record is read and wrong.
var errNoPrice = errors.New("no price")

// pricing is the whole topology.
func pricing() (*streams.Topology, error) {
	b := streams.NewBuilder()
	b.Stream(orders).
		TryMapValues(price).
		To(priced)
	return b.Build()
}

func price(o Order) (int64, error) {
	each, ok := cents[o.Item]
	if !ok {
		return 0, fmt.Errorf("%w for %q", errNoPrice, o.Item)
	}
	return each * o.Count, nil
}

// route sets the handlers.
func route(cfg *streams.Config) {
	cfg.OnDecodeError = func(_ context.Context, f streams.Failure) streams.Response {
		return streams.Resume.DeadLetter(streams.DeadLetterFrom(unreadable.Name(), f))
	}
	cfg.OnProcessError = func(_ context.Context, f streams.Failure) streams.Response {
		if errors.Is(f.Err, errNoPrice) {
			return streams.Resume.DeadLetter(streams.DeadLetterFrom(rejected.Name(), f))
		}
		return streams.Fail // nobody thought of this: stop, and look
	}
}

func main() {
	letter := func(what string) func(r streams.Record[string, string]) string {
		return func(r streams.Record[string, string]) string {
			why, _ := r.Headers.Last("__streams.errors.message")
			return fmt.Sprintf("%s  %s: %s", what, r.Value, why)
		}
	}
	demo.Main(demo.Program{
		Name:     "deadletters",
		Topology: pricing,
		Config:   route,
		Inputs:   []string{orders.Name()},
		Outputs: []demo.Output{
			demo.Print(priced, func(r streams.Record[string, int64]) string { return fmt.Sprintf("priced      %s: %d", r.Key, r.Value) }),
			demo.Print(unreadable, letter("unreadable")),
			demo.Print(rejected, letter("rejected  ")),
		},
		Sample: sample,
	})
}

// sample has orders, one that is no JSON, and one that nobody sells.
func sample() ([]*kgo.Record, error) {
	var list []*kgo.Record
	for i, text := range []string{`{"Item":"pen","Count":2}`, `pen, 2`, `{"Item":"yacht","Count":1}`, `{"Item":"bag","Count":1}`} {
		list = append(list, &kgo.Record{Topic: orders.Name(), Key: fmt.Appendf(nil, "o%d", i+1), Value: []byte(text)})
	}
	return list, nil
}
