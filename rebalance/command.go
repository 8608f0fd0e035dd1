package rebalance

import "github.com/millrace/millrace/topology"

// Command is what the worker must do: a [Revoke], [Assign], [Lose], [StopApplication] or [Failed]. The worker answers each, once, with Done; an answer
// to a command that was overtaken is ignored. Slices of a command must not be modified.
type Command interface {
	// Done says that the command was carried out, or why not. It does not block.
	Done(err error)
}

type (
	// Revoke asks the worker to give up these active tasks: stop fetching, commit (under EOS all tasks of the producer), suspend. Standby and warm-up
	// tasks go on. After an error nothing counts as given up and the command comes again after a backoff; answer [ErrMigrated] if the commit
	// was refused because others own the tasks. Tasks the worker does not have are done already.
	Revoke struct {
		Tasks []topology.TaskID
		answer
	}

	// Assign asks the worker to have exactly these tasks: keep or resume what it has in the same role, recycle what changes its role, close cleanly
	// what is not named, create the rest. Restoring goes on after Done. The whole assignment is named each time, and a task in one role only.
	// After an error nothing counts as taken and the command comes again.
	//
	// If Ready is false the group is not ready: new tasks wait, tasks that already run go on.
	Assign struct {
		Active, Standby, Warmup []topology.TaskID
		Ready                   bool
		answer
	}

	// Lose says that the active tasks belong to others now: no commit, no more output, close them without a new checkpoint; abort a transaction. Standby
	// and warm-up tasks may go on. It overtakes commands that were not taken yet. The member does not join again before Done.
	Lose struct{ answer }

	// StopApplication says that a member asked all instances of the application to stop. The answer does not matter.
	StopApplication struct {
		Detail string
		answer
	}

	// Failed says that this worker must stop. If Fatal, the membership has ended, after a Lose; else it goes on until the worker has closed its tasks and
	// leaves. The answer does not matter.
	Failed struct {
		Err   error
		Fatal bool
		answer
	}
)

// answer carries the answer to a command back to the goroutine of Run.
type answer struct{ done func(error) }

// Done says that the command was carried out, or why not. It does not block.
func (a answer) Done(err error) {
	if a.done != nil {
		a.done(err)
	}
}
