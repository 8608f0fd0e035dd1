package devbroker_test

import (
	"context"
	"fmt"
	"log"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/integration/devbroker"
	"github.com/millrace/millrace/integration/devbroker/coordinator"
)

// A broker over TCP, as an application sees it.
func Example() {
	b, err := devbroker.Start(devbroker.Topic("greetings", 1))
	if err != nil {
		log.Fatal(err)
	}
	defer b.Close()

	client, err := kgo.NewClient(append(b.ClientOpts(), kgo.ConsumeTopics("greetings"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	ctx := context.Background()
	if err := client.ProduceSync(ctx, &kgo.Record{Topic: "greetings", Value: []byte("hello")}).FirstErr(); err != nil {
		log.Fatal(err)
	}
	client.PollFetches(ctx).EachRecord(func(r *kgo.Record) { fmt.Println(string(r.Value)) })
	// Output: hello
}

// A broker inside a bubble of testing/synctest: an hour of heartbeats takes no time. The broker and its clients are made and closed in the bubble.
func Example_synctest() {
	test := func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b, err := devbroker.Start(devbroker.VirtualNetwork(), devbroker.KafkaTimings(), devbroker.Topic("in", 2),
				devbroker.Settings(func(c *coordinator.Config) { c.InitialRebalanceDelay = 0 }))
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			client, err := kgo.NewClient(b.ClientOpts()...)
			if err != nil {
				t.Fatal(err)
			}
			defer client.Close()
			// … run members over client, then wait for a state instead of sleeping:
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			err = b.WaitGroup(ctx, "app", func(g kmsg.StreamsGroupDescribeResponseGroup) bool { return g.State == coordinator.StateStable })
			t.Log(err)
		})
	}
	_ = test
}
