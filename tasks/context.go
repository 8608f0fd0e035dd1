package tasks

import (
	"time"

	"github.com/millrace/millrace/state"
	"github.com/millrace/millrace/topology"
)

// Context is what the nodes of a task work with. It belongs to the worker's goroutine.
type Context struct {
	Task     topology.TaskID
	Stores   *state.Stores
	Producer Producer

	// Of the record at hand, or while the stores are flushed of the one that an update was made for; then Record is nil. In a punctuation there is none.
	Topic     string
	Partition int32
	Offset    int64
	Record    *Record

	streamTime int64 // ms, -1 before the first record
	now        int64 // ms, the wall clock as of this round
	clock      Clock

	stream, wall schedule
	commit       bool // somebody asked for one
	metadata     map[string]int64
	untold       bool // metadata has changed since the last commit
	dropped      map[string]int64
}

// StreamTime is the highest time of all records the task has taken, in ms; -1 before the first.
func (c *Context) StreamTime() int64 { return c.streamTime }

// Now is the wall clock in ms, read once per round of the worker.
func (c *Context) Now() int64 { return c.now }

// RequestCommit asks the worker to commit after the record at hand.
func (c *Context) RequestCommit() { c.commit = true }

// From says which record what follows is done for, where that is not the one at hand: one that an update was made for which a cache or a buffer has held.
// The topic "" and the offset -1 are none.
func (c *Context) From(topic string, offset int64) {
	c.Topic, c.Partition, c.Offset = topic, c.Task.Partition, offset
	if topic == "" {
		c.Partition = -1
	}
	if c.Stores != nil {
		c.Stores.From(topic, offset)
	}
}

// none says that what follows is done for no record.
func (c *Context) none() {
	c.Record = nil
	c.From("", -1)
}

// Metadata returns a number that is kept with the task's committed offsets.
func (c *Context) Metadata(name string) (n int64, ok bool) {
	n, ok = c.metadata[name]
	return n, ok
}

// SetMetadata keeps a number under a name, which becomes durable with the next commit, together with the offsets (KIP-825).
func (c *Context) SetMetadata(name string, n int64) {
	if c.metadata == nil {
		c.metadata = map[string]int64{}
	}
	c.metadata[name], c.untold = n, true
}

// Drop counts a record that takes no further part, by reason.
func (c *Context) Drop(reason string) { c.dropped[reason]++ }

// ScheduleStream calls f every interval of stream time. The grid begins at 0, so the first record fires the first call (F-144).
func (c *Context) ScheduleStream(every time.Duration, f func(now int64)) (stop func()) {
	return c.stream.add(&punctuation{every: toMillis(every), next: 0, f: f})
}

// ScheduleWall calls f every interval of the wall clock, first one interval from now (F-145).
func (c *Context) ScheduleWall(every time.Duration, f func(now int64)) (stop func()) {
	ms := toMillis(every)
	return c.wall.add(&punctuation{every: ms, next: c.now + ms, f: f})
}
