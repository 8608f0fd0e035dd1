package client

import (
	"slices"
	"sync"

	"github.com/millrace/millrace/tasks"
)

// Consumer is the one consumer of a process. Partitions are assigned to it directly; what it fetches goes to the [Share] of the worker that asked for
// the partition.
//
// It stops asking for more while enough waits, which costs nothing. Only if a task starves for one partition while others are full does it pause the
// full ones: franz-go throws away what it has fetched of a paused partition.
type Consumer struct {
	feed  *feed[*Share]
	limit int // records per partition

	mu       sync.Mutex
	full     map[tasks.TopicPartition]bool
	starving map[tasks.TopicPartition]bool
	paused   map[tasks.TopicPartition]bool
	waiting  int // records that were handed out and are not processed yet
}

// NewConsumer opens the consumer. limit is the number of records per partition that may wait.
func NewConsumer(cfg Config, limit int) (*Consumer, error) {
	cl, err := cfg.open("consumer", cfg.reading()...)
	if err != nil {
		return nil, err
	}
	c := &Consumer{
		limit: limit, full: map[tasks.TopicPartition]bool{}, starving: map[tasks.TopicPartition]bool{}, paused: map[tasks.TopicPartition]bool{},
	}
	started := make(chan struct{})
	c.feed = newFeed(cfg, cl, func() bool { <-started; return c.room() }, c.deliver)
	close(started)
	return c, nil
}

// Close ends the consumer and waits for its goroutine.
func (c *Consumer) Close() { c.feed.close() }

// room reports whether more may be fetched, and pauses what is full if something starves.
func (c *Consumer) room() bool {
	limit := c.limit * max(1, c.feed.count())
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.waiting <= limit {
		return true
	}
	if len(c.starving) == 0 {
		return false
	}
	for p := range c.full {
		if !c.paused[p] {
			c.paused[p] = true
			c.feed.cl.PauseFetchPartitions(map[string][]int32{p.Topic: {p.Partition}})
		}
	}
	return true
}

func (c *Consumer) deliver(s *Share, b tasks.Batch) {
	c.mu.Lock()
	c.waiting += len(b.Records)
	delete(c.starving, b.TopicPartition)
	c.mu.Unlock()
	s.mu.Lock()
	s.inbox = append(s.inbox, b)
	s.mu.Unlock()
	select {
	case s.arrived <- struct{}{}:
	default:
	}
}

func (c *Consumer) resumeLocked(p tasks.TopicPartition) {
	if c.paused[p] {
		delete(c.paused, p)
		c.feed.cl.ResumeFetchPartitions(map[string][]int32{p.Topic: {p.Partition}})
	}
}

// Share is a worker's part of the consumer. It implements [tasks.Consumer].
type Share struct {
	c       *Consumer
	arrived chan struct{}

	mu    sync.Mutex
	inbox []tasks.Batch
}

// Share makes a worker's part.
func (c *Consumer) Share() *Share { return &Share{c: c, arrived: make(chan struct{}, 1)} }

// Start implements [tasks.Consumer].
func (s *Share) Start(from map[tasks.TopicPartition]int64) { s.c.feed.add(s, from) }

// Stop implements [tasks.Consumer].
func (s *Share) Stop(partitions ...tasks.TopicPartition) {
	s.c.feed.remove(partitions)
	s.c.mu.Lock()
	for _, p := range partitions {
		delete(s.c.full, p)
		delete(s.c.starving, p)
		s.c.resumeLocked(p)
	}
	s.c.mu.Unlock()
	dropped := 0
	s.mu.Lock()
	s.inbox = slices.DeleteFunc(s.inbox, func(b tasks.Batch) bool {
		gone := slices.Contains(partitions, b.TopicPartition)
		if gone {
			dropped += len(b.Records)
		}
		return gone
	})
	s.mu.Unlock()
	s.Processed(dropped)
}

// Take implements [tasks.Consumer].
func (s *Share) Take() []tasks.Batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.inbox
	s.inbox = nil
	return taken
}

// Arrived implements [tasks.Consumer].
func (s *Share) Arrived() <-chan struct{} { return s.arrived }

// Processed implements [tasks.Consumer].
func (s *Share) Processed(n int) {
	if n == 0 {
		return
	}
	s.c.mu.Lock()
	s.c.waiting -= n
	s.c.mu.Unlock()
	s.c.feed.poke()
}

// Full implements [tasks.Consumer].
func (s *Share) Full(p tasks.TopicPartition) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	s.c.full[p] = true
}

// Room implements [tasks.Consumer].
func (s *Share) Room(p tasks.TopicPartition) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	delete(s.c.full, p)
	s.c.resumeLocked(p)
}

// Hungry implements [tasks.Consumer].
func (s *Share) Hungry(p tasks.TopicPartition) {
	s.c.mu.Lock()
	s.c.starving[p] = true
	s.c.mu.Unlock()
	s.c.feed.poke()
}
