package member

import "fmt"

// onHeartbeatOK takes a response without an error code (§1.5, §2.2).
func (m *Member) onHeartbeatOK(e HeartbeatOK) {
	if e.ID != 0 && e.ID == m.leave.id {
		m.leaveAnswered(0)
		return
	}
	f, ok := m.answered(e.ID)
	if !ok {
		return
	}
	m.coordinatorWorks()
	if !f.current(m) {
		return
	}
	if f.kind == releasing {
		m.release = false
		return
	}
	r := e.Response
	if r.Epoch <= 0 { // of a leave, which we did not send here: it carries nothing (M-09)
		m.resync()
		m.suspect()
		m.backOff()
		return
	}
	if m.state == PrepareLeaving && m.epoch <= 0 {
		return // its tasks are lost, and no answer makes it a member again
	}
	m.skipBackoff()
	m.lastContact = f.at
	m.unexplainedAt = noTime
	m.topicDenied = false
	if f.kind == steady {
		m.groupGone, m.fences = false, 0
	}

	if r.Epoch < m.epoch {
		m.suspect() // a member's epoch never falls; if the broker means it, it will fence us
	} else {
		m.epoch = r.Epoch
	}
	if r.Interval > 0 {
		m.interval = r.Interval
	} else if m.interval == 0 {
		m.interval = defaultInterval
	}
	m.offsetInterval = r.OffsetInterval
	m.recoveryLag = r.RecoveryLag
	m.endpointEpoch = r.EndpointEpoch
	if r.Endpoints != nil {
		m.do(UpdateEndpoints{mergeEndpoints(r.Endpoints)})
	}
	if m.state == PrepareLeaving {
		return // neither tasks nor conditions matter any more
	}

	lists := r.Active != nil
	if lists != (r.Standby != nil) || lists != (r.Warmup != nil) {
		m.fail(fmt.Errorf("%w: a response has some task lists but not all", ErrProtocol))
		return
	}
	if f.kind == joining {
		if !lists {
			m.fail(fmt.Errorf("%w: the answer to a join has no task lists", ErrProtocol))
			return
		}
		m.refusedJoins, m.unreleasedAt, m.mayHold = 0, noTime, m.static
	}
	m.onStatuses(r.Statuses)
	switch {
	case m.state == Rejoining: // the join will list everything
	case lists:
		m.verify = verification{}
		change := m.target.change
		m.take(Assignment{r.Active, r.Standby, r.Warmup}, r.Foreign, m.ready)
		if m.target.change == change {
			// For the coordinator something has changed, so it had given us what we never heard of, and may wait for its release. Tell it what
			// we have.
			m.sent.tasks, m.expired = false, true
		}
	default:
		if m.ready != m.target.ready {
			t := m.target
			t.ready = m.ready
			m.changes(t)
		}
		m.describe()
	}
}

// onHeartbeatFailed takes an error response, or none (§4).
func (m *Member) onHeartbeatFailed(e HeartbeatFailed) {
	if e.ID != 0 && e.ID == m.leave.id {
		m.leaveAnswered(e.Class)
		return
	}
	f, ok := m.answered(e.ID)
	if !ok {
		return
	}
	switch e.Class {
	case Transport, Moved:
		m.forgetCoordinator()
	default:
		m.coordinatorWorks()
	}
	if !f.current(m) {
		return
	}
	m.resync()
	switch e.Class {
	case Transport, Moved, Unexplained:
		// The coordinator may have written the change before it answered so, or fell.
		m.suspect()
		m.mayHold = m.mayHold || f.kind == joining && m.static
	}
	switch {
	case f.kind == releasing:
		m.releaseFailed(e)
	case m.state == Joining:
		m.joinFailed(e)
	case m.state.inGroup():
		m.steadyFailed(e)
	case m.state == PrepareLeaving || m.state == Leaving:
		m.failedWhileLeaving(e)
	}
}

// answered takes the heartbeat off the wire. It fails for an id that is not awaited.
func (m *Member) answered(id uint64) (inflight, bool) {
	if id == 0 || id != m.inflight.id {
		return inflight{}, false
	}
	f := m.inflight
	m.inflight = inflight{}
	return f, true
}

