package apptest

import (
	"context"
	"testing"

	"github.com/millrace/millrace/integration/devbroker"
	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/serde"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// F-054: a table whose source topic is its changelog comes back from it when its state is lost, in both guarantees, and makes no topic of its own.
func TestF054SourceTopicAsChangelog(t *testing.T) {
	words := streams.NewTopic("words", serde.String, serde.String)
	for name, guarantee := range map[string]streams.Guarantee{"at least once": streams.AtLeastOnce, "exactly once": streams.ExactlyOnce} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, b *devbroker.Broker) {
				cl := client(t, b)
				defer cl.Close()
				topology := func() *streams.Topology {
					builder := streams.NewBuilder(streams.ReuseSourceTopics)
					table := builder.Table(weights, streams.Materialized("weights"))
					builder.Stream(words).JoinTable(table, func(_ string, n int64) int64 { return n }, streams.Named("join")).To(counts, streams.ValueSerde(serde.Int64))
					topology, err := builder.Build()
					if err != nil {
						t.Fatal(err)
					}
					return topology
				}
				word := func(w string) {
					if err := cl.ProduceSync(context.Background(), &kgo.Record{Topic: "words", Key: []byte(w), Value: []byte("?")}).FirstErr(); err != nil {
						t.Fatal(err)
					}
				}
				for i, w := range []string{"a", "b", "c", "d", "e", "f"} {
					setWeight(t, cl, w, int64(i))
				}
				run := func() func() error { // each with a new, empty state directory
					_, stop := app(t, b, topology(), func(c *streams.Config) { c.Guarantee = guarantee })
					return stop
				}
				stop := run()
				for _, w := range []string{"a", "b", "c"} {
					word(w)
				}
				latest(t, b, "counts", map[string]int64{"a": 0, "b": 1, "c": 2})
				if err := stop(); err != nil {
					t.Fatal(err)
				}
				setWeight(t, cl, "a", 10)
				for _, w := range []string{"a", "d"} {
					word(w)
				}
				stop = run()
				latest(t, b, "counts", map[string]int64{"a": 10, "b": 1, "c": 2, "d": 3})
				if err := stop(); err != nil {
					t.Fatal(err)
				}
				topics, err := kadm.NewClient(cl).ListTopics(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				for _, topic := range topics.Names() {
					if topic == "app-weights-changelog" {
						t.Error("there is a changelog")
					}
				}
			}, devbroker.Topic("weights", 3), devbroker.Topic("words", 3))
		})
	}
}
