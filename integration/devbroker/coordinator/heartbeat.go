package coordinator

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Heartbeat answers a StreamsGroupHeartbeat (key 88) that arrived at node from client. The second result lists internal topics to create now, after
// the response was made and before the next heartbeat, as brokers do; failures are reported with [Coordinator.CreationFailed].
func (c *Coordinator) Heartbeat(now time.Time, node int32, client Client, req *kmsg.StreamsGroupHeartbeatRequest) (*kmsg.StreamsGroupHeartbeatResponse, []NewTopic) {
	c.Expire(now)
	resp, create, f := c.heartbeat(now, node, client, req)
	if f != nil {
		return errorResponse(req, f.code, f.message), nil
	}
	return resp, create
}

// ErrorResponse is the answer to a heartbeat that failed: everything but the error code and message is empty (C-51).
func ErrorResponse(req *kmsg.StreamsGroupHeartbeatRequest, code int16) *kmsg.StreamsGroupHeartbeatResponse {
	return errorResponse(req, code, nil)
}

func errorResponse(req *kmsg.StreamsGroupHeartbeatRequest, code int16, message *string) *kmsg.StreamsGroupHeartbeatResponse {
	resp := newResponse(req)
	resp.ErrorCode, resp.ErrorMessage = code, message
	return resp
}

func newResponse(req *kmsg.StreamsGroupHeartbeatRequest) *kmsg.StreamsGroupHeartbeatResponse {
	resp := req.ResponseKind().(*kmsg.StreamsGroupHeartbeatResponse)
	resp.Status = []kmsg.StreamsGroupHeartbeatResponseStatus{}
	return resp
}

func (c *Coordinator) heartbeat(now time.Time, node int32, client Client, req *kmsg.StreamsGroupHeartbeatRequest) (*kmsg.StreamsGroupHeartbeatResponse, []NewTopic, *failure) {
	if c.cfg.Disabled {
		return nil, nil, failSilently(kerr.UnsupportedVersion)
	}
	if f := checkTopicNames(req.Topology); f != nil {
		return nil, nil, f
	}
	if f := validate(c.cfg.Release, req); f != nil {
		return nil, nil, f
	}
	if c.cluster.Coordinator(req.Group) != node {
		return nil, nil, failSilently(kerr.NotCoordinator)
	}
	if g := c.groups[req.Group]; g != nil && g.node != node {
		if g.node >= 0 {
			c.failover(now, g)
		}
		g.node = node
	}
	if req.MemberEpoch < 0 {
		resp, f := c.leave(req)
		return resp, nil, f
	}
	return c.beat(now, node, client, req)
}

