package serde_test

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
	"uuid"

	"github.com/millrace/millrace/streams/serde"
	"pgregory.net/rapid"
)

// golden is bytes that a serializer of kafka-clients 4.4.0 wrote.
type golden interface {
	check(t *testing.T)
}

type goldenOf[T any] struct {
	name  string
	serde serde.Serde[T]
	value T
	bytes string
}

func (g goldenOf[T]) check(t *testing.T) {
	t.Helper()
	b, err := g.serde.Append(nil, serde.Place{Topic: "t"}, g.value)
	if err != nil || string(b) != g.bytes {
		t.Errorf("%s: %v is written as %x, %v; Java writes %x", g.name, g.value, b, err, g.bytes)
	}
	v, err := g.serde.Decode(serde.Place{Topic: "t"}, []byte(g.bytes))
	if err != nil || fmt.Sprint(deref(v)) != fmt.Sprint(deref(g.value)) { // as text, for NaN is not equal to itself
		t.Errorf("%s: Java's %x is read as %v, %v; want %v", g.name, g.bytes, v, err, g.value)
	}
}

// deref shows what the pointers of a list point to.
func deref(v any) any {
	r := reflect.ValueOf(v)
	if r.Kind() == reflect.Pointer {
		if r.IsNil() {
			return nil
		}
		return deref(r.Elem().Interface())
	}
	if r.Kind() != reflect.Slice {
		return v
	}
	list := make([]any, r.Len())
	for i := range list {
		list[i] = deref(r.Index(i).Interface())
	}
	return list
}

func java[T any](name string, s serde.Serde[T], value T, bytes string) golden {
	return goldenOf[T]{name, s, value, bytes}
}

