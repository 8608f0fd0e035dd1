package coordinator

import (
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// group is a streams group. A heartbeat works on a clone and puts it in place of the group when it succeeds, so a failed request leaves no trace.
// The maps and what they hold are replaced, never changed.
type group struct {
	id string

	// What a broker persists.
	epoch             int32
	assignmentEpoch   int32
	assignedAt        time.Time // of the last assignment; zero: none that counts for the assignment interval
	validatedTopology int32     // the topology epoch, once ready; -1 before and while not ready (§9.3)
	metadataHash      uint64
	assignmentConfig  assignmentConfig
	topology          *kmsg.StreamsGroupHeartbeatRequestTopology // as sent; nil before the first join
	members           map[string]*member
	targets           map[string]tasks // the assignor's last word, by member id

	// What lives in memory and is lost when the coordinator moves (§20).
	configured       *configured
	shown            *configured // the configured topology when the last record was written: descriptions show this one
	endpointEpoch    int32
	shutdownBy       string    // the member that asked for the shutdown of the application
	initialDelayEnds time.Time // zero: no initial delay is running
	node             int32     // the node the group was last coordinated by; -1 before the first request
}

type assignmentConfig struct {
	standbys int
	tags     string
}

func newGroup(id string) *group {
	return &group{
		id: id, epoch: 1, assignmentEpoch: 1, validatedTopology: -1, node: -1,
		members: map[string]*member{}, targets: map[string]tasks{},
	}
}

func (g *group) clone() *group {
	c := *g
	c.members = maps.Clone(g.members)
	c.targets = maps.Clone(g.targets)
	return &c
}

func (g *group) memberIDs() []string { return slices.Sorted(maps.Keys(g.members)) }

func (g *group) static(instance string) *member {
	for _, m := range g.members {
		if m.meta.instanceID.is(instance) {
			return m
		}
	}
	return nil
}

// memberState is the state of a member's reconciliation (§15.1).
type memberState int8

const (
	stable     memberState = iota + 1 // nothing pending
	unrevoked                         // tasks taken away wait for the member's confirmation; the epoch is held back
	unreleased                        // at the target epoch, but some tasks are still held elsewhere
)

func (s memberState) String() string {
	switch s {
	case stable:
		return "stable"
	case unrevoked:
		return "unrevoked"
	case unreleased:
		return "unreleased"
	}
	return "unknown"
}

// leftStatic is the epoch of a static member that is expected back (§6.4).
const leftStatic = -2

type member struct {
	id        string
	meta      metadata
	epoch     int32
	prevEpoch int32
	state     memberState
	assigned  tasks
	pending   tasks // revoked and not yet confirmed

	// In memory only.
	sessionEnds    time.Time
	rebalanceEnds  time.Time // zero: no rebalance timer
	rebalanceEpoch int32     // the member epoch the timer was started for
	offsets        []kmsg.TaskOffset
	endOffsets     []kmsg.TaskOffset
}

func newMember(id string) *member {
	return &member{id: id, state: stable, meta: metadata{topologyEpoch: -1, rebalanceTimeout: -1}}
}

func (m *member) clone() *member { c := *m; return &c }

// optional is a string that may be absent. It compares with ==.
type optional struct {
	set bool
	s   string
}

func (o optional) is(s string) bool { return o.set && o.s == s }

func (o optional) ptr() *string {
	if !o.set {
		return nil
	}
	return &o.s
}

type endpoint struct {
	set  bool
	host string
	port uint16
}

type tag struct{ key, value string }

// metadata is what a member tells about itself (§7).
type metadata struct {
	instanceID, rackID   optional
	clientID, clientHost string
	rebalanceTimeout     int32
	topologyEpoch        int32
	processID            string
	endpoint             endpoint
	tags                 []tag // ascending by key
}

func (m metadata) equal(o metadata) bool {
	return m.instanceID == o.instanceID && m.rackID == o.rackID && m.clientID == o.clientID && m.clientHost == o.clientHost &&
		m.rebalanceTimeout == o.rebalanceTimeout && m.endpoint == o.endpoint && !m.restarts(o)
}

// restarts reports whether the difference leads to a new assignment even for a static member (§7).
func (m metadata) restarts(o metadata) bool {
	return m.topologyEpoch != o.topologyEpoch || m.rackID != o.rackID || m.processID != o.processID || !slices.Equal(m.tags, o.tags)
}

// removeMember takes a member out of the group: a leave, an expired session, a rebalance timeout (§6.3, §20).
func (g *group) removeMember(id string, release Release) {
	delete(g.members, id)
	delete(g.targets, id)
	g.epoch++
	if len(g.members) > 0 {
		return
	}
	g.shutdownBy = ""
	if release >= Kafka44 {
		g.assignmentEpoch = g.epoch
		g.assignedAt = time.Time{}
	}
}

// The states of a group as lists and descriptions show them (§21).
const (
	StateEmpty       = "Empty"
	StateNotReady    = "NotReady"
	StateAssigning   = "Assigning"
	StateReconciling = "Reconciling"
	StateStable      = "Stable"
)

func (g *group) state() string {
	switch {
	case len(g.members) == 0:
		return StateEmpty
	case g.topology == nil || g.validatedTopology != g.topology.Epoch:
		return StateNotReady
	case g.epoch > g.assignmentEpoch:
		return StateAssigning
	}
	for _, m := range g.members {
		if m.state != stable || m.epoch != g.assignmentEpoch {
			return StateReconciling
		}
	}
	return StateStable
}
