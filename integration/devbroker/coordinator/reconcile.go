package coordinator

// reconcile moves a member one step towards its target (§15) and returns the member to store, which is m itself if nothing changed. owned is what the
// request reports, nil if it reports nothing.
func (g *group) reconcile(release Release, m *member, target tasks, targetEpoch int32, owned *tasks) *member {
	switch m.state {
	case stable:
		if m.epoch == targetEpoch {
			return m
		}
		return g.step(release, m, m.epoch, target, targetEpoch, owned)
	case unrevoked:
		if owned == nil || owned.overlaps(m.pending) {
			return m
		}
		return g.step(release, m, m.epoch+1, target, targetEpoch, owned)
	case unreleased:
		return g.step(release, m, m.epoch, target, targetEpoch, owned)
	default:
		panic("coordinator: member " + m.id + " is in state " + m.state.String())
	}
}

// step computes the next assignment of a member. epoch is the one it keeps if it has to revoke something first.
func (g *group) step(release Release, m *member, epoch int32, target tasks, targetEpoch int32, owned *tasks) *member {
	var keep, revoke, moved tasks
	for r := range m.assigned {
		for t, e := range m.assigned[r] {
			switch {
			case target.has(role(r), t):
				keep.add(role(r), t, e)
			case release >= Kafka44 && role(r) != active && (target.has(active, t) || target.has(other(role(r)), t)):
				moved.add(role(r), t, e) // a copy that gets another role stays until it has it (§15.4)
			default:
				revoke.add(role(r), t, e)
			}
		}
	}

	holders := g.holders()
	var add tasks
	allFree := true
	for r := range target {
		for t := range target[r] {
			switch {
			case m.assigned.has(role(r), t):
			case !holders.free(release, m, role(r), t):
				allFree = false
			case role(r) == active:
				add.add(active, t, targetEpoch)
			default:
				add.add(role(r), t, 0)
			}
		}
	}

	next := m.clone()
	next.prevEpoch = m.epoch
	next.assigned, next.pending = keep, tasks{}
	if !revoke.empty() && (owned == nil || owned.overlaps(revoke)) {
		next.state, next.epoch, next.pending = unrevoked, epoch, revoke
		for r := range moved {
			for t := range moved[r] {
				// Nothing is added while a revocation is open, but standby and warm-up trade places in one step.
				if o := other(role(r)); add.has(o, t) {
					next.assigned.add(o, t, 0)
				} else {
					next.assigned.add(role(r), t, 0)
				}
			}
		}
		if release >= Kafka44 {
			// An active task that becomes a standby or warm-up here has the new role at once, beside the revocation of the old one.
			for t := range revoke[active] {
				for _, r := range []role{standby, warmup} {
					if add.has(r, t) {
						next.assigned.add(r, t, 0)
					}
				}
			}
		}
	} else {
		next.epoch = targetEpoch
		next.state = stable
		if !allFree {
			next.state = unreleased
		}
		for r := range add {
			for t, e := range add[r] {
				next.assigned.add(role(r), t, e)
			}
		}
		for r := range moved {
			for t := range moved[r] {
				if !add.has(active, t) && !add.has(other(role(r)), t) {
					next.assigned.add(role(r), t, 0)
				}
			}
		}
	}
	if next.epoch == m.epoch && next.prevEpoch == m.prevEpoch && next.state == m.state && next.assigned.equal(m.assigned) && next.pending.equal(m.pending) {
		return m
	}
	return next
}

// other is the other kind of copy.
func other(r role) role {
	switch r {
	case standby:
		return warmup
	case warmup:
		return standby
	default:
		panic("coordinator: an active task is not a copy")
	}
}

// holders tells which members hold a task in which role, pending revocations included.
type holders map[task][]holder

type holder struct {
	process, member string
	role            role
}

func (g *group) holders() holders {
	h := holders{}
	for _, m := range g.members {
		for _, ts := range []tasks{m.assigned, m.pending} {
			for r := range ts {
				for t := range ts[r] {
					h[t] = append(h[t], holder{m.meta.processID, m.id, role(r)})
				}
			}
		}
	}
	return h
}

// free reports whether m can have t in role r now (§15.3).
func (h holders) free(release Release, m *member, r role, t task) bool {
	for _, o := range h[t] {
		sameProcess := o.process == m.meta.processID
		inPlace := release >= Kafka44 && o.member == m.id // 4.4: what this very member holds in the other role does not block
		switch r {
		case active:
			if o.role == active || sameProcess && !inPlace {
				return false
			}
		case standby:
			if sameProcess && (o.role == standby || !inPlace) {
				return false
			}
		case warmup:
			// A warm-up is for a member that does not run the task: its own active does block.
			if sameProcess && (o.role != standby || !inPlace) {
				return false
			}
		}
	}
	return true
}
