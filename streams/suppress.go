package streams

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/millrace/millrace/streams/window"
	"github.com/millrace/millrace/topology"
)

// ErrBufferFull is the cause of the error that stops a task whose suppression holds more than it may. The error names the operator.
var ErrBufferFull = errors.New("streams: suppression buffer is full")

// Suppression is [UntilWindowCloses] or the result of [UntilTimeLimit].
type Suppression interface{ suppression() suppression }

// suppression is what a [Suppression] says.
type suppression struct {
	limit          time.Duration
	final          bool // until the window closes
	records, bytes bound
	early          bool
}

// bound is a limit of a buffer; the zero value is none.
type bound struct {
	n   int64
	set bool
}

func (b bound) max() int64 {
	if b.set {
		return b.n
	}
	return math.MaxInt64
}

// WindowClose is the type of [UntilWindowCloses].
type WindowClose struct{ records, bytes bound }

// UntilWindowCloses lets only the final result of a window through, when its end and grace have passed in stream time: that of the records which reach the
// operator, so the last windows wait for a later record (F-123, F-125). Deletions are swallowed. What is held is in memory and unbounded; with a bound, a full
// buffer stops the app with [ErrBufferFull], since anything else would not be final.
//
// A session is let through one millisecond before the aggregation closes it, as in Kafka Streams: a record exactly one gap later can still extend it, and
// the extended session is a result of its own. Unlimited windows never close: a Build error.
var UntilWindowCloses WindowClose

// MaxRecords bounds the buffer of each task.
func (w WindowClose) MaxRecords(n int64) WindowClose { w.records = bound{n, true}; return w }

// MaxBytes bounds the buffer of each task: keys, values, and what is kept of the record they came with.
func (w WindowClose) MaxBytes(n int64) WindowClose { w.bytes = bound{n, true}; return w }

func (w WindowClose) suppression() suppression {
	return suppression{final: true, records: w.records, bytes: w.bytes}
}

// TimeLimit is the result of [UntilTimeLimit].
type TimeLimit struct {
	limit          time.Duration
	records, bytes bound
	early          bool
}

// UntilTimeLimit holds the changes of a key for d of stream time, counted from the first of them, and then lets the last one through. Deletions count as
// changes (F-124). What is held is in memory and unbounded, unless it is given a bound.
func UntilTimeLimit(d time.Duration) TimeLimit { return TimeLimit{limit: d} }

// MaxRecords bounds the buffer of each task; when it is full the app stops with [ErrBufferFull].
func (l TimeLimit) MaxRecords(n int64) TimeLimit { l.records = bound{n, true}; return l }

// MaxBytes bounds the buffer of each task; when it is full the app stops with [ErrBufferFull]. See [WindowClose.MaxBytes].
func (l TimeLimit) MaxBytes(n int64) TimeLimit { l.bytes = bound{n, true}; return l }

// EmitEarlyWhenFull lets the oldest changes through instead of stopping the app.
func (l TimeLimit) EmitEarlyWhenFull() TimeLimit { l.early = true; return l }

func (l TimeLimit) suppression() suppression {
	return suppression{limit: l.limit, records: l.records, bytes: l.bytes, early: l.early}
}

// SuppressOption configures Suppress: [Named], [KeySerde], [ValueSerde], [NoLogging] and [Changelog].
type SuppressOption interface{ suppress(*options) }

func (n NamedOption) suppress(o *options) { o.name = n.name }
func (s SerdeOption) suppress(o *options) { s.add(o) }
func (k StoreKnob) suppress(o *options)   { k.set(o) }

// Suppress thins out updates: each key speaks at most once per [UntilTimeLimit]. What is held back is in the changelog of a buffer, and not lost when the
// task moves. Lookups in the result see the row as it was before it was held back. A table that is versioned, or made of one that is, cannot be suppressed:
// a Build error (KIP-914, F-128).
func (t *Table[K, V]) Suppress(s TimeLimit, opts ...SuppressOption) *Table[K, V] {
	c, buffer := t.b.suppression(gather(opts, SuppressOption.suppress), s.suppression(), t.info, closing{})
	sd := serdes[K, V]{
		serdeFor(c.b, c.name, c.at, true, c.opts.serdes, t.serdes.key), serdeFor(c.b, c.name, c.at, false, c.opts.serdes, t.serdes.value),
	}
	info := &tableInfo{}
	info.fromParent(t.info)
	st := c.add(func(g *topology.Graph) {
		c.addStore(g, buffer, c.opts.name != "")
		c.node(g, suppressNode(buffer, sd, s.suppression(), closing{}, nil), []string{buffer.Name}, t.name)
	}, t.step)
	return &Table[K, V]{above{b: t.b, step: st, name: c.name, sources: t.sources}, sd, info, suppressedView(t.view, buffer, sd)}
}

