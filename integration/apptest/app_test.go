// Package apptest runs whole applications against the development broker, in bubbles of testing/synctest where hours pass in milliseconds.
package apptest

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/integration/devbroker"
	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/serde"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	lines  = streams.NewTopic("lines", serde.String, serde.String)
	counts = streams.NewTopic("counts", serde.String, serde.Int64)
)

func wordCount(t testing.TB) *streams.Topology {
	b := streams.NewBuilder()
	b.Stream(lines).FlatMapValues(strings.Fields).GroupBy(func(_, w string) string { return w }).Count("counts").ToStream().To(counts)
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return topology
}

// bubble runs f in a synctest bubble with a broker on a virtual network.
func bubble(t *testing.T, f func(t *testing.T, b *devbroker.Broker), opts ...devbroker.Option) {
	synctest.Test(t, func(t *testing.T) {
		opts = append([]devbroker.Option{devbroker.VirtualNetwork(), devbroker.Topic("lines", 4), devbroker.Topic("counts", 4)}, opts...)
		b, err := devbroker.Start(opts...)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		f(t, b)
	})
}

// config is the configuration of the tests' applications.
func config(t *testing.T, b *devbroker.Broker, change func(*streams.Config)) streams.Config {
	cfg := streams.Config{
		ApplicationID: "app", Brokers: b.Addrs(), Dial: b.Dialer(), StateDir: t.TempDir(), Workers: 2, ClientID: "client",
		CommitInterval: 100 * time.Millisecond,
	}
	if change != nil {
		change(&cfg)
	}
	return cfg
}

// app starts an application and returns how to stop it.
func app(t *testing.T, b *devbroker.Broker, topology *streams.Topology, change func(*streams.Config)) (*streams.App, func() error) {
	t.Helper()
	a, err := streams.New(config(t, b, change), topology)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	stopped := false
	stop := func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-done
	}
	t.Cleanup(func() {
		if err := stop(); err != nil {
			t.Errorf("app: %v", err)
		}
	})
	return a, stop
}

func client(t *testing.T, b *devbroker.Broker, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	cl, err := kgo.NewClient(append(b.ClientOpts(), opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	return cl
}

func produce(t *testing.T, cl *kgo.Client, topic string, values ...string) {
	t.Helper()
	for _, v := range values {
		if err := cl.ProduceSync(context.Background(), &kgo.Record{Topic: topic, Value: []byte(v)}).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

// latest reads a topic until every wanted key has its value.
func latest(t *testing.T, b *devbroker.Broker, topic string, want map[string]int64) {
	t.Helper()
	cl := client(t, b, kgo.ConsumeTopics(topic), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer cl.Close()
	got := map[string]int64{}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		fetches := cl.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatalf("got %v, want %v", got, want)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			n, err := serde.Int64.Decode(serde.Place{}, r.Value)
			if err != nil {
				t.Error(err)
			}
			got[string(r.Key)] = n
		})
		same := len(got) == len(want)
		for k, v := range want {
			same = same && got[k] == v
		}
		if same {
			return
		}
	}
}

func TestWordCountAtLeastOnce(t *testing.T) { testWordCount(t, streams.AtLeastOnce) }
func TestWordCountExactlyOnce(t *testing.T) { testWordCount(t, streams.ExactlyOnce) }

// Counts go on after a restart from the stores, and after the loss of the state directory from the changelogs.
func testWordCount(t *testing.T, g streams.Guarantee) {
	bubble(t, func(t *testing.T, b *devbroker.Broker) {
		dir := t.TempDir()
		run := func(change func(*streams.Config)) func() error {
			a, stop := app(t, b, wordCount(t), func(c *streams.Config) {
				c.Guarantee, c.StateDir = g, dir
				if change != nil {
					change(c)
				}
			})
			if err := a.Wait(context.Background(), streams.Running); err != nil {
				t.Fatal(err)
			}
			return stop
		}
		cl := client(t, b)
		defer cl.Close()
		stop := run(nil)
		produce(t, cl, "lines", "to be or not to be", "to do")
		latest(t, b, "counts", map[string]int64{"to": 3, "be": 2, "or": 1, "not": 1, "do": 1})
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		stop = run(nil)
		produce(t, cl, "lines", "be")
		latest(t, b, "counts", map[string]int64{"to": 3, "be": 3, "or": 1, "not": 1, "do": 1})
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		run(func(c *streams.Config) { c.StateDir = t.TempDir() })
		produce(t, cl, "lines", "be done")
		latest(t, b, "counts", map[string]int64{"to": 3, "be": 4, "or": 1, "not": 1, "do": 1, "done": 1})
	})
}
