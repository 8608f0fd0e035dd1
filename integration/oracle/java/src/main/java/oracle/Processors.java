package oracle;

import static oracle.Functions.*;

import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.Set;

import org.apache.kafka.common.header.internals.RecordHeaders;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Named;
import org.apache.kafka.streams.processor.PunctuationType;
import org.apache.kafka.streams.processor.api.FixedKeyProcessor;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorContext;
import org.apache.kafka.streams.processor.api.FixedKeyProcessorSupplier;
import org.apache.kafka.streams.processor.api.FixedKeyRecord;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.ProcessorSupplier;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueIterator;
import org.apache.kafka.streams.state.StoreBuilder;
import org.apache.kafka.streams.state.Stores;
import org.apache.kafka.streams.state.TimestampedKeyValueStore;
import org.apache.kafka.streams.state.ValueAndTimestamp;

/** The processors of programs, as in processors.go. */
final class Processors {
    private final Map<String, StoreBuilder<?>> stores = new HashMap<>();

    private StoreBuilder<?> store(Program.Op o, String v) {
        return stores.computeIfAbsent(o.store(), name -> {
            boolean memory = o.knobs() != null && o.knobs().contains("memory");
            return Stores.timestampedKeyValueStoreBuilder(
                memory ? Stores.inMemoryKeyValueStore(name) : Stores.persistentTimestampedKeyValueStore(name),
                Functions.<Object>serde("S"), Functions.<Object>serde(o.f().equals("count") ? "L" : v));
        });
    }

    KStream<Object, Object> process(KStream<Object, Object> s, int at, Program.Op o, String v) {
        StoreBuilder<?> store = store(o, v);
        ProcessorSupplier<Object, Object, Object, Object> supplier = new ProcessorSupplier<>() {
            @Override public Processor<Object, Object, Object, Object> get() {
                return new Worker(at, o, v);
            }

            @Override public Set<StoreBuilder<?>> stores() {
                return Set.of(store);
            }
        };
        return o.name() == null ? s.process(supplier) : s.process(supplier, Named.as(o.name()));
    }

    KStream<Object, Object> processValues(KStream<Object, Object> s, int at, Program.Op o, String v) {
        StoreBuilder<?> store = store(o, v);
        FixedKeyProcessorSupplier<Object, Object, Object> supplier = new FixedKeyProcessorSupplier<>() {
            @Override public FixedKeyProcessor<Object, Object, Object> get() {
                return new FixedWorker(at, o, v);
            }

            @Override public Set<StoreBuilder<?>> stores() {
                return Set.of(store);
            }
        };
        return o.name() == null ? s.processValues(supplier) : s.processValues(supplier, Named.as(o.name()));
    }

    /** Joins by hand, with the store of a table. */
    KStream<Object, Object> processTable(KStream<Object, Object> s, Program.Op o, String table, String v, String w) {
        ProcessorSupplier<Object, Object, Object, Object> supplier = () -> new Processor<>() {
            private ProcessorContext<Object, Object> context;

            @Override public void init(ProcessorContext<Object, Object> c) {
                context = c;
            }

            @Override public void process(Record<Object, Object> r) {
                TimestampedKeyValueStore<Object, Object> rows = context.getStateStore(table);
                ValueAndTimestamp<Object> row = r.key() == null ? null : rows.get(r.key());
                context.forward(r.withValue(as(join("concat", 0, text(r.value(), v), row == null ? "-" : text(row.value(), w)), v)));
            }
        };
        return o.name() == null ? s.process(supplier, table) : s.process(supplier, Named.as(o.name()), table);
    }

    private record Next(Object value, boolean some) { }

    /** What a processor puts in the place of a value, given its store. */
    private static Next next(TimestampedKeyValueStore<Object, Object> store, Program.Op o, String v, Object key, Object value, long time) {
        if (key == null) {
            return new Next(value, true);
        }
        ValueAndTimestamp<Object> old = store.get(key);
        if (o.f().equals("count")) {
            long n = old == null ? 1 : (Long) old.value() + 1;
            store.put(key, ValueAndTimestamp.make(n, time));
            return new Next(as(Long.toString(n), v), true);
        }
        store.put(key, ValueAndTimestamp.make(value, time));
        if (value == null) {
            return new Next(null, old != null);
        }
        String before = old == null ? "-" : text(old.value(), v) + "@" + old.timestamp();
        return new Next(as(join("concat", 0, before, text(value, v)), v), true);
    }

    private static final class Worker implements Processor<Object, Object, Object, Object> {
        private final int at;
        private final Program.Op o;
        private final String v;
        private ProcessorContext<Object, Object> context;
        private TimestampedKeyValueStore<Object, Object> store;

        Worker(int at, Program.Op o, String v) {
            this.at = at;
            this.o = o;
            this.v = v;
        }

        @Override public void init(ProcessorContext<Object, Object> c) {
            context = c;
            store = c.getStateStore(o.store());
            if (o.f().equals("tick")) {
                c.schedule(Duration.ofMillis(200L * o.n() + 7 * at), PunctuationType.WALL_CLOCK_TIME, this::tick);
            }
        }

        private void tick(long now) {
            try (KeyValueIterator<Object, ValueAndTimestamp<Object>> all = store.all()) {
                while (all.hasNext()) {
                    KeyValue<Object, ValueAndTimestamp<Object>> row = all.next();
                    context.forward(new Record<>(row.key, row.value.value(), now));
                }
            }
        }

        @Override public void process(Record<Object, Object> r) {
            switch (o.f()) {
                case "stamp" -> {
                    Record<Object, Object> stamped = r.withTimestamp(r.timestamp() + o.n()).withHeaders(new RecordHeaders(r.headers()));
                    stamped.headers().add("p", Integer.toString(at).getBytes());
                    context.forward(stamped);
                    if (hash(keyText(r.key()) + text(r.value(), v)) % 2 == 0) {
                        context.forward(r);
                    }
                }
                case "tick" -> {
                    if (r.key() != null) {
                        store.put(r.key(), ValueAndTimestamp.make(r.value(), r.timestamp()));
                    }
                }
                default -> {
                    Next next = next(store, o, v, r.key(), r.value(), r.timestamp());
                    if (next.some()) {
                        context.forward(r.withValue(next.value()));
                    }
                }
            }
        }
    }

    private static final class FixedWorker implements FixedKeyProcessor<Object, Object, Object> {
        private final int at;
        private final Program.Op o;
        private final String v;
        private FixedKeyProcessorContext<Object, Object> context;
        private TimestampedKeyValueStore<Object, Object> store;

        FixedWorker(int at, Program.Op o, String v) {
            this.at = at;
            this.o = o;
            this.v = v;
        }

        @Override public void init(FixedKeyProcessorContext<Object, Object> c) {
            context = c;
            store = c.getStateStore(o.store());
        }

        @Override public void process(FixedKeyRecord<Object, Object> r) {
            if (o.f().equals("stamp")) {
                FixedKeyRecord<Object, Object> stamped = r.withTimestamp(r.timestamp() + o.n()).withHeaders(new RecordHeaders(r.headers()));
                stamped.headers().add("p", Integer.toString(at).getBytes());
                context.forward(stamped);
                if (hash(keyText(r.key()) + text(r.value(), v)) % 2 == 0) {
                    context.forward(r);
                }
                return;
            }
            Next next = next(store, o, v, r.key(), r.value(), r.timestamp());
            if (next.some()) {
                context.forward(r.withValue(next.value()));
            }
        }
    }
}
