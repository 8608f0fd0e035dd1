package member

import "time"

// leaving is a leave that is wanted or under way.
type leaving struct {
	wanted bool // by the application: no rejoin
	mode   LeaveMode
	closed bool // the worker has no tasks any more
	silent bool // the broker has dropped the member: nothing to say

	id       uint64    // of the leave heartbeat under way, 0: none
	again    bool      // the leave goes out when the coordinator is found
	retried  bool      // only once
	deadline time.Time // of the wait for the worker, then of the wait for the answer; zero: not waiting
	polled   bool      // the worker has polled since the member became stale
}

func (m *Member) onLeave(e Leave) {
	l := &m.leave
	switch m.state {
	case Unsubscribed:
		m.do(Left{})
		return
	case Joining, Reconciling, Acknowledging, Stable, Rejoining:
		l.wanted, l.mode, l.closed = true, e.Mode, e.Closed
		m.prepareLeave()
	case PrepareLeaving:
		if !l.wanted {
			l.deadline = m.now.Add(m.cfg.LeaveTimeout)
		}
		l.wanted, l.mode = true, e.Mode
		if e.Closed && !l.closed {
			l.closed = true
			m.leaveNow()
		}
	case Fenced:
		l.wanted, l.mode, l.closed = true, e.Mode, e.Closed
		if e.Closed {
			m.left()
		}
	case Leaving, Stale:
		l.wanted, l.mode, l.closed = true, e.Mode, l.closed || e.Closed
		if e.Closed && m.work.kind == losing {
			m.work = work{}
		}
	}
}

// prepareLeave lets the worker give up its tasks; heartbeats go on meanwhile.
func (m *Member) prepareLeave() {
	m.to(PrepareLeaving)
	m.verify = verification{}
	m.leave.deadline = m.now.Add(m.cfg.LeaveTimeout)
	switch {
	case m.leave.closed:
		m.leaveNow()
	case m.epoch <= 0:
		m.lose()
	case len(m.running) == 0:
		m.leaveNow()
	default:
		m.revoke(m.running, target{})
	}
}

// leaveNow ends PrepareLeaving.
func (m *Member) leaveNow() {
	m.work = work{}
	m.running = nil
	if m.leave.silent {
		m.leave.deadline = time.Time{}
		m.epoch = 0
		m.left()
		return
	}
	m.to(Leaving)
	m.epoch = m.leaveEpoch()
	m.sent = sent{}
	if !m.coordinator || m.leave.wanted && m.leave.mode == RemainInGroup && !m.isStatic() {
		m.left()
		return
	}
	m.leave.deadline = m.now.Add(m.cfg.LeaveTimeout)
	m.sendLeave()
}

// leaveEpoch is -1 or -2 (§10.1): a static member is expected back unless it was told to leave the group for good.
func (m *Member) leaveEpoch() int32 {
	if m.isStatic() && !(m.leave.wanted && m.leave.mode == LeaveGroup) {
		return epochLeaveBack
	}
	return epochLeave
}

// sendLeave sends the leave, even with another heartbeat in flight.
func (m *Member) sendLeave() {
	m.leave.again = false
	m.leave.id = m.nextID()
	m.do(SendHeartbeat{m.leave.id, m.leaveHeartbeat(m.epoch), m.leave.deadline.Sub(m.now)})
}

// leaveAnswered ends the leave, whatever the answer: it is not repeated. Only a coordinator that has moved is worth one more try, because a
// leave that gets lost costs the others a session timeout.
func (m *Member) leaveAnswered(class Class) {
	m.leave.id = 0
	if class == Moved && !m.leave.retried {
		m.leave.retried = true
		m.leave.again = true
		m.forgetCoordinator()
		return
	}
	if class == Moved || class == Transport {
		m.forgetCoordinator()
	}
	m.left()
}

// left is the end of a leave, with or without a request.
func (m *Member) left() {
	m.leave.id, m.leave.again, m.leave.deadline = 0, false, time.Time{}
	switch m.state {
	case Stale:
		return // rejoin looks at it
	case Leaving:
		if !m.leave.wanted {
			m.to(Stale)
			return
		}
	}
	m.unsubscribed()
}

func (m *Member) unsubscribed() {
	m.to(Unsubscribed)
	m.target, m.owned, m.reported, m.running, m.work = target{}, target{}, Assignment{}, nil, work{}
	m.do(Left{})
}

// expireLeave ends the waits of a leave.
func (m *Member) expireLeave() {
	if m.leave.deadline.IsZero() || m.now.Before(m.leave.deadline) {
		return
	}
	m.leave.deadline = time.Time{}
	if m.state != PrepareLeaving {
		m.left()
		return
	}
	// The worker hangs. The membership ends under it: nothing it still does may be committed.
	if m.work.kind == revoking {
		m.note(true, "leaving although the worker did not give up its tasks in time", m.cfg.LeaveTimeout.String())
		m.lose()
	}
	m.leaveNow()
}

// expirePoll leaves the group when the worker has not polled: somebody else shall do its work (§3 rule 10). The leave goes out at once, the
// worker loses its tasks when it comes back to life.
func (m *Member) expirePoll() {
	if !m.state.inGroup() || m.now.Before(m.pollBy) {
		return
	}
	m.note(true, "the worker did not poll in time: leaving the group until it does", m.cfg.PollInterval.String())
	m.to(PrepareLeaving)
	m.to(Leaving)
	m.leave = leaving{}
	m.skipBackoff()
	m.sent = sent{}
	m.verify = verification{}
	m.epoch = m.leaveEpoch()
	if m.coordinator {
		m.leave.deadline = m.now.Add(m.cfg.LeaveTimeout)
		m.sendLeave()
	}
	m.lose()
	m.to(Stale)
}

// onMigrated reacts to a commit that was refused because others own the tasks (§11.4): lose them, leave, join again.
func (m *Member) onMigrated() {
	switch {
	case m.epoch <= 0:
		return // lost already
	case m.state == PrepareLeaving:
	case m.state.inGroup():
		m.leave = leaving{polled: true}
		m.rejoinSoon()
		m.to(PrepareLeaving)
		m.verify = verification{}
	default:
		return
	}
	m.epoch = 0
	if m.leave.closed {
		return
	}
	m.lose()
}

// rejoin leaves Stale: not before the leave was answered, because a leave has no epoch and a late one would remove the member that has
// joined again (§10.1), and not before the worker has dropped its tasks.
func (m *Member) rejoin() {
	if m.state != Stale || m.leave.id != 0 || m.leave.again || m.work.kind == losing {
		return
	}
	switch {
	case m.leave.wanted:
		m.unsubscribed()
	case m.leave.polled:
		m.leave = leaving{}
		m.running = nil
		m.startJoining()
	}
}
