package member

import (
	"fmt"
	"slices"
)

// State is where a member stands in the life drawn in the package comment.
type State uint8

const (
	// Unsubscribed: not in the group; nothing is sent.
	Unsubscribed State = iota
	// Joining: wants in; the heartbeat has epoch 0 and goes out at once.
	Joining
	// Reconciling: the target differs from what the worker runs; heartbeats by the interval.
	Reconciling
	// Acknowledging: the worker runs the target; the heartbeat that says so goes out at once.
	Acknowledging
	// Stable: nothing to do; heartbeats by the interval.
	Stable
	// Rejoining: an assignment may have been lost and cannot be asked for, so the worker gives up its active tasks before a new join (§6.7).
	Rejoining
	// Fenced: the broker dropped the member; the worker drops its tasks, then the member joins again.
	Fenced
	// Stale: the member left because the worker stopped polling, or because its commit was fenced; it joins again when the worker polls.
	Stale
	// PrepareLeaving: the worker gives up its tasks before the leave; heartbeats by the interval.
	PrepareLeaving
	// Leaving: the leave is on its way.
	Leaving
	// Fatal: over; nothing is sent and every event is ignored.
	Fatal
)

var stateNames = [...]string{
	"unsubscribed", "joining", "reconciling", "acknowledging", "stable", "rejoining", "fenced", "stale", "prepare-leaving", "leaving", "fatal",
}

func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// next holds the allowed transitions (§2.1, and Rejoining).
var next = [...][]State{
	Unsubscribed:   {Joining},
	Joining:        {Reconciling, PrepareLeaving, Fatal},
	Reconciling:    {Reconciling, Acknowledging, Rejoining, Fenced, PrepareLeaving, Fatal},
	Acknowledging:  {Reconciling, Stable, Rejoining, Fenced, PrepareLeaving, Fatal},
	Stable:         {Reconciling, Rejoining, Fenced, PrepareLeaving, Fatal},
	Rejoining:      {Joining, Fenced, PrepareLeaving, Fatal},
	Fenced:         {Joining, Unsubscribed},
	Stale:          {Joining, Unsubscribed},
	PrepareLeaving: {Leaving, Unsubscribed, Fatal},
	Leaving:        {Stale, Unsubscribed, Fatal},
	Fatal:          {},
}

// to moves the state. A transition outside the table is a mistake of this package.
func (m *Member) to(s State) {
	if !slices.Contains(next[m.state], s) {
		panic(fmt.Sprintf("member: no transition from %v to %v", m.state, s))
	}
	m.state = s
}

// inGroup reports whether the state is one of a member that takes part, or is about to.
func (s State) inGroup() bool {
	switch s {
	case Joining, Reconciling, Acknowledging, Stable, Rejoining:
		return true
	}
	return false
}
