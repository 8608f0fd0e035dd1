package devbroker

import (
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// fault is something to do to the next heartbeats that match.
type fault struct {
	group, member string // empty: any
	times         int    // how many heartbeats are left
	present       bool   // only heartbeats of present members, epoch > 0
	code          int16  // answer with this and do nothing
	drop          bool   // process and never answer
	cut           bool   // process and close the connection
}

func (b *Broker) addFault(f *fault) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.faults = append(b.mu.faults, f)
}

// takeFaultLocked finds what to do to a heartbeat; nil: nothing. b.mu is held.
func (b *Broker) takeFaultLocked(req *kmsg.StreamsGroupHeartbeatRequest) *fault {
	for i, f := range b.mu.faults {
		if f.group != "" && f.group != req.Group || f.member != "" && f.member != req.MemberID || f.present && req.MemberEpoch <= 0 {
			continue
		}
		if f.times--; f.times <= 0 {
			b.mu.faults = append(b.mu.faults[:i:i], b.mu.faults[i+1:]...)
		}
		return f
	}
	return nil
}

// FailHeartbeats answers the next n heartbeats of a group with an error and does nothing else with them. An empty group means any. Faults act in the
// order in which they were added, one per heartbeat.
func (b *Broker) FailHeartbeats(group string, n int, err *kerr.Error) {
	b.addFault(&fault{group: group, times: n, code: err.Code})
}

// FailMember is [Broker.FailHeartbeats] for one member.
func (b *Broker) FailMember(group, member string, n int, err *kerr.Error) {
	b.addFault(&fault{group: group, member: member, times: n, code: err.Code})
}

// DropResponses processes the next n heartbeats of a member and never answers: the client runs into its timeout. An empty member means any. Nothing more is
// answered on that connection either, so a client has to close it.
func (b *Broker) DropResponses(group, member string, n int) {
	b.addFault(&fault{group: group, member: member, times: n, drop: true})
}

// CutResponses processes the next n heartbeats of a member and closes the connection instead of answering. An empty member means any.
func (b *Broker) CutResponses(group, member string, n int) {
	b.addFault(&fault{group: group, member: member, times: n, cut: true})
}

// FenceMember answers the next heartbeat of a member that is in the group with FENCED_MEMBER_EPOCH. As on a broker the member stays in the group until it
// joins again or its session ends.
func (b *Broker) FenceMember(group, member string) {
	b.addFault(&fault{group: group, member: member, times: 1, present: true, code: kerr.FencedMemberEpoch.Code})
}

// ClearFaults forgets all faults that have not acted yet.
func (b *Broker) ClearFaults() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.faults = nil
}

// ExpireMember removes a member as the end of its session does: its next heartbeat is answered with UNKNOWN_MEMBER_ID.
func (b *Broker) ExpireMember(group, member string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.mu.coord.ExpireMember(group, member) {
		return fmt.Errorf("devbroker: group %s has no member %s", group, member)
	}
	b.changedLocked()
	return nil
}

// MoveCoordinator makes the group lose its coordinator. What brokers keep in memory only is lost (task offsets, the endpoint epoch, a requested
// shutdown), what they persist stays, and sessions start afresh. With several nodes another node takes over, for this and other groups. With one node the
// next heartbeat is answered with NOT_COORDINATOR and the one after it with COORDINATOR_LOAD_IN_PROGRESS, as by a broker that restarted.
func (b *Broker) MoveCoordinator(group string) error {
	err := errClosed
	b.alive(func() { err = b.moveCoordinator(group) })
	return err
}

func (b *Broker) moveCoordinator(group string) error {
	if len(b.addrs) == 1 {
		b.FailHeartbeats(group, 1, kerr.NotCoordinator)
		b.FailHeartbeats(group, 1, kerr.CoordinatorLoadInProgress)
	} else {
		const tries = 1000 // the new place of a group is drawn anew each time
		before := b.cluster.CoordinatorFor(group)
		moved := false
		for range tries {
			b.cluster.RehashCoordinators()
			if moved = b.cluster.CoordinatorFor(group) != before; moved {
				break
			}
		}
		if !moved {
			return fmt.Errorf("devbroker: group %s stays on node %d", group, before)
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.coord.Failover(time.Now(), group)
	b.changedLocked()
	return nil
}