// beat is a heartbeat of a member that joins or is in.
func (c *Coordinator) beat(now time.Time, node int32, client Client, req *kmsg.StreamsGroupHeartbeatRequest) (*kmsg.StreamsGroupHeartbeatResponse, []NewTopic, *failure) {
	join := req.MemberEpoch == 0
	s := c.settings(req.Group)

	stored := c.groups[req.Group]
	creating := stored == nil
	switch {
	case c.cluster.Occupied(req.Group) && creating:
		return nil, nil, fail(kerr.GroupIDNotFound, "Group %s is not a streams group.", req.Group)
	case creating && !join:
		return nil, nil, fail(kerr.GroupIDNotFound, "Streams group %s not found.", req.Group)
	}
	g := newGroup(req.Group)
	g.node = node
	if !creating {
		g = stored.clone()
	}
	wasEmpty := len(g.members) == 0

	owned := ownedTasks(req)
	before, m, f := c.findMember(g, req, owned)
	if f != nil {
		return nil, nil, f
	}
	if f := mistakes(req); f != nil {
		return nil, nil, f
	}
	m = m.clone()
	m.meta = updateMetadata(c.cfg.Release, m.meta, client, req)
	endpointChanged := m.meta.endpoint != before.endpoint
	bump := !m.meta.equal(before)
	if req.InstanceID != nil {
		bump = m.meta.restarts(before)
	}

	if join {
		switch {
		case g.topology == nil:
			g.topology = copyTopology(req.Topology)
			g.configured = nil
		case g.topology.Epoch > req.Topology.Epoch:
			// §8, 2: the member is let in with a status.
		case !sameTopology(g.topology, req.Topology):
			return nil, nil, fail(kerr.InvalidRequest, "Topology updates are not supported yet.")
		}
	}

	if f := c.configure(g, &bump); f != nil {
		return nil, nil, f
	}
	if g.configured.ready() {
		if f := checkOwnedTasks(req, g.configured); f != nil {
			return nil, nil, f
		}
		if f := checkTaskOffsets(req); f != nil {
			return nil, nil, f
		}
	}
	if config := (assignmentConfig{s.standbys, strings.Join(s.tags, ",")}); config != g.assignmentConfig {
		g.assignmentConfig = config
		bump = true
	}
	if bump {
		g.epoch++
	}
	if req.TaskOffsets != nil {
		m.offsets = slices.Clone(req.TaskOffsets)
	}
	if req.TaskEndOffsets != nil {
		m.endOffsets = slices.Clone(req.TaskEndOffsets)
	}
	g.members[m.id] = m

	assigned := g.assignmentEpoch
	delayed, target := c.target(now, g, m, s, wasEmpty)
	joined := m
	reconciled := g.reconcile(c.cfg.Release, m, target, g.assignmentEpoch, owned)
	assignmentChanged := !reconciled.assigned.equal(m.assigned)
	switch {
	case reconciled == m:
	case reconciled.state == unrevoked:
		reconciled.startRebalanceTimer(now)
	default:
		reconciled.rebalanceEnds = time.Time{}
	}
	m = reconciled
	g.members[m.id] = m
	m.sessionEnds = now.Add(s.session)

	if c.bumpsEndpoints(m, join, endpointChanged, assignmentChanged) && !creating {
		g.endpointEpoch++
	}

	if req.ShutdownApplication && g.shutdownBy == "" {
		g.shutdownBy = m.id
	}

	resp := newResponse(req)
	resp.MemberID, resp.MemberEpoch = m.id, m.epoch
	resp.HeartbeatIntervalMillis = millis(s.heartbeat)
	if c.cfg.Release >= Kafka44 {
		resp.TaskOffsetIntervalMillis = millis(s.taskOffsetInterval)
		resp.AcceptableRecoveryLag = s.recoveryLag
	}
	resp.Status = c.status(now, g, m, s, delayed, req.Version)
	if join || assignmentChanged {
		// C-36: complete lists on a join or a change, else none.
		resp.ActiveTasks = wireTasks(m.assigned[active])
		resp.StandbyTasks = wireTasks(m.assigned[standby])
		resp.WarmupTasks = wireTasks(m.assigned[warmup])
	}
	resp.EndpointInformationEpoch = g.endpointEpoch
	if req.EndpointInformationEpoch != g.endpointEpoch {
		if c.cfg.EndpointDefect && g.configured.subtopologies == nil && g.hasEndpoints() {
			if !creating {
				stored.endpointEpoch = g.endpointEpoch
				if known := stored.members[m.id]; known != nil {
					known.sessionEnds = m.sessionEnds
				}
			}
			return nil, nil, failSilently(kerr.UnknownServerError)
		}
		resp.PartitionsByUserEndpoint = c.endpoints(g)
	}

	if bump || !m.meta.equal(before) || reconciled != joined || g.assignmentEpoch != assigned {
		g.shown = g.configured // this heartbeat stores something
	}
	create := c.creatable(now, g)
	if creating {
		// §5: the group of the creating heartbeat was a temporary object; what it had in memory only is gone.
		g.configured, g.shown, g.shutdownBy, g.endpointEpoch = nil, nil, "", 0
		m.offsets, m.endOffsets = nil, nil
	}
	c.groups[req.Group] = g
	return resp, create, nil
}

