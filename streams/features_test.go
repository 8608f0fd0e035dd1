package streams_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/streams/streamstest"
	"github.com/millrace/millrace/streams/window"
)

// F-003, F-034: a source has a name, a time of its own and serdes, which go down the chain as long as keys or values stay what they are.
func TestF003SourceOptions(t *testing.T) {
	type name string // has no serde by itself
	upper := serde.Func(func(dst []byte, n name) ([]byte, error) { return append(dst, n...), nil }, func(b []byte) (name, error) { return name(strings.ToUpper(string(b))), nil })
	in := streams.NewTopic("left", serde.String, upper).TimestampFrom(func(_ string, v name) time.Time { return time.UnixMilli(int64(len(v))) })
	build := func() *streams.Builder {
		b := streams.NewBuilder()
		s := b.Stream(in, streams.Named("names"))
		s.Filter(func(string, name) bool { return true }).GroupByKey().Reduce("latest", func(_, v name) name { return v }).
			ToStream().MapValues(func(n name) string { return string(n) }).To(outTopic)
		return b
	}
	joinScript(t, build(), `
		L a=xyz@100 -> a=XYZ@3
		L a=four@101 -> a=FOUR@4`, streamstest.WithConfig(streams.Config{CacheBytes: -1}))
	topology, err := build().Build()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(topology.Describe(), "Source: names (topics: [left])") {
		t.Errorf("the source has another name:\n%s", topology.Describe())
	}
	// What a function makes has no serde any more.
	b := streams.NewBuilder()
	b.Stream(in).MapValues(func(n name) name { return n }).GroupByKey().Reduce("latest", func(_, v name) name { return v })
	if _, err := b.Build(); err == nil || !strings.Contains(err.Error(), streams.ErrNoSerde.Error()) {
		t.Errorf("got %v, want %v", err, streams.ErrNoSerde)
	}
}

