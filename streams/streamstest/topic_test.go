package streamstest_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/streams/streamstest"
	"github.com/millrace/millrace/streams/window"
)

// passing sends lines to result as they are.
func passing(t testing.TB) *streams.Topology {
	b := streams.NewBuilder()
	b.Stream(lines).To(result)
	return build(t, b)
}

// joined has two topics that must have the same number of partitions.
func joined(t testing.TB) *streams.Topology {
	b := streams.NewBuilder()
	rows := b.Table(other)
	b.Stream(lines).JoinTable(rows, func(v, w string) string { return v + w }).To(result)
	return build(t, b)
}

func TestPartitions(t *testing.T) {
	b := streams.NewBuilder()
	b.Stream(lines).GroupBy(func(_, v string) string { return v }).Count("counts").ToStream().To(counts)
	b.Stream(other).Repartition("fixed", streams.Partitions(3)).To(result)
	topology := build(t, b)
	for _, c := range []struct {
		name string
		opts []streamstest.Option
		want string // partitions of lines, other, counts, the repartition topics of the count and the fixed one, the changelog
	}{
		{"default", nil, "1 1 1 1 3 1"},
		{"name", []streamstest.Option{streamstest.Partitions("lines", 4)}, "4 1 1 4 3 4"},
		{"star", []streamstest.Option{streamstest.Partitions("*", 2)}, "2 2 2 2 3 2"},
		{"names go before patterns", []streamstest.Option{streamstest.Partitions("*", 2), streamstest.Partitions("lines", 5)}, "5 2 2 5 3 5"},
		{"the first pattern counts", []streamstest.Option{streamstest.Partitions("l*", 6), streamstest.Partitions("*s", 2)}, "6 1 2 6 3 6"},
		{"nil", []streamstest.Option{nil}, "1 1 1 1 3 1"},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			var got []string
			for _, topic := range []string{"lines", "other", "counts", "test-counts-repartition", "test-fixed-repartition", "test-counts-changelog"} {
				got = append(got, fmt.Sprint(partitionsOf(t, topology, c.opts, topic)))
			}
			if got := strings.Join(got, " "); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
	fails(t, func(tb testing.TB) { streamstest.New(tb, topology, streamstest.Partitions("lines", 0)) }, `Partitions("lines", 0)`)
	fails(t, func(tb testing.TB) { streamstest.New(tb, topology, streamstest.Partitions("[", 1)) }, `Partitions("[", 1)`)
	fails(t, func(tb testing.TB) { streamstest.New(tb, joined(tb), streamstest.Partitions("other", 2)) }, "lines has 1 partitions and other has 2")
	fails(t, func(tb testing.TB) {
		b := streams.NewBuilder()
		rows := b.Table(other)
		b.Stream(lines).Repartition("r", streams.Partitions(2)).JoinTable(rows, func(v, w string) string { return v + w }).To(result)
		streamstest.New(tb, build(tb, b))
	}, "other has 1 partitions and test-r-repartition has 2")
}

// partitionsOf finds the number of partitions in what the driver says of one that does not exist.
func partitionsOf(t *testing.T, topology *streams.Topology, opts []streamstest.Option, topic string) (n int) {
	t.Helper()
	said := record(t, func(tb testing.TB) {
		streamstest.New(tb, topology, opts...).Input(streams.NewTopic(topic, serde.String, serde.String)).To(1000)
	})
	_, count, _ := strings.Cut(strings.Join(said, ""), "it has ")
	if _, err := fmt.Sscan(count, &n); err != nil {
		t.Fatalf("%s: %q", topic, said)
	}
	return n
}

func TestInput(t *testing.T) {
	d := streamstest.New(t, passing(t), streamstest.Partitions("lines", 2), streamstest.StartAt(start))
	if !d.Now().Equal(start) {
		t.Errorf("the clock is at %v", d.Now())
	}
	in, out := d.Input(lines), d.Output(result)
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	header := streams.Headers{{Key: "h", Value: []byte("x")}}

	in.Pipe("a", "now")
	d.AdvanceWallClock(time.Hour)
	in.Pipe("a", "still the time at which the input was made")
	in.At(at(10)).Pipe("a", "at")
	in.AutoAdvance(time.Second).Pipe("a", "again")
	in.Pipe("a", "one later")
	in.PipeAt(at(5), "a", "of its own time")
	in.PipeRecords(in.Record("a", "two later"), in.Record("a", "own").WithTimestamp(at(6)).WithHeader("h", []byte("x")), in.Record("a", "three later"))
	in.PipeNull("a")
	in.PipeValues("n", "m")
	in.PipeRaw([]byte("raw"), nil)
	in.PipeRaw(nil, []byte("raw"))
	out.Expect(
		streams.Record[string, string]{Key: "a", Value: "now", Timestamp: start},
		streams.Record[string, string]{Key: "a", Value: "still the time at which the input was made", Timestamp: start},
		streams.Record[string, string]{Key: "a", Value: "at", Timestamp: at(10)},
		streams.Record[string, string]{Key: "a", Value: "again", Timestamp: at(10)},
		streams.Record[string, string]{Key: "a", Value: "one later", Timestamp: at(11)},
		streams.Record[string, string]{Key: "a", Value: "of its own time", Timestamp: at(5)},
		streams.Record[string, string]{Key: "a", Value: "two later", Timestamp: at(12)},
		streams.Record[string, string]{Key: "a", Value: "own", Timestamp: at(6), Headers: header},
		streams.Record[string, string]{Key: "a", Value: "three later", Timestamp: at(13)},
		streams.Record[string, string]{Key: "a", NullValue: true, Timestamp: at(14)},
		streams.Record[string, string]{NullKey: true, Value: "n", Timestamp: at(15)},
		streams.Record[string, string]{NullKey: true, Value: "m", Timestamp: at(16)},
		streams.Record[string, string]{Key: "raw", NullValue: true, Timestamp: at(17)},
		streams.Record[string, string]{NullKey: true, Value: "raw", Timestamp: at(18)},
	)
	if later := d.Input(lines); true {
		later.Pipe("a", "an hour later")
		if r := out.Read(); !r.Timestamp.Equal(start.Add(time.Hour)) {
			t.Errorf("a later input writes at %v", r.Timestamp)
		}
	}
}

// A nil pointer is a null, as everywhere.
func TestInputOfPointers(t *testing.T) {
	topic := streams.NewTopic("pointers", serde.Pointer(serde.String), serde.Pointer(serde.String))
	b := streams.NewBuilder()
	b.Stream(topic).To(streams.NewTopic("out", serde.Pointer(serde.String), serde.Pointer(serde.String)))
	d := streamstest.New(t, build(t, b))
	in, k := d.Input(topic), "k"
	in.Pipe(&k, nil)
	in.Pipe(nil, &k)
	in.PipeValues(nil)
	in.PipeAt(start, nil, nil)
	if got, want := text(d.Output(streams.NewTopic("out", serde.String, serde.String)).ReadAll()), fmt.Sprintf("k=null@%d null=k@%[1]d null=null@%[1]d null=null@%d", d.Now().UnixMilli(), start.UnixMilli()); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestInputToAPartition(t *testing.T) {
	b := streams.NewBuilder()
	b.Stream(lines).ProcessFunc(func(ctx *streams.Context[string, string], r streams.Record[string, string]) error {
		o, _ := ctx.Origin()
		ctx.Forward(r.WithValue(fmt.Sprintf("%s-%d", ctx.Task(), o.Partition)))
		return nil
	}).To(result)
	topology := build(t, b)
	d := streamstest.New(t, topology, streamstest.Partitions("lines", 3))
	in, out := d.Input(lines), d.Output(result)
	in.To(2).Pipe("a", "")
	in.To(0).Pipe("a", "")
	in.To(-1).Pipe("a", "")
	if got, want := values(out.ReadAll()), "0_2-2 0_0-0 0_1-1"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	fails(t, func(tb testing.TB) {
		streamstest.New(tb, topology, streamstest.Partitions("lines", 3)).Input(lines).To(3)
	}, "lines has no partition 3; it has 3")
	fails(t, func(tb testing.TB) { streamstest.New(tb, topology).Input(lines).To(-2) }, "no partition -2")
}

func values(records []streams.Record[string, string]) string {
	var s []string
	for _, r := range records {
		s = append(s, r.Value)
	}
	return strings.Join(s, " ")
}

func TestOutput(t *testing.T) {
	topology := passing(t)
	d := streamstest.New(t, topology, streamstest.Partitions("result", 2))
	in, out := d.Input(lines).At(time.UnixMilli(1)), d.Output(result)
	if !out.Empty() {
		t.Error("there is something before the first record")
	}
	for _, k := range []string{"a", "b", "c", "d", "e", "a"} {
		in.Pipe(k, strings.ToUpper(k))
	}
	in.PipeNull("b")
	if v := out.ReadValue(); v != "A" {
		t.Errorf("the first value is %q", v)
	}
	first := d.Output(result).ReadPartition(1)
	rest := d.Output(result).ReadPartition(0)
	if len(first) == 0 || len(rest) == 0 || len(first)+len(rest) != 7 {
		t.Fatalf("partition 0 has %q, partition 1 %q", text(rest), text(first))
	}
	onlyFirst := out.ReadPartition(1)
	left := out.ReadAll()
	if n := len(onlyFirst) + len(left); n != 6 {
		t.Errorf("%d records are read, want 4", n)
	}
	for _, r := range onlyFirst {
		if slices.ContainsFunc(left, func(l streams.Record[string, string]) bool { return l.Key == r.Key }) {
			t.Errorf("%s is in both partitions", r.Key)
		}
	}
	if !out.Empty() {
		t.Error("something is left")
	}
	if again := d.Output(result); len(again.ReadAll()) != 7 || !again.Empty() {
		t.Error("another output does not begin at the first record")
	}
	if got, want := streamstest.Latest(d.Output(result)), map[string]string{"a": "A", "c": "C", "d": "D", "e": "E"}; !reflect.DeepEqual(got, want) {
		t.Errorf("the table is %v, want %v", got, want)
	}

	fails(t, func(tb testing.TB) { streamstest.New(tb, topology).Output(result).Read() }, "nothing is left in result")
	fails(t, func(tb testing.TB) {
		d := streamstest.New(tb, topology)
		d.Input(lines).PipeNull("k")
		d.Output(result).ReadValue()
	}, "a null in result")
	fails(t, func(tb testing.TB) {
		d := streamstest.New(tb, topology)
		d.Input(lines).Pipe("k", "v")
		d.Output(streams.NewTopic("result", serde.String, serde.Int64)).Read()
	}, "value in result: serde: 1 bytes where the type has 8")
	fails(t, func(tb testing.TB) {
		d := streamstest.New(tb, topology)
		d.Input(lines).Pipe("k", "v")
		d.Output(streams.NewTopic("result", serde.Int64, serde.String)).Read()
	}, "key in result")
	fails(t, func(tb testing.TB) {
		streamstest.New(tb, topology).Output(streams.NewTopic[string, string]("result", nil, serde.String))
	}, "result was made without a serde")
}

// Null keys have no place in a table.
func TestLatestOfNulls(t *testing.T) {
	d := streamstest.New(t, passing(t))
	in := d.Input(lines)
	in.PipeValues("no key")
	in.Pipe("", "empty")
	in.PipeNull("gone")
	if got, want := streamstest.Latest(d.Output(result)), map[string]string{"": "empty"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestTopicsAndInternalTopics(t *testing.T) {
	d := streamstest.New(t, wordCount(t), streamstest.WithConfig(streams.Config{ApplicationID: "app"}))
	if got := d.Topics(); len(got) != 0 {
		t.Errorf("before the first record there are %q", got)
	}
	d.Input(lines).PipeValues("a")
	if got, want := d.Topics(), []string{"lines", "app-counts-repartition", "app-counts-changelog", "counts"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if r := d.Output(streams.NewTopic("app-counts-repartition", serde.String, serde.String)).Read(); r.Key != "a" || r.Value != "a" {
		t.Errorf("the repartition topic has %v", r)
	}
	if r := d.Output(streams.NewTopic("app-counts-changelog", serde.String, serde.Int64)).Read(); r.Key != "a" || r.Value != 1 {
		t.Errorf("the changelog has %v", r)
	}
	// An internal topic can be written as well, as a process that ran before would have.
	d.Input(streams.NewTopic("app-counts-repartition", serde.String, serde.String)).Pipe("b", "b")
	if got := streamstest.Latest(d.Output(counts)); got["b"] != 1 {
		t.Errorf("the counts are %v", got)
	}
}

func TestDroppedIsKeptOverRestarts(t *testing.T) {
	b := streams.NewBuilder()
	b.Stream(lines).GroupByKey().WindowedBy(window.Tumbling(time.Minute)).Count("counts")
	d := streamstest.New(t, build(t, b), streamstest.CommitEvery(0))
	in := d.Input(lines)
	in.PipeValues("no key")
	d.Restart()
	in.PipeValues("no key")
	d.Crash() // it is processed again, and dropped again
	if got, want := d.Dropped(), map[string]int64{"null key in an aggregation": 3}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
