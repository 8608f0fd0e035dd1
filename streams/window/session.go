package window

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/millrace/millrace/streams/serde"
)

// SessionWindows are bursts of activity, see [Session].
type SessionWindows struct{ gap, grace time.Duration }

// Session windows end when nothing came for gap; a record exactly gap away still belongs to them. A record that bridges two sessions merges them: both old
// ones get a tombstone, and then the merged one its value. They need a merger, hence a method of their own: Grouped.SessionsBy (F-087).
func Session(gap time.Duration) SessionWindows { return SessionWindows{gap: gap} }

// Grace accepts records that are late by up to d, counted from the moment the session they would join ends: one gap after its last record.
func (w SessionWindows) Grace(d time.Duration) SessionWindows { w.grace = d; return w }

// SessionSpec is a definition of sessions in milliseconds.
type SessionSpec struct{ Gap, Grace int64 }

// Spec returns the definition in milliseconds. It refuses a gap below one millisecond and a negative grace.
func (w SessionWindows) Spec() (SessionSpec, error) {
	s := SessionSpec{w.gap.Milliseconds(), w.grace.Milliseconds()}
	if s.Gap <= 0 {
		return s, fmt.Errorf("session gap %v is below one millisecond", w.gap)
	}
	return s, checkGrace(w.gap, s.Gap, w.grace)
}

// SessionSerde is the form of session keys in topics, as Java's SessionWindowedSerializer has it: key, then end, then start, 8 bytes each, big-endian.
func SessionSerde[K any](inner serde.Serde[K]) serde.Serde[Windowed[K]] {
	return sessionSerde[K]{inner}
}

type sessionSerde[K any] struct{ inner serde.Serde[K] }

func (s sessionSerde[K]) Append(dst []byte, at serde.Place, v Windowed[K]) ([]byte, error) {
	dst, err := s.inner.Append(dst, at, v.Key)
	if err != nil {
		return dst, err
	}
	dst = binary.BigEndian.AppendUint64(dst, uint64(v.End.UnixMilli()))
	return binary.BigEndian.AppendUint64(dst, uint64(v.Start.UnixMilli())), nil
}

func (s sessionSerde[K]) Decode(at serde.Place, data []byte) (v Windowed[K], err error) {
	n := len(data) - 16
	if n < 0 {
		return v, errors.New("window: a session key has at least 16 bytes")
	}
	v.End = time.UnixMilli(int64(binary.BigEndian.Uint64(data[n:]))).UTC()
	v.Start = time.UnixMilli(int64(binary.BigEndian.Uint64(data[n+8:]))).UTC()
	v.Key, err = s.inner.Decode(at, data[:n])
	return v, err
}

// AppendInner implements [InnerSerde].
func (s sessionSerde[K]) AppendInner(dst []byte, at serde.Place, v Windowed[K]) ([]byte, error) {
	return s.inner.Append(dst, at, v.Key)
}
