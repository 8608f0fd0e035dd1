package coordinator

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// failure is an error answer. The message is nil where brokers send none.
type failure struct {
	code    int16
	message *string
}

func fail(e *kerr.Error, format string, args ...any) *failure {
	s := fmt.Sprintf(format, args...)
	return &failure{code: e.Code, message: &s}
}

func failSilently(e *kerr.Error) *failure { return &failure{code: e.Code} }

var internalTopics = []string{"__consumer_offsets", "__transaction_state", "__share_group_state"}

// checkTopicNames is the part of a broker's request layer that needs no ACLs (§3).
func checkTopicNames(t *kmsg.StreamsGroupHeartbeatRequestTopology) *failure {
	if t == nil {
		return nil
	}
	var internal, invalid []string
	for _, name := range topicNames(t) {
		switch {
		case slices.Contains(internalTopics, name):
			internal = append(internal, name)
		case !validTopicName(name):
			invalid = append(invalid, name)
		}
	}
	if len(internal) > 0 {
		return fail(kerr.StreamsInvalidTopology, "Use of Kafka internal topics %s in a Kafka Streams topology is prohibited.", strings.Join(internal, ","))
	}
	if len(invalid) > 0 {
		return fail(kerr.StreamsInvalidTopology, "Topic names %s are not valid topic names.", strings.Join(invalid, ","))
	}
	return nil
}

