package member

// verification is the countermeasure to lost responses. Brokers list tasks only on a join and on a change, so an assignment whose response is
// lost would never be heard of again: granted tasks would be run by nobody, revoked ones would be kept until the rebalance timeout (§6.7).
type verification struct {
	suspect bool   // an answer may have been lost
	id      uint64 // of the Describe under way, 0: none
	tries   int    // that failed in a row
}

// maxDescribes is how often describe may fail in a row before the member joins again instead.
const maxDescribes = 3

// suspect notes that a heartbeat may have changed something without our hearing of it. A describe under way may be older, so its answer is not
// taken any more.
func (m *Member) suspect() {
	m.verify.suspect = true
	m.verify.id = 0
}

// describe starts a verification, after a heartbeat that succeeded without lists.
func (m *Member) describe() {
	if m.verify.suspect && m.verify.id == 0 {
		m.verify.id = m.nextID()
		m.do(Describe{m.verify.id})
	}
}

func (m *Member) verifying(id uint64) bool {
	if id != m.verify.id || id == 0 {
		return false
	}
	m.verify.id = 0
	switch m.state {
	case Reconciling, Acknowledging, Stable:
		return true
	}
	return false
}

func (m *Member) onDescribed(e Described) {
	if !m.verifying(e.ID) {
		return
	}
	if !e.Found || e.Epoch != m.epoch {
		return // of another moment than our last heartbeat: again after the next
	}
	if m.inflight.lists {
		return // on its way are lists that do not know of what we hear now, and may release it: again after the answer
	}
	m.verify = verification{}
	m.take(e.Tasks, e.Foreign, m.ready)
}

func (m *Member) onDescribeFailed(e DescribeFailed) {
	if !m.verifying(e.ID) {
		return
	}
	m.verify.tries++
	switch e.Class {
	case Transport, Moved, Loading, Unexplained:
		if m.verify.tries < maxDescribes {
			return // again after the next heartbeat
		}
	}
	m.note(true, "cannot ask for an assignment that may have been lost: joining again", e.Err.Error())
	m.verify = verification{}
	m.work = work{}
	m.retryAt, m.tries = m.now, 0
	m.to(Rejoining)
}

// rejoinTarget is what the worker keeps over a controlled rejoin. The empty lists of a join release every active task for others, so none may
// be left, not even suspended: another member may have worked on it before it comes back. Standby and warm-up tasks may go on (§6.4).
func (m *Member) rejoinTarget() target {
	return target{Assignment: Assignment{Standby: m.owned.Standby, Warmup: m.owned.Warmup}, ready: m.owned.ready}
}