// current reports whether the answer still means anything: not if the member has begun a new life since, because an old answer would look
// like one to the new join (§2.3, M-15), and not in the states that ignore answers.
func (f inflight) current(m *Member) bool {
	if f.life != m.life {
		return false
	}
	return m.state.inGroup() || m.state == PrepareLeaving || m.state == Leaving
}

func (m *Member) joinFailed(e HeartbeatFailed) {
	switch e.Class {
	case FencedEpoch:
		m.release = true // Kafka 4.1 takes no second join of an id it knows
		m.joinRefused()
	case UnknownMember:
		m.joinRefused()
	case GroupGone:
		m.fail(fmt.Errorf("%w: %w", ErrGroupOfAnotherType, e.Err))
	case Unreleased:
		// Another process, or our own former self, holds the instance id until it says good-bye or its session ends.
		if m.unreleasedAt.IsZero() {
			m.unreleasedAt = m.now
		}
		if m.now.Sub(m.unreleasedAt) >= m.cfg.InstancePatience {
			m.fail(fmt.Errorf("%w: %q: %w", ErrInstanceIDInUse, m.cfg.InstanceID, e.Err))
			return
		}
		m.watch.once(m, "unreleased", "the instance id is still held by another process: waiting for its session to end", m.cfg.InstanceID)
		m.release = m.mayHold
		m.backOff()
	case Transport:
		// A static join that was taken although its answer was lost cannot be repeated: the broker sees an instance id in use (§10.3).
		m.release = m.static
		m.backOff()
	default:
		m.failedAnyhow(e)
	}
}

// joinRefused backs off from the second refusal on, and as a last resort takes a new member id.
func (m *Member) joinRefused() {
	if m.refusedJoins == 0 {
		m.refusedSince = m.now
		m.skipBackoff()
	} else {
		m.backOff()
	}
	m.refusedJoins++
	if m.cfg.NewMemberID != nil && m.now.Sub(m.refusedSince) >= m.cfg.SessionTimeout {
		m.note(true, "the broker keeps refusing the member id: taking a new one", m.id)
		m.id = m.cfg.NewMemberID()
		m.refusedJoins, m.release, m.mayHold = 0, false, false
	}
}

// releaseFailed ignores what the coordinator said, if one said anything: the join will show.
func (m *Member) releaseFailed(e HeartbeatFailed) {
	switch e.Class {
	case Transport, Loading:
		m.backOff()
	case Moved:
		m.skipBackoff()
	default:
		m.release = false
	}
}

func (m *Member) steadyFailed(e HeartbeatFailed) {
	switch e.Class {
	case FencedEpoch:
		m.release = m.isStatic() // the record lives on, and a static one cannot be joined again while it does
		m.fenced()
	case UnknownMember:
		m.mayHold = false
		m.fenced()
	case GroupGone:
		// Deleted or expired: joining makes it again. Unless somebody else took the id, which the next time shows.
		if m.groupGone {
			m.fail(e.Err)
			return
		}
		m.groupGone = true
		m.fenced()
	case Transport:
		m.backOff()
	default:
		m.failedAnyhow(e)
	}
}

// failedAnyhow is what joining and steady heartbeats have in common.
func (m *Member) failedAnyhow(e HeartbeatFailed) {
	switch e.Class {
	case Moved:
		m.skipBackoff()
	case Loading:
		m.backOff()
	case TopicDenied:
		if !m.topicDenied {
			m.topicDenied = true
			m.do(Report{Err: m.err(e.Err), Stop: !m.cfg.KeepOnTopicDenied})
		}
		m.backOff()
	case Unexplained:
		m.unexplained(e.Err)
	case Unreleased, Unrecoverable:
		m.fail(e.Err)
	default:
		panic(fmt.Sprintf("member: unknown class %v", e.Class))
	}
}

// failedWhileLeaving: the leave is all that matters, and it goes on.
func (m *Member) failedWhileLeaving(e HeartbeatFailed) {
	switch e.Class {
	case Unrecoverable:
		m.fail(e.Err)
	case FencedEpoch, UnknownMember, GroupGone:
		if m.state == PrepareLeaving && m.epoch > 0 {
			// The tasks are others' now, so the commit under way must not be: lose them. There is nothing left to leave.
			m.epoch = 0
			m.leave.silent = true
			m.lose()
		}
	case Moved:
		m.skipBackoff()
	default:
		m.backOff()
	}
}
