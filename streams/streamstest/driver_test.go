package streamstest_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/streams/streamstest"
	"github.com/millrace/millrace/streams/window"
)

var (
	start  = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	lines  = streams.NewTopic("lines", serde.String, serde.String)
	other  = streams.NewTopic("other", serde.String, serde.String)
	result = streams.NewTopic("result", serde.String, serde.String)
	counts = streams.NewTopic("counts", serde.String, serde.Int64)
)

func build(t testing.TB, b *streams.Builder) *streams.Topology {
	t.Helper()
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return topology
}

func wordCount(t testing.TB) *streams.Topology {
	b := streams.NewBuilder()
	b.Stream(lines).FlatMapValues(strings.Fields).GroupBy(func(_, w string) string { return w }).Count("counts").ToStream().To(counts)
	return build(t, b)
}

// text shows records as key=value@ms, null as null.
func text[K, V any](records []streams.Record[K, V]) string {
	var s []string
	for _, r := range records {
		k, v := fmt.Sprint(r.Key), fmt.Sprint(r.Value)
		if r.NullKey {
			k = "null"
		}
		if r.NullValue {
			v = "null"
		}
		s = append(s, fmt.Sprintf("%s=%s@%d", k, v, r.Timestamp.UnixMilli()))
	}
	return strings.Join(s, " ")
}

func TestWordCount(t *testing.T) {
	d := streamstest.New(t, wordCount(t), streamstest.Partitions("lines", 3))
	in, out := d.Input(lines), d.Output(counts)
	in.At(start).AutoAdvance(time.Second).PipeValues("to be or not to be", "to do")
	in.PipeNull("k")
	want := map[string]int64{"to": 3, "be": 2, "or": 1, "not": 1, "do": 1}
	if got := streamstest.Latest(out); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	d.Restart()
	in.PipeValues("be")
	if r := out.Read(); r.Key != "be" || r.Value != 3 {
		t.Errorf("after a restart: %v", r)
	}
	if topics := d.Topics(); !slices.Contains(topics, "test-counts-changelog") || !slices.Contains(topics, "test-counts-repartition") {
		t.Errorf("topics %q", topics)
	}
}

// B-002: late and boundary records in hopping windows, with Java's results. F-081, F-082.
func TestB002HoppingWindowsAtTheirBounds(t *testing.T) {
	b := streams.NewBuilder()
	b.Stream(lines).GroupByKey().
		WindowedBy(window.Hopping(10*time.Millisecond, 5*time.Millisecond).Grace(3 * time.Millisecond)).
		Count("counts").ToStream().
		SelectKey(func(k window.Windowed[string], _ int64) string {
			return fmt.Sprintf("[%d,%d)", k.Start.UnixMilli(), k.End.UnixMilli())
		}).To(counts)
	d := streamstest.New(t, build(t, b))
	in, out := d.Input(lines), d.Output(counts)
	for _, c := range []struct {
		ts    int64
		want  string
		drops int64
	}{
		{0, "[0,10)=1@0", 0}, {9, "[0,10)=2@9 [5,15)=1@9", 0}, {10, "[5,15)=2@10 [10,20)=1@10", 0}, {4, "[0,10)=3@9", 0},
		{12, "[5,15)=3@12 [10,20)=2@12", 0}, {13, "[5,15)=4@13 [10,20)=3@13", 0}, {2, "", 1}, {9, "[5,15)=5@13", 2},
		{18, "[10,20)=4@18 [15,25)=1@18", 2}, {8, "", 4}, {23, "[15,25)=2@23 [20,30)=1@23", 4}, {14, "", 6}, {15, "[15,25)=3@23", 7},
	} {
		in.PipeAt(time.UnixMilli(c.ts), "k", "v")
		if got := text(out.ReadAll()); got != c.want {
			t.Errorf("at %d: got %q, want %q", c.ts, got, c.want)
		}
		if got := d.Dropped()["late for its window"]; got != c.drops {
			t.Errorf("at %d: %d drops, want %d", c.ts, got, c.drops)
		}
	}
}

