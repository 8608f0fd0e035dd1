package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/millrace/millrace/tasks"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Reset says where to begin in a partition without a committed offset.
type Reset struct {
	Kind ResetKind
	Ago  time.Duration
}

// ResetKind is how a [Reset] finds its offset.
type ResetKind uint8

// The kinds.
const (
	Earliest ResetKind = iota
	Latest
	None // an error
	Ago  // the first record that is not older than Reset.Ago
)

// ErrNoOffset is a partition without a committed offset where the policy is [None].
var ErrNoOffset = errors.New("no committed offset")

// Log answers questions about topics and the group's offsets. It implements [tasks.Log] and is safe for concurrent use.
type Log struct {
	cfg   Config
	cl    *kgo.Client
	adm   *kadm.Client
	reset func(topic string) Reset
	now   func() time.Time

	mu     sync.Mutex
	topics map[string]tasks.TopicInfo
}

// NewLog makes a Log over the admin client. reset is the policy of each source topic.
func NewLog(cfg Config, admin *kgo.Client, reset func(topic string) Reset, now func() time.Time) *Log {
	return &Log{cfg: cfg, cl: admin, adm: kadm.NewClient(admin), reset: reset, now: now, topics: map[string]tasks.TopicInfo{}}
}

// Known is Topics without asking for what was asked before: enough for a producer, whose topics keep their ids while it runs.
func (l *Log) Known(ctx context.Context, names []string) (map[string]tasks.TopicInfo, error) {
	found := map[string]tasks.TopicInfo{}
	var ask []string
	l.mu.Lock()
	for _, n := range names {
		if info, ok := l.topics[n]; ok {
			found[n] = info
		} else {
			ask = append(ask, n)
		}
	}
	l.mu.Unlock()
	if len(ask) == 0 {
		return found, nil
	}
	fresh, err := l.Topics(ctx, ask)
	if err != nil {
		return nil, err
	}
	for n, info := range fresh {
		found[n] = info
	}
	return found, nil
}

