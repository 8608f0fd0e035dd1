package member

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace/millrace/topology"
)

// work is what the worker was asked to do and has not finished; id 0: nothing.
type work struct {
	id     uint64
	kind   workKind
	tasks  []topology.TaskID // revoking
	target target            // the captured target of the reconciliation
}

type workKind uint8

const (
	idle workKind = iota
	revoking
	assigning
	losing
)

// setTarget replaces the target, if it is another one.
func (m *Member) setTarget(a Assignment, ready bool) {
	t := target{Assignment: a.normalize(), ready: ready}
	if m.target.change != 0 && m.target.sameContent(t) {
		return
	}
	m.changes(t)
}

func (m *Member) changes(t target) {
	m.lastID++ // any growing number will do
	t.change = m.lastID
	m.target = t
	switch m.state {
	case Joining, Stable, Reconciling:
		m.to(Reconciling)
	case Acknowledging:
		// The assignment that was taken is told first; the heartbeat that does so leads on to Reconciling.
	}
	m.retryAt, m.tries = maxTime(m.retryAt, m.now), 0
}

// unknownTasks names the sub-topologies of an assignment that this program does not have.
func (m *Member) unknownTasks(a Assignment, foreign []string) []string {
	unknown := make(map[string]bool)
	for _, id := range foreign {
		unknown[strconv.Quote(id)] = true
	}
	for _, tasks := range [][]topology.TaskID{a.Active, a.Standby, a.Warmup} {
		for _, t := range tasks {
			if !m.known[t.Subtopology] {
				unknown[strconv.Itoa(t.Subtopology)] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(unknown))
}

// take makes an assignment the target, or fails if the program cannot run it.
func (m *Member) take(a Assignment, foreign []string, ready bool) {
	if unknown := m.unknownTasks(a, foreign); len(unknown) > 0 {
		m.fail(fmt.Errorf("%w: %s", ErrUnknownSubtopology, strings.Join(unknown, ", ")))
		return
	}
	m.setTarget(a, ready)
}

// wantsWork reports whether the worker is to be asked for something, at retryAt.
func (m *Member) wantsWork() bool {
	if m.work.id != 0 {
		return false
	}
	return m.state == Reconciling && m.owned.change != m.target.change || m.state == Rejoining
}

// reconcile asks the worker for the next step: give up active tasks first, then take the whole target (§6.1).
func (m *Member) reconcile() {
	if !m.wantsWork() || m.now.Before(m.retryAt) {
		return
	}
	t := m.target
	if m.state == Rejoining {
		t = m.rejoinTarget()
	}
	if tasks := minus(m.running, t.Active); len(tasks) > 0 {
		m.revoke(tasks, t)
		return
	}
	m.assign(t)
}

func (m *Member) revoke(tasks []topology.TaskID, t target) {
	m.work = work{id: m.nextID(), kind: revoking, tasks: tasks, target: t}
	m.do(Revoke{m.work.id, tasks})
}

func (m *Member) assign(t target) {
	m.running = union(m.running, t.Active) // even a failed assign may have created some
	m.work = work{id: m.nextID(), kind: assigning, target: t}
	m.do(Assign{m.work.id, t.Assignment, t.ready})
}

// lose tells the worker that its tasks are others'. Every unfinished command is overtaken.
func (m *Member) lose() {
	m.work = work{id: m.nextID(), kind: losing}
	m.do(Lose{m.work.id})
}

func (m *Member) onRevoked(e Revoked) {
	if m.work.kind != revoking || e.ID != m.work.id {
		return
	}
	w := m.work
	m.work = work{}
	switch {
	case errors.Is(e.Err, ErrMigrated):
		m.onMigrated()
		return
	case m.state == PrepareLeaving:
		m.leaveNow() // with or without error: there is no later attempt
		return
	case e.Err != nil:
		m.workFailed("revoke", e.Err)
		return
	}
	m.running = minus(m.running, w.tasks)
	m.assign(w.target)
}

func (m *Member) onAssigned(e Assigned) {
	if m.work.kind != assigning || e.ID != m.work.id {
		return
	}
	t := m.work.target
	m.work = work{}
	switch {
	case errors.Is(e.Err, ErrMigrated):
		m.onMigrated()
		return
	case e.Err != nil:
		m.workFailed("assign", e.Err)
		return
	}
	m.running = t.Active
	m.tries = 0
	if m.state == Rejoining {
		m.release = m.release || m.isStatic()
		m.startJoining()
		return
	}
	m.owned = t
	m.reported = t.Assignment
	m.to(Acknowledging)
}

// workFailed lets a reconciliation be retried. Nothing of it is told to the broker, so no task counts as given up (M-24).
func (m *Member) workFailed(op string, err error) {
	m.retryAt = m.now.Add(m.backoff(m.tries))
	m.tries++
	m.do(Report{Err: m.err(fmt.Errorf("%s tasks: %w", op, err))})
}

func (m *Member) onLostDone(e LostDone) {
	if m.work.kind != losing || e.ID != m.work.id {
		return
	}
	m.work = work{}
	m.running = nil
	switch m.state {
	case Fenced:
		if m.leave.wanted {
			m.left()
			return
		}
		m.startJoining()
	case PrepareLeaving:
		m.leaveNow()
	case Stale, Leaving:
		// rejoin goes on when the leave is answered, too.
	}
}

// fenced is the reaction to a broker that does not count this member among the living (§6.4).
func (m *Member) fenced() {
	m.rejoinSoon()
	m.epoch = 0
	m.lose()
	m.to(Fenced)
}

// rejoinSoon lets the next join go without backoff (§3 rule 5), but only once until a steady heartbeat succeeds: a broker that takes joins and then
// fences what has joined, or its commits, is not asked in a tight loop.
func (m *Member) rejoinSoon() {
	m.skipBackoff()
	if m.fences > 0 {
		m.notBefore = m.now.Add(m.backoff(m.fences - 1))
	}
	m.fences++
}
