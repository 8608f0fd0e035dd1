package main

import (
	"testing"
	"time"

	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/streamstest"
)

func TestDetection(t *testing.T) {
	topology, err := detection()
	if err != nil {
		t.Fatal(err)
	}
	d := streamstest.New(t, topology)
	in, out := d.Input(payments), d.Output(alerts)
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	pay := func(card string, second int, cents int64) {
		in.Pipe(card, Payment{At: noon.Add(time.Duration(second) * time.Second), Cents: cents})
	}
	alert := func(card string, s Spending, reason string) streams.Record[string, Alert] {
		return streams.Record[string, Alert]{Key: card, Value: Alert{noon, s, reason}}
	}

	for i := range 5 {
		pay("often", 10*i, 100)
	}
	pay("much", 100, 60_000)
	pay("much", 299, 60_000)
	pay("honest", 100, 60_000)
	pay("honest", 300, 60_000) // another window
	pay("often", 200, 100)     // late, but not too late
	out.Expect()

	d.Restart(streamstest.StateLost) // what is held back is in a changelog
	pay("honest", 359, 1)
	out.Expect()
	pay("honest", 360, 1) // five minutes and one of grace
	out.Expect(alert("much", Spending{2, 120_000}, "much money"), alert("often", Spending{6, 600}, "many payments"))
	pay("often", 250, 1) // too late
	out.Expect()
}
