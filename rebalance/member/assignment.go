package member

import (
	"slices"
	"strings"

	"github.com/millrace/millrace/topology"
)

// Assignment is a set of tasks by role. Slices that come out of a [Member] are ascending, without duplicates, hold no task in two roles,
// and must not be modified.
type Assignment struct {
	Active  []topology.TaskID
	Standby []topology.TaskID
	Warmup  []topology.TaskID
}

// normalize sorts, and gives a task named in several roles the strongest one: active beats standby and warm-up, standby beats warm-up (§6.1).
func (a Assignment) normalize() Assignment {
	active := sorted(a.Active)
	standby := minus(sorted(a.Standby), active)
	warmup := minus(minus(sorted(a.Warmup), active), standby)
	return Assignment{active, standby, warmup}
}

func (a Assignment) equal(b Assignment) bool {
	return slices.Equal(a.Active, b.Active) && slices.Equal(a.Standby, b.Standby) && slices.Equal(a.Warmup, b.Warmup)
}

// String prints the three roles, such as "0_0,0_1 standby=1_0"; "none" if there is no task at all.
func (a Assignment) String() string {
	var parts []string
	for _, role := range []struct {
		prefix string
		tasks  []topology.TaskID
	}{{"", a.Active}, {"standby=", a.Standby}, {"warmup=", a.Warmup}} {
		if len(role.tasks) > 0 {
			parts = append(parts, role.prefix+join(role.tasks))
		}
	}
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, " ")
}

func join(tasks []topology.TaskID) string {
	names := make([]string, len(tasks))
	for i, t := range tasks {
		names[i] = t.String()
	}
	return strings.Join(names, ",")
}

// sorted returns a sorted copy without duplicates.
func sorted(tasks []topology.TaskID) []topology.TaskID {
	out := slices.Clone(tasks)
	slices.SortFunc(out, topology.TaskID.Compare)
	return slices.Compact(out)
}

// minus returns the tasks of a that are not in b; both are sorted.
func minus(a, b []topology.TaskID) []topology.TaskID {
	var out []topology.TaskID
	for _, t := range a {
		if _, found := slices.BinarySearchFunc(b, t, topology.TaskID.Compare); !found {
			out = append(out, t)
		}
	}
	return out
}

// union returns the tasks of both, sorted.
func union(a, b []topology.TaskID) []topology.TaskID {
	return sorted(slices.Concat(a, b))
}

// target is what a member shall run, or runs.
type target struct {
	Assignment
	ready bool // the group may start new tasks (§5)

	// change counts the changes of the target (the local epoch of §2.3), so that A, then B, then A again is three targets. 0: none.
	change uint64
}

func (t target) sameContent(o target) bool { return t.ready == o.ready && t.equal(o.Assignment) }
