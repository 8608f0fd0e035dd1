package streamstest_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/streams/streamstest"
)

type order struct {
	ID     string
	Amount int
	Note   func() // nothing that a serde could write
}

var seen = streams.NewKeyValueStore("seen", serde.String, serde.Int64)

// dedup forwards each order once and forgets it after an hour.
type dedup struct{ closed *bool }

func (p dedup) Init(ctx *streams.Context[string, order]) error {
	ctx.Schedule(time.Minute, streams.StreamTime, func(ctx *streams.Context[string, order], now time.Time) error {
		store := ctx.Store(seen)
		for id, at := range store.All() {
			if now.Sub(time.UnixMilli(at)) > time.Hour {
				store.Delete(id)
			}
		}
		return nil
	})
	ctx.Schedule(time.Second, streams.WallClockTime, func(ctx *streams.Context[string, order], now time.Time) error {
		ctx.Forward(ctx.Record("tick", order{Amount: now.Second()}))
		ctx.RequestCommit()
		return nil
	})
	return nil
}

func (p dedup) Close() error { *p.closed = true; return nil }

var errNegative = errors.New("amount is negative")

func (p dedup) Process(ctx *streams.Context[string, order], r streams.Record[string, order]) error {
	if r.Value.Amount < 0 {
		return errNegative
	}
	if _, ok := ctx.Store(seen).PutIfAbsent(r.Value.ID, r.Timestamp.UnixMilli()); !ok {
		ctx.Forward(r.WithKey(r.Value.ID))
	}
	return nil
}

func TestRunProcessor(t *testing.T) {
	closed := false
	t.Run("run", func(t *testing.T) {
		run := streamstest.RunProcessor(t, dedup{&closed}, seen)
		process := func(id string, amount int, at time.Time) error {
			return run.Process(streams.Record[string, order]{Key: "k", Value: order{ID: id, Amount: amount}, Timestamp: at})
		}
		for _, id := range []string{"1", "2", "1"} {
			if err := process(id, 5, start); err != nil {
				t.Fatal(err)
			}
		}
		if len(run.Forwarded) != 2 || run.Forwarded[0].Key != "1" || run.Forwarded[1].Key != "2" || run.Forwarded[1].Value.Amount != 5 {
			t.Errorf("forwarded %v", run.Forwarded)
		}
		if run.Committed || !run.StreamTime.Equal(start) {
			t.Errorf("committed %t, stream time %v", run.Committed, run.StreamTime)
		}
		if at, ok := run.Store(seen).Get("1"); at != start.UnixMilli() || !ok {
			t.Errorf("the store has %d, %t", at, ok)
		}

		if err := process("3", -1, start); !errors.Is(err, errNegative) {
			t.Errorf("a negative amount: %v", err)
		}
		if err := process("4", 1, start.Add(2*time.Hour)); err != nil { // an error does not end the run
			t.Fatal(err)
		}
		if _, ok := run.Store(seen).Get("1"); ok {
			t.Error("the schedule in stream time did not run")
		}

		run.Forwarded = nil
		if err := run.AdvanceWallClock(3 * time.Second); err != nil {
			t.Fatal(err)
		}
		if len(run.Forwarded) != 1 || run.Forwarded[0].Value.Amount != 3 || !run.Committed {
			t.Errorf("forwarded %v, committed %t", run.Forwarded, run.Committed)
		}
		run.Committed = false
		if err := process("5", 1, start); err != nil || run.Committed || !run.StreamTime.Equal(start.Add(2*time.Hour)) {
			t.Errorf("%v, committed %t, stream time %v", err, run.Committed, run.StreamTime)
		}
	})
	if !closed {
		t.Error("Close was not called")
	}
}

type faulty struct{ what string }

func (f faulty) Init(ctx *streams.Context[streams.None, streams.None]) error {
	ctx.Schedule(time.Second, streams.WallClockTime, func(*streams.Context[streams.None, streams.None], time.Time) error { return errBoom })
	if f.what == "init" {
		return errBoom
	}
	return nil
}

func (f faulty) Process(ctx *streams.Context[streams.None, streams.None], r streams.Record[int, []int]) error {
	switch f.what {
	case "panic":
		panic(errBoom)
	case "child":
		return ctx.ForwardTo("nobody", streams.Record[streams.None, streams.None]{})
	case "store":
		ctx.Store(seen).Get("x")
	}
	return nil
}

func TestRunProcessorThatFails(t *testing.T) {
	rec := streams.Record[int, []int]{Key: 1, Value: []int{1}}
	if err := streamstest.RunProcessor(t, faulty{}).AdvanceWallClock(time.Second); !errors.Is(err, errBoom) {
		t.Errorf("a schedule: %v", err)
	}
	run := streamstest.RunProcessor(t, faulty{"panic"})
	for range 2 { // it stays stopped
		if p, ok := errors.AsType[*streams.PanicError](run.Process(rec)); !ok || p.Node != "processor" || !errors.Is(p, errBoom) {
			t.Errorf("a panic: %v", p)
		}
	}
	if err := streamstest.RunProcessor(t, faulty{"child"}).Process(rec); err == nil || !strings.Contains(err.Error(), "nobody") {
		t.Errorf("an unknown child: %v", err)
	}
	if err := streamstest.RunProcessor(t, faulty{"store"}).Process(rec); err == nil || !strings.Contains(err.Error(), "streams.WithStores") {
		t.Errorf("a store that was not given: %v", err)
	}
	fails(t, func(tb testing.TB) { streamstest.RunProcessor(tb, faulty{"init"}) }, "boom")
	fails(t, func(tb testing.TB) {
		streamstest.RunProcessor(tb, faulty{}, streams.NewKeyValueStore("a b", serde.String, serde.String))
	}, "not a legal name")
}
