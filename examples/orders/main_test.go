package main

import (
	"maps"
	"testing"

	"github.com/millrace/millrace/streams/streamstest"
)

func TestInvoicing(t *testing.T) {
	topology, err := invoicing()
	if err != nil {
		t.Fatal(err)
	}
	d := streamstest.New(t, topology, streamstest.Partitions("orders-orders", 3), streamstest.Partitions("orders-customers", 2))
	order, customer, out := d.Input(orders), d.Input(customers), d.Output(invoices)
	all := map[string]Invoice{}
	expect := func(step string, want map[string]Invoice) {
		t.Helper()
		for _, r := range out.ReadAll() {
			if r.NullValue {
				delete(all, r.Key)
			} else {
				all[r.Key] = r.Value
			}
		}
		if !maps.Equal(all, want) {
			t.Errorf("%s: invoices %v, want %v", step, all, want)
		}
	}

	order.Pipe("1", Order{"c1", "pen", 250})
	order.Pipe("2", Order{"c1", "bag", 4900})
	order.Pipe("3", Order{"", "lost", 1})
	expect("nobody is known", map[string]Invoice{})
	customer.Pipe("c1", Customer{"Ada", "Berlin"})
	expect("a customer for both", map[string]Invoice{"1": {"Ada", "Berlin", "pen", 250}, "2": {"Ada", "Berlin", "bag", 4900}})
	customer.Pipe("c1", Customer{"Ada", "Paris"})
	expect("moved", map[string]Invoice{"1": {"Ada", "Paris", "pen", 250}, "2": {"Ada", "Paris", "bag", 4900}})
	customer.Pipe("c2", Customer{"Kim", "Seoul"})
	order.Pipe("2", Order{"c2", "bag", 4900})
	expect("given to another", map[string]Invoice{"1": {"Ada", "Paris", "pen", 250}, "2": {"Kim", "Seoul", "bag", 4900}})
	order.PipeNull("1")
	expect("cancelled", map[string]Invoice{"2": {"Kim", "Seoul", "bag", 4900}})
	d.Restart(streamstest.StateLost)
	customer.PipeNull("c2")
	expect("gone", map[string]Invoice{})
}
