package apptest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/millrace/millrace/integration/devbroker"
	"github.com/millrace/millrace/streams"
	"github.com/twmb/franz-go/pkg/kerr"
)

// B-037: the membership ends for good while the worker is deep in a user function, for longer than the member waits for it. The worker hears of it as soon as
// it can, and the app ends with the cause.
func TestB037MembershipEndsBehindABusyWorker(t *testing.T) {
	bubble(t, func(t *testing.T, b *devbroker.Broker) {
		busy := make(chan struct{}, 1)
		topology := build(t, func(sb *streams.Builder) {
			sb.Stream(lines).Peek(func(string, string) {
				busy <- struct{}{}
				<-time.After(2 * time.Minute)
			})
		})
		a, err := streams.New(config(t, b, func(c *streams.Config) { c.Workers = 1 }), topology)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- a.Run(context.Background()) }()
		await(t, a, streams.Running)
		produceTo(t, b, "lines", "a line")
		<-busy
		b.FailHeartbeats("app", 1, kerr.GroupAuthorizationFailed)
		select {
		case err := <-ended:
			if !errors.Is(err, kerr.GroupAuthorizationFailed) {
				t.Errorf("the app ended with %v", err)
			}
		case <-time.After(10 * time.Minute):
			t.Errorf("the app goes on without a membership: %+v", a.Status())
			if err := a.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}
	})
}
