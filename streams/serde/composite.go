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

func (p pointer[T]) size() int {
	if s, ok := p.inner.(sized); ok {
		return s.size()
	}
	return 0
}

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

// List has the form of Java's ListSerde (KIP-466), whose bytes depend on the elements. Those of one size (Int16, Int32, Int64, Float32, Float64, UUID) come
// one after the other: a byte 0, the number of nulls and their indexes, the number of elements, and those that are no null. All others have their
// length before them: a byte 1, the number of elements, and for each its length, which is -1 for a null. Numbers are 4 bytes, big-endian.
//
// An element is null if it is a nil pointer or a nil interface, so List(Pointer(inner)) is for lists that may have nulls. A nil slice is an empty list,
// and an empty list is never read as nil.
func List[T any](inner Serde[T]) Serde[[]T] {
	l := list[T]{inner: inner}
	if s, ok := inner.(sized); ok {
		l.size = s.size()
	}
	kind := reflect.TypeFor[T]().Kind()
	l.nullable = kind == reflect.Pointer || kind == reflect.Interface
	return l
}

type list[T any] struct {
	inner    Serde[T]
	size     int  // of each element; 0 if they differ
	nullable bool // T has a nil that stands for null
}

// The two forms, as ListSerde marks them.
const (
	constantSize = 0
	variableSize = 1
)

func (l list[T]) null(v T) bool {
	if !l.nullable {
		return false
	}
	r := reflect.ValueOf(&v).Elem()
	return r.IsNil()
}

func (l list[T]) Append(dst []byte, at Place, v []T) ([]byte, error) {
	if len(v) > math.MaxInt32 {
		return dst, errors.New("serde: list of over 2^31 elements")
	}
	if l.size > 0 {
		return l.appendConstant(dst, at, v)
	}
	dst = append(dst, variableSize)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(v)))
	for _, e := range v {
		if l.null(e) {
			dst = append(dst, 0xFF, 0xFF, 0xFF, 0xFF)
			continue
		}
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

func (l list[T]) appendConstant(dst []byte, at Place, v []T) ([]byte, error) {
	dst = append(dst, constantSize, 0, 0, 0, 0)
	start, nulls := len(dst)-4, uint32(0)
	for i, e := range v {
		if l.null(e) {
			dst = binary.BigEndian.AppendUint32(dst, uint32(i))
			nulls++
		}
	}
	binary.BigEndian.PutUint32(dst[start:], nulls)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(v)))
	for _, e := range v {
		if l.null(e) {
			continue
		}
		var err error
		if dst, err = l.inner.Append(dst, at, e); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

func (l list[T]) Decode(at Place, data []byte) ([]T, error) {
	r := reader{data: data}
	form := r.take(1)
	switch {
	case r.short:
		return nil, errCutOff
	case form[0] == constantSize && l.size == 0:
		return nil, errors.New("serde: a list with elements of one size, which the serde of its elements does not have")
	case form[0] > variableSize:
		return nil, fmt.Errorf("serde: %#x is not the begin of a list", form[0])
	}
	var null []bool
	var indexes []byte
	if form[0] == constantSize {
		indexes = r.take(4 * uint64(r.uint32()))
	}
	n := r.uint32()
	if r.short {
		return nil, errCutOff
	}
	least := uint64(4) // bytes of an element
	present := uint64(n)
	if form[0] == constantSize {
		least = uint64(l.size)
		present -= min(present, uint64(len(indexes))/4)
	}
	if n > math.MaxInt32 || present*least > uint64(len(r.data)) {
		return nil, fmt.Errorf("serde: list of %d elements in %d bytes", n, len(r.data))
	}
	if len(indexes) > 0 {
		null = make([]bool, n)
		for ; len(indexes) > 0; indexes = indexes[4:] {
			i := binary.BigEndian.Uint32(indexes)
			if i >= n {
				return nil, fmt.Errorf("serde: element %d of a list of %d is null", int32(i), n)
			}
			null[i] = true
		}
	}
	v := make([]T, 0, n)
	for i := range int(n) {
		size := uint32(l.size)
		isNull := null != nil && null[i]
		if form[0] == variableSize {
			size = r.uint32()
			isNull = size == math.MaxUint32
		}
		if isNull {
			if !l.nullable {
				return nil, fmt.Errorf("serde: element %d of a list is null; List(Pointer(…)) reads such lists", i)
			}
			v = append(v, *new(T))
			continue
		}
		b := r.take(uint64(size))
		if r.short {
			return nil, errCutOff
		}
		e, err := l.inner.Decode(at, b)
		if err != nil {
			return nil, err
		}
		v = append(v, e)
	}
	if len(r.data) > 0 {
		return nil, fmt.Errorf("serde: %d bytes after the list", len(r.data))
	}
	return v, nil
}

var errCutOff = errors.New("serde: list is cut off")

// reader takes bytes from the begin of data, and remembers if there were too few.
type reader struct {
	data  []byte
	short bool
}

func (r *reader) take(n uint64) []byte {
	if r.short = r.short || n > uint64(len(r.data)); r.short {
		return nil
	}
	b := r.data[:n:n]
	r.data = r.data[n:]
	return b
}

func (r *reader) uint32() uint32 {
	b := r.take(4)
	if r.short {
		return 0
	}
	return binary.BigEndian.Uint32(b)
}
