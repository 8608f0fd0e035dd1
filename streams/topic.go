package streams

import (
	"time"

	"github.com/millrace/millrace/streams/serde"
)

// Topic is the typed name of a Kafka topic: the one place where K and V are tied to serdes. Declare it once, as a package
// variable; sources, sinks, tests and queries all take it. It is a small value and its methods return a changed copy.
type Topic[K, V any] struct {
	name        string
	key         serde.Serde[K]
	value       serde.Serde[V]
	timestamp   func(key K, value V) time.Time
	partitioner func(r Record[K, V], partitions int) Placement
}

// NewTopic names a topic and says what is in it.
func NewTopic[K, V any](name string, key serde.Serde[K], value serde.Serde[V]) Topic[K, V] {
	return Topic[K, V]{name: name, key: key, value: value}
}

// Name returns the topic's name.
func (t Topic[K, V]) Name() string { return t.name }

// Serdes returns the serdes the topic was made with.
func (t Topic[K, V]) Serdes() (key serde.Serde[K], value serde.Serde[V]) { return t.key, t.value }

// TimestampFrom takes the time of a record from its content instead of from Kafka. For a null value f sees the zero V. The zero
// time.Time, and any time before 1970, is invalid; what then happens is up to [OnInvalidTimestamp].
func (t Topic[K, V]) TimestampFrom(f func(key K, value V) time.Time) Topic[K, V] {
	t.timestamp = f
	return t
}

// PartitionBy replaces the default partitioner (murmur2 of the key bytes, as in Java) for every sink that writes to the topic,
// and for queries that route by key to a store partitioned like it. f must be a pure function.
func (t Topic[K, V]) PartitionBy(f func(r Record[K, V], partitions int) Placement) Topic[K, V] {
	t.partitioner = f
	return t
}

// And adds topics that have the form of t.
func (t Topic[K, V]) And(names ...string) Topics[K, V] {
	return Topics[K, V]{t, append([]string{t.name}, names...)}
}

// Topics are several topics of one form, read as one stream.
type Topics[K, V any] struct {
	form  Topic[K, V]
	names []string
}

// Source is what a stream can be read from: a [Topic] or [Topics].
type Source[K, V any] interface {
	source() sourceSpec[K, V]
}

// sourceSpec carries K and V for inference and has no methods, so it leads to no handle.
type sourceSpec[K, V any] struct {
	names     []string
	key       serde.Serde[K]
	value     serde.Serde[V]
	timestamp func(key K, value V) time.Time
}

func (t Topic[K, V]) source() sourceSpec[K, V] {
	return sourceSpec[K, V]{[]string{t.name}, t.key, t.value, t.timestamp}
}

func (t Topics[K, V]) source() sourceSpec[K, V] {
	return sourceSpec[K, V]{t.names, t.form.key, t.form.value, t.form.timestamp}
}

// Placement says which partitions a record is written to. The zero value leaves it to the default partitioner.
type Placement struct {
	kind       placementKind
	partition  int32
	partitions []int
}

type placementKind uint8

const (
	placeDefault placementKind = iota
	placeNowhere
	placeOne
	placeMany
)

// DefaultPartition leaves the choice to the default partitioner.
var DefaultPartition = Placement{}

// Nowhere drops the record and counts it in dropped-records.
var Nowhere = Placement{kind: placeNowhere}

// Partition writes the record to partition p.
func Partition(p int) Placement { return Placement{kind: placeOne, partition: int32(p)} }

// Multicast writes the record to each of ps. Internal topics refuse it.
func Multicast(ps ...int) Placement { return Placement{kind: placeMany, partitions: ps} }
