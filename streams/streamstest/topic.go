package streamstest

import (
	"time"

	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/tasks"
)

// Input writes records to a topic. Their time is the driver's clock at the moment the Input was made, plus what AutoAdvance and At said.
type Input[K, V any] struct {
	d         *Driver
	topic     string
	key       serde.Serde[K]
	value     serde.Serde[V]
	partition int32
	at        time.Time
	step      time.Duration
}

// Input opens a topic for writing.
func (d *Driver) Input[K, V any](topic streams.Topic[K, V]) *Input[K, V] {
	key, value := topic.Serdes()
	return &Input[K, V]{d: d, topic: topic.Name(), key: key, value: value, partition: tasks.AnyPartition, at: d.now}
}

// To pins what follows to one partition; -1 gives the choice back to the partitioner.
func (in *Input[K, V]) To(partition int32) *Input[K, V] { in.partition = partition; return in }

// At sets the time of the next record, and AutoAdvance how much later each following one is.
func (in *Input[K, V]) At(t time.Time) *Input[K, V] { in.at = t; return in }

// AutoAdvance sets the step between records.
func (in *Input[K, V]) AutoAdvance(step time.Duration) *Input[K, V] { in.step = step; return in }

// Record makes a record of the topic's types.
func (in *Input[K, V]) Record(key K, value V) streams.Record[K, V] {
	return streams.Record[K, V]{Key: key, Value: value}
}

// Pipe writes one record.
func (in *Input[K, V]) Pipe(key K, value V) {
	in.d.t.Helper()
	in.PipeRecords(in.Record(key, value))
}

// PipeAt writes one record of a given time.
func (in *Input[K, V]) PipeAt(t time.Time, key K, value V) {
	in.d.t.Helper()
	in.PipeRecords(in.Record(key, value).WithTimestamp(t))
}

// PipeValues writes records with a null key.
func (in *Input[K, V]) PipeValues(values ...V) {
	in.d.t.Helper()
	for _, v := range values {
		in.PipeRecords(streams.Record[K, V]{Value: v, NullKey: true})
	}
}

// PipeNull writes a tombstone.
func (in *Input[K, V]) PipeNull(key K) {
	in.d.t.Helper()
	in.PipeRecords(streams.Record[K, V]{Key: key, NullValue: true})
}

// PipeRecords writes whole records. One without a time gets the input's.
func (in *Input[K, V]) PipeRecords(records ...streams.Record[K, V]) {
	in.d.t.Helper()
	for _, r := range records {
		if r.Timestamp.IsZero() {
			r.Timestamp = in.at
			in.at = in.at.Add(in.step)
		}
		out := tasks.Record{Timestamp: r.Timestamp.UnixMilli(), Headers: r.Headers}
		var err error
		if !r.NullKey {
			if out.Key, err = in.key.Append([]byte{}, serde.Place{Topic: in.topic, Key: true}, r.Key); err != nil {
				in.d.t.Fatalf("streamstest: key for %s: %v", in.topic, err)
			}
		}
		if !r.NullValue {
			if out.Value, err = in.value.Append([]byte{}, serde.Place{Topic: in.topic}, r.Value); err != nil {
				in.d.t.Fatalf("streamstest: value for %s: %v", in.topic, err)
			}
		}
		in.d.write(in.topic, in.partition, out)
		in.d.settle()
	}
}

// PipeRaw writes bytes, to see what becomes of those that do not decode. nil is a null.
func (in *Input[K, V]) PipeRaw(key, value []byte) {
	in.d.t.Helper()
	in.d.write(in.topic, in.partition, tasks.Record{Key: key, Value: value, Timestamp: in.at.UnixMilli()})
	in.at = in.at.Add(in.step)
	in.d.settle()
}

// Output reads the records of a topic, over all partitions in the order they were written.
type Output[K, V any] struct {
	d     *Driver
	topic string
	key   serde.Serde[K]
	value serde.Serde[V]
	next  int
}

// Output opens a topic for reading, from its first record on. Internal topics can be read as well, by their full names.
func (d *Driver) Output[K, V any](topic streams.Topic[K, V]) *Output[K, V] {
	key, value := topic.Serdes()
	return &Output[K, V]{d: d, topic: topic.Name(), key: key, value: value}
}

// Empty reports whether nothing is left.
func (out *Output[K, V]) Empty() bool { return out.next >= len(out.d.topic(out.topic).order) }

// Read returns the next record. There being none fails the test.
func (out *Output[K, V]) Read() streams.Record[K, V] {
	out.d.t.Helper()
	if out.Empty() {
		out.d.t.Fatalf("streamstest: nothing is left in %s", out.topic)
	}
	r, _ := out.read()
	return r
}

func (out *Output[K, V]) read() (r streams.Record[K, V], partition int32) {
	out.d.t.Helper()
	l := out.d.topic(out.topic)
	at := l.order[out.next]
	out.next++
	raw := l.partitions[at.partition][at.index]
	r = streams.Record[K, V]{
		Timestamp: time.UnixMilli(raw.Timestamp).UTC(), Headers: raw.Headers, NullKey: raw.Key == nil, NullValue: raw.Value == nil,
	}
	var err error
	if !r.NullKey {
		if r.Key, err = out.key.Decode(serde.Place{Topic: out.topic, Key: true}, raw.Key); err != nil {
			out.d.t.Fatalf("streamstest: key in %s: %v", out.topic, err)
		}
	}
	if !r.NullValue {
		if r.Value, err = out.value.Decode(serde.Place{Topic: out.topic}, raw.Value); err != nil {
			out.d.t.Fatalf("streamstest: value in %s: %v", out.topic, err)
		}
	}
	return r, at.partition
}

// ReadValue is Read for its value. A null fails the test.
func (out *Output[K, V]) ReadValue() V {
	out.d.t.Helper()
	r := out.Read()
	if r.NullValue {
		out.d.t.Fatalf("streamstest: a null in %s", out.topic)
	}
	return r.Value
}

// ReadAll returns all records that are left.
func (out *Output[K, V]) ReadAll() []streams.Record[K, V] {
	out.d.t.Helper()
	var all []streams.Record[K, V]
	for !out.Empty() {
		all = append(all, out.Read())
	}
	return all
}

// ReadPartition returns all records that are left in one partition, and passes over those of others.
func (out *Output[K, V]) ReadPartition(p int32) []streams.Record[K, V] {
	out.d.t.Helper()
	var all []streams.Record[K, V]
	for !out.Empty() {
		if r, at := out.read(); at == p {
			all = append(all, r)
		}
	}
	return all
}

// Latest folds what is left into a table: the last value of each key, without the deleted ones.
func Latest[K comparable, V any](out *Output[K, V]) map[K]V {
	out.d.t.Helper()
	table := map[K]V{}
	for _, r := range out.ReadAll() {
		if r.NullValue {
			delete(table, r.Key)
		} else {
			table[r.Key] = r.Value
		}
	}
	return table
}
