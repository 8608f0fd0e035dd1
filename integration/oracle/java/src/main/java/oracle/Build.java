package oracle;

import static oracle.Functions.*;

import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.utils.Bytes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.kstream.*;
import org.apache.kafka.streams.kstream.internals.NamedInternal;
import org.apache.kafka.streams.kstream.internals.TimeWindow;
import org.apache.kafka.streams.processor.RecordContext;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.processor.TopicNameExtractor;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.SessionStore;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.WindowStore;

/** Builds the topology of a program through StreamsBuilder. Keys and values are plain objects here, and their types are named as in {@link Functions}. */
@SuppressWarnings({"unchecked", "rawtypes"})
final class Build {
    final StreamsBuilder b = new StreamsBuilder();
    final List<String> calls = new ArrayList<>();

    private final Processors processors = new Processors();
    private final Map<String, String> topics = new HashMap<>();
    private final List<Object> handles = new ArrayList<>();
    private final List<String> types = new ArrayList<>(); // of the handles' values

    private final Program program;

    Build(Program p) {
        program = p;
        p.topics().forEach(t -> topics.put(t.name(), t.v()));
        for (int i = 0; i < p.ops().size(); i++) {
            Program.Op o = p.ops().get(i);
            try {
                Object h = apply(i, o);
                handles.add(h);
            } catch (RuntimeException e) {
                throw new IllegalStateException("operator " + i + ", " + o.op() + ": " + e, e);
            }
        }
    }

