package serde_test

import (
	"bytes"
	"math"
	"reflect"
	"testing"
	"uuid"

	"github.com/millrace/millrace/streams/serde"
)

// JSON never writes a bare null, which another reader could take for a missing value.
func TestJSONWritesNoNull(t *testing.T) {
	if b, err := serde.JSON[[]int]().Append(nil, serde.Place{}, nil); err != nil || string(b) != "[]" {
		t.Errorf("nil slice: %s, %v", b, err)
	}
	if b, err := serde.JSON[map[string]int]().Append(nil, serde.Place{}, nil); err != nil || string(b) != "{}" {
		t.Errorf("nil map: %s, %v", b, err)
	}
	if b, err := serde.JSON[*int]().Append(nil, serde.Place{}, nil); err == nil {
		t.Errorf("nil pointer: %s, and no error", b)
	}
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
