package state

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"testing"
)

// TestGoldenBytes pins the formats that Java Kafka Streams reads and writes, too. F-160, F-165, F-167.
func TestGoldenBytes(t *testing.T) {
	key := []byte("key")
	for name, c := range map[string]struct {
		got  []byte
		want string
	}{
		"timestamped value": {AppendTimestamped(nil, []byte("v"), 1_700_000_000_123), "0000018bcfe5687b76"},
		"no timestamp":      {AppendTimestamped(nil, nil, -1), "ffffffffffffffff"},
		"window key":        {AppendWindowKey(nil, key, 1_700_000_000_000, 0), "6b65790000018bcfe5680000000000"},
		"with sequence":     {AppendWindowKey(nil, key, 1, 258), "6b6579000000000000000100000102"},
		"session key":       {AppendSessionKey(nil, key, 1, 1_700_000_000_000), "6b65790000018bcfe568000000000000000001"},
	} {
		if got := hex.EncodeToString(c.got); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

func FuzzFormats(f *testing.F) {
	f.Add([]byte("key"), []byte("value"), int64(1000), int64(2000), uint32(1))
	f.Add([]byte{}, []byte{}, int64(-1), int64(0), uint32(0))
	f.Fuzz(func(t *testing.T, key, value []byte, a, b int64, seq uint32) {
		if v, ts, ok := SplitTimestamped(AppendTimestamped([]byte{}, value, a)); !ok || ts != a || !bytes.Equal(v, value) {
			t.Fatalf("timestamped value: %q at %d, %v", v, ts, ok)
		}
		if k, start, s, ok := SplitWindowKey(AppendWindowKey(nil, key, a, seq)); !ok || start != a || s != seq || !bytes.Equal(k, key) {
			t.Fatalf("window key: %q %d %d, %v", k, start, s, ok)
		}
		if k, start, end, ok := SplitSessionKey(AppendSessionKey(nil, key, a, b)); !ok || start != a || end != b || !bytes.Equal(k, key) {
			t.Fatalf("session key: %q %d %d, %v", k, start, end, ok)
		}
		// Anything is split or refused, and what is split is put together again.
		if v, ts, ok := SplitTimestamped(key); ok != (len(key) >= 8) || (ok && !bytes.Equal(AppendTimestamped(nil, v, ts), key)) {
			t.Fatalf("timestamped value %x: %x at %d, %v", key, v, ts, ok)
		}
		if k, start, s, ok := SplitWindowKey(key); ok != (len(key) >= 12) || (ok && !bytes.Equal(AppendWindowKey(nil, k, start, s), key)) {
			t.Fatalf("window key %x: %x %d %d, %v", key, k, start, s, ok)
		}
		if k, start, end, ok := SplitSessionKey(key); ok != (len(key) >= 16) || (ok && !bytes.Equal(AppendSessionKey(nil, k, start, end), key)) {
			t.Fatalf("session key %x: %x %d %d, %v", key, k, start, end, ok)
		}
	})
}

// FuzzEscapedOrder checks that the order of suffixes is that of segment, key and time, which ranges rely on.
func FuzzEscapedOrder(f *testing.F) {
	f.Add([]byte("a"), []byte("a\x00"), int64(2000), int64(1000))
	f.Add([]byte("a\x00\x00"), []byte("a\x00\xff"), int64(1), int64(1))
	f.Add([]byte{}, []byte{0}, int64(0), int64(1<<62))
	f.Fuzz(func(t *testing.T, a, b []byte, at, bt int64) {
		at, bt = max(at, 0), max(bt, 0)
		l := layout{tail: windowTailLen, interval: 60_000}
		as, bs := l.appendSuffix(nil, AppendWindowKey(nil, a, at, 0)), l.appendSuffix(nil, AppendWindowKey(nil, b, bt, 0))
		want := cmp.Or(cmp.Compare(l.segment(at), l.segment(bt)), bytes.Compare(a, b), cmp.Compare(at, bt))
		if got := bytes.Compare(as, bs); got != want {
			t.Fatalf("%x@%d and %x@%d compare as %d, want %d", a, at, b, bt, got, want)
		}
		escaped := as[segmentLen : len(as)-windowTailLen-terminatorLen]
		if key, _ := unescape(nil, escaped); !bytes.Equal(key, a) {
			t.Fatalf("%x comes back as %x", a, key)
		}
	})
}

func FuzzStoreMeta(f *testing.F) {
	m := storeMeta{id: 3, interval: 60_000, observed: -1, next: 7, topicID: [16]byte{1}}
	f.Add(m.append(nil))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		var m storeMeta
		if m.parse(b) != nil {
			return
		}
		var again storeMeta
		if err := again.parse(m.append(nil)); err != nil || again != m {
			t.Fatalf("%+v comes back as %+v (%v)", m, again, err)
		}
	})
}
