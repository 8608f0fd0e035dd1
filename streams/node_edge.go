package streams

import (
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/streams/window"
	"github.com/millrace/millrace/tasks"
)

// sourceSpecOf is the payload of a source node.
func sourceSpecOf[K, V any](src sourceSpec[K, V], o options) spec {
	return spec{
		make:   func(t *task, n *nodeInfo) any { return newSource(t, n, src, o) },
		source: &sourceInfo{reset: o.reset},
	}
}

func newSource[K, V any](t *task, n *nodeInfo, src sourceSpec[K, V], o options) *source[K, V] {
	s := &source[K, V]{base: base{t, n}, key: src.key, value: src.value, timestamp: src.timestamp}
	if t.cfg != nil {
		s.policy = t.cfg.timestamps
	}
	if o.timestamps != nil {
		s.policy = *o.timestamps
	}
	s.keyHeaders, _ = src.key.(serde.HeaderSerde[K])
	s.valueHeaders, _ = src.value.(serde.HeaderSerde[V])
	return s
}

// source decodes the records of a topic and hands them on. It is where a record enters the typed world.
type source[K, V any] struct {
	base
	children[K, V]
	key          serde.Serde[K]
	value        serde.Serde[V]
	keyHeaders   serde.HeaderSerde[K]
	valueHeaders serde.HeaderSerde[V]
	timestamp    func(K, V) time.Time
	policy       TimestampPolicy

	decoded rec[K, V] // by Time, for the Process that follows
	at      *tasks.Record
}

// Time implements [tasks.Source]. Without an extractor of the user's it decodes nothing.
func (s *source[K, V]) Time(r *tasks.Record, partitionTime int64) (ms int64, ok bool) {
	ms = r.Timestamp
	switch {
	case s.policy == AlwaysWallClock:
		return s.t.ctx.Now(), true
	case s.timestamp != nil:
		if !s.decode(r) {
			return 0, false
		}
		s.at = r
		s.enter()
		t := s.timestamp(s.decoded.key, s.decoded.value)
		if ms = t.UnixMilli(); t.IsZero() {
			ms = -1
		}
	}
	if ms >= 0 {
		return ms, true
	}
	switch s.policy {
	case SkipOnInvalidTime:
		s.t.ctx.Drop("invalid timestamp")
		s.t.log.Warn("record with an invalid time is skipped", "topic", s.t.ctx.Topic, "partition", s.t.ctx.Partition, "offset", r.Offset, "time", ms)
		return 0, false
	case PartitionTimeThen:
		if partitionTime >= 0 {
			return partitionTime, true
		}
	}
	tasks.Throw(&RecordError{Failure{
		Err:   fmt.Errorf("record has the time %d ms, before 1970; streams.OnInvalidTimestamp decides what to do with such records", ms),
		Stage: ProcessRecord, Node: s.info.name, Task: s.t.ctx.Task.String(),
		Origin: Origin{s.t.ctx.Topic, s.t.ctx.Partition, r.Offset}, Headers: r.Headers, RawKey: r.Key, RawValue: r.Value,
	}})
	return 0, false
}

// Process implements [tasks.Source].
func (s *source[K, V]) Process(r *tasks.Record, ms int64) {
	if s.at != r && !s.decode(r) {
		return
	}
	s.at = nil
	s.decoded.ts = ms
	s.forward(s.decoded)
}

// decode fills s.decoded. It reports false for a record that the handler skipped.
func (s *source[K, V]) decode(r *tasks.Record) bool {
	s.enter()
	d := rec[K, V]{headers: r.Headers, nullKey: r.Key == nil, nullValue: r.Value == nil}
	var err error
	if !d.nullKey {
		at := serde.Place{Topic: s.t.ctx.Topic, Key: true}
		if s.keyHeaders != nil {
			d.key, err = s.keyHeaders.DecodeWithHeaders(at, r.Headers, r.Key)
		} else {
			d.key, err = s.key.Decode(at, r.Key)
		}
		if err != nil {
			s.failed(DecodeKey, err)
			return false
		}
	}
	if !d.nullValue {
		at := serde.Place{Topic: s.t.ctx.Topic}
		if s.valueHeaders != nil {
			d.value, err = s.valueHeaders.DecodeWithHeaders(at, r.Headers, r.Value)
		} else {
			d.value, err = s.value.Decode(at, r.Value)
		}
		if err != nil {
			s.failed(DecodeValue, err)
			return false
		}
	}
	s.decoded = d
	return true
}

// sinkSpec is the payload of a sink with a fixed topic.
func sinkSpec[K, V any](topic string, internal bool, key serde.Serde[K], value serde.Serde[V], p func(Record[K, V], int) Placement) spec {
	return specOf(func(t *task, n *nodeInfo) sink[K, V] {
		if internal {
			return newInternalSink(t, n, topic, key, value, p)
		}
		return &topicSink[K, V]{topicWriter: newTopicWriter(base{t, n}, key, value, p), topic: topic}
	})
}

func newInternalSink[K, V any](t *task, n *nodeInfo, topic string, key serde.Serde[K], value serde.Serde[V], p func(Record[K, V], int) Placement) *topicSink[K, V] {
	w := newTopicWriter(base{t, n}, key, value, p)
	w.internal = true
	return &topicSink[K, V]{topicWriter: w, topic: t.internalTopic(topic)}
}

