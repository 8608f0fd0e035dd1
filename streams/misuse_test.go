package streams_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/streams/window"
)

// mistake is what Build must say of a call that ends in the comment "// !".
type mistake struct {
	err  error  // errors.Is
	op   string // the operator it names
	says string // a part of the text: the fact that helps
}

// misuse is a program with mistakes in it, in the order in which they are wanted.
type misuse struct {
	name    string
	want    []mistake
	program func(b *streams.Builder)
	option  streams.BuilderOption
}

type pair struct{ A, B int }

type emptyProcessor struct{}

func (emptyProcessor) Process(*streams.Context[string, string], streams.Record[string, string]) error {
	return nil
}

type loader struct{}

func (loader) Process(*streams.Context[streams.None, streams.None], streams.Record[string, string]) error {
	return nil
}

type emptyFixed struct{}

func (emptyFixed) Process(*streams.FixedKeyContext[string, string], streams.FixedKeyRecord[string, string]) error {
	return nil
}

func one(err error, op, says string) []mistake { return []mistake{{err, op, says}} }

// misuses are programs with mistakes, each of which is to be found once.
func misuses() []misuse {
	pairs := streams.NewTopic[string, pair]("pairs", serde.String, nil)
	rows := streams.NewTopic("rows", serde.String, serde.String)
	numbers := streams.NewKeyValueStore("numbers", serde.String, serde.Int64)
	same := func(_, v string) string { return v }
	keep := func(_, _ string) bool { return true }
	makePair := func(string) pair { return pair{} }
	byPair := func(_, _ string) pair { return pair{} }
	newEmpty := func() emptyProcessor { return emptyProcessor{} }
	newFixed := func() emptyFixed { return emptyFixed{} }
	joined := func(v, w string) string { return v + w }
	leftJoined := func(v, _ string, _ bool) string { return v }
	foreign := func(_, v string) (string, bool) { return v, true }

	return []misuse{
		// Functions, handles and options that are nil.
		{"filter without a function", one(streams.ErrNilFunction, "KSTREAM-FILTER-0000000001", ""), func(b *streams.Builder) {
			b.Stream(lines).Filter(nil) // !
		}, nil},
		{"mapper of a nil function", one(streams.ErrNilFunction, "KSTREAM-MAPVALUES-0000000001", ""), func(b *streams.Builder) {
			b.Stream(lines).MapValues((func(string) string)(nil)).To(lines) // !
		}, nil},
		{"every stateless operator without a function", []mistake{
			{streams.ErrNilFunction, "KSTREAM-FILTER-0000000001", ""}, {streams.ErrNilFunction, "KSTREAM-FILTER-0000000002", ""},
			{streams.ErrNilFunction, "KSTREAM-MAPVALUES-0000000003", ""}, {streams.ErrNilFunction, "KSTREAM-FLATMAPVALUES-0000000004", ""},
			{streams.ErrNilFunction, "KSTREAM-FLATMAPVALUES-0000000005", ""}, {streams.ErrNilFunction, "KSTREAM-MAP-0000000006", ""},
			{streams.ErrNilFunction, "KSTREAM-MAP-0000000007", ""}, {streams.ErrNilFunction, "KSTREAM-MAP-0000000008", ""},
			{streams.ErrNilFunction, "KSTREAM-FLATMAP-0000000009", ""}, {streams.ErrNilFunction, "KSTREAM-KEY-SELECT-0000000010", ""},
			{streams.ErrNilFunction, "KSTREAM-PEEK-0000000011", ""}, {streams.ErrNilFunction, "KSTREAM-FOREACH-0000000012", ""},
			{streams.ErrNilFunction, "KSTREAM-FOREACH-0000000013", ""}, {streams.ErrNilFunction, "KSTREAM-SINK-0000000014", ""},
			{streams.ErrNilFunction, "KSTREAM-BRANCH-00000000151", ""},
		}, func(b *streams.Builder) {
			s := b.Stream(lines)
			s.FilterNot(nil)                  // !
			s.FilterRecords(nil)              // !
			s.TryMapValues[int](nil)          // !
			s.FlatMapValues[[]string](nil)    // !
			s.FlatMapValuesSeq[string](nil)   // !
			s.Map[string, string](nil)        // !
			s.TryMap[string, string](nil)     // !
			s.MapRecords[string, string](nil) // !
			s.FlatMap[string, string](nil)    // !
			s.SelectKey[string](nil)          // !
			s.Peek(nil)                       // !
			s.ForEach(nil)                    // !
			s.TryForEach(nil)                 // !
			s.Route(nil)                      // !
			s.Split().Branch(nil)             // !
		}, nil},
		{"aggregations without functions", []mistake{
			{streams.ErrNilFunction, "KSTREAM-REDUCE-0000000001", ""}, {streams.ErrNilFunction, "KSTREAM-AGGREGATE-0000000002", ""},
			{streams.ErrNilFunction, "KSTREAM-AGGREGATE-0000000003", ""}, {streams.ErrNilFunction, "KSTREAM-REDUCE-0000000004", ""},
			{streams.ErrNilFunction, "KSTREAM-AGGREGATE-0000000005", ""},
		}, func(b *streams.Builder) {
			g := b.Stream(lines).GroupByKey()
			w := g.WindowedBy(window.Tumbling(time.Minute))
			g.Reduce("a", nil)                                              // !
			g.Aggregate("b", nil, func(a, k, v string) string { return a }) // !
			g.Aggregate("c", func() string { return "" }, nil)              // !
			w.Reduce("d", nil)                                              // !
			w.Aggregate("e", nil, func(a, k, v string) string { return a }) // !
		}, nil},
		{"table operators without functions", []mistake{
			{streams.ErrNilFunction, "KTABLE-FILTER-0000000003", ""}, {streams.ErrNilFunction, "KTABLE-FILTER-0000000004", ""},
			{streams.ErrNilFunction, "KTABLE-MAPVALUES-0000000005", ""}, {streams.ErrNilFunction, "KTABLE-MAPVALUES-0000000006", ""},
		}, func(b *streams.Builder) {
			t := b.Table(lines)
			t.Filter(nil)                   // !
			t.FilterNot(nil)                // !
			t.MapValues[string](nil)        // !
			t.MapValuesWithKey[string](nil) // !
		}, nil},
		{"joins without functions", []mistake{
			{streams.ErrNilFunction, "KSTREAM-JOIN-0000000004", ""}, {streams.ErrNilFunction, "KSTREAM-LEFTJOIN-0000000005", ""},
		}, func(b *streams.Builder) {
			s, t := b.Stream(lines), b.Table(rows)
			s.JoinTable[string, string](t, nil)     // !
			s.LeftJoinTable[string, string](t, nil) // !
		}, nil},
		{"processors without a constructor", []mistake{
			{streams.ErrNilFunction, "KSTREAM-PROCESSOR-0000000001", ""}, {streams.ErrNilFunction, "KSTREAM-PROCESSVALUES-0000000002", ""},
			{streams.ErrNilFunction, "KSTREAM-PROCESSOR-0000000003", ""}, {streams.ErrNilFunction, "KSTREAM-PROCESSVALUES-0000000004", ""},
		}, func(b *streams.Builder) {
			s := b.Stream(lines)
			s.Process((func() emptyProcessor)(nil))   // !
			s.ProcessValues((func() emptyFixed)(nil)) // !
			s.ProcessFunc[string, string](nil)        // !
			s.ProcessValuesFunc[string](nil)          // !
		}, nil},
		{"partitioner of a nil function", one(streams.ErrNilFunction, "KSTREAM-SINK-0000000001", ""), func(b *streams.Builder) {
			b.Stream(lines).To(rows, streams.PartitionBy[string, string](nil)) // !
		}, nil},
		{"source that is nil", one(streams.ErrBadOption, "KSTREAM-SOURCE-0000000000", "topic is nil"), func(b *streams.Builder) {
			b.Stream[string, string](nil) // !
		}, nil},
		{"merge with nil", one(streams.ErrBadOption, "KSTREAM-MERGE-0000000001", "stream is nil"), func(b *streams.Builder) {
			b.Stream(lines).Merge(nil).To(rows) // !
		}, nil},
		{"join with a nil table", one(streams.ErrBadOption, "KSTREAM-JOIN-0000000001", "table is nil"), func(b *streams.Builder) {
			b.Stream(lines).JoinTable(nil, joined).To(rows) // !
		}, nil},
		{"windows that are nil", one(streams.ErrBadWindow, "KSTREAM-AGGREGATE-0000000001", "nil"), func(b *streams.Builder) {
			b.Stream(lines).GroupByKey().WindowedBy(nil).Count("counts") // !
		}, nil},
		{"store that is nil", one(streams.ErrBadOption, "KSTREAM-PROCESSOR-0000000001", "handle is nil"), func(b *streams.Builder) {
			b.Stream(lines).Process(newEmpty, streams.WithStores(nil)) // !
		}, nil},
		{"options that are zero", one(streams.ErrNilFunction, "KTABLE-FILTER-0000000008", ""), func(b *streams.Builder) {
			b.Stream(lines, streams.SourceOnly{}).SelectKey(same, streams.RekeyOnly{}).Repartition("r", streams.RepartitionOnly{}, nil)
			b.Table(rows, streams.StoreKnob{}, nil, streams.NamedOption{}).Filter(nil) // !
		}, nil},

		// Serdes.
		{"no serde for a topic's value", one(streams.ErrNoSerde, "KSTREAM-SOURCE-0000000000", "streams_test.pair of the value"), func(b *streams.Builder) {
			b.Stream(pairs) // !
		}, nil},
		{"no serde for a table's value", one(streams.ErrNoSerde, "KTABLE-SOURCE-0000000002", "streams.ValueSerde"), func(b *streams.Builder) {
			b.Table(pairs) // !
		}, nil},
		{"no serde for a sink", one(streams.ErrNoSerde, "KSTREAM-SINK-0000000002", "streams.DefaultJSON"), func(b *streams.Builder) {
			b.Stream(lines).MapValues(makePair).To(pairs) // !
		}, nil},
		{"no serde for the key of a group", one(streams.ErrNoSerde, "KSTREAM-AGGREGATE-0000000002", "streams_test.pair of the key"), func(b *streams.Builder) {
			b.Stream(lines).GroupBy(byPair).Count("counts") // !
		}, nil},
		{"no serde for the value of a group", one(streams.ErrNoSerde, "KSTREAM-REDUCE-0000000003", "streams_test.pair of the value"), func(b *streams.Builder) {
			b.Stream(lines).MapValues(makePair).GroupBy(func(string, pair) string { return "" }).Reduce("last", func(_, p pair) pair { return p }) // !
		}, nil},
		{"no serde for an aggregate", one(streams.ErrNoSerde, "KSTREAM-AGGREGATE-0000000001", "streams_test.pair of the value"), func(b *streams.Builder) {
			b.Stream(lines).GroupByKey().Aggregate("pairs", func() pair { return pair{} }, func(p pair, _, _ string) pair { return p }) // !
		}, nil},
		{"no serde for a repartition", one(streams.ErrNoSerde, "by-pair", "streams_test.pair of the key"), func(b *streams.Builder) {
			b.Stream(lines).SelectKey(byPair).Repartition("by-pair") // !
		}, nil},
		{"no serde for a materialised table", one(streams.ErrNoSerde, "KTABLE-MAPVALUES-0000000003", "streams_test.pair of the value"), func(b *streams.Builder) {
			b.Table(lines).MapValues(makePair, streams.Materialized("pairs")) // !
		}, nil},
		{"no serde for a repartition before a join", one(streams.ErrNoSerde, "KSTREAM-JOIN-0000000009", "streams_test.pair of the value"), func(b *streams.Builder) {
			t := b.Table(rows)
			b.Stream(lines).MapValues(makePair).SelectKey(func(string, pair) string { return "" }).JoinTable(t, func(pair, string) string { return "" }) // !
		}, nil},
		{"no serde for a declared store", one(streams.ErrNoSerde, "KSTREAM-PROCESSOR-0000000001", "store pairs"), func(b *streams.Builder) {
			b.Stream(lines).Process(newEmpty, streams.WithStores(streams.NewKeyValueStore[string, pair]("pairs", serde.String, nil))) // !
		}, nil},
		{"value serde of another type", one(streams.ErrSerdeType, "KSTREAM-MAPVALUES-0000000001", "value serde for int64, where the operator has string"), func(b *streams.Builder) {
			b.Stream(lines).MapValues(strings.ToUpper, streams.ValueSerde(serde.Int64)) // !
		}, nil},
		{"key serde of another type", one(streams.ErrSerdeType, "KSTREAM-KEY-SELECT-0000000001", "key serde for int64"), func(b *streams.Builder) {
			b.Stream(lines).SelectKey(same, streams.KeySerde(serde.Int64)) // !
		}, nil},
		{"serde of another type for an operator that keeps key and value", one(streams.ErrSerdeType, "KSTREAM-FILTER-0000000001", "value serde for int64"), func(b *streams.Builder) {
			b.Stream(lines).Filter(keep, streams.ValueSerde(serde.Int64)) // !
		}, nil},
		{"serde of another type for a group", one(streams.ErrSerdeType, "KSTREAM-SOURCE-0000000000", "value serde for int64"), func(b *streams.Builder) {
			b.Stream(lines).GroupByKey(streams.ValueSerde(serde.Int64)).Count("counts") // !
		}, nil},
		{"serde of another type for an aggregate", one(streams.ErrSerdeType, "KSTREAM-AGGREGATE-0000000001", "value serde for string, where the operator has int64"), func(b *streams.Builder) {
			b.Stream(lines).GroupByKey().Count("counts", streams.ValueSerde(serde.String)) // !
		}, nil},
		{"serde of another type for a materialised table", one(streams.ErrSerdeType, "KTABLE-MAPVALUES-0000000003", "value serde for int64"), func(b *streams.Builder) {
			b.Table(lines).MapValues(strings.ToUpper, streams.Materialized("upper"), streams.ValueSerde(serde.Int64)) // !
		}, nil},
		{"serde of another type for a sink", one(streams.ErrSerdeType, "KSTREAM-SINK-0000000001", "key serde for int64"), func(b *streams.Builder) {
			b.Stream(lines).To(rows, streams.KeySerde(serde.Int64)) // !
		}, nil},
		{"serde that is nil", one(streams.ErrNoSerde, "KSTREAM-MAPVALUES-0000000001", "the one given is nil"), func(b *streams.Builder) {
			b.Stream(lines).MapValues(strings.ToUpper, streams.ValueSerde[string](nil)) // !
		}, nil},

		// Names.
		{"bad topic name", one(streams.ErrBadName, "KSTREAM-SOURCE-0000000000", `"two words"`), func(b *streams.Builder) {
			b.Stream(streams.NewTopic("two words", serde.String, serde.String)).To(rows) // !
		}, nil},
		{"topic without a name", one(streams.ErrBadName, "KTABLE-SOURCE-0000000001", "it is empty"), func(b *streams.Builder) {
			b.Table(streams.Topic[string, string]{}, streams.Materialized("rows")) // !
		}, nil},
		{"bad sink name", one(streams.ErrBadName, "KSTREAM-SINK-0000000001", `".."`), func(b *streams.Builder) {
			b.Stream(lines).To(streams.NewTopic("..", serde.String, serde.String)) // !
		}, nil},
		{"bad operator name", one(streams.ErrBadName, "grün", "letters, digits"), func(b *streams.Builder) {
			b.Stream(lines).Filter(keep, streams.Named("grün")).To(rows) // !
		}, nil},
		{"bad name of a group", one(streams.ErrBadName, "a/b", "letters, digits"), func(b *streams.Builder) {
			b.Stream(lines).GroupByKey(streams.Named("a/b")).Count("counts") // !
		}, nil},
		{"bad name of a branch", one(streams.ErrBadName, "split-a b", "letters, digits"), func(b *streams.Builder) {
			b.Stream(lines).Split(streams.Named("split-")).Branch(keep, streams.Named("a b")).To(rows) // !
		}, nil},
		{"bad store name", one(streams.ErrBadName, "KSTREAM-AGGREGATE-0000000002", `"a b"`), func(b *streams.Builder) {
			b.Stream(lines).GroupBy(same).Count("a b").ToStream().To(counts) // !
		}, nil},
		{"bad name of a repartition", one(streams.ErrBadName, "a b", `"a b-repartition"`), func(b *streams.Builder) {
			b.Stream(lines).Repartition("a b").To(rows) // !
		}, nil},
		{"bad name of a declared store", one(streams.ErrBadName, "KSTREAM-PROCESSOR-0000000001", "it is empty"), func(b *streams.Builder) {
			b.Stream(lines).Process(newEmpty, streams.WithStores(streams.NewKeyValueStore("", serde.String, serde.String))) // !
		}, nil},
		{"name that is too long", one(streams.ErrBadName, strings.Repeat("n", 250), "longer than 249"), func(b *streams.Builder) {
			b.Stream(lines).Peek(func(string, string) {}, streams.Named(strings.Repeat("n", 250))) // !
		}, nil},
		{"operator name used twice", one(streams.ErrDuplicateName, "twice", "streams/misuse_test.go:"), func(b *streams.Builder) {
			s := b.Stream(lines).Filter(keep, streams.Named("twice"))
			s.MapValues(makePair, streams.Named("twice")).MapValues(func(pair) string { return "" }).To(rows) // !
		}, nil},
		{"store name used twice", one(streams.ErrDuplicateName, "KSTREAM-REDUCE-0000000002", `store "counts"`), func(b *streams.Builder) {
			g := b.Stream(lines).GroupByKey()
			g.Count("counts")
			g.Reduce("counts", func(a, _ string) string { return a }) // !
		}, nil},
		{"store name of a table used twice", one(streams.ErrDuplicateName, "KTABLE-FILTER-0000000002", `store "rows"`), func(b *streams.Builder) {
			b.Table(rows, streams.Materialized("rows")).Filter(keep, streams.Materialized("rows")) // !
		}, nil},
		{"repartition name used twice", one(streams.ErrDuplicateName, "again", "again-repartition"), func(b *streams.Builder) {
			s := b.Stream(lines)
			s.Repartition("again").To(rows)
			s.Repartition("again").To(rows) // !
		}, nil},
		{"names required", []mistake{
			{streams.ErrNameRequired, "KSTREAM-AGGREGATE-0000000002", "store KSTREAM-AGGREGATE-STATE-STORE-0000000001"},
			{streams.ErrNameRequired, "KSTREAM-REDUCE-0000000005", "repartition topic"},
			{streams.ErrNameRequired, "KSTREAM-REDUCE-0000000005", "store KSTREAM-REDUCE-STATE-STORE"},
			{streams.ErrNameRequired, "KSTREAM-REPARTITION-0000000009", "repartition topic"},
			{streams.ErrNameRequired, "KTABLE-SOURCE-0000000015", "store rows-STATE-STORE"},
		}, func(b *streams.Builder) {
			s := b.Stream(lines)
			s.GroupByKey().Count(streams.Unnamed)                                          // !
			s.GroupBy(same).Reduce(streams.Unnamed, func(a, _ string) string { return a }) // ! !
			s.Repartition(streams.Unnamed)                                                 // !
			t := b.Table(rows)                                                             // !
			s.JoinTable(t, joined)
			s.GroupBy(same).Count("named").Filter(func(string, int64) bool { return true })
		}, streams.RequireNames},

		// Stores.
		{"store in two ways", one(streams.ErrStoreConflict, "KSTREAM-PROCESSOR-0000000002", `"numbers"`), func(b *streams.Builder) {
			s := b.Stream(lines)
			s.Process(newEmpty, streams.WithStores(numbers))
			s.Process(newEmpty, streams.WithStores(streams.NewKeyValueStore("numbers", serde.String, serde.String))) // !
		}, nil},
		{"store with other options", one(streams.ErrStoreConflict, "KSTREAM-PROCESSOR-0000000002", `"numbers"`), func(b *streams.Builder) {
			s := b.Stream(lines)
			s.Process(newEmpty, streams.WithStores(numbers))
			s.Process(newEmpty, streams.WithStores(streams.NewKeyValueStore("numbers", serde.String, serde.Int64, streams.InMemory))) // !
		}, nil},
		{"store of an operator declared again", one(streams.ErrStoreConflict, "KSTREAM-PROCESSOR-0000000002", `"numbers"`), func(b *streams.Builder) {
			s := b.Stream(lines)
			s.GroupByKey().Count("numbers")
			s.Process(newEmpty, streams.WithStores(numbers)) // !
		}, nil},
		{"store of a processor taken by an operator", one(streams.ErrStoreConflict, "KSTREAM-AGGREGATE-0000000002", "handle of the table"), func(b *streams.Builder) {
			s := b.Stream(lines)
			s.Process(newEmpty, streams.WithStores(numbers))
			s.GroupByKey().Count("numbers") // !
		}, nil},
		{"store of a table that has none", one(streams.ErrBadOption, "KSTREAM-PROCESSOR-0000000005", "streams.Materialized"), func(b *streams.Builder) {
			t := b.Table(rows).Filter(keep)
			b.Stream(lines).Process(newEmpty, streams.WithStores(t.Store())) // !
		}, nil},
		{"retention of a store without windows", one(streams.ErrBadOption, "KSTREAM-AGGREGATE-0000000001", "no windows"), func(b *streams.Builder) {
			b.Stream(lines).GroupByKey().Count("counts", streams.Retention(time.Hour)) // !
		}, nil},
		{"retention of a declared store without windows", one(streams.ErrBadOption, "KSTREAM-PROCESSOR-0000000001", "no windows"), func(b *streams.Builder) {
			b.Stream(lines).Process(newEmpty, streams.WithStores(streams.NewKeyValueStore("kv", serde.String, serde.String, streams.Retention(1)))) // !
		}, nil},
		{"window store without a size", one(streams.ErrBadWindow, "KSTREAM-PROCESSOR-0000000001", "below one millisecond"), func(b *streams.Builder) {
			b.Stream(lines).Process(newEmpty, streams.WithStores(streams.NewWindowStore("w", serde.String, serde.String, time.Microsecond))) // !
		}, nil},
		{"window store with a short retention", one(streams.ErrBadWindow, "KSTREAM-PROCESSOR-0000000001", "below the window size"), func(b *streams.Builder) {
			b.Stream(lines).Process(newEmpty, streams.WithStores(streams.NewWindowStore("w", serde.String, serde.String, time.Hour, streams.Retention(time.Minute)))) // !
		}, nil},

		// Windows, F-046, F-080, F-081.
		{"window without a size", one(streams.ErrBadWindow, "KSTREAM-AGGREGATE-0000000001", "size 0s"), func(b *streams.Builder) {
			b.Stream(lines).GroupByKey().WindowedBy(window.Tumbling(0)).Count("counts") // !
		}, nil},
		{"window that was never made", one(streams.ErrBadWindow, "KSTREAM-AGGREGATE-0000000001", "size 0s"), func(b *streams.Builder) {
			b.Stream(lines).GroupByKey().WindowedBy(window.FixedWindows{}).Count("counts") // !
		}, nil},
		{"hop of nothing", one(streams.ErrBadWindow, "KSTREAM-AGGREGATE-0000000001", "advance 1µs"), func(b *streams.Builder) {
			b.Stream(lines).GroupByKey().WindowedBy(window.Hopping(time.Hour, time.Microsecond)).Count("counts") // !
		}, nil},
		{"hop longer than the window", one(streams.ErrBadWindow, "KSTREAM-REDUCE-0000000001", "fall between"), func(b *streams.Builder) {
			b.Stream(lines).GroupByKey().WindowedBy(window.Hopping(time.Minute, time.Hour)).Reduce("last", func(_, v string) string { return v }) // !
		}, nil},
		{"negative grace", one(streams.ErrBadWindow, "KSTREAM-AGGREGATE-0000000001", "grace -1s"), func(b *streams.Builder) {
			b.Stream(lines).GroupByKey().WindowedBy(window.Tumbling(time.Hour).Grace(-time.Second)).Count("counts") // !
		}, nil},
		{"size and grace beyond all time", one(streams.ErrBadWindow, "KSTREAM-AGGREGATE-0000000001", "too long"), func(b *streams.Builder) {
			b.Stream(lines).GroupByKey().WindowedBy(window.Tumbling(math.MaxInt64).Grace(math.MaxInt64)).Count("counts") // !
		}, nil},
		{"retention below size and grace", one(streams.ErrBadWindow, "KSTREAM-AGGREGATE-0000000001", "1h1m0s"), func(b *streams.Builder) {
			b.Stream(lines).GroupByKey().WindowedBy(window.Tumbling(time.Hour).Grace(time.Minute)).Count("counts", streams.Retention(time.Hour)) // !
		}, nil},
		{"windows with one mistake used twice", []mistake{
			{streams.ErrBadWindow, "KSTREAM-AGGREGATE-0000000001", "size 0s"}, {streams.ErrBadWindow, "KSTREAM-AGGREGATE-0000000002", "size 0s"},
		}, func(b *streams.Builder) {
			w := b.Stream(lines).GroupByKey().WindowedBy(window.Tumbling(0))
			w.Count("a") // !
			w.Count("b") // !
		}, nil},

		// Topics.
		{"topic read with other types", one(streams.ErrTopicTaken, "KSTREAM-SOURCE-0000000002", "other types at streams/misuse_test.go:"), func(b *streams.Builder) {
			b.Stream(lines).To(rows)
			b.Stream(streams.NewTopic("lines", serde.String, serde.Int64)).To(counts) // !
		}, nil},
		{"topic read with another reset", one(streams.ErrTopicTaken, "KSTREAM-SOURCE-0000000001", "another reset"), func(b *streams.Builder) {
			b.Stream(lines)
			b.Stream(lines, streams.ResetTo(streams.Latest)) // !
		}, nil},
		{"topic read as stream and table", one(streams.ErrTopicTaken, "KSTREAM-SOURCE-0000000002", `"lines" is read by KSTREAM-SOURCE-0000000000`), func(b *streams.Builder) {
			b.Stream(lines)
			b.Table(lines) // !
		}, nil},
		{"topic read as table twice", one(streams.ErrTopicTaken, "KSTREAM-SOURCE-0000000004", `"rows" is read by`), func(b *streams.Builder) {
			b.Table(rows)
			b.Table(rows) // !
		}, nil},
		{"sources that share some topics", one(streams.ErrTopicTaken, "KSTREAM-SOURCE-0000000001", `"lines" is read by`), func(b *streams.Builder) {
			b.Stream(lines.And("more"))
			b.Stream(lines) // !
		}, nil},
		{"topic named twice in a source", one(streams.ErrTopicTaken, "KSTREAM-SOURCE-0000000000", `"lines"`), func(b *streams.Builder) {
			b.Stream(lines.And("lines")) // !
		}, nil},
		{"cycle: an internal topic that feeds itself", one(streams.ErrTopicTaken, "loop-repartition-source", `"loop-repartition" is read by`), func(b *streams.Builder) {
			b.Stream(streams.NewTopic("loop-repartition", serde.String, serde.String)).Repartition("loop") // !
		}, nil},
		{"unequal partition counts in a join", one(streams.ErrCopartition, "two-repartition-source", `"two-repartition" has 2 partitions and "one-repartition"`), func(b *streams.Builder) {
			t := b.Stream(rows).Repartition("one", streams.Partitions(1)).ToTable()
			b.Stream(lines).Repartition("two", streams.Partitions(2)).JoinTable(t, joined) // !
		}, nil},
		{"topic of no partitions", one(streams.ErrBadOption, "none", "0 partitions"), func(b *streams.Builder) {
			b.Stream(lines).Repartition("none", streams.Partitions(0)) // !
		}, nil},
		{"topic of more partitions than there are", one(streams.ErrBadOption, "many", "4294967297 partitions"), func(b *streams.Builder) {
			b.Stream(lines).Repartition("many", streams.Partitions(1<<32+1)) // !
		}, nil},
		{"partitioner of other types", one(streams.ErrBadOption, "KSTREAM-SINK-0000000001", "stream is of string and string"), func(b *streams.Builder) {
			b.Stream(lines).To(rows, streams.PartitionBy(func(streams.Record[string, int64], int) streams.Placement { return streams.Nowhere })) // !
		}, nil},
		{"partitioner of other types at a repartition", one(streams.ErrBadOption, "r", "stream is of string and string"), func(b *streams.Builder) {
			b.Stream(lines).Repartition("r", streams.PartitionBy(func(streams.Record[int64, string], int) streams.Placement { return streams.Nowhere })) // !
		}, nil},
		{"partitioner of other types at a route", one(streams.ErrBadOption, "KSTREAM-SINK-0000000001", "stream is of string and string"), func(b *streams.Builder) {
			b.Stream(lines).Route(func(streams.Record[string, string], streams.Origin) string { return "" }, // !
				streams.PartitionBy(func(streams.Record[int64, string], int) streams.Placement { return streams.Nowhere }))
		}, nil},
		{"reset that goes forward", one(streams.ErrBadOption, "KSTREAM-SOURCE-0000000000", "-1h0m0s"), func(b *streams.Builder) {
			b.Stream(lines, streams.ResetTo(streams.AgoAtStart(-time.Hour))) // !
		}, nil},
		{"policy that does not exist", one(streams.ErrBadOption, "KTABLE-SOURCE-0000000002", "timestamp policy 9"), func(b *streams.Builder) {
			b.Table(rows, streams.OnInvalidTimestamp(9)) // !
		}, nil},

		// Handles.
		{"merge with a stream of another builder", one(streams.ErrOtherBuilder, "KSTREAM-MERGE-0000000001", "KSTREAM-SOURCE-0000000000"), func(b *streams.Builder) {
			b.Stream(lines).Merge(streams.NewBuilder().Stream(rows)).To(rows) // !
		}, nil},
		{"join with a table of another builder", one(streams.ErrOtherBuilder, "KSTREAM-LEFTJOIN-0000000001", "KTABLE-SOURCE-0000000002"), func(b *streams.Builder) {
			b.Stream(lines).LeftJoinTable(streams.NewBuilder().Table(rows), leftJoined).To(rows) // !
		}, nil},
		{"store of another builder", one(streams.ErrOtherBuilder, "KSTREAM-PROCESSVALUES-0000000001", `"elsewhere"`), func(b *streams.Builder) {
			b.Stream(lines).ProcessValues(newFixed, streams.WithStores(streams.NewBuilder().Stream(lines).GroupByKey().Count("elsewhere").Store())) // !
		}, nil},
		{"branch after default", one(streams.ErrUnfinishedSplit, "KSTREAM-BRANCH-00000000012", ""), func(b *streams.Builder) {
			sp := b.Stream(lines).Split()
			sp.Default().To(rows)
			sp.Branch(keep).To(rows) // !
		}, nil},
		{"default twice", one(streams.ErrUnfinishedSplit, "KSTREAM-BRANCH-00000000010", ""), func(b *streams.Builder) {
			sp := b.Stream(lines).Split()
			sp.Default().To(rows)
			sp.Default().To(rows) // !
		}, nil},

		// Joins of streams, joins of tables, grouped tables.
		{"join of streams without a function", one(streams.ErrNilFunction, "KSTREAM-MERGE-0000000006", ""), func(b *streams.Builder) {
			b.Stream(lines).Join[string, string](b.Stream(rows), nil, window.Within(time.Minute)) // !
		}, nil},
		{"join with a nil stream", one(streams.ErrBadOption, "settle-merge", "stream is nil"), func(b *streams.Builder) {
			b.Stream(lines).LeftJoin(nil, leftJoined, window.Within(time.Minute), streams.Named("settle")).To(rows) // !
		}, nil},
		{"join with a stream of another builder", one(streams.ErrOtherBuilder, "KSTREAM-MERGE-0000000005", ""), func(b *streams.Builder) {
			b.Stream(lines).Join(streams.NewBuilder().Stream(rows), joined, window.Within(time.Minute)).To(rows) // !
		}, nil},
		{"join windows that end before they begin", one(streams.ErrBadWindow, "KSTREAM-MERGE-0000000006", "ends 1m0s before it begins"), func(b *streams.Builder) {
			b.Stream(lines).Join(b.Stream(rows), joined, window.Within(0).Before(-time.Hour).After(59*time.Minute)) // !
		}, nil},
		{"join windows beyond all time", one(streams.ErrBadWindow, "KSTREAM-MERGE-0000000006", "too long together"), func(b *streams.Builder) {
			b.Stream(lines).Join(b.Stream(rows), joined, window.Within(math.MaxInt64)) // !
		}, nil},
		{"join windows with a negative grace", one(streams.ErrBadWindow, "KSTREAM-MERGE-0000000006", "grace -1ns"), func(b *streams.Builder) {
			b.Stream(lines).Join(b.Stream(rows), joined, window.Within(time.Hour).Grace(-1)) // !
		}, nil},
		{"no serde for a side of a join", one(streams.ErrNoSerde, "KSTREAM-MERGE-0000000007", "streams_test.pair of the value"), func(b *streams.Builder) {
			b.Stream(lines).Join(b.Stream(rows).MapValues(makePair), func(v string, _ pair) string { return v }, window.Within(time.Hour)) // !
		}, nil},
		{"serde of another type for the other side", one(streams.ErrSerdeType, "KSTREAM-MERGE-0000000006", "value serde for int64, where the operator has string"), func(b *streams.Builder) {
			b.Stream(lines).Join(b.Stream(rows), joined, window.Within(time.Hour), streams.OtherValueSerde(serde.Int64)) // !
		}, nil},
		{"store names of joins used twice", []mistake{
			{streams.ErrDuplicateName, "KSTREAM-MERGE-0000000011", `store "pairs-this-join-store"`},
			{streams.ErrDuplicateName, "KSTREAM-MERGE-0000000011", `store "pairs-other-join-store"`},
		}, func(b *streams.Builder) {
			s, other := b.Stream(lines), b.Stream(rows)
			s.Join(other, joined, window.Within(time.Hour), streams.StoreName("pairs"))
			s.Join(other, joined, window.Within(time.Hour), streams.StoreName("pairs")) // ! !
		}, nil},
		{"join of tables without a function", one(streams.ErrNilFunction, "KTABLE-MERGE-0000000006", ""), func(b *streams.Builder) {
			b.Table(lines).Join[string, string](b.Table(rows), nil) // !
		}, nil},
		{"outer join with a nil table", one(streams.ErrBadOption, "KTABLE-MERGE-0000000003", "table is nil"), func(b *streams.Builder) {
			b.Table(lines).OuterJoin[string, string](nil, func(v string, _ bool, _ string, _ bool) string { return v }).ToStream().To(rows) // !
		}, nil},
		{"join with a table of another program", one(streams.ErrOtherBuilder, "KTABLE-MERGE-0000000003", "KTABLE-SOURCE-0000000002"), func(b *streams.Builder) {
			b.Table(lines).LeftJoin(streams.NewBuilder().Table(rows), leftJoined).ToStream().To(rows) // !
		}, nil},
		{"grouped table without functions", []mistake{
			{streams.ErrNilFunction, "KTABLE-SELECT-0000000003", ""}, {streams.ErrNilFunction, "KTABLE-REDUCE-0000000006", ""},
			{streams.ErrNilFunction, "KTABLE-AGGREGATE-0000000009", ""},
		}, func(b *streams.Builder) {
			g := b.Table(lines).GroupBy[string, string](nil)                                                          // !
			g.Reduce("a", func(a, _ string) string { return a }, nil)                                                 // !
			g.Aggregate("b", nil, func(a, _, _ string) string { return a }, func(a, _, _ string) string { return a }) // !
		}, nil},
		{"no serde for a grouped table", one(streams.ErrNoSerde, "KTABLE-AGGREGATE-0000000006", "streams_test.pair of the value"), func(b *streams.Builder) {
			b.Table(lines).GroupBy(func(k, _ string) (string, pair) { return k, pair{} }).Count("groups") // !
		}, nil},
		{"partitions of a joined table", one(streams.ErrCopartition, "t-repartition-source", "3 partitions"), func(b *streams.Builder) {
			s := b.Stream(lines).Repartition("s", streams.Partitions(2))
			s.Join(b.Stream(rows).
				Repartition("t", streams.Partitions(3)), // !
				joined, window.Within(time.Hour))
		}, nil},

		// Foreign-key joins, global tables, versioned tables.
		{"foreign-key join without functions", one(streams.ErrNilFunction, "KTABLE-FK-JOIN-OUTPUT-0000000018", ""), func(b *streams.Builder) {
			b.Table(lines).JoinForeign[string, string, string](b.Table(rows), nil, nil) // !
		}, nil},
		{"foreign-key join with a nil table", one(streams.ErrBadOption, "label-result", "table is nil"), func(b *streams.Builder) {
			b.Table(lines).LeftJoinForeign(nil, foreign, leftJoined, streams.Named("label")).ToStream().To(rows) // !
		}, nil},
		{"foreign-key join with a table of another builder", one(streams.ErrOtherBuilder, "KTABLE-FK-JOIN-OUTPUT-0000000015", "KTABLE-SOURCE-0000000002"), func(b *streams.Builder) {
			b.Table(lines).JoinForeign(streams.NewBuilder().Table(rows), foreign, joined).ToStream().To(rows) // !
		}, nil},
		{"partitioners of other types", one(streams.ErrBadOption, "KTABLE-FK-JOIN-OUTPUT-0000000018", "where the table's key is string"), func(b *streams.Builder) {
			b.Table(lines).JoinForeign(b.Table(rows), foreign, joined, // !
				streams.TablePartitioners(func(string, int) int { return 0 }, func(int64, int) int { return 0 }))
		}, nil},
		{"names required of a foreign-key join", one(streams.ErrNameRequired, "KTABLE-FK-JOIN-OUTPUT-0000000016", "streams.Named"), func(b *streams.Builder) {
			b.Table(lines, streams.Materialized("lines")).JoinForeign(b.Table(rows, streams.Materialized("rows")), foreign, joined) // !
		}, streams.RequireNames},
		{"global join without functions", one(streams.ErrNilFunction, "KSTREAM-LEFTJOIN-0000000004", ""), func(b *streams.Builder) {
			b.Stream(lines).JoinGlobal[string, string, string](b.GlobalTable(rows), nil, nil) // !
		}, nil},
		{"global join with a nil table", one(streams.ErrBadOption, "KSTREAM-LEFTJOIN-0000000001", "global table is nil"), func(b *streams.Builder) {
			b.Stream(lines).LeftJoinGlobal(nil, same, leftJoined).To(rows) // !
		}, nil},
		{"global join with a table of another builder", one(streams.ErrOtherBuilder, "KSTREAM-LEFTJOIN-0000000001", "global table"), func(b *streams.Builder) {
			b.Stream(lines).JoinGlobal(streams.NewBuilder().GlobalTable(rows), same, joined).To(rows) // !
		}, nil},
		{"global store that is nil", one(streams.ErrBadOption, "KTABLE-SOURCE-0000000001", "store is nil"), func(b *streams.Builder) {
			b.GlobalStore(nil, rows, func() loader { return loader{} }) // !
		}, nil},
		{"global store without a processor", one(streams.ErrNilFunction, "KTABLE-SOURCE-0000000001", ""), func(b *streams.Builder) {
			b.GlobalStore(numbers, rows, (func() loader)(nil)) // !
		}, nil},
		{"global topic that is read as a stream", one(streams.ErrTopicTaken, "KSTREAM-SOURCE-0000000002", `"rows" is read by`), func(b *streams.Builder) {
			b.Stream(rows)
			b.GlobalTable(rows) // !
		}, nil},
		{"global store with the name of another", one(streams.ErrDuplicateName, "KTABLE-SOURCE-0000000003", `store "taken"`), func(b *streams.Builder) {
			b.Stream(lines).GroupByKey().Count("taken")
			b.GlobalTable(rows, streams.Materialized("taken")) // !
		}, nil},

		// Whole programs.
		{"several mistakes, one of an operator with a name", []mistake{
			{streams.ErrBadName, "KSTREAM-SOURCE-0000000000", `"my lines"`},
			{streams.ErrNilFunction, "only-long", ""},
			{streams.ErrSerdeType, "KSTREAM-MAPVALUES-0000000002", "value serde for int64"},
			{streams.ErrNoSerde, "KSTREAM-AGGREGATE-0000000004", "streams_test.pair of the key"},
			{streams.ErrBadWindow, "KSTREAM-AGGREGATE-0000000004", "size -1h0m0s"},
			{streams.ErrDuplicateName, "only-long", "name is taken"},
			{streams.ErrTopicTaken, "KSTREAM-SOURCE-0000000014", `"rows" is read by`},
		}, func(b *streams.Builder) {
			long := b.Stream(streams.NewTopic("my lines", serde.String, serde.String)). // !
													Filter(nil, streams.Named("only-long")).                    // !
													MapValues(strings.ToUpper, streams.ValueSerde(serde.Int64)) // !
			long.GroupBy(byPair).
				WindowedBy(window.Tumbling(-time.Hour)).
				Count("counts") // ! !
			t := b.Table(rows)
			long.Filter(keep, streams.Named("only-long")). // !
									JoinTable(t, joined).
									To(lines)
			b.Stream(rows).To(lines) // !
		}, nil},
		{"default serde that is nil", one(streams.ErrNoSerde, "NewBuilder", "streams.DefaultSerde is nil"), func(b *streams.Builder) {
			b.Stream(lines).To(rows) // the last mark of the file is that of the NewBuilder below
		}, streams.DefaultSerde[pair](nil)},
	}
}

