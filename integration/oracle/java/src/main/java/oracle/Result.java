package oracle;

import java.util.ArrayList;
import java.util.List;

/** What became of a program, as result.go reads it. */
final class Result {
    public int id;
    public String error;
    public String describe;
    public List<Step> steps = new ArrayList<>();
    public List<Store> stores = new ArrayList<>();

    /** What one event of the input led to. */
    static final class Step {
        public List<Topic> topics = new ArrayList<>();
        public List<String> calls = new ArrayList<>();
    }

    record Topic(String name, List<Record> records) { }

    record Record(byte[] key, byte[] value, long time, List<Header> headers) { }

    record Header(String key, byte[] value) { }

    record Store(String name, List<Row> rows) { }

    record Row(String key, String value, long time) { }
}
