package coordinator

import (
	"cmp"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// task is a partition of a subtopology, the unit of assignment.
type task struct {
	subtopology string
	partition   int32
}

func (t task) compare(o task) int {
	return cmp.Or(cmp.Compare(t.subtopology, o.subtopology), cmp.Compare(t.partition, o.partition))
}

// role is what a member does with a task.
type role int

const (
	active role = iota
	standby
	warmup
	numRoles
)

// tasks holds tasks by role. The value of an active task is its assignment epoch: the assignment epoch at which the member got it, 0 after a static
// member's temporary leave (§15.2, §6.4). Values of other roles are 0. A tasks value is never changed once it is reachable from a group.
type tasks [numRoles]map[task]int32

func (ts tasks) has(r role, t task) bool { _, ok := ts[r][t]; return ok }

func (ts tasks) empty() bool {
	for _, m := range ts {
		if len(m) > 0 {
			return false
		}
	}
	return true
}

func (ts tasks) equal(o tasks) bool {
	for r := range ts {
		if !maps.Equal(ts[r], o[r]) {
			return false
		}
	}
	return true
}

func (ts *tasks) add(r role, t task, epoch int32) {
	if ts[r] == nil {
		ts[r] = map[task]int32{}
	}
	ts[r][t] = epoch
}

// overlaps reports whether some task is in both, in the same role.
func (ts tasks) overlaps(o tasks) bool {
	for r := range ts {
		for t := range ts[r] {
			if o.has(role(r), t) {
				return true
			}
		}
	}
	return false
}

// within reports whether every task is in o too, in the same role.
func (ts tasks) within(o tasks) bool {
	for r := range ts {
		for t := range ts[r] {
			if !o.has(role(r), t) {
				return false
			}
		}
	}
	return true
}

func sortedTasks[V any](m map[task]V) []task {
	return slices.SortedFunc(maps.Keys(m), task.compare)
}

// wireTasks returns tasks as messages carry them: one entry per subtopology, ascending, never nil.
func wireTasks(m map[task]int32) []kmsg.TaskIDs {
	out := []kmsg.TaskIDs{}
	for _, t := range sortedTasks(m) {
		if n := len(out); n == 0 || out[n-1].SubtopologyID != t.subtopology {
			id := kmsg.NewTaskIDs()
			id.SubtopologyID = t.subtopology
			out = append(out, id)
		}
		last := &out[len(out)-1]
		last.Partitions = append(last.Partitions, t.partition)
	}
	return out
}

func wireAssignment(ts tasks) kmsg.StreamsAssignment {
	a := kmsg.NewStreamsAssignment()
	a.ActiveTasks = wireTasks(ts[active])
	a.StandbyTasks = wireTasks(ts[standby])
	a.WarmupTasks = wireTasks(ts[warmup])
	return a
}

// ownedTasks reads what a request reports; nil if it does not report. Validation has seen to it that all three lists are there or none.
func ownedTasks(req *kmsg.StreamsGroupHeartbeatRequest) *tasks {
	if req.ActiveTasks == nil || req.StandbyTasks == nil || req.WarmupTasks == nil {
		return nil
	}
	var ts tasks
	for r, list := range [numRoles][]kmsg.TaskIDs{req.ActiveTasks, req.StandbyTasks, req.WarmupTasks} {
		for _, id := range list {
			for _, p := range id.Partitions {
				ts.add(role(r), task{id.SubtopologyID, p}, 0)
			}
		}
	}
	return &ts
}
