package tasks

import (
	"errors"
	"fmt"

	"github.com/millrace/millrace/topology"
)

// Error is what ended a task.
type Error struct {
	Task topology.TaskID
	Op   string // such as "process" or "restore"
	Err  error
}

func (e *Error) Error() string { return fmt.Sprintf("tasks: %s %s: %v", e.Op, e.Task, e.Err) }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Outcomes of a commit that a producer reports.
var (
	// ErrMigrated is a commit that was refused because the worker is no longer the member that owns the tasks. They are lost.
	ErrMigrated = errors.New("tasks: the group has given the tasks to somebody else")
	// ErrUnknownOutcome is a transaction that may or may not have ended. The stores start again from what they hold.
	ErrUnknownOutcome = errors.New("tasks: it is not known whether the transaction was committed")
	// ErrAborted is a transaction that the broker aborted; nothing of it happened, and it may be tried again from the last commit.
	ErrAborted = errors.New("tasks: the transaction was aborted")
)

// ErrOutOfRange is in [Batch.Err] when the place that is to be read next is not in the partition any more: its records were deleted.
var ErrOutOfRange = errors.New("tasks: the position is outside the partition")

// abort carries an error from a node to the task through the functions of the user that lie between them.
type abort struct{ err error }

// Throw ends the processing of the record at hand. It does not return.
func Throw(err error) { panic(abort{err}) }

// Catch runs f and returns what it throws. A panic goes on.
func Catch(f func()) (err error) {
	defer func() {
		r := recover()
		if a, ok := r.(abort); ok {
			err = a.err
		} else if r != nil {
			panic(r)
		}
	}()
	f()
	return nil
}

// Panic is a panic of a user function. Whoever runs the program adds where it happened.
type Panic struct {
	Value any
	Stack []byte
}

func (p *Panic) Error() string { return fmt.Sprintf("panic: %v\n%s", p.Value, p.Stack) }
