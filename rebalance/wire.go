package rebalance

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/rebalance/member"
	"github.com/millrace/millrace/topology"
)

// Translation between the core's plain structs and kmsg. On the wire a nil slice is a null, which mostly means "unchanged", and an empty slice an empty
// array, which means "nothing": nothing here may turn one into the other.

// heartbeatRequest is the wire form of a heartbeat.
func heartbeatRequest(group string, h member.Heartbeat, topo *kmsg.StreamsGroupHeartbeatRequestTopology) *kmsg.StreamsGroupHeartbeatRequest {
	req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	req.Group = group
	req.MemberID = h.MemberID
	req.MemberEpoch = h.Epoch
	req.EndpointInformationEpoch = h.EndpointEpoch
	req.InstanceID = h.InstanceID
	req.RackID = h.RackID
	if h.RebalanceTimeout >= 0 {
		req.RebalanceTimeoutMillis = int32(h.RebalanceTimeout.Milliseconds())
	}
	if h.Topology {
		req.Topology = topo
	}
	if h.Tasks != nil {
		req.ActiveTasks = taskIDs(h.Tasks.Active)
		req.StandbyTasks = taskIDs(h.Tasks.Standby)
		req.WarmupTasks = taskIDs(h.Tasks.Warmup)
	}
	req.ProcessID = h.ProcessID
	if h.Endpoint != nil {
		e := kmsg.NewStreamsGroupHeartbeatRequestUserEndpoint()
		e.Host, e.Port = h.Endpoint.Host, h.Endpoint.Port
		req.UserEndpoint = &e
	}
	if h.Tags != nil {
		req.ClientTags = []kmsg.StreamsGroupHeartbeatRequestClientTag{}
	}
	for _, t := range h.Tags {
		tag := kmsg.NewStreamsGroupHeartbeatRequestClientTag()
		tag.Key, tag.Value = t.Key, t.Value
		req.ClientTags = append(req.ClientTags, tag)
	}
	req.TaskOffsets = taskOffsets(h.Offsets)
	req.TaskEndOffsets = taskOffsets(h.EndOffsets)
	req.ShutdownApplication = h.Shutdown
	return req
}

// taskIDs groups sorted tasks by sub-topology. Never nil.
func taskIDs(tasks []topology.TaskID) []kmsg.TaskIDs {
	out := []kmsg.TaskIDs{}
	for _, t := range tasks {
		id := strconv.Itoa(t.Subtopology)
		if len(out) == 0 || out[len(out)-1].SubtopologyID != id {
			ids := kmsg.NewTaskIDs()
			ids.SubtopologyID = id
			out = append(out, ids)
		}
		last := &out[len(out)-1]
		last.Partitions = append(last.Partitions, t.Partition)
	}
	return out
}

// taskOffsets keeps nil nil.
func taskOffsets(offsets []member.TaskOffset) []kmsg.TaskOffset {
	if offsets == nil {
		return nil
	}
	out := make([]kmsg.TaskOffset, 0, len(offsets))
	for _, o := range offsets {
		w := kmsg.NewTaskOffset()
		w.SubtopologyID, w.Partition, w.Offset = strconv.Itoa(o.Task.Subtopology), o.Task.Partition, o.Offset
		out = append(out, w)
	}
	return out
}

// heartbeatResponse is the core's form of a response without an error.
func heartbeatResponse(resp *kmsg.StreamsGroupHeartbeatResponse) member.Response {
	r := member.Response{
		Epoch:          resp.MemberEpoch,
		Interval:       time.Duration(resp.HeartbeatIntervalMillis) * time.Millisecond,
		OffsetInterval: time.Duration(resp.TaskOffsetIntervalMillis) * time.Millisecond,
		RecoveryLag:    -1, // version 0 has a field of another meaning, which no broker sets
		EndpointEpoch:  resp.EndpointInformationEpoch,
	}
	if resp.Version >= 1 {
		r.RecoveryLag = resp.AcceptableRecoveryLag
	}
	if resp.Status != nil {
		r.Statuses = make([]member.Status, 0, len(resp.Status))
	}
	for _, s := range resp.Status {
		r.Statuses = append(r.Statuses, member.Status{Code: member.StatusCode(s.StatusCode), Detail: s.StatusDetail})
	}
	r.Active = taskList(resp.ActiveTasks, &r.Foreign)
	r.Standby = taskList(resp.StandbyTasks, &r.Foreign)
	r.Warmup = taskList(resp.WarmupTasks, &r.Foreign)
	if resp.PartitionsByUserEndpoint != nil {
		r.Endpoints = make([]member.HostPartitions, 0, len(resp.PartitionsByUserEndpoint))
	}
	for _, e := range resp.PartitionsByUserEndpoint {
		h := member.HostPartitions{Endpoint: member.Endpoint{Host: e.UserEndpoint.Host, Port: e.UserEndpoint.Port}}
		for _, p := range e.ActivePartitions {
			h.Active = append(h.Active, member.TopicPartitions{Topic: p.Topic, Partitions: p.Partitions})
		}
		for _, p := range e.StandbyPartitions {
			h.Standby = append(h.Standby, member.TopicPartitions{Topic: p.Topic, Partitions: p.Partitions})
		}
		r.Endpoints = append(r.Endpoints, h)
	}
	return r
}