// F-018, F-020: a sink has serdes of its own, and a partitioner that sees the whole record, headers included.
func TestF018SinkOptions(t *testing.T) {
	quoted := serde.Func(func(dst []byte, s string) ([]byte, error) { return append(dst, "'"+s+"'"...), nil }, func(b []byte) (string, error) { return strings.Trim(string(b), "'"), nil })
	b := streams.NewBuilder()
	b.Stream(leftTopic).To(outTopic, streams.KeySerde(quoted), streams.ValueSerde(quoted),
		streams.PartitionBy(func(r streams.Record[string, string], partitions int) streams.Placement {
			h, ok := r.Headers.Last("to")
			if !ok {
				return streams.Partition(partitions - 1)
			}
			return streams.Partition(int(h[0] - '0'))
		}))
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	d := streamstest.New(t, topology, streamstest.Partitions("out", 3))
	in, out := d.Input(leftTopic), d.Output(outTopic)
	in.PipeRecords(streams.Record[string, string]{Key: "k", Value: "v"}.WithHeader("to", []byte("1")), streams.Record[string, string]{Key: "k", Value: "w"})
	var got []string
	for p := range 3 {
		for _, r := range out.ReadPartition(p) {
			got = append(got, fmt.Sprintf("%d %s=%s", p, r.Key, r.Value))
		}
	}
	if want := []string{"1 'k'='v'", "2 'k'='w'"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// F-030: a joiner that returns nil makes a null record of a stream, and deletes the row of a table.
func TestF030JoinersThatReturnNil(t *testing.T) {
	unless := func(_ string, v, w string) *string {
		if w == "no" {
			return nil
		}
		s := v + w
		return &s
	}
	b := streams.NewBuilder()
	b.Stream(leftTopic).JoinWithKey(b.Stream(rightTopic), unless, window.Within(time.Hour)).To(outSums)
	joinScript(t, b, `
		L a=1@1 ->
		R a=no@2 -> a@2
		R a=x@3 -> a=1x@3`)
	b = streams.NewBuilder()
	b.Table(leftTopic).JoinWithKey(b.Table(rightTopic), unless, streams.Materialized("joined"), sumSerde).ToStream().To(outSums)
	joinScript(t, b, `
		L a=1@1 ->
		R a=x@2 -> a=1x@2
		R a=no@3 -> a@3`)
}

// F-031, F-059: operators without a store keep the time of a record, aggregates and joins have the latest of all that they are made of.
func TestF031TimeOfResults(t *testing.T) {
	caches(t, func(t *testing.T, opts ...streamstest.Option) {
		b := streams.NewBuilder()
		b.Stream(leftTopic).MapValues(strings.ToUpper).GroupByKey().Count("counts").ToStream().To(outCounts)
		topology, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		d := streamstest.New(t, topology, opts...)
		in, out := d.Input(leftTopic), d.Output(outCounts)
		for i, at := range []int64{50, 20, 60} {
			in.PipeAt(time.UnixMilli(at), "k", "v")
			got := out.ReadAll()
			if want := max(50, at); len(got) != 1 || got[0].Value != int64(i+1) || got[0].Timestamp.UnixMilli() != want {
				t.Errorf("after a record of %d: %v, want %d at %d", at, got, i+1, want)
			}
		}
	})
	b := streams.NewBuilder()
	b.Stream(leftTopic).SelectKey(func(_, v string) string { return v }).Filter(func(string, string) bool { return true }).To(outTopic)
	joinScript(t, b, `
		L k=a@50 -> a=a@50
		L k=b@20 -> b=b@20`)
}

// F-049: what the two stores of a join are called, how long they keep rows, and where.
func TestF049JoinStores(t *testing.T) {
	build := func() *streams.Builder {
		b := streams.NewBuilder()
		b.Stream(leftTopic).Join(b.Stream(rightTopic), both, window.Within(10*ms), streams.StoreName("pairs"), streams.Named("pairing"), streams.InMemory).To(outTopic)
		return b
	}
	joinScript(t, build(), `
		L a=1@10 ->
		R a=x@20 -> a=1+x@20`)
	topology, err := build().Build()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"pairs-this-join-store", "pairs-other-join-store", "Processor: pairing-this-windowed", "Processor: pairing-merge"} {
		if !strings.Contains(topology.Describe(), name) {
			t.Errorf("there is no %s:\n%s", name, topology.Describe())
		}
	}
}

// F-070, F-112: a deletion of what never was in the result of a join or filter is passed on, unless somebody below needs old values, which tell.
func TestF070OldValues(t *testing.T) {
	long := func(_, v string) bool { return len(v) > 1 }
	b := streams.NewBuilder()
	b.Table(leftTopic).Filter(long).ToStream().To(outTopic)
	joinScript(t, b, `
		L a=x@1 -> a@1
		L a=xx@2 -> a=xx@2
		L a=y@3 -> a@3
		L a=z@4 -> a@4`)
	b = streams.NewBuilder()
	b.Table(leftTopic).Filter(long, streams.Materialized("long")).GroupBy(func(k, v string) (string, string) { return k, v }).
		Reduce("all", func(a, v string) string { return a + v }, func(a, v string) string { return strings.Replace(a, v, "", 1) }).ToStream().To(outTopic)
	joinScript(t, b, `
		L a=x@1 ->
		L a=xx@2 -> a=xx@2
		L a=y@3 -> a=@3
		L a=z@4 ->`)
	b = streams.NewBuilder()
	b.Table(leftTopic).LeftJoin(b.Table(rightTopic), leftOf).ToStream().To(outTopic)
	joinScript(t, b, `
		R a=x@1 ->
		L a=1@2 -> a=1+x@2
		R a@3 -> a=1+-@3
		L a@4 -> a@4
		L b@5 ->`, streamstest.WithConfig(streams.Config{CacheBytes: -1}))
}

// F-071: an update that changes nothing is an update, as in Kafka Streams, where a cache does not come in between.
func TestF071UpdatesThatChangeNothing(t *testing.T) {
	caches(t, func(t *testing.T, opts ...streamstest.Option) {
		b := streams.NewBuilder()
		b.Table(leftTopic, streams.Materialized("rows")).ToStream().To(outTopic)
		joinScript(t, b, `
			L a=x@1 -> a=x@1
			L a=x@2 -> a=x@2
			L a@3 -> a@3`, opts...)
	})
}

// F-084: windows have no grace unless they are given one.
func TestF084NoGrace(t *testing.T) {
	caches(t, func(t *testing.T, opts ...streamstest.Option) {
		windowScript(t, windowCount(window.Tumbling(10*ms), streams.Retention(time.Hour)), `
			k@9 -> k[0,10]=1@9
			k@10 -> k[10,20]=1@10
			k@9 -> drops 1`, opts...)
	})
}

// F-103: a record that is older than what its store keeps still finds partners in the other one, but is found by none.
func TestF103LateRecordOfAJoin(t *testing.T) {
	b := streams.NewBuilder()
	b.Stream(leftTopic).Join(b.Stream(rightTopic), both, window.Within(10*ms)).To(outTopic)
	joinScript(t, b, `
		R a=x@90 ->
		L b=now@200 ->
		L a=late@85 -> a=late+x@90
		R a=y@84 ->
		R b=z@205 -> b=now+z@205`)
}

// F-118: a foreign key may come from the key of a row as well.
func TestF118ForeignKeyOfTheKey(t *testing.T) {
	b := streams.NewBuilder()
	b.Table(leftTopic).JoinForeign(b.Table(rightTopic), func(k, _ string) (string, bool) { return k[:1], true }, both).ToStream().To(outTopic)
	joinScript(t, b, `
		R x=X@1 ->
		L x1=a@2 -> x1=a+X@2
		L y1=b@3 ->
		R x=Y@4 -> x1=a+Y@4`)
}

// F-120: the store of subscriptions has the keys of Kafka Streams: the length of the foreign key, it, and the key of the row; and so has its changelog. When
// the other row goes, all subscribers hear of it.
func TestF120StoreOfSubscriptions(t *testing.T) {
	b := streams.NewBuilder()
	b.Table(leftTopic).JoinForeign(b.Table(rightTopic), reference, both, streams.Named("fk")).ToStream().To(outTopic)
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	d := streamstest.New(t, topology)
	left, right, out := d.Input(leftTopic), d.Input(rightTopic), d.Output(outTopic)
	right.Pipe("xy", "X")
	left.Pipe("a", "xy:1")
	left.Pipe("b", "xy:2")
	var keys []string
	for _, r := range d.Output(streams.NewTopic("test-fk-subscription-store-changelog", serde.Bytes, serde.Bytes)).ReadAll() {
		keys = append(keys, string(r.Key))
	}
	if want := []string{"\x00\x00\x00\x02xya", "\x00\x00\x00\x02xyb"}; !slices.Equal(keys, want) {
		t.Errorf("the changelog has %q, want %q", keys, want)
	}
	out.ReadAll()
	right.PipeNull("xy")
	var gone []string
	for _, r := range out.ReadAll() {
		if r.NullValue {
			gone = append(gone, r.Key)
		}
	}
	if slices.Sort(gone); !slices.Equal(gone, []string{"a", "b"}) {
		t.Errorf("%q have heard that the row is gone, want a and b", gone)
	}
}

// F-130, F-131, F-132, F-134: a topology of processors alone: a source, a processor of which each task has one of its own, a store that two of them share,
// and a sink.
func TestF132Processors(t *testing.T) {
	shared := streams.NewKeyValueStore("shared", serde.String, serde.Int64)
	made := 0
	b := streams.NewBuilder()
	counting := func(ctx *streams.Context[string, string], r streams.Record[string, string]) error {
		n, _ := ctx.Store(shared).Get("n")
		ctx.Store(shared).Put("n", n+1)
		ctx.Forward(r)
		return nil
	}
	b.Stream(leftTopic, streams.Named("source")).
		Process(func() *onlyOnce { made++; return &onlyOnce{} }, streams.Named("once")).
		ProcessFunc(counting, streams.WithStores(shared), streams.Named("first")).
		ProcessFunc(counting, streams.WithStores(shared), streams.Named("second")).
		To(outTopic, streams.Named("sink"))
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	d := streamstest.New(t, topology, streamstest.Partitions("left", 2))
	for i := range 20 {
		d.Input(leftTopic).Pipe(fmt.Sprint(i%4), "v")
	}
	if got := len(d.Output(outTopic).ReadAll()); got != 4 {
		t.Errorf("%d records came through, want one for each key", got)
	}
	var total int64
	for p := range 2 {
		n, _ := d.StoreOf(shared, p).Get("n")
		total += n
	}
	if total != 8 {
		t.Errorf("the shared stores count %d, want 8", total)
	}
	if made < 2 {
		t.Errorf("%d processors were made for two tasks", made)
	}
	if text := topology.Describe(); strings.Count(text, "(stores: [shared])") != 2 {
		t.Errorf("two processors share the store:\n%s", text)
	}
}

// onlyOnce lets the first record of each key through.
type onlyOnce struct{ seen map[string]bool }

func (o *onlyOnce) Process(ctx *streams.Context[string, string], r streams.Record[string, string]) error {
	if o.seen == nil {
		o.seen = map[string]bool{}
	}
	if !o.seen[r.Key] {
		o.seen[r.Key] = true
		ctx.Forward(r)
	}
	return nil
}

// F-159: a store may be changed while it is walked over. What is walked over is seen once, as it was or as it is; rows added behind are no error.
func TestF159StoreChangesUnderAWalk(t *testing.T) {
	eachKind(t, func(t *testing.T, opts []streams.StoreOption, settle func(p *inProcessor)) {
		h := streams.NewKeyValueStore("kv", serde.String, serde.Int64, opts...)
		p := newInProcessor(t, h)
		p.at(1, nil, func(ctx *streams.Context[string, string]) {
			for _, k := range []string{"a", "b", "c", "d"} {
				ctx.Store(h).Put(k, 1)
			}
		})
		settle(p)
		p.at(2, nil, func(ctx *streams.Context[string, string]) {
			s := ctx.Store(h)
			seen := map[string]int{}
			for k := range s.All() {
				seen[k]++
				if len(k) == 1 { // what is added is walked over as well, and would add for ever
					s.Delete(k)
					s.Put(k+"+", 2)
				}
			}
			for _, k := range []string{"a", "b", "c", "d"} {
				if seen[k] != 1 {
					t.Errorf("%s was seen %d times", k, seen[k])
				}
			}
			for _, k := range []string{"a", "d"} {
				if _, ok := s.Get(k); ok {
					t.Errorf("%s is still there", k)
				}
				if v, ok := s.Get(k + "+"); !ok || v != 2 {
					t.Errorf("%s+ is %d, %t", k, v, ok)
				}
			}
		})
	})
}

// F-178, F-179: a cache below another one: a commit flushes what the first one sends on through the second, all of it at once.
func TestF179CachesInARow(t *testing.T) {
	b := streams.NewBuilder()
	b.Stream(leftTopic).GroupByKey().Count("first").ToStream().
		GroupBy(func(string, int64) string { return "all" }).Reduce("second", func(a, v int64) int64 { return a + v }).
		ToStream().To(outCounts)
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	d := streamstest.New(t, topology, streamstest.WithConfig(streams.Config{CacheBytes: 1 << 20}))
	in, out := d.Input(leftTopic), d.Output(outCounts)
	in.PipeRecords(
		streams.Record[string, string]{Key: "a", Value: "v"}, streams.Record[string, string]{Key: "a", Value: "v"}, streams.Record[string, string]{Key: "b", Value: "v"},
	)
	d.Commit()
	got := out.ReadAll()
	if len(got) == 0 || got[len(got)-1].Key != "all" {
		t.Fatalf("got %v", got)
	}
	if first, _ := d.StoreOf(firstCounts, 0).Get("a"); first != 2 {
		t.Errorf("the first store counts %d of a, want 2", first)
	}
}

var firstCounts = streams.NewKeyValueStore("first", serde.String, serde.Int64)
