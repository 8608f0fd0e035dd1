package streams

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/millrace/millrace/tasks"
)

// Processor is a step with a context, state, a schedule and errors. One is made per task and used by one goroutine at a time.
//
// It may also have the methods Init(*Context[KOut, VOut]) error, called before the first record and again when a task is revived, and
// Close() error, called at the end. They are found by assertion. Close must not close stores.
type Processor[KIn, VIn, KOut, VOut any] interface {
	// Process handles one record. An error goes to [Config.OnProcessError]; what was forwarded or stored before it stays.
	Process(ctx *Context[KOut, VOut], r Record[KIn, VIn]) error
}

// FixedKeyProcessor is a [Processor] that cannot change the key.
type FixedKeyProcessor[K, VIn, VOut any] interface {
	Process(ctx *FixedKeyContext[K, VOut], r FixedKeyRecord[K, VIn]) error
}

// FixedKeyRecord is a [Record] whose key can be read and not changed.
type FixedKeyRecord[K, V any] struct{ r Record[K, V] }

// Key returns the key and whether there is one.
func (r FixedKeyRecord[K, V]) Key() (key K, ok bool) { return r.r.Key, !r.r.NullKey }

// Get returns the value and whether there is one.
func (r FixedKeyRecord[K, V]) Get() (v V, ok bool) { return r.r.Get() }

// Record returns a copy as a plain record.
func (r FixedKeyRecord[K, V]) Record() Record[K, V] { return r.r }

// WithValue returns a copy with another value, see [Record.WithValue].
func (r FixedKeyRecord[K, V]) WithValue[V2 any](value V2) FixedKeyRecord[K, V2] {
	return FixedKeyRecord[K, V2]{r.r.WithValue(value)}
}

// WithTimestamp returns a copy with another time.
func (r FixedKeyRecord[K, V]) WithTimestamp(t time.Time) FixedKeyRecord[K, V] {
	return FixedKeyRecord[K, V]{r.r.WithTimestamp(t)}
}

// WithHeaders returns a copy with other headers.
func (r FixedKeyRecord[K, V]) WithHeaders(h Headers) FixedKeyRecord[K, V] {
	return FixedKeyRecord[K, V]{r.r.WithHeaders(h)}
}

// Null returns a copy with a null value.
func (r FixedKeyRecord[K, V]) Null() FixedKeyRecord[K, V] { return FixedKeyRecord[K, V]{r.r.Null()} }

// TaskContext is what the contexts of all processors have in common: time, stores, place. It is the task's context.Context.
type TaskContext struct {
	context.Context
	t    *task
	info *nodeInfo
}

// Context is what a [Processor] works with: it forwards records of the types KOut and VOut. It is also the task's context.Context, ending when the
// app does, so it can be handed to calls that block. It belongs to the task's goroutine and must not be kept beyond Close.
type Context[KOut, VOut any] struct {
	TaskContext
	out children[KOut, VOut]
}

// Forward hands r to every child, depth first: it returns when the record has run through all of them.
func (c *Context[KOut, VOut]) Forward(r Record[KOut, VOut]) { forward(c.TaskContext, &c.out, r) }

// ForwardTo hands r to one child by its node name. There being no such child is an error of this record.
func (c *Context[KOut, VOut]) ForwardTo(child string, r Record[KOut, VOut]) error {
	for i, name := range c.info.children {
		if name == child {
			only := children[KOut, VOut]{first: c.out.first}
			if i > 0 {
				only.first = c.out.more[i-1]
			}
			forward(c.TaskContext, &only, r)
			return nil
		}
	}
	return fmt.Errorf("streams: %s has no child %q", c.info.name, child)
}

// forward hands a processor's record on, and then puts back what the task knows about the one that is being processed.
func forward[K, V any](c TaskContext, to *children[K, V], r Record[K, V]) {
	if r.Timestamp.UnixMilli() < 0 {
		tasks.Throw(fmt.Errorf("%s forwards a record of %v, before 1970", c.info.name, r.Timestamp))
	}
	now, headers := c.t.now, c.t.headers
	to.forward(recOf(r))
	c.t.at, c.t.now, c.t.headers = c.info, now, headers
}

