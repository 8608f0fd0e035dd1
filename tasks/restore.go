package tasks

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/millrace/millrace/state"
	"github.com/millrace/millrace/topology"
)

// RestoreProgress describes the restoration of one store of a task.
type RestoreProgress struct {
	Task     topology.TaskID
	Store    string
	Topic    string
	From, To int64 // offsets: where it began, and where the changelog ended then
	Restored int64 // records applied so far
	Done     bool
}

// restoration is the way of a task from assigned to ready: its directory is taken, its stores are opened and catch up with their changelogs, its
// committed offsets are read. It runs on a goroutine of its own, which owns the task's stores until the worker takes them over.
type restoration struct {
	task   *Task
	cancel context.CancelFunc
	done   chan struct{}

	buffers   []*buffer
	start     map[TopicPartition]int64 // where the inputs begin
	committed map[TopicPartition]Committed
	metadata  map[string]int64 // of processors
	strayed   bool             // a committed offset is outside its partition
	err       error
	finished  bool // the worker has taken note

	mu    sync.Mutex
	phase string
}

func (r *restoration) waitsFor() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.phase
}

func (r *restoration) setPhase(s string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.phase = s
}

// stop ends a restoration and waits for its goroutine.
func (r *restoration) stop() {
	r.cancel()
	<-r.done
}

// reset gives a task a program and buffers that know nothing yet.
func (t *Task) reset(cfg Config) error {
	p, err := cfg.NewProgram(t.sub, t.id)
	if err != nil {
		return err
	}
	t.program = p
	t.ctx = Context{Task: t.id, Producer: cfg.Producer, clock: cfg.Clock, streamTime: -1, dropped: t.ctx.dropped}
	if t.ctx.dropped == nil {
		t.ctx.dropped = map[string]int64{}
	}
	t.buffers, t.committed, t.topicIDs, t.dirty = nil, map[TopicPartition]int64{}, map[string][16]byte{}, false
	return nil
}

// inputs are the topics of the task's sub-topology by their full names.
func (t *Task) inputs(cfg Config) []string {
	topics := append([]string(nil), t.sub.SourceTopics...)
	for _, topic := range t.sub.RepartitionTopics {
		topics = append(topics, cfg.Topology.TopicName(cfg.Naming, topic))
	}
	return topics
}

// startRestore sends a task on its way. It is called for a task that is Created or Suspended.
func (w *Worker) startRestore(t *Task, why string) error {
	if t.state == Suspended { // it comes back: whatever it knew is gone
		if t.stores != nil {
			if err := t.stores.Discard(); err != nil {
				return &Error{t.id, "discard", err}
			}
		}
		if err := t.reset(w.cfg); err != nil {
			return err
		}
	}
	if err := t.move(Restoring, why); err != nil {
		return err
	}
	w.changed = true
	ctx, cancel := context.WithCancel(context.Background())
	r := &restoration{task: t, cancel: cancel, done: make(chan struct{})}
	t.restore = r
	w.restorations.Add(1)
	go func() {
		defer w.restorations.Done()
		defer close(r.done)
		defer cancel()
		r.err = w.prepare(ctx, r)
		select {
		case w.prepared <- r:
		case <-ctx.Done():
		}
	}()
	return nil
}

