package golden_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/streams/window"
)

func text(name string) streams.Topic[string, string] {
	return streams.NewTopic(name, serde.String, serde.String)
}

func counts(name string) streams.Topic[string, int64] {
	return streams.NewTopic(name, serde.String, serde.Int64)
}

func in(b *streams.Builder) *streams.Stream[string, string] { return b.Stream(text("in")) }

// The functions of the programs. None of them is ever called.
func all[V any](string, V) bool                             { return true }
func value(_, v string) string                              { return v }
func same(v string) string                                  { return v }
func swap(k, v string) (string, string)                     { return v, k }
func look(string, string)                                   {}
func concat(a, v string) string                             { return a + v }
func enrich(v, w string) string                             { return v + w }
func enrichLeft(v, w string, _ bool) string                 { return v + w }
func enrichOuter(v string, _ bool, w string, _ bool) string { return v + w }

type identity struct{}

func (identity) Transform(_ *streams.FixedKeyContext[string, string], _, v string, ok bool) (string, bool, error) {
	return v, ok, nil
}

func foreign(_, v string) (string, bool) { return v, true }

var within = window.Within(time.Second).Grace(time.Second)

func empty() string                                      { return "" }
func add(a, _, v string) string                          { return a + v }
func inner[V any](k window.Windowed[string], _ V) string { return k.Key }

func forward(ctx *streams.Context[string, string], r streams.Record[string, string]) error {
	ctx.Forward(r)
	return nil
}

func forwardValue(ctx *streams.FixedKeyContext[string, string], r streams.FixedKeyRecord[string, string]) error {
	ctx.Forward(r)
	return nil
}

