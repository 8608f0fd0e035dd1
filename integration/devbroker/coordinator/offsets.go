package coordinator

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Commit is what decides about an OffsetCommit (key 8) or a TxnOffsetCommit (key 28): who commits, at which epoch, and for what.
type Commit struct {
	Group       string
	MemberID    string
	InstanceID  *string
	MemberEpoch int32 // the generation of the request
	Version     int16 // of the request
	Partitions  []TopicPartition
}

// TopicPartition is a partition of a topic by name.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// ValidateCommit decides about an OffsetCommit for a streams group and returns the code every partition is answered with, 0 to accept (§19.1). Groups that
// are not streams groups are none of its business: ask [Coordinator.Has] first.
func (c *Coordinator) ValidateCommit(cm Commit) int16 {
	g := c.groups[cm.Group]
	if g == nil {
		return kerr.GroupIDNotFound.Code
	}
	if cm.MemberEpoch < 0 && len(g.members) == 0 && cm.MemberID == "" {
		return 0 // tools that reset offsets
	}
	m := g.members[cm.MemberID]
	switch {
	case m == nil:
		return kerr.UnknownMemberID.Code
	case cm.Version < 9:
		return kerr.UnsupportedVersion.Code
	}
	return g.checkCommit(m, cm)
}

// ValidateTxnCommit decides about a TxnOffsetCommit for a streams group (§19.2).
func (c *Coordinator) ValidateTxnCommit(cm Commit) int16 {
	g := c.groups[cm.Group]
	code := int16(0)
	switch {
	case cm.MemberEpoch == -1 && cm.MemberID == "" && cm.InstanceID == nil:
		return 0 // a producer that does not name its member
	case g == nil:
		code = kerr.GroupIDNotFound.Code
	case g.members[cm.MemberID] == nil:
		return kerr.UnknownMemberID.Code
	default:
		code = g.checkCommit(g.members[cm.MemberID], cm)
	}
	if code != 0 && cm.Version < 6 {
		return kerr.IllegalGeneration.Code // before KIP-1319 both had this name
	}
	return code
}

// checkCommit accepts the member's epoch without a look at the partitions, and an older one if the member has held the task of every partition since
// (C-41, C-42).
func (g *group) checkCommit(m *member, cm Commit) int16 {
	switch {
	case cm.MemberEpoch == m.epoch:
		return 0
	case cm.MemberEpoch > m.epoch:
		return kerr.StaleMemberEpoch.Code
	}
	for _, tp := range cm.Partitions {
		id, ok := g.subtopologyOf(tp.Topic)
		if !ok {
			return kerr.StaleMemberEpoch.Code
		}
		t := task{id, tp.Partition}
		since, ok := m.assigned[active][t]
		if !ok {
			since, ok = m.pending[active][t]
		}
		if !ok || cm.MemberEpoch < since {
			return kerr.StaleMemberEpoch.Code
		}
	}
	return 0
}

// subtopologyOf finds who reads a topic.
func (g *group) subtopologyOf(topic string) (string, bool) {
	if g.topology == nil {
		return "", false
	}
	for i := range g.topology.Subtopologies {
		s := &g.topology.Subtopologies[i]
		for _, name := range s.SourceTopics {
			if name == topic {
				return s.SubtopologyID, true
			}
		}
		for _, ti := range s.RepartitionSourceTopics {
			if ti.Topic == topic {
				return s.SubtopologyID, true
			}
		}
	}
	return "", false
}

// ValidateFetch decides about an OffsetFetch for a streams group and returns the code of the group, 0 to accept (§19.3).
func (c *Coordinator) ValidateFetch(group string, memberID *string, memberEpoch int32) int16 {
	if memberID == nil {
		if memberEpoch < 0 {
			return 0
		}
		return kerr.UnknownServerError.Code
	}
	g := c.groups[group]
	switch {
	case g == nil:
		return 0
	case g.members[*memberID] == nil:
		return kerr.UnknownMemberID.Code
	case g.members[*memberID].epoch != memberEpoch:
		return kerr.StaleMemberEpoch.Code
	}
	return 0
}

// Subscribed reports whether the offsets of a topic may not be deleted because a group with members reads it (§19.4).
func (c *Coordinator) Subscribed(group, topic string) bool {
	g := c.groups[group]
	if g == nil || len(g.members) == 0 {
		return false
	}
	_, ok := g.subtopologyOf(topic)
	return ok
}

// Delete removes an empty group and returns the code a DeleteGroups answers with; offsets are the caller's (§23).
func (c *Coordinator) Delete(group string) int16 {
	g := c.groups[group]
	switch {
	case g == nil:
		return kerr.GroupIDNotFound.Code
	case len(g.members) > 0:
		return kerr.NonEmptyGroup.Code
	}
	delete(c.groups, group)
	return 0
}

// ListedGroup is a streams group in a list.
type ListedGroup struct{ Group, State string }

// List returns the groups coordinated by node that pass the filters of a ListGroups (key 16) request; an empty filter lets all pass (§21).
func (c *Coordinator) List(node int32, states, types []string) []ListedGroup {
	var out []ListedGroup
	if len(types) > 0 && !containsFold(types, "streams") {
		return nil
	}
	for _, id := range c.Groups() {
		if c.cluster.Coordinator(id) != node {
			continue
		}
		state := c.groups[id].state()
		key := state
		if state == StateNotReady {
			key = "not_ready" // the filter knows this state under its stored name only
		}
		if len(states) == 0 || containsFold(states, key) {
			out = append(out, ListedGroup{id, state})
		}
	}
	return out
}

func containsFold(list []string, s string) bool {
	return slices.ContainsFunc(list, func(x string) bool { return strings.EqualFold(x, s) })
}
