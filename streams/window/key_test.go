package window_test

import (
	"bytes"
	"cmp"
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/streams/window"
)

func ms(n int64) time.Time { return time.UnixMilli(n).UTC() }

// F-078: the bytes that TimeWindowedSerializer of Kafka Streams 4.4.0 wrote for the same keys: the key, then the start.
func TestWindowedKeysHaveJavasBytes(t *testing.T) {
	at := serde.Place{Topic: "t", Key: true}
	for _, c := range []struct {
		key   string
		start int64
		want  string
	}{
		{"k", 0, "k\x00\x00\x00\x00\x00\x00\x00\x00"},
		{"", 1, "\x00\x00\x00\x00\x00\x00\x00\x01"},
		{"grüß", 1767268800000, "\x67\x72\xc3\xbc\xc3\x9f\x00\x00\x01\x9b\x79\x6d\xd6\x00"},
		{"k", math.MaxInt64 - 1, "k\x7f\xff\xff\xff\xff\xff\xff\xfe"},
		{"\x00a", 256, "\x00a\x00\x00\x00\x00\x00\x00\x01\x00"},
	} {
		key := window.At(c.key, ms(c.start), ms(c.start).Add(time.Minute))
		got, err := window.Serde(serde.String, time.Minute).Append([]byte("before"), at, key)
		if err != nil || string(got) != "before"+c.want {
			t.Errorf("%q at %d: %x, %v; want %x", c.key, c.start, got, err, c.want)
		}
		back, err := window.Serde(serde.String, time.Minute).Decode(at, []byte(c.want))
		if err != nil || back.Key != c.key || back.Start != key.Start {
			t.Errorf("%x: %v, %v; want %v", c.want, back, err, key)
		}
	}
	got, err := window.Serde(serde.Int64, time.Minute).Append(nil, at, window.At(int64(-2), ms(60_000), ms(120_000)))
	if want := "\xff\xff\xff\xff\xff\xff\xff\xfe\x00\x00\x00\x00\x00\x00\xea\x60"; err != nil || string(got) != want {
		t.Errorf("int64: %x, %v; want %x", got, err, want)
	}
}

// The end is not written: a reader adds the size that it was told, in whole milliseconds, as windows have it.
func TestDecodedWindowEndsAfterItsSize(t *testing.T) {
	data := []byte("k\x00\x00\x00\x00\x00\x00\x00\x05")
	for size, end := range map[time.Duration]int64{time.Minute: 60_005, time.Millisecond: 6, 1999 * time.Microsecond: 6} {
		got, err := window.Serde(serde.String, size).Decode(serde.Place{}, data)
		if want := window.At("k", ms(5), ms(end)); err != nil || got != want {
			t.Errorf("size %v: %v, %v; want %v", size, got, err, want)
		}
	}
}