// marked has the numbers of the lines of this file that end in "// !", each as often as it has marks, in order.
func marked(t *testing.T) (lines []int) {
	t.Helper()
	source, err := os.ReadFile("misuse_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(string(source), "\n") {
		_, marks, ok := strings.Cut(line, "// !")
		if ok && strings.Trim(marks, " !") == "" {
			for range 1 + strings.Count(marks, "!") {
				lines = append(lines, i+1)
			}
		}
	}
	return lines
}

// Every misuse is found at Build, once, with its operator, its line and its cause, and none panics. F-037, F-038, F-040, F-041, F-045, F-046, F-095.
func TestMisuse(t *testing.T) {
	lines := marked(t)
	for _, c := range misuses() {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			at := lines[:len(c.want)]
			lines = lines[len(c.want):]
			got := mistakes(t, c)
			for i := range max(len(got), len(c.want)) {
				switch {
				case i >= len(c.want):
					t.Errorf("too much: %v", got[i])
					continue
				case i >= len(got):
					t.Errorf("not found: %v at %s in line %d", c.want[i].err, c.want[i].op, at[i])
					continue
				}
				e, want := got[i], c.want[i]
				if !errors.Is(e, want.err) {
					t.Errorf("%v: it should be %q", e, want.err)
				}
				if e.Operator != want.op {
					t.Errorf("%v: it should name %q", e, want.op)
				}
				if line := "streams/misuse_test.go:" + strconv.Itoa(at[i]); e.At != line {
					t.Errorf("%v: it should be at %s", e, line)
				}
				if !strings.Contains(e.Err.Error(), want.says) {
					t.Errorf("%v: it should say %q", e, want.says)
				}
				if !strings.HasPrefix(e.Error(), e.Operator+" ("+e.At+"): ") {
					t.Errorf("%v: operator and line should come first", e)
				}
			}
		})
	}
	if len(lines) > 0 {
		t.Errorf("lines %v are marked, and no case has them", lines)
	}
}

