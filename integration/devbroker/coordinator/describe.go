package coordinator

import (
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Describe answers a StreamsGroupDescribe (key 89) that arrived at node. Groups are answered one by one; a node that does not coordinate a group says
// so for that group (§21).
func (c *Coordinator) Describe(node int32, req *kmsg.StreamsGroupDescribeRequest) *kmsg.StreamsGroupDescribeResponse {
	resp := req.ResponseKind().(*kmsg.StreamsGroupDescribeResponse)
	for _, id := range req.Groups {
		dg := kmsg.NewStreamsGroupDescribeResponseGroup()
		dg.Group = id
		refuse := func(e *kerr.Error, message string) {
			dg.ErrorCode = e.Code
			if message != "" {
				dg.ErrorMessage = &message
			}
		}
		switch {
		case c.cfg.Disabled:
			refuse(kerr.UnsupportedVersion, "")
		case id == "":
			refuse(kerr.InvalidGroupID, "")
		case c.cluster.Coordinator(id) != node:
			refuse(kerr.NotCoordinator, "")
		case c.groups[id] == nil && c.cluster.Occupied(id):
			refuse(kerr.GroupIDNotFound, "Group "+id+" is not a streams group.")
		case c.groups[id] == nil:
			refuse(kerr.GroupIDNotFound, "Group "+id+" not found.")
		default:
			dg = c.describe(c.groups[id])
			if req.IncludeTopologyDescription {
				dg.TopologyDescriptionStatus = 1 // not stored: there is no plugin to store it (§24)
			}
		}
		resp.Groups = append(resp.Groups, dg)
	}
	return resp
}

// DescribeGroup describes a group as its coordinator does; false if there is none.
func (c *Coordinator) DescribeGroup(group string) (kmsg.StreamsGroupDescribeResponseGroup, bool) {
	g := c.groups[group]
	if g == nil {
		return kmsg.NewStreamsGroupDescribeResponseGroup(), false
	}
	return c.describe(g), true
}

func (c *Coordinator) describe(g *group) kmsg.StreamsGroupDescribeResponseGroup {
	dg := kmsg.NewStreamsGroupDescribeResponseGroup()
	dg.Group = g.id
	dg.State = g.state()
	dg.Epoch = g.epoch
	dg.AssignmentEpoch = g.assignmentEpoch
	dg.Topology = describeTopology(g)
	name := AssignorName
	dg.AssignorName = &name
	for _, id := range g.memberIDs() {
		m := g.members[id]
		dm := kmsg.NewStreamsGroupDescribeResponseGroupMember()
		dm.MemberID, dm.MemberEpoch = m.id, m.epoch
		dm.InstanceID, dm.RackID = m.meta.instanceID.ptr(), m.meta.rackID.ptr()
		dm.ClientID, dm.ClientHost = m.meta.clientID, m.meta.clientHost
		dm.TopologyEpoch = m.meta.topologyEpoch
		dm.ProcessID = m.meta.processID
		if m.meta.endpoint.set {
			e := kmsg.NewStreamsGroupDescribeResponseGroupMemberUserEndpoint()
			e.Host, e.Port = m.meta.endpoint.host, m.meta.endpoint.port
			dm.UserEndpoint = &e
		}
		for _, t := range m.meta.tags {
			dt := kmsg.NewStreamsGroupDescribeResponseGroupMemberClientTag()
			dt.Key, dt.Value = t.key, t.value
			dm.ClientTags = append(dm.ClientTags, dt)
		}
		dm.TaskOffsets, dm.TaskEndOffsets = slices.Clone(m.offsets), slices.Clone(m.endOffsets)
		dm.Assignment = wireAssignment(m.assigned)
		dm.TargetAssignment = wireAssignment(g.targets[id])
		dg.Members = append(dg.Members, dm)
	}
	return dg
}

// describeTopology is the configured topology if ready, else the topology as sent, its counts open (C-52). What a heartbeat configured shows only once
// some heartbeat stores something: descriptions see the state as of the last record.
func describeTopology(g *group) *kmsg.StreamsGroupDescribeResponseGroupTopology {
	if g.topology == nil {
		return nil
	}
	dt := kmsg.NewStreamsGroupDescribeResponseGroupTopology()
	dt.Epoch = g.topology.Epoch
	byTopic := func(infos []kmsg.TopicInfo) []kmsg.TopicInfo {
		out := copyTopicInfos(infos)
		slices.SortFunc(out, func(a, b kmsg.TopicInfo) int { return strings.Compare(a.Topic, b.Topic) })
		return out
	}
	subs := map[string]*kmsg.StreamsGroupHeartbeatRequestTopologySubtopology{}
	for i := range g.topology.Subtopologies {
		subs[g.topology.Subtopologies[i].SubtopologyID] = &g.topology.Subtopologies[i]
	}
	for _, id := range slices.Sorted(maps.Keys(subs)) {
		s := subs[id]
		ds := kmsg.NewStreamsGroupDescribeResponseGroupTopologySubtopology()
		ds.SubtopologyID = id
		ds.SourceTopics = slices.Sorted(slices.Values(s.SourceTopics))
		ds.RepartitionSinkTopics = slices.Sorted(slices.Values(s.RepartitionSinkTopics))
		changelogs, repartitions := s.StateChangelogTopics, s.RepartitionSourceTopics
		if g.shown != nil && g.shown.ready() {
			changelogs, repartitions = g.shown.subtopologies[id].changelogs, g.shown.subtopologies[id].repartitions
		}
		ds.StateChangelogTopics, ds.RepartitionSourceTopics = byTopic(changelogs), byTopic(repartitions)
		dt.Subtopologies = append(dt.Subtopologies, ds)
	}
	return &dt
}