// F-079, T-3: every built-in serde has the bytes of Java's.
func TestGoldenBytesF079(t *testing.T) {
	id := uuid.MustParse("12345678-90ab-cdef-1234-567890abcdef")
	const idText = "12345678-90ab-cdef-1234-567890abcdef"
	for _, g := range []golden{
		java("StringSerializer", serde.String, "grüß€😀", "\x67\x72\xc3\xbc\xc3\x9f\xe2\x82\xac\xf0\x9f\x98\x80"),
		java("StringSerializer", serde.String, "", ""),
		java("ShortSerializer", serde.Int16, math.MinInt16, "\x80\x00"),
		java("ShortSerializer", serde.Int16, -2, "\xff\xfe"),
		java("ShortSerializer", serde.Int16, 258, "\x01\x02"),
		java("IntegerSerializer", serde.Int32, math.MinInt32, "\x80\x00\x00\x00"),
		java("IntegerSerializer", serde.Int32, -1, "\xff\xff\xff\xff"),
		java("IntegerSerializer", serde.Int32, 258, "\x00\x00\x01\x02"),
		java("LongSerializer", serde.Int64, math.MinInt64, "\x80\x00\x00\x00\x00\x00\x00\x00"),
		java("LongSerializer", serde.Int64, 258, "\x00\x00\x00\x00\x00\x00\x01\x02"),
		java("LongSerializer", serde.Int64, math.MaxInt64, "\x7f\xff\xff\xff\xff\xff\xff\xff"),
		java("FloatSerializer", serde.Float32, 1.5, "\x3f\xc0\x00\x00"),
		java("FloatSerializer", serde.Float32, float32(math.Copysign(0, -1)), "\x80\x00\x00\x00"),
		java("FloatSerializer", serde.Float32, float32(math.NaN()), "\x7f\xc0\x00\x00"),
		java("FloatSerializer", serde.Float32, math.Float32frombits(0xffc00001), "\xff\xc0\x00\x01"),
		java("FloatSerializer", serde.Float32, math.SmallestNonzeroFloat32, "\x00\x00\x00\x01"),
		java("DoubleSerializer", serde.Float64, 1.5, "\x3f\xf8\x00\x00\x00\x00\x00\x00"),
		java("DoubleSerializer", serde.Float64, math.Copysign(0, -1), "\x80\x00\x00\x00\x00\x00\x00\x00"),
		java("DoubleSerializer", serde.Float64, math.NaN(), "\x7f\xf8\x00\x00\x00\x00\x00\x00"), // Go's own NaN ends in a 1
		java("DoubleSerializer", serde.Float64, math.Float64frombits(0xfff8000000000001), "\x7f\xf8\x00\x00\x00\x00\x00\x00"),
		java("DoubleSerializer", serde.Float64, math.Inf(-1), "\xff\xf0\x00\x00\x00\x00\x00\x00"),
		java("BooleanSerializer", serde.Bool, true, "\x01"),
		java("BooleanSerializer", serde.Bool, false, "\x00"),
		java("UUIDSerializer", serde.UUID, id, idText),
		java("ByteArraySerializer", serde.Bytes, []byte{0, 255}, "\x00\xff"),

		java("ListSerializer of String", serde.List(serde.String), []string{"a", ""}, "\x01\x00\x00\x00\x02\x00\x00\x00\x01a\x00\x00\x00\x00"),
		java("ListSerializer of String", serde.List(serde.String), []string{}, "\x01\x00\x00\x00\x00"),
		java("ListSerializer of String", serde.List(serde.Pointer(serde.String)), []*string{new("a"), nil, new(""), new("b"), nil},
			"\x01\x00\x00\x00\x05\x00\x00\x00\x01a\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x01b\xff\xff\xff\xff"),
		java("ListSerializer of Long", serde.List(serde.Int64), []int64{1, -1},
			"\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x01\xff\xff\xff\xff\xff\xff\xff\xff"),
		java("ListSerializer of Long", serde.List(serde.Int64), []int64{}, "\x00\x00\x00\x00\x00\x00\x00\x00\x00"),
		java("ListSerializer of Long", serde.List(serde.Pointer(serde.Int64)), []*int64{nil, new(int64(1)), nil},
			"\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x01"),
		java("ListSerializer of Long", serde.List(serde.Pointer(serde.Int64)), []*int64{nil, nil},
			"\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x02"),
		java("ListSerializer of Integer", serde.List(serde.Pointer(serde.Int32)), []*int32{new(int32(1)), nil, new(int32(-1))},
			"\x00\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x03\x00\x00\x00\x01\xff\xff\xff\xff"),
		java("ListSerializer of Short", serde.List(serde.Pointer(serde.Int16)), []*int16{new(int16(1)), nil},
			"\x00\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x02\x00\x01"),
		java("ListSerializer of Float", serde.List(serde.Pointer(serde.Float32)), []*float32{new(float32(1.5)), nil},
			"\x00\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x02\x3f\xc0\x00\x00"),
		java("ListSerializer of Double", serde.List(serde.Pointer(serde.Float64)), []*float64{new(1.5), nil},
			"\x00\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x02\x3f\xf8\x00\x00\x00\x00\x00\x00"),
		java("ListSerializer of UUID", serde.List(serde.Pointer(serde.UUID)), []*uuid.UUID{&id, nil},
			"\x00\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x02"+idText),
		java("ListSerializer of Boolean", serde.List(serde.Pointer(serde.Bool)), []*bool{new(true), nil, new(false)},
			"\x01\x00\x00\x00\x03\x00\x00\x00\x01\x01\xff\xff\xff\xff\x00\x00\x00\x01\x00"),
		java("ListSerializer of byte[]", serde.List(serde.Pointer(serde.Bytes)), []*[]byte{new([]byte{}), nil, new([]byte{7})},
			"\x01\x00\x00\x00\x03\x00\x00\x00\x00\xff\xff\xff\xff\x00\x00\x00\x01\x07"),
		java("ListSerializer of lists of Long", serde.List(serde.Pointer(serde.List(serde.Int64))), []*[]int64{new([]int64{1}), nil, new([]int64{})},
			"\x01\x00\x00\x00\x03\x00\x00\x00\x11\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01\xff\xff\xff\xff\x00\x00\x00\x09"+
				"\x00\x00\x00\x00\x00\x00\x00\x00\x00"),
	} {
		g.check(t)
	}
}

