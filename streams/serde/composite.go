package serde

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
)

// JSON encodes T with encoding/json. It never writes a bare null: a nil slice is [], a nil map is {}.
func JSON[T any]() Serde[T] {
	empty := ""
	switch reflect.TypeFor[T]().Kind() {
	case reflect.Slice:
		empty = "[]"
	case reflect.Map:
		empty = "{}"
	}
	return jsonSerde[T]{empty}
}

type jsonSerde[T any] struct{ empty string }

func (s jsonSerde[T]) Append(dst []byte, _ Place, v T) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return dst, fmt.Errorf("serde: %w", err)
	}
	if string(data) == "null" {
		if s.empty == "" {
			return dst, fmt.Errorf("serde: a nil %T has no JSON form; use a record with a null value", v)
		}
		return append(dst, s.empty...), nil
	}
	return append(dst, data...), nil
}

func (s jsonSerde[T]) Decode(_ Place, data []byte) (v T, err error) {
	if err = json.Unmarshal(data, &v); err != nil {
		return v, fmt.Errorf("serde: %w", err)
	}
	return v, nil
}

// Pointer makes a serde of *T out of one of T. A nil pointer is a Kafka null, which the runtime never hands to a serde.
func Pointer[T any](inner Serde[T]) Serde[*T] { return pointer[T]{inner} }

type pointer[T any] struct{ inner Serde[T] }

func (p pointer[T]) Append(dst []byte, at Place, v *T) ([]byte, error) {
	if v == nil {
		return dst, errors.New("serde: a nil pointer has no bytes")
	}
	return p.inner.Append(dst, at, *v)
}

func (p pointer[T]) Decode(at Place, data []byte) (*T, error) {
	v, err := p.inner.Decode(at, data)
	if err != nil {
		return nil, err
	}
	return &v, nil
}

// List has the form of Java's ListSerde for lists whose elements are all of variable length (KIP-466): a byte 1, the number of elements, and
// before each its length. Lengths are 4 bytes, big-endian.
func List[T any](inner Serde[T]) Serde[[]T] { return list[T]{inner} }

type list[T any] struct{ inner Serde[T] }

const variableSize = 1 // the marker of ListSerde for elements with lengths

func (l list[T]) Append(dst []byte, at Place, v []T) ([]byte, error) {
	dst = append(dst, variableSize)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(v)))
	for _, e := range v {
		start := len(dst)
		dst = append(dst, 0, 0, 0, 0)
		var err error
		if dst, err = l.inner.Append(dst, at, e); err != nil {
			return dst, err
		}
		n := len(dst) - start - 4
		if n > math.MaxInt32 {
			return dst, errors.New("serde: list element over 2 GiB")
		}
		binary.BigEndian.PutUint32(dst[start:], uint32(n))
	}
	return dst, nil
}

func (l list[T]) Decode(at Place, data []byte) ([]T, error) {
	if len(data) < 5 || data[0] != variableSize {
		return nil, errors.New("serde: not a list with elements of variable length")
	}
	n := binary.BigEndian.Uint32(data[1:])
	data = data[5:]
	if uint64(n)*4 > uint64(len(data)) {
		return nil, fmt.Errorf("serde: list of %d elements in %d bytes", n, len(data))
	}
	v := make([]T, 0, n)
	for range n {
		if len(data) < 4 {
			return nil, errors.New("serde: list is cut off")
		}
		size := binary.BigEndian.Uint32(data)
		data = data[4:]
		if uint64(size) > uint64(len(data)) {
			return nil, fmt.Errorf("serde: list element of %d bytes where %d are left", int32(size), len(data))
		}
		e, err := l.inner.Decode(at, data[:size])
		if err != nil {
			return nil, err
		}
		v, data = append(v, e), data[size:]
	}
	if len(data) > 0 {
		return nil, fmt.Errorf("serde: %d bytes after the list", len(data))
	}
	return v, nil
}
