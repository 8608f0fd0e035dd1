package coordinator

import (
	"cmp"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// findMember finds or makes the member a heartbeat speaks for (§6). before is what was known of it, for telling a change. The group is a clone that may
// be changed: a static member that returns under another id takes the place of the old one here.
func (c *Coordinator) findMember(g *group, req *kmsg.StreamsGroupHeartbeatRequest, owned *tasks) (before metadata, m *member, f *failure) {
	if req.MemberEpoch == 0 {
		m, f = c.joining(g, req)
	} else {
		m, f = presentMember(g, req)
		if f == nil {
			f = checkEpoch(m, req.MemberEpoch, owned)
		}
	}
	if f != nil {
		return metadata{}, nil, f
	}
	return m.meta, m, nil
}

func (c *Coordinator) joining(g *group, req *kmsg.StreamsGroupHeartbeatRequest) (*member, *failure) {
	known := g.members[req.MemberID]
	var holder *member
	if req.InstanceID != nil {
		holder = g.static(*req.InstanceID)
	}
	if len(g.members) >= c.cfg.MaxSize && (c.cfg.Release < Kafka44 || known == nil && holder == nil) {
		return nil, fail(kerr.GroupMaxSizeReached, "The streams group has reached its maximum capacity of %d members.", c.cfg.MaxSize)
	}
	switch {
	case holder != nil && holder.epoch != leftStatic:
		return nil, fail(kerr.UnreleasedInstanceID, "Static member %s with instance id %s cannot join the group because the instance id is owned by member %s.",
			req.MemberID, *req.InstanceID, holder.id)
	case holder != nil:
		m := holder.clone()
		m.id, m.epoch, m.prevEpoch = req.MemberID, 0, 0
		m.offsets, m.endOffsets = nil, nil
		target := g.targets[holder.id]
		delete(g.members, holder.id)
		delete(g.targets, holder.id)
		g.targets[m.id] = target
		return m, nil
	case known != nil:
		return known, nil
	}
	return newMember(req.MemberID), nil
}

// presentMember finds the member of a request that is not a join: by instance id if it has one, else by member id (§6.4).
func presentMember(g *group, req *kmsg.StreamsGroupHeartbeatRequest) (*member, *failure) {
	if req.InstanceID == nil {
		if m := g.members[req.MemberID]; m != nil {
			return m, nil
		}
		return nil, fail(kerr.UnknownMemberID, "Member %s is not a member of group %s.", req.MemberID, g.id)
	}
	m := g.static(*req.InstanceID)
	if m == nil {
		return nil, fail(kerr.UnknownMemberID, "Instance id %s is unknown.", *req.InstanceID)
	}
	if m.id != req.MemberID {
		return nil, fail(kerr.FencedInstanceID, "Static member %s with instance id %s was fenced by member %s.", req.MemberID, *req.InstanceID, m.id)
	}
	return m, nil
}

// checkEpoch compares the epoch of a heartbeat with the member's (§6.2).
func checkEpoch(m *member, received int32, owned *tasks) *failure {
	const text = "The streams group member has a %s member epoch (%d) than the one known by the group coordinator (%d). " +
		"The member must abandon all its partitions and rejoin."
	switch {
	case received > m.epoch:
		return fail(kerr.FencedMemberEpoch, text, "greater", received, m.epoch)
	case received < m.epoch && (received != m.prevEpoch || owned == nil || !owned.within(m.assigned)):
		return fail(kerr.FencedMemberEpoch, text, "smaller", received, m.epoch)
	}
	return nil
}

// leave answers a heartbeat with epoch -1 or -2 (§6.3, §6.4).
func (c *Coordinator) leave(req *kmsg.StreamsGroupHeartbeatRequest) (*kmsg.StreamsGroupHeartbeatResponse, *failure) {
	stored := c.groups[req.Group]
	if stored == nil {
		return nil, fail(kerr.GroupIDNotFound, "Group %s not found.", req.Group)
	}
	m, f := presentMember(stored, req)
	if f != nil {
		return nil, f
	}
	g := stored.clone()
	if req.ShutdownApplication && g.shutdownBy == "" {
		g.shutdownBy = m.id
	}
	if req.MemberEpoch == leftStatic {
		// C-57: the member stays, its tasks stay reserved, its session goes on running.
		m = m.clone()
		m.epoch = leftStatic
		m.state = stable
		m.pending = tasks{}
		var kept tasks
		for r := range m.assigned {
			for t := range m.assigned[r] {
				kept.add(role(r), t, 0)
			}
		}
		m.assigned = kept
		g.members[m.id] = m
	} else {
		g.removeMember(m.id, c.cfg.Release)
	}
	c.groups[req.Group] = g

	resp := newResponse(req)
	resp.MemberID, resp.MemberEpoch = req.MemberID, req.MemberEpoch
	return resp, nil
}

// updateMetadata applies what a heartbeat tells about its member; what is absent stays (§7).
func updateMetadata(release Release, m metadata, client Client, req *kmsg.StreamsGroupHeartbeatRequest) metadata {
	m.clientID, m.clientHost = client.ID, client.Host
	if req.InstanceID != nil {
		m.instanceID = optional{true, *req.InstanceID}
	}
	if req.RackID != nil {
		m.rackID = optional{true, *req.RackID}
	}
	if req.RebalanceTimeoutMillis != -1 {
		m.rebalanceTimeout = req.RebalanceTimeoutMillis
	}
	if req.Topology != nil {
		m.topologyEpoch = req.Topology.Epoch
	}
	if req.ProcessID != nil {
		m.processID = *req.ProcessID
	}
	if req.UserEndpoint != nil {
		m.endpoint = endpoint{true, req.UserEndpoint.Host, req.UserEndpoint.Port}
	} else if req.MemberEpoch == 0 && release >= Kafka44 {
		m.endpoint = endpoint{} // a join sets the endpoint, so none clears it
	}
	if req.ClientTags != nil {
		m.tags = nil
		for _, t := range req.ClientTags {
			m.tags = append(m.tags, tag{t.Key, t.Value})
		}
		slices.SortFunc(m.tags, func(a, b tag) int { return cmp.Compare(a.key, b.key) })
	}
	return m
}