// What Java's deserializers read besides what its serializers write, and what they refuse (F-079).
func TestDecodeAsJavaF079(t *testing.T) {
	got, err := serde.List(serde.Int64).Decode(serde.Place{}, []byte("\x01\x00\x00\x00\x01\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00\x01"))
	if err != nil || len(got) != 1 || got[0] != 1 {
		t.Errorf("a list of longs with lengths: %v, %v", got, err)
	}
	unsorted, err := serde.List(serde.Pointer(serde.Int64)).Decode(serde.Place{},
		[]byte("\x00\x00\x00\x00\x02\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x01"))
	if err != nil || len(unsorted) != 3 || unsorted[0] != nil || *unsorted[1] != 1 || unsorted[2] != nil {
		t.Errorf("indexes of nulls out of order: %v, %v", unsorted, err)
	}
	upper, err := serde.UUID.Decode(serde.Place{}, []byte("12345678-90AB-CDEF-1234-567890ABCDEF"))
	if want := uuid.MustParse("12345678-90ab-cdef-1234-567890abcdef"); err != nil || upper != want {
		t.Errorf("upper case: %v, %v", upper, err)
	}
	for name, err := range map[string]error{
		"uuid in braces":                    second(serde.UUID.Decode(serde.Place{}, []byte("{12345678-90ab-cdef-1234-567890abcdef}"))),
		"uuid without dashes":               second(serde.UUID.Decode(serde.Place{}, []byte("1234567890abcdef1234567890abcdef"))),
		"boolean 2":                         second(serde.Bool.Decode(serde.Place{}, []byte{2})),
		"one size, elements of many":        second(serde.List(serde.String).Decode(serde.Place{}, []byte("\x00\x00\x00\x00\x00\x00\x00\x00\x01a"))),
		"null among elements that are none": second(serde.List(serde.String).Decode(serde.Place{}, []byte("\x01\x00\x00\x00\x01\xff\xff\xff\xff"))),
		"the same, of one size":             second(serde.List(serde.Int16).Decode(serde.Place{}, []byte("\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01"))),
		"null outside the list":             second(serde.List(serde.Pointer(serde.Int16)).Decode(serde.Place{}, []byte("\x00\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x01"))),
		"one null twice, too few elements":  second(serde.List(serde.Pointer(serde.Int64)).Decode(serde.Place{}, []byte("\x00\x00\x00\x00\x02\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\x01"))),
		"no form":                           second(serde.List(serde.String).Decode(serde.Place{}, []byte("\x02\x00\x00\x00\x00"))),
		"no bytes":                          second(serde.List(serde.String).Decode(serde.Place{}, nil)),
		"length of -2":                      second(serde.List(serde.String).Decode(serde.Place{}, []byte("\x01\x00\x00\x00\x01\xff\xff\xff\xfe"))),
		"huge":                              second(serde.List(serde.Int64).Decode(serde.Place{}, []byte("\x00\x00\x00\x00\x00\x7f\xff\xff\xff"))),
		"huge with huge nulls":              second(serde.List(serde.Pointer(serde.Int64)).Decode(serde.Place{}, []byte("\x00\x7f\xff\xff\xff\x7f\xff\xff\xff"))),
		"bytes after the list":              second(serde.List(serde.Int16).Decode(serde.Place{}, []byte("\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x01\x00"))),
	} {
		if err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// Bytes that are no UTF-8 become as many U+FFFD as in Java (F-079): all strings of up to 4 bytes from the edges of UTF-8's ranges, decoded by
// StringDeserializer of kafka-clients 4.4.0 on Java 17, encoded again, and summed up with their lengths.
func TestInvalidStringsAreJavasF079(t *testing.T) {
	const javas = "71a33669aacf9abf9ad7c4b055db8ff6fe37c4e9783e24afce902fec53ffaffe"
	edges := []byte("\x00\x41\x7f\x80\x8f\x90\x9f\xa0\xbf\xc0\xc1\xc2\xdf\xe0\xe1\xec\xed\xee\xef\xf0\xf1\xf3\xf4\xf5\xf7\xff")
	sum := sha256.New()
	var walk func(data []byte, more int)
	walk = func(data []byte, more int) {
		if more == 0 {
			v, err := serde.String.Decode(serde.Place{}, data)
			if err != nil {
				t.Fatal(err)
			}
			sum.Write(append([]byte{byte(len(v))}, v...))
			return
		}
		for _, b := range edges {
			walk(append(data, b), more-1)
		}
	}
	for n := range 5 {
		walk(make([]byte, 0, 4), n)
	}
	if got := hex.EncodeToString(sum.Sum(nil)); got != javas {
		t.Errorf("sum of all strings is %s, Java's %s", got, javas)
	}
	for in, want := range map[string]string{ // some of them, to read
		"\xff\xfe":      "\uFFFD\uFFFD",
		"a\xe2\x82":     "a\uFFFD",
		"\xed\xa0\x80":  "\uFFFD",
		"\xf0\x9f\x98x": "\uFFFDx",
		"\xc0\x80":      "\uFFFD\uFFFD",
	} {
		if got, err := serde.String.Decode(serde.Place{}, []byte(in)); err != nil || got != want {
			t.Errorf("%x is read as %q, %v; want %q", in, got, err, want)
		}
	}
}

// ordered checks that the order of bytes is that of keys, for the serdes that promise it.
func ordered[T any](t *testing.T, name string, s serde.Serde[T], gen *rapid.Generator[T], compare func(a, b T) int) {
	t.Run(name, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			a, b := gen.Draw(t, "a"), gen.Draw(t, "b")
			x, err := s.Append(nil, serde.Place{}, a)
			if err != nil {
				t.Fatal(err)
			}
			y, err := s.Append(nil, serde.Place{}, b)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Compare(x, y) != compare(a, b) {
				t.Fatalf("%v and %v compare as %d, their bytes %x and %x as %d", a, b, compare(a, b), x, y, bytes.Compare(x, y))
			}
		})
	})
}