// routeSpec is the payload of a sink that chooses the topic per record.
func routeSpec[K, V any](f func(Record[K, V], Origin) string, key serde.Serde[K], value serde.Serde[V], p func(Record[K, V], int) Placement) spec {
	return specOf(func(t *task, n *nodeInfo) sink[K, V] {
		return &routeSink[K, V]{topicWriter: newTopicWriter(base{t, n}, key, value, p), f: f, outputs: map[string]tasks.Output{}}
	})
}

// topicWriter encodes records and sends them.
type topicWriter[K, V any] struct {
	base
	key          serde.Serde[K]
	value        serde.Serde[V]
	keyHeaders   serde.HeaderSerde[K]
	valueHeaders serde.HeaderSerde[V]
	inner        window.InnerSerde[K] // of windowed keys
	place        func(Record[K, V], int) Placement
	internal     bool
}

func newTopicWriter[K, V any](b base, key serde.Serde[K], value serde.Serde[V], p func(Record[K, V], int) Placement) topicWriter[K, V] {
	w := topicWriter[K, V]{base: b, key: key, value: value, place: p}
	w.inner, _ = key.(window.InnerSerde[K])
	w.keyHeaders, _ = key.(serde.HeaderSerde[K])
	w.valueHeaders, _ = value.(serde.HeaderSerde[V])
	return w
}

type topicSink[K, V any] struct {
	topicWriter[K, V]
	topic string
	out   tasks.Output
}

func (s *topicSink[K, V]) open() error {
	out, err := s.t.output(s.topic)
	s.out = out
	return err
}

func (s *topicSink[K, V]) process(r rec[K, V]) { s.write(s.topic, s.out, r) }

type routeSink[K, V any] struct {
	topicWriter[K, V]
	f       func(Record[K, V], Origin) string
	outputs map[string]tasks.Output
}

func (s *routeSink[K, V]) process(r rec[K, V]) {
	s.enter()
	topic := s.f(r.record(), s.t.origin())
	out := s.outputs[topic]
	if out == nil {
		var err error
		if out, err = s.t.output(topic); err != nil {
			s.t.failed(s.info.name, Produce, err, topic)
			return
		}
		s.outputs[topic] = out
	}
	s.write(topic, out, r)
}

func (w *topicWriter[K, V]) write(topic string, out tasks.Output, r rec[K, V]) {
	w.enter()
	arena := w.t.ctx.Producer.Arena()
	headers := r.headers
	var key, value []byte
	if !r.nullKey {
		var err error
		b := arena.Begin()
		if w.keyHeaders != nil {
			b, headers, err = withHeaders(w.keyHeaders, b, serde.Place{Topic: topic, Key: true}, headers, r.key)
		} else {
			b, err = w.key.Append(b, serde.Place{Topic: topic, Key: true}, r.key)
		}
		if err != nil {
			w.t.failed(w.info.name, EncodeKey, err, topic)
			return
		}
		key = arena.End(b)
	}
	if !r.nullValue {
		var err error
		b := arena.Begin()
		if w.valueHeaders != nil {
			b, headers, err = withHeaders(w.valueHeaders, b, serde.Place{Topic: topic}, headers, r.value)
		} else {
			b, err = w.value.Append(b, serde.Place{Topic: topic}, r.value)
		}
		if err != nil {
			w.t.failed(w.info.name, EncodeValue, err, topic)
			return
		}
		value = arena.End(b)
	}
	if w.place == nil && w.inner == nil {
		out.Send(tasks.AnyPartition, key, value, r.ts, headers)
		return
	}
	w.placed(topic, out, key, value, headers, r)
}

// withHeaders encodes with a serde that changes headers. The pointer to them is made here, where it costs only records that have such a serde an allocation.
func withHeaders[T any](s serde.HeaderSerde[T], b []byte, at serde.Place, headers Headers, v T) ([]byte, Headers, error) {
	h := slices.Clip([]serde.Header(headers)) // other children of the record have the same headers
	b, err := s.AppendWithHeaders(b, at, &h, v)
	return b, h, err
}

// placed sends a record whose partition is not simply that of its key.
func (w *topicWriter[K, V]) placed(topic string, out tasks.Output, key, value []byte, headers Headers, r rec[K, V]) {
	partitions, err := out.Partitions()
	if err != nil {
		w.t.failed(w.info.name, Produce, err, topic)
		return
	}
	var p Placement
	if w.place != nil {
		p = w.place(r.record(), partitions)
	}
	list := p.partitions
	switch p.kind {
	case placeDefault:
		partition := tasks.AnyPartition
		if w.inner != nil && !r.nullKey {
			inner, err := w.inner.AppendInner(w.t.scratch[:0], serde.Place{Topic: topic, Key: true}, r.key)
			if err != nil {
				w.t.failed(w.info.name, EncodeKey, err, topic)
				return
			}
			w.t.scratch = inner
			partition = tasks.PartitionFor(inner, partitions)
		}
		out.Send(partition, key, value, r.ts, headers)
		return
	case placeNowhere:
		w.t.ctx.Drop("partitioner")
		return
	case placeOne:
		list = []int{int(p.partition)}
	case placeMany:
		if w.internal {
			w.t.failed(w.info.name, Produce, fmt.Errorf("several partitions for one record of an internal topic"), topic)
			return
		}
	}
	for _, i := range list {
		if i < 0 || i >= partitions {
			w.t.failed(w.info.name, Produce, fmt.Errorf("partitioner says %d where the topic has %d partitions", i, partitions), topic)
			return
		}
	}
	for _, i := range list {
		out.Send(int32(i), key, value, r.ts, headers)
	}
}
