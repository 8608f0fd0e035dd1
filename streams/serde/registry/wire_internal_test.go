package registry

import (
	"bytes"
	"slices"
	"testing"

	"github.com/millrace/millrace/streams/serde"
	"github.com/twmb/franz-go/pkg/sr"
)

// The path of a message as Confluent's wire format has it: a count and the indexes, as signed varints, and 0 for the first message.
func TestIndexes(t *testing.T) {
	for _, c := range []struct {
		indexes []int
		bytes   string
	}{
		{[]int{0}, "\x00"},
		{[]int{1}, "\x02\x02"},
		{[]int{1, 0}, "\x04\x02\x00"},
		{[]int{0, 64, 2}, "\x06\x00\x80\x01\x04"},
		{nil, ""},
	} {
		if got := appendIndexes(nil, c.indexes); string(got) != c.bytes {
			t.Errorf("%v is written as %x, want %x", c.indexes, got, c.bytes)
		}
		if c.indexes == nil {
			continue
		}
		got, rest, err := takeIndexes([]byte(c.bytes + "rest"))
		if err != nil || !slices.Equal(got, c.indexes) || string(rest) != "rest" {
			t.Errorf("%x is read as %v, %q, %v; want %v", c.bytes, got, rest, err, c.indexes)
		}
		// The client's own form must not differ from ours.
		theirs, err := new(sr.ConfluentHeader).AppendEncode(nil, 7, c.indexes)
		if err != nil || !bytes.Equal(theirs, append([]byte{0, 0, 0, 0, 7}, c.bytes...)) {
			t.Errorf("%v: sr writes %x, %v", c.indexes, theirs, err)
		}
	}
	for _, bad := range []string{"", "\x01", "\x02", "\x02\x01", "\xfe\xff\xff\xff\x0f", "\x80", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f"} {
		if got, _, err := takeIndexes([]byte(bad)); err == nil {
			t.Errorf("%x is read as %v", bad, got)
		}
	}
}

// text is a format whose values are their own bytes.
type text struct{ indexes []int }

func (text) Name() string                                { return "text" }
func (text) Schema() Schema                              { return Schema{Type: sr.TypeJSON, Text: "{}"} }
func (f text) Indexes() []int                            { return f.indexes }
func (text) Append(dst []byte, v string) ([]byte, error) { return append(dst, v...), nil }
func (text) Reader(Schema, []int) (func([]byte) (string, error), error) {
	return func(data []byte) (string, error) { return string(data), nil }, nil
}

// Whatever begins like a value of the registry comes apart into a schema and the rest, and together again.
func FuzzSplit(f *testing.F) {
	for _, seed := range []string{"", "\x00\x00\x00\x00\x07", "\x00\x00\x00\x00\x07\x04\x02\x00rest", "\x01\x89\x79\x17\x62\x23\x36\x41\x86\x96\x74\x29\x9b\x90\xa8\x02\xe2\x00rest"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, indexes := range [][]int{nil, {0}} {
			s := &registered[string]{format: text{indexes}}
			k, path, rest, err := s.split(serde.Place{Topic: "t"}, data)
			if err != nil {
				continue
			}
			head := data[:len(data)-len(rest)]
			if len(head)+len(rest) != len(data) || k.guid == "" && k.id < 0 || (indexes == nil) != (path == nil) {
				t.Fatalf("%x comes apart as %v, %v, %x", data, k, path, rest)
			}
			if path == nil {
				continue
			}
			again, left, err := takeIndexes(appendIndexes(nil, path))
			if err != nil || len(left) > 0 || !slices.Equal(path, again) {
				t.Fatalf("path %v comes back as %v, %x, %v", path, again, left, err)
			}
		}
	})
}
