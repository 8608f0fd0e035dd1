package serde_test

import (
	"bytes"
	"math"
	"reflect"
	"testing"
	"uuid"

	"github.com/millrace/millrace/streams/serde"
)

// The bytes of Kafka's own serializers, F-079.
func TestBytesAreJavas(t *testing.T) {
	at := serde.Place{Topic: "t"}
	check := func(name string, got []byte, err error, want string) {
		t.Helper()
		if err != nil || string(got) != want {
			t.Errorf("%s: %x, %v; want %x", name, got, err, want)
		}
	}
	b, err := serde.String.Append(nil, at, "grüß")
	check("string", b, err, "gr\xc3\xbc\xc3\x9f")
	b, err = serde.Int16.Append(nil, at, -2)
	check("int16", b, err, "\xff\xfe")
	b, err = serde.Int32.Append(nil, at, 258)
	check("int32", b, err, "\x00\x00\x01\x02")
	b, err = serde.Int64.Append(nil, at, -1)
	check("int64", b, err, "\xff\xff\xff\xff\xff\xff\xff\xff")
	b, err = serde.Float32.Append(nil, at, 1.5)
	check("float32", b, err, "\x3f\xc0\x00\x00")
	b, err = serde.Float64.Append(nil, at, math.Inf(-1))
	check("float64", b, err, "\xff\xf0\x00\x00\x00\x00\x00\x00")
	b, err = serde.Bool.Append(nil, at, true)
	check("bool", b, err, "\x01")
	b, err = serde.UUID.Append(nil, at, uuid.MustParse("12345678-90ab-cdef-1234-567890abcdef"))
	check("uuid", b, err, "12345678-90ab-cdef-1234-567890abcdef")
	b, err = serde.List(serde.String).Append(nil, at, []string{"a", ""})
	check("list", b, err, "\x01\x00\x00\x00\x02\x00\x00\x00\x01a\x00\x00\x00\x00")
	b, err = serde.JSON[[]int]().Append(nil, at, nil)
	check("nil slice", b, err, "[]")
	b, err = serde.JSON[map[string]int]().Append(nil, at, nil)
	check("nil map", b, err, "{}")
}

func roundTrip[T any](t *testing.T, s serde.Serde[T], values ...T) {
	t.Helper()
	for _, v := range values {
		b, err := s.Append([]byte("prefix"), serde.Place{}, v)
		if err != nil || !bytes.HasPrefix(b, []byte("prefix")) {
			t.Fatalf("%v: %x, %v", v, b, err)
		}
		got, err := s.Decode(serde.Place{}, b[len("prefix"):])
		if err != nil || !reflect.DeepEqual(got, v) {
			t.Errorf("%v came back as %v, %v", v, got, err)
		}
	}
}

func TestRoundTrip(t *testing.T) {
	one := int64(1)
	roundTrip(t, serde.String, "", "a", "\x00")
	roundTrip(t, serde.Bytes, []byte{}, []byte{0, 255})
	roundTrip(t, serde.Int16, math.MinInt16, 0, math.MaxInt16)
	roundTrip(t, serde.Int32, math.MinInt32, 0, math.MaxInt32)
	roundTrip(t, serde.Int64, math.MinInt64, 0, math.MaxInt64)
	roundTrip(t, serde.Float32, 0, -1.25, math.MaxFloat32)
	roundTrip(t, serde.Float64, 0, -1.25, math.MaxFloat64)
	roundTrip(t, serde.Bool, true, false)
	roundTrip(t, serde.UUID, uuid.New())
	roundTrip(t, serde.Pointer(serde.Int64), &one)
	roundTrip(t, serde.List(serde.List(serde.Int64)), [][]int64{}, [][]int64{{}, {1, 2}})
	roundTrip(t, serde.JSON[struct{ A, B int }](), struct{ A, B int }{1, 2})
}

func TestDecodeRefusesWrongSizes(t *testing.T) {
	for name, err := range map[string]error{
		"int16":   second(serde.Int16.Decode(serde.Place{}, []byte{1})),
		"int32":   second(serde.Int32.Decode(serde.Place{}, make([]byte, 5))),
		"int64":   second(serde.Int64.Decode(serde.Place{}, nil)),
		"float64": second(serde.Float64.Decode(serde.Place{}, make([]byte, 7))),
		"bool":    second(serde.Bool.Decode(serde.Place{}, []byte{2})),
		"uuid":    second(serde.UUID.Decode(serde.Place{}, []byte("x"))),
		"void":    second(serde.Void.Decode(serde.Place{}, []byte{1})),
		"json":    second(serde.JSON[int]().Decode(serde.Place{}, []byte("{"))),
		"list":    second(serde.List(serde.Int64).Decode(serde.Place{}, []byte{1, 0xff, 0xff, 0xff, 0xff})),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func FuzzListDecode(f *testing.F) {
	f.Add([]byte("\x01\x00\x00\x00\x01\x00\x00\x00\x01a"))
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := serde.List(serde.String).Decode(serde.Place{}, data)
		if err != nil {
			return
		}
		if _, err := serde.List(serde.String).Append(nil, serde.Place{}, v); err != nil {
			t.Errorf("%q decodes and does not encode: %v", data, err)
		}
	})
}
