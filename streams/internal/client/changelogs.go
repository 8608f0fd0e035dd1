package client

import (
	"context"
	"maps"
	"slices"

	"github.com/millrace/millrace/tasks"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Changelogs is the client that restores stores. It is apart from the consumer, so that restoring never delays input nor loses any (B-040). It
// implements [tasks.Changelogs].
type Changelogs struct{ feed *feed[*reader] }

type reader struct {
	ctx     context.Context
	batches chan tasks.Batch
}

// batchesAhead is how many fetched batches may wait for a slow reader: enough that fetching and applying overlap. Decoded records of a changelog take ten
// times the memory they take on the wire.
const batchesAhead = 1

// NewChangelogs opens the client.
func NewChangelogs(cfg Config) (*Changelogs, error) {
	cl, err := cfg.open("restore-consumer", append(cfg.reading(), kgo.FetchMaxPartitionBytes(512<<10))...)
	if err != nil {
		return nil, err
	}
	return &Changelogs{newFeed(cfg, cl, nil, func(r *reader, b tasks.Batch) {
		select {
		case r.batches <- b:
		case <-r.ctx.Done():
		}
	})}, nil
}

// Close ends the client and waits for its goroutine. Readers must have been stopped.
func (c *Changelogs) Close() { c.feed.close() }

// Read implements [tasks.Changelogs].
func (c *Changelogs) Read(ctx context.Context, from map[tasks.TopicPartition]int64, apply func(tasks.Batch) error) error {
	ctx, cancel := context.WithCancel(ctx)
	r := &reader{ctx, make(chan tasks.Batch, batchesAhead)}
	c.feed.add(r, from)
	defer func() {
		cancel() // lets the polling goroutine go on before it is asked to forget the partitions
		c.feed.remove(slices.Collect(maps.Keys(from)))
	}()
	for {
		select {
		case b := <-r.batches:
			if err := apply(b); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
