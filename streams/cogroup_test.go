package streams_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/streams/streamstest"
	"github.com/millrace/millrace/streams/window"
)

// The functions of a cogroup: what comes from the topic "left" and from "right" can be told apart, and "gone" deletes the row.
func fromLeft(sum *string, _, v string) *string  { return folded(sum, v) }
func fromRight(sum *string, _, v string) *string { return folded(sum, strings.ToUpper(v)) }

func folded(sum *string, v string) *string {
	if strings.EqualFold(v, "gone") {
		return nil
	}
	s := *sum + v
	return &s
}

func nothing() *string { return new(string) }

func cogrouped() (*streams.Builder, *streams.Cogrouped[string, *string]) {
	b := streams.NewBuilder()
	return b, b.Stream(leftTopic).GroupByKey().Cogroup(fromLeft).Cogroup(b.Stream(rightTopic).GroupByKey(), fromRight)
}

var (
	sumSerde = streams.ValueSerde(serde.Pointer(serde.String))
	outSums  = streams.NewTopic("out", serde.String, serde.Pointer(serde.String))
)

// F-074: streams of one key are folded into one row by functions of their own; a null key or value is dropped, and nil deletes the row.
func TestF074Cogroup(t *testing.T) {
	caches(t, func(t *testing.T, opts ...streamstest.Option) {
		b, g := cogrouped()
		g.Aggregate("sums", nothing, sumSerde).ToStream().To(outSums)
		joinScript(t, b, `
			L k=a@10    -> k=a@10
			R k=b@5     -> k=aB@10
			R j=x@20    -> j=X@20
			L k@30 ->
			R =z@30 ->
			L k=gone@31 -> k@31
			R k=c@4     -> k=C@4`, opts...)
	})
}

// F-075: the same in windows, sliding ones included, and in sessions, which are merged.
func TestF075CogroupInWindows(t *testing.T) {
	caches(t, func(t *testing.T, opts ...streamstest.Option) {
		b, g := cogrouped()
		g.WindowedBy(window.Tumbling(10*ms)).Aggregate("sums", nothing, sumSerde, streams.Retention(time.Hour)).ToStream().SelectKey(spelled).To(outSums)
		joinScript(t, b, `
			L k=a@1  -> k[0,10]=a@1
			R k=b@12 -> k[10,20]=B@12
			L k=c@9  -> k[0,10]=ac@9
			R k=d@9  ->
			R k=e@19 -> k[10,20]=BE@19`, opts...)
		b, g = cogrouped()
		g.WindowedBy(window.Sliding(10*ms)).Aggregate("sums", nothing, sumSerde).ToStream().SelectKey(spelled).To(outSums)
		joinScript(t, b, `
			L k=a@20 -> k[10,20]=a@20
			R k=b@25 -> k[21,31]=B@25 k[15,25]=aB@25`, opts...)
		b, g = cogrouped()
		g.SessionsBy(window.Session(10*ms)).Aggregate("sums", nothing, func(_ string, x, y *string) *string { s := *x + *y; return &s }, sumSerde, streams.Retention(time.Hour)).
			ToStream().SelectKey(spelled).To(outSums)
		joinScript(t, b, `
			L k=a@0  -> k[0,0]=a@0
			R k=b@15 -> k[15,15]=B@15
			L k=c@8  -> k[0,0]@0 k[15,15]@15 k[0,15]=aBc@15`, opts...)
	})
}

// F-074: streams whose key was changed meet in repartition topics with the number of partitions of the others, and the row survives a restart.
func TestF074CogroupOfRekeyedStreams(t *testing.T) {
	b := streams.NewBuilder()
	length := streams.NewTopic("lengths", serde.String, serde.Int64)
	values := b.Stream(leftTopic).GroupBy(func(_, v string) string { return v })
	values.Cogroup(func(n int64, _, _ string) int64 { return n + 1 }).
		Cogroup(b.Stream(length).GroupByKey(), func(n int64, _ string, more int64) int64 { return n + more }).
		Aggregate("sums", func() int64 { return 0 }).ToStream().To(outCounts)
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	d := streamstest.New(t, topology, streamstest.Partitions("left", 2), streamstest.Partitions("lengths", 3))
	left, lengths, out := d.Input(leftTopic), d.Input(length), d.Output(outCounts)
	left.Pipe("1", "k")
	left.Pipe("2", "k")
	lengths.Pipe("k", 40)
	d.Restart(streamstest.StateLost)
	left.Pipe("3", "k")
	var got []int64
	for _, r := range out.ReadAll() {
		got = append(got, r.Value)
	}
	if len(got) == 0 || got[len(got)-1] != 43 {
		t.Errorf("got %v, want 43 at last", got)
	}
}

