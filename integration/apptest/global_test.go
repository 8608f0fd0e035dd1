package apptest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/millrace/millrace/integration/devbroker"
	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/serde"
	"github.com/twmb/franz-go/pkg/kgo"
)

var weights = streams.NewTopic("weights", serde.String, serde.Int64)

// weigh gives each word its weight by a global table.
func weigh(t testing.TB, opts ...streams.TableOption) *streams.Topology {
	b := streams.NewBuilder()
	table := b.GlobalTable(weights, opts...)
	word := func(_, w string) string { return w }
	b.Stream(lines).JoinGlobalWithKey(table, word, func(_, w string, _ string, n int64) string { return fmt.Sprint(w, "=", n) }).
		Map(func(_, v string) (string, int64) {
			var w string
			var n int64
			if _, err := fmt.Sscanf(v, "%1s=%d", &w, &n); err != nil {
				t.Error(err)
			}
			return w, n
		}).To(counts)
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return topology
}

func setWeight(t *testing.T, cl *kgo.Client, word string, n int64) {
	t.Helper()
	value, err := serde.Int64.Append(nil, serde.Place{}, n)
	if err != nil {
		t.Fatal(err)
	}
	if err := cl.ProduceSync(context.Background(), &kgo.Record{Topic: "weights", Key: []byte(word), Value: value}).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// F-007: tasks start when the global table has all that its topic had, see what comes later, and find it again after a restart; with and without a state
// directory.
func TestF007GlobalTable(t *testing.T) {
	for name, opts := range map[string][]streams.TableOption{"disk": nil, "memory": {streams.InMemory}} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, b *devbroker.Broker) {
				cl := client(t, b)
				defer cl.Close()
				for i, w := range []string{"a", "b", "c", "d", "e", "f"} {
					setWeight(t, cl, w, int64(i))
				}
				produce(t, cl, "lines", "a", "b", "c", "d", "e", "f", "?")
				var dir string
				start := func() (*streams.App, func() error) {
					return app(t, b, weigh(t, opts...), func(c *streams.Config) {
						if dir == "" {
							dir = c.StateDir
						}
						c.StateDir = dir
					})
				}
				a, stop := start()
				latest(t, b, "counts", map[string]int64{"a": 0, "b": 1, "c": 2, "d": 3, "e": 4, "f": 5})
				setWeight(t, cl, "a", 10)
				awaitWeight(t, a, b, cl, "a", 10)
				if err := stop(); err != nil {
					t.Fatal(err)
				}
				setWeight(t, cl, "b", 11)
				produce(t, cl, "lines", "b", "c", "a")
				_, stop = start()
				latest(t, b, "counts", map[string]int64{"a": 10, "b": 11, "c": 2, "d": 3, "e": 4, "f": 5})
				if err := stop(); err != nil {
					t.Fatal(err)
				}
			}, devbroker.Topic("weights", 3))
		})
	}
}

// awaitWeight sends a word until it has a weight: the table is not in step with the stream.
func awaitWeight(t *testing.T, a *streams.App, b *devbroker.Broker, cl *kgo.Client, word string, n int64) {
	t.Helper()
	reader := client(t, b, kgo.ConsumeTopics("counts"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer reader.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		produce(t, cl, "lines", word)
		found := false
		poll, done := context.WithTimeout(ctx, time.Second)
		reader.PollFetches(poll).EachRecord(func(r *kgo.Record) {
			got, _ := serde.Int64.Decode(serde.Place{}, r.Value)
			found = found || string(r.Key) == word && got == n
		})
		done()
		if found {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("no record of %s with %d; the app is %v", word, n, a.Status())
		}
	}
}

func TestGlobalTableOfAMissingTopic(t *testing.T) {
	bubble(t, func(t *testing.T, b *devbroker.Broker) {
		a, err := streams.New(config(t, b, nil), weigh(t))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		if err := a.Run(ctx); !errors.Is(err, streams.ErrMissingSourceTopic) {
			t.Errorf("Run returned %v", err)
		}
	})
}

// A record that does not decode ends the app with its place, as one of a stream does.
func TestGlobalTableWithARecordThatDoesNotDecode(t *testing.T) {
	bubble(t, func(t *testing.T, b *devbroker.Broker) {
		cl := client(t, b)
		defer cl.Close()
		if err := cl.ProduceSync(context.Background(), &kgo.Record{Topic: "weights", Key: []byte("a"), Value: []byte("bad")}).FirstErr(); err != nil {
			t.Fatal(err)
		}
		a, err := streams.New(config(t, b, nil), weigh(t))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		err = a.Run(ctx)
		if e, ok := errors.AsType[*streams.RecordError](err); !ok || e.Stage != streams.DecodeValue || e.Origin.Topic != "weights" {
			t.Errorf("Run returned %v", err)
		}
	}, devbroker.Topic("weights", 1))
}