// Topics implements [tasks.Log].
func (l *Log) Topics(ctx context.Context, names []string) (map[string]tasks.TopicInfo, error) {
	found := map[string]tasks.TopicInfo{}
	err := retry(ctx, func() error {
		req := kmsg.NewPtrMetadataRequest()
		req.AllowAutoTopicCreation = false
		for _, n := range names {
			t := kmsg.NewMetadataRequestTopic()
			t.Topic = kmsg.StringPtr(n)
			req.Topics = append(req.Topics, t)
		}
		resp, err := req.RequestWith(ctx, l.cl)
		if err != nil {
			return err
		}
		for _, t := range resp.Topics {
			switch err := kerr.ErrorForCode(t.ErrorCode); {
			case errors.Is(err, kerr.UnknownTopicOrPartition):
			case err != nil:
				return fmt.Errorf("metadata of %s: %w", *t.Topic, err)
			default:
				found[*t.Topic] = tasks.TopicInfo{ID: t.TopicID, Partitions: int32(len(t.Partitions))}
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range names {
		if info, ok := found[n]; ok {
			l.topics[n] = info
		} else {
			delete(l.topics, n)
		}
	}
	return found, nil
}

// Committed implements [tasks.Log]. The member is not named: a task is prepared when the group has just changed, and the answer does not depend on it.
func (l *Log) Committed(ctx context.Context, partitions []tasks.TopicPartition) (map[tasks.TopicPartition]tasks.Committed, error) {
	topics := byTopic(partitions)
	names := make([]string, 0, len(topics))
	for t := range topics {
		names = append(names, t)
	}
	infos, err := l.Known(ctx, names)
	if err != nil {
		return nil, err
	}
	byID := map[[16]byte]string{}
	for n, info := range infos {
		byID[info.ID] = n
	}
	found := map[tasks.TopicPartition]tasks.Committed{}
	err = retry(ctx, func() error {
		req := kmsg.NewPtrOffsetFetchRequest()
		req.RequireStable = l.cfg.ExactlyOnce
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group = l.cfg.Group
		for t, ps := range topics {
			rt := kmsg.NewOffsetFetchRequestGroupTopic()
			rt.Topic, rt.TopicID, rt.Partitions = t, infos[t].ID, ps
			g.Topics = append(g.Topics, rt)
		}
		req.Groups = append(req.Groups, g)
		resp, err := req.RequestWith(ctx, l.cl)
		if err != nil {
			return err
		}
		clear(found)
		for _, g := range resp.Groups {
			if err := kerr.ErrorForCode(g.ErrorCode); err != nil {
				if errors.Is(err, kerr.GroupIDNotFound) { // nothing was ever committed
					continue
				}
				return err
			}
			for _, t := range g.Topics {
				name := t.Topic
				if name == "" {
					name = byID[t.TopicID]
				}
				for _, p := range t.Partitions {
					if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
						return fmt.Errorf("committed offset of %s partition %d: %w", name, p.Partition, err)
					}
					if p.Offset >= 0 {
						c := tasks.Committed{Offset: p.Offset}
						if p.Metadata != nil {
							c.Metadata = *p.Metadata
						}
						found[tasks.TopicPartition{Topic: name, Partition: p.Partition}] = c
					}
				}
			}
		}
		return nil
	})
	return found, err
}

func byTopic(partitions []tasks.TopicPartition) map[string][]int32 {
	topics := map[string][]int32{}
	for _, p := range partitions {
		topics[p.Topic] = append(topics[p.Topic], p.Partition)
	}
	return topics
}

// Start implements [tasks.Log].
func (l *Log) Start(ctx context.Context, partitions []tasks.TopicPartition) (map[tasks.TopicPartition]int64, error) {
	found := map[tasks.TopicPartition]int64{}
	for topic, ps := range byTopic(partitions) {
		policy := l.reset(topic)
		if policy.Kind == None {
			return nil, fmt.Errorf("%w: topic %s partitions %v; streams.ResetTo or Config.Reset says where to begin", ErrNoOffset, topic, ps)
		}
		at := int64(earliestOffset)
		switch policy.Kind {
		case Latest:
			at = latestOffset
		case Ago:
			at = l.now().Add(-policy.Ago).UnixMilli()
		}
		offsets, err := l.list(ctx, topic, ps, at)
		if err != nil {
			return nil, err
		}
		if policy.Kind == Ago { // a partition whose records are all older begins at its end
			ends, err := l.list(ctx, topic, ps, latestOffset)
			if err != nil {
				return nil, err
			}
			for p, o := range offsets {
				if o < 0 {
					offsets[p] = ends[p]
				}
			}
		}
		for p, o := range offsets {
			found[tasks.TopicPartition{Topic: topic, Partition: p}] = o
		}
	}
	return found, nil
}

// Timestamps of a ListOffsets request that mean something else.
const (
	latestOffset   = -1
	earliestOffset = -2
)

// Bounds implements [tasks.Log].
func (l *Log) Bounds(ctx context.Context, partitions []tasks.TopicPartition) (map[tasks.TopicPartition]tasks.Bounds, error) {
	found := map[tasks.TopicPartition]tasks.Bounds{}
	for topic, ps := range byTopic(partitions) {
		starts, err := l.list(ctx, topic, ps, earliestOffset)
		if err != nil {
			return nil, err
		}
		ends, err := l.list(ctx, topic, ps, latestOffset)
		if err != nil {
			return nil, err
		}
		for _, p := range ps {
			found[tasks.TopicPartition{Topic: topic, Partition: p}] = tasks.Bounds{Start: starts[p], End: ends[p]}
		}
	}
	return found, nil
}

// list asks for offsets by time. Under exactly once the end is the stable one.
func (l *Log) list(ctx context.Context, topic string, partitions []int32, at int64) (map[int32]int64, error) {
	found := map[int32]int64{}
	err := retry(ctx, func() error {
		req := kmsg.NewPtrListOffsetsRequest()
		req.ReplicaID = -1
		if l.cfg.ExactlyOnce {
			req.IsolationLevel = 1
		}
		rt := kmsg.NewListOffsetsRequestTopic()
		rt.Topic = topic
		for _, p := range partitions {
			rp := kmsg.NewListOffsetsRequestTopicPartition()
			rp.Partition, rp.Timestamp = p, at
			rt.Partitions = append(rt.Partitions, rp)
		}
		req.Topics = append(req.Topics, rt)
		for _, shard := range l.cl.RequestSharded(ctx, req) {
			if shard.Err != nil {
				return shard.Err
			}
			for _, t := range shard.Resp.(*kmsg.ListOffsetsResponse).Topics {
				for _, p := range t.Partitions {
					if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
						return fmt.Errorf("offsets of %s partition %d: %w", topic, p.Partition, err)
					}
					found[p.Partition] = p.Offset
				}
			}
		}
		return nil
	})
	return found, err
}

// Purge deletes records of a topic before the given offsets (repartition topics, F-225).
func (l *Log) Purge(ctx context.Context, before map[tasks.TopicPartition]int64) error {
	offsets := kadm.Offsets{}
	for p, o := range before {
		offsets.AddOffset(p.Topic, p.Partition, o, -1)
	}
	resp, err := l.adm.DeleteRecords(ctx, offsets)
	if err != nil {
		return err
	}
	return resp.Error()
}
