package devbroker

import (
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/integration/devbroker/coordinator"
)

// kfake stores the offsets of a streams group under the group's id, as those of a classic group without members. The functions here decide whether a commit
// is let through, and make it look like one of such a group.

// topicName resolves a topic id, which newer versions send in place of the name; an unknown one gives "".
func (b *Broker) topicName(name string, id [16]byte) string {
	if name != "" || id == [16]byte{} {
		return name
	}
	if info := b.cluster.TopicIDInfo(id); info != nil {
		return info.Topic
	}
	return ""
}

func (b *Broker) offsetCommit(node int32, r kmsg.Request, _ *exchange) (kmsg.Response, error, bool) {
	req := r.(*kmsg.OffsetCommitRequest)
	if b.cluster.CoordinatorFor(req.Group) != node {
		return nil, nil, false // kfake says so
	}
	cm := coordinator.Commit{Group: req.Group, MemberID: req.MemberID, InstanceID: req.InstanceID, MemberEpoch: req.Generation, Version: req.Version}
	for _, t := range req.Topics {
		name := b.topicName(t.Topic, t.TopicID)
		for _, p := range t.Partitions {
			cm.Partitions = append(cm.Partitions, coordinator.TopicPartition{Topic: name, Partition: p.Partition})
		}
	}
	var code int16
	b.mu.Lock()
	b.mu.coord.Expire(time.Now())
	ours := b.mu.coord.Has(req.Group)
	if ours {
		code = b.mu.coord.ValidateCommit(cm)
	}
	b.mu.Unlock()
	if !ours {
		if req.Generation < 0 || req.Version < 9 || b.cluster.GroupInfo(req.Group) != nil {
			return nil, nil, false
		}
		code = kerr.GroupIDNotFound.Code // kfake says ILLEGAL_GENERATION in all versions
	}
	if code == 0 {
		req.Generation, req.MemberID, req.InstanceID = -1, "", nil
		return nil, nil, false
	}
	resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
	for _, t := range req.Topics {
		st := kmsg.NewOffsetCommitResponseTopic()
		st.Topic, st.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			sp := kmsg.NewOffsetCommitResponseTopicPartition()
			sp.Partition, sp.ErrorCode = p.Partition, code
			st.Partitions = append(st.Partitions, sp)
		}
		resp.Topics = append(resp.Topics, st)
	}
	return resp, nil, true
}

func (b *Broker) txnOffsetCommit(node int32, r kmsg.Request, _ *exchange) (kmsg.Response, error, bool) {
	req := r.(*kmsg.TxnOffsetCommitRequest)
	if b.cluster.CoordinatorFor(req.Group) != node {
		return nil, nil, false
	}
	cm := coordinator.Commit{Group: req.Group, MemberID: req.MemberID, InstanceID: req.InstanceID, MemberEpoch: req.Generation, Version: req.Version}
	for _, t := range req.Topics {
		name := b.topicName(t.Topic, t.TopicID)
		for _, p := range t.Partitions {
			cm.Partitions = append(cm.Partitions, coordinator.TopicPartition{Topic: name, Partition: p.Partition})
		}
	}
	b.mu.Lock()
	b.mu.coord.Expire(time.Now())
	ours := b.mu.coord.Has(req.Group)
	var code int16
	if ours {
		code = b.mu.coord.ValidateTxnCommit(cm)
	}
	b.mu.Unlock()
	if !ours {
		return nil, nil, false
	}
	if code == 0 {
		req.Generation, req.MemberID, req.InstanceID = -1, "", nil
		return nil, nil, false
	}
	resp := req.ResponseKind().(*kmsg.TxnOffsetCommitResponse)
	for _, t := range req.Topics {
		st := kmsg.NewTxnOffsetCommitResponseTopic()
		st.Topic, st.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			sp := kmsg.NewTxnOffsetCommitResponseTopicPartition()
			sp.Partition, sp.ErrorCode = p.Partition, code
			st.Partitions = append(st.Partitions, sp)
		}
		resp.Topics = append(resp.Topics, st)
	}
	return resp, nil, true
}

