//go:build kafka

package kafka_test

import (
	"context"
	"testing"
	"time"

	"github.com/millrace/millrace/integration/kafka"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

func admin(t *testing.T, addresses ...string) *kadm.Client {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addresses...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return kadm.NewClient(cl)
}

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// Every release that Millrace runs on starts, takes settings, and has streams groups.
func TestReleases(t *testing.T) {
	for _, version := range []string{"4.2.1", "4.3.1"} {
		t.Run(version, func(t *testing.T) {
			c := kafka.Test(t, kafka.Options{Version: version, Config: map[string]string{"num.partitions": "3"}})
			adm := admin(t, c.Addresses()...)
			ctx := within(t, time.Minute)
			configs, err := adm.DescribeBrokerConfigs(ctx, 1)
			if err != nil {
				t.Fatal(err)
			}
			found := false
			for _, rc := range configs {
				for _, kv := range rc.Configs {
					found = found || kv.Key == "num.partitions" && kv.MaybeValue() == "3"
				}
			}
			if !found {
				t.Error("the setting did not reach the broker")
			}
			versions, err := adm.ApiVersions(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range versions {
				if max, ok := v.KeyMaxVersion(88); !ok || max != 0 {
					t.Errorf("node %d has StreamsGroupHeartbeat up to %d, %v", v.NodeID, max, ok)
				}
			}
		})
	}
}

// Three nodes form a cluster. One that is killed, and one that is frozen, comes back on its data.
func TestThreeNodes(t *testing.T) {
	c := kafka.Test(t, kafka.Options{Nodes: 3, Heap: "256m"})
	adm := admin(t, c.Addresses()...)
	ctx := within(t, 2*time.Minute)
	if resp, err := adm.CreateTopic(ctx, 3, 3, nil, "t"); err != nil {
		t.Fatal(err, resp.Err)
	}
	produce := func(value string) {
		t.Helper()
		cl, err := kgo.NewClient(kgo.SeedBrokers(c.Addresses()...), kgo.DefaultProduceTopic("t"))
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		if err := cl.ProduceSync(ctx, kgo.StringRecord(value)).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
	produce("a")
	if err := c.Nodes[2].Kill(); err != nil || c.Nodes[2].Running() {
		t.Fatalf("after the kill: %v, running %v", err, c.Nodes[2].Running())
	}
	produce("b") // the others have taken over
	if err := c.Nodes[2].Restart(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.Nodes[1].Freeze(); err != nil {
		t.Fatal(err)
	}
	if err := c.Nodes[1].Thaw(); err != nil {
		t.Fatal(err)
	}
	produce("c")
	ends, err := adm.ListEndOffsets(ctx, "t")
	if err != nil || ends.Error() != nil {
		t.Fatal(err, ends.Error())
	}
	var n int64
	ends.Each(func(o kadm.ListedOffset) { n += o.Offset })
	if n != 3 {
		t.Errorf("%d records, want 3", n)
	}
}
