package coordinator

import (
	"maps"
	"slices"
	"time"
)

// Cluster is what a coordinator asks the cluster around it.
type Cluster interface {
	// Topic reports the id and partition count of a topic; false if there is no such topic.
	Topic(name string) (Topic, bool)
	// Coordinator returns the node that coordinates a group.
	Coordinator(group string) int32
	// Occupied reports whether a group of another type holds the id: a classic or share group with members, or any consumer group. An empty classic
	// group, or one that only has offsets, does not: a streams group takes its place.
	Occupied(group string) bool
}

// Topic is what a coordinator knows of a topic.
type Topic struct {
	ID         [16]byte
	Partitions int32
}

// Client is what a connection tells about the client behind it. Members show it in descriptions, and a change counts as a change of the member (§7).
type Client struct {
	ID   string // client id of the request header
	Host string // address of the peer as brokers print it, "/127.0.0.1"
}

// Coordinator holds the streams groups of a cluster. One Coordinator plays the coordinators of all nodes. See the package documentation.
type Coordinator struct {
	cfg      Config
	cluster  Cluster
	groups   map[string]*group
	configs  map[string]map[string]string // settings of groups; they exist independently of the groups
	creation map[string]creationFailure   // by topic (§10)
}

type creationFailure struct {
	reason string
	until  time.Time
}

// New returns a coordinator without groups. The configuration must be valid.
func New(cfg Config, cluster Cluster) *Coordinator {
	return &Coordinator{
		cfg: cfg, cluster: cluster,
		groups: map[string]*group{}, configs: map[string]map[string]string{}, creation: map[string]creationFailure{},
	}
}

// Config returns the settings the coordinator was made with.
func (c *Coordinator) Config() Config { return c.cfg }

// Has reports whether there is a streams group of that id.
func (c *Coordinator) Has(group string) bool { return c.groups[group] != nil }

// Empty reports whether there is a streams group of that id and it has no members.
func (c *Coordinator) Empty(group string) bool {
	g := c.groups[group]
	return g != nil && len(g.members) == 0
}

// Groups lists the streams groups by id.
func (c *Coordinator) Groups() []string { return slices.Sorted(maps.Keys(c.groups)) }

// State returns the state of a group, "" if there is none.
func (c *Coordinator) State(group string) string {
	if g := c.groups[group]; g != nil {
		return g.state()
	}
	return ""
}

// Expire does what is due at now: members whose session or rebalance timeout has passed are removed, and groups whose initial delay is over get their
// first assignment. It reports whether anything changed.
func (c *Coordinator) Expire(now time.Time) bool {
	changed := false
	for _, id := range c.Groups() {
		g := c.groups[id]
		for _, mid := range g.memberIDs() {
			m := g.members[mid]
			session := !m.sessionEnds.IsZero() && !now.Before(m.sessionEnds)
			rebalance := !m.rebalanceEnds.IsZero() && !now.Before(m.rebalanceEnds) && m.epoch == m.rebalanceEpoch
			if session || rebalance {
				g.removeMember(mid, c.cfg.Release)
				changed = true
			}
		}
		if !g.initialDelayEnds.IsZero() && !now.Before(g.initialDelayEnds) {
			// §12, 1: the assignment is computed without a heartbeat, if there is something to assign and to assign it to.
			g.initialDelayEnds = time.Time{}
			if len(g.members) > 0 && g.configured != nil && g.epoch > g.assignmentEpoch {
				g.assign(now, c.cfg.Release, c.settings(id))
			}
			changed = true
		}
	}
	return changed
}

// Deadline returns when [Coordinator.Expire] has to be called next; zero if nothing is due.
func (c *Coordinator) Deadline() time.Time {
	var first time.Time
	due := func(t time.Time) {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	for _, g := range c.groups {
		due(g.initialDelayEnds)
		for _, m := range g.members {
			due(m.sessionEnds)
			if m.epoch == m.rebalanceEpoch {
				due(m.rebalanceEnds)
			}
		}
	}
	return first
}

// Failover models the loss of the node that coordinates a group: what brokers keep in memory only is dropped, what they persist stays, and all timers
// start afresh (§20). The configured topology is found again by the next heartbeat.
func (c *Coordinator) Failover(now time.Time, group string) {
	if g := c.groups[group]; g != nil {
		c.failover(now, g)
	}
}

func (c *Coordinator) failover(now time.Time, g *group) {
	g.configured, g.shown = nil, nil
	g.endpointEpoch = 0
	g.shutdownBy = ""
	g.initialDelayEnds = time.Time{}
	session := c.settings(g.id).session
	for id, m := range g.members {
		m = m.clone()
		m.offsets, m.endOffsets = nil, nil
		m.sessionEnds = now.Add(session)
		if m.state == unrevoked {
			m.startRebalanceTimer(now)
		}
		g.members[id] = m
	}
}

// ExpireMember removes a member as the end of its session does. It reports whether there was such a member.
func (c *Coordinator) ExpireMember(group, member string) bool {
	g := c.groups[group]
	if g == nil || g.members[member] == nil {
		return false
	}
	g.removeMember(member, c.cfg.Release)
	return true
}

// Remove drops a group with all it holds, whatever its state: after a deletion, an expiry, or when another type of group takes its place (§5, §23).
func (c *Coordinator) Remove(group string) { delete(c.groups, group) }

// CreationFailed notes that a topic asked for by a heartbeat of a group could not be created. The reason shows in the status of heartbeats, and the
// topic is not asked for again, for twice the heartbeat interval (§10).
func (c *Coordinator) CreationFailed(now time.Time, group, topic, reason string) {
	c.creation[topic] = creationFailure{reason: reason, until: now.Add(2 * c.settings(group).heartbeat)}
}

func (m *member) startRebalanceTimer(now time.Time) {
	// C-60: a timeout of zero or below removes the member right away.
	m.rebalanceEnds = now.Add(time.Duration(max(m.meta.rebalanceTimeout, 0)) * time.Millisecond)
	m.rebalanceEpoch = m.epoch
}

// assign computes the target of every member for the group's present epoch (§12, 4).
func (g *group) assign(now time.Time, release Release, s settings) {
	targets := map[string]tasks{}
	if g.configured.ready() && len(g.members) > 0 {
		all, stateful := g.configured.allTasks()
		var members []assignorMember
		for _, id := range g.memberIDs() {
			m := g.members[id]
			am := assignorMember{id: id, process: m.meta.processID, previous: g.targets[id]}
			if release >= Kafka44 {
				am.previous = m.assigned
				am.offsets = map[task]int64{}
				for _, o := range m.offsets {
					am.offsets[task{o.SubtopologyID, o.Partition}] = o.Offset
				}
			}
			members = append(members, am)
		}
		targets = assign(members, all, stateful, s.standbys)
	}
	g.targets = targets
	g.assignmentEpoch = g.epoch
	g.assignedAt = now
}
