package coordinator

import (
	"cmp"
	"slices"
)

// AssignorName is the name of the one assignor there is.
const AssignorName = "sticky"

// assignorMember is what the assignor knows of a member.
type assignorMember struct {
	id       string
	process  string
	previous tasks          // assigned tasks (4.4) or the last target (4.2, 4.3)
	offsets  map[task]int64 // reported (4.4)
}

// assignor is the sticky assignor (§13): active tasks stay, else go where state is, else to the least loaded process; standbys likewise. Where
// brokers break ties by hash order it takes the smaller id.
type assignor struct {
	members   []*placed
	processes []*process

	activeQuota quota
	totalQuota  quota
}

type placed struct {
	assignorMember
	process *process
	tasks   tasks
	count   int
}

type process struct {
	id      string
	members []*placed
	count   int
	holds   map[task]bool
}

// lighter compares the load of processes, tasks per member, without rounding.
func (p *process) lighter(o *process) bool { return p.count*len(o.members) < o.count*len(p.members) }

// quota is the share of a member, recomputed whenever a member has its full share (§13.2).
type quota struct{ tasks, members, each int }

func newQuota(tasks, members int) quota {
	q := quota{tasks: tasks, members: members}
	q.compute()
	return q
}

func (q *quota) compute() {
	q.each = 0
	if q.members > 0 && q.tasks > 0 {
		q.each = (q.tasks + q.members - 1) / q.members
	}
}

// reached notes that a member now has count tasks.
func (q *quota) reached(count int) {
	if count == q.each && q.members > 0 {
		q.members--
		q.tasks -= count
		q.compute()
	}
}

// assign returns the target of each member. all is ascending by partition, then subtopology id. There is at least one member.
func assign(members []assignorMember, all []task, stateful map[task]bool, standbys int) map[string]tasks {
	a := &assignor{}
	byProcess := map[string]*process{}
	slices.SortFunc(members, func(x, y assignorMember) int { return cmp.Compare(x.id, y.id) })
	for _, m := range members {
		p := byProcess[m.process]
		if p == nil {
			p = &process{id: m.process, holds: map[task]bool{}}
			byProcess[m.process] = p
			a.processes = append(a.processes, p)
		}
		pm := &placed{assignorMember: m, process: p}
		p.members = append(p.members, pm)
		a.members = append(a.members, pm)
	}
	slices.SortFunc(a.processes, func(x, y *process) int { return cmp.Compare(x.id, y.id) })

	standbyCopies := 0
	if standbys > 0 {
		standbyCopies = len(stateful) * standbys
	}
	a.activeQuota = newQuota(len(all), len(a.members))
	a.totalQuota = newQuota(len(all)+standbyCopies, len(a.members))

	a.assignActive(all)
	if standbys > 0 {
		a.assignStandby(stateful, standbys)
	}
	out := make(map[string]tasks, len(a.members))
	for _, m := range a.members {
		out[m.id] = m.tasks
	}
	return out
}

func (a *assignor) place(m *placed, r role, t task) {
	m.tasks.add(r, t, 0)
	m.count++
	m.process.count++
	m.process.holds[t] = true
	if r == active {
		a.activeQuota.reached(m.count)
	}
	a.totalQuota.reached(m.count)
}

func (a *assignor) previousActive(t task) *placed {
	for _, m := range a.members {
		if m.previous.has(active, t) {
			return m
		}
	}
	return nil
}

// candidates lists members that have state of t: standbys, then those that only report an offset, each by offset descending (§13.3, 2).
func (a *assignor) candidates(t task) []*placed {
	var held, reported []*placed
	for _, m := range a.members {
		if m.previous.has(standby, t) || m.previous.has(warmup, t) {
			held = append(held, m)
		} else if _, ok := m.offsets[t]; ok && !m.previous.has(active, t) {
			reported = append(reported, m)
		}
	}
	byOffset := func(x, y *placed) int { return cmp.Compare(y.offsets[t], x.offsets[t]) }
	slices.SortStableFunc(held, byOffset)
	slices.SortStableFunc(reported, byOffset)
	return append(held, reported...)
}

// leastLoaded walks the list: a later candidate wins only if both its process and itself have strictly less.
func leastLoaded(candidates []*placed, skip func(*placed) bool) *placed {
	var best *placed
	for _, m := range candidates {
		if skip != nil && skip(m) {
			continue
		}
		if best == nil || m.process.lighter(best.process) && m.count < best.count {
			best = m
		}
	}
	return best
}

func (a *assignor) assignActive(all []task) {
	rest := all
	pass := func(choose func(task) *placed) {
		var left []task
		for _, t := range rest {
			if m := choose(t); m != nil && m.count < a.activeQuota.each {
				a.place(m, active, t)
			} else {
				left = append(left, t)
			}
		}
		rest = left
	}
	pass(a.previousActive)
	pass(func(t task) *placed { return leastLoaded(a.candidates(t), nil) })

	slices.SortFunc(rest, task.compare)
	for _, t := range rest {
		a.place(a.idlest(nil), active, t)
	}
}

// idlest is the least loaded member of the least loaded process that skip lets pass; nil if there is none.
func (a *assignor) idlest(skip func(*process) bool) *placed {
	var best *process
	for _, p := range a.processes {
		if skip != nil && skip(p) {
			continue
		}
		if best == nil || p.lighter(best) {
			best = p
		}
	}
	if best == nil {
		return nil
	}
	return slices.MinFunc(best.members, func(x, y *placed) int { return cmp.Compare(x.count, y.count) })
}

func (a *assignor) assignStandby(stateful map[task]bool, replicas int) {
	order := sortedTasks(stateful)
	slices.SortFunc(order, func(x, y task) int {
		return cmp.Or(cmp.Compare(y.partition, x.partition), cmp.Compare(y.subtopology, x.subtopology))
	})
	type deferred struct {
		task task
		n    int
	}
	var later []deferred
	for _, t := range order {
		holds := func(m *placed) bool { return m.process.holds[t] }
		for i := range replicas {
			m := a.previousActive(t)
			if m == nil || holds(m) || m.count >= a.totalQuota.each {
				m = leastLoaded(a.candidates(t), holds)
			}
			if m == nil || m.count >= a.totalQuota.each {
				later = append(later, deferred{t, replicas - i})
				break
			}
			a.place(m, standby, t)
		}
	}
	slices.SortFunc(later, func(x, y deferred) int { return task.compare(y.task, x.task) })
	for _, d := range later {
		for range d.n {
			m := a.idlest(func(p *process) bool { return p.holds[d.task] })
			if m == nil {
				break // no process left: the copy is dropped
			}
			a.place(m, standby, d.task)
		}
	}
}
