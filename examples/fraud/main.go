// Command fraud raises an alert where a card is used too often or for too much within five minutes, once for each such time, and only when nothing can be
// added to it any more.
//
//	go run ./examples/fraud                            # a broker inside the process, nothing to install
//	go run ./examples/fraud -brokers localhost:9092    # any Kafka with streams groups
//
// The sums of a window change with each payment; Suppress holds them back until the window has closed, so that one alert tells the whole story. Payments may
// come a minute late. What closes a window is the time of later payments, of any card of the same partition, and not the clock.
package main

import (
	"fmt"
	"time"

	"github.com/millrace/millrace/examples/internal/demo"
	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/streams/window"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Payment is made with a card, which is its key.
type Payment struct {
	At    time.Time
	Cents int64
	Shop  string
}

// Spending is what a card was used for in five minutes.
type Spending struct {
	Payments, Cents int64
}

// Alert says why a card should be looked at. Its key is the card.
type Alert struct {
	From     time.Time
	Spending Spending
	Reason   string
}

// What is too much in five minutes.
const (
	mostPayments = 4
	mostCents    = 100_000
)

var (
	payments = streams.NewTopic("fraud-payments", serde.String, serde.JSON[Payment]()).
			TimestampFrom(func(_ string, p Payment) time.Time { return p.At })
	alerts = streams.NewTopic("fraud-alerts", serde.String, serde.JSON[Alert]())
)

// detection is the whole topology.
func detection() (*streams.Topology, error) {
	b := streams.NewBuilder()
	b.Stream(payments).
		GroupByKey().
		WindowedBy(window.Tumbling(5*time.Minute).Grace(time.Minute)).
		Aggregate("spending", newSpending, Spending.with, streams.ValueSerde(serde.JSON[Spending]())).
		Suppress(streams.UntilWindowCloses).
		ToStream().
		Filter(suspicious).
		Map(alert).
		To(alerts)
	return b.Build()
}

func newSpending() Spending { return Spending{} }

func (s Spending) with(_ string, p Payment) Spending {
	return Spending{s.Payments + 1, s.Cents + p.Cents}
}

func suspicious(_ window.Windowed[string], s Spending) bool {
	return s.Payments > mostPayments || s.Cents > mostCents
}

func alert(card window.Windowed[string], s Spending) (string, Alert) {
	a := Alert{card.Start, s, "many payments"}
	if s.Cents > mostCents {
		a.Reason = "much money"
	}
	return card.Key, a
}

func main() {
	demo.Main(demo.Program{
		Name:     "fraud",
		Topology: detection,
		Inputs:   []string{payments.Name()},
		Outputs: []demo.Output{demo.Print(alerts, func(r streams.Record[string, Alert]) string {
			a := r.Value
			return fmt.Sprintf("card %s at %s: %s, %d payments of %.2f", r.Key, a.From.Format("15:04"), a.Reason, a.Spending.Payments, float64(a.Spending.Cents)/100)
		})},
		Sample: func() ([]*kgo.Record, error) { return sample(time.Now().Add(-4 * time.Hour).Truncate(time.Hour)) },
	})
}

// sample has a card that pays often, one that pays much, an honest one, and at the end a payment of each that closes the windows.
func sample(begin time.Time) ([]*kgo.Record, error) {
	at := func(seconds int, card string, cents int64, shop string) streams.Record[string, Payment] {
		t := begin.Add(time.Duration(seconds) * time.Second)
		return demo.At(t, card, Payment{t, cents, shop})
	}
	var list []streams.Record[string, Payment]
	for i := range 6 {
		list = append(list, at(20*i, "4711", 900, "petrol"))
	}
	list = append(list, at(130, "0815", 99_900, "watches"), at(140, "1234", 450, "bakery"), at(290, "0815", 50_000, "watches"), at(330, "1234", 700, "bakery"))
	for _, card := range []string{"4711", "0815", "1234"} {
		list = append(list, at(3600, card, 100, "parking"))
	}
	return demo.Records(payments, list...)
}
