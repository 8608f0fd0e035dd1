package window_test

import (
	"bytes"
	"math"
	"testing"
	"time"

	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/streams/window"
)

// F-078: the bytes that SessionWindowedSerializer of Kafka Streams 4.4.0 writes: the key, then the end, then the start.
func TestSessionKeysHaveJavasBytes(t *testing.T) {
	at := serde.Place{Topic: "t", Key: true}
	s := window.SessionSerde(serde.String)
	for _, c := range []struct {
		key        string
		start, end int64
		want       string
	}{
		{"k", 0, 0, "k\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"},
		{"", 1, 256, "\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00\x01"},
		{"kk", 1767268800000, math.MaxInt64, "kk\x7f\xff\xff\xff\xff\xff\xff\xff\x00\x00\x01\x9b\x79\x6d\xd6\x00"},
	} {
		key := window.At(c.key, ms(c.start), ms(c.end))
		got, err := s.Append([]byte("before"), at, key)
		if err != nil || string(got) != "before"+c.want {
			t.Errorf("%v: %x, %v; want %x", key, got, err, c.want)
		}
		if back, err := s.Decode(at, []byte(c.want)); err != nil || back != key {
			t.Errorf("%x: %v, %v; want %v", c.want, back, err, key)
		}
		inner, err := s.(window.InnerSerde[window.Windowed[string]]).AppendInner([]byte("before "), at, key)
		if err != nil || string(inner) != "before "+c.key {
			t.Errorf("%v: inner key %q, %v", key, inner, err)
		}
	}
	for _, short := range []string{"", "123456789012345"} {
		if got, err := s.Decode(at, []byte(short)); err == nil {
			t.Errorf("%q decodes to %v", short, got)
		}
	}
}

func FuzzSessionKeys(f *testing.F) {
	f.Add([]byte("k"), int64(0), int64(1))
	f.Add([]byte{}, int64(-1), int64(math.MaxInt64))
	s := window.SessionSerde(serde.Bytes)
	f.Fuzz(func(t *testing.T, key []byte, start, end int64) {
		in := window.Windowed[[]byte]{Key: key, Start: ms(start), End: ms(end)}
		data, err := s.Append(nil, serde.Place{}, in)
		if err != nil {
			t.Fatal(err)
		}
		back, err := s.Decode(serde.Place{}, data)
		if err != nil || !bytes.Equal(back.Key, key) || back.Start != in.Start || back.End != in.End {
			t.Fatalf("%v came back as %v, %v", in, back, err)
		}
	})
}

// F-089: the end of an unlimited window is the greatest number of milliseconds, also of a key that was read.
func TestUnlimitedKeys(t *testing.T) {
	data := []byte("k\x00\x00\x00\x00\x00\x00\x00\x05")
	for name, s := range map[string]serde.Serde[window.Windowed[string]]{
		"by size": window.Serde(serde.String, window.Unbounded), "by definition": window.SerdeOf(serde.String, window.Unlimited(ms(5))),
	} {
		got, err := s.Decode(serde.Place{}, data)
		if err != nil || got.Start != ms(5) || got.End.UnixMilli() != math.MaxInt64 {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

// F-094: a key that is read has the end that its definition gives the window, whatever the length.
func TestSerdeOfDays(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	start := time.Date(2026, 3, 29, 0, 0, 0, 0, berlin)
	s := window.SerdeOf(serde.String, window.Days(berlin))
	data, err := s.Append(nil, serde.Place{}, window.At("k", start, start.Add(23*time.Hour)))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := s.Decode(serde.Place{}, data); err != nil || got != window.At("k", start, start.Add(23*time.Hour)) {
		t.Errorf("got %v, %v", got, err)
	}
}