func TestOrderOfBytesIsOrderOfKeys(t *testing.T) {
	ordered(t, "string", serde.String, rapid.String().Filter(utf8.ValidString), strings.Compare)
	ordered(t, "bytes", serde.Bytes, rapid.SliceOf(rapid.Byte()), bytes.Compare)
	ordered(t, "bool", serde.Bool, rapid.Bool(), func(a, b bool) int {
		switch {
		case a == b:
			return 0
		case b:
			return -1
		}
		return 1
	})
	ordered(t, "uuid", serde.UUID, rapid.Map(rapid.SliceOfN(rapid.Byte(), 16, 16), func(b []byte) (id uuid.UUID) {
		copy(id[:], b)
		return id
	}), func(a, b uuid.UUID) int { return bytes.Compare(a[:], b[:]) })
	ordered(t, "int16", serde.Int16, rapid.Int16Min(0), cmp.Compare)
	ordered(t, "int32", serde.Int32, rapid.Int32Min(0), cmp.Compare)
	ordered(t, "int64", serde.Int64, rapid.Int64Min(0), cmp.Compare)
	ordered(t, "float32", serde.Float32, rapid.Float32Min(0), cmp.Compare)
	ordered(t, "float64", serde.Float64, rapid.Float64Min(0), cmp.Compare)
}

func back[T any](t *testing.T, s serde.Serde[T], v T, data []byte) {
	t.Helper()
	b, err := s.Append(nil, serde.Place{}, v)
	if err != nil {
		t.Errorf("%q decodes to %v, which does not encode: %v", data, v, err)
		return
	}
	again, err := s.Decode(serde.Place{}, b)
	if err != nil {
		t.Errorf("%v does not come back from %x: %v", v, b, err)
		return
	}
	if b2, err := s.Append(nil, serde.Place{}, again); err != nil || !bytes.Equal(b, b2) {
		t.Errorf("%v is written as %x and then as %x, %v", v, b, b2, err)
	}
}

func fuzzed[T any](t *testing.T, s serde.Serde[T], data []byte) {
	t.Helper()
	if v, err := s.Decode(serde.Place{}, data); err == nil {
		back(t, s, v, data)
	}
}

// Whatever a built-in serde reads, it writes, and reads again as the same.
func FuzzRoundTrip(f *testing.F) {
	for _, seed := range []string{
		"", "a", "\xff\xfe", "\x00\x01", "\x01\x00\x00\x00\x01\x00\x00\x00\x01a", "\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x02\x00\x07",
		"\x7f\xf8\x00\x00\x00\x00\x00\x01", "12345678-90ab-cdef-1234-567890abcdef", `{"A":1}`, "[1,null]",
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		fuzzed(t, serde.String, data)
		fuzzed(t, serde.Bytes, data)
		fuzzed(t, serde.Int16, data)
		fuzzed(t, serde.Int32, data)
		fuzzed(t, serde.Int64, data)
		fuzzed(t, serde.Float32, data)
		fuzzed(t, serde.Float64, data)
		fuzzed(t, serde.Bool, data)
		fuzzed(t, serde.UUID, data)
		fuzzed(t, serde.Void, data)
		fuzzed(t, serde.List(serde.String), data)
		fuzzed(t, serde.List(serde.Pointer(serde.Int16)), data)
		fuzzed(t, serde.List(serde.Pointer(serde.List(serde.Pointer(serde.String)))), data)
		fuzzed(t, serde.JSON[map[string]any](), data)
		fuzzed(t, serde.JSON[[]*int](), data)
	})
}
