// Package window defines windows over time: those an aggregation groups by ([Tumbling], [Hopping]), and the [Windowed] keys they give.
//
// A definition is a small value. Its methods return a changed copy: window.Tumbling(time.Hour).Grace(time.Minute).
// Without Grace nothing late is accepted. What is wrong with a definition (a size of zero, a hop longer than the size)
// is reported by Builder.Build at the operator that uses it. Everything is rounded down to milliseconds, which is what Kafka stores.
package window

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/millrace/millrace/streams/serde"
)

// Windowed is a key within a window. Tumbling and hopping windows contain Start and not End. Times are in UTC, so that == means what it says and a
// Windowed may be the key of a map.
type Windowed[K any] struct {
	Key        K
	Start, End time.Time
}

// At makes a Windowed key, for tests and queries. It brings both times to UTC and to milliseconds.
func At[K any](key K, start, end time.Time) Windowed[K] {
	return Windowed[K]{key, time.UnixMilli(start.UnixMilli()).UTC(), time.UnixMilli(end.UnixMilli()).UTC()}
}

// A Definition says which windows a record belongs to. The interface is closed.
type Definition interface {
	// Spec returns what the runtime needs, or what is wrong with the definition.
	Spec() (Spec, error)
	definition()
}

// Spec is a definition in milliseconds.
type Spec struct {
	Size, Advance, Grace int64
}

// FixedWindows are windows of one size on a grid that starts at the epoch: [Tumbling] and [Hopping].
type FixedWindows struct{ size, advance, grace time.Duration }

// Tumbling windows follow each other without a gap: every record is in exactly one.
func Tumbling(size time.Duration) FixedWindows { return FixedWindows{size: size, advance: size} }

// Hopping windows overlap: one starts at every advance, so that a record is in size/advance of them.
func Hopping(size, advance time.Duration) FixedWindows {
	return FixedWindows{size: size, advance: advance}
}

// Grace accepts records that are late by up to d, counted from the end of their window.
func (w FixedWindows) Grace(d time.Duration) FixedWindows { w.grace = d; return w }

// Spec returns the definition in milliseconds. It refuses a size or an advance below one millisecond, an advance longer than the size, and a
// negative grace (F-080, F-081).
func (w FixedWindows) Spec() (Spec, error) {
	s := Spec{w.size.Milliseconds(), w.advance.Milliseconds(), w.grace.Milliseconds()}
	switch {
	case s.Size <= 0:
		return s, fmt.Errorf("window size %v is below one millisecond", w.size)
	case s.Advance <= 0:
		return s, fmt.Errorf("window advance %v is below one millisecond", w.advance)
	case s.Advance > s.Size:
		return s, fmt.Errorf("window advance %v is longer than the size %v, so that records would fall between windows", w.advance, w.size)
	case w.grace < 0:
		return s, fmt.Errorf("grace %v is negative", w.grace)
	case s.Size+s.Grace > math.MaxInt64/int64(time.Millisecond):
		return s, fmt.Errorf("size %v and grace %v are too long together", w.size, w.grace)
	}
	return s, nil
}

func (FixedWindows) definition() {}

// Serde is the form of time-windowed keys in topics, as Java's TimeWindowedSerializer has it: key, then start as 8 bytes, big-endian. The end is not
// written, hence size, which decoding adds to the start.
func Serde[K any](inner serde.Serde[K], size time.Duration) serde.Serde[Windowed[K]] {
	return timeSerde[K]{inner, size.Truncate(time.Millisecond)}
}

type timeSerde[K any] struct {
	inner serde.Serde[K]
	size  time.Duration
}

func (s timeSerde[K]) Append(dst []byte, at serde.Place, v Windowed[K]) ([]byte, error) {
	dst, err := s.inner.Append(dst, at, v.Key)
	if err != nil {
		return dst, err
	}
	return binary.BigEndian.AppendUint64(dst, uint64(v.Start.UnixMilli())), nil
}

func (s timeSerde[K]) Decode(at serde.Place, data []byte) (v Windowed[K], err error) {
	n := len(data) - 8
	if n < 0 {
		return v, errors.New("window: a windowed key has at least 8 bytes")
	}
	start := time.UnixMilli(int64(binary.BigEndian.Uint64(data[n:]))).UTC()
	v = Windowed[K]{Start: start, End: start.Add(s.size)}
	v.Key, err = s.inner.Decode(at, data[:n])
	return v, err
}

// AppendInner encodes the key without its window: what decides about the partition of a windowed record (F-033).
func (s timeSerde[K]) AppendInner(dst []byte, at serde.Place, v Windowed[K]) ([]byte, error) {
	return s.inner.Append(dst, at, v.Key)
}

// InnerSerde is implemented by serdes of windowed keys. Sinks partition by what it writes, so that all windows of a key share a partition.
type InnerSerde[T any] interface {
	AppendInner(dst []byte, at serde.Place, v T) ([]byte, error)
}

// Compare orders by key, then start, then end. Use it to sort in tests.
func Compare[K cmp.Ordered](a, b Windowed[K]) int {
	return cmp.Or(cmp.Compare(a.Key, b.Key), a.Start.Compare(b.Start), a.End.Compare(b.End))
}
