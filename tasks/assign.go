package tasks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"github.com/millrace/millrace/topology"
)

// obey carries out one command of the group.
func (w *Worker) obey(ctx context.Context, c Command) error {
	done := c.Done
	if done == nil {
		done = func(error) {}
	}
	switch c.Kind {
	case Revoke:
		err := w.revoke(ctx, c.Tasks)
		done(err) // after an error the group asks again, or declares the tasks lost
		if err != nil {
			return w.recover(ctx, err)
		}
		return nil
	case Assign:
		w.ready, w.changed = c.Ready, true
		err := w.abandon(ctx, c.Active)
		if err == nil {
			err = w.assign(c.Active, c.Standby)
		}
		done(err)
		return err
	case Lose:
		w.ready, w.changed = false, true
		w.loseAll("membership is lost")
		err := w.reset(ctx)
		w.migrated = false
		done(err)
		return err
	case Fail:
		done(nil)
		return c.Err
	case Stop:
		done(nil)
		return ErrStop
	}
	return fmt.Errorf("tasks: unknown command %d", c.Kind)
}

// revoke gives tasks away: what they have done is committed, they stop, and only then the group is told (member spec §6.1, M-25). Under exactly once
// all tasks of the worker share the transaction, so all are committed (M-26).
func (w *Worker) revoke(ctx context.Context, ids []topology.TaskID) error {
	var commit []*Task
	for _, t := range w.order {
		if t.state == Running && t.dirty && (w.cfg.ExactlyOnce || slices.Contains(ids, t.id)) {
			commit = append(commit, t)
		}
	}
	for _, id := range ids {
		if t := w.tasks[id]; t != nil && t.state == Running {
			w.cfg.Consumer.Stop(t.partitions()...)
		}
	}
	if len(commit) > 0 && !w.migrated {
		if err := w.commit(ctx, commit); err != nil {
			return err
		}
	}
	for _, id := range ids {
		if t := w.tasks[id]; t != nil && t.state != Suspended {
			w.suspend(t, "revoked")
		}
	}
	return nil
}

// abandon gives the open transaction up if it holds work of a task that is taken away without having been revoked: committed with the work of the others
// it would be done twice.
func (w *Worker) abandon(ctx context.Context, active []topology.TaskID) error {
	for _, t := range w.order {
		if w.cfg.ExactlyOnce && t.state == Running && t.dirty && !slices.Contains(active, t.id) {
			return w.recover(ctx, fmt.Errorf("%w: task %s is taken away in the middle of it", ErrAborted, t.id))
		}
	}
	return nil
}

// assign makes the worker's tasks those of the target: closes what is not in it, keeps what is, and begins what is new.
func (w *Worker) assign(active, standby []topology.TaskID) error {
	var errs []error
	for _, t := range slices.Clone(w.order) {
		wanted := active
		if t.standby {
			wanted = standby
		}
		if !slices.Contains(wanted, t.id) {
			if t.state == Running { // it was to be revoked before; what it did since the last commit is done again elsewhere, see abandon
				w.suspend(t, "no longer assigned")
			}
			errs = append(errs, w.close(t, true, "no longer assigned"))
		}
	}
	for _, id := range active {
		errs = append(errs, w.begin(id, false))
	}
	for _, id := range standby {
		errs = append(errs, w.begin(id, true))
	}
	errs = append(errs, w.startReady())
	return errors.Join(errs...)
}

// begin creates a task, or brings a suspended one back.
func (w *Worker) begin(id topology.TaskID, standby bool) error {
	t := w.tasks[id]
	if t == nil {
		sub := w.cfg.Topology.Subtopology(id.Subtopology)
		if sub == nil {
			return fmt.Errorf("tasks: the topology has no sub-topology %d", id.Subtopology)
		}
		t = &Task{id: id, sub: sub, standby: standby, idle: w.cfg.MaxTaskIdle, log: w.log.With("task", id.String()), onState: w.cfg.OnState}
		if err := t.reset(w.cfg); err != nil {
			return &Error{id, "make", err}
		}
		w.tasks[id] = t
		w.reorder()
		w.log.Info("task is assigned", "task", id.String(), "standby", standby)
	} else if t.state != Suspended {
		return nil
	}
	return w.startRestore(t, "assigned")
}

// suspend stops a task without committing: it takes no more records.
func (w *Worker) suspend(t *Task, why string) {
	w.changed = true
	switch t.state {
	case Running:
		w.cfg.Consumer.Stop(t.partitions()...)
		for _, b := range t.buffers {
			w.cfg.Consumer.Processed(b.records)
			b.clear()
		}
	case Restoring:
		t.restore.stop()
		t.restore = nil
	}
	if t.state != Suspended {
		w.must(t.move(Suspended, why))
	}
}

// close ends a task. A clean close leaves its stores at the last commit, with everything that was restored; a dirty one drops what is not committed.
// It can be called for a task in any state, and does everything it can before it reports the first error.
func (w *Worker) close(t *Task, clean bool, why string) error {
	w.suspend(t, why)
	err := t.closeProgram(w.log)
	if t.stores != nil {
		if !clean {
			err = errors.Join(err, t.stores.Discard())
		}
		if e := t.stores.Close(); e != nil {
			err = errors.Join(err, &Error{t.id, "close", e})
		}
		t.stores = nil
	}
	if t.claim != nil {
		t.claim.Release()
		t.claim = nil
	}
	w.must(t.move(Closed, why))
	delete(w.tasks, t.id)
	w.reorder()
	return err
}

// loseAll drops every task at once: no commit, no flush; somebody else may have them already (member spec §6.4). Directories stay.
func (w *Worker) loseAll(why string) {
	for _, t := range slices.Clone(w.order) {
		if err := w.close(t, false, why); err != nil {
			w.log.Warn("lost task did not close cleanly", "task", t.id.String(), "err", err)
		}
	}
	w.sinceCommit = 0
}

// closeProgram closes the user's processors, once.
func (t *Task) closeProgram(log *slog.Logger) (err error) {
	if t.opened {
		t.opened = false
		if thrown := t.run("close", func() { err = t.program.Close() }); thrown != nil {
			err = thrown
		}
		if err != nil {
			log.Warn("processor did not close", "task", t.id.String(), "err", err)
		}
	}
	return err
}

// must reports a broken invariant of this package; the worker can't go on with a task in a state that it thinks impossible.
func (w *Worker) must(err error) {
	if err != nil {
		panic(err)
	}
}
