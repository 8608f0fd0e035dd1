package member

import (
	"fmt"
	"time"
)

// Snapshot is what an operator wants to know of a member. Its slices must not be modified.
type Snapshot struct {
	State    State
	MemberID string
	Epoch    int32 // not positive: not in the group
	Static   bool

	// Owned is what the worker runs as of the last finished reconciliation, Target what the coordinator wants.
	Owned, Target Assignment
	Ready         bool     // new tasks may start
	Statuses      []Status // as last told by the broker

	// LastContact is when the last heartbeat that succeeded was sent. The member's session at the broker ends no earlier than one session
	// timeout after it. There is no timer for that here (§3 rule 12): a worker that wants to stop its output before others may start compares
	// this with its clock.
	LastContact time.Time
	Interval    time.Duration // of heartbeats; 0: not told yet

	// Suspect says that a response was lost and the assignment is being verified.
	Suspect bool

	// Waiting says in words what the member waits for; empty: nothing.
	Waiting string
}

// Snapshot returns the present state.
func (m *Member) Snapshot() Snapshot {
	return Snapshot{
		State: m.state, MemberID: m.id, Epoch: m.epoch, Static: m.isStatic(),
		Owned: m.owned.Assignment, Target: m.target.Assignment, Ready: m.ready, Statuses: m.statuses,
		LastContact: m.lastContact, Interval: m.interval, Suspect: m.verify.suspect, Waiting: m.waiting(),
	}
}

// State returns where the member stands.
func (m *Member) State() State { return m.state }

// Identity returns the member id and epoch that commits must carry. Epoch not positive: not a member, nothing may be committed.
func (m *Member) Identity() (memberID string, epoch int32) { return m.id, m.epoch }

func (m *Member) waiting() string {
	switch {
	case m.state == Unsubscribed || m.state == Fatal:
		return ""
	case m.work.kind == revoking:
		return "worker to give up " + join(m.work.tasks)
	case m.work.kind == assigning:
		return "worker to take " + m.work.target.String()
	case m.work.kind == losing:
		return "worker to drop its tasks"
	case m.leave.id != 0:
		return "answer to the leave"
	case m.state == Stale:
		return "worker to poll"
	case !m.coordinator:
		return "coordinator"
	case m.watch.lacking:
		return "source topics"
	case m.state == Joining:
		return "answer to the join"
	case m.state == Reconciling && m.work.id == 0 && m.tries > 0:
		return "next try of a failed reconciliation"
	}
	for _, s := range m.statuses {
		switch s.Code {
		case MissingSourceTopics, IncorrectlyPartitioned, MissingInternalTopics, AssignmentDelayed:
			return fmt.Sprintf("%v: %s", s.Code, s.Detail)
		}
	}
	return ""
}
