package tasks

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/millrace/millrace/state"
)

// commitDue reports whether it is time: the interval has passed, a node asked for it, or the uncommitted state outgrew the cache.
func (w *Worker) commitDue() bool {
	if w.migrated {
		return false
	}
	var bytes int64
	dirty := false
	for _, t := range w.order {
		if t.state != Running {
			continue
		}
		if t.ctx.commit {
			return true
		}
		dirty = dirty || t.dirty
		if t.stores != nil {
			bytes += t.stores.DirtyBytes()
		}
	}
	if !dirty {
		return false
	}
	return w.now.Sub(w.lastCommit) >= w.cfg.CommitInterval || w.cfg.CacheBytes >= 0 && bytes > w.cfg.CacheBytes
}

// commitAll commits every running task. Under exactly once they share a transaction, so they can't be committed one by one; otherwise one flush of the
// producer serves them all.
func (w *Worker) commitAll(ctx context.Context) error {
	var running []*Task
	for _, t := range w.order {
		if t.state == Running && (t.dirty || t.ctx.commit) {
			running = append(running, t)
		}
	}
	w.lastCommit = w.now
	if len(running) == 0 {
		return nil
	}
	err := w.commit(ctx, running)
	if err != nil {
		return w.recover(ctx, err)
	}
	return nil
}

// commit makes what the tasks have done durable, in this order: caches are flushed, which may forward records; changelog and output records are
// acknowledged; offsets are committed, under exactly once with the transaction; the stores apply their write set with the offsets in one batch. A
// process that dies in between replays the changelog from the stored offset (F-217, design §5).
func (w *Worker) commit(ctx context.Context, list []*Task) error {
	began := w.cfg.Clock.Now()
	offsets := map[TopicPartition]Committed{}
	for _, t := range list {
		if err := t.flush(); err != nil {
			return err
		}
		for p, c := range t.offsets() {
			offsets[p] = c
		}
	}
	if err := w.cfg.Producer.Flush(ctx); err != nil {
		return err
	}
	if w.cfg.Group.Epoch() <= 0 && len(offsets) > 0 {
		return ErrMigrated
	}
	if err := w.cfg.Producer.Commit(ctx, offsets); err != nil {
		return err
	}
	for _, t := range list {
		if err := t.applied(offsets); err != nil {
			return err
		}
	}
	took := w.cfg.Clock.Now().Sub(began)
	w.log.Debug("committed", "tasks", len(list), "records", w.sinceCommit, "took", took)
	if w.cfg.OnCommit != nil {
		w.cfg.OnCommit(CommitInfo{w.cfg.Name, len(list), w.sinceCommit, took, offsets})
	}
	w.sinceCommit = 0
	return nil
}

// flush hands what the caches hold downstream and to the changelogs.
func (t *Task) flush() error {
	if t.stores == nil {
		return nil
	}
	var err error
	thrown := t.run("flush", func() {
		t.ctx.none()
		err = t.stores.Flush()
		t.ctx.none()
	})
	if thrown != nil {
		return thrown
	}
	if err != nil {
		return &Error{t.id, "flush", err}
	}
	return nil
}

// applied makes a commit that took place durable in the stores.
func (t *Task) applied(offsets map[TopicPartition]Committed) error {
	point := state.CommitPoint{
		InputOffsets: map[state.TopicPartition]int64{}, StreamTime: t.ctx.streamTime, ChangelogOffsets: map[string]int64{}, TopicIDs: t.topicIDs,
	}
	for _, b := range t.buffers {
		if c, ok := offsets[b.TopicPartition]; ok {
			t.committed[b.TopicPartition] = c.Offset
		}
		if at := t.committed[b.TopicPartition]; at >= 0 {
			point.InputOffsets[state.TopicPartition{Topic: b.Topic, Partition: b.Partition}] = at
		}
	}
	t.dirty, t.ctx.commit, t.ctx.untold = false, false, false
	if t.stores == nil {
		return nil
	}
	for _, s := range t.sub.Stores {
		if at, ok := t.committed[TopicPartition{s.SourceTopic, t.id.Partition}]; ok && s.SourceTopic != "" {
			point.ChangelogOffsets[s.Name] = at
		}
	}
	for store, out := range t.logs {
		at, _ := t.stores.ChangelogOffset(store)
		if next := out.Next(t.id.Partition); next != out.before && next > at {
			point.ChangelogOffsets[store] = next
		}
	}
	if err := t.stores.Commit(point); err != nil {
		return &Error{t.id, "commit", err}
	}
	return nil
}