// offsetFetch refuses members that are not what they say (§19.3), and answers for groups kfake does not know with "no offset", as brokers do where kfake
// says GROUP_ID_NOT_FOUND.
func (b *Broker) offsetFetch(node int32, r kmsg.Request, x *exchange) (kmsg.Response, error, bool) {
	req := r.(*kmsg.OffsetFetchRequest)
	if req.Version < 8 {
		if b.cluster.CoordinatorFor(req.Group) != node || b.cluster.GroupInfo(req.Group) != nil {
			return nil, nil, false
		}
		resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
		for _, t := range req.Topics {
			st := kmsg.NewOffsetFetchResponseTopic()
			st.Topic = t.Topic
			for _, p := range t.Partitions {
				sp := kmsg.NewOffsetFetchResponseTopicPartition()
				sp.Partition, sp.Offset, sp.LeaderEpoch = p, -1, -1
				st.Partitions = append(st.Partitions, sp)
			}
			resp.Topics = append(resp.Topics, st)
		}
		return resp, nil, true
	}

	var answered []kmsg.OffsetFetchResponseGroup
	var rest []kmsg.OffsetFetchRequestGroup
	for _, rg := range req.Groups {
		if b.cluster.CoordinatorFor(rg.Group) != node {
			rest = append(rest, rg)
			continue
		}
		known := b.cluster.GroupInfo(rg.Group) != nil
		b.mu.Lock()
		b.mu.coord.Expire(time.Now())
		var code int16
		if b.mu.coord.Has(rg.Group) || !known {
			code = b.mu.coord.ValidateFetch(rg.Group, rg.MemberID, rg.MemberEpoch)
		}
		b.mu.Unlock()
		if code == 0 && known {
			rest = append(rest, rg)
			continue
		}
		sg := kmsg.NewOffsetFetchResponseGroup()
		sg.Group, sg.ErrorCode = rg.Group, code
		if code == 0 {
			sg.Topics = noOffsets(rg.Topics)
		}
		answered = append(answered, sg)
	}
	switch {
	case len(answered) == 0:
		return nil, nil, false
	case len(rest) == 0:
		resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
		resp.Groups = answered
		return resp, nil, true
	}
	req.Groups = rest
	if x != nil {
		x.amend = func(r kmsg.Response) {
			resp := r.(*kmsg.OffsetFetchResponse)
			resp.Groups = append(resp.Groups, answered...)
		}
	}
	return nil, nil, false
}

func noOffsets(topics []kmsg.OffsetFetchRequestGroupTopic) []kmsg.OffsetFetchResponseGroupTopic {
	var out []kmsg.OffsetFetchResponseGroupTopic
	for _, t := range topics {
		st := kmsg.NewOffsetFetchResponseGroupTopic()
		st.Topic, st.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			sp := kmsg.NewOffsetFetchResponseGroupTopicPartition()
			sp.Partition, sp.Offset, sp.LeaderEpoch = p, -1, -1
			st.Partitions = append(st.Partitions, sp)
		}
		out = append(out, st)
	}
	return out
}

// offsetDelete keeps the offsets of topics that a streams group with members reads (§19.4).
func (b *Broker) offsetDelete(node int32, r kmsg.Request, x *exchange) (kmsg.Response, error, bool) {
	req := r.(*kmsg.OffsetDeleteRequest)
	if b.cluster.CoordinatorFor(req.Group) != node || !b.hasGroup(req.Group) {
		return nil, nil, false
	}
	var kept []kmsg.OffsetDeleteResponseTopic
	var rest []kmsg.OffsetDeleteRequestTopic
	b.mu.Lock()
	for _, t := range req.Topics {
		if !b.mu.coord.Subscribed(req.Group, t.Topic) {
			rest = append(rest, t)
			continue
		}
		st := kmsg.NewOffsetDeleteResponseTopic()
		st.Topic = t.Topic
		for _, p := range t.Partitions {
			sp := kmsg.NewOffsetDeleteResponseTopicPartition()
			sp.Partition, sp.ErrorCode = p.Partition, kerr.GroupSubscribedToTopic.Code
			st.Partitions = append(st.Partitions, sp)
		}
		kept = append(kept, st)
	}
	b.mu.Unlock()
	if len(rest) == 0 || b.cluster.GroupInfo(req.Group) == nil {
		resp := req.ResponseKind().(*kmsg.OffsetDeleteResponse)
		resp.Topics = kept
		for _, t := range rest { // nothing was ever committed, so there is nothing to delete
			st := kmsg.NewOffsetDeleteResponseTopic()
			st.Topic = t.Topic
			for _, p := range t.Partitions {
				sp := kmsg.NewOffsetDeleteResponseTopicPartition()
				sp.Partition = p.Partition
				st.Partitions = append(st.Partitions, sp)
			}
			resp.Topics = append(resp.Topics, st)
		}
		return resp, nil, true
	}
	req.Topics = rest
	if x != nil && len(kept) > 0 {
		x.amend = func(r kmsg.Response) {
			resp := r.(*kmsg.OffsetDeleteResponse)
			resp.Topics = append(resp.Topics, kept...)
		}
	}
	return nil, nil, false
}
