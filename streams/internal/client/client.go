// Package client connects package tasks to Kafka: it implements the interfaces that tasks declares, over franz-go.
//
// A process has one [Consumer], one [Changelogs] and one [Log]; each worker has a [Producer] and a [Share] of the consumer. Nothing here knows about
// topologies or types.
package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"github.com/millrace/millrace/tasks"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Config is what all clients of a process have in common.
type Config struct {
	Brokers     []string
	Group       string
	ExactlyOnce bool
	Dial        func(ctx context.Context, network, address string) (net.Conn, error)
	Options     func(role string) []kgo.Opt // further options by role: "consumer", "restore-consumer", "producer", "admin"
	ClientID    func(role string) string
	Logger      *slog.Logger
}

// options are those of every client.
func (c Config) options(role string) []kgo.Opt {
	opts := []kgo.Opt{
		kgo.SeedBrokers(c.Brokers...),
		kgo.ClientID(c.ClientID(role)),
		kgo.MetadataMinAge(100 * time.Millisecond),
	}
	if c.Dial != nil {
		opts = append(opts, kgo.Dialer(c.Dial))
	}
	return opts
}

func (c Config) open(role string, own ...kgo.Opt) (*kgo.Client, error) {
	opts := append(c.options(role), own...)
	if c.Options != nil {
		opts = append(opts, c.Options(role)...)
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		return nil, fmt.Errorf("client: %s: %w", role, err)
	}
	return cl, nil
}

// NewAdmin opens the client for membership and administration.
func NewAdmin(c Config, opts ...kgo.Opt) (*kgo.Client, error) { return c.open("admin", opts...) }

// reading are the options of clients that fetch. Markers of transactions are kept, because they move the position (B-013).
func (c Config) reading() []kgo.Opt {
	opts := []kgo.Opt{
		kgo.KeepControlRecords(),
		kgo.ConsumeResetOffset(kgo.NoResetOffset()),
		kgo.FetchMaxWait(500 * time.Millisecond),
		// A fetch is held twice, by the client while we work on the one before; larger ones cost memory and bring nothing.
		kgo.FetchMaxBytes(16 << 20), kgo.FetchMaxPartitionBytes(256 << 10),
	}
	if c.ExactlyOnce {
		opts = append(opts, kgo.FetchIsolationLevel(kgo.ReadCommitted()))
	}
	return opts
}

// batch turns what a fetch brought into tasks' terms. The bytes of keys and values are never reused, so they may be kept.
func (c Config) batch(topic string, p *kgo.FetchPartition) tasks.Batch {
	b := tasks.Batch{TopicPartition: tasks.TopicPartition{Topic: topic, Partition: p.Partition}, End: p.HighWatermark, Next: -1}
	if c.ExactlyOnce {
		b.End = p.LastStableOffset
	}
	if n := len(p.Records); n > 0 {
		b.Next = p.Records[n-1].Offset + 1
		b.Records = make([]tasks.Record, 0, n)
		for _, r := range p.Records {
			if r.Attrs.IsControl() {
				continue
			}
			b.Records = append(b.Records, tasks.Record{
				Key: r.Key, Value: r.Value, Headers: headers(r.Headers), Offset: r.Offset, Timestamp: r.Timestamp.UnixMilli(),
			})
		}
	}
	if p.Err != nil {
		b.Err = p.Err
		if errors.Is(p.Err, kerr.OffsetOutOfRange) {
			b.Err = fmt.Errorf("%w: %w", tasks.ErrOutOfRange, p.Err)
		}
	}
	return b
}

func headers(in []kgo.RecordHeader) []tasks.Header {
	if len(in) == 0 {
		return nil
	}
	out := make([]tasks.Header, len(in))
	for i, h := range in {
		out[i] = tasks.Header{Key: h.Key, Value: h.Value}
	}
	return out
}

// retriable reports whether a request that failed may be sent again: the broker said so, or it never got an answer. A request here is only ever one whose
// repetition changes nothing.
func retriable(err error) bool {
	if err == nil || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return false
	}
	if ke, ok := errors.AsType[*kerr.Error](err); ok {
		return ke.Retriable || errors.Is(ke, kerr.ConcurrentTransactions) // which ends when the broker has finished the transaction before
	}
	return kgo.IsRetryableBrokerErr(err) || isDialError(err)
}

func isDialError(err error) bool { _, ok := errors.AsType[*net.OpError](err); return ok }

// retry calls f until it succeeds, fails for good, or ctx ends. wait tells why it waits, for the status.
func retry(ctx context.Context, f func() error) error {
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		err := f()
		if err == nil || !retriable(err) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		}
	}
}
