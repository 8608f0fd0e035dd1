package oracle;

import java.util.List;

import com.fasterxml.jackson.annotation.JsonIgnoreProperties;

/** A topology and its input, as program.go describes them. */
@JsonIgnoreProperties(ignoreUnknown = true)
record Program(boolean caching, boolean reuse, boolean selves, List<Topic> topics, List<Op> ops, List<Event> input) {
    record Topic(String name, String v) { }

    @JsonIgnoreProperties(ignoreUnknown = true)
    record Op(String op, List<Integer> in, String v, String f, int n, String kf, int kn, String name, String store, List<String> knobs, List<String> topics,
              long size, long advance, long grace, long before, long after, long history,
              long retention) { }

    @JsonIgnoreProperties(ignoreUnknown = true)
    record Event(long clock, String topic, String key, String value, long time, List<Header> headers) { }

    record Header(String key, String value) { }
}
