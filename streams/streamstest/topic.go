package streamstest

import (
	"slices"
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
	d.t.Helper()
	key, value := serdesOf(d, topic)
	return &Input[K, V]{d: d, topic: topic.Name(), key: key, value: value, partition: tasks.AnyPartition, at: d.now}
}

func serdesOf[K, V any](d *Driver, topic streams.Topic[K, V]) (serde.Serde[K], serde.Serde[V]) {
	d.t.Helper()
	key, value := topic.Serdes()
	if key == nil || value == nil {
		d.t.Fatalf("streamstest: the topic %s was made without a serde; a test needs one for key and value, also where the builder has a default", topic.Name())
	}
	return key, value
}

// To pins what follows to one partition; -1 gives the choice back to the partitioner.
func (in *Input[K, V]) To(partition int) *Input[K, V] {
	in.d.t.Helper()
	if n := in.d.partitions(in.topic); partition < -1 || partition >= int(n) {
		in.d.t.Fatalf("streamstest: %s has no partition %d; it has %d, which the option Partitions changes", in.topic, partition, n)
	}
	in.partition = int32(partition)
	return in
}

// At sets the time of the next record, and AutoAdvance how much later each following one is.
func (in *Input[K, V]) At(t time.Time) *Input[K, V] { in.at = t; return in }

// AutoAdvance sets the step between records.
func (in *Input[K, V]) AutoAdvance(step time.Duration) *Input[K, V] { in.step = step; return in }

// Record makes a record of the topic's types.
func (in *Input[K, V]) Record(key K, value V) streams.Record[K, V] {
	return streams.Record[K, V]{}.WithKey(key).WithValue(value)
}

// Pipe writes one record. A nil pointer or interface is a null.
func (in *Input[K, V]) Pipe(key K, value V) {
	in.d.t.Helper()
	in.PipeRecords(in.Record(key, value))
}

// PipeAt writes one record of a given time. It leaves the input's own time alone.
func (in *Input[K, V]) PipeAt(t time.Time, key K, value V) {
	in.d.t.Helper()
	in.pipe(in.Record(key, value), t)
}

// PipeValues writes records with a null key.
func (in *Input[K, V]) PipeValues(values ...V) {
	in.d.t.Helper()
	for _, v := range values {
		in.PipeRecords(streams.Record[K, V]{NullKey: true}.WithValue(v))
	}
}

// PipeNull writes a tombstone.
func (in *Input[K, V]) PipeNull(key K) {
	in.d.t.Helper()
	in.PipeRecords(streams.Record[K, V]{}.WithKey(key).Null())
}

// PipeRecords writes whole records. One without a time gets the input's.
func (in *Input[K, V]) PipeRecords(records ...streams.Record[K, V]) {
	in.d.t.Helper()
	for _, r := range records {
		at := r.Timestamp
		if at.IsZero() {
			at = in.next()
		}
		in.pipe(r, at)
	}
}

// PipeRaw writes bytes, to see what becomes of those that do not decode. nil is a null.
func (in *Input[K, V]) PipeRaw(key, value []byte) {
	in.d.t.Helper()
	in.send(tasks.Record{Key: slices.Clone(key), Value: slices.Clone(value)}, in.next())
}

// next is the time of the next record.
func (in *Input[K, V]) next() time.Time {
	at := in.at
	in.at = at.Add(in.step)
	return at
}

func (in *Input[K, V]) pipe(r streams.Record[K, V], at time.Time) {
	in.d.t.Helper()
	out := tasks.Record{Headers: r.Headers}
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
	in.send(out, at)
}

func (in *Input[K, V]) send(r tasks.Record, at time.Time) {
	in.d.t.Helper()
	r.Timestamp = at.UnixMilli()
	in.d.write(in.topic, in.partition, r, committed)
	in.d.settle()
}

// Output reads the records of a topic, over all partitions in the order they were written. Under [streams.ExactlyOnce] it sees what is committed.
type Output[K, V any] struct {
	d      *Driver
	topic  string
	key    serde.Serde[K]
	value  serde.Serde[V]
	next   int     // in the topic's order
	unread []place // before next
}

// Output opens a topic for reading, from its first record on. Internal topics can be read as well, by their full names.
func (d *Driver) Output[K, V any](topic streams.Topic[K, V]) *Output[K, V] {
	d.t.Helper()
	key, value := serdesOf(d, topic)
	return &Output[K, V]{d: d, topic: topic.Name(), key: key, value: value}
}

// fill notes what has become readable.
func (out *Output[K, V]) fill() *topicLog {
	l := out.d.topic(out.topic)
	for ; out.next < len(l.order); out.next++ {
		switch l.at(l.order[out.next]).state {
		case pending:
			return l
		case committed:
			out.unread = append(out.unread, l.order[out.next])
		}
	}
	return l
}

// Empty reports whether nothing is left.
func (out *Output[K, V]) Empty() bool {
	out.fill()
	return len(out.unread) == 0
}

// Read returns the next record. There being none fails the test.
func (out *Output[K, V]) Read() streams.Record[K, V] {
	out.d.t.Helper()
	l := out.fill()
	if len(out.unread) == 0 {
		if err := out.d.Err(); err != nil {
			out.d.t.Fatalf("streamstest: nothing is left in %s, and the topology stopped: %v", out.topic, err)
		}
		out.d.t.Fatalf("streamstest: nothing is left in %s", out.topic)
	}
	p := out.unread[0]
	out.unread = out.unread[1:]
	return out.decode(l.at(p))
}

func (out *Output[K, V]) decode(raw *record) streams.Record[K, V] {
	out.d.t.Helper()
	r := streams.Record[K, V]{
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
	return r
}

// ReadValue is Read for its value. A null fails the test.
func (out *Output[K, V]) ReadValue() V {
	out.d.t.Helper()
	r := out.Read()
	if r.NullValue {
		out.d.t.Fatalf("streamstest: a null in %s, where a value is expected", out.topic)
	}
	return r.Value
}

// ReadAll returns all records that are left.
func (out *Output[K, V]) ReadAll() []streams.Record[K, V] {
	out.d.t.Helper()
	return out.read(func(place) bool { return true })
}

// ReadPartition returns all records that are left in one partition. Those of others stay.
func (out *Output[K, V]) ReadPartition(p int) []streams.Record[K, V] {
	out.d.t.Helper()
	return out.read(func(at place) bool { return int(at.partition) == p })
}

func (out *Output[K, V]) read(want func(place) bool) (all []streams.Record[K, V]) {
	out.d.t.Helper()
	l := out.fill()
	var left []place
	for _, p := range out.unread {
		if want(p) {
			all = append(all, out.decode(l.at(p)))
		} else {
			left = append(left, p)
		}
	}
	out.unread = left
	return all
}

// Latest folds what is left into a table: the last value of each key, without the deleted ones and without null keys.
func Latest[K comparable, V any](out *Output[K, V]) map[K]V {
	out.d.t.Helper()
	table := map[K]V{}
	for _, r := range out.ReadAll() {
		switch {
		case r.NullKey:
		case r.NullValue:
			delete(table, r.Key)
		default:
			table[r.Key] = r.Value
		}
	}
	return table
}
