package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/millrace/millrace/tasks"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// topicOffsets is a commit by topic, in a fixed order.
type topicOffsets struct {
	topic string
	id    [16]byte
	parts []partitionOffset
}

type partitionOffset struct {
	partition int32
	tasks.Committed
}

// byTopic sorts a commit and adds the topic ids, which newer versions of the requests go by.
func (p *Producer) byTopic(ctx context.Context, offsets map[tasks.TopicPartition]tasks.Committed) ([]topicOffsets, error) {
	var names []string
	index := map[string]int{}
	var list []topicOffsets
	for tp, c := range offsets {
		i, ok := index[tp.Topic]
		if !ok {
			i = len(list)
			index[tp.Topic] = i
			names = append(names, tp.Topic)
			list = append(list, topicOffsets{topic: tp.Topic})
		}
		list[i].parts = append(list[i].parts, partitionOffset{tp.Partition, c})
	}
	infos, err := p.log.Known(ctx, names)
	if err != nil {
		return nil, err
	}
	for i := range list {
		list[i].id = infos[list[i].topic].ID
		slices.SortFunc(list[i].parts, func(a, b partitionOffset) int { return cmp.Compare(a.partition, b.partition) })
	}
	slices.SortFunc(list, func(a, b topicOffsets) int { return cmp.Compare(a.topic, b.topic) })
	return list, nil
}

// identity reads the member id and epoch at the moment of sending (M-51).
func (p *Producer) identity() (string, int32, error) {
	id, epoch := p.own.Identity()
	if epoch <= 0 {
		return "", 0, fmt.Errorf("%w: not a member at this moment", tasks.ErrMigrated)
	}
	return id, epoch, nil
}

func (p *Producer) instance() *string {
	if p.own.InstanceID == "" {
		return nil
	}
	return &p.own.InstanceID
}

// commitOffsets commits without a transaction. A stale epoch is tried once more if the member has a newer one by now: its heartbeat was faster (member
// spec §11.3).
func (p *Producer) commitOffsets(ctx context.Context, offsets map[tasks.TopicPartition]tasks.Committed) error {
	topics, err := p.byTopic(ctx, offsets)
	if err != nil {
		return err
	}
	used := int32(-1)
	return retry(ctx, func() error {
		for {
			id, epoch, err := p.identity()
			if err != nil {
				return err
			}
			req := kmsg.NewPtrOffsetCommitRequest()
			req.Group, req.MemberID, req.Generation, req.InstanceID = p.cfg.Group, id, epoch, p.instance()
			for _, t := range topics {
				rt := kmsg.NewOffsetCommitRequestTopic()
				rt.Topic, rt.TopicID = t.topic, t.id
				for _, o := range t.parts {
					rp := kmsg.NewOffsetCommitRequestTopicPartition()
					rp.Partition, rp.Offset, rp.Metadata = o.partition, o.Offset, &o.Metadata
					rt.Partitions = append(rt.Partitions, rp)
				}
				req.Topics = append(req.Topics, rt)
			}
			resp, err := req.RequestWith(ctx, p.cl)
			if err != nil {
				return commitError(err)
			}
			for _, t := range resp.Topics {
				for _, o := range t.Partitions {
					if err = kerr.ErrorForCode(o.ErrorCode); err != nil {
						break
					}
				}
			}
			if errors.Is(err, kerr.StaleMemberEpoch) && used != epoch {
				used = epoch
				if _, now, e := p.identity(); e == nil && now != epoch {
					continue
				}
			}
			return commitError(err)
		}
	})
}

// commitInTransaction puts offsets into the open transaction. CONCURRENT_TRANSACTIONS means that the broker still finishes the one before (M-65).
func (p *Producer) commitInTransaction(ctx context.Context, offsets map[tasks.TopicPartition]tasks.Committed) error {
	topics, err := p.byTopic(ctx, offsets)
	if err != nil {
		return err
	}
	pid, pepoch, err := p.cl.ProducerID(ctx)
	if err != nil {
		return commitError(err)
	}
	err = retry(ctx, func() error {
		add := kmsg.NewPtrAddOffsetsToTxnRequest()
		add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = p.own.TransactionalID, pid, pepoch, p.cfg.Group
		resp, err := add.RequestWith(ctx, p.cl)
		if err != nil {
			return err
		}
		return kerr.ErrorForCode(resp.ErrorCode)
	})
	if err != nil {
		return commitError(err)
	}
	return retry(ctx, func() error {
		id, epoch, err := p.identity()
		if err != nil {
			return err
		}
		req := kmsg.NewPtrTxnOffsetCommitRequest()
		req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch = p.own.TransactionalID, p.cfg.Group, pid, pepoch
		req.MemberID, req.Generation, req.InstanceID = id, epoch, p.instance()
		for _, t := range topics {
			rt := kmsg.NewTxnOffsetCommitRequestTopic()
			rt.Topic, rt.TopicID = t.topic, t.id
			for _, o := range t.parts {
				rp := kmsg.NewTxnOffsetCommitRequestTopicPartition()
				rp.Partition, rp.Offset, rp.Metadata = o.partition, o.Offset, &o.Metadata
				rt.Partitions = append(rt.Partitions, rp)
			}
			req.Topics = append(req.Topics, rt)
		}
		resp, err := req.RequestWith(ctx, p.cl)
		if err != nil {
			return commitError(err)
		}
		for _, t := range resp.Topics {
			for _, o := range t.Partitions {
				if err := kerr.ErrorForCode(o.ErrorCode); err != nil {
					return commitError(err)
				}
			}
		}
		return nil
	})
}

// commitError says what the refusal of a commit means for the worker (member spec §11.3).
func commitError(err error) error {
	switch {
	case err == nil:
		return nil
	case fenced(err):
		return fmt.Errorf("%w: %w", tasks.ErrMigrated, err)
	}
	for _, k := range []*kerr.Error{
		kerr.UnknownMemberID,     // the group has removed the member
		kerr.IllegalGeneration,   // what older versions of the transactional commit say for the next two
		kerr.StaleMemberEpoch,    // the member has moved on, and no longer has the task
		kerr.GroupIDNotFound,     // the group was deleted
		kerr.FencedInstanceID,    // another process uses the instance id
		kerr.RebalanceInProgress, // of the classic protocol
	} {
		if errors.Is(err, k) {
			return fmt.Errorf("%w: %w", tasks.ErrMigrated, err)
		}
	}
	if errors.Is(err, kerr.TransactionAbortable) || errors.Is(err, kerr.InvalidTxnState) {
		return fmt.Errorf("%w: %w", tasks.ErrAborted, err)
	}
	return err
}