// Suppress holds changes back: [UntilWindowCloses] for the final result only, or [UntilTimeLimit].
func (t *WindowedTable[K, V]) Suppress(s Suppression, opts ...SuppressOption) *WindowedTable[K, V] {
	how := suppression{}
	if s != nil {
		how = s.suppression()
	}
	c, buffer := t.b.suppression(gather(opts, SuppressOption.suppress), how, t.info, t.closes)
	if s == nil {
		c.mistake(fmt.Errorf("%w: the suppression is nil", ErrBadOption))
	}
	out := *t
	out.serdes = serdes[window.Windowed[K], V]{
		serdeFor(c.b, c.name, c.at, true, c.opts.serdes, t.serdes.key), serdeFor(c.b, c.name, c.at, false, c.opts.serdes, t.serdes.value),
	}
	out.info = &tableInfo{}
	out.info.fromParent(t.info)
	end := func(k window.Windowed[K]) int64 { return k.End.UnixMilli() }
	out.step = c.add(func(g *topology.Graph) {
		c.addStore(g, buffer, c.opts.name != "")
		c.node(g, suppressNode(buffer, out.serdes, how, t.closes, end), []string{buffer.Name}, t.name)
	}, t.step)
	out.name = c.name
	return &out
}

// suppression begins a call of Suppress. If the operator has a name, none is taken from the counter, as in Kafka Streams.
func (b *Builder) suppression(o options, how suppression, table *tableInfo, closes closing) (*call, topology.Store) {
	c := &call{b: b, name: o.name, at: b.line(), opts: o}
	c.checkName()
	buffer := topology.Store{Name: c.opts.name + "-store", Kind: topology.BufferStore, InMemory: true, Logging: true}
	if c.opts.name == "" {
		c.name = b.newName("KTABLE-SUPPRESS-")
		buffer.Name = b.newStoreName("KTABLE-SUPPRESS-")
	}
	if o.inMemory != nil || o.caching != nil || o.retention != nil {
		c.mistake(fmt.Errorf("%w: a suppression's buffer is in memory, without a cache, and keeps a row until it is let through", ErrBadOption))
	}
	switch {
	case table.versioned: // F-128
		c.mistake(fmt.Errorf("%w: the table is versioned, or made of one that is, and its changes come in no order that a suppression could keep", ErrBadOption))
	case how.limit < 0:
		c.mistake(fmt.Errorf("%w: the time limit %v is negative", ErrBadOption, how.limit))
	case how.records.set && how.records.n < 1 || how.bytes.set && how.bytes.n < 1:
		c.mistake(fmt.Errorf("%w: a suppression that may hold nothing", ErrBadOption))
	case how.final && closes.never:
		c.mistake(fmt.Errorf("%w: an unlimited window never closes, so its final result would never come", ErrBadWindow))
	}
	if o.noLogging {
		buffer.Logging = false
	}
	buffer.ChangelogConfig = o.changelog
	c.ownHidden(buffer, true)
	table.sendOld(true)
	return c, buffer
}

// suppressNode is the node of a suppression. end is the end of the window of a key.
func suppressNode[K, V any](buffer topology.Store, sd serdes[K, V], how suppression, closes closing, end func(K) int64) spec {
	n := suppressor[K, V]{limit: how.limit.Milliseconds(), early: how.early, maxRecords: how.records.max(), maxBytes: how.bytes.max()}
	if how.final {
		n.limit, n.end = closes.after, end
	}
	return specOf(func(t *task, info *nodeInfo) sink[K, change[V]] {
		own := n
		own.base, own.observed = base{t, info}, -1
		own.held = openBuffer(t, buffer, sd.key, sd.value)
		return &own
	})
}

// suppressedView looks rows up as the suppression has let them through.
func suppressedView[K, V any](above tableView[K, V], buffer topology.Store, sd serdes[K, V]) tableView[K, V] {
	return tableView[K, V]{
		need:   above.need,
		stores: func() []string { return append([]string{buffer.Name}, slices.Clone(above.stores())...) },
		make: func(t *task) func(K) found[V] {
			held, row := openBuffer(t, buffer, sd.key, sd.value), above.make(t)
			return func(key K) found[V] {
				if prior, ok := held.prior(key); ok {
					return prior
				}
				return row(key)
			}
		},
	}
}