// prepare does the work of a restoration.
func (w *Worker) prepare(ctx context.Context, r *restoration) error {
	t := r.task
	if err := w.openStores(ctx, r); err != nil {
		return err
	}
	if t.standby {
		return w.again(ctx, t, func() error { return w.follow(ctx, r) })
	}
	r.setPhase("committed offsets")
	partitions, err := w.partitionsOf(ctx, r)
	if err != nil {
		return err
	}
	// Offsets first and changelogs afterwards: what the offsets promise must be in the state, so the changelog's end is taken when they are known.
	if r.committed, err = w.cfg.Log.Committed(ctx, partitions); err != nil {
		return &Error{t.id, "read committed offsets of", err}
	}
	if err := w.again(ctx, t, func() error { return w.catchUp(ctx, r) }); err != nil {
		return err
	}
	r.setPhase("start offsets")
	var fresh []TopicPartition
	r.start = map[TopicPartition]int64{}
	bounds, err := w.cfg.Log.Bounds(ctx, partitions)
	if err != nil {
		return &Error{t.id, "read bounds for", err}
	}
	for _, p := range partitions {
		c, ok := r.committed[p]
		switch b := bounds[p]; {
		case !ok:
			fresh = append(fresh, p)
		case c.Offset < b.Start || c.Offset > b.End:
			w.log.Warn("committed offset is outside the topic: the source's reset policy decides where to go on",
				"task", t.id.String(), "topic", p.Topic, "partition", p.Partition, "committed", c.Offset, "start", b.Start, "end", b.End)
			delete(r.committed, p)
			fresh, r.strayed = append(fresh, p), true
		default:
			r.start[p] = c.Offset
		}
	}
	if len(fresh) > 0 {
		starts, err := w.cfg.Log.Start(ctx, fresh)
		if err != nil {
			return &Error{t.id, "find the start of", err}
		}
		for p, o := range starts {
			r.start[p] = o
		}
	}
	for _, p := range partitions {
		source := t.program.Source(p.Topic)
		if source == nil {
			return &Error{t.id, "prepare", fmt.Errorf("no source reads %s", p.Topic)}
		}
		b := &buffer{TopicPartition: p, source: source, position: r.start[p], end: bounds[p].End}
		var found map[string]int64
		b.time, found = decodeMetadata(r.committed[p].Metadata)
		r.metadata = mergeMetadata(r.metadata, found)
		r.buffers = append(r.buffers, b)
	}
	return nil
}

