// Command orders writes invoices: a table of orders joins a table of customers by the customer that each order names, a foreign key.
//
//	go run ./examples/orders                            # a broker inside the process, nothing to install
//	go run ./examples/orders -brokers localhost:9092    # any Kafka with streams groups
//
// Both sides may change: an order that changes has its invoice written anew, and a customer who moves has all of them written anew, however many there are.
package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/examples/internal/demo"
	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/serde"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Order has its id as key.
type Order struct {
	Customer string
	Item     string
	Cents    int64
}

// Customer has its id as key.
type Customer struct{ Name, Address string }

// Invoice is an order with where it goes. Its key is the order's.
type Invoice struct {
	Name, Address, Item string
	Cents               int64
}

var (
	orders    = streams.NewTopic("orders-orders", serde.String, serde.JSON[Order]())
	customers = streams.NewTopic("orders-customers", serde.String, serde.JSON[Customer]())
	invoices  = streams.NewTopic("orders-invoices", serde.String, serde.JSON[Invoice]())
)

// invoicing is the whole topology.
func invoicing() (*streams.Topology, error) {
	b := streams.NewBuilder()
	b.Table(orders).
		JoinForeign(b.Table(customers), customerOf, invoice, streams.ValueSerde(serde.JSON[Invoice]())).
		ToStream().
		To(invoices)
	return b.Build()
}

// customerOf is the foreign key. An order without a customer has none, and no invoice.
func customerOf(_ string, o Order) (id string, ok bool) { return o.Customer, o.Customer != "" }

func invoice(o Order, c Customer) Invoice { return Invoice{c.Name, c.Address, o.Item, o.Cents} }

func main() {
	demo.Main(demo.Program{
		Name:     "orders",
		Topology: invoicing,
		Config:   func(cfg *streams.Config) { cfg.CacheBytes = -1 }, // show every update, also those of one moment
		Inputs:   []string{orders.Name(), customers.Name()},
		Outputs: []demo.Output{demo.Print(invoices, func(r streams.Record[string, Invoice]) string {
			if r.NullValue {
				return fmt.Sprintf("order %s  cancelled", r.Key)
			}
			return fmt.Sprintf("order %s  %d.%02d EUR for a %s, to %s, %s", r.Key, r.Value.Cents/100, r.Value.Cents%100, r.Value.Item, r.Value.Name, r.Value.Address)
		})},
		Sample: func() ([]*kgo.Record, error) { return sample(time.Now().Add(-time.Hour)) },
	})
}

// sample is customers, orders of theirs, a customer who moves, and an order that is cancelled.
func sample(begin time.Time) ([]*kgo.Record, error) {
	known, err := demo.Records(customers, demo.At(begin, "c1", Customer{"Ada", "Berlin"}), demo.At(begin, "c2", Customer{"Kim", "Seoul"}))
	if err != nil {
		return nil, err
	}
	ordered, err := demo.Records(orders,
		demo.At(begin.Add(time.Minute), "1", Order{"c1", "pen", 250}),
		demo.At(begin.Add(2*time.Minute), "2", Order{"c1", "bag", 4900}),
		demo.At(begin.Add(3*time.Minute), "3", Order{"c2", "ink", 700}),
		demo.At(begin.Add(5*time.Minute), "3", Order{}).Null())
	if err != nil {
		return nil, err
	}
	moved, err := demo.Records(customers, demo.At(begin.Add(4*time.Minute), "c1", Customer{"Ada", "Paris"}))
	return slices.Concat(known, ordered, moved), err
}
