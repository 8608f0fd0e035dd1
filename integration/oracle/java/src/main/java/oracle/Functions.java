package oracle;

import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

import java.util.function.BiFunction;

import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.kstream.Aggregator;
import org.apache.kafka.streams.kstream.Initializer;
import org.apache.kafka.streams.kstream.KeyValueMapper;
import org.apache.kafka.streams.kstream.Merger;
import org.apache.kafka.streams.kstream.Predicate;
import org.apache.kafka.streams.kstream.Reducer;
import org.apache.kafka.streams.kstream.ValueJoiner;
import org.apache.kafka.streams.kstream.ValueJoinerWithKey;
import org.apache.kafka.streams.kstream.ValueJoinerWithStreamAndMappedKey;
import org.apache.kafka.streams.kstream.ValueMapper;
import org.apache.kafka.streams.kstream.ValueMapperWithKey;
import org.apache.kafka.streams.kstream.ValueTransformerWithKey;
import org.apache.kafka.streams.kstream.ValueTransformerWithKeySupplier;
import org.apache.kafka.streams.kstream.Windowed;
import org.apache.kafka.streams.processor.ProcessorContext;

/**
 * The functions that programs name, as in functions.go. They treat nulls as Millrace does: a function that makes a value of values is not called for a null,
 * and where a function looks at a record, a null reads as the zero of its type. Types are named S (text), L (numbers) and P (text that may be null).
 */
final class Functions {
    private Functions() { }

    @SuppressWarnings("unchecked")
    static <T> Serde<T> serde(String v) {
        return (Serde<T>) (v.equals("L") ? Serdes.Long() : Serdes.String());
    }

    /** What a function sees of a value; null is the zero of the type. */
    static String text(Object v, String type) {
        if (v == null) {
            return switch (type) {
                case "L" -> "0";
                case "P" -> "null";
                default -> "";
            };
        }
        return v.toString();
    }

    static String keyText(Object k) {
        if (k == null) {
            return "";
        }
        if (k instanceof Windowed<?> w) {
            return w.key() + "@" + w.window().start() + "-" + w.window().end();
        }
        return k.toString();
    }

    /** A value of a type; text that is null becomes the zero of types without a null. */
    static Object as(String text, String type) {
        return switch (type) {
            case "L" -> text == null ? 0L : number(text);
            case "P" -> text;
            default -> text == null ? "" : text;
        };
    }

    static long hash(String s) {
        int h = (int) 2166136261L;
        for (byte b : s.getBytes(StandardCharsets.UTF_8)) {
            h = (h ^ (b & 0xff)) * 16777619;
        }
        return h & 0xffffffffL;
    }

    static long number(String s) {
        if (s.isEmpty()) {
            return 0;
        }
        return s.matches("-?[0-9]{1,18}") ? Long.parseLong(s) : hash(s) % 1000;
    }

    static String cut(String s) {
        return s.length() <= 24 ? s : s.substring(0, 12) + String.format("~%08x", hash(s));
    }

    static String head(String s, int n) {
        return s.substring(0, Math.min(n, s.length()));
    }

    static boolean test(String f, int n, String key, String s) {
        return switch (f) {
            case "hash" -> hash(key + "|" + s) % n != 0;
            case "even" -> number(s) % 2 == 0;
            case "short" -> s.length() < n;
            case "all" -> true;
            case "none" -> false;
            default -> throw new IllegalArgumentException("no predicate " + f);
        };
    }

    static String map(String f, int n, String s) {
        return switch (f) {
            case "same" -> s;
            case "upper" -> s.toUpperCase(Locale.ROOT);
            case "append" -> cut(s + (char) ('a' + n));
            case "head" -> head(s, n);
            case "len" -> Integer.toString(s.length());
            case "plus" -> Long.toString(number(s) + n);
            case "half" -> (hash(s) + n) % 2 == 0 ? null : s;
            default -> throw new IllegalArgumentException("no mapper " + f);
        };
    }

    static List<String> list(String f, int n, String s) {
        List<String> all = new ArrayList<>();
        switch (f) {
            case "each" -> {
                for (int i = 0; i < Math.min(3, s.length()); i++) {
                    all.add(s.substring(i, i + 1));
                }
            }
            case "twice" -> {
                all.add(s);
                all.add(cut(s + s));
            }
            case "some" -> {
                for (int i = 0; i < hash(s) % 3; i++) {
                    all.add(map("half", n, cut(s + i)));
                }
            }
            default -> throw new IllegalArgumentException("no list " + f);
        }
        return all;
    }

    static String key(String f, int n, String key, String s) {
        return switch (f) {
            case "first" -> head(s, 1);
            case "same" -> key;
            case "both" -> cut(key + head(s, 1));
            case "mod" -> "k" + hash(s) % n;
            case "const" -> "c";
            default -> throw new IllegalArgumentException("no key function " + f);
        };
    }

    static String join(String f, int n, String a, String b) {
        return switch (f) {
            case "concat" -> cut(a + "+" + b);
            case "plus" -> Long.toString(number(a) + number(b));
            case "left" -> a;
            case "right" -> b;
            case "half" -> map("half", n, cut(a + "+" + b));
            default -> throw new IllegalArgumentException("no joiner " + f);
        };
    }

    static String add(String f, int n, String a, String key, String s) {
        return switch (f) {
            case "concat" -> cut(a + s);
            case "plus" -> Long.toString(number(a) + number(s));
            case "last" -> s;
            case "keyed" -> cut(a + key + s);
            case "half" -> map("half", n, cut(a + s));
            default -> throw new IllegalArgumentException("no adder " + f);
        };
    }

