package oracle;

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.stream.Stream;

import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TestInputTopic;
import org.apache.kafka.streams.TestOutputTopic;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.TopologyTestDriver;
import org.apache.kafka.streams.processor.StateStore;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.ReadOnlyKeyValueStore;
import org.apache.kafka.streams.state.ReadOnlySessionStore;
import org.apache.kafka.streams.state.ReadOnlyWindowStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;
import org.apache.kafka.streams.state.ValueTimestampHeaders;
import org.apache.kafka.streams.state.VersionedKeyValueStore;
import org.apache.kafka.streams.state.internals.CachedStateStore;
import org.apache.kafka.streams.test.TestRecord;

/**
 * Reads programs from standard input, one a line, and writes their results to standard output, in any order. The first argument is the number of threads, the
 * second a folder for state.
 */
public final class Main {
    static final ObjectMapper JSON = new ObjectMapper().configure(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES, false);
    static final long START = 946_684_800_000L; // 2000-01-01, where streamstest begins
    static final int LIMIT = 20_000; // records of a result

    public static void main(String[] args) throws Exception {
        PrintStream out = new PrintStream(new java.io.FileOutputStream(java.io.FileDescriptor.out), false, StandardCharsets.UTF_8);
        System.setOut(System.err);
        ExecutorService threads = Executors.newFixedThreadPool(Integer.parseInt(args[0]));
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String text = line;
            threads.execute(() -> {
                Result r = new Result();
                String answer;
                try {
                    JsonNode request = JSON.readTree(text);
                    r.id = request.get("id").asInt();
                    run(JSON.treeToValue(request.get("program"), Program.class), r, Path.of(args[1], "p" + r.id));
                    answer = JSON.writeValueAsString(r);
                } catch (Throwable e) {
                    e.printStackTrace();
                    Runtime.getRuntime().halt(1); // nobody waits for an answer that does not come
                    return;
                }
                synchronized (out) {
                    out.println(answer);
                    out.flush();
                }
            });
        }
        threads.shutdown();
    }

    private static void run(Program p, Result result, Path dir) throws Exception {
        Files.createDirectories(dir);
        try {
            Build built = new Build(p);
            Properties config = new Properties();
            List<String> optimizations = new ArrayList<>();
            if (p.reuse()) {
                optimizations.add(StreamsConfig.REUSE_KTABLE_SOURCE_TOPICS);
            }
            if (p.selves()) {
                optimizations.add(StreamsConfig.SINGLE_STORE_SELF_JOIN);
            }
            if (!optimizations.isEmpty()) {
                config.put(StreamsConfig.TOPOLOGY_OPTIMIZATION_CONFIG, String.join(",", optimizations));
            }
            Topology topology = built.b.build(config);
            result.describe = topology.describe().toString();
            config.put(StreamsConfig.APPLICATION_ID_CONFIG, "test");
            config.put(StreamsConfig.STATE_DIR_CONFIG, dir.toString());
            config.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, p.caching() ? 10 << 20 : 0);
            // Results of windows and outer joins are held back as in production; by default the driver gives them at once.
            config.put(StreamsConfig.InternalConfig.EMIT_INTERVAL_MS_KSTREAMS_OUTER_JOIN_SPURIOUS_RESULTS_FIX, 1000L);
            config.put(StreamsConfig.InternalConfig.EMIT_INTERVAL_MS_KSTREAMS_WINDOWED_AGGREGATION, 1000L);
            try (TopologyTestDriver driver = new TopologyTestDriver(topology, config, Instant.ofEpochMilli(START))) {
                drive(driver, p, built.calls, result);
            }
        } catch (Exception e) {
            StringBuilder chain = new StringBuilder();
            for (Throwable t = e; t != null; t = t.getCause()) {
                chain.append(t).append('\n');
            }
            result.error = chain.toString();
        } finally {
            try (Stream<Path> files = Files.walk(dir)) {
                files.sorted(Comparator.reverseOrder()).forEach(f -> f.toFile().delete());
            }
        }
    }

    private static void drive(TopologyTestDriver driver, Program p, List<String> calls, Result result) {
        Map<String, TestInputTopic<byte[], byte[]>> inputs = new HashMap<>();
        Map<String, TestOutputTopic<byte[], byte[]>> outputs = new HashMap<>();
        Map<String, String> types = new HashMap<>();
        p.topics().forEach(t -> types.put(t.name(), t.v()));
        for (Program.Event e : p.input()) {
            if (e.clock() != 0) {
                driver.advanceWallClockTime(Duration.ofMillis(e.clock()));
            } else {
                inputs.computeIfAbsent(e.topic(), t -> driver.createInputTopic(t, new ByteArraySerializer(), new ByteArraySerializer()))
                    .pipeInput(record(e, types.get(e.topic())));
            }
            Result.Step step = new Result.Step();
            int records = 0;
            for (String topic : new TreeSet<>(driver.producedTopicNames())) {
                List<Result.Record> list = new ArrayList<>();
                for (TestRecord<byte[], byte[]> r : outputs.computeIfAbsent(topic,
                        t -> driver.createOutputTopic(t, new ByteArrayDeserializer(), new ByteArrayDeserializer())).readRecordsToList()) {
                    List<Result.Header> headers = new ArrayList<>();
                    r.headers().forEach(h -> headers.add(new Result.Header(h.key(), h.value())));
                    // A producer gives the time of its clock to what has none, as removals from the buffer of a suppression have.
                    list.add(new Result.Record(r.key(), r.value(), r.timestamp() == null ? -1 : r.timestamp(), headers));
                }
                if (!list.isEmpty()) {
                    step.topics.add(new Result.Topic(topic, list));
                    records += list.size();
                }
            }
            step.calls.addAll(calls);
            calls.clear();
            result.steps.add(step);
            if (records > LIMIT) {
                throw new IllegalStateException("a step gives more than " + LIMIT + " records");
            }
        }
        for (Map.Entry<String, StateStore> e : new TreeMap<>(driver.getAllStateStores()).entrySet()) {
            // A cache still shows rows of windows that the store has dropped. Everything was flushed with the last commit.
            if (e.getValue() instanceof CachedStateStore<?, ?> cached) {
                cached.clearCache();
            }
            List<Result.Row> rows = rows(e.getValue());
            if (rows != null) {
                result.stores.add(new Result.Store(e.getKey(), rows));
            }
        }
    }

    private static TestRecord<byte[], byte[]> record(Program.Event e, String type) {
        RecordHeaders headers = new RecordHeaders();
        if (e.headers() != null) {
            e.headers().forEach(h -> headers.add(h.key(), h.value() == null ? null : h.value().getBytes(StandardCharsets.UTF_8)));
        }
        byte[] value = e.value() == null ? null : type.equals("L") ? Serdes.Long().serializer().serialize("", Long.valueOf(e.value()))
            : new StringSerializer().serialize("", e.value());
        return new TestRecord<>(e.key() == null ? null : e.key().getBytes(StandardCharsets.UTF_8), value, headers, e.time());
    }

    /** The rows of a store, in its own order, or null if it has no rows that anybody may see. */
    private static List<Result.Row> rows(StateStore store) {
        List<Result.Row> rows = new ArrayList<>();
        if (store instanceof VersionedKeyValueStore) {
            return null;
        }
        if (store instanceof ReadOnlyKeyValueStore<?, ?> s) {
            try (KeyValueIterator<?, ?> all = s.all()) {
                all.forEachRemaining(kv -> rows.add(row(kv, true)));
            } catch (ClassCastException e) {
                return null; // the stores of joins are nobody's business
            }
            return rows;
        }
        if (store instanceof ReadOnlyWindowStore<?, ?> s) {
            try (KeyValueIterator<?, ?> all = s.all()) {
                all.forEachRemaining(kv -> rows.add(row(kv, false)));
            } catch (ClassCastException | IllegalArgumentException e) {
                return null;
            }
            rows.sort(Comparator.comparing(Result.Row::key)); // the order depends on the kind of store
            return rows;
        }
        if (store instanceof ReadOnlySessionStore<?, ?> s) {
            try (KeyValueIterator<?, ?> all = s.fetch(null, null)) {
                all.forEachRemaining(kv -> rows.add(row(kv, false)));
            }
            rows.sort(Comparator.comparing(Result.Row::key));
            return rows;
        }
        return null;
    }

    private static Result.Row row(KeyValue<?, ?> kv, boolean timed) {
        Object value;
        long time;
        if (kv.value instanceof ValueTimestampHeaders<?> v) {
            value = v.value();
            time = v.timestamp();
        } else if (kv.value instanceof ValueAndTimestamp<?> v) {
            value = v.value();
            time = v.timestamp();
        } else {
            value = kv.value;
            time = 0;
        }
        return new Result.Row(Functions.keyText(kv.key), String.valueOf(value), timed ? time : 0);
    }
}
