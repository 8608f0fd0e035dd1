package streams

import (
	"context"
	"fmt"
	"reflect"
	"time"
	"unsafe"

	"github.com/millrace/millrace/tasks"
)

// rec is a record inside a task: a [Record] with its time in milliseconds, which is a third of the size. Nodes hand it to their children by value.
type rec[K, V any] struct {
	key       K
	value     V
	ts        int64 // ms since 1970
	headers   Headers
	nullKey   bool
	nullValue bool
}

func (r rec[K, V]) record() Record[K, V] {
	return Record[K, V]{r.key, r.value, time.UnixMilli(r.ts).UTC(), r.headers, r.nullKey, r.nullValue}
}

func recOf[K, V any](r Record[K, V]) rec[K, V] {
	return rec[K, V]{r.Key, r.Value, r.Timestamp.UnixMilli(), r.Headers, r.NullKey, r.NullValue}
}

// change is what flows between table nodes: the new value of a row and, where somebody below asked for it, the old one (F-070).
type change[V any] struct {
	new, old V
	newNull  bool
	hasOld   bool
	stale    bool // of a versioned table: a later version of the row is there already
}

// setOld sets the old value to that of a row.
func (c *change[V]) setOld(row found[V]) { c.old, c.hasOld = row.value, row.ok }

// withoutOld is a change for children that did not ask for the old value.
func (c change[V]) withoutOld() change[V] {
	return change[V]{new: c.new, newNull: c.newNull, stale: c.stale}
}

// sink takes records of one type: the edge of the graph.
type sink[K, V any] interface{ process(r rec[K, V]) }

// parentOf is a node that hands on records of one type.
type parentOf[K, V any] interface{ attach(child sink[K, V]) }

// children is embedded by every node that has some. Most have one, and for them a call is all there is.
type children[K, V any] struct {
	first sink[K, V]
	more  []sink[K, V]
}

func (c *children[K, V]) attach(child sink[K, V]) {
	if c.first == nil {
		c.first = child
	} else {
		c.more = append(c.more, child)
	}
}

// forward hands r to every child, in the order in which they were added.
func (c *children[K, V]) forward(r rec[K, V]) {
	if c.first == nil {
		return
	}
	c.first.process(r)
	for _, child := range c.more {
		child.process(r)
	}
}

// nodeInfo is what a node of a task knows about itself.
type nodeInfo struct {
	name     string
	stores   []string
	children []string
}

// base is embedded by every node that calls functions of the user or can fail.
type base struct {
	t    *task
	info *nodeInfo
}

// enter notes which node is at work, for the message should the user's function panic. It costs one store.
func (b *base) enter() { b.t.at = b.info }

// failed asks the handler about a record that cannot go on. It returns if the record is to be skipped, and throws otherwise.
func (b *base) failed(stage Stage, err error) { b.t.failed(b.info.name, stage, err, "") }

// isNull is made once per node: nil for types that have no null, so that the common case costs one test of a pointer. The function takes the value
// itself: a pointer to the outgoing record would move every record to the heap.
func isNull[V any]() func(V) bool {
	switch reflect.TypeFor[V]().Kind() {
	case reflect.Pointer, reflect.UnsafePointer:
		return func(v V) bool { return *(*unsafe.Pointer)(unsafe.Pointer(&v)) == nil }
	case reflect.Interface:
		return func(v V) bool { return any(v) == nil }
	}
	return nil
}

// handlerContext carries to the built-in handlers what they need beside the failure.
type handlerContext struct {
	context.Context
	t *task
}

type taskKey struct{}

func (c handlerContext) Value(key any) any {
	if key == (taskKey{}) {
		return c.t
	}
	return c.Context.Value(key)
}

// failed calls the handler for the stage. It returns when the record is to be skipped.
func (t *task) failed(node string, stage Stage, err error, outTopic string) {
	f := Failure{Err: err, Stage: stage, Node: node, Task: t.ctx.Task.String(), Origin: t.origin(), OutTopic: outTopic}
	if r := t.ctx.Record; r != nil {
		f.Timestamp = time.UnixMilli(r.Timestamp).UTC()
		f.Headers, f.RawKey, f.RawValue = r.Headers, r.Key, r.Value
	}
	handler := t.cfg.onProcessError
	switch stage {
	case DecodeKey, DecodeValue:
		handler = t.cfg.onDecodeError
	case EncodeKey, EncodeValue, Produce:
		handler = t.cfg.onProduceError
	}
	answer := handler(handlerContext{t.cfg.ctx, t}, f)
	for _, dead := range answer.dead {
		t.sendRaw(dead)
	}
	if answer.verdict == verdictResume {
		t.ctx.Drop("error handler")
		return
	}
	tasks.Throw(&RecordError{f})
}

// sendRaw writes a dead letter.
func (t *task) sendRaw(r RawRecord) {
	out, err := t.output(r.Topic)
	if err != nil {
		tasks.Throw(fmt.Errorf("dead letter topic: %w", err))
	}
	arena := t.ctx.Producer.Arena()
	out.Send(tasks.AnyPartition, arena.Copy(r.Key), arena.Copy(r.Value), max(0, r.Timestamp.UnixMilli()), r.Headers)
}

// checkTime refuses records from before 1970, as Kafka Streams does (F-031).
func (b *base) checkTime(ts int64) bool {
	if ts >= 0 {
		return true
	}
	b.failed(ProcessRecord, fmt.Errorf("record has the time %d ms, before 1970", ts))
	return false
}
