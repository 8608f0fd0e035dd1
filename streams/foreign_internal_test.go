package streams

import (
	"bytes"
	"testing"

	"github.com/millrace/millrace/streams/serde"
)

// The hash and the bytes of subscriptions are those of Kafka Streams (F-114, F-119); the hashes are what Java computes.
func TestF119SubscriptionBytes(t *testing.T) {
	h := hasher[string]{serde: placedSerde[string]{inner: serde.String}}
	for text, want := range map[string][2]int64{
		"":                  {-7122613646888064702, -8341524471658347240},
		"21":                {-1045175892060202657, -6196245913608550939},
		"foobar":            {-1926091222759195742, 2201308245896195406},
		"sixteen bytes...":  {8722782119504990712, 7523194913820365097},
		"seventeen bytes..": {-7758018969033670238, -1950483086726688200},
	} {
		if got := h.of(nil, text); int64(got.hi) != want[0] || int64(got.lo) != want[1] {
			t.Errorf("hash of %q is %d %d, want %d %d", text, int64(got.hi), int64(got.lo), want[0], want[1])
		}
	}
	s := subscriptionSerde[string]{placedSerde[string]{inner: serde.String}}
	for _, c := range []struct {
		v    subscription[string]
		want []byte
	}{
		{subscription[string]{hash: valueHash{1, 2, true}, do: answerAlways, key: "k", partition: 5},
			[]byte{1, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 'k', 0, 0, 0, 5}},
		{subscription[string]{do: deleteAndAnswer, key: "kk", partition: 1}, []byte{0x81, 1, 'k', 'k', 0, 0, 0, 1}},
	} {
		b, err := s.Append(nil, serde.Place{}, c.v)
		if err != nil || !bytes.Equal(b, c.want) {
			t.Errorf("%+v is % x, %v, want % x", c.v, b, err, c.want)
		}
		if back, err := s.Decode(serde.Place{}, b); err != nil || back != c.v {
			t.Errorf("% x is %+v, %v, want %+v", b, back, err, c.v)
		}
	}
	old := subscription[string]{do: answerIfThereAre, key: "k", partition: -1} // as releases before 3.4 write it
	if back, err := s.Decode(serde.Place{}, []byte{0x80, 3, 'k'}); err != nil || back != old {
		t.Errorf("version 0 is %+v, %v, want %+v", back, err, old)
	}
	for _, bad := range [][]byte{{}, {1}, {1, 2, 3}, {0x82, 0, 'k', 0, 0, 0, 0}, {0x81, 4, 0, 0, 0, 0}, {0x81, 0, 0}} {
		if v, err := s.Decode(serde.Place{}, bad); err == nil {
			t.Errorf("% x was read as %+v", bad, v)
		}
	}
}

func FuzzForeignForms(f *testing.F) {
	f.Add([]byte{1, 2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 'k', 0, 0, 0, 5})
	f.Add([]byte{0x80})
	f.Add([]byte{2, 'a', 'b', 2})
	f.Fuzz(func(t *testing.T, data []byte) {
		raw := serde.Func( // serde.String replaces what is not UTF-8
			func(dst []byte, v string) ([]byte, error) { return append(dst, v...), nil },
			func(data []byte) (string, error) { return string(data), nil })
		s, a, c := subscriptionSerde[string]{placedSerde[string]{inner: raw}}, answerSerde[string]{raw}, changeSerde[string]{raw}
		if v, err := s.Decode(serde.Place{}, data); err == nil && data[0]&^noHash == subscriptionVersion {
			if b, err := s.Append(nil, serde.Place{}, v); err != nil || !bytes.Equal(b, data) {
				t.Errorf("% x became % x, %v", data, b, err)
			}
		}
		if v, err := a.Decode(serde.Place{}, data); err == nil {
			if b, err := a.Append(nil, serde.Place{}, v); err != nil || !bytes.Equal(b, data) {
				t.Errorf("% x became % x, %v", data, b, err)
			}
		}
		if v, err := c.Decode(serde.Place{}, data); err == nil {
			b, err := c.Append(nil, serde.Place{}, v)
			if err != nil {
				t.Fatal(err)
			}
			if again, err := c.Decode(serde.Place{}, b); err != nil || again != v {
				t.Errorf("%+v became %+v, %v", v, again, err)
			}
		}
	})
}

// F-064: the three forms that are written and the three more that are read.
func TestF064ChangeBytes(t *testing.T) {
	s := changeSerde[string]{serde.String}
	for _, c := range []struct {
		v           change[string]
		want, other []byte
	}{
		{change[string]{new: "ab"}, []byte{'a', 'b', 1}, []byte{'a', 'b', 1, 4}},
		{change[string]{newNull: true, old: "cd", hasOld: true}, []byte{'c', 'd', 0}, []byte{'c', 'd', 0, 3}},
		{change[string]{new: "ab", old: "c", hasOld: true}, []byte{4, 'a', 'b', 'c', 2}, []byte{4, 'a', 'b', 'c', 1, 5}},
	} {
		b, err := s.Append([]byte("x"), serde.Place{}, c.v)
		if err != nil || !bytes.Equal(b[1:], c.want) {
			t.Errorf("%+v is % x, %v, want % x", c.v, b[1:], err, c.want)
		}
		for _, data := range [][]byte{c.want, c.other} {
			if back, err := s.Decode(serde.Place{}, data); err != nil || back != c.v {
				t.Errorf("% x is %+v, %v, want %+v", data, back, err, c.v)
			}
		}
	}
	if _, err := s.Append(nil, serde.Place{}, change[string]{newNull: true}); err == nil {
		t.Error("a change of nothing to nothing was written")
	}
	for _, bad := range [][]byte{{}, {6}, {5}, {200, 'a', 2}} {
		if v, err := s.Decode(serde.Place{}, bad); err == nil {
			t.Errorf("% x was read as %+v", bad, v)
		}
	}
}