// partitionsOf are the partitions the task reads: of each of its topics the one with its number, where there is one (member spec §6.2).
func (w *Worker) partitionsOf(ctx context.Context, r *restoration) ([]TopicPartition, error) {
	t := r.task
	topics := t.inputs(w.cfg)
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, 2*time.Second) {
		infos, err := w.cfg.Log.Topics(ctx, topics)
		if err != nil {
			return nil, &Error{t.id, "look up the topics of", err}
		}
		var list []TopicPartition
		for _, topic := range topics {
			if info, ok := infos[topic]; ok && t.id.Partition < info.Partitions {
				list = append(list, TopicPartition{topic, t.id.Partition})
			}
		}
		if len(list) > 0 {
			return list, nil
		}
		// The group assigned it, so it exists; this client has not heard of it yet (B-036).
		r.setPhase("metadata of its topics")
		select {
		case <-w.cfg.Clock.After(wait):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// openStores takes the task's directory and opens its stores, unless they are open.
func (w *Worker) openStores(ctx context.Context, r *restoration) error {
	t := r.task
	if len(t.sub.Stores) == 0 || t.stores != nil {
		return nil
	}
	dir := ""
	if w.cfg.Dir != nil && persistent(t.sub) {
		r.setPhase("state directory, which another worker still has")
		claim, err := w.cfg.Dir.Acquire(ctx, t.id)
		if err != nil {
			return &Error{t.id, "take the directory of", err}
		}
		t.claim = claim
		dir = w.cfg.Dir.TaskPath(t.id)
	}
	r.setPhase("stores to open")
	open := func() (*state.Stores, error) {
		return state.Open(state.Options{
			ApplicationID: w.cfg.ApplicationID, Task: t.id, Dir: dir, Engine: w.cfg.Engine, Stores: t.sub.Stores, Logger: w.log,
		})
	}
	stores, err := open()
	if corrupt, ok := errors.AsType[*state.CorruptError](err); ok && dir != "" {
		if err := t.claim.Wipe(corrupt.Error()); err != nil {
			return &Error{t.id, "wipe the damaged state of", err}
		}
		stores, err = open()
	}
	if err != nil {
		return &Error{t.id, "open the stores of", err}
	}
	t.stores = stores
	return nil
}

func persistent(sub *topology.Subtopology) bool {
	for _, s := range sub.Stores {
		if !s.InMemory {
			return true
		}
	}
	return false
}

// errCaughtUp ends the reading of changelogs when all of them have been read to the end that they had.
var errCaughtUp = errors.New("caught up")

// changelog is one changelog partition of a task under restoration.
type changelog struct {
	store string
	TopicPartition
	source   bool // it is an input of the task as well
	progress RestoreProgress
	next     int64
	empty    bool // there is nothing on disk, and never was anything in the changelog
}

// changelogsOf finds where the changelogs of a task stand against its stores. A store that does not fit its changelog is emptied: another topic, or one
// that begins after, or ends before, what the store has (B-015, B-016).
func (w *Worker) changelogsOf(ctx context.Context, t *Task) (map[TopicPartition]*changelog, error) {
	logs := map[TopicPartition]*changelog{}
	var partitions []TopicPartition
	var topics []string
	for _, s := range t.sub.Stores {
		if topic := s.ChangelogName(w.cfg.ApplicationID); topic != "" {
			p := TopicPartition{topic, t.id.Partition}
			logs[p] = &changelog{store: s.Name, TopicPartition: p, source: s.SourceTopic != ""}
			partitions = append(partitions, p)
			topics = append(topics, topic)
		}
	}
	if len(logs) == 0 {
		return nil, nil
	}
	infos, err := w.cfg.Log.Topics(ctx, topics)
	if err != nil {
		return nil, &Error{t.id, "look up the changelogs of", err}
	}
	bounds, err := w.cfg.Log.Bounds(ctx, partitions)
	if err != nil {
		return nil, &Error{t.id, "read changelog bounds for", err}
	}
	for p, c := range logs {
		info, ok := infos[p.Topic]
		if !ok {
			return nil, &Error{t.id, "restore", fmt.Errorf("changelog %s does not exist", p.Topic)}
		}
		b := bounds[p]
		next, has := t.stores.ChangelogOffset(c.store)
		id, known := t.stores.TopicID(c.store)
		why := ""
		switch {
		case known && id != info.ID:
			why = fmt.Sprintf("changelog %s is another topic than the one its state came from", p.Topic)
		case has && next > b.End:
			why = fmt.Sprintf("changelog %s ends at %d, before its state at %d", p.Topic, b.End, next)
		case has && next < b.Start:
			why = fmt.Sprintf("changelog %s begins at %d, after its state at %d", p.Topic, b.Start, next)
		}
		if why != "" {
			w.log.Warn("store is emptied and restored", "task", t.id.String(), "store", c.store, "why", why)
			if err := t.stores.WipeStore(c.store, why); err != nil {
				return nil, &Error{t.id, "empty a store of", err}
			}
			has = false
		}
		if !has {
			next = b.Start
		}
		t.topicIDs[c.store] = info.ID
		c.next, c.empty = max(next, b.Start), !has && b.End == 0
		c.progress = RestoreProgress{Task: t.id, Store: c.store, Topic: p.Topic, From: c.next, To: b.End}
	}
	return logs, nil
}

// catchUp brings the task's stores to the end of their changelogs. They are complete when the position of the reader has reached the end, which counts
// the markers of transactions that no reader ever sees as records (B-013).
func (w *Worker) catchUp(ctx context.Context, r *restoration) error {
	t := r.task
	r.setPhase("changelogs")
	logs, err := w.changelogsOf(ctx, t)
	if err != nil {
		return err
	}
	w.missState(r, logs)
	for p, c := range logs {
		if c.source { // what was not processed yet comes through the source
			c.progress.To = min(c.progress.To, r.committed[p].Offset)
		}
	}
	from := map[TopicPartition]int64{}
	open := 0
	for p, c := range logs {
		w.report(c, c.next >= c.progress.To)
		if c.next < c.progress.To {
			from[p] = c.next
			open++
		}
	}
	if open > 0 {
		err = w.cfg.Changelogs.Read(ctx, from, func(b Batch) error {
			c := logs[b.TopicPartition]
			if c.progress.Done {
				return nil
			}
			if err := w.apply(t, c, b); err != nil {
				return err
			}
			done := c.next >= c.progress.To
			r.setPhase(fmt.Sprintf("changelog %s at %d of %d", c.Topic, c.next, c.progress.To))
			w.report(c, done)
			if done {
				if open--; open == 0 {
					return errCaughtUp
				}
			}
			return nil
		})
		if !errors.Is(err, errCaughtUp) {
			return &Error{t.id, "restore", err}
		}
	}
	return t.finishRestore(logs)
}

// missState warns of stores that are empty although their inputs have been processed: a changelog was deleted, unless nothing ever got as far as the store
// (B-025). Which of both it is nobody can tell, so it is no error.
func (w *Worker) missState(r *restoration, logs map[TopicPartition]*changelog) {
	for _, c := range logs {
		for p, committed := range r.committed {
			if c.empty && committed.Offset > 0 {
				w.log.Warn("store is empty, but its input has been processed: if the store ever had rows, its changelog was deleted; "+
					"reset the group's offsets to process the input again", "task", r.task.id.String(), "store", c.store, "changelog", c.Topic,
					"topic", p.Topic, "partition", p.Partition, "committed", committed.Offset)
				break
			}
		}
	}
}

// again repeats the reading of changelogs when records were deleted under it: the bounds are looked at again, which empties the stores concerned.
func (w *Worker) again(ctx context.Context, t *Task, read func() error) error {
	for {
		err := read()
		if !errors.Is(err, ErrOutOfRange) {
			return err
		}
		w.log.Warn("changelog lost records while it was read", "task", t.id.String(), "err", err)
		for _, s := range t.sub.Stores { // writes what there is, so that it can be compared with the new bounds
			if err := t.stores.FinishRestore(s.Name); err != nil {
				return &Error{t.id, "restore", err}
			}
		}
		select {
		case <-w.cfg.Clock.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// finishRestore makes what was restored part of the stores.
func (t *Task) finishRestore(logs map[TopicPartition]*changelog) error {
	for _, c := range logs {
		if err := t.stores.FinishRestore(c.store); err != nil {
			return &Error{t.id, "restore", err}
		}
	}
	return nil
}

func (w *Worker) report(c *changelog, done bool) {
	c.progress.Done = done
	if w.cfg.OnRestore != nil {
		w.cfg.OnRestore(c.progress)
	}
}

// apply puts a batch of a changelog into its store.
func (w *Worker) apply(t *Task, c *changelog, b Batch) error {
	if b.Err != nil {
		return b.Err
	}
	if b.Next < 0 { // the fetch brought something for other partitions only
		return nil
	}
	next := b.Next
	records := make([]state.RestoreRecord, 0, len(b.Records))
	for _, r := range b.Records {
		if c.source && r.Offset >= c.progress.To {
			next = c.progress.To
			break
		}
		if c.source && r.Key == nil {
			continue // a table drops it
		}
		records = append(records, state.RestoreRecord{Key: r.Key, Value: r.Value, Timestamp: r.Timestamp, Headers: r.Headers})
	}
	if err := t.stores.Restore(c.store, records, next); err != nil {
		return err
	}
	if b.Release != nil {
		b.Release()
	}
	c.next = next
	c.progress.Restored += int64(len(records))
	return nil
}

// follow keeps a standby's stores close to their changelogs until it is stopped.
func (w *Worker) follow(ctx context.Context, r *restoration) error {
	t := r.task
	logs, err := w.changelogsOf(ctx, t)
	if err != nil || len(logs) == 0 {
		return err
	}
	from := map[TopicPartition]int64{}
	for p, c := range logs {
		if !c.source { // such a store must not get ahead of what its active task has processed; it is restored when it becomes active itself
			from[p] = c.next
		}
	}
	r.setPhase("its active task, as a standby")
	err = w.cfg.Changelogs.Read(ctx, from, func(b Batch) error { return w.apply(t, logs[b.TopicPartition], b) })
	if ctx.Err() != nil {
		return errors.Join(t.finishRestore(logs), ctx.Err())
	}
	return &Error{t.id, "follow", err}
}

// takeOver makes a task run that has been prepared, if the group lets it and it is still wanted.
func (w *Worker) takeOver(r *restoration) error {
	t := r.task
	if t.restore != r {
		return nil // it was stopped meanwhile
	}
	if r.err != nil {
		if errors.Is(r.err, context.Canceled) {
			return nil
		}
		return r.err
	}
	r.finished = true
	return w.startReady()
}

// startReady starts the tasks that are prepared, once the group is ready. A task that ran before keeps running when it is not (M-42).
func (w *Worker) startReady() error {
	if !w.ready {
		return nil
	}
	for _, t := range w.order {
		if t.state == Restoring && !t.standby && t.restore.finished {
			if err := w.start(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// start lets a prepared task run.
func (w *Worker) start(t *Task) error {
	r := t.restore
	t.buffers = r.buffers
	t.sortBuffers()
	t.ctx.Stores, t.ctx.metadata = t.stores, r.metadata
	t.ctx.now = w.now.UnixMilli()
	for _, b := range t.buffers {
		t.ctx.streamTime = max(t.ctx.streamTime, b.time)
		if c, ok := r.committed[b.TopicPartition]; ok {
			t.committed[b.TopicPartition] = c.Offset
		} else {
			t.committed[b.TopicPartition] = -1
		}
	}
	t.dirty = r.strayed // the new place is committed at once, or the old one would read as lag (B-047)
	if err := w.connectChangelogs(t); err != nil {
		return err
	}
	var err error
	if thrown := t.run("open", func() { err = t.program.Open(&t.ctx) }); thrown != nil {
		err = thrown
	}
	t.opened = true
	if err != nil {
		return &Error{t.id, "open", err}
	}
	if err := t.move(Running, "prepared"); err != nil {
		return err
	}
	t.restore = nil
	w.changed = true
	w.cfg.Consumer.Start(r.start)
	w.log.Info("task runs", "task", t.id.String())
	return nil
}

// changelogOutput is the way of a store to its changelog.
type changelogOutput struct {
	Output
	before int64 // Next when the task began: others may have written since, if the worker had the task before
}

// connectChangelogs gives the task's stores their way to the changelogs.
func (w *Worker) connectChangelogs(t *Task) error {
	t.logs = map[string]changelogOutput{}
	if t.stores == nil {
		return nil
	}
	arena := w.cfg.Producer.Arena()
	for _, s := range t.sub.Stores {
		topic := s.ChangelogName(w.cfg.ApplicationID)
		if topic == "" || s.SourceTopic != "" {
			continue
		}
		out, err := w.cfg.Producer.Output(topic)
		if err != nil {
			return &Error{t.id, "open the changelog of", err}
		}
		store, err := t.stores.Store(s.Name)
		if err != nil {
			return &Error{t.id, "open", err}
		}
		t.logs[s.Name] = changelogOutput{out, out.Next(t.id.Partition)}
		partition, caching, keepHeaders := t.id.Partition, s.Caching, s.Headers
		if s.Kind == topology.BufferStore {
			store.SetChangelog(func(key, value []byte, _ int64, _ []Header) error {
				var headers []Header
				if value != nil {
					headers = state.BufferHeaders
				}
				out.Send(t.id.Partition, key, value, t.ctx.now, headers)
				return nil
			})
			continue
		}
		store.SetChangelog(func(key, value []byte, ts int64, headers []Header) error {
			if !caching { // the store overwrites such values in place
				value = arena.Copy(value)
			}
			if ts < 0 {
				ts = max(0, t.ctx.streamTime)
			}
			if !keepHeaders {
				headers = nil
			}
			out.Send(partition, key, value, ts, headers)
			return nil
		})
	}
	return nil
}

// drain waits for every restoration to end; those that are not stopped yet have nobody left to tell.
func (w *Worker) drain() {
	for _, t := range w.order {
		if t.restore != nil {
			t.restore.cancel()
		}
	}
	w.restorations.Wait()
}
