package tasks

import (
	"cmp"
	"errors"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"github.com/millrace/millrace/state"
	"github.com/millrace/millrace/topology"
)

// Program is what a task runs: the nodes of its sub-topology, made by package streams.
type Program interface {
	// Source is the node that reads a topic.
	Source(topic string) Source
	// Open prepares the nodes and opens the user's processors. It is called when the stores have been restored.
	Open(c *Context) error
	// Close closes the user's processors.
	Close() error
	// Locate adds to a panic of a user function where it happened.
	Locate(p *Panic) error
}

// Source is a node that takes records from a topic.
type Source interface {
	// Time returns the time of a record that has become the next of its partition. ok is false for one that is to be skipped. It may throw.
	Time(r *Record, partitionTime int64) (ms int64, ok bool)
	// Process runs a record through the task. It may throw.
	Process(r *Record, ms int64)
}

// Task is a sub-topology at work on one partition of its topics. It belongs to one worker.
type Task struct {
	id      topology.TaskID
	state   State
	standby bool
	program Program
	stores  *state.Stores
	buffers []*buffer // in the order of topic names
	ctx     Context
	idle    time.Duration // Config.MaxTaskIdle

	dirty     bool // something happened since the last commit
	committed map[TopicPartition]int64
	topicIDs  map[string][16]byte // of changelogs, by store
	processed int64               // records in all
	skipped   int                 // records without a time, since the consumer was last told

	log     *slog.Logger
	onState func(id topology.TaskID, from, to State, why string)

	sub     *topology.Subtopology
	restore *restoration               // while Restoring
	claim   Claim                      // the task's directory
	logs    map[string]changelogOutput // by store
	opened  bool                       // the program is open
}

// ID is the task's id.
func (t *Task) ID() topology.TaskID { return t.id }

// State is where the task is in its life.
func (t *Task) State() State { return t.state }

func (t *Task) buffer(p TopicPartition) *buffer {
	for _, b := range t.buffers {
		if b.TopicPartition == p {
			return b
		}
	}
	return nil
}

// run calls f and turns what it throws into an error.
func (t *Task) run(op string, f func()) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = t.recovered(op, r, debug.Stack())
		}
	}()
	f()
	return nil
}

func (t *Task) recovered(op string, r any, stack []byte) error {
	if a, ok := r.(abort); ok {
		if e, ok := errors.AsType[*Error](a.err); ok {
			return e
		}
		return &Error{t.id, op, a.err}
	}
	return &Error{t.id, op, t.program.Locate(&Panic{Value: r, Stack: stack})}
}

// process takes records in the order of time, up to limit of them, each through the whole sub-topology (F-210). It returns how many there were.
func (t *Task) process(now time.Time, limit int) (n int, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = t.recovered("process", r, debug.Stack())
		}
	}()
	punctuates := len(t.ctx.stream.list) > 0
	for n < limit {
		b := t.choose(now)
		if b == nil {
			break
		}
		t.take(b)
		n++
		if punctuates || len(t.ctx.stream.list) > 0 {
			t.punctuateStream()
		}
		if t.ctx.commit {
			break
		}
	}
	t.processed += int64(n)
	t.ctx.Record = nil
	return n, nil
}

// take processes the head of a buffer.
func (t *Task) take(b *buffer) {
	r := b.head()
	t.ctx.streamTime = max(t.ctx.streamTime, b.headTime)
	b.time = max(b.time, b.headTime)
	t.ctx.Record = r
	t.ctx.From(b.Topic, r.Offset)
	t.dirty = true
	b.source.Process(r, b.headTime)
	b.drop()
}

// choose finds the buffer whose head has the lowest time, nil if the task has to wait. With the default idle time it waits for every partition that
// is known, or not known not, to hold more (F-211…F-213).
func (t *Task) choose(now time.Time) *buffer {
	var best *buffer
	starved := false
	for _, b := range t.buffers {
		if !t.prepareHead(b) {
			starved = true
			continue
		}
		if best == nil || b.headTime < best.headTime {
			best = b
		}
	}
	if best == nil || !starved || t.idle < 0 {
		return best
	}
	for _, b := range t.buffers {
		switch {
		case !b.empty():
		case !b.caughtUp():
			b.idleUntil = time.Time{}
			return nil
		case t.idle > 0:
			if b.idleUntil.IsZero() {
				b.idleUntil = now.Add(t.idle)
			}
			if now.Before(b.idleUntil) {
				return nil
			}
		}
	}
	return best
}

// waitingSince reports when the task's idle time ends, if that is what it waits for.
func (t *Task) idleDeadline() (at time.Time, ok bool) {
	any := false
	for _, b := range t.buffers {
		any = any || !b.empty()
		if b.empty() && !b.idleUntil.IsZero() && b.idleUntil.After(at) {
			at, ok = b.idleUntil, true
		}
	}
	return at, ok && any
}

// prepareHead finds the time of a buffer's head, skipping records that have none. It reports whether there is a head.
func (t *Task) prepareHead(b *buffer) bool {
	for b.records > 0 {
		if b.headOK {
			return true
		}
		r := b.head()
		t.ctx.Topic, t.ctx.Partition, t.ctx.Offset, t.ctx.Record = b.Topic, b.Partition, r.Offset, r
		ms, ok := b.source.Time(r, b.time)
		if ok {
			b.headTime, b.headOK = ms, true
			return true
		}
		t.dirty = true
		t.skipped++
		b.drop()
	}
	return false
}

// punctuateStream runs what the task's own time has made due.
func (t *Task) punctuateStream() {
	if t.ctx.streamTime < 0 {
		return
	}
	t.ctx.none()
	if t.ctx.stream.run(t.ctx.streamTime) {
		t.dirty = true
	}
}

// punctuateWall runs what the wall clock has made due.
func (t *Task) punctuateWall(now time.Time) error {
	t.ctx.now = now.UnixMilli()
	if len(t.ctx.wall.list) == 0 {
		return nil
	}
	return t.run("punctuate", func() {
		t.ctx.none()
		if t.ctx.wall.run(t.ctx.now) {
			t.dirty = true
		}
	})
}

// records is how many wait in the task's buffers.
func (t *Task) records() (n int) {
	for _, b := range t.buffers {
		n += b.records
	}
	return n
}

// offsets are the task's positions as they may be committed, with the time of each partition and the metadata of processors. Those that did not move are
// left out, unless that metadata did.
func (t *Task) offsets() map[TopicPartition]Committed {
	moved := map[TopicPartition]Committed{}
	for _, b := range t.buffers {
		if at := b.offset(); at > t.committed[b.TopicPartition] || t.ctx.untold && at == t.committed[b.TopicPartition] {
			moved[b.TopicPartition] = Committed{Offset: at, Metadata: encodeMetadata(b.time, t.ctx.metadata)}
		}
	}
	return moved
}

// sortBuffers puts the buffers in the order of their topics, which decides between records of equal time.
func (t *Task) sortBuffers() {
	slices.SortFunc(t.buffers, func(a, b *buffer) int { return cmp.Compare(a.Topic, b.Topic) })
}

func (t *Task) partitions() []TopicPartition {
	list := make([]TopicPartition, len(t.buffers))
	for i, b := range t.buffers {
		list[i] = b.TopicPartition
	}
	return list
}