// taskList keeps nil nil, and collects sub-topologies whose ids are none of ours in form.
func taskList(ids []kmsg.TaskIDs, foreign *[]string) []topology.TaskID {
	if ids == nil {
		return nil
	}
	tasks := []topology.TaskID{}
	for _, s := range ids {
		n, err := strconv.Atoi(s.SubtopologyID)
		if err != nil || strconv.Itoa(n) != s.SubtopologyID {
			*foreign = append(*foreign, s.SubtopologyID)
			continue
		}
		for _, p := range s.Partitions {
			tasks = append(tasks, topology.TaskID{Subtopology: n, Partition: p})
		}
	}
	return tasks
}

// assignment is the core's form of what describe tells of a member.
func assignment(a kmsg.StreamsAssignment) (tasks member.Assignment, foreign []string) {
	tasks.Active = taskList(a.ActiveTasks, &foreign)
	tasks.Standby = taskList(a.StandbyTasks, &foreign)
	tasks.Warmup = taskList(a.WarmupTasks, &foreign)
	return tasks, foreign
}

// topologyRequest is the wire form of the topology. Brokers compare it list by list, so all order is kept as it is (§7.6).
func topologyRequest(t topology.Metadata, epoch int32) *kmsg.StreamsGroupHeartbeatRequestTopology {
	out := kmsg.NewStreamsGroupHeartbeatRequestTopology()
	out.Epoch = epoch
	for _, s := range t.Subtopologies {
		w := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology()
		w.SubtopologyID = strconv.Itoa(s.ID)
		w.SourceTopics = slices.Clone(s.SourceTopics)
		w.SourceTopicRegex = []string{}
		w.RepartitionSinkTopics = slices.Clone(s.RepartitionSinkTopics)
		w.RepartitionSourceTopics = topicInfos(s.RepartitionSourceTopics)
		w.StateChangelogTopics = topicInfos(s.ChangelogTopics)
		for _, g := range s.CopartitionGroups {
			wg := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopologyCopartitionGroup()
			wg.SourceTopics = slices.Clone(g.SourceTopics)
			wg.RepartitionSourceTopics = slices.Clone(g.RepartitionSourceTopics)
			w.CopartitionGroups = append(w.CopartitionGroups, wg)
		}
		out.Subtopologies = append(out.Subtopologies, w)
	}
	return &out
}

func topicInfos(topics []topology.InternalTopic) []kmsg.TopicInfo {
	var out []kmsg.TopicInfo
	for _, t := range topics {
		w := kmsg.NewTopicInfo()
		w.Topic, w.NumPartitions, w.ReplicationFactor = t.Name, t.Partitions, t.ReplicationFactor
		for _, c := range t.Configs {
			wc := kmsg.NewTopicInfoConfig()
			wc.Key, wc.Value = c.Key, c.Value
			w.Configs = append(w.Configs, wc)
		}
		out = append(out, w)
	}
	return out
}

// TopologyHash names an encoded topology, so that logs show whether two members bring the same: 16 hexadecimal digits.
func TopologyHash(t topology.Metadata, epoch int32) string {
	req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	req.Topology = topologyRequest(t, epoch)
	sum := sha256.Sum256(req.AppendTo(nil))
	return hex.EncodeToString(sum[:8])
}
