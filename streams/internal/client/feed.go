package client

import (
	"context"
	"errors"
	"sync"

	"github.com/millrace/millrace/tasks"
	"github.com/twmb/franz-go/pkg/kgo"
)

// feed is a fetching client whose partitions come and go, and the goroutine that polls it. What it fetches of a partition goes to the receiver that the
// partition was added for.
//
// A receiver must never get what was fetched for the one before it. The client forgets the fetches of a removed partition, except those that a poll
// has already returned; so partitions are added by the polling goroutine itself, between two polls, when nothing of the kind is under way.
type feed[R any] struct {
	cfg     Config
	cl      *kgo.Client
	room    func() bool               // whether to poll; asked again after each wake
	deliver func(to R, b tasks.Batch) // on the polling goroutine

	wake chan struct{}
	done chan struct{}
	stop context.CancelFunc

	mu        sync.Mutex
	receivers map[tasks.TopicPartition]R
	pending   map[tasks.TopicPartition]beginning[R]
	interrupt context.CancelFunc // ends the poll under way
}

type beginning[R any] struct {
	to     R
	offset int64
}

func newFeed[R any](cfg Config, cl *kgo.Client, room func() bool, deliver func(R, tasks.Batch)) *feed[R] {
	ctx, stop := context.WithCancel(context.Background())
	f := &feed[R]{
		cfg: cfg, cl: cl, room: room, deliver: deliver, stop: stop,
		wake: make(chan struct{}, 1), done: make(chan struct{}),
		receivers: map[tasks.TopicPartition]R{}, pending: map[tasks.TopicPartition]beginning[R]{},
	}
	go f.loop(ctx)
	return f
}

func (f *feed[R]) close() {
	f.stop()
	<-f.done
	f.cl.Close()
}

// add begins to fetch partitions for a receiver.
func (f *feed[R]) add(to R, from map[tasks.TopicPartition]int64) {
	f.mu.Lock()
	for p, offset := range from {
		f.pending[p] = beginning[R]{to, offset}
	}
	if f.interrupt != nil {
		f.interrupt()
	}
	f.mu.Unlock()
	f.poke()
}

// remove ends that. When it returns, nothing more is delivered for the partitions.
func (f *feed[R]) remove(partitions []tasks.TopicPartition) {
	list := map[string][]int32{}
	f.mu.Lock()
	for _, p := range partitions {
		delete(f.pending, p)
		delete(f.receivers, p)
		list[p.Topic] = append(list[p.Topic], p.Partition)
	}
	f.mu.Unlock()
	f.cl.RemoveConsumePartitions(list)
}

func (f *feed[R]) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.receivers) + len(f.pending)
}

// poke lets the loop look at room again.
func (f *feed[R]) poke() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

func (f *feed[R]) loop(ctx context.Context) {
	defer close(f.done)
	for ctx.Err() == nil {
		if f.room != nil && !f.room() {
			select {
			case <-f.wake:
			case <-ctx.Done():
			}
			continue
		}
		poll, interrupt := context.WithCancel(ctx)
		f.begin(interrupt)
		fetches := f.cl.PollFetches(poll)
		interrupt()
		if fetches.IsClientClosed() {
			return
		}
		fetches.EachTopic(func(t kgo.FetchTopic) {
			for i := range t.Partitions {
				f.hand(t.Topic, &t.Partitions[i])
			}
		})
	}
}

// begin makes the pending partitions those of the client.
func (f *feed[R]) begin(interrupt context.CancelFunc) {
	add := map[string]map[int32]kgo.Offset{}
	f.mu.Lock()
	f.interrupt = interrupt
	for p, b := range f.pending {
		f.receivers[p] = b.to
		if add[p.Topic] == nil {
			add[p.Topic] = map[int32]kgo.Offset{}
		}
		add[p.Topic][p.Partition] = kgo.NewOffset().At(b.offset)
	}
	clear(f.pending)
	f.mu.Unlock()
	f.cl.AddConsumePartitions(add)
}

func (f *feed[R]) hand(topic string, p *kgo.FetchPartition) {
	if errors.Is(p.Err, context.Canceled) && len(p.Records) == 0 {
		return
	}
	f.mu.Lock()
	to, ok := f.receivers[tasks.TopicPartition{Topic: topic, Partition: p.Partition}]
	f.mu.Unlock()
	if ok {
		f.deliver(to, f.cfg.batch(topic, p))
	}
}
