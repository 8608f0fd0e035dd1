package tasks

import (
	"errors"
	"log/slog"
	"maps"
	"time"

	"github.com/millrace/millrace/state"
	"github.com/millrace/millrace/topology"
)

// LocalConfig is what a [Local] is made of.
type LocalConfig struct {
	ID       topology.TaskID
	Sub      *topology.Subtopology
	Naming   topology.Naming
	Inputs   map[TopicPartition]int64 // the partitions it reads, each with the offset it begins at
	Times    map[TopicPartition]int64 // highest time of each as of the last commit
	Metadata map[string]int64         // of processors, likewise
	Program  Program
	Stores   *state.Stores // nil if the sub-topology has none
	Producer Producer
	Clock    Clock
	MaxIdle  time.Duration
	Logger   *slog.Logger
}

// Local is one task without a worker, for test drivers: no group, no goroutine, nothing happens that was not asked for. It processes, punctuates and
// commits with the code of a worker's task.
type Local struct{ t *Task }

// NewLocal makes a task and opens its program. Its stores must have been restored.
func NewLocal(cfg LocalConfig) (*Local, error) {
	t := &Task{id: cfg.ID, sub: cfg.Sub, idle: cfg.MaxIdle, log: cfg.Logger, stores: cfg.Stores, state: Restoring}
	w := &Worker{cfg: Config{
		ApplicationID: cfg.Naming.ApplicationID, Naming: cfg.Naming, Producer: cfg.Producer, Clock: cfg.Clock, Logger: cfg.Logger,
		NewProgram: func(*topology.Subtopology, topology.TaskID) (Program, error) { return cfg.Program, nil },
	}}
	if err := t.reset(w.cfg); err != nil {
		return nil, err
	}
	t.ctx.Stores, t.ctx.now = t.stores, cfg.Clock.Now().UnixMilli()
	for p, offset := range cfg.Inputs {
		b := &buffer{TopicPartition: p, source: t.program.Source(p.Topic), position: offset, end: offset, time: -1}
		if at, ok := cfg.Times[p]; ok {
			b.time = at
			t.ctx.streamTime = max(t.ctx.streamTime, at)
		}
		t.buffers = append(t.buffers, b)
		t.committed[p] = offset
	}
	t.ctx.metadata = mergeMetadata(nil, cfg.Metadata)
	t.sortBuffers()
	if err := w.connectChangelogs(t); err != nil {
		return nil, err
	}
	var err error
	if thrown := t.run("open", func() { err = t.program.Open(&t.ctx) }); thrown != nil {
		err = thrown
	}
	t.opened = true
	if err != nil {
		return nil, &Error{t.id, "open", err}
	}
	return &Local{t}, t.move(Running, "test")
}

// Add buffers a record of one of the task's partitions.
func (l *Local) Add(p TopicPartition, r Record) {
	l.t.buffer(p).add(Batch{TopicPartition: p, Records: []Record{r}, Next: r.Offset + 1, End: r.Offset + 1})
}

// Head is the time of the next record of a partition, if there is one. What has no valid time is skipped on the way, as a worker's task skips it.
func (l *Local) Head(p TopicPartition) (ms int64, ok bool, err error) {
	b := l.t.buffer(p)
	err = l.t.run("process", func() { ok = l.t.prepareHead(b) })
	return b.headTime, ok, err
}

// Process takes the next record of a partition, which [Local.Head] has found, through the task.
func (l *Local) Process(p TopicPartition, now time.Time) error {
	t := l.t
	t.ctx.now = now.UnixMilli()
	err := t.run("process", func() {
		t.take(t.buffer(p))
		t.punctuateStream()
	})
	t.processed++
	t.ctx.Record = nil
	return err
}

// Punctuate runs what the wall clock has made due.
func (l *Local) Punctuate(now time.Time) error { return l.t.punctuateWall(now) }

// Flush hands on what the caches hold. It may have to be called again when that led to more records.
func (l *Local) Flush() error { return l.t.flush() }

// CommitRequested reports whether a node has asked for a commit since the last one.
func (l *Local) CommitRequested() bool { return l.t.ctx.commit }

// Commit applies the write sets and returns the offsets that are committed with them.
func (l *Local) Commit() (map[TopicPartition]int64, map[TopicPartition]int64, error) {
	offsets := l.t.offsets()
	if err := l.t.applied(offsets); err != nil {
		return nil, nil, err
	}
	at, times := map[TopicPartition]int64{}, map[TopicPartition]int64{}
	for _, b := range l.t.buffers {
		at[b.TopicPartition], times[b.TopicPartition] = l.t.committed[b.TopicPartition], b.time
	}
	return at, times, nil
}

// Metadata is what processors have put into the metadata of committed offsets.
func (l *Local) Metadata() map[string]int64 { return maps.Clone(l.t.ctx.metadata) }

// Dropped counts the records that took no further part, by reason.
func (l *Local) Dropped() map[string]int64 { return l.t.ctx.dropped }

// Context is what the task's program works with.
func (l *Local) Context() *Context { return &l.t.ctx }

// Close closes program and stores; a dirty close first drops what was not committed.
func (l *Local) Close(clean bool) error {
	err := l.t.closeProgram(l.t.log)
	if l.t.stores == nil {
		return err
	}
	if !clean {
		err = errors.Join(err, l.t.stores.Discard())
	}
	return errors.Join(err, l.t.stores.Close())
}
