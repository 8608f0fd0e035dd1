package golden;

import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.function.Consumer;

import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.kstream.CogroupedKStream;
import org.apache.kafka.streams.kstream.KGroupedStream;
import org.apache.kafka.streams.kstream.SessionWindows;
import org.apache.kafka.streams.kstream.SlidingWindows;
import org.apache.kafka.streams.kstream.Suppressed;
import org.apache.kafka.streams.processor.api.FixedKeyProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/** Writes the description of each topology into the folder that is the one argument. The same programs, in Go, are in golden_test.go. */
public final class Topologies {
    static final Consumed<String, String> STRINGS = Consumed.with(Serdes.String(), Serdes.String());
    static final Produced<String, String> STRINGS_OUT = Produced.with(Serdes.String(), Serdes.String());
    static final Produced<String, Long> COUNTS_OUT = Produced.with(Serdes.String(), Serdes.Long());

    static KStream<String, String> in(StreamsBuilder b) {
        return b.stream("in", STRINGS);
    }

    static final class Identity implements ValueTransformerWithKey<String, String, String> {
        @Override
        public void init(org.apache.kafka.streams.processor.ProcessorContext context) {
        }

        @Override
        public String transform(String key, String value) {
            return value;
        }

        @Override
        public void close() {
        }
    }

    static final JoinWindows WITHIN = JoinWindows.ofTimeDifferenceAndGrace(Duration.ofSeconds(1), Duration.ofSeconds(1));
    static final StreamJoined<String, String, String> JOINED = StreamJoined.with(Serdes.String(), Serdes.String(), Serdes.String());

    static KStream<String, String> other(StreamsBuilder b) {
        return b.stream("other", STRINGS);
    }

    static CogroupedKStream<String, String> both(StreamsBuilder b) {
        return in(b).groupByKey().cogroup(Topologies::add).cogroup(other(b).groupByKey(), Topologies::add);
    }

    static String add(String key, String value, String sum) {
        return sum + value;
    }

    static KTable<String, String> table(StreamsBuilder b, String topic) {
        return b.table(topic, STRINGS);
    }

    static String enrich(String v, String w) {
        return v + w;
    }

    static KeyValue<String, String> swap(String k, String v) {
        return KeyValue.pair(v, k);
    }

    static <S extends org.apache.kafka.streams.processor.StateStore> Materialized<String, String, S> stringsAs(String name) {
        return Materialized.<String, String, S>as(name).withKeySerde(Serdes.String()).withValueSerde(Serdes.String());
    }

    static final Map<String, Consumer<StreamsBuilder>> ALL = new LinkedHashMap<>();

