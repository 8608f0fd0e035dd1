package state

import (
	"errors"
	"fmt"
)

// Errors that callers branch on.
var (
	// ErrClosed is returned by stores, snapshots and iterators after they were closed.
	ErrClosed = errors.New("state: store closed")
	// ErrIteratorExpired is returned by iterators that were open when their store was committed, discarded or restored.
	ErrIteratorExpired = errors.New("state: iterator is older than the last commit")
	// ErrNoStore is returned for a name under which the task has no store of the asked kind.
	ErrNoStore = errors.New("state: no such store")
)

// CorruptError tells that stored state can't be read. The remedy is to wipe the directory, after which the state is restored from its changelogs.
type CorruptError struct {
	Path string // the directory
	What string // what was found
	Err  error  // the cause, or nil
}

func (e *CorruptError) Error() string {
	s := fmt.Sprintf("state: %s is damaged: %s", e.Path, e.What)
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s + "; wipe the directory to restore it from the changelogs"
}

// Unwrap returns the cause.
func (e *CorruptError) Unwrap() error { return e.Err }

// ForeignError tells that stored state is sound but not this task's: it was written by another application, for another changelog topic, or by a version
// of the program in which a store of this name had another shape.
type ForeignError struct {
	Path  string // the directory
	Store string // the store, or empty if all of the directory is meant
	Found string // what the state says
	Want  string // what was expected
}

func (e *ForeignError) Error() string {
	what := "state"
	if e.Store != "" {
		what = fmt.Sprintf("store %q", e.Store)
	}
	return fmt.Sprintf("state: %s in %s is of %s, not of %s; wipe it to restore it from the changelog, or use another name", what, e.Path, e.Found, e.Want)
}

// FullError tells that state could not be written for want of space. The state is as the last successful commit left it.
type FullError struct {
	Path string // the directory
	Err  error  // what the operating system said
}

func (e *FullError) Error() string {
	return fmt.Sprintf("state: state directory %s is full: %v", e.Path, e.Err)
}

// Unwrap returns the cause.
func (e *FullError) Unwrap() error { return e.Err }
