package streams

import (
	"context"
	"errors"
	"fmt"
	"uuid"

	"github.com/millrace/millrace/state"
	"github.com/millrace/millrace/streams/internal/client"
	"github.com/millrace/millrace/tasks"
	"github.com/millrace/millrace/topology"
)

// newProcessID is the identity of a process that keeps no state, and so none.
func newProcessID() string { return uuid.New().String() }

// explain gives the errors of the parts the sentinels of this package, and text that says what to do.
func (p *instance) explain(err error) error {
	switch {
	case errors.Is(err, client.ErrNoOffset):
		return fmt.Errorf("%w: %w", ErrNoOffset, err)
	case errors.Is(err, tasks.ErrStop):
		return fmt.Errorf("%w: another instance asked the whole application to stop", ErrStopped)
	}
	return err
}

// directory is the state directory as package tasks sees it.
type directory struct{ dir *state.Dir }

// Acquire implements [tasks.Directory].
func (d directory) Acquire(ctx context.Context, id topology.TaskID) (tasks.Claim, error) {
	for {
		c, err := d.dir.Acquire(id)
		if err == nil {
			return c, nil
		}
		busy, ok := errors.AsType[*state.BusyError](err)
		if !ok {
			return nil, err
		}
		select {
		case <-busy.Released:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// TaskPath implements [tasks.Directory].
func (d directory) TaskPath(id topology.TaskID) string { return d.dir.TaskPath(id) }