func TestDecodeOfWindowedKeysRefuses(t *testing.T) {
	for name, data := range map[string]string{"nothing": "", "too short": "1234567"} {
		if got, err := window.Serde(serde.String, time.Minute).Decode(serde.Place{}, []byte(data)); err == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
	if got, err := window.Serde(serde.Int64, time.Minute).Decode(serde.Place{}, []byte("no 8 bytes and a time")); err == nil {
		t.Errorf("a key that does not decode: %v", got)
	}
	broken := errors.New("broken")
	refuse := serde.Func(func(dst []byte, _ string) ([]byte, error) { return dst, broken }, func([]byte) (string, error) { return "", broken })
	if _, err := window.Serde(refuse, time.Minute).Append(nil, serde.Place{}, window.At("k", ms(0), ms(1))); !errors.Is(err, broken) {
		t.Errorf("a key that does not encode: %v", err)
	}
}

// F-033: sinks partition by the key alone, so that all windows of a key share a partition.
func TestInnerKey(t *testing.T) {
	s, ok := window.Serde(serde.String, time.Minute).(window.InnerSerde[window.Windowed[string]])
	if !ok {
		t.Fatal("the serde has no AppendInner")
	}
	for _, start := range []int64{0, 60_000} {
		got, err := s.AppendInner([]byte("before "), serde.Place{}, window.At("key", ms(start), ms(start+60_000)))
		if err != nil || string(got) != "before key" {
			t.Errorf("%q, %v", got, err)
		}
	}
}

// F-077: times of a key are in UTC and in milliseconds, so that == means what it says.
func TestAt(t *testing.T) {
	berlin := time.FixedZone("CET", 3600)
	start := time.Date(2026, 1, 1, 13, 0, 0, 1_999_999, berlin)
	got := window.At("k", start, start.Add(time.Minute))
	want := window.Windowed[string]{Key: "k", Start: time.Date(2026, 1, 1, 12, 0, 0, 1_000_000, time.UTC), End: time.Date(2026, 1, 1, 12, 1, 0, 1_000_000, time.UTC)}
	if got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if before := window.At("k", time.Unix(0, -1), time.Unix(0, -1)); before.Start != ms(-1) {
		t.Errorf("one nanosecond before 1970 is at %v", before.Start)
	}
}

func TestCompare(t *testing.T) {
	sorted := []window.Windowed[string]{
		window.At("a", ms(0), ms(10)), window.At("a", ms(0), ms(20)), window.At("a", ms(5), ms(10)), window.At("b", ms(0), ms(10)),
	}
	mixed := []window.Windowed[string]{sorted[3], sorted[1], sorted[2], sorted[0]}
	slices.SortFunc(mixed, window.Compare)
	if !slices.Equal(mixed, sorted) {
		t.Errorf("got %v, want %v", mixed, sorted)
	}
}

// Keys come back as they were, and of one key the bytes are in the order of the starts.
func FuzzWindowedKeyRoundTrip(f *testing.F) {
	f.Add([]byte("k"), int64(0), int64(1))
	f.Add([]byte{}, int64(math.MaxInt64), int64(-1))
	f.Add([]byte{0, 0xff}, int64(1767268800000), int64(1))
	s := window.Serde(serde.Bytes, time.Minute)
	f.Fuzz(func(t *testing.T, key []byte, a, b int64) {
		encode := func(start int64) []byte {
			data, err := s.Append(nil, serde.Place{}, window.Windowed[[]byte]{Key: key, Start: ms(start)})
			if err != nil {
				t.Fatal(err)
			}
			back, err := s.Decode(serde.Place{}, data)
			end := ms(start).Add(time.Minute)
			if start > math.MaxInt64-time.Minute.Milliseconds() {
				end = ms(math.MaxInt64) // no window ends later
			}
			if err != nil || !bytes.Equal(back.Key, key) || back.Start != ms(start) || back.End != end {
				t.Fatalf("%q at %d came back as %v, %v", key, start, back, err)
			}
			return data
		}
		if x, y := encode(a), encode(b); a >= 0 && b >= 0 && bytes.Compare(x, y) != cmp.Compare(a, b) {
			t.Errorf("%q: %d and %d are %x and %x", key, a, b, x, y)
		}
	})
}

// Whatever decodes encodes to the same bytes.
func FuzzWindowedKeyDecode(f *testing.F) {
	f.Add([]byte("k\x00\x00\x00\x00\x00\x00\x00\x00"))
	f.Add([]byte("short"))
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff"))
	s := window.Serde(serde.Bytes, time.Hour)
	f.Fuzz(func(t *testing.T, data []byte) {
		key, err := s.Decode(serde.Place{}, data)
		if err != nil {
			if len(data) >= 8 {
				t.Errorf("%x: %v", data, err)
			}
			return
		}
		again, err := s.Append(nil, serde.Place{}, key)
		if err != nil || !bytes.Equal(again, data) {
			t.Errorf("%x became %x, %v", data, again, err)
		}
	})
}