    static {
        ALL.put("word_count", b -> in(b)
            .flatMapValues(v -> Arrays.asList(v.split(" ")))
            .groupBy((k, v) -> v)
            .count(Materialized.as("counts"))
            .toStream().to("out", COUNTS_OUT));
        ALL.put("count_unnamed", b -> in(b).groupBy((k, v) -> v).count().toStream().to("out", COUNTS_OUT));
        ALL.put("count_named_grouping", b -> in(b)
            .groupBy((k, v) -> v, Grouped.as("by-value"))
            .count(Materialized.as("counts"))
            .toStream().to("out", COUNTS_OUT));
        ALL.put("count_named_grouping_unnamed_store", b -> in(b)
            .groupBy((k, v) -> v, Grouped.as("by-value")).count().toStream().to("out", COUNTS_OUT));
        ALL.put("count_named_operator", b -> in(b)
            .groupBy((k, v) -> v).count(Named.as("counting"), Materialized.as("counts")).toStream().to("out", COUNTS_OUT));
        ALL.put("count_named_operator_unnamed_store", b -> in(b)
            .groupBy((k, v) -> v).count(Named.as("counting")).toStream().to("out", COUNTS_OUT));
        ALL.put("count_by_key", b -> in(b).groupByKey().count(Materialized.as("counts")).toStream().to("out", COUNTS_OUT));
        ALL.put("map_count", b -> in(b).map(Topologies::swap).groupByKey().count(Materialized.as("counts")).toStream().to("out", COUNTS_OUT));
        ALL.put("map_named_grouping", b -> in(b)
            .map(Topologies::swap).groupByKey(Grouped.as("swapped")).count(Materialized.as("counts")).toStream().to("out", COUNTS_OUT));
        ALL.put("select_key_filter_count", b -> in(b)
            .selectKey((k, v) -> v).filter((k, v) -> true).mapValues(v -> v).groupByKey().count().toStream().to("out", COUNTS_OUT));
        ALL.put("two_aggregations_named_grouping", b -> {
            KGroupedStream<String, String> g = in(b).groupBy((k, v) -> v, Grouped.as("shared"));
            g.count(Materialized.as("counts")).toStream().to("out", COUNTS_OUT);
            g.reduce((a, v) -> v, stringsAs("last")).toStream().to("last-out", STRINGS_OUT);
        });
        ALL.put("two_aggregations_unnamed_grouping", b -> {
            KGroupedStream<String, String> g = in(b).groupBy((k, v) -> v);
            g.count().toStream().to("out", COUNTS_OUT);
            g.reduce((a, v) -> v).toStream().to("last-out", STRINGS_OUT);
        });
        ALL.put("reduce", b -> in(b).groupByKey().reduce((a, v) -> a + v, stringsAs("joined")).toStream().to("out", STRINGS_OUT));
        ALL.put("reduce_unnamed", b -> in(b).groupBy((k, v) -> v).reduce((a, v) -> a + v).toStream().to("out", STRINGS_OUT));
        ALL.put("aggregate", b -> in(b)
            .groupByKey().aggregate(() -> "", (k, v, a) -> a + v, stringsAs("joined")).toStream().to("out", STRINGS_OUT));
        ALL.put("aggregate_unnamed", b -> in(b)
            .groupBy((k, v) -> v).aggregate(() -> "", (k, v, a) -> a + v).toStream().to("out", STRINGS_OUT));
        ALL.put("tumbling_count", b -> in(b)
            .groupByKey().windowedBy(TimeWindows.ofSizeAndGrace(Duration.ofMinutes(1), Duration.ofSeconds(5)))
            .count(Materialized.as("per-minute"))
            .toStream().selectKey((k, v) -> k.key()).to("out", COUNTS_OUT));
        ALL.put("hopping_count_unnamed", b -> in(b)
            .groupBy((k, v) -> v).windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofMinutes(1)).advanceBy(Duration.ofSeconds(20)))
            .count().toStream().filter((k, v) -> true).map((k, v) -> KeyValue.pair(k.key(), v)).to("out", COUNTS_OUT));
        ALL.put("suppress_window", b -> in(b)
            .groupByKey().windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofMinutes(1))).count(Materialized.as("counts"))
            .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()))
            .toStream().selectKey((k, v) -> k.key()).to("out", COUNTS_OUT));
        ALL.put("suppress_named", b -> in(b)
            .groupByKey().count(Materialized.as("counts"))
            .suppress(Suppressed.<String>untilTimeLimit(Duration.ofSeconds(1), Suppressed.BufferConfig.maxRecords(10).shutDownWhenFull()).withName("calm"))
            .toStream().to("out", COUNTS_OUT));
        ALL.put("suppress_unnamed_then_join", b -> {
            KTable<String, String> t = table(b, "in").suppress(Suppressed.untilTimeLimit(Duration.ofSeconds(1), Suppressed.BufferConfig.unbounded()));
            table(b, "other").join(t, Topologies::enrich).toStream().to("out", STRINGS_OUT);
        });
        ALL.put("sessions_suppressed_named", b -> in(b)
            .groupBy((k, v) -> v).windowedBy(SessionWindows.ofInactivityGapWithNoGrace(Duration.ofMinutes(1))).reduce((a, v) -> a + v, stringsAs("joined"))
            .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()).withName("last"))
            .toStream().selectKey((k, v) -> k.key()).to("out", STRINGS_OUT));
        ALL.put("sessions_count_unnamed", b -> in(b)
            .groupByKey().windowedBy(SessionWindows.ofInactivityGapWithNoGrace(Duration.ofMinutes(1))).count()
            .toStream().selectKey((k, v) -> k.key()).to("out", COUNTS_OUT));
        ALL.put("sliding_count_unnamed", b -> in(b)
            .groupByKey().windowedBy(SlidingWindows.ofTimeDifferenceWithNoGrace(Duration.ofMinutes(1))).count()
            .toStream().selectKey((k, v) -> k.key()).to("out", COUNTS_OUT));
        ALL.put("cogroup", b -> both(b).aggregate(() -> "", stringsAs("sums")).toStream().to("out", STRINGS_OUT));
        ALL.put("cogroup_unnamed", b -> both(b).aggregate(() -> "").toStream().to("out", STRINGS_OUT));
        ALL.put("cogroup_of_one", b -> in(b)
            .groupBy((k, v) -> v).cogroup(Topologies::add).aggregate(() -> "", stringsAs("sums")).toStream().to("out", STRINGS_OUT));
        ALL.put("cogroup_of_one_unnamed", b -> in(b)
            .groupBy((k, v) -> v).cogroup(Topologies::add).aggregate(() -> "").filter((k, v) -> true).toStream().to("out", STRINGS_OUT));
        ALL.put("cogroup_rekeyed", b -> in(b)
            .groupBy((k, v) -> v, Grouped.as("a")).cogroup(Topologies::add).cogroup(other(b).groupByKey(), Topologies::add)
            .cogroup(b.stream("third", STRINGS).map(Topologies::swap).groupByKey(Grouped.as("c")), Topologies::add)
            .aggregate(() -> "", Named.as("fold"), stringsAs("sums")).toStream().to("out", STRINGS_OUT));
        ALL.put("cogroup_one_rekeyed", b -> in(b)
            .groupByKey().cogroup(Topologies::add).cogroup(other(b).groupBy((k, v) -> v), Topologies::add)
            .aggregate(() -> "", stringsAs("sums")).toStream().to("out", STRINGS_OUT));
        ALL.put("cogroup_twice", b -> {
            CogroupedKStream<String, String> g = in(b)
                .groupBy((k, v) -> v, Grouped.as("a")).cogroup(Topologies::add).cogroup(other(b).groupByKey(), Topologies::add);
            g.aggregate(() -> "", stringsAs("sums")).toStream().to("out", STRINGS_OUT);
            g.windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofMinutes(1))).aggregate(() -> "", stringsAs("by-minute"))
                .toStream().selectKey((k, v) -> k.key()).to("minutes", STRINGS_OUT);
        });
        ALL.put("cogroup_windowed", b -> in(b)
            .groupByKey().cogroup(Topologies::add).cogroup(other(b).groupBy((k, v) -> v), Topologies::add)
            .windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofMinutes(1))).aggregate(() -> "", stringsAs("sums"))
            .toStream().selectKey((k, v) -> k.key()).to("out", STRINGS_OUT));
        ALL.put("cogroup_sliding", b -> both(b)
            .windowedBy(SlidingWindows.ofTimeDifferenceWithNoGrace(Duration.ofMinutes(1))).aggregate(() -> "", Named.as("fold"), stringsAs("sums"))
            .toStream().selectKey((k, v) -> k.key()).to("out", STRINGS_OUT));
        ALL.put("cogroup_sessions", b -> both(b)
            .windowedBy(SessionWindows.ofInactivityGapWithNoGrace(Duration.ofMinutes(1))).aggregate(() -> "", (k, x, y) -> x + y, stringsAs("sums"))
            .suppress(Suppressed.untilWindowCloses(Suppressed.BufferConfig.unbounded()))
            .toStream().selectKey((k, v) -> k.key()).to("out", STRINGS_OUT));
        ALL.put("cogroup_joined", b -> {
            KTable<String, String> t = both(b).aggregate(() -> "", stringsAs("sums"));
            b.stream("third", STRINGS).join(t, Topologies::enrich).to("out", STRINGS_OUT);
        });
        ALL.put("windowed_reduce", b -> in(b)
            .groupBy((k, v) -> v, Grouped.as("g")).windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofMinutes(1)))
            .reduce((a, v) -> v, stringsAs("latest")).toStream().selectKey((k, v) -> k.key()).to("out", STRINGS_OUT));
        ALL.put("windowed_aggregate", b -> in(b)
            .groupByKey().windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofMinutes(1)))
            .aggregate(() -> "", (k, v, a) -> a + v, Named.as("folding"), stringsAs("folded"))
            .filter((k, v) -> true).mapValues(v -> v).toStream().selectKey((k, v) -> k.key()).to("out", STRINGS_OUT));
        ALL.put("windowed_recount", b -> in(b)
            .groupByKey().windowedBy(TimeWindows.ofSizeWithNoGrace(Duration.ofMinutes(1)))
            .count(Materialized.as("first")).toStream()
            .groupBy((k, v) -> k.key(), Grouped.with(Serdes.String(), Serdes.Long())).count(Materialized.as("second")).toStream().to("out", COUNTS_OUT));
        ALL.put("table_to_stream", b -> b.table("t", STRINGS).toStream().to("out", STRINGS_OUT));
        ALL.put("table_materialized", b -> b.table("t", STRINGS, stringsAs("rows")).toStream().to("out", STRINGS_OUT));
        ALL.put("table_named", b -> b
            .table("t", Consumed.with(Serdes.String(), Serdes.String()).withName("reader"), stringsAs("rows"))
            .toStream(Named.as("changes")).to("out", Produced.with(Serdes.String(), Serdes.String()).withName("writer")));
        ALL.put("table_filter_map", b -> b
            .table("t", STRINGS).filter((k, v) -> true).mapValues(v -> v).filterNot((k, v) -> false).toStream().to("out", STRINGS_OUT));
        ALL.put("table_filter_materialized", b -> b
            .table("t", STRINGS).filter((k, v) -> true, stringsAs("kept")).mapValues(v -> v).toStream().to("out", STRINGS_OUT));
        ALL.put("table_map_materialized", b -> b
            .table("t", STRINGS).mapValues(v -> v, Named.as("mapping"), stringsAs("mapped")).filter((k, v) -> true).toStream().to("out", STRINGS_OUT));
        ALL.put("join_table", b -> {
            KTable<String, String> t = b.table("t", STRINGS);
            in(b).join(t, (v, w) -> v + w).to("out", STRINGS_OUT);
        });
        ALL.put("left_join_table", b -> {
            KStream<String, String> s = in(b);
            KTable<String, String> t = b.table("t", STRINGS, stringsAs("rows"));
            s.leftJoin(t, (v, w) -> v + w).to("out", STRINGS_OUT);
        });
        ALL.put("map_join_table", b -> {
            KStream<String, String> s = in(b).map(Topologies::swap);
            KTable<String, String> t = b.table("t", STRINGS);
            s.join(t, (v, w) -> v + w).to("out", STRINGS_OUT);
        });
        ALL.put("map_left_join_table_named", b -> {
            KStream<String, String> s = in(b).map(Topologies::swap);
            KTable<String, String> t = b.table("t", STRINGS);
            s.leftJoin(t, (v, w) -> v + w, Joined.with(Serdes.String(), Serdes.String(), Serdes.String(), "enrich")).to("out", STRINGS_OUT);
        });
        ALL.put("join_derived_table", b -> {
            KTable<String, String> t = b.table("t", STRINGS).filter((k, v) -> true).mapValues(v -> v);
            in(b).join(t, (v, w) -> v + w).to("out", STRINGS_OUT);
        });
        ALL.put("join_aggregate", b -> {
            KStream<String, String> s = in(b);
            KTable<String, Long> t = b.stream("other", STRINGS).groupByKey().count();
            s.join(t, (v, w) -> v + w).to("out", STRINGS_OUT);
        });
        ALL.put("join_two_tables", b -> {
            KTable<String, String> t = b.table("t", STRINGS);
            KTable<String, String> u = b.table("u", STRINGS, stringsAs("u-rows"));
            in(b).join(t, (v, w) -> v + w).leftJoin(u, (v, w) -> v + w).to("out", STRINGS_OUT);
        });
        ALL.put("stateless", b -> {
            KStream<String, String> s = in(b).filter((k, v) -> true).filterNot((k, v) -> false).peek((k, v) -> { });
            s.merge(b.stream("more", STRINGS)).flatMap((k, v) -> List.of(KeyValue.pair(k, v))).to("out", STRINGS_OUT);
            s.foreach((k, v) -> { });
        });
        ALL.put("split_unnamed", b -> {
            Map<String, KStream<String, String>> all = in(b).split().branch((k, v) -> true).branch((k, v) -> false).defaultBranch();
            for (String branch : List.of("1", "2", "0")) {
                all.get("KSTREAM-BRANCH-0000000001" + branch).to("out-" + branch, STRINGS_OUT);
            }
        });
        ALL.put("split_named", b -> {
            Map<String, KStream<String, String>> all = in(b).split(Named.as("split-"))
                .branch((k, v) -> true, Branched.as("first")).branch((k, v) -> false).branch((k, v) -> false, Branched.as("third"))
                .defaultBranch(Branched.as("rest"));
            all.get("split-first").mapValues(v -> v).to("out-first", STRINGS_OUT);
            all.get("split-2").to("out-2", STRINGS_OUT);
            all.get("split-third").to("out-third", STRINGS_OUT);
            all.get("split-rest").foreach((k, v) -> { });
        });
        ALL.put("split_no_default", b -> in(b).split().branch((k, v) -> true, Branched.withConsumer(s -> s.to("out", STRINGS_OUT))).noDefaultBranch());
        ALL.put("repartition_named", b -> in(b).repartition(Repartitioned.<String, String>as("again")
            .withKeySerde(Serdes.String()).withValueSerde(Serdes.String())).to("out", STRINGS_OUT));
        ALL.put("repartition_unnamed", b -> in(b)
            .map(Topologies::swap).repartition(Repartitioned.with(Serdes.String(), Serdes.String())).groupByKey().count().toStream().to("out", COUNTS_OUT));
        ALL.put("repartition_partitions", b -> in(b).repartition(Repartitioned.<String, String>as("wide").withNumberOfPartitions(12)
            .withKeySerde(Serdes.String()).withValueSerde(Serdes.String())).mapValues(v -> v).to("out", STRINGS_OUT));
        ALL.put("repartition_partitions_unnamed", b -> in(b).repartition(Repartitioned.<String, String>numberOfPartitions(3)
            .withKeySerde(Serdes.String()).withValueSerde(Serdes.String())).to("out", STRINGS_OUT));
        ALL.put("diamond", b -> {
            KStream<String, String> s = in(b);
            KStream<String, String> left = s.mapValues(v -> v).filter((k, v) -> true);
            KStream<String, String> right = s.filter((k, v) -> true);
            left.merge(right).to("out", STRINGS_OUT);
        });
        ALL.put("diamonds", b -> {
            KStream<String, String> s = in(b);
            KStream<String, String> m = s.mapValues(v -> v).merge(s.filter((k, v) -> true)).merge(s);
            KStream<String, String> n = m.peek((k, v) -> { }).merge(m.filterNot((k, v) -> false)).merge(s.peek((k, v) -> { }));
            n.to("out", STRINGS_OUT);
            m.to("middle", STRINGS_OUT);
        });
        ALL.put("fan_out", b -> {
            KStream<String, String> s = in(b);
            for (int i = 0; i < 14; i++) {
                s.filter((k, v) -> true).to("out-" + i, STRINGS_OUT);
            }
        });
        ALL.put("fan_out_uneven", b -> {
            KStream<String, String> s = in(b);
            KStream<String, String> deep = s.mapValues(v -> v);
            s.to("copy", STRINGS_OUT);
            KStream<String, String> two = s.peek((k, v) -> { }, Named.as("zebra"));
            KStream<String, String> three = s.peek((k, v) -> { }, Named.as("ant"));
            for (int i = 0; i < 4; i++) {
                deep = deep.mapValues(v -> v);
                deep.foreach((k, v) -> { });
            }
            three.to("three", STRINGS_OUT);
            two.filter((k, v) -> true, Named.as("yak")).to("two", STRINGS_OUT);
            two.filter((k, v) -> true, Named.as("bee")).to("two-b", STRINGS_OUT);
            two.merge(three).merge(deep).to("all", STRINGS_OUT);
        });
        ALL.put("several_subtopologies", b -> {
            b.stream("zoo", STRINGS).filter((k, v) -> true).to("a", STRINGS_OUT);
            b.stream("bar", STRINGS).groupBy((k, v) -> v).count(Materialized.as("bars")).toStream().to("b", COUNTS_OUT);
            b.table("apples", STRINGS, stringsAs("rows")).toStream().selectKey((k, v) -> v).groupByKey().count().toStream().to("c", COUNTS_OUT);
            b.stream("foo", STRINGS).repartition(Repartitioned.<String, String>as("aa")
                .withKeySerde(Serdes.String()).withValueSerde(Serdes.String())).to("d", STRINGS_OUT);
        });
        ALL.put("many_sources", b -> {
            for (int i = 0; i < 12; i++) {
                b.stream("in-" + i, STRINGS).to("out-" + i, STRINGS_OUT);
            }
        });
        ALL.put("chain_of_repartitions", b -> in(b)
            .selectKey((k, v) -> v).repartition(Repartitioned.<String, String>as("one").withKeySerde(Serdes.String()).withValueSerde(Serdes.String()))
            .selectKey((k, v) -> v).repartition(Repartitioned.<String, String>as("two").withKeySerde(Serdes.String()).withValueSerde(Serdes.String()))
            .selectKey((k, v) -> v).groupByKey().count().toStream().to("out", COUNTS_OUT));
        ALL.put("shared_store", b -> {
            b.addStateStore(Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore("seen"), Serdes.String(), Serdes.String()));
            in(b).process(Forward::new, Named.as("one"), "seen").to("out", STRINGS_OUT);
            b.stream("other", STRINGS).process(Forward::new, Named.as("two"), "seen").to("out-two", STRINGS_OUT);
        });
        ALL.put("process_values", b -> {
            b.addStateStore(Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore("b-store"), Serdes.String(), Serdes.String()));
            b.addStateStore(Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore("a-store"), Serdes.String(), Serdes.String()));
            in(b).processValues(ForwardValue::new, "b-store", "a-store").groupByKey().count().toStream().to("out", COUNTS_OUT);
        });
        ALL.put("process_then_count", b -> in(b).process(Forward::new).groupByKey(Grouped.with(Serdes.String(), Serdes.String())).count().toStream().to("out", COUNTS_OUT));
        ALL.put("process_reads_table", b -> {
            b.table("t", STRINGS, stringsAs("rows"));
            in(b).process(Forward::new, "rows").to("out", STRINGS_OUT);
        });
        ALL.put("several_topics", b -> b.stream(List.of("c", "a", "b"), STRINGS).to("out", STRINGS_OUT));
        ALL.put("same_topic_twice", b -> {
            b.stream("in", STRINGS).filter((k, v) -> true).to("out", STRINGS_OUT);
            b.stream("in", STRINGS).mapValues(v -> v).to("out-two", STRINGS_OUT);
        });
        ALL.put("to_table", b -> in(b).toTable().toStream().to("out", STRINGS_OUT));
        ALL.put("to_table_materialized", b -> in(b).toTable(Named.as("latest"), stringsAs("rows")).filter((k, v) -> true).toStream().to("out", STRINGS_OUT));
        ALL.put("map_to_table", b -> in(b)
            .map(Topologies::swap).toTable(Materialized.with(Serdes.String(), Serdes.String())).toStream().to("out", STRINGS_OUT));
        ALL.put("map_to_table_named", b -> in(b).map(Topologies::swap).toTable(Named.as("latest"), stringsAs("rows")).toStream().to("out", STRINGS_OUT));
        ALL.put("to_table_joined", b -> {
            KTable<String, String> t = b.stream("t", STRINGS).toTable();
            in(b).join(t, (v, w) -> v + w).to("out", STRINGS_OUT);
        });
        ALL.put("named_everywhere", b -> {
            KStream<String, String> s = b.stream("in", Consumed.with(Serdes.String(), Serdes.String()).withName("source"));
            KStream<String, String> m = s.filter((k, v) -> true, Named.as("keep"))
                .mapValues(v -> v, Named.as("map-values"))
                .map(Topologies::swap, Named.as("map"))
                .peek((k, v) -> { }, Named.as("peek"))
                .flatMapValues(v -> List.of(v), Named.as("flat-map-values"))
                .selectKey((k, v) -> v, Named.as("select-key"));
            m.merge(s, Named.as("merge")).foreach((k, v) -> { }, Named.as("for-each"));
            m.groupByKey(Grouped.as("grouping")).count(Named.as("count"), Materialized.as("counts"))
                .filter((k, v) -> true, Named.as("keep-rows"))
                .toStream(Named.as("to-stream"))
                .to("out", Produced.with(Serdes.String(), Serdes.Long()).withName("sink"));
            KTable<String, String> t = b.table("t", Consumed.with(Serdes.String(), Serdes.String()).withName("table"), stringsAs("rows"));
            s.join(t, (v, w) -> v + w, Joined.as("join")).to("joined", STRINGS_OUT);
        });
        ALL.put("tables_join", b -> table(b, "a").join(table(b, "b"), Topologies::enrich).toStream().to("out", STRINGS_OUT));
        ALL.put("tables_left_join", b -> table(b, "a").leftJoin(table(b, "b"), Topologies::enrich).toStream().to("out", STRINGS_OUT));
        ALL.put("tables_outer_join", b -> table(b, "a").outerJoin(table(b, "b"), Topologies::enrich).toStream().to("out", STRINGS_OUT));
        ALL.put("tables_join_materialized", b -> table(b, "a")
            .join(table(b, "b"), Topologies::enrich, Topologies.<KeyValueStore<Bytes, byte[]>>stringsAs("joined")).toStream().to("out", STRINGS_OUT));
        ALL.put("tables_join_named", b -> table(b, "a")
            .leftJoin(table(b, "b"), Topologies::enrich, Named.as("joining")).toStream().to("out", STRINGS_OUT));
        ALL.put("tables_join_derived", b -> {
            KTable<String, String> a = table(b, "a").filter((k, v) -> true);
            KTable<String, String> c = table(b, "b").mapValues(v -> v);
            a.join(c, Topologies::enrich).leftJoin(b.table("c", STRINGS, Materialized.as("rows")), Topologies::enrich).toStream().to("out", STRINGS_OUT);
        });
        ALL.put("tables_join_aggregate", b -> {
            KTable<String, String> sums = in(b).groupBy((k, v) -> v).reduce((x, y) -> x + y, Materialized.as("sums"));
            sums.outerJoin(table(b, "b"), Topologies::enrich).filter((k, v) -> true).toStream().to("out", STRINGS_OUT);
        });
        ALL.put("table_joined_with_itself", b -> {
            KTable<String, String> t = table(b, "a");
            t.join(t.mapValues(v -> v), Topologies::enrich).toStream().to("out", STRINGS_OUT);
        });
        ALL.put("table_join_then_stream_join", b -> {
            KTable<String, String> joined = table(b, "a").outerJoin(table(b, "b"), Topologies::enrich);
            in(b).join(joined, Topologies::enrich).to("out", STRINGS_OUT);
        });
        ALL.put("table_group_count", b -> table(b, "a")
            .groupBy(Topologies::swap).count(Materialized.as("counts")).toStream().to("out", COUNTS_OUT));
        ALL.put("table_group_unnamed", b -> table(b, "a").groupBy(Topologies::swap).count().toStream().to("out", COUNTS_OUT));
        ALL.put("table_group_reduce_unnamed", b -> table(b, "a")
            .groupBy(Topologies::swap).reduce((x, y) -> x + y, (x, y) -> x).toStream().to("out", STRINGS_OUT));
        ALL.put("table_group_named", b -> {
            KGroupedTable<String, String> g = table(b, "a").filter((k, v) -> true).groupBy(Topologies::swap, Grouped.as("grouping"));
            g.count(Named.as("counting"), Materialized.as("counts")).toStream().to("out", COUNTS_OUT);
            g.aggregate(() -> "", (k, v, x) -> x + v, (k, v, x) -> x, Topologies.<KeyValueStore<Bytes, byte[]>>stringsAs("sums"))
                .toStream().to("sums", STRINGS_OUT);
        });
        ALL.put("table_group_twice", b -> {
            KGroupedTable<String, String> g = table(b, "a").mapValues(v -> v).groupBy(Topologies::swap);
            g.count(Materialized.as("counts")).toStream().to("out", COUNTS_OUT);
            g.reduce((x, y) -> x + y, (x, y) -> x, Materialized.as("sums")).filter((k, v) -> true).toStream().to("sums", STRINGS_OUT);
        });
        ALL.put("table_group_of_join", b -> table(b, "a")
            .leftJoin(table(b, "b"), Topologies::enrich).groupBy(Topologies::swap).count(Materialized.as("counts")).toStream().to("out", COUNTS_OUT));
        ALL.put("streams_join", b -> in(b).join(other(b), Topologies::enrich, WITHIN, JOINED).to("out", STRINGS_OUT));
        ALL.put("streams_left_join", b -> in(b).leftJoin(other(b), Topologies::enrich, WITHIN, JOINED).to("out", STRINGS_OUT));
        ALL.put("streams_outer_join", b -> in(b).outerJoin(other(b), Topologies::enrich, WITHIN, JOINED).to("out", STRINGS_OUT));
        ALL.put("streams_join_named", b -> {
            in(b).outerJoin(other(b), Topologies::enrich, WITHIN, JOINED.withName("joining").withStoreName("kept")).to("out", STRINGS_OUT);
            in(b).join(other(b), Topologies::enrich, WITHIN, JOINED.withName("inner")).to("out", STRINGS_OUT);
            in(b).leftJoin(other(b), Topologies::enrich, WITHIN, JOINED.withStoreName("left")).to("out", STRINGS_OUT);
        });
        ALL.put("streams_join_rekeyed", b -> in(b).map(Topologies::swap)
            .join(other(b).selectKey((k, v) -> v), Topologies::enrich, WITHIN, JOINED).to("out", STRINGS_OUT));
        ALL.put("streams_join_rekeyed_named", b -> in(b).map(Topologies::swap)
            .leftJoin(other(b).selectKey((k, v) -> v), Topologies::enrich, WITHIN, JOINED.withName("joining")).to("out", STRINGS_OUT));
        ALL.put("streams_join_rekeyed_twice", b -> {
            KStream<String, String> s = in(b).map(Topologies::swap);
            KStream<String, String> other = other(b);
            s.join(other, Topologies::enrich, WITHIN, JOINED).to("out", STRINGS_OUT);
            s.leftJoin(other, Topologies::enrich, WITHIN, JOINED).groupByKey().count(Materialized.as("counts")).toStream().to("counts", COUNTS_OUT);
        });
        ALL.put("streams_join_then_table", b -> {
            KStream<String, String> s = in(b).map(Topologies::swap);
            s.join(other(b), Topologies::enrich, WITHIN, JOINED).join(table(b, "t"), Topologies::enrich).to("out", STRINGS_OUT);
            s.join(table(b, "u"), Topologies::enrich).to("more", STRINGS_OUT);
        });
        ALL.put("stream_joined_with_itself", b -> {
            KStream<String, String> s = in(b);
            s.join(s, Topologies::enrich, WITHIN, JOINED).to("out", STRINGS_OUT);
        });
        ALL.put("foreign_join", b -> table(b, "a").join(table(b, "b"), v -> v, Topologies::enrich).toStream().to("out", STRINGS_OUT));
        ALL.put("foreign_left_join_named", b -> table(b, "a")
            .leftJoin(table(b, "b"), v -> v, Topologies::enrich, TableJoined.as("fk")).toStream().to("out", STRINGS_OUT));
        ALL.put("foreign_join_materialized", b -> table(b, "a")
            .join(table(b, "b"), v -> v, Topologies::enrich, Topologies.<KeyValueStore<Bytes, byte[]>>stringsAs("joined"))
            .filter((k, v) -> true).toStream().to("out", STRINGS_OUT));
        ALL.put("foreign_join_chain", b -> table(b, "a").filter((k, v) -> true)
            .join(table(b, "b").mapValues(v -> v), v -> v, Topologies::enrich)
            .leftJoin(table(b, "c"), v -> v, Topologies::enrich)
            .groupBy(Topologies::swap).count(Materialized.as("counts")).toStream().to("out", COUNTS_OUT));
        ALL.put("foreign_join_of_aggregate", b -> in(b).groupBy((k, v) -> v).reduce((x, y) -> x + y, Materialized.as("sums"))
            .join(table(b, "b"), v -> v, Topologies::enrich)
            .join(table(b, "c"), Topologies::enrich).toStream().to("out", STRINGS_OUT));
        ALL.put("global_table_join", b -> in(b)
            .join(b.globalTable("g", STRINGS), (k, v) -> v, Topologies::enrich).to("out", STRINGS_OUT));
        ALL.put("global_tables", b -> {
            GlobalKTable<String, String> g = b.globalTable("g", STRINGS, Materialized.as("rows"));
            GlobalKTable<String, String> h = b.globalTable("h", STRINGS.withName("named"));
            KStream<String, String> s = in(b).map(Topologies::swap).leftJoin(g, (k, v) -> v, Topologies::enrich);
            s.join(h, (k, v) -> v, Topologies::enrich, Named.as("joining")).groupByKey().count(Materialized.as("counts"))
                .toStream().to("out", COUNTS_OUT);
            b.stream("more", STRINGS).to("out", STRINGS_OUT);
        });
        ALL.put("global_table_after_streams", b -> {
            KStream<String, String> s = in(b);
            KStream<String, String> m = b.stream("more", STRINGS);
            s.join(b.globalTable("g", STRINGS), (k, v) -> v, Topologies::enrich).to("out", STRINGS_OUT);
            m.to("out", STRINGS_OUT);
        });
        ALL.put("table_transform_values", b -> {
            KTable<String, String> t = table(b, "a").transformValues(Identity::new);
            t.toStream().to("out", STRINGS_OUT);
            in(b).join(t.filter((k, v) -> true), Topologies::enrich).to("joined", STRINGS_OUT);
        });
        ALL.put("self_join", b -> {
            KStream<String, String> s = in(b);
            s.join(s, Topologies::enrich, WITHIN, JOINED).to("out", STRINGS_OUT);
            s.to("copy", STRINGS_OUT);
        });
        ALL.put("self_join_two_handles", b -> in(b).leftJoin(in(b), Topologies::enrich, WITHIN, JOINED.withName("joining").withStoreName("kept"))
            .to("out", STRINGS_OUT));
        ALL.put("self_join_repartitioned", b -> {
            KStream<String, String> s = in(b).selectKey((k, v) -> v);
            s.outerJoin(s, Topologies::enrich, WITHIN, JOINED).groupByKey().count(Materialized.as("counts")).toStream().to("out", COUNTS_OUT);
            s.join(other(b), Topologies::enrich, WITHIN, JOINED).to("more", STRINGS_OUT);
        });
        ALL.put("merge_topics_aggregates", b -> {
            KStream<String, String> s = in(b).selectKey((k, v) -> v);
            s.groupByKey().count(Materialized.as("counts")).toStream().to("out", COUNTS_OUT);
            s.groupByKey().reduce((x, y) -> x + y, stringsAs("sums")).toStream().to("more", STRINGS_OUT);
            s.to("copy", STRINGS_OUT);
        });
        ALL.put("merge_topics_aggregate_and_join", b -> {
            KStream<String, String> s = in(b).map(Topologies::swap);
            s.groupByKey().count(Materialized.as("counts")).toStream().to("out", COUNTS_OUT);
            s.join(other(b), Topologies::enrich, WITHIN, JOINED).to("more", STRINGS_OUT);
        });
        ALL.put("merge_topics_named", b -> {
            KStream<String, String> s = in(b).selectKey((k, v) -> v);
            s.groupByKey(Grouped.as("first")).count(Materialized.as("counts")).toStream().to("out", COUNTS_OUT);
            s.groupByKey(Grouped.as("second")).reduce((x, y) -> x + y, stringsAs("sums")).toStream().to("more", STRINGS_OUT);
        });
        ALL.put("merge_topics_values_between", b -> {
            KStream<String, String> s = in(b).selectKey((k, v) -> v);
            s.mapValues(v -> v).groupByKey(Grouped.as("mapped")).count(Materialized.as("counts")).toStream().to("out", COUNTS_OUT);
            s.filter((k, v) -> true).groupByKey().reduce((x, y) -> x + y, stringsAs("sums")).toStream().to("more", STRINGS_OUT);
            s.peek((k, v) -> { }).groupByKey().count(Materialized.as("peeked")).toStream().to("peeked-out", COUNTS_OUT);
        });
        ALL.put("merge_topics_two_changes", b -> {
            KStream<String, String> s = in(b).selectKey((k, v) -> v);
            s.groupByKey().count(Materialized.as("counts")).toStream().to("out", COUNTS_OUT);
            KStream<String, String> again = s.map(Topologies::swap);
            again.groupByKey().reduce((x, y) -> x + y, stringsAs("sums")).toStream().to("more", STRINGS_OUT);
            again.groupByKey().count(Materialized.as("again")).toStream().to("again-out", COUNTS_OUT);
        });
        ALL.put("merge_topics_merged", b -> {
            KStream<String, String> s = in(b).selectKey((k, v) -> v).merge(other(b).map(Topologies::swap));
            s.groupByKey().count(Materialized.as("counts")).toStream().to("out", COUNTS_OUT);
            s.groupByKey().reduce((x, y) -> x + y, stringsAs("sums")).toStream().to("more", STRINGS_OUT);
        });
        ALL.put("merge_topics_merged_one_changed", b -> {
            KStream<String, String> s = in(b).selectKey((k, v) -> v).merge(other(b));
            s.groupByKey().count(Materialized.as("counts")).toStream().to("out", COUNTS_OUT);
            s.groupByKey().reduce((x, y) -> x + y, stringsAs("sums")).toStream().to("more", STRINGS_OUT);
        });
        ALL.put("merge_topics_explicit", b -> {
            KStream<String, String> s = in(b).selectKey((k, v) -> v);
            s.repartition(Repartitioned.as("mine")).groupByKey().count(Materialized.as("counts")).toStream().to("out", COUNTS_OUT);
            s.groupByKey().reduce((x, y) -> x + y, stringsAs("sums")).toStream().to("more", STRINGS_OUT);
        });
        ALL.put("merge_topics_process", b -> {
            KStream<String, String> s = in(b).process(Forward::new);
            s.groupByKey().count(Materialized.as("counts")).toStream().to("out", COUNTS_OUT);
            s.toTable(Materialized.with(Serdes.String(), Serdes.String())).toStream().to("more", STRINGS_OUT);
        });
        ALL.put("merge_topics_group_by", b -> {
            KStream<String, String> s = in(b);
            s.groupBy((k, v) -> v).count(Materialized.as("counts")).toStream().to("out", COUNTS_OUT);
            s.groupBy((k, v) -> v).reduce((x, y) -> x + y, stringsAs("sums")).toStream().to("more", STRINGS_OUT);
        });
        ALL.put("merge_topics_table_lookup", b -> {
            KStream<String, String> s = in(b).map(Topologies::swap);
            s.groupByKey(Grouped.as("g")).count(Materialized.as("counts")).toStream().to("out", COUNTS_OUT);
            s.leftJoin(table(b, "a"), Topologies::enrich).to("more", STRINGS_OUT);
        });
        ALL.put("merge_topics_cogroup", b -> {
            KStream<String, String> s = in(b).map(Topologies::swap);
            s.groupByKey(Grouped.<String, String>as("g")).cogroup(Topologies::add).cogroup(other(b).groupByKey(), Topologies::add)
                .aggregate(() -> "", stringsAs("sums")).toStream().to("out", STRINGS_OUT);
            s.groupByKey().count(Materialized.as("counts")).toStream().to("more", COUNTS_OUT);
        });
    }

    /** Programs whose names begin so are built with an optimisation. */
    static final Map<String, String> OPTIMISED = Map.of("self_join", StreamsConfig.SINGLE_STORE_SELF_JOIN,
        "merge_topics", StreamsConfig.MERGE_REPARTITION_TOPICS);

    static Properties optimisation(String name) {
        Properties p = new Properties();
        OPTIMISED.forEach((prefix, optimisation) -> {
            if (name.startsWith(prefix)) {
                p.put(StreamsConfig.TOPOLOGY_OPTIMIZATION_CONFIG, optimisation);
            }
        });
        return p;
    }

    static final class Forward implements Processor<String, String, String, String> {
        private org.apache.kafka.streams.processor.api.ProcessorContext<String, String> context;

        @Override public void init(org.apache.kafka.streams.processor.api.ProcessorContext<String, String> c) {
            context = c;
        }

        @Override public void process(Record<String, String> r) {
            context.forward(r);
        }
    }

    static final class ForwardValue implements FixedKeyProcessor<String, String, String> {
        private org.apache.kafka.streams.processor.api.FixedKeyProcessorContext<String, String> context;

        @Override public void init(org.apache.kafka.streams.processor.api.FixedKeyProcessorContext<String, String> c) {
            context = c;
        }

        @Override public void process(FixedKeyRecord<String, String> r) {
            context.forward(r);
        }
    }

    public static void main(String[] args) throws Exception {
        for (Map.Entry<String, Consumer<StreamsBuilder>> e : ALL.entrySet()) {
            StreamsBuilder b = new StreamsBuilder();
            e.getValue().accept(b);
            Files.writeString(Path.of(args[0], e.getKey() + ".txt"), b.build(optimisation(e.getKey())).describe().toString());
        }
    }
}