// topicNames lists the distinct topics a topology names, ascending.
func topicNames(t *kmsg.StreamsGroupHeartbeatRequestTopology) []string {
	var names []string
	for i := range t.Subtopologies {
		s := &t.Subtopologies[i]
		names = append(names, s.SourceTopics...)
		names = append(names, s.RepartitionSinkTopics...)
		for _, ti := range s.RepartitionSourceTopics {
			names = append(names, ti.Topic)
		}
		for _, ti := range s.StateChangelogTopics {
			names = append(names, ti.Topic)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func validTopicName(s string) bool {
	if s == "" || s == "." || s == ".." || len(s) > 249 {
		return false
	}
	for _, c := range s {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

// validate does the checks of §4.1 and §4.2, which come before any look at the group and are made by every node.
func validate(release Release, req *kmsg.StreamsGroupHeartbeatRequest) *failure {
	invalid := func(format string, args ...any) *failure { return fail(kerr.InvalidRequest, format, args...) }

	if release < Kafka44 {
		switch {
		case req.InstanceID != nil:
			return invalid("Static membership is not yet supported.")
		case req.TaskOffsets != nil:
			return invalid("TaskOffsets are not supported yet.")
		case req.TaskEndOffsets != nil:
			return invalid("TaskEndOffsets are not supported yet.")
		case len(req.WarmupTasks) > 0:
			return invalid("WarmupTasks are not supported yet.")
		}
	}
	if req.Topology != nil {
		for i := range req.Topology.Subtopologies {
			// The list is not nullable on the wire, so an absent one is an empty one here.
			if len(req.Topology.Subtopologies[i].SourceTopicRegex) > 0 {
				return invalid("Regular expressions for source topics are not supported yet.")
			}
		}
	}

	for _, f := range []struct {
		name  string
		value *string
	}{{"MemberId", &req.MemberID}, {"GroupId", &req.Group}, {"InstanceId", req.InstanceID}, {"RackId", req.RackID}} {
		if f.value != nil && strings.TrimSpace(*f.value) == "" {
			return invalid("%s can't be empty.", f.name)
		}
	}

	lists := []struct {
		name string
		list []kmsg.TaskIDs
	}{{"ActiveTasks", req.ActiveTasks}, {"StandbyTasks", req.StandbyTasks}, {"WarmupTasks", req.WarmupTasks}}

	switch {
	case req.MemberEpoch == 0:
		if req.RebalanceTimeoutMillis == -1 {
			return invalid("RebalanceTimeoutMs must be provided in first request.")
		}
		for _, l := range lists {
			if l.list == nil || len(l.list) > 0 {
				return invalid("%s must be empty when (re-)joining.", l.name)
			}
		}
		if req.Topology == nil {
			return invalid("Topology must be non-null when (re-)joining.")
		}
		for i := range req.Topology.Subtopologies {
			for _, ti := range req.Topology.Subtopologies[i].StateChangelogTopics {
				if ti.NumPartitions != 0 {
					return fail(kerr.StreamsInvalidTopology,
						"Changelog topic %s must have an undefined partition count, but it is set to %d.", ti.Topic, ti.NumPartitions)
				}
			}
		}
	case req.MemberEpoch == -2:
		if req.InstanceID == nil {
			return invalid("InstanceId can't be null.")
		}
	case req.MemberEpoch < -2:
		return invalid("MemberEpoch is %d, but must be greater than or equal to -2.", req.MemberEpoch)
	}

	nils := 0
	for _, l := range lists {
		if l.list == nil {
			nils++
		}
	}
	if nils != 0 && nils != len(lists) {
		return invalid("If one task-type is non-null, all must be non-null.")
	}
	if req.MemberEpoch != 0 && req.Topology != nil {
		return invalid("Topology can only be provided when (re-)joining.")
	}
	return nil
}

// mistakes finds what real brokers trip over and answer with UNKNOWN_SERVER_ERROR (§4.4).
func mistakes(req *kmsg.StreamsGroupHeartbeatRequest) *failure {
	seen := map[string]bool{}
	for _, t := range req.ClientTags {
		if seen[t.Key] {
			return failSilently(kerr.UnknownServerError)
		}
		seen[t.Key] = true
	}
	t := req.Topology
	if t == nil {
		return nil
	}
	if t.Epoch < 0 {
		return failSilently(kerr.UnknownServerError)
	}
	ids := map[string]bool{}
	for i := range t.Subtopologies {
		s := &t.Subtopologies[i]
		if ids[s.SubtopologyID] || repeatsTopic(s.StateChangelogTopics) || repeatsTopic(s.RepartitionSourceTopics) {
			return failSilently(kerr.UnknownServerError)
		}
		ids[s.SubtopologyID] = true
		for _, cg := range s.CopartitionGroups {
			if outside(cg.SourceTopics, len(s.SourceTopics)) || outside(cg.RepartitionSourceTopics, len(s.RepartitionSourceTopics)) {
				return failSilently(kerr.UnknownServerError)
			}
		}
	}
	return nil
}

func repeatsTopic(infos []kmsg.TopicInfo) bool {
	seen := map[string]bool{}
	for _, ti := range infos {
		if seen[ti.Topic] {
			return true
		}
		seen[ti.Topic] = true
	}
	return false
}

func outside(indexes []int16, n int) bool {
	return slices.ContainsFunc(indexes, func(i int16) bool { return i < 0 || int(i) >= min(n, math.MaxInt16+1) })
}

// checkOwnedTasks refuses tasks the ready topology does not have (§4.3).
func checkOwnedTasks(req *kmsg.StreamsGroupHeartbeatRequest, cfg *configured) *failure {
	for _, list := range [][]kmsg.TaskIDs{req.ActiveTasks, req.StandbyTasks, req.WarmupTasks} {
		for _, id := range list {
			s := cfg.subtopologies[id.SubtopologyID]
			if s == nil {
				return fail(kerr.InvalidRequest, "Subtopology %s does not exist in the topology.", id.SubtopologyID)
			}
			for _, p := range id.Partitions {
				if p < 0 || p >= s.tasks {
					return fail(kerr.InvalidRequest, "Task %d for subtopology %s is invalid. Number of tasks for this subtopology: %d",
						p, id.SubtopologyID, s.tasks)
				}
			}
		}
	}
	return nil
}

// checkTaskOffsets refuses a task that is reported twice in one list (§4.3).
func checkTaskOffsets(req *kmsg.StreamsGroupHeartbeatRequest) *failure {
	for _, list := range [][]kmsg.TaskOffset{req.TaskOffsets, req.TaskEndOffsets} {
		seen := map[task]bool{}
		for _, o := range list {
			t := task{o.SubtopologyID, o.Partition}
			if seen[t] {
				return fail(kerr.InvalidRequest, "Task offsets contain a duplicate entry for subtopology %s and partition %d.", t.subtopology, t.partition)
			}
			seen[t] = true
		}
	}
	return nil
}
