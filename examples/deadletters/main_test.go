package main

import (
	"strings"
	"testing"

	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/streamstest"
)

func TestDeadLetters(t *testing.T) {
	topology, err := pricing()
	if err != nil {
		t.Fatal(err)
	}
	cfg := streams.Config{Guarantee: streams.ExactlyOnce}
	route(&cfg)
	d := streamstest.New(t, topology, streamstest.WithConfig(cfg))
	in := d.Input(orders)
	in.PipeRaw([]byte("o1"), []byte("pen, 2"))
	in.Pipe("o2", Order{"yacht", 1})
	in.Pipe("o3", Order{"bag", 2})
	d.Output(priced).Expect(streams.Record[string, int64]{Key: "o3", Value: 9800})

	check := func(topic streams.Topic[string, string], key, value, message, offset string) {
		t.Helper()
		out := d.Output(topic)
		r := out.Read()
		why, _ := r.Headers.Last("__streams.errors.message")
		where, _ := r.Headers.Last("__streams.errors.offset")
		if r.Key != key || r.Value != value || !strings.Contains(string(why), message) || string(where) != offset {
			t.Errorf("%s: %q %q, because of %q at %s", topic.Name(), r.Key, r.Value, why, where)
		}
		if !out.Empty() {
			t.Errorf("%s: more than one letter", topic.Name())
		}
	}
	check(unreadable, "o1", "pen, 2", "invalid character", "0")
	check(rejected, "o2", `{"Item":"yacht","Count":1}`, `no price for "yacht"`, "1")
	if n := d.Err(); n != nil {
		t.Error(n)
	}
}
