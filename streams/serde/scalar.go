package serde

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"unicode/utf8"
	"uuid"
)

// Serdes with Java's byte form. They are also the ones the builder finds by Go type.
var (
	String  Serde[string]    = stringSerde{} // UTF-8; bytes that are none become U+FFFD, as in Java
	Bytes   Serde[[]byte]    = bytesSerde{}  // as they are
	Int16   Serde[int16]     = fixed(2, func(dst []byte, v int16) []byte { return binary.BigEndian.AppendUint16(dst, uint16(v)) }, func(b []byte) int16 { return int16(binary.BigEndian.Uint16(b)) })
	Int32   Serde[int32]     = fixed(4, func(dst []byte, v int32) []byte { return binary.BigEndian.AppendUint32(dst, uint32(v)) }, func(b []byte) int32 { return int32(binary.BigEndian.Uint32(b)) })
	Int64   Serde[int64]     = int64Serde{} // big-endian
	Float32 Serde[float32]   = fixed(4, func(dst []byte, v float32) []byte { return binary.BigEndian.AppendUint32(dst, math.Float32bits(v)) }, func(b []byte) float32 { return math.Float32frombits(binary.BigEndian.Uint32(b)) })
	Float64 Serde[float64]   = fixed(8, func(dst []byte, v float64) []byte { return binary.BigEndian.AppendUint64(dst, math.Float64bits(v)) }, func(b []byte) float64 { return math.Float64frombits(binary.BigEndian.Uint64(b)) })
	Bool    Serde[bool]      = boolSerde{} // one byte, 0 or 1
	UUID    Serde[uuid.UUID] = uuidSerde{} // its text, as Java's UUIDSerializer writes it
	Void    Serde[struct{}]  = voidSerde{} // always null; for topics without keys or without values
)

type stringSerde struct{}

func (stringSerde) Append(dst []byte, _ Place, v string) ([]byte, error) {
	if !utf8.ValidString(v) {
		return append(dst, bytes.ToValidUTF8([]byte(v), []byte("?"))...), nil // Java's encoder writes '?' for what has no UTF-8 form
	}
	return append(dst, v...), nil
}

func (stringSerde) Decode(_ Place, data []byte) (string, error) {
	if !utf8.Valid(data) {
		return string(bytes.ToValidUTF8(data, []byte("\uFFFD"))), nil
	}
	return string(data), nil
}

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

type fixedSerde[T any] struct {
	size   int
	append func(dst []byte, v T) []byte
	decode func(b []byte) T
}

func fixed[T any](size int, append func(dst []byte, v T) []byte, decode func(b []byte) T) Serde[T] {
	return fixedSerde[T]{size, append, decode}
}

func (s fixedSerde[T]) Append(dst []byte, _ Place, v T) ([]byte, error) { return s.append(dst, v), nil }

func (s fixedSerde[T]) Decode(_ Place, data []byte) (v T, err error) {
	if len(data) != s.size {
		return v, sizeError(s.size, len(data))
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

func (uuidSerde) Append(dst []byte, _ Place, v uuid.UUID) ([]byte, error) {
	return append(dst, v.String()...), nil
}

func (uuidSerde) Decode(_ Place, data []byte) (uuid.UUID, error) {
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
