// Package window defines windows over time: those an aggregation groups by ([Tumbling], [Hopping], [Sliding], [Session],
// [Unlimited], [Custom]), those a stream-stream join matches in ([Within]), and the [Windowed] keys they give.
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

// Windowed is a key within a window. Tumbling, hopping, custom and unlimited windows contain Start and not End; sliding and session windows contain both.
// Times are in UTC, so that == means what it says and a Windowed may be the key of a map.
type Windowed[K any] struct {
	Key        K
	Start, End time.Time
}

// String is "[key@start/end]", with times in milliseconds since 1970, as Kafka Streams writes it.
func (w Windowed[K]) String() string {
	return fmt.Sprintf("[%v@%d/%d]", w.Key, w.Start.UnixMilli(), w.End.UnixMilli())
}

// At makes a Windowed key, for tests and queries. It brings both times to UTC and to milliseconds.
func At[K any](key K, start, end time.Time) Windowed[K] {
	return Windowed[K]{key, time.UnixMilli(start.UnixMilli()).UTC(), time.UnixMilli(end.UnixMilli()).UTC()}
}

// A Definition says which windows a record belongs to. The interface is closed; [Custom] is the way in for windows of your own.
type Definition interface {
	// Spec returns what the runtime needs, or what is wrong with the definition.
	Spec() (Spec, error)
	definition()
}

// Kind tells the definitions apart.
type Kind uint8

// The kinds of definitions.
const (
	KindFixed     Kind = iota // [Tumbling], [Hopping]
	KindSliding               // [Sliding]
	KindUnlimited             // [Unlimited]
	KindCustom                // [Custom]
)

// Spec is a definition in milliseconds.
type Spec struct {
	Kind     Kind
	Size     int64 // of sliding windows the difference, of custom ones the longest, of unlimited ones math.MaxInt64
	Advance  int64 // of fixed windows
	Start    int64 // of the unlimited window
	Grace    int64
	Assigner Assigner // of custom windows
}

// End is the end of the window that begins at start, both in ms.
func (s Spec) End(start int64) int64 {
	switch s.Kind {
	case KindUnlimited:
		return math.MaxInt64
	case KindCustom:
		for w := range s.Assigner.Windows(time.UnixMilli(start).UTC()) {
			if from, to := w.bounds(); from == start {
				return to
			}
		}
	}
	if start > math.MaxInt64-s.Size {
		return math.MaxInt64
	}
	return start + s.Size
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
	s := Spec{Kind: KindFixed, Size: w.size.Milliseconds(), Advance: w.advance.Milliseconds(), Grace: w.grace.Milliseconds()}
	switch {
	case s.Size <= 0:
		return s, fmt.Errorf("window size %v is below one millisecond", w.size)
	case s.Advance <= 0:
		return s, fmt.Errorf("window advance %v is below one millisecond", w.advance)
	case s.Advance > s.Size:
		return s, fmt.Errorf("window advance %v is longer than the size %v, so that records would fall between windows", w.advance, w.size)
	}
	return s, checkGrace(w.size, s.Size, w.grace)
}

// checkGrace refuses a grace that is negative, or too long beside what else rows are kept for.
func checkGrace(size time.Duration, ms int64, grace time.Duration) error {
	switch {
	case grace < 0:
		return fmt.Errorf("grace %v is negative", grace)
	case ms+grace.Milliseconds() > math.MaxInt64/int64(time.Millisecond):
		return fmt.Errorf("size %v and grace %v are too long together", size, grace)
	}
	return nil
}

func (FixedWindows) definition() {}

// Unbounded, as a size, is that of [Unlimited] windows.
const Unbounded time.Duration = math.MaxInt64

// Serde is the form of time-windowed keys in topics, as Java's TimeWindowedSerializer has it: key, then start as 8 bytes, big-endian. The end is not
// written, hence size, which decoding adds to the start. For windows of unequal lengths there is [SerdeOf].
func Serde[K any](inner serde.Serde[K], size time.Duration) serde.Serde[Windowed[K]] {
	s := Spec{Kind: KindFixed, Size: size.Milliseconds()}
	if size == Unbounded {
		s.Kind = KindUnlimited
	}
	return timeSerde[K]{inner, s}
}

// SerdeOf is [Serde] for the windows of a definition: decoding finds the end of a window as the definition has it, also where windows differ in length.
// The definition must be a valid one.
func SerdeOf[K any](inner serde.Serde[K], w Definition) serde.Serde[Windowed[K]] {
	s, _ := w.Spec()
	return timeSerde[K]{inner, s}
}

type timeSerde[K any] struct {
	inner serde.Serde[K]
	spec  Spec
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
	start := int64(binary.BigEndian.Uint64(data[n:]))
	v = Windowed[K]{Start: time.UnixMilli(start).UTC(), End: time.UnixMilli(s.spec.End(start)).UTC()}
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