// Record makes a record with the time and headers of the one being processed; in a punctuation, with its time and no headers.
func (c *Context[KOut, VOut]) Record(key KOut, value VOut) Record[KOut, VOut] {
	r := Record[KOut, VOut]{Key: key, Timestamp: c.now(), Headers: c.Headers()}
	return r.WithKey(key).WithValue(value)
}

// Tombstone is Record with a null value.
func (c *Context[KOut, VOut]) Tombstone(key KOut) Record[KOut, VOut] {
	return Record[KOut, VOut]{Timestamp: c.now(), Headers: c.Headers()}.WithKey(key).Null()
}

// Schedule calls f every interval of stream time or wall-clock time until stop is called or the task ends. Missed times collapse into one
// call. Stream time begins with the first record, which also fires the first call. An error of f goes to [Config.OnProcessError].
func (c *Context[KOut, VOut]) Schedule(every time.Duration, kind PunctuationType, f func(ctx *Context[KOut, VOut], now time.Time) error) (stop func()) {
	return c.schedule(every, kind, func(now time.Time) error { return f(c, now) })
}

// FixedKeyContext is what a [FixedKeyProcessor] works with. Like [Context] it is the task's context.Context and belongs to the task's goroutine.
type FixedKeyContext[K, VOut any] struct {
	TaskContext
	out children[K, VOut]
}

// Forward hands r to every child, depth first.
func (c *FixedKeyContext[K, VOut]) Forward(r FixedKeyRecord[K, VOut]) {
	forward(c.TaskContext, &c.out, r.r)
}

// Schedule is [Context.Schedule].
func (c *FixedKeyContext[K, VOut]) Schedule(every time.Duration, kind PunctuationType, f func(ctx *FixedKeyContext[K, VOut], now time.Time) error) (stop func()) {
	return c.schedule(every, kind, func(now time.Time) error { return f(c, now) })
}

// Store opens a store that was given to the operator by [WithStores]. A store that was not given is a bug and panics.
func (c TaskContext) Store[S any](h StoreHandle[S]) S {
	name := h.storeName()
	if c.t.isGlobal(name) {
		return h.open(c.t)
	}
	for _, s := range c.info.stores {
		if s == name {
			up := c.t.updaters[name]
			c.t.readOnly = up != nil && up != c.info
			store := h.open(c.t)
			c.t.readOnly = false
			return store
		}
	}
	panic(fmt.Sprintf("streams: store %q was not given to %s with streams.WithStores", name, c.info.name))
}

// Origin tells where the input record came from. There is none in a punctuation.
func (c TaskContext) Origin() (o Origin, ok bool) { return c.t.origin(), c.t.ctx.Topic != "" }

// Headers are those of the record being processed.
func (c TaskContext) Headers() Headers { return c.t.headers }

// now is the time of what is being processed.
func (c TaskContext) now() time.Time { return time.UnixMilli(c.t.now).UTC() }

// StreamTime is the highest time the task has seen; ok is false before the first record.
func (c TaskContext) StreamTime() (t time.Time, ok bool) {
	ms := c.t.ctx.StreamTime()
	return time.UnixMilli(ms).UTC(), ms >= 0
}

// WallClock is the injected clock, read once per round of the worker. Use it, and not time.Now, or tests cannot move it.
func (c TaskContext) WallClock() time.Time { return time.UnixMilli(c.t.ctx.Now()).UTC() }

// RequestCommit asks for a commit soon.
func (c TaskContext) RequestCommit() { c.t.ctx.RequestCommit() }

// Task is the id of the task, such as 0_1.
func (c TaskContext) Task() string { return c.t.id.String() }

// ApplicationID is Config.ApplicationID.
func (c TaskContext) ApplicationID() string { return c.t.cfg.naming.ApplicationID }

// StateDir is a directory that belongs to the task and moves with nothing.
func (c TaskContext) StateDir() string { return c.t.cfg.stateDir(c.t.id) }

// Log is the app's logger with task and node as attributes.
func (c TaskContext) Log() *slog.Logger { return c.t.log.With("node", c.info.name) }

func (c TaskContext) schedule(every time.Duration, kind PunctuationType, f func(now time.Time) error) (stop func()) {
	call := func(ms int64) {
		c.t.at, c.t.now, c.t.headers = c.info, ms, nil
		if err := f(time.UnixMilli(ms).UTC()); err != nil {
			c.t.failed(c.info.name, Punctuate, err, "")
		}
	}
	if kind == WallClockTime {
		return c.t.ctx.ScheduleWall(every, call)
	}
	return c.t.ctx.ScheduleStream(every, call)
}