// topologies are the programs of java/src/main/java/golden/Topologies.java, line by line.
var topologies = map[string]func(b *streams.Builder){
	"word_count": func(b *streams.Builder) {
		in(b).FlatMapValues(strings.Fields).GroupBy(value).Count("counts").ToStream().To(counts("out"))
	},
	"count_unnamed": func(b *streams.Builder) {
		in(b).GroupBy(value).Count(streams.Unnamed).ToStream().To(counts("out"))
	},
	"count_named_grouping": func(b *streams.Builder) {
		in(b).GroupBy(value, streams.Named("by-value")).Count("counts").ToStream().To(counts("out"))
	},
	"count_named_grouping_unnamed_store": func(b *streams.Builder) {
		in(b).GroupBy(value, streams.Named("by-value")).Count(streams.Unnamed).ToStream().To(counts("out"))
	},
	"count_named_operator": func(b *streams.Builder) {
		in(b).GroupBy(value).Count("counts", streams.Named("counting")).ToStream().To(counts("out"))
	},
	"count_named_operator_unnamed_store": func(b *streams.Builder) {
		in(b).GroupBy(value).Count(streams.Unnamed, streams.Named("counting")).ToStream().To(counts("out"))
	},
	"count_by_key": func(b *streams.Builder) {
		in(b).GroupByKey().Count("counts").ToStream().To(counts("out"))
	},
	"map_count": func(b *streams.Builder) {
		in(b).Map(swap).GroupByKey().Count("counts").ToStream().To(counts("out"))
	},
	"map_named_grouping": func(b *streams.Builder) {
		in(b).Map(swap).GroupByKey(streams.Named("swapped")).Count("counts").ToStream().To(counts("out"))
	},
	"select_key_filter_count": func(b *streams.Builder) {
		in(b).SelectKey(value).Filter(all).MapValues(same).GroupByKey().Count(streams.Unnamed).ToStream().To(counts("out"))
	},
	"two_aggregations_named_grouping": func(b *streams.Builder) {
		g := in(b).GroupBy(value, streams.Named("shared"))
		g.Count("counts").ToStream().To(counts("out"))
		g.Reduce("last", concat).ToStream().To(text("last-out"))
	},
	"two_aggregations_unnamed_grouping": func(b *streams.Builder) {
		g := in(b).GroupBy(value)
		g.Count(streams.Unnamed).ToStream().To(counts("out"))
		g.Reduce(streams.Unnamed, concat).ToStream().To(text("last-out"))
	},
	"reduce": func(b *streams.Builder) {
		in(b).GroupByKey().Reduce("joined", concat).ToStream().To(text("out"))
	},
	"reduce_unnamed": func(b *streams.Builder) {
		in(b).GroupBy(value).Reduce(streams.Unnamed, concat).ToStream().To(text("out"))
	},
	"aggregate": func(b *streams.Builder) {
		in(b).GroupByKey().Aggregate("joined", empty, add).ToStream().To(text("out"))
	},
	"aggregate_unnamed": func(b *streams.Builder) {
		in(b).GroupBy(value).Aggregate(streams.Unnamed, empty, add).ToStream().To(text("out"))
	},
	"tumbling_count": func(b *streams.Builder) {
		in(b).GroupByKey().WindowedBy(window.Tumbling(time.Minute).Grace(5 * time.Second)).
			Count("per-minute").
			ToStream().SelectKey(inner).To(counts("out"))
	},
	"hopping_count_unnamed": func(b *streams.Builder) {
		in(b).GroupBy(value).WindowedBy(window.Hopping(time.Minute, 20*time.Second)).
			Count(streams.Unnamed).
			ToStream().
			Filter(func(window.Windowed[string], int64) bool { return true }).
			Map(func(k window.Windowed[string], v int64) (string, int64) { return k.Key, v }).
			To(counts("out"))
	},
	"suppress_window": func(b *streams.Builder) {
		in(b).GroupByKey().WindowedBy(window.Tumbling(time.Minute)).Count("counts").
			Suppress(streams.UntilWindowCloses).ToStream().SelectKey(inner).To(counts("out"))
	},
	"suppress_named": func(b *streams.Builder) {
		in(b).GroupByKey().Count("counts").Suppress(streams.UntilTimeLimit(time.Second).MaxRecords(10), streams.Named("calm")).ToStream().To(counts("out"))
	},
	"suppress_unnamed_then_join": func(b *streams.Builder) {
		t := b.Table(text("in")).Suppress(streams.UntilTimeLimit(time.Second))
		b.Table(text("other")).Join(t, enrich).ToStream().To(text("out"))
	},
	"sessions_suppressed_named": func(b *streams.Builder) {
		in(b).GroupBy(value).SessionsBy(window.Session(time.Minute)).Reduce("joined", concat).
			Suppress(streams.UntilWindowCloses, streams.Named("last")).ToStream().SelectKey(inner).To(text("out"))
	},
	"sessions_count_unnamed": func(b *streams.Builder) {
		in(b).GroupByKey().SessionsBy(window.Session(time.Minute)).Count(streams.Unnamed).ToStream().SelectKey(inner).To(counts("out"))
	},
	"sliding_count_unnamed": func(b *streams.Builder) {
		in(b).GroupByKey().WindowedBy(window.Sliding(time.Minute)).Count(streams.Unnamed).ToStream().SelectKey(inner).To(counts("out"))
	},
	"cogroup": func(b *streams.Builder) {
		in(b).GroupByKey().Cogroup(add).Cogroup(b.Stream(text("other")).GroupByKey(), add).Aggregate("sums", empty).ToStream().To(text("out"))
	},
	"cogroup_unnamed": func(b *streams.Builder) {
		in(b).GroupByKey().Cogroup(add).Cogroup(b.Stream(text("other")).GroupByKey(), add).Aggregate(streams.Unnamed, empty).ToStream().To(text("out"))
	},
	"cogroup_of_one": func(b *streams.Builder) {
		in(b).GroupBy(value).Cogroup(add).Aggregate("sums", empty).ToStream().To(text("out"))
	},
	"cogroup_of_one_unnamed": func(b *streams.Builder) {
		in(b).GroupBy(value).Cogroup(add).Aggregate(streams.Unnamed, empty).Filter(all).ToStream().To(text("out"))
	},
	"cogroup_rekeyed": func(b *streams.Builder) {
		in(b).GroupBy(value, streams.Named("a")).Cogroup(add).Cogroup(b.Stream(text("other")).GroupByKey(), add).
			Cogroup(b.Stream(text("third")).Map(swap).GroupByKey(streams.Named("c")), add).Aggregate("sums", empty, streams.Named("fold")).ToStream().To(text("out"))
	},
	"cogroup_one_rekeyed": func(b *streams.Builder) {
		in(b).GroupByKey().Cogroup(add).Cogroup(b.Stream(text("other")).GroupBy(value), add).Aggregate("sums", empty).ToStream().To(text("out"))
	},
	"cogroup_twice": func(b *streams.Builder) {
		g := in(b).GroupBy(value, streams.Named("a")).Cogroup(add).Cogroup(b.Stream(text("other")).GroupByKey(), add)
		g.Aggregate("sums", empty).ToStream().To(text("out"))
		g.WindowedBy(window.Tumbling(time.Minute)).Aggregate("by-minute", empty).ToStream().SelectKey(inner).To(text("minutes"))
	},
	"cogroup_windowed": func(b *streams.Builder) {
		in(b).GroupByKey().Cogroup(add).Cogroup(b.Stream(text("other")).GroupBy(value), add).WindowedBy(window.Tumbling(time.Minute)).
			Aggregate("sums", empty).ToStream().SelectKey(inner).To(text("out"))
	},
	"cogroup_sliding": func(b *streams.Builder) {
		in(b).GroupByKey().Cogroup(add).Cogroup(b.Stream(text("other")).GroupByKey(), add).WindowedBy(window.Sliding(time.Minute)).
			Aggregate("sums", empty, streams.Named("fold")).ToStream().SelectKey(inner).To(text("out"))
	},
	"cogroup_sessions": func(b *streams.Builder) {
		in(b).GroupByKey().Cogroup(add).Cogroup(b.Stream(text("other")).GroupByKey(), add).SessionsBy(window.Session(time.Minute)).
			Aggregate("sums", empty, add).Suppress(streams.UntilWindowCloses).ToStream().SelectKey(inner).To(text("out"))
	},
	"cogroup_joined": func(b *streams.Builder) {
		t := in(b).GroupByKey().Cogroup(add).Cogroup(b.Stream(text("other")).GroupByKey(), add).Aggregate("sums", empty)
		b.Stream(text("third")).JoinTable(t, enrich).To(text("out"))
	},
	"windowed_reduce": func(b *streams.Builder) {
		in(b).GroupBy(value, streams.Named("g")).WindowedBy(window.Tumbling(time.Minute)).
			Reduce("latest", concat).ToStream().SelectKey(inner).To(text("out"))
	},
	"windowed_aggregate": func(b *streams.Builder) {
		in(b).GroupByKey().WindowedBy(window.Tumbling(time.Minute)).
			Aggregate("folded", empty, add, streams.Named("folding")).
			Filter(func(window.Windowed[string], string) bool { return true }).
			MapValues(same).
			ToStream().SelectKey(inner).To(text("out"))
	},
	"windowed_recount": func(b *streams.Builder) {
		in(b).GroupByKey().WindowedBy(window.Tumbling(time.Minute)).
			Count("first").
			ToStream().GroupBy(inner).Count("second").ToStream().To(counts("out"))
	},
	"table_to_stream": func(b *streams.Builder) {
		b.Table(text("t")).ToStream().To(text("out"))
	},
	"table_materialized": func(b *streams.Builder) {
		b.Table(text("t"), streams.Materialized("rows")).ToStream().To(text("out"))
	},
	"table_named": func(b *streams.Builder) {
		b.Table(text("t"), streams.Named("reader"), streams.Materialized("rows")).
			ToStream(streams.Named("changes")).To(text("out"), streams.Named("writer"))
	},
	"table_filter_map": func(b *streams.Builder) {
		b.Table(text("t")).Filter(all).MapValues(same).FilterNot(all).ToStream().To(text("out"))
	},
	"table_filter_materialized": func(b *streams.Builder) {
		b.Table(text("t")).Filter(all, streams.Materialized("kept")).MapValues(same).ToStream().To(text("out"))
	},
	"table_map_materialized": func(b *streams.Builder) {
		b.Table(text("t")).MapValues(same, streams.Named("mapping"), streams.Materialized("mapped")).Filter(all).ToStream().To(text("out"))
	},
	"join_table": func(b *streams.Builder) {
		t := b.Table(text("t"))
		in(b).JoinTable(t, enrich).To(text("out"))
	},
	"left_join_table": func(b *streams.Builder) {
		s := in(b)
		t := b.Table(text("t"), streams.Materialized("rows"))
		s.LeftJoinTable(t, enrichLeft).To(text("out"))
	},
	"map_join_table": func(b *streams.Builder) {
		s := in(b).Map(swap)
		t := b.Table(text("t"))
		s.JoinTable(t, enrich).To(text("out"))
	},
	"map_left_join_table_named": func(b *streams.Builder) {
		s := in(b).Map(swap)
		t := b.Table(text("t"))
		s.LeftJoinTable(t, enrichLeft, streams.Named("enrich")).To(text("out"))
	},
	"join_derived_table": func(b *streams.Builder) {
		t := b.Table(text("t")).Filter(all).MapValues(same)
		in(b).JoinTable(t, enrich).To(text("out"))
	},
	"join_aggregate": func(b *streams.Builder) {
		s := in(b)
		t := b.Stream(text("other")).GroupByKey().Count(streams.Unnamed)
		s.JoinTable(t, func(v string, n int64) string { return fmt.Sprint(v, n) }).To(text("out"))
	},
	"join_two_tables": func(b *streams.Builder) {
		t := b.Table(text("t"))
		u := b.Table(text("u"), streams.Materialized("u-rows"))
		in(b).JoinTable(t, enrich).LeftJoinTable(u, enrichLeft).To(text("out"))
	},
	"stateless": func(b *streams.Builder) {
		s := in(b).Filter(all).FilterNot(all).Peek(look)
		s.Merge(b.Stream(text("more"))).FlatMap(func(k, v string, emit func(string, string)) { emit(k, v) }).To(text("out"))
		s.ForEach(look)
	},
	"split_unnamed": func(b *streams.Builder) {
		sp := in(b).Split()
		first, second, rest := sp.Branch(all), sp.Branch(all), sp.Default()
		first.To(text("out-1"))
		second.To(text("out-2"))
		rest.To(text("out-0"))
	},
	"split_named": func(b *streams.Builder) {
		sp := in(b).Split(streams.Named("split-"))
		first, second, third := sp.Branch(all, streams.Named("first")), sp.Branch(all), sp.Branch(all, streams.Named("third"))
		rest := sp.Default(streams.Named("rest"))
		first.MapValues(same).To(text("out-first"))
		second.To(text("out-2"))
		third.To(text("out-third"))
		rest.ForEach(look)
	},
	"split_no_default": func(b *streams.Builder) {
		in(b).Split().Branch(all).To(text("out"))
	},
	"repartition_named": func(b *streams.Builder) {
		in(b).Repartition("again").To(text("out"))
	},
	"repartition_unnamed": func(b *streams.Builder) {
		in(b).Map(swap).Repartition(streams.Unnamed).GroupByKey().Count(streams.Unnamed).ToStream().To(counts("out"))
	},
	"repartition_partitions": func(b *streams.Builder) {
		in(b).Repartition("wide", streams.Partitions(12)).MapValues(same).To(text("out"))
	},
	"repartition_partitions_unnamed": func(b *streams.Builder) {
		in(b).Repartition(streams.Unnamed, streams.Partitions(3)).To(text("out"))
	},
	"diamond": func(b *streams.Builder) {
		s := in(b)
		left := s.MapValues(same).Filter(all)
		right := s.Filter(all)
		left.Merge(right).To(text("out"))
	},
	"diamonds": func(b *streams.Builder) {
		s := in(b)
		m := s.MapValues(same).Merge(s.Filter(all)).Merge(s)
		n := m.Peek(look).Merge(m.FilterNot(all)).Merge(s.Peek(look))
		n.To(text("out"))
		m.To(text("middle"))
	},
	"fan_out": func(b *streams.Builder) {
		s := in(b)
		for i := range 14 {
			s.Filter(all).To(text(fmt.Sprintf("out-%d", i)))
		}
	},
	"fan_out_uneven": func(b *streams.Builder) {
		s := in(b)
		deep := s.MapValues(same)
		s.To(text("copy"))
		two := s.Peek(look, streams.Named("zebra"))
		three := s.Peek(look, streams.Named("ant"))
		for range 4 {
			deep = deep.MapValues(same)
			deep.ForEach(look)
		}
		three.To(text("three"))
		two.Filter(all, streams.Named("yak")).To(text("two"))
		two.Filter(all, streams.Named("bee")).To(text("two-b"))
		two.Merge(three).Merge(deep).To(text("all"))
	},
	"several_subtopologies": func(b *streams.Builder) {
		b.Stream(text("zoo")).Filter(all).To(text("a"))
		b.Stream(text("bar")).GroupBy(value).Count("bars").ToStream().To(counts("b"))
		b.Table(text("apples"), streams.Materialized("rows")).
			ToStream().SelectKey(value).GroupByKey().Count(streams.Unnamed).ToStream().To(counts("c"))
		b.Stream(text("foo")).Repartition("aa").To(text("d"))
	},
	"many_sources": func(b *streams.Builder) {
		for i := range 12 {
			b.Stream(text(fmt.Sprintf("in-%d", i))).To(text(fmt.Sprintf("out-%d", i)))
		}
	},
	"chain_of_repartitions": func(b *streams.Builder) {
		in(b).SelectKey(value).Repartition("one").SelectKey(value).Repartition("two").
			SelectKey(value).GroupByKey().Count(streams.Unnamed).ToStream().To(counts("out"))
	},
	"shared_store": func(b *streams.Builder) {
		seen := streams.NewKeyValueStore("seen", serde.String, serde.String)
		in(b).ProcessFunc(forward, streams.Named("one"), streams.WithStores(seen)).To(text("out"))
		b.Stream(text("other")).ProcessFunc(forward, streams.Named("two"), streams.WithStores(seen)).To(text("out-two"))
	},
	"process_values": func(b *streams.Builder) {
		second := streams.NewKeyValueStore("b-store", serde.String, serde.String)
		first := streams.NewKeyValueStore("a-store", serde.String, serde.String)
		in(b).ProcessValuesFunc(forwardValue, streams.WithStores(second, first)).GroupByKey().Count(streams.Unnamed).ToStream().To(counts("out"))
	},
	"process_then_count": func(b *streams.Builder) {
		in(b).ProcessFunc(forward).GroupByKey().Count(streams.Unnamed).ToStream().To(counts("out"))
	},
	"process_reads_table": func(b *streams.Builder) {
		rows := b.Table(text("t"), streams.Materialized("rows"))
		in(b).ProcessFunc(forward, streams.WithStores(rows.Store())).To(text("out"))
	},
	"several_topics": func(b *streams.Builder) {
		b.Stream(text("c").And("a", "b")).To(text("out"))
	},
	"same_topic_twice": func(b *streams.Builder) {
		b.Stream(text("in")).Filter(all).To(text("out"))
		b.Stream(text("in")).MapValues(same).To(text("out-two"))
	},
	"to_table": func(b *streams.Builder) {
		in(b).ToTable().ToStream().To(text("out"))
	},
	"to_table_materialized": func(b *streams.Builder) {
		in(b).ToTable(streams.Named("latest"), streams.Materialized("rows")).Filter(all).ToStream().To(text("out"))
	},
	"map_to_table": func(b *streams.Builder) {
		in(b).Map(swap).ToTable().ToStream().To(text("out"))
	},
	"map_to_table_named": func(b *streams.Builder) {
		in(b).Map(swap).ToTable(streams.Named("latest"), streams.Materialized("rows")).ToStream().To(text("out"))
	},
	"to_table_joined": func(b *streams.Builder) {
		t := b.Stream(text("t")).ToTable()
		in(b).JoinTable(t, enrich).To(text("out"))
	},
	"named_everywhere": func(b *streams.Builder) {
		s := b.Stream(text("in"), streams.Named("source"))
		m := s.Filter(all, streams.Named("keep")).
			MapValues(same, streams.Named("map-values")).
			Map(swap, streams.Named("map")).
			Peek(look, streams.Named("peek")).
			FlatMapValues(strings.Fields, streams.Named("flat-map-values")).
			SelectKey(value, streams.Named("select-key"))
		m.Merge(s, streams.Named("merge")).ForEach(look, streams.Named("for-each"))
		m.GroupByKey(streams.Named("grouping")).Count("counts", streams.Named("count")).
			Filter(all, streams.Named("keep-rows")).
			ToStream(streams.Named("to-stream")).
			To(counts("out"), streams.Named("sink"))
		t := b.Table(text("t"), streams.Named("table"), streams.Materialized("rows"))
		s.JoinTable(t, enrich, streams.Named("join")).To(text("joined"))
	},
	"tables_join": func(b *streams.Builder) {
		b.Table(text("a")).Join(b.Table(text("b")), enrich).ToStream().To(text("out"))
	},
	"tables_left_join": func(b *streams.Builder) {
		b.Table(text("a")).LeftJoin(b.Table(text("b")), enrichLeft).ToStream().To(text("out"))
	},
	"tables_outer_join": func(b *streams.Builder) {
		b.Table(text("a")).OuterJoin(b.Table(text("b")), enrichOuter).ToStream().To(text("out"))
	},
	"tables_join_materialized": func(b *streams.Builder) {
		b.Table(text("a")).Join(b.Table(text("b")), enrich, streams.Materialized("joined"), streams.ValueSerde(serde.String)).ToStream().To(text("out"))
	},
	"tables_join_named": func(b *streams.Builder) {
		b.Table(text("a")).LeftJoin(b.Table(text("b")), enrichLeft, streams.Named("joining")).ToStream().To(text("out"))
	},
	"tables_join_derived": func(b *streams.Builder) {
		a, c := b.Table(text("a")).Filter(all), b.Table(text("b")).MapValues(same)
		a.Join(c, enrich).LeftJoin(b.Table(text("c"), streams.Materialized("rows")), enrichLeft).ToStream().To(text("out"))
	},
	"tables_join_aggregate": func(b *streams.Builder) {
		sums := in(b).GroupBy(value).Reduce("sums", concat)
		sums.OuterJoin(b.Table(text("b")), enrichOuter).Filter(all).ToStream().To(text("out"))
	},
	"table_joined_with_itself": func(b *streams.Builder) {
		t := b.Table(text("a"))
		t.Join(t.MapValues(same), enrich).ToStream().To(text("out"))
	},
	"table_join_then_stream_join": func(b *streams.Builder) {
		joined := b.Table(text("a")).OuterJoin(b.Table(text("b")), enrichOuter)
		in(b).JoinTable(joined, enrich).To(text("out"))
	},
	"table_group_count": func(b *streams.Builder) {
		b.Table(text("a")).GroupBy(swap).Count("counts").ToStream().To(counts("out"))
	},
	"table_group_unnamed": func(b *streams.Builder) {
		b.Table(text("a")).GroupBy(swap).Count(streams.Unnamed).ToStream().To(counts("out"))
	},
	"table_group_reduce_unnamed": func(b *streams.Builder) {
		b.Table(text("a")).GroupBy(swap).Reduce(streams.Unnamed, concat, concat).ToStream().To(text("out"))
	},
	"table_group_named": func(b *streams.Builder) {
		g := b.Table(text("a")).Filter(all).GroupBy(swap, streams.Named("grouping"))
		g.Count("counts", streams.Named("counting")).ToStream().To(counts("out"))
		g.Aggregate("sums", empty, add, add, streams.ValueSerde(serde.String)).ToStream().To(text("sums"))
	},
	"table_group_twice": func(b *streams.Builder) {
		g := b.Table(text("a")).MapValues(same).GroupBy(swap)
		g.Count("counts").ToStream().To(counts("out"))
		g.Reduce("sums", concat, concat).Filter(all).ToStream().To(text("sums"))
	},
	"table_group_of_join": func(b *streams.Builder) {
		b.Table(text("a")).LeftJoin(b.Table(text("b")), enrichLeft).GroupBy(swap).Count("counts").ToStream().To(counts("out"))
	},
	"streams_join": func(b *streams.Builder) {
		in(b).Join(b.Stream(text("other")), enrich, within).To(text("out"))
	},
	"streams_left_join": func(b *streams.Builder) {
		in(b).LeftJoin(b.Stream(text("other")), enrichLeft, within).To(text("out"))
	},
	"streams_outer_join": func(b *streams.Builder) {
		in(b).OuterJoin(b.Stream(text("other")), enrichOuter, within).To(text("out"))
	},
	"streams_join_named": func(b *streams.Builder) {
		in(b).OuterJoin(b.Stream(text("other")), enrichOuter, within, streams.Named("joining"), streams.StoreName("kept")).To(text("out"))
		in(b).Join(b.Stream(text("other")), enrich, within, streams.Named("inner")).To(text("out"))
		in(b).LeftJoin(b.Stream(text("other")), enrichLeft, within, streams.StoreName("left")).To(text("out"))
	},
	"streams_join_rekeyed": func(b *streams.Builder) {
		in(b).Map(swap).Join(b.Stream(text("other")).SelectKey(value), enrich, within).To(text("out"))
	},
	"streams_join_rekeyed_named": func(b *streams.Builder) {
		in(b).Map(swap).LeftJoin(b.Stream(text("other")).SelectKey(value), enrichLeft, within, streams.Named("joining")).To(text("out"))
	},
	"streams_join_rekeyed_twice": func(b *streams.Builder) {
		s, other := in(b).Map(swap), b.Stream(text("other"))
		s.Join(other, enrich, within).To(text("out"))
		s.LeftJoin(other, enrichLeft, within).GroupByKey().Count("counts").ToStream().To(counts("counts"))
	},
	"streams_join_then_table": func(b *streams.Builder) {
		s := in(b).Map(swap)
		s.Join(b.Stream(text("other")), enrich, within).JoinTable(b.Table(text("t")), enrich).To(text("out"))
		s.JoinTable(b.Table(text("u")), enrich).To(text("more"))
	},
	"stream_joined_with_itself": func(b *streams.Builder) {
		s := in(b)
		s.Join(s, enrich, within).To(text("out"))
	},
	"foreign_join": func(b *streams.Builder) {
		b.Table(text("a")).JoinForeign(b.Table(text("b")), foreign, enrich).ToStream().To(text("out"))
	},
	"foreign_left_join_named": func(b *streams.Builder) {
		b.Table(text("a")).LeftJoinForeign(b.Table(text("b")), foreign, enrichLeft, streams.Named("fk")).ToStream().To(text("out"))
	},
	"foreign_join_materialized": func(b *streams.Builder) {
		b.Table(text("a")).JoinForeign(b.Table(text("b")), foreign, enrich, streams.Materialized("joined"), streams.ValueSerde(serde.String)).
			Filter(all).ToStream().To(text("out"))
	},
	"foreign_join_chain": func(b *streams.Builder) {
		b.Table(text("a")).Filter(all).JoinForeign(b.Table(text("b")).MapValues(same), foreign, enrich).
			LeftJoinForeign(b.Table(text("c")), foreign, enrichLeft).GroupBy(swap).Count("counts").ToStream().To(counts("out"))
	},
	"foreign_join_of_aggregate": func(b *streams.Builder) {
		in(b).GroupBy(value).Reduce("sums", concat).JoinForeign(b.Table(text("b")), foreign, enrich).Join(b.Table(text("c")), enrich).
			ToStream().To(text("out"))
	},
	"global_table_join": func(b *streams.Builder) {
		in(b).JoinGlobal(b.GlobalTable(text("g")), value, enrich).To(text("out"))
	},
	"global_tables": func(b *streams.Builder) {
		g, h := b.GlobalTable(text("g"), streams.Materialized("rows")), b.GlobalTable(text("h"), streams.Named("named"))
		s := in(b).Map(swap).LeftJoinGlobal(g, value, enrichLeft)
		s.JoinGlobal(h, value, enrich, streams.Named("joining"), streams.ValueSerde(serde.String)).GroupByKey().Count("counts").ToStream().To(counts("out"))
		b.Stream(text("more")).To(text("out"))
	},
	"global_table_after_streams": func(b *streams.Builder) {
		s, m := in(b), b.Stream(text("more"))
		s.JoinGlobal(b.GlobalTable(text("g")), value, enrich).To(text("out"))
		m.To(text("out"))
	},
	"table_transform_values": func(b *streams.Builder) {
		t := b.Table(text("a")).TransformValues(func() identity { return identity{} }, nil)
		t.ToStream().To(text("out"))
		in(b).JoinTable(t.Filter(all), enrich).To(text("joined"))
	},
	"self_join": func(b *streams.Builder) {
		s := in(b)
		s.Join(s, enrich, within).To(text("out"))
		s.To(text("copy"))
	},
	"self_join_two_handles": func(b *streams.Builder) {
		in(b).LeftJoin(in(b), enrichLeft, within, streams.Named("joining"), streams.StoreName("kept")).To(text("out"))
	},
	"self_join_repartitioned": func(b *streams.Builder) {
		s := in(b).SelectKey(value)
		s.OuterJoin(s, enrichOuter, within).GroupByKey().Count("counts").ToStream().To(counts("out"))
		s.Join(b.Stream(text("other")), enrich, within).To(text("more"))
	},
	"merge_topics_aggregates": func(b *streams.Builder) {
		s := in(b).SelectKey(value)
		s.GroupByKey().Count("counts").ToStream().To(counts("out"))
		s.GroupByKey().Reduce("sums", concat).ToStream().To(text("more"))
		s.To(text("copy"))
	},
	"merge_topics_aggregate_and_join": func(b *streams.Builder) {
		s := in(b).Map(swap)
		s.GroupByKey().Count("counts").ToStream().To(counts("out"))
		s.Join(b.Stream(text("other")), enrich, within).To(text("more"))
	},
	"merge_topics_named": func(b *streams.Builder) {
		s := in(b).SelectKey(value)
		s.GroupByKey(streams.Named("first")).Count("counts").ToStream().To(counts("out"))
		s.GroupByKey(streams.Named("second")).Reduce("sums", concat).ToStream().To(text("more"))
	},
	"merge_topics_values_between": func(b *streams.Builder) {
		s := in(b).SelectKey(value)
		s.MapValues(same).GroupByKey(streams.Named("mapped")).Count("counts").ToStream().To(counts("out"))
		s.Filter(all).GroupByKey().Reduce("sums", concat).ToStream().To(text("more"))
		s.Peek(look).GroupByKey().Count("peeked").ToStream().To(counts("peeked-out"))
	},
	"merge_topics_two_changes": func(b *streams.Builder) {
		s := in(b).SelectKey(value)
		s.GroupByKey().Count("counts").ToStream().To(counts("out"))
		again := s.Map(swap)
		again.GroupByKey().Reduce("sums", concat).ToStream().To(text("more"))
		again.GroupByKey().Count("again").ToStream().To(counts("again-out"))
	},
	"merge_topics_merged": func(b *streams.Builder) {
		s := in(b).SelectKey(value).Merge(b.Stream(text("other")).Map(swap))
		s.GroupByKey().Count("counts").ToStream().To(counts("out"))
		s.GroupByKey().Reduce("sums", concat).ToStream().To(text("more"))
	},
	"merge_topics_merged_one_changed": func(b *streams.Builder) {
		s := in(b).SelectKey(value).Merge(b.Stream(text("other")))
		s.GroupByKey().Count("counts").ToStream().To(counts("out"))
		s.GroupByKey().Reduce("sums", concat).ToStream().To(text("more"))
	},
	"merge_topics_explicit": func(b *streams.Builder) {
		s := in(b).SelectKey(value)
		s.Repartition("mine").GroupByKey().Count("counts").ToStream().To(counts("out"))
		s.GroupByKey().Reduce("sums", concat).ToStream().To(text("more"))
	},
	"merge_topics_process": func(b *streams.Builder) {
		s := in(b).ProcessFunc(forward, streams.KeySerde(serde.String), streams.ValueSerde(serde.String))
		s.GroupByKey().Count("counts").ToStream().To(counts("out"))
		s.ToTable().ToStream().To(text("more"))
	},
	"merge_topics_group_by": func(b *streams.Builder) {
		s := in(b)
		s.GroupBy(value).Count("counts").ToStream().To(counts("out"))
		s.GroupBy(value).Reduce("sums", concat).ToStream().To(text("more"))
	},
	"merge_topics_table_lookup": func(b *streams.Builder) {
		s := in(b).Map(swap)
		s.GroupByKey(streams.Named("g")).Count("counts").ToStream().To(counts("out"))
		s.LeftJoinTable(b.Table(text("a")), enrichLeft).To(text("more"))
	},
	"merge_topics_cogroup": func(b *streams.Builder) {
		s := in(b).Map(swap)
		s.GroupByKey(streams.Named("g")).Cogroup(add).Cogroup(b.Stream(text("other")).GroupByKey(), add).Aggregate("sums", empty).ToStream().To(text("out"))
		s.GroupByKey().Count("counts").ToStream().To(counts("more"))
	},
}