// mistakes builds a program and takes the error apart.
func mistakes(t *testing.T, c misuse) (all []*streams.BuildError) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil {
			t.Fatalf("it panics: %v", r)
		}
	}()
	b := streams.NewBuilder(c.option) // !
	c.program(b)
	_, err := b.Build()
	if err == nil {
		return nil
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok {
		t.Fatalf("%v is not a joined error", err)
	}
	for _, err := range joined.Unwrap() {
		e, ok := errors.AsType[*streams.BuildError](err)
		if !ok {
			t.Fatalf("%v is a %T", err, err)
		}
		all = append(all, e)
	}
	return all
}

// What is wrong with a program as a whole has no operator.
func TestMisuseOfBuild(t *testing.T) {
	if _, err := streams.NewBuilder().Build(); !errors.Is(err, streams.ErrNoSource) {
		t.Errorf("without a source: %v", err)
	}
	b := streams.NewBuilder()
	b.Stream(lines).To(streams.NewTopic("rows", serde.String, serde.String))
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	before := topology.Describe()
	if _, err := b.Build(); !errors.Is(err, streams.ErrClosed) {
		t.Errorf("the second Build: %v", err)
	}
	b.Stream(counts).To(counts)
	if _, err := b.Build(); !errors.Is(err, streams.ErrClosed) {
		t.Errorf("Build after one more operator: %v", err)
	}
	if after := topology.Describe(); after != before {
		t.Errorf("the topology changed after it was built:\n%s", after)
	}
}

// errors.As finds the first mistake of a program, and the text has all of them, a line each.
func TestBuildErrorText(t *testing.T) {
	b := streams.NewBuilder()
	b.Stream(lines).Filter(nil, streams.Named("first")).Peek(nil, streams.Named("second"))
	_, err := b.Build()
	e, ok := errors.AsType[*streams.BuildError](err)
	if !ok || e.Operator != "first" {
		t.Errorf("the first is %v", e)
	}
	text := strings.Split(fmt.Sprint(err), "\n")
	if !slices.EqualFunc(text, []string{"first (streams/misuse_test.go:", "second (streams/misuse_test.go:"}, strings.HasPrefix) {
		t.Errorf("got %q", text)
	}
}