// Mistakes with a cogroup name the line of the call.
func TestCogroupMistakes(t *testing.T) {
	add := func(a, _, v string) string { return a + v }
	empty := func() string { return "" }
	for name, c := range map[string]struct {
		build func(b *streams.Builder)
		cause error
		says  string
	}{
		"nil first": {func(b *streams.Builder) {
			b.Stream(leftTopic).GroupByKey().Cogroup[string](nil).Aggregate("sums", empty)
		}, streams.ErrNilFunction, "cogroup"},
		"nil second": {func(b *streams.Builder) {
			b.Stream(leftTopic).GroupByKey().Cogroup(add).Cogroup[string](b.Stream(rightTopic).GroupByKey(), nil).Aggregate("sums", empty)
		}, streams.ErrNilFunction, "cogroup"},
		"no stream": {func(b *streams.Builder) {
			b.Stream(leftTopic).GroupByKey().Cogroup(add).Cogroup[string](nil, add).Aggregate("sums", empty)
		}, streams.ErrBadOption, "is nil"},
		"twice": {func(b *streams.Builder) {
			g := b.Stream(leftTopic).GroupByKey()
			g.Cogroup(add).Cogroup(g, add).Aggregate("sums", empty)
		}, streams.ErrBadOption, "folded in twice"},
		"other builder": {func(b *streams.Builder) {
			b.Stream(leftTopic).GroupByKey().Cogroup(add).Cogroup(streams.NewBuilder().Stream(rightTopic).GroupByKey(), add).Aggregate("sums", empty)
		}, streams.ErrOtherBuilder, "KSTREAM-SOURCE"},
		"nil initial": {func(b *streams.Builder) {
			b.Stream(leftTopic).GroupByKey().Cogroup(add).Aggregate("sums", nil)
		}, streams.ErrNilFunction, "COGROUPKSTREAM-MERGE-"},
		"nil merge": {func(b *streams.Builder) {
			b.Stream(leftTopic).GroupByKey().Cogroup(add).SessionsBy(window.Session(time.Second)).Aggregate("sums", empty, nil)
		}, streams.ErrNilFunction, "COGROUPKSTREAM-MERGE-"},
		"bad windows": {func(b *streams.Builder) {
			b.Stream(leftTopic).GroupByKey().Cogroup(add).WindowedBy(window.Tumbling(-1)).Aggregate("sums", empty)
		}, streams.ErrBadWindow, "COGROUPKSTREAM-MERGE-"},
		"no serde": {func(b *streams.Builder) {
			b.Stream(leftTopic).GroupByKey().Cogroup(func(p pair, _, _ string) pair { return p }).Aggregate("sums", func() pair { return pair{} })
		}, streams.ErrNoSerde, "COGROUPKSTREAM-MERGE-"},
		"two topics of a name": {func(b *streams.Builder) {
			by := func(_, v string) string { return v }
			b.Stream(leftTopic).GroupBy(by).Cogroup(add).Cogroup(b.Stream(rightTopic).GroupBy(by), add).Aggregate("sums", empty)
		}, streams.ErrDuplicateName, "sums-repartition"},
		"store taken": {func(b *streams.Builder) {
			b.Table(leftTopic, streams.Materialized("sums"))
			b.Stream(rightTopic).GroupByKey().Cogroup(add).Aggregate("sums", empty)
		}, streams.ErrDuplicateName, "sums"},
	} {
		t.Run(name, func(t *testing.T) {
			b := streams.NewBuilder()
			c.build(b)
			_, err := b.Build()
			mistake, ok := errors.AsType[*streams.BuildError](err)
			if !ok || !errors.Is(err, c.cause) || !strings.Contains(err.Error(), c.says) || !strings.HasPrefix(mistake.At, "streams/cogroup_test.go:") {
				t.Errorf("got %v", err)
			}
		})
	}
}
