package streams_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/streams/streamstest"
)

var lengths = streams.NewKeyValueStore("lengths", serde.String, serde.Int64)

// measure notes the length of each value and forwards where it is; every ten milliseconds of stream time it forwards the last length.
type measure struct {
	last streams.FixedKeyRecord[string, string]
}

func (m *measure) Init(ctx *streams.FixedKeyContext[string, string]) error {
	ctx.Schedule(10*time.Millisecond, streams.StreamTime, func(ctx *streams.FixedKeyContext[string, string], now time.Time) error {
		_, ok := ctx.Origin()
		key, _ := m.last.Key()
		n, _ := ctx.Store(lengths).Get(key)
		ctx.Forward(m.last.WithValue(fmt.Sprint(n, ok, len(ctx.Headers()))).WithTimestamp(now).WithHeaders(nil))
		return nil
	})
	return nil
}

func (m *measure) Process(ctx *streams.FixedKeyContext[string, string], r streams.FixedKeyRecord[string, string]) error {
	m.last = r
	key, _ := r.Key()
	v, _ := r.Get()
	ctx.Store(lengths).Put(key, int64(len(v)))
	o, _ := ctx.Origin()
	at, _ := ctx.StreamTime()
	h, _ := ctx.Headers().Last("h")
	ctx.RequestCommit()
	ctx.Log().Debug("measured")
	ctx.Forward(r.WithValue(fmt.Sprintf("%s %v %d %s %s %d", ctx.Task(), o, at.UnixMilli(), h, ctx.ApplicationID(), ctx.WallClock().Year())))
	var task context.Context = ctx // it can be handed to calls that block
	return task.Err()
}

// A FixedKeyContext has everything of a TaskContext. F-140, F-142, F-143, F-147, F-150, F-151, F-152.
func TestFixedKeyContext(t *testing.T) {
	in := streams.NewTopic("in", serde.String, serde.String)
	out := streams.NewTopic("out", serde.String, serde.String)
	b := streams.NewBuilder()
	b.Stream(in).ProcessValues(func() *measure { return &measure{} }, streams.WithStores(lengths)).To(out)
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	d := streamstest.New(t, topology)
	r := streams.Record[string, string]{Key: "k", Value: "four", Timestamp: time.UnixMilli(15), Headers: streams.Headers{{Key: "h", Value: []byte("x")}}}
	d.Input(in).PipeRecords(r)
	var got []string
	for _, r := range d.Output(out).ReadAll() {
		got = append(got, fmt.Sprintf("%s=%s@%d", r.Key, r.Value, r.Timestamp.UnixMilli()))
	}
	if want := "[k=0_0 {in 0 0} 15 x test 2000@15 k=4 false 0@15]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
}
