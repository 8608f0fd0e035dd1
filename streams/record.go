package streams

import (
	"slices"
	"time"

	"github.com/millrace/millrace/streams/serde"
)

// Record is a key and a value with the time and the headers that travel with them. It is passed by value: the With methods return a
// changed copy. Headers is shared between copies until WithHeader or WithHeaders replaces it; never write into it, nor into a []byte or other
// reference inside Key and Value: other branches of the topology see the same memory.
//
// A literal without NullKey and NullValue has both a key and a value. All fields are exported, so tests may compare records.
type Record[K, V any] struct {
	Key       K
	Value     V
	Timestamp time.Time // UTC, milliseconds
	Headers   Headers

	NullKey   bool // Kafka's null key; Key is the zero K
	NullValue bool // Kafka's null value, in a table a tombstone; Value is the zero V
}

// Get returns the value and whether there is one.
func (r Record[K, V]) Get() (v V, ok bool) { return r.Value, !r.NullValue }

// WithKey returns a copy with another key, which is a null if key is a nil pointer or interface.
func (r Record[K, V]) WithKey[K2 any](key K2) Record[K2, V] {
	null := isNull[K2]()
	return Record[K2, V]{
		Key: key, Value: r.Value, Timestamp: r.Timestamp, Headers: r.Headers, NullKey: null != nil && null(key), NullValue: r.NullValue,
	}
}

// WithValue returns a copy with another value, which is a null if value is a nil pointer or interface.
func (r Record[K, V]) WithValue[V2 any](value V2) Record[K, V2] {
	null := isNull[V2]()
	return Record[K, V2]{
		Key: r.Key, Value: value, Timestamp: r.Timestamp, Headers: r.Headers, NullKey: r.NullKey, NullValue: null != nil && null(value),
	}
}

// WithTimestamp returns a copy with another time. Forwarding a record from before 1970 is an error.
func (r Record[K, V]) WithTimestamp(t time.Time) Record[K, V] { r.Timestamp = t; return r }

// WithHeaders returns a copy with other headers.
func (r Record[K, V]) WithHeaders(h Headers) Record[K, V] { r.Headers = h; return r }

// WithHeader returns a copy with one more header; the original keeps its own.
func (r Record[K, V]) WithHeader(key string, value []byte) Record[K, V] {
	r.Headers = r.Headers.With(key, value)
	return r
}

// Null returns a copy with a null value.
func (r Record[K, V]) Null() Record[K, V] {
	var zero V
	r.Value, r.NullValue = zero, true
	return r
}

// Headers are the headers of a record, in order; keys may repeat.
type Headers []serde.Header

// Last returns the last value under key, the one that counts by Kafka's convention.
func (h Headers) Last(key string) (value []byte, ok bool) {
	for _, e := range slices.Backward(h) {
		if e.Key == key {
			return e.Value, true
		}
	}
	return nil, false
}

// With returns a new list with one header added. h is left alone, also where it has spare capacity.
func (h Headers) With(key string, value []byte) Headers {
	return append(slices.Clip(h), serde.Header{Key: key, Value: value})
}

// Without returns a new list without the headers under key.
func (h Headers) Without(key string) Headers {
	var kept Headers
	for _, e := range h {
		if e.Key != key {
			kept = append(kept, e)
		}
	}
	return kept
}

// Origin is the place of the input record that is being processed. There is none in a punctuation.
type Origin struct {
	Topic     string
	Partition int32
	Offset    int64
}

// None is the type of keys or values that never exist: what a processor forwards that forwards nothing.
type None struct{}
