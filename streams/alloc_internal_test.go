package streams

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/state"
	"github.com/millrace/millrace/streams/internal/bridge"
	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/streams/window"
	"github.com/millrace/millrace/tasks"
	"github.com/millrace/millrace/topology"
)

var (
	allocText    = NewTopic("text", serde.String, serde.String)
	allocRows    = NewTopic("rows", serde.String, serde.String)
	allocNumbers = NewTopic("numbers", serde.Int64, serde.Int64)
)

// budgets are chains of operators and how many allocations a record may cost on its way, once its key is known. Decoding a string is one; what the chain
// itself costs beside that is what these numbers hold down. Blocks of the arena, and growth of tables, are shared by so many records that they don't show.
var budgets = []struct {
	name   string
	topic  string
	budget float64
	build  func(b *Builder)
}{
	{"filter, mapValues, to", "text", 2, func(b *Builder) {
		b.Stream(allocText).Filter(func(_, v string) bool { return v != "" }).MapValues(func(v string) string { return v[1:] }).To(allocRows)
	}},
	{"of numbers", "numbers", 0, func(b *Builder) {
		b.Stream(allocNumbers).Filter(func(_, v int64) bool { return v != 0 }).MapValues(func(v int64) int64 { return v + 1 }).
			SelectKey(func(k, _ int64) int64 { return k }).Peek(func(_, _ int64) {}).To(NewTopic("out", serde.Int64, serde.Int64))
	}},
	{"mapRecords", "numbers", 0, func(b *Builder) {
		b.Stream(allocNumbers).MapRecords(func(r Record[int64, int64]) Record[int64, int64] { return r.WithValue(r.Value + 1) }).To(allocNumbers)
	}},
	{"split, merge", "numbers", 0, func(b *Builder) {
		sp := b.Stream(allocNumbers).Split()
		sp.Branch(func(_, v int64) bool { return v == 0 }).Merge(sp.Default()).To(allocNumbers)
	}},
	{"flatMapValues", "text", 2 + 1, func(b *Builder) { // its slice
		b.Stream(allocText).FlatMapValues(strings.Fields).To(allocRows)
	}},
	{"processor", "numbers", 0, func(b *Builder) {
		b.Stream(allocNumbers).ProcessFunc(func(ctx *Context[int64, int64], r Record[int64, int64]) error {
			ctx.Forward(ctx.Record(r.Key, r.Value))
			return nil
		}).To(allocNumbers)
	}},
	{"processor with a store", "numbers", 1, func(b *Builder) {
		h := NewKeyValueStore("kv", serde.Int64, serde.Int64)
		b.Stream(allocNumbers).ProcessFunc(func(ctx *Context[None, None], r Record[int64, int64]) error {
			s := ctx.Store(h) // the handle becomes an interface; a processor may do this once, in Init
			n, _ := s.Get(r.Key)
			s.Put(r.Key, n+r.Value)
			return nil
		}, WithStores(h))
	}},
	{"count", "text", 2, func(b *Builder) {
		b.Stream(allocText).GroupByKey().Count("counts").ToStream().ForEach(func(string, int64) {})
	}},
	{"count of numbers", "numbers", 0, func(b *Builder) { b.Stream(allocNumbers).GroupByKey().Count("counts") }},
	{"count without a cache", "numbers", 0, func(b *Builder) {
		b.Stream(allocNumbers).GroupByKey().Count("counts", NoCaching).ToStream().To(allocNumbers)
	}},
	{"reduce", "numbers", 0, func(b *Builder) {
		b.Stream(allocNumbers).GroupByKey().Reduce("sums", func(a, v int64) int64 { return a + v })
	}},
	{"windowed count", "numbers", 0, func(b *Builder) {
		b.Stream(allocNumbers).GroupByKey().WindowedBy(window.Tumbling(time.Hour)).Count("counts")
	}},
	{"table", "numbers", 0, func(b *Builder) { b.Table(allocNumbers, Materialized("table")).ToStream().ForEach(func(_, _ int64) {}) }},
	{"join with a table", "text", 2 + 2, func(b *Builder) { // the row, and what the joiner makes of it
		b.Stream(allocText).JoinTable(b.Table(allocRows), func(v, w string) string { return v + w }).To(allocRows)
	}},
}

// The record path stays within its budget of allocations.
func TestAllocationBudget(t *testing.T) {
	for _, c := range budgets {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			step := newAllocTask(t, c.topic, c.build)
			if got := testing.AllocsPerRun(2000, step); got > c.budget {
				t.Errorf("a record costs %v allocations, and may cost %v", got, c.budget)
			}
		})
	}
}

// BenchmarkRecord measures the way of one record from its bytes to the producer.
func BenchmarkRecord(b *testing.B) {
	for _, c := range budgets {
		b.Run(strings.ReplaceAll(c.name, " ", "-"), func(b *testing.B) {
			step := newAllocTask(b, c.topic, c.build)
			b.ReportAllocs()
			for b.Loop() {
				step()
			}
		})
	}
}

// newAllocTask makes a task whose output is discarded, and returns a function that takes one record through it. The record's key is known to the stores.
func newAllocTask(t testing.TB, topic string, build func(b *Builder)) func() {
	t.Helper()
	b := NewBuilder()
	build(b)
	top, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	sub, id := top.t.Subtopologies[0], topology.TaskID{}
	naming := topology.Naming{ApplicationID: "app"}
	log := slog.New(slog.DiscardHandler)
	program, err := bridge.Program(bridge.Task{Topology: top, Config: Config{}, Naming: naming, Sub: sub, ID: id, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	stores, err := state.Open(state.Options{ApplicationID: "app", Stores: sub.Stores})
	if err != nil {
		t.Fatal(err)
	}
	inputs := map[tasks.TopicPartition]int64{}
	for _, topic := range sub.SourceTopics {
		inputs[tasks.TopicPartition{Topic: topic}] = 0
	}
	local, err := tasks.NewLocal(tasks.LocalConfig{
		Sub: sub, Naming: naming, Inputs: inputs, Program: program, Stores: stores, Producer: &discard{}, Clock: systemClock{}, Logger: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := local.Close(true); err != nil {
			t.Error(err)
		}
	})
	r := tasks.Record{Key: []byte("somekey8"), Value: []byte("a value "), Timestamp: 1}
	if program.Source("rows") != nil {
		program.Source("rows").Process(&r, 1)
	}
	source := program.Source(topic)
	source.Process(&r, 1)
	return func() { source.Process(&r, 1) }
}

// discard is a producer that keeps nothing.
type discard struct{ arena tasks.Arena }

func (d *discard) Output(string) (tasks.Output, error) { return d, nil }
func (d *discard) Arena() *tasks.Arena                 { return &d.arena }
func (d *discard) Flush(context.Context) error         { return nil }
func (d *discard) Err() error                          { return nil }
func (d *discard) Abort(context.Context) error         { return nil }
func (d *discard) Reset(context.Context) error         { return nil }
func (d *discard) Commit(context.Context, map[tasks.TopicPartition]tasks.Committed) error {
	return nil
}

func (d *discard) Send(int32, []byte, []byte, int64, []tasks.Header) {}
func (d *discard) Partitions() (int, error)                          { return 1, nil }
func (d *discard) Next(int32) int64                                  { return -1 }
