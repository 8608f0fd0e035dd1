package serde

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"unicode/utf8"
	"uuid"
)

// Serdes with Java's byte form (F-079). They are also the ones the builder finds by Go type.
//
// Stores keep rows in the order of key bytes, so a range is a range of keys only where both orders are the same: for String (by code point), Bytes, Bool
// and UUID always, for the numbers as long as none is negative, whose bytes come after those of the positive ones, as in Java. Lists, JSON, Avro and
// Protobuf keep no order.
var (
	String  Serde[string]    = stringSerde{} // UTF-8; bytes that are none become U+FFFD, as many as Java makes of them
	Bytes   Serde[[]byte]    = bytesSerde{}  // as they are; Java's ByteArray, Bytes and ByteBuffer
	Int16   Serde[int16]     = fixed(2, func(dst []byte, v int16) []byte { return binary.BigEndian.AppendUint16(dst, uint16(v)) }, func(b []byte) int16 { return int16(binary.BigEndian.Uint16(b)) })
	Int32   Serde[int32]     = fixed(4, func(dst []byte, v int32) []byte { return binary.BigEndian.AppendUint32(dst, uint32(v)) }, func(b []byte) int32 { return int32(binary.BigEndian.Uint32(b)) })
	Int64   Serde[int64]     = int64Serde{} // big-endian
	Float32 Serde[float32]   = fixed(4, func(dst []byte, v float32) []byte { return binary.BigEndian.AppendUint32(dst, math.Float32bits(v)) }, func(b []byte) float32 { return math.Float32frombits(binary.BigEndian.Uint32(b)) })
	Float64 Serde[float64]   = fixed(8, appendFloat64, func(b []byte) float64 { return math.Float64frombits(binary.BigEndian.Uint64(b)) })
	Bool    Serde[bool]      = boolSerde{} // one byte, 0 or 1
	UUID    Serde[uuid.UUID] = uuidSerde{} // its text of 36 characters, as Java's UUIDSerializer writes it
	Void    Serde[struct{}]  = voidSerde{} // always null; for topics without keys or without values
)

// sized is a serde whose values all have as many bytes.
type sized interface{ size() int }

type stringSerde struct{}

func (stringSerde) Append(dst []byte, _ Place, v string) ([]byte, error) {
	if !utf8.ValidString(v) {
		return append(dst, bytes.ToValidUTF8([]byte(v), []byte("?"))...), nil // Java's encoder writes '?' for what has no UTF-8 form
	}
	return append(dst, v...), nil
}

func (stringSerde) Decode(_ Place, data []byte) (string, error) {
	if utf8.Valid(data) {
		return string(data), nil
	}
	var valid []byte
	for len(data) > 0 {
		r, n := utf8.DecodeRune(data)
		if r == utf8.RuneError && n == 1 {
			n = malformed(data)
		}
		valid = utf8.AppendRune(valid, r)
		data = data[n:]
	}
	return string(valid), nil
}

// malformed is how many bytes at the begin of b become one U+FFFD. Java takes the longest begin of a sequence that could have become a character
// (Unicode's "maximal subpart"), and surrogates, which have a form but no meaning, as one.
func malformed(b []byte) int {
	first := b[0]
	if first < 0xE0 || first > 0xF4 || len(b) < 2 || !continues(b[1]) {
		return 1
	}
	switch second := b[1]; {
	case first == 0xE0 && second < 0xA0, first == 0xF0 && second < 0x90, first == 0xF4 && second > 0x8F:
		return 1
	case len(b) < 3 || !continues(b[2]):
		return 2
	}
	return 3
}

func continues(b byte) bool { return b&0xC0 == 0x80 }

type bytesSerde struct{}

func (bytesSerde) Append(dst []byte, _ Place, v []byte) ([]byte, error) {
	return append(dst, v...), nil
}

// Decode never returns a nil slice: that would read as a null.
func (bytesSerde) Decode(_ Place, data []byte) ([]byte, error) {
	return append(make([]byte, 0, len(data)), data...), nil
}

// int64Serde is written out because counts are on the hot path.
type int64Serde struct{}

func (int64Serde) size() int { return 8 }

func (int64Serde) Append(dst []byte, _ Place, v int64) ([]byte, error) {
	return binary.BigEndian.AppendUint64(dst, uint64(v)), nil
}

func (int64Serde) Decode(_ Place, data []byte) (int64, error) {
	if len(data) != 8 {
		return 0, sizeError(8, len(data))
	}
	return int64(binary.BigEndian.Uint64(data)), nil
}

func sizeError(want, got int) error {
	return fmt.Errorf("serde: %d bytes where the type has %d", got, want)
}

// appendFloat64 writes Java's one NaN for all of them. For float32 Java keeps their bits.
func appendFloat64(dst []byte, v float64) []byte {
	if math.IsNaN(v) {
		return binary.BigEndian.AppendUint64(dst, 0x7FF8<<48)
	}
	return binary.BigEndian.AppendUint64(dst, math.Float64bits(v))
}

type fixedSerde[T any] struct {
	bytes  int
	append func(dst []byte, v T) []byte
	decode func(b []byte) T
}

func fixed[T any](size int, append func(dst []byte, v T) []byte, decode func(b []byte) T) Serde[T] {
	return fixedSerde[T]{size, append, decode}
}

func (s fixedSerde[T]) size() int { return s.bytes }

func (s fixedSerde[T]) Append(dst []byte, _ Place, v T) ([]byte, error) { return s.append(dst, v), nil }

func (s fixedSerde[T]) Decode(_ Place, data []byte) (v T, err error) {
	if len(data) != s.bytes {
		return v, sizeError(s.bytes, len(data))
	}
	return s.decode(data), nil
}

type boolSerde struct{}

func (boolSerde) Append(dst []byte, _ Place, v bool) ([]byte, error) {
	if v {
		return append(dst, 1), nil
	}
	return append(dst, 0), nil
}

func (boolSerde) Decode(_ Place, data []byte) (bool, error) {
	switch {
	case len(data) != 1:
		return false, sizeError(1, len(data))
	case data[0] > 1:
		return false, fmt.Errorf("serde: %#x is not a boolean", data[0])
	}
	return data[0] == 1, nil
}

type uuidSerde struct{}

const uuidSize = 36

func (uuidSerde) size() int { return uuidSize }

func (uuidSerde) Append(dst []byte, _ Place, v uuid.UUID) ([]byte, error) {
	return append(dst, v.String()...), nil
}

func (uuidSerde) Decode(_ Place, data []byte) (uuid.UUID, error) {
	if len(data) != uuidSize { // Parse knows other forms as well
		return uuid.UUID{}, sizeError(uuidSize, len(data))
	}
	id, err := uuid.Parse(string(data))
	if err != nil {
		return id, fmt.Errorf("serde: %w", err)
	}
	return id, nil
}

type voidSerde struct{}

func (voidSerde) Append(dst []byte, _ Place, _ struct{}) ([]byte, error) { return dst, nil }

func (voidSerde) Decode(_ Place, data []byte) (struct{}, error) {
	return struct{}{}, fmt.Errorf("serde: %d bytes where only nulls are expected", len(data))
}