// PunctuationType is the clock that a schedule follows.
type PunctuationType uint8

const (
	// StreamTime advances with the records of the task. No records, no punctuation.
	StreamTime PunctuationType = iota
	// WallClockTime is the injected clock.
	WallClockTime
)

// processorFunc makes a Processor of a function, and fixedKeyFunc a FixedKeyProcessor.
type (
	processorFunc[KIn, VIn, KOut, VOut any] func(ctx *Context[KOut, VOut], r Record[KIn, VIn]) error
	fixedKeyFunc[K, VIn, VOut any]          func(ctx *FixedKeyContext[K, VOut], r FixedKeyRecord[K, VIn]) error
)

func (f processorFunc[KIn, VIn, KOut, VOut]) Process(ctx *Context[KOut, VOut], r Record[KIn, VIn]) error {
	return f(ctx, r)
}

func (f fixedKeyFunc[K, VIn, VOut]) Process(ctx *FixedKeyContext[K, VOut], r FixedKeyRecord[K, VIn]) error {
	return f(ctx, r)
}

// process runs a Processor of the user's.
type process[KIn, VIn, KOut, VOut any, P Processor[KIn, VIn, KOut, VOut]] struct {
	base
	make func() P
	p    P
	ctx  Context[KOut, VOut]
}

func newProcess[KIn, VIn, KOut, VOut any, P Processor[KIn, VIn, KOut, VOut]](b base, make func() P) *process[KIn, VIn, KOut, VOut, P] {
	return &process[KIn, VIn, KOut, VOut, P]{base: b, make: make}
}

func (n *process[KIn, VIn, KOut, VOut, P]) attach(child sink[KOut, VOut]) { n.ctx.out.attach(child) }

func (n *process[KIn, VIn, KOut, VOut, P]) open() error {
	n.enter()
	n.ctx.TaskContext = TaskContext{n.t.cfg.ctx, n.t, n.info}
	n.p = n.make()
	return initProcessor(n.p, &n.ctx)
}

// initProcessor calls Init where a processor has it.
func initProcessor[C any](p any, ctx C) error {
	if i, ok := p.(interface{ Init(C) error }); ok {
		return i.Init(ctx)
	}
	return nil
}

func (n *process[KIn, VIn, KOut, VOut, P]) close() error { return closeProcessor(n.p) }

func closeProcessor(p any) error {
	if c, ok := p.(interface{ Close() error }); ok {
		return c.Close()
	}
	return nil
}

func (n *process[KIn, VIn, KOut, VOut, P]) process(r rec[KIn, VIn]) {
	n.enter()
	n.t.now, n.t.headers = r.ts, r.headers
	if err := n.p.Process(&n.ctx, r.record()); err != nil {
		n.failed(ProcessRecord, err)
	}
}

// processValues runs a FixedKeyProcessor of the user's.
type processValues[K, VIn, VOut any, P FixedKeyProcessor[K, VIn, VOut]] struct {
	base
	make func() P
	p    P
	ctx  FixedKeyContext[K, VOut]
}

func newProcessValues[K, VIn, VOut any, P FixedKeyProcessor[K, VIn, VOut]](b base, make func() P) *processValues[K, VIn, VOut, P] {
	return &processValues[K, VIn, VOut, P]{base: b, make: make}
}

func (n *processValues[K, VIn, VOut, P]) attach(child sink[K, VOut]) { n.ctx.out.attach(child) }

func (n *processValues[K, VIn, VOut, P]) open() error {
	n.enter()
	n.ctx.TaskContext = TaskContext{n.t.cfg.ctx, n.t, n.info}
	n.p = n.make()
	return initProcessor(n.p, &n.ctx)
}

func (n *processValues[K, VIn, VOut, P]) close() error { return closeProcessor(n.p) }

func (n *processValues[K, VIn, VOut, P]) process(r rec[K, VIn]) {
	n.enter()
	n.t.now, n.t.headers = r.ts, r.headers
	if err := n.p.Process(&n.ctx, FixedKeyRecord[K, VIn]{r.record()}); err != nil {
		n.failed(ProcessRecord, err)
	}
}