// optimised are the options of the programs whose names begin so.
var optimised = map[string]streams.BuilderOption{"self_join": streams.SingleStoreSelfJoin, "merge_topics": streams.MergeRepartitionTopics}

// Every program is described as Java Kafka Streams describes it, byte for byte. F-028, F-038, F-039, F-040, F-041, F-042, F-043, F-044, F-047, F-057. F-001.
func TestDescribe(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(topologies)) {
		t.Run(name, func(t *testing.T) {
			want, err := os.ReadFile(filepath.Join("testdata", name+".txt"))
			if err != nil {
				t.Fatal(err)
			}
			var opts []streams.BuilderOption
			for prefix, o := range optimised {
				if strings.HasPrefix(name, prefix) {
					opts = append(opts, o)
				}
			}
			b := streams.NewBuilder(opts...)
			topologies[name](b)
			top, err := b.Build()
			if err != nil {
				t.Fatal(err)
			}
			if got := top.Describe(); got != string(want) {
				t.Errorf("Java has\n%s\nMillrace has\n%s\nfirst difference: %s", want, got, difference(string(want), got))
			}
		})
	}
}

// difference is the first line in which two texts differ.
func difference(java, ours string) string {
	a, b := strings.Split(java, "\n"), strings.Split(ours, "\n")
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("line %d\n  java %q\n  ours %q", i+1, a[i], b[i])
		}
	}
	return fmt.Sprintf("java has %d lines, ours %d", len(a), len(b))
}

// No file of Java's is left over without a program.
func TestEveryFileHasAProgram(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if name := strings.TrimSuffix(filepath.Base(f), ".txt"); topologies[name] == nil {
			t.Errorf("%s was described by Java, and there is no such program in Go", name)
		}
	}
	if len(files) != len(topologies) {
		t.Errorf("%d files and %d programs", len(files), len(topologies))
	}
}