// recover decides what a failed commit or send means. It returns an error if the worker can't go on.
func (w *Worker) recover(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, ErrMigrated):
		w.log.Info("commit was refused: the tasks belong to somebody else now", "err", err)
		w.loseAll("commit was refused")
		w.migrated = true
		w.cfg.Group.Migrated()
		return nil
	case errors.Is(err, ErrAborted), errors.Is(err, ErrUnknownOutcome):
		w.log.Warn("transaction failed, tasks start again from their last commit", "err", err)
		if err := w.reset(ctx); err != nil {
			return err
		}
		for _, t := range slices.Clone(w.order) {
			if t.state == Running {
				if err := w.revive(t, "transaction failed"); err != nil {
					return err
				}
			}
		}
		return nil
	}
	return err
}

// reset drops what the producer has in hand and gives it a new life.
func (w *Worker) reset(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, w.cfg.CloseTimeout)
	defer cancel()
	if err := w.cfg.Producer.Reset(ctx); err != nil {
		return fmt.Errorf("tasks: the producer cannot be reset: %w", err)
	}
	return nil
}

// revive sends a running task back to its last commit: inputs, stores and program start again from there.
func (w *Worker) revive(t *Task, why string) error {
	w.suspend(t, why)
	if err := t.closeProgram(w.log); err != nil {
		w.log.Warn("processor did not close", "task", t.id.String(), "err", err)
	}
	return w.startRestore(t, why)
}

// shutDown ends the worker: clean if err is nil, at once otherwise. The group is left in any case, so that others take over without waiting for the
// session to end.
func (w *Worker) shutDown(ctx context.Context, err error) error {
	ctx, cancel := context.WithTimeout(ctx, w.cfg.CloseTimeout)
	defer cancel()
	errs := []error{err}
	if err == nil && !w.migrated {
		var running []*Task
		for _, t := range w.order {
			if t.state == Running && t.dirty {
				running = append(running, t)
			}
		}
		if len(running) > 0 {
			if e := w.commit(ctx, running); e != nil {
				if errors.Is(e, ErrMigrated) {
					w.log.Info("last commit was refused: the tasks belong to somebody else now")
				} else {
					errs = append(errs, fmt.Errorf("tasks: last commit: %w", e))
				}
				err = e
			}
		}
	}
	if err != nil {
		if e := w.cfg.Producer.Abort(ctx); e != nil && !errors.Is(e, context.Canceled) {
			w.log.Warn("transaction could not be aborted; the broker does it after its timeout", "err", e)
		}
	}
	for _, t := range slices.Clone(w.order) {
		if e := w.close(t, err == nil, "worker ends"); e != nil {
			errs = append(errs, e)
		}
	}
	w.drain()
	w.changed, w.ready = true, false // a worker without tasks is settled, but not one that ends
	w.publish(true)
	w.cfg.Group.Leave()
	for done := false; !done; {
		select {
		case c := <-w.cfg.Group.Commands(): // nothing is owned any more, so everything asked is done
			if c.Done != nil {
				c.Done(nil)
			}
		case <-w.cfg.Group.Closed():
			done = true
		case <-w.cfg.Clock.After(w.cfg.CloseTimeout):
			w.log.Warn("the group did not confirm the leave in time")
			done = true
		}
	}
	return errors.Join(errs...)
}
