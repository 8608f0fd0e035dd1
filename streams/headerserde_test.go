package streams_test

import (
	"fmt"
	"testing"

	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/streams/streamstest"
)

// stamped is a serde that says in a header who wrote a record, and reads that again.
type stamped struct {
	serde.Serde[string]
	who string
}

func (s stamped) AppendWithHeaders(dst []byte, at serde.Place, headers *[]serde.Header, v string) ([]byte, error) {
	*headers = append(*headers, serde.Header{Key: fmt.Sprintf("by-%t", at.Key), Value: []byte(s.who)})
	return s.Append(dst, at, v)
}

func (s stamped) DecodeWithHeaders(at serde.Place, headers []serde.Header, data []byte) (string, error) {
	v, err := s.Decode(at, data)
	by, _ := streams.Headers(headers).Last("by")
	return v + "/" + string(by), err
}

// A serde may read and write headers, for a key as well as for a value. What one sink writes does not show at another, which has the same record.
func TestHeaderSerde(t *testing.T) {
	topic := func(name, who string) streams.Topic[string, string] {
		return streams.NewTopic[string, string](name, stamped{serde.String, who}, stamped{serde.String, who})
	}
	in := streams.NewTopic[string, string]("in", serde.String, stamped{serde.String, "nobody"})
	b := streams.NewBuilder()
	s := b.Stream(in).MapRecords(func(r streams.Record[string, string]) streams.Record[string, string] {
		return r.WithHeaders(append(make(streams.Headers, 0, 8), r.Headers...)) // with room for more
	})
	s.To(topic("one", "1"))
	s.To(topic("two", "2"))
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	d := streamstest.New(t, topology)
	plain := func(name string) streams.Topic[string, string] {
		return streams.NewTopic(name, serde.String, serde.String)
	}
	h := func(key, value string) serde.Header { return serde.Header{Key: key, Value: []byte(value)} }
	rec := streams.Record[string, string]{Key: "k", Value: "v", Headers: streams.Headers{h("by", "me")}}
	d.Input(plain("in")).PipeRecords(rec)
	for name, who := range map[string]string{"one": "1", "two": "2"} {
		d.Output(plain(name)).Expect(streams.Record[string, string]{
			Key: "k", Value: "v/me", Headers: streams.Headers{h("by", "me"), h("by-true", who), h("by-false", who)},
		})
	}
}