// B-003: wall-clock punctuation keeps its grid, and missed slots become one call. F-143, F-145.
func TestB003WallClockPunctuation(t *testing.T) {
	var calls []int64
	b := streams.NewBuilder()
	b.Stream(lines).Process(func() *ticker { return &ticker{&calls} })
	d := streamstest.New(t, build(t, b), streamstest.StartAt(time.UnixMilli(100_300)))
	for _, ms := range []int{999, 1, 999, 1, 5400, 600, 0, 1000} {
		d.AdvanceWallClock(time.Duration(ms) * time.Millisecond)
	}
	if want := []int64{101_300, 102_300, 107_700, 108_300, 109_300}; !slices.Equal(calls, want) {
		t.Errorf("got %v, want %v", calls, want)
	}
}

type ticker struct{ calls *[]int64 }

func (p *ticker) Init(ctx *streams.Context[streams.None, streams.None]) error {
	ctx.Schedule(time.Second, streams.WallClockTime, func(_ *streams.Context[streams.None, streams.None], now time.Time) error {
		*p.calls = append(*p.calls, now.UnixMilli())
		return nil
	})
	return nil
}

func (p *ticker) Process(*streams.Context[streams.None, streams.None], streams.Record[string, string]) error {
	return nil
}

// F-144: stream-time punctuation fires with the first record, collapses missed slots and keeps the grid.
func TestF144StreamTimePunctuation(t *testing.T) {
	b := streams.NewBuilder()
	b.Stream(lines).Process(func() *streamTicker { return &streamTicker{} }).To(result)
	d := streamstest.New(t, build(t, b))
	in, out := d.Input(lines), d.Output(result)
	for _, ms := range []int64{7, 9, 12, 45, 46, 50} {
		in.PipeAt(time.UnixMilli(ms), "k", "v")
	}
	if got, want := text(out.ReadAll()), "tick=7@7 tick=12@12 tick=45@45 tick=50@50"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

type streamTicker struct{}

func (p *streamTicker) Init(ctx *streams.Context[string, string]) error {
	ctx.Schedule(10*time.Millisecond, streams.StreamTime, func(ctx *streams.Context[string, string], now time.Time) error {
		ctx.Forward(ctx.Record("tick", strconv.FormatInt(now.UnixMilli(), 10)))
		return nil
	})
	return nil
}

func (p *streamTicker) Process(*streams.Context[string, string], streams.Record[string, string]) error {
	return nil
}

// B-004: what one child changes must not reach its sibling. F-032, F-139.
func TestB004SiblingsDoNotShareChanges(t *testing.T) {
	b := streams.NewBuilder()
	s := b.Stream(lines)
	s.MapRecords(func(r streams.Record[string, string]) streams.Record[string, string] {
		return r.WithHeader("h", []byte("1")).WithTimestamp(r.Timestamp.Add(100 * time.Millisecond))
	}).To(result)
	s.To(other)
	d := streamstest.New(t, build(t, b))
	d.Input(lines).PipeRecords(streams.Record[string, string]{
		Key: "k", Value: "abc", Timestamp: time.UnixMilli(1000), Headers: streams.Headers{{Key: "t", Value: []byte("0")}},
	})
	a, c := d.Output(result).Read(), d.Output(other).Read()
	if a.Timestamp.UnixMilli() != 1100 || len(a.Headers) != 2 {
		t.Errorf("first child: %v", a)
	}
	if c.Timestamp.UnixMilli() != 1000 || len(c.Headers) != 1 {
		t.Errorf("second child: %v", c)
	}
}

// B-012: tombstones when a table is built from a stream; reduce and aggregate skip nulls. F-023, F-058.
func TestB012TombstonesOfTables(t *testing.T) {
	b := streams.NewBuilder()
	s := b.Stream(lines)
	s.ToTable(streams.Materialized("table"), streams.NoCaching).ToStream().To(result)
	s.GroupByKey().Aggregate("aggregate", func() *string { return new(string) }, func(a *string, _, v string) *string {
		if v == "del" {
			return nil
		}
		v = *a + v
		return &v
	}, streams.ValueSerde(serde.Pointer(serde.String))).ToStream().MapValues(func(v *string) string { return *v }).To(other)
	d := streamstest.New(t, build(t, b))
	in := d.Input(lines).At(time.UnixMilli(1))
	in.Pipe("k", "1")
	in.PipeNull("k")
	in.PipeNull("k")
	in.PipeNull("q")
	in.Pipe("k", "del")
	in.Pipe("k", "2")
	if got, want := text(d.Output(result).ReadAll()), "k=1@1 k=null@1 k=null@1 q=null@1 k=del@1 k=2@1"; got != want {
		t.Errorf("toTable: got %q, want %q", got, want)
	}
	if got, want := text(d.Output(other).ReadAll()), "k=1@1 k=null@1 k=2@1"; got != want {
		t.Errorf("aggregate: got %q, want %q", got, want)
	}
	if got := d.Dropped()["null key or value in an aggregation"]; got != 3 {
		t.Errorf("%d drops, want 3", got)
	}
}

// F-105: inner and left lookups with missing rows, null keys and null values.
func TestF105StreamTableJoin(t *testing.T) {
	b := streams.NewBuilder()
	table := b.Table(other)
	s := b.Stream(lines)
	s.JoinTable(table, func(v, w string) string { return v + w }).To(result)
	s.LeftJoinTable(table, func(v, w string, ok bool) string { return fmt.Sprint(v, w, ok) }).To(streams.NewTopic("left", serde.String, serde.String))
	d := streamstest.New(t, build(t, b))
	in, rows := d.Input(lines).At(time.UnixMilli(5)), d.Input(other).At(time.UnixMilli(9))
	in.Pipe("k", "a")
	rows.Pipe("k", "R")
	in.Pipe("k", "b")
	in.PipeNull("k")
	in.PipeValues("n")
	rows.PipeNull("k")
	in.Pipe("k", "c")
	if got, want := text(d.Output(result).ReadAll()), "k=bR@5"; got != want {
		t.Errorf("inner: got %q, want %q", got, want)
	}
	left := d.Output(streams.NewTopic("left", serde.String, serde.String))
	if got, want := text(left.ReadAll()), "k=afalse@5 k=bRtrue@5 null=nfalse@5 k=cfalse@5"; got != want {
		t.Errorf("left: got %q, want %q", got, want)
	}
}

// F-076: a cache tells one change per key and commit; a row that comes and goes in between vanishes.
func TestF076CacheCollapsesUpdates(t *testing.T) {
	b := streams.NewBuilder()
	b.Table(lines, streams.Materialized("rows")).ToStream().To(result)
	d := streamstest.New(t, build(t, b), streamstest.CommitEvery(0))
	in, out := d.Input(lines).At(time.UnixMilli(1)).AutoAdvance(time.Millisecond), d.Output(result)
	in.Pipe("a", "1")
	in.Pipe("b", "1")
	in.Pipe("gone", "1")
	in.Pipe("a", "2")
	in.PipeNull("gone")
	if !out.Empty() {
		t.Error("something was sent before the commit")
	}
	d.Commit()
	if got, want := text(out.ReadAll()), "b=1@2 a=2@4"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// B-043 in the driver: a panic names the record and the processor.
func TestB043PanicNamesTheRecord(t *testing.T) {
	b := streams.NewBuilder()
	b.Stream(lines).MapValues(func(v string) string { panic("boom") }, streams.Named("bad")).To(result)
	d := streamstest.New(t, build(t, b))
	d.Input(lines).Pipe("k", "v")
	p, ok := errors.AsType[*streams.PanicError](d.Err())
	if !ok || p.Node != "bad" || p.Value != "boom" || p.Origin.Topic != "lines" || p.Origin.Offset != 0 || len(p.Stack) == 0 {
		t.Errorf("got %v", p)
	}
}

// What fails to decode or process goes to its handler, which names the record and may skip it or write a dead letter.
func TestErrorHandlers(t *testing.T) {
	b := streams.NewBuilder()
	b.Stream(counts).MapValues(func(n int64) string { return strconv.FormatInt(n, 10) }).
		TryMapValues(func(v string) (string, error) {
			if v == "13" {
				return "", errors.New("unlucky")
			}
			return v, nil
		}).To(result)
	d := streamstest.New(t, build(t, b), streamstest.WithConfig(streams.Config{
		OnDecodeError: streams.LogAndResume, OnProcessError: streams.LogAndResume, DeadLetterTopic: "dead",
	}))
	in := d.Input(counts).At(time.UnixMilli(1))
	in.PipeRaw([]byte("k"), []byte("short"))
	in.Pipe("k", 13)
	in.Pipe("k", 14)
	if got, want := text(d.Output(result).ReadAll()), "k=14@1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	dead := d.Output(streams.NewTopic("dead", serde.String, serde.Bytes)).ReadAll()
	if len(dead) != 2 || string(dead[0].Value) != "short" {
		t.Fatalf("dead letters %v", dead)
	}
	if offset, _ := dead[1].Headers.Last("__streams.errors.offset"); string(offset) != "1" {
		t.Errorf("offset header %q", offset)
	}

	d = streamstest.New(t, build(t, func() *streams.Builder {
		b := streams.NewBuilder()
		b.Stream(counts).To(counts2)
		return b
	}()))
	d.Input(counts).PipeRaw([]byte("k"), []byte("short"))
	e, ok := errors.AsType[*streams.RecordError](d.Err())
	if !ok || e.Stage != streams.DecodeValue || e.Origin != (streams.Origin{Topic: "counts", Partition: 0, Offset: 0}) {
		t.Errorf("got %v", e)
	}
}

var counts2 = streams.NewTopic("counts2", serde.String, serde.Int64)

// A processor's own store, read and written, with its changelog; a crash loses what was not committed and does it again. F-149.
func TestProcessorStoreSurvivesACrash(t *testing.T) {
	seen := streams.NewKeyValueStore("seen", serde.String, serde.Int64)
	b := streams.NewBuilder()
	b.Stream(lines).ProcessFunc(func(ctx *streams.Context[string, string], r streams.Record[string, string]) error {
		if _, ok := ctx.Store(seen).PutIfAbsent(r.Value, 1); !ok {
			ctx.Forward(r)
		}
		return nil
	}, streams.WithStores(seen)).To(result)
	d := streamstest.New(t, build(t, b), streamstest.CommitEvery(0))
	in, out := d.Input(lines).At(time.UnixMilli(1)), d.Output(result)
	in.Pipe("k", "a")
	d.Commit()
	in.Pipe("k", "b")
	in.Pipe("k", "a")
	d.Crash()
	in.Pipe("k", "c")
	d.Commit()
	// "b" was in the changelog already when the crash came: at least once, its second reading is taken for a duplicate.
	if got, want := text(out.ReadAll()), "k=a@1 k=b@1 k=c@1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, ok := d.Store(seen).Get("c"); !ok {
		t.Error("c is missing in the store")
	}
}

// Branches go to the first condition that holds; a merge takes both. F-014, F-015.
func TestSplitAndMerge(t *testing.T) {
	b := streams.NewBuilder()
	sp := b.Stream(lines).Split()
	short := sp.Branch(func(_, v string) bool { return len(v) < 2 })
	long := sp.Branch(func(_, v string) bool { return len(v) > 3 })
	rest := sp.Default()
	short.Merge(long).To(result)
	rest.To(other)
	d := streamstest.New(t, build(t, b))
	in := d.Input(lines).At(time.UnixMilli(1))
	for _, v := range []string{"a", "bb", "cccc"} {
		in.Pipe("k", v)
	}
	if got, want := text(d.Output(result).ReadAll()), "k=a@1 k=cccc@1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := text(d.Output(other).ReadAll()), "k=bb@1"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