// configure brings the configured topology up to date (§9.1, §9.3).
func (c *Coordinator) configure(g *group, bump *bool) *failure {
	metadata := c.readMetadata(g.topology)
	if g.configured == nil || metadata.hash != g.metadataHash {
		cfg, f := configure(g.topology, metadata)
		if f != nil {
			return f
		}
		g.configured = cfg
	}
	if metadata.hash != g.metadataHash {
		g.metadataHash = metadata.hash
		*bump = true
	}
	validated := int32(-1)
	if g.configured.ready() {
		validated = g.topology.Epoch
	}
	if validated != g.validatedTopology {
		g.validatedTopology = validated
		*bump = true
	}
	return nil
}

// target computes a new assignment if one is due and returns the member's share, or why it has to wait (§12).
func (c *Coordinator) target(now time.Time, g *group, m *member, s settings, wasEmpty bool) (delayed string, target tasks) {
	if wasEmpty && s.initialDelay > 0 && g.initialDelayEnds.IsZero() {
		g.initialDelayEnds = now.Add(s.initialDelay)
	}
	switch {
	case !g.initialDelayEnds.IsZero():
		return "Assignment delayed due to the configured initial rebalance delay.", tasks{}
	case g.assignmentEpoch >= g.epoch:
	case !g.assignedAt.IsZero() && now.Sub(g.assignedAt) < s.assignmentInterval:
		delayed = "Assignment delayed due to the configured assignment interval."
	default:
		g.assign(now, c.cfg.Release, s)
	}
	return delayed, g.targets[m.id]
}

// status lists everything there is to say now; brokers always send the complete set (§2.3).
func (c *Coordinator) status(now time.Time, g *group, m *member, s settings, delayed string, version int16) []kmsg.StreamsGroupHeartbeatResponseStatus {
	out := []kmsg.StreamsGroupHeartbeatResponseStatus{}
	add := func(code int8, detail string) {
		st := kmsg.NewStreamsGroupHeartbeatResponseStatus()
		st.StatusCode, st.StatusDetail = code, detail
		out = append(out, st)
	}
	if m.meta.topologyEpoch < g.topology.Epoch {
		add(StatusStaleTopology, fmt.Sprintf("The member's topology epoch %d is behind the group's topology epoch %d.", m.meta.topologyEpoch, g.topology.Epoch))
	}
	if delayed != "" {
		add(StatusAssignmentDelayed, delayed)
	}
	if !g.configured.ready() {
		detail := g.configured.detail
		if g.configured.status == StatusMissingInternalTopics {
			detail += c.creationDetail(now, g)
		}
		add(g.configured.status, detail)
	}
	if g.shutdownBy != "" {
		add(StatusShutdownApplication, fmt.Sprintf(
			"Streams group member %s encountered a fatal error and requested a shutdown for the entire application.", g.shutdownBy))
	}
	if version >= 1 {
		var missing []string
		for _, key := range s.tags {
			if !slices.ContainsFunc(m.meta.tags, func(t tag) bool { return t.key == key }) {
				missing = append(missing, key)
			}
		}
		if len(missing) > 0 {
			add(StatusMissingClientTags, fmt.Sprintf("Missing required client tags for rack-aware standby assignment: [%s]. "+
				"Configure them via 'client.tag.<tagKey>' in your Streams config.", strings.Join(missing, ", ")))
		}
	}
	return out
}

// creatable lists the missing internal topics whose creation did not fail a moment ago (§10).
func (c *Coordinator) creatable(now time.Time, g *group) []NewTopic {
	var out []NewTopic
	for _, t := range g.configured.create {
		if f, ok := c.creation[t.Name]; ok {
			if now.Before(f.until) {
				continue
			}
			delete(c.creation, t.Name)
		}
		out = append(out, t)
	}
	return out
}

func (c *Coordinator) creationDetail(now time.Time, g *group) string {
	var failed []string
	for _, t := range g.configured.create {
		if f, ok := c.creation[t.Name]; ok && now.Before(f.until) {
			failed = append(failed, t.Name+" ("+f.reason+")")
		}
	}
	switch {
	case len(failed) == 0:
		return ""
	case len(failed) > 3:
		return fmt.Sprintf("; Creation failed: %s and %d more.", strings.Join(failed[:3], ", "), len(failed)-3)
	}
	return "; Creation failed: " + strings.Join(failed, ", ") + "."
}