    static String subtract(String f, int n, String a, String key, String s) {
        return f.equals("plus") ? Long.toString(number(a) - number(s)) : add(f, n, a, key, "-" + s);
    }

    static String withKey(String key, String s) {
        return s == null ? null : cut(key + ":" + s);
    }

    static Predicate<Object, Object> predicate(String f, int n, String v) {
        return (k, x) -> test(f, n, keyText(k), text(x, v));
    }

    static Predicate<Object, Object> records(String f) {
        return switch (f) {
            case "value" -> (k, x) -> x != null;
            case "key" -> (k, x) -> k != null;
            case "both" -> (k, x) -> k != null && x != null;
            case "either" -> (k, x) -> k != null || x != null;
            default -> throw new IllegalArgumentException("no predicate of records " + f);
        };
    }

    static ValueMapper<Object, Object> mapper(String f, int n, String v, String u) {
        return x -> x == null ? null : as(map(f, n, text(x, v)), u);
    }

    static ValueMapperWithKey<Object, Object, Object> mapperWithKey(String f, int n, String v, String u) {
        return (k, x) -> x == null ? null : as(withKey(keyText(k), map(f, n, text(x, v))), u);
    }

    static ValueMapper<Object, Iterable<Object>> lister(String f, int n, String v, String u) {
        return x -> {
            List<Object> all = new ArrayList<>();
            if (x != null) {
                list(f, n, text(x, v)).forEach(s -> all.add(as(s, u)));
            }
            return all;
        };
    }

    static ValueMapperWithKey<Object, Object, Iterable<Object>> listerWithKey(String f, int n, String v, String u) {
        return (k, x) -> {
            List<Object> all = new ArrayList<>();
            if (x != null) {
                list(f, n, text(x, v)).forEach(s -> all.add(as(withKey(keyText(k), s), u)));
            }
            return all;
        };
    }

    static KeyValueMapper<Object, Object, Object> keyMaker(String f, int n, String v) {
        return (k, x) -> key(f, n, keyText(k), text(x, v));
    }

    static KeyValueMapper<Object, Object, KeyValue<Object, Object>> both(String kf, int kn, String f, int n, String v, String u) {
        return (k, x) -> KeyValue.pair(key(kf, kn, keyText(k), text(x, v)), x == null ? null : as(map(f, n, text(x, v)), u));
    }

    static KeyValueMapper<Object, Object, Iterable<KeyValue<Object, Object>>> emitter(String kf, int kn, String f, int n, String v, String u) {
        return (k, x) -> {
            List<KeyValue<Object, Object>> all = new ArrayList<>();
            if (x != null) {
                for (String s : list(f, n, text(x, v))) {
                    all.add(KeyValue.pair(key(kf, kn, keyText(k), s == null ? "" : s), as(s, u)));
                }
            }
            return all;
        };
    }

    static KeyValueMapper<Object, Object, KeyValue<Object, Object>> nuller(String f, int n, String v) {
        return (k, x) -> {
            boolean hit = hash(keyText(k) + "|" + text(x, v)) % n == 0;
            return KeyValue.pair(k == null || hit && !f.equals("value") ? null : keyText(k), hit && !f.equals("key") ? null : x);
        };
    }

    static ValueJoiner<Object, Object, Object> joiner(String f, int n, String v, String w) {
        return (a, b) -> as(join(f, n, side(a, v), side(b, w)), v);
    }

    static ValueJoinerWithKey<Object, Object, Object, Object> joinerWithKey(String f, int n, String v, String w) {
        return (k, a, b) -> as(withKey(keyText(k), join(f, n, side(a, v), side(b, w))), v);
    }

    static ValueJoinerWithStreamAndMappedKey<Object, Object, Object, Object, Object> joinerWithKeys(String f, int n, String v, String w) {
        return (k, l, a, b) -> as(withKey(keyText(k) + "/" + keyText(l), join(f, n, side(a, v), side(b, w))), v);
    }

    static BiFunction<Object, Object, Object> foreignKey(String f, int n, String v) {
        return (k, x) -> hash(text(x, v)) % 4 == 0 ? null : key(f, n, keyText(k), text(x, v));
    }

    private static String side(Object v, String type) {
        return v == null ? "-" : text(v, type);
    }

    static Initializer<Object> initial(String a) {
        return () -> as("", a);
    }

    static Aggregator<Object, Object, Object> adder(String f, int n, String v, String a) {
        return (k, x, agg) -> as(add(f, n, text(agg, a), keyText(k), text(x, v)), a);
    }

    static Reducer<Object> reducer(String f, int n, String v) {
        return (a, x) -> as(add(f, n, text(a, v), "", text(x, v)), v);
    }

    static Aggregator<Object, Object, Object> subtracter(String f, int n, String v, String a) {
        return (k, x, agg) -> as(subtract(f, n, text(agg, a), keyText(k), text(x, v)), a);
    }

    static Reducer<Object> unreducer(String f, int n, String v) {
        return (a, x) -> as(subtract(f, n, text(a, v), "", text(x, v)), v);
    }

    static ValueTransformerWithKeySupplier<Object, Object, Object> transformer(String f, int n, String v, String u) {
        return () -> new ValueTransformerWithKey<>() {
            @Override public void init(ProcessorContext context) { }

            @Override public Object transform(Object k, Object x) {
                if (x == null) {
                    return (hash(keyText(k)) + n) % 2 == 0 ? null : as(withKey(keyText(k), "gone"), u);
                }
                return as(withKey(keyText(k), map(f, n, text(x, v))), u);
            }

            @Override public void close() { }
        };
    }

    static Merger<Object, Object> merger(String f, int n, String a) {
        return (k, x, y) -> as(add(f, n, text(x, a), keyText(k), text(y, a)), a);
    }
}
