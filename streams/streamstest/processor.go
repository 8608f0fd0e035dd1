package streamstest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/serde"
)

// RunProcessor runs one processor by itself and records what it forwards: for unit tests of a Process method. Types need no serdes, those of its
// stores excepted. Init is called at once, and Close by the test's Cleanup. ForwardTo finds no child.
//
//	run := streamstest.RunProcessor(t, newDedup(), seen)
//	if err := run.Process(streams.Record[string, Order]{Key: "1", Value: order}); err != nil {
//		t.Fatal(err)
//	}
//	if len(run.Forwarded) != 1 {
//		t.Errorf("forwarded %v", run.Forwarded)
//	}
func RunProcessor[KIn, VIn, KOut, VOut any, P streams.Processor[KIn, VIn, KOut, VOut]](t testing.TB, p P, stores ...streams.StoreRef) *ProcessorRun[KIn, VIn, KOut, VOut] {
	t.Helper()
	r := &ProcessorRun[KIn, VIn, KOut, VOut]{}
	topic := streams.NewTopic("input", hold[KIn](), hold[VIn]())
	b := streams.NewBuilder()
	b.Stream(topic).Process(func() P { return p }, streams.WithStores(stores...), streams.Named("processor")).
		ProcessFunc(func(_ *streams.Context[streams.None, streams.None], out streams.Record[KOut, VOut]) error {
			r.Forwarded = append(r.Forwarded, out)
			return nil
		}, streams.Named("forwarded"))
	topology, err := b.Build()
	if err != nil {
		t.Fatalf("streamstest: %v", err)
	}
	r.d = New(t, topology, CommitEvery(0), WithConfig(streams.Config{OnProcessError: func(_ context.Context, f streams.Failure) streams.Response {
		r.failed = errors.Join(r.failed, f.Err)
		return streams.Resume
	}}))
	r.in = r.d.Input(topic)
	if err := r.settle(); err != nil {
		t.Fatalf("streamstest: %v", err)
	}
	return r
}

// ProcessorRun is a processor under test. Its fields may be set to zero values in between.
type ProcessorRun[KIn, VIn, KOut, VOut any] struct {
	Forwarded  []streams.Record[KOut, VOut] // in order, from records and punctuations alike
	Committed  bool                         // a commit was requested
	StreamTime time.Time                    // the highest time of all records so far

	d      *Driver
	in     *Input[KIn, VIn]
	failed error
}

// Process hands one record in, and returns the error of the processor, or of a punctuation that the record's time has made due. A record without a
// time has that of the wall clock. A panic is a [streams.PanicError] and ends the run, as does a store that fails.
func (r *ProcessorRun[KIn, VIn, KOut, VOut]) Process(rec streams.Record[KIn, VIn]) error {
	r.d.t.Helper()
	if r.d.err != nil {
		return r.d.Err()
	}
	if rec.Timestamp.IsZero() {
		rec.Timestamp = r.d.now
	}
	if rec.Timestamp.After(r.StreamTime) {
		r.StreamTime = rec.Timestamp
	}
	r.in.PipeRecords(rec)
	return r.settle()
}

// AdvanceWallClock moves the clock and runs what is due. It returns the error of a punctuation.
func (r *ProcessorRun[KIn, VIn, KOut, VOut]) AdvanceWallClock(by time.Duration) error {
	r.d.t.Helper()
	r.d.AdvanceWallClock(by)
	return r.settle()
}

// settle notes what has happened, and returns what failed.
func (r *ProcessorRun[KIn, VIn, KOut, VOut]) settle() error {
	r.Committed = r.Committed || r.d.commits > 0
	r.d.commits = 0
	failed := r.failed
	r.failed = nil
	return errors.Join(failed, r.d.Err())
}

// Store opens a store of the processor, see [Driver.Store].
func (r *ProcessorRun[KIn, VIn, KOut, VOut]) Store[S any](h streams.StoreHandle[S]) S {
	r.d.t.Helper()
	return r.d.Store(h)
}

// held is a serde for types that have none: its bytes are the number of a value in a list.
type held[T any] struct{ values *[]T }

func hold[T any]() serde.Serde[T] { return held[T]{new([]T)} }

func (h held[T]) Append(dst []byte, _ serde.Place, v T) ([]byte, error) {
	*h.values = append(*h.values, v)
	return binary.AppendUvarint(dst, uint64(len(*h.values)-1)), nil
}

func (h held[T]) Decode(_ serde.Place, data []byte) (v T, err error) {
	i, _ := binary.Uvarint(data)
	if i >= uint64(len(*h.values)) {
		return v, fmt.Errorf("streamstest: value %d of %d", i, len(*h.values))
	}
	return (*h.values)[i], nil
}
