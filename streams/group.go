package streams

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/millrace/millrace/rebalance"
	"github.com/millrace/millrace/tasks"
	"github.com/millrace/millrace/topology"
)

// group lets a worker see its membership as package tasks wants it.
type group struct {
	m        *rebalance.Membership
	commands chan tasks.Command
	closed   chan struct{} // the membership has ended
	ended    chan struct{} // the worker's loop has ended
	leave    sync.Once
}

func newGroup(m *rebalance.Membership) *group {
	return &group{m: m, commands: make(chan tasks.Command), closed: make(chan struct{}), ended: make(chan struct{})}
}

// run keeps the membership alive while the worker's loop runs, and until the group is left.
func (g *group) run(loop func() error) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var (
		wg  sync.WaitGroup
		err error
	)
	wg.Go(func() {
		err = g.m.Run(ctx)
		close(g.closed)
		if err != nil { // a membership that failed does not wait long for a busy worker, which has to hear of it in any case
			g.hand(tasks.Command{Kind: tasks.Fail, Err: err})
		}
	})
	wg.Go(func() { g.translate() })
	loopErr := loop()
	close(g.ended)
	cancel() // the loop has left, or has waited for it long enough
	wg.Wait()
	if loopErr == nil && err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return loopErr
}

// translate hands the commands of the membership to the worker until the membership has ended.
func (g *group) translate() {
	for c := range g.m.Commands() {
		g.hand(translated(c))
	}
}

// hand gives the worker a command. It waits for a worker that is busy, and no longer than the worker lives.
func (g *group) hand(c tasks.Command) {
	select {
	case g.commands <- c:
	case <-g.ended:
	}
}

func translated(c rebalance.Command) tasks.Command {
	t := tasks.Command{Done: func(err error) {
		if errors.Is(err, tasks.ErrMigrated) {
			err = fmt.Errorf("%w: %w", rebalance.ErrMigrated, err)
		}
		c.Done(err)
	}}
	switch c := c.(type) {
	case rebalance.Revoke:
		t.Kind, t.Tasks = tasks.Revoke, c.Tasks
	case rebalance.Assign:
		t.Kind, t.Active, t.Ready = tasks.Assign, c.Active, c.Ready
		t.Standby = append(append([]topology.TaskID(nil), c.Standby...), c.Warmup...)
	case rebalance.Lose:
		t.Kind = tasks.Lose
	case rebalance.StopApplication:
		t.Kind = tasks.Stop
	case rebalance.Failed:
		t.Kind, t.Err = tasks.Fail, c.Err
	default:
		panic(fmt.Sprintf("streams: command %T", c))
	}
	return t
}

// Commands implements [tasks.Group].
func (g *group) Commands() <-chan tasks.Command { return g.commands }

// Epoch implements [tasks.Group].
func (g *group) Epoch() int32 {
	_, epoch := g.m.Identity()
	return epoch
}

// Poll implements [tasks.Group].
func (g *group) Poll() { g.m.Poll() }

// Migrated implements [tasks.Group].
func (g *group) Migrated() { g.m.Migrated() }

// Report implements [tasks.Group].
func (g *group) Report(offsets, ends map[topology.TaskID]int64) { g.m.SetOffsets(offsets, ends) }

// Leave implements [tasks.Group].
func (g *group) Leave() { g.leave.Do(func() { g.m.Leave(rebalance.LeaveDefault) }) }

// Closed implements [tasks.Group].
func (g *group) Closed() <-chan struct{} { return g.closed }
