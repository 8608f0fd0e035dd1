//go:build kafka

package conformance_test

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/millrace/millrace/integration/conformance"
	"github.com/millrace/millrace/integration/kafka"
)

// Apache Kafka 4.4 with the settings that the suite needs, which the package documentation names.
func TestApacheKafka(t *testing.T) {
	c := kafka.Test(t, kafka.Options{Version: "4.4.0", Config: map[string]string{
		"group.consumer.min.heartbeat.interval.ms": "100",
		"group.streams.assignment.interval.ms":     "0",
		"group.streams.max.size":                   strconv.Itoa(maxSize),
	}})
	tg := conformance.Target{Seeds: c.Addresses(), Release: "4.4"}
	if os.Getenv("MILLRACE_BROKERS") == "" { // brokers that somebody else runs have settings of their own and stay up
		tg.MaxSize = maxSize
		tg.LoseCoordinator = func(t *testing.T, _ string) {
			t.Helper()
			if err := c.Nodes[0].Stop(); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if err := c.Nodes[0].Restart(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	conformance.RunAll(t, tg)
}
