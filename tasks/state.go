package tasks

import (
	"fmt"
	"slices"

	"github.com/millrace/millrace/topology"
)

// State is where a task is in its life.
//
//	Created ──▶ Restoring ──▶ Running ──▶ Suspended ──▶ Closed
//	   │            │                        ▲   │
//	   └────────────┴────────────────────────┘   └──▶ Restoring
//
// A task is Created when the group assigns it, Restoring while its stores are opened and catch up with their changelogs, Running when it may process,
// and Suspended when it is given away or fails: it takes no more records and waits to be closed, or to be assigned again.
type State uint8

// The states.
const (
	Created State = iota
	Restoring
	Running
	Suspended
	Closed
)

var stateNames = [...]string{"created", "restoring", "running", "suspended", "closed"}

// String returns the state in lower case.
func (s State) String() string { return stateNames[s] }

var transitions = [...][]State{
	Created:   {Restoring, Suspended},
	Restoring: {Running, Suspended},
	Running:   {Suspended},
	Suspended: {Restoring, Closed},
	Closed:    {},
}

// TransitionError is a step that the life of a task does not have: a fault of this package.
type TransitionError struct {
	Task     topology.TaskID
	From, To State
}

func (e *TransitionError) Error() string {
	return fmt.Sprintf("tasks: %s cannot go from %s to %s", e.Task, e.From, e.To)
}

// move is the one place where the state of a task changes.
func (t *Task) move(to State, why string) error {
	from := t.state
	if !slices.Contains(transitions[from], to) {
		return &TransitionError{t.id, from, to}
	}
	t.state = to
	t.log.Debug("task changes state", "from", from.String(), "to", to.String(), "why", why)
	if t.onState != nil {
		t.onState(t.id, from, to, why)
	}
	return nil
}