    private Object apply(int i, Program.Op o) {
        Object first = o.in() == null ? null : handles.get(o.in().get(0));
        Object second = o.in() == null || o.in().size() < 2 ? null : handles.get(o.in().get(1));
        String v = o.in() == null ? "" : types.get(o.in().get(0));
        String w = second == null ? "" : types.get(o.in().get(1));
        String u = o.v();
        String f = o.f();
        int n = o.n();
        String kf = o.kf();
        int kn = o.kn();
        Named named = named(o.name());
        String op = o.op().replaceFirst("^windowedStream\\.", "").replaceFirst("^windowedTable\\.(?!toStream)", "table.")
            .replaceFirst("^windowedTable\\.", "").replaceFirst("^windowed\\.", "windowed.");

        // The type of the result's values: that of the first handle, unless the operator says otherwise.
        types.add(u != null ? u : v);
        switch (op) {
            case "stream", "table", "globalTable" -> types.set(i, topics.get(o.topics().get(0)));
            case "count", "windowed.count", "session.count", "groupedTable.count" -> types.set(i, "L");
            default -> { }
        }
        String r = types.get(i);

        if (first instanceof KStream) {
            KStream<Object, Object> s = (KStream<Object, Object>) first;
            KTable<Object, Object> t = second instanceof KTable ? (KTable<Object, Object>) second : null;
            KStream<Object, Object> right = second instanceof KStream ? (KStream<Object, Object>) second : null;
            GlobalKTable<Object, Object> global = second instanceof GlobalKTable ? (GlobalKTable<Object, Object>) second : null;
            boolean windowed = o.op().startsWith("windowedStream.");
            switch (op) {
                case "filter": return s.filter(predicate(f, n, v), named);
                case "filterNot": return s.filterNot(predicate(f, n, v), named);
                case "filterRecords": return s.filter(records(f), named);
                case "dropNulls": return s.filter(records("value"), named);
                case "mapValues", "tryMapValues": return s.mapValues(mapper(f, n, v, u), named);
                case "mapValuesWithKey": return s.mapValues(mapperWithKey(f, n, v, u), named);
                case "flatMapValues", "flatMapValuesSeq": return s.flatMapValues(lister(f, n, v, u), named);
                case "flatMapValuesWithKey": return s.flatMapValues(listerWithKey(f, n, v, u), named);
                case "map", "tryMap": return s.map(both(kf, kn, f, n, v, u), named);
                case "flatMap": return s.flatMap(emitter(kf, kn, f, n, v, u), named);
                case "mapRecords": return s.map(nuller(f, n, v), named);
                case "selectKey": return s.selectKey(keyMaker(kf, kn, v), named);
                case "peek": return s.peek(look(i, v), named);
                case "forEach", "tryForEach": s.foreach(look(i, v), named); return null;
                case "merge": return s.merge((KStream<Object, Object>) second, named);
                case "split": return s.split(named);
                case "repartition": return s.repartition(repartitioned(o.name(), v));
                case "to":
                    topics.put(o.topics().get(0), v);
                    s.to(o.topics().get(0), windowed ? windowedProduced(o.name(), v, sessions(o)) : produced(o.name(), v));
                    return null;
                case "route": s.to(router(f, n, o.topics().get(0), v), produced(o.name(), v)); return null;
                case "toTable": return s.toTable(named, keyValue(o, v));
                case "groupByKey": return s.groupByKey(grouped(o.name(), v));
                case "groupBy": return s.groupBy(keyMaker(kf, kn, v), grouped(o.name(), v));
                case "process": return processors.process(s, i, o, v);
                case "processValues": return processors.processValues(s, i, o, v);
                case "processTable": return processors.processTable(s, o, t.queryableStoreName(), v, w);
                case "joinTable": return s.join(t, joiner(f, n, v, w), joined(o.name(), v, w));
                case "joinTableWithKey": return s.join(t, joinerWithKey(f, n, v, w), joined(o.name(), v, w));
                case "leftJoinTable": return s.leftJoin(t, joiner(f, n, v, w), joined(o.name(), v, w));
                case "join": return s.join(right, joiner(f, n, v, w), within(o), streamJoined(o, v, w));
                case "joinWithKey": return s.join(right, joinerWithKey(f, n, v, w), within(o), streamJoined(o, v, w));
                case "leftJoin": return s.leftJoin(right, joiner(f, n, v, w), within(o), streamJoined(o, v, w));
                case "leftJoinWithKey": return s.leftJoin(right, joinerWithKey(f, n, v, w), within(o), streamJoined(o, v, w));
                case "outerJoin": return s.outerJoin(right, joiner(f, n, v, w), within(o), streamJoined(o, v, w));
                case "outerJoinWithKey": return s.outerJoin(right, joinerWithKey(f, n, v, w), within(o), streamJoined(o, v, w));
                case "joinGlobal": return s.join(global, keyMaker(kf, kn, v), joiner(f, n, v, w), named);
                case "joinGlobalWithKey": return s.join(global, keyMaker(kf, kn, v), joinerWithKeys(f, n, v, w), named);
                case "leftJoinGlobal": return s.leftJoin(global, keyMaker(kf, kn, v), joiner(f, n, v, w), named);
                case "leftJoinGlobalWithKey": return s.leftJoin(global, keyMaker(kf, kn, v), joinerWithKeys(f, n, v, w), named);
                case "leftJoinTableWithKey": return s.leftJoin(t, joinerWithKey(f, n, v, w), joined(o.name(), v, w));
                default:
            }
        }
        if (first instanceof KTable) {
            KTable<Object, Object> t = (KTable<Object, Object>) first;
            KTable<Object, Object> right = (KTable<Object, Object>) second;
            boolean kept = o.store() != null;
            switch (op) {
                case "table.join": return kept ? t.join(right, joiner(f, n, v, w), named, keyValue(o, r)) : t.join(right, joiner(f, n, v, w), named);
                case "table.leftJoin":
                    return kept ? t.leftJoin(right, joiner(f, n, v, w), named, keyValue(o, r)) : t.leftJoin(right, joiner(f, n, v, w), named);
                case "table.outerJoin":
                    return kept ? t.outerJoin(right, joiner(f, n, v, w), named, keyValue(o, r)) : t.outerJoin(right, joiner(f, n, v, w), named);
                case "table.joinForeign":
                    return t.join(right, foreignKey(kf, kn, v), joiner(f, n, v, w), TableJoined.as(o.name()), keyValue(o, r));
                case "table.leftJoinForeign":
                    return t.leftJoin(right, foreignKey(kf, kn, v), joiner(f, n, v, w), TableJoined.as(o.name()), keyValue(o, r));
                case "table.transformValues":
                    return kept ? t.transformValues(transformer(f, n, v, u), keyValue(o, r), named) : t.transformValues(transformer(f, n, v, u), named);
                case "table.groupBy": return t.groupBy(both(kf, kn, f, n, v, u), grouped(o.name(), u));
                case "table.filter": return kept ? t.filter(predicate(f, n, v), named, keyValue(o, r)) : t.filter(predicate(f, n, v), named);
                case "table.filterNot": return kept ? t.filterNot(predicate(f, n, v), named, keyValue(o, r)) : t.filterNot(predicate(f, n, v), named);
                case "table.mapValues": return kept ? t.mapValues(mapper(f, n, v, u), named, keyValue(o, r)) : t.mapValues(mapper(f, n, v, u), named);
                case "table.mapValuesWithKey":
                    return kept ? t.mapValues(mapperWithKey(f, n, v, u), named, keyValue(o, r)) : t.mapValues(mapperWithKey(f, n, v, u), named);
                case "toStream": return t.toStream(named);
                case "table.suppress": return t.suppress(suppressed(o));
                default:
            }
        }
        if (first instanceof KGroupedTable) {
            KGroupedTable<Object, Object> g = (KGroupedTable<Object, Object>) first;
            switch (op) {
                case "groupedTable.count": return plain(o) ? g.count(named) : g.count(named, (Materialized) keyValue(o, r));
                case "groupedTable.reduce": return g.reduce(reducer(f, n, v), unreducer(f, n, v), named, keyValue(o, r));
                case "groupedTable.aggregate": return g.aggregate(initial(u), adder(f, n, v, u), subtracter(f, n, v, u), named, keyValue(o, r));
                default:
            }
        }
        if (first instanceof KGroupedStream) {
            KGroupedStream<Object, Object> g = (KGroupedStream<Object, Object>) first;
            switch (op) {
                case "count": return plain(o) ? g.count(named) : g.count(named, (Materialized) keyValue(o, r));
                case "reduce": return g.reduce(reducer(f, n, v), named, keyValue(o, r));
                case "aggregate": return g.aggregate(initial(u), adder(f, n, v, u), named, keyValue(o, r));
                case "sessionsBy", "windowedBy": return windowedBy(o, g);
                case "cogroup": return g.cogroup(adder(f, n, v, u));
                default:
            }
        }
        if (first instanceof CogroupedKStream) {
            CogroupedKStream<Object, Object> g = (CogroupedKStream<Object, Object>) first;
            Duration size = Duration.ofMillis(o.size());
            Duration grace = Duration.ofMillis(o.grace());
            switch (op) {
                case "cogroup.add": return g.cogroup((KGroupedStream<Object, Object>) second, adder(f, n, w, v));
                case "cogroup.aggregate": return g.aggregate(initial(v), named, keyValue(o, r));
                case "cogroup.sessionsBy": return g.windowedBy(SessionWindows.ofInactivityGapAndGrace(size, grace));
                case "cogroup.windowedBy":
                    return f.equals("sliding") ? g.windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(size, grace)) : g.windowedBy((Windows) windows(o));
                default:
            }
        }
        if (first instanceof TimeWindowedCogroupedKStream) {
            return ((TimeWindowedCogroupedKStream<Object, Object>) first).aggregate(initial(v), named, window(o, r));
        }
        if (first instanceof SessionWindowedCogroupedKStream) {
            return ((SessionWindowedCogroupedKStream<Object, Object>) first).aggregate(initial(v), merger(f, n, v), named, session(o, r));
        }
        if (first instanceof TimeWindowedKStream) {
            TimeWindowedKStream<Object, Object> g = (TimeWindowedKStream<Object, Object>) first;
            switch (op) {
                case "windowed.emit": return ((TimeWindowedKStream<Object, Object>) again(o)).emitStrategy(EmitStrategy.onWindowClose());
                case "windowed.count": return plain(o) ? g.count(named) : g.count(named, (Materialized) window(o, r));
                case "windowed.reduce": return g.reduce(reducer(f, n, v), named, window(o, r));
                case "windowed.aggregate": return g.aggregate(initial(u), adder(f, n, v, u), named, window(o, r));
                default:
            }
        }
        if (first instanceof SessionWindowedKStream) {
            SessionWindowedKStream<Object, Object> g = (SessionWindowedKStream<Object, Object>) first;
            switch (op) {
                case "session.emit": return ((SessionWindowedKStream<Object, Object>) again(o)).emitStrategy(EmitStrategy.onWindowClose());
                case "session.count": return plain(o) ? g.count(named) : g.count(named, (Materialized) session(o, r));
                case "session.reduce": return g.reduce(reducer(f, n, v), named, session(o, r));
                case "session.aggregate": return g.aggregate(initial(u), adder(f, n, v, u), merger(f, n, u), named, session(o, r));
                default:
            }
        }
        switch (op) {
            case "stream": return b.stream(o.topics(), consumed(o.name(), r));
            case "table":
                return o.store() == null ? b.table(o.topics().get(0), consumed(o.name(), r)) : b.table(o.topics().get(0), consumed(o.name(), r), keyValue(o, r));
            case "globalTable":
                return o.store() == null ? b.globalTable(o.topics().get(0), consumed(o.name(), r)) : b.globalTable(o.topics().get(0), consumed(o.name(), r), keyValue(o, r));
            case "branch": return branch((BranchedKStream<Object, Object>) first, predicate(f, n, v), o.name());
            case "default": return otherwise((BranchedKStream<Object, Object>) first, o.name());
            default: throw new IllegalArgumentException("Build.java has no such operator");
        }
    }

    /** As Offset in functions.go. */
    static Windows<TimeWindow> offset(long size, long grace) {
        return new Windows<>() {
            @Override public Map<Long, TimeWindow> windowsFor(long time) {
                long start = Math.max(0, (time + size / 3) / size * size - size / 3);
                return Map.of(start, new TimeWindow(start, start + size));
            }

            @Override public long size() {
                return size;
            }

            @Override public long gracePeriodMs() {
                return grace;
            }
        };
    }

    static Named named(String name) {
        return name == null ? NamedInternal.empty() : Named.as(name);
    }

    static Consumed<Object, Object> consumed(String name, String v) {
        return Consumed.with(Functions.<Object>serde("S"), Functions.<Object>serde(v)).withName(name);
    }

    static Produced<Object, Object> produced(String name, String v) {
        return Produced.with(Functions.<Object>serde("S"), Functions.<Object>serde(v)).withName(name);
    }

    static Produced<Object, Object> windowedProduced(String name, String v, boolean sessions) {
        Serde key = sessions ? new WindowedSerdes.SessionWindowedSerde<>(Serdes.String()) : new WindowedSerdes.TimeWindowedSerde<>(Serdes.String(), 1);
        return (Produced) Produced.with(key, serde(v)).withName(name);
    }

    /** The windows above an emission, made anew: emitStrategy changes its object, where Millrace makes another. */
    private Object again(Program.Op o) {
        int at = o.in().get(0);
        while (!program.ops().get(at).op().equals("sessionsBy") && !program.ops().get(at).op().equals("windowedBy")) {
            at = program.ops().get(at).in().get(0);
        }
        return windowedBy(program.ops().get(at), (KGroupedStream<Object, Object>) handles.get(program.ops().get(at).in().get(0)));
    }

    private static Object windowedBy(Program.Op o, KGroupedStream<Object, Object> g) {
        Duration size = Duration.ofMillis(o.size());
        Duration grace = Duration.ofMillis(o.grace());
        if (o.op().equals("sessionsBy")) {
            return g.windowedBy(SessionWindows.ofInactivityGapAndGrace(size, grace));
        }
        return "sliding".equals(o.f()) ? g.windowedBy(SlidingWindows.ofTimeDifferenceAndGrace(size, grace)) : g.windowedBy((Windows) windows(o));
    }

    /** All windows but sliding ones and sessions. */
    private static Windows<?> windows(Program.Op o) {
        return switch (o.f() == null ? "" : o.f()) {
            case "custom" -> offset(o.size(), o.grace());
            case "unlimited" -> UnlimitedWindows.of().startOn(Instant.ofEpochMilli(o.advance()));
            default -> TimeWindows.ofSizeAndGrace(Duration.ofMillis(o.size()), Duration.ofMillis(o.grace())).advanceBy(Duration.ofMillis(o.advance()));
        };
    }

    private static Suppressed suppressed(Program.Op o) {
        boolean logged = o.knobs() == null;
        if (o.f().equals("close")) {
            Suppressed.StrictBufferConfig all = Suppressed.BufferConfig.unbounded();
            Suppressed s = Suppressed.untilWindowCloses(logged ? all : (Suppressed.StrictBufferConfig) all.withLoggingDisabled());
            return o.name() == null ? s : s.withName(o.name());
        }
        Suppressed.BufferConfig buffer = switch (o.f()) {
            case "few" -> Suppressed.BufferConfig.maxRecords(o.n());
            case "bytes" -> Suppressed.BufferConfig.maxBytes(60L * o.n());
            default -> Suppressed.BufferConfig.unbounded();
        };
        Suppressed s = Suppressed.untilTimeLimit(Duration.ofMillis(o.size()), logged ? buffer : buffer.withLoggingDisabled());
        return o.name() == null ? s : s.withName(o.name());
    }

    /** Whether the windows of a windowed stream are sessions. */
    private boolean sessions(Program.Op o) {
        while (!o.op().endsWith("sessionsBy") && !o.op().endsWith("windowedBy")) {
            o = program.ops().get(o.in().get(0));
        }
        return o.op().endsWith("sessionsBy");
    }

    static Grouped<Object, Object> grouped(String name, String v) {
        return Grouped.with(name, Functions.<Object>serde("S"), Functions.<Object>serde(v));
    }

    static Repartitioned<Object, Object> repartitioned(String name, String v) {
        return Repartitioned.with(Functions.<Object>serde("S"), Functions.<Object>serde(v)).withName(name);
    }

    static Joined<Object, Object, Object> joined(String name, String v, String w) {
        return Joined.with(Functions.<Object>serde("S"), Functions.<Object>serde(v), Functions.<Object>serde(w), name);
    }

    static JoinWindows within(Program.Op o) {
        return JoinWindows.ofTimeDifferenceAndGrace(Duration.ZERO, Duration.ofMillis(o.grace())).before(Duration.ofMillis(Math.max(0, o.before())))
            .after(Duration.ofMillis(o.after())).before(Duration.ofMillis(o.before()));
    }

    static StreamJoined<Object, Object, Object> streamJoined(Program.Op o, String v, String w) {
        StreamJoined<Object, Object, Object> j = StreamJoined.with(Functions.<Object>serde("S"), Functions.<Object>serde(v), Functions.<Object>serde(w))
            .withName(o.name()).withStoreName(o.store());
        if (o.knobs() != null && o.knobs().contains("memory")) {
            j = j.withDslStoreSuppliers(Materialized.StoreType.IN_MEMORY);
        }
        return o.knobs() != null && o.knobs().contains("noLogging") ? j.withLoggingDisabled() : j;
    }

    static Materialized<Object, Object, KeyValueStore<Bytes, byte[]>> keyValue(Program.Op o, String v) {
        return materialized(o, v);
    }

    static Materialized<Object, Object, SessionStore<Bytes, byte[]>> session(Program.Op o, String v) {
        return materialized(o, v);
    }

    static Materialized<Object, Object, WindowStore<Bytes, byte[]>> window(Program.Op o, String v) {
        return materialized(o, v);
    }

    /** Whether a program would not mention the store. With count it matters: given a Materialized without a name, it wastes a generated one. */
    private static boolean plain(Program.Op o) {
        return o.store() == null && o.knobs() == null && o.retention() == 0;
    }

    private static <S extends StateStore> Materialized<Object, Object, S> materialized(Program.Op o, String v) {
        Materialized<Object, Object, S> m = o.store() == null ? Materialized.with(serde("S"), serde(v)) : Materialized.as(o.store());
        if (o.history() > 0) {
            m = (Materialized) Materialized.as(Stores.persistentVersionedKeyValueStore(o.store(), Duration.ofMillis(o.history())));
        }
        if (o.retention() > 0) {
            m = m.withRetention(Duration.ofMillis(o.retention()));
        }
        m = m.withKeySerde(serde("S")).withValueSerde(serde(v));
        if (o.knobs() == null) {
            return m;
        }
        for (String knob : o.knobs()) {
            m = switch (knob) {
                case "memory" -> m.withStoreType(Materialized.StoreType.IN_MEMORY);
                case "noCaching" -> m.withCachingDisabled();
                case "noLogging" -> m.withLoggingDisabled();
                default -> throw new IllegalArgumentException("no knob " + knob);
            };
        }
        return m;
    }

    static KStream<Object, Object> branch(BranchedKStream<Object, Object> split, Predicate<Object, Object> is, String name) {
        KStream<Object, Object>[] branch = new KStream[1];
        split.branch(is, Branched.withConsumer(s -> branch[0] = s, name));
        return branch[0];
    }

    static KStream<Object, Object> otherwise(BranchedKStream<Object, Object> split, String name) {
        KStream<Object, Object>[] branch = new KStream[1];
        split.defaultBranch(Branched.withConsumer(s -> branch[0] = s, name));
        return branch[0];
    }

    ForeachAction<Object, Object> look(int at, String v) {
        return (k, x) -> calls.add(at + " " + keyText(k) + "=" + text(x, v));
    }

    static TopicNameExtractor<Object, Object> router(String f, int n, String topic, String v) {
        return new TopicNameExtractor<>() {
            @Override public String extract(Object k, Object x, RecordContext c) {
                return test(f, n, keyText(k), text(x, v)) ? topic : topic + "-else";
            }

            @Override public String toString() {
                return "func"; // as Describe has it
            }
        };
    }
}
