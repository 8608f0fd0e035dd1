// Package streamstest runs a topology inside a test: no broker, no goroutine, and a clock that only the test moves.
//
//	d := streamstest.New(t, topology)
//	in, out := d.Input(lines), d.Output(counts)
//	in.Pipe("", "to be or not to be")
//	got := out.ReadAll()
//
// Piping a record runs it through all sub-topologies to the end, repartition topics included, and commits after each record on the way; so every update is
// seen and no cache collapses them. Of all records that wait, the one with the lowest time is next, as in Java's TopologyTestDriver. Partitions are those of
// the real thing: a record goes where the partitioner sends it, to a task of its own.
package streamstest

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/state"
	"github.com/millrace/millrace/state/pebblestore"
	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/internal/bridge"
	"github.com/millrace/millrace/tasks"
	"github.com/millrace/millrace/topology"
)

// Option configures a driver.
type Option func(*Driver)

// StartAt sets the wall clock. Default: 2000-01-01 UTC, so that tests do not depend on the day they run.
func StartAt(t time.Time) Option { return func(d *Driver) { d.now = t } }

// Partitions gives a topic n partitions; "*" is every topic that is not named. Default: 1.
func Partitions(topic string, n int) Option { return func(d *Driver) { d.counts[topic] = int32(n) } }

// WithConfig sets what an app would have: handlers, dead letter topic, cache. Brokers and StateDir are ignored.
func WithConfig(cfg streams.Config) Option { return func(d *Driver) { d.cfg = cfg } }

// CommitEvery commits after n processed records, those of repartition topics included, instead of after each. That lets caches collapse updates as in
// production. 0 commits only in [Driver.Commit].
func CommitEvery(n int) Option { return func(d *Driver) { d.every = n } }

// Driver runs one topology. It is closed by the test's Cleanup.
type Driver struct {
	t        testing.TB
	topology *streams.Topology
	graph    *topology.Topology
	cfg      streams.Config
	naming   topology.Naming
	counts   map[string]int32 // partitions by full topic name; "*" for the rest
	every    int
	now      time.Time
	dir      string
	engine   *pebblestore.Engine

	topics  map[string]*topicLog
	written []string // topics in the order of their first record
	tasks   map[topology.TaskID]*running
	order   []topology.TaskID
	readers map[tasks.TopicPartition]*running
	arrived []tasks.TopicPartition // inputs of tasks that were written to
	waiting heads
	count   int // processed records
	arena   tasks.Arena
	dropped map[string]int64 // of tasks that were closed
	err     error
}

// running is one task, with what survives its restart.
type running struct {
	local   *tasks.Local
	program tasks.Program
	offsets map[tasks.TopicPartition]int64 // committed
	times   map[tasks.TopicPartition]int64
	fed     map[tasks.TopicPartition]int64 // handed to the task
}

// topicLog is a topic: its records by partition, and over all partitions in the order they were written.
type topicLog struct {
	partitions [][]tasks.Record
	order      []place
}

type place struct {
	partition int32
	index     int
}

// New starts a topology. A topology that does not start fails the test.
func New(t testing.TB, topo *streams.Topology, opts ...Option) *Driver {
	t.Helper()
	d := &Driver{
		t: t, topology: topo, graph: topo.Graph(), counts: map[string]int32{}, every: 1, now: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC),
		topics: map[string]*topicLog{}, tasks: map[topology.TaskID]*running{}, readers: map[tasks.TopicPartition]*running{}, dropped: map[string]int64{},
	}
	for _, o := range opts {
		o(d)
	}
	if d.cfg.ApplicationID == "" {
		d.cfg.ApplicationID = "test"
	}
	d.naming = topology.Naming{ApplicationID: d.cfg.ApplicationID, ReplicationFactor: -1, WindowExtra: 24 * time.Hour}
	d.dir = t.TempDir()
	d.engine = pebblestore.New(pebblestore.Options{})
	t.Cleanup(d.close)
	d.countPartitions()
	for _, s := range d.graph.Subtopologies {
		for p := range d.tasksOf(s) {
			id := topology.TaskID{Subtopology: s.ID, Partition: p}
			r := &running{offsets: map[tasks.TopicPartition]int64{}, times: map[tasks.TopicPartition]int64{}}
			d.tasks[id] = r
			d.order = append(d.order, id)
			if err := d.open(s, id, r); err != nil {
				t.Fatalf("streamstest: %v", err)
			}
		}
	}
	return d
}

// countPartitions derives the partitions of repartition topics from what is upstream of them, as a broker does.
func (d *Driver) countPartitions() {
	metadata := d.graph.Metadata(d.naming)
	for changed := true; changed; {
		changed = false
		for _, s := range metadata.Subtopologies {
			var most int32
			for _, topic := range s.SourceTopics {
				most = max(most, d.partitions(topic))
			}
			for _, r := range s.RepartitionSourceTopics {
				if r.Partitions > 0 {
					d.counts[r.Name] = r.Partitions
				}
				most = max(most, d.counts[r.Name])
			}
			for _, topic := range s.RepartitionSinkTopics {
				if d.counts[topic] < most && !d.fixed(metadata, topic) {
					d.counts[topic], changed = most, true
				}
			}
		}
	}
	for _, s := range metadata.Subtopologies { // a flexible topic follows its external co-partner
		for _, g := range s.CopartitionGroups {
			if len(g.SourceTopics) == 0 {
				continue
			}
			n := d.partitions(s.SourceTopics[g.SourceTopics[0]])
			for _, i := range g.RepartitionSourceTopics {
				if s.RepartitionSourceTopics[i].Partitions == 0 {
					d.counts[s.RepartitionSourceTopics[i].Name] = n
				}
			}
		}
	}
}

func (d *Driver) fixed(m topology.Metadata, topic string) bool {
	for _, s := range m.Subtopologies {
		for _, r := range s.RepartitionSourceTopics {
			if r.Name == topic && r.Partitions > 0 {
				return true
			}
		}
	}
	return false
}

func (d *Driver) partitions(topic string) int32 {
	if n, ok := d.counts[topic]; ok {
		return n
	}
	return max(1, d.counts["*"])
}

func (d *Driver) inputsOf(s *topology.Subtopology) []string {
	topics := slices.Clone(s.SourceTopics)
	for _, r := range s.RepartitionTopics {
		topics = append(topics, d.graph.TopicName(d.naming, r))
	}
	return topics
}

func (d *Driver) tasksOf(s *topology.Subtopology) (n int32) {
	for _, topic := range d.inputsOf(s) {
		n = max(n, d.partitions(topic))
	}
	return n
}

// open starts a task from what its stores, its changelogs and its committed offsets hold.
func (d *Driver) open(s *topology.Subtopology, id topology.TaskID, r *running) error {
	dir := filepath.Join(d.dir, id.String())
	program, err := bridge.Program(d.topology, d.cfg, d.naming, s, id, slog.New(slog.DiscardHandler), dir)
	if err != nil {
		return err
	}
	var stores *state.Stores
	if len(s.Stores) > 0 {
		specs := slices.Clone(s.Stores)
		if d.cfg.CacheBytes < 0 {
			for i := range specs {
				specs[i].Caching = false
			}
		}
		stores, err = state.Open(state.Options{ApplicationID: d.cfg.ApplicationID, Task: id, Dir: dir, Engine: d.engine, Stores: specs})
		if err != nil {
			return err
		}
		if err := d.restore(s, id, stores); err != nil {
			return err
		}
	}
	inputs := map[tasks.TopicPartition]int64{}
	for _, topic := range d.inputsOf(s) {
		if id.Partition < d.partitions(topic) {
			p := tasks.TopicPartition{Topic: topic, Partition: id.Partition}
			inputs[p] = max(0, r.offsets[p])
			d.readers[p] = r
			d.arrived = append(d.arrived, p)
		}
	}
	r.program, r.fed = program, maps.Clone(inputs)
	r.local, err = tasks.NewLocal(tasks.LocalConfig{
		ID: id, Sub: s, Naming: d.naming, Inputs: inputs, Times: r.times, Program: program, Stores: stores, Producer: producer{d},
		Clock: clock{d}, MaxIdle: -1, Logger: slog.New(slog.DiscardHandler),
	})
	return err
}

// restore brings stores to the end of their changelogs.
func (d *Driver) restore(s *topology.Subtopology, id topology.TaskID, stores *state.Stores) error {
	for _, spec := range s.Stores {
		topic := spec.ChangelogName(d.cfg.ApplicationID)
		if topic == "" {
			continue
		}
		l := d.topic(topic)
		if int(id.Partition) >= len(l.partitions) {
			continue
		}
		records := l.partitions[id.Partition]
		next, _ := stores.ChangelogOffset(spec.Name)
		if next >= int64(len(records)) {
			continue
		}
		var batch []state.RestoreRecord
		for _, r := range records[next:] {
			batch = append(batch, state.RestoreRecord{Key: r.Key, Value: r.Value, Timestamp: r.Timestamp})
		}
		if err := stores.Restore(spec.Name, batch, int64(len(records))); err != nil {
			return err
		}
		if err := stores.FinishRestore(spec.Name); err != nil {
			return err
		}
	}
	return nil
}

// topic returns a topic's log. A changelog has as many partitions as its sub-topology has tasks.
func (d *Driver) topic(name string) *topicLog {
	l := d.topics[name]
	if l == nil {
		n := d.partitions(name)
		for _, s := range d.graph.Subtopologies {
			for _, spec := range s.Stores {
				if spec.ChangelogName(d.cfg.ApplicationID) == name {
					n = d.tasksOf(s)
				}
			}
		}
		l = &topicLog{partitions: make([][]tasks.Record, n)}
		d.topics[name] = l
	}
	return l
}

// write appends a record to a topic.
func (d *Driver) write(topic string, partition int32, r tasks.Record) {
	l := d.topic(topic)
	if partition < 0 {
		partition = 0
		if r.Key != nil {
			partition = tasks.PartitionFor(r.Key, len(l.partitions))
		}
	}
	if len(l.order) == 0 {
		d.written = append(d.written, topic)
	}
	r.Offset = int64(len(l.partitions[partition]))
	l.order = append(l.order, place{partition, len(l.partitions[partition])})
	l.partitions[partition] = append(l.partitions[partition], r)
	if p := (tasks.TopicPartition{Topic: topic, Partition: partition}); d.readers[p] != nil {
		d.arrived = append(d.arrived, p)
	}
}

// deliver hands what was written to the tasks that read it.
func (d *Driver) deliver() {
	for _, p := range d.arrived {
		r := d.readers[p]
		records := d.topic(p.Topic).partitions[p.Partition]
		if r.fed[p] == int64(len(records)) {
			continue
		}
		_, waits, err := r.local.Head(p)
		for ; r.fed[p] < int64(len(records)); r.fed[p]++ {
			r.local.Add(p, records[r.fed[p]])
		}
		if err == nil && !waits {
			err = d.wait(&head{reader: r, at: p})
		}
		if err != nil {
			d.err = err
			return
		}
	}
	d.arrived = d.arrived[:0]
}

// wait puts a partition in its place among the others, if it has a record.
func (d *Driver) wait(h *head) (err error) {
	ok := false
	if h.time, ok, err = h.reader.local.Head(h.at); ok {
		d.waiting.add(h)
	}
	return err
}

// settle processes records, in the order of time over all tasks, until none is left.
func (d *Driver) settle() {
	for d.err == nil {
		d.deliver()
		h := d.waiting.take()
		if h == nil || d.err != nil {
			return
		}
		if d.err = h.reader.local.Process(h.at, d.now); d.err != nil {
			return
		}
		if d.err = d.wait(h); d.err != nil {
			return
		}
		d.count++
		if d.every > 0 && d.count%d.every == 0 {
			d.flush()
			d.commit()
		}
	}
}

// Commit commits every task now, and first runs what the flushed caches lead to.
func (d *Driver) Commit() {
	for before := -1; d.err == nil && before != d.records(); {
		before = d.records()
		d.flush()
		d.settle()
	}
	d.commit()
}

func (d *Driver) flush() {
	for _, id := range d.order {
		if d.err == nil {
			d.err = d.tasks[id].local.Flush()
		}
	}
}

func (d *Driver) commit() {
	for _, id := range d.order {
		if d.err == nil {
			r := d.tasks[id]
			r.offsets, r.times, d.err = r.local.Commit()
		}
	}
}

func (d *Driver) records() (n int) {
	for _, l := range d.topics {
		n += len(l.order)
	}
	return n
}

// AdvanceWallClock moves the clock by d and runs the punctuations that are due. Stream time moves only with records.
func (d *Driver) AdvanceWallClock(by time.Duration) {
	d.now = d.now.Add(by)
	for _, id := range d.order {
		if d.err != nil {
			return
		}
		d.err = d.tasks[id].local.Punctuate(d.now)
	}
	if d.every > 0 {
		d.flush()
		d.commit()
	}
	d.settle()
}

// Now is the wall clock.
func (d *Driver) Now() time.Time { return d.now }

// Restart closes all tasks and opens them again: from their stores and changelogs, as another process would after a clean stop.
func (d *Driver) Restart() { d.Commit(); d.reopen(true) }

// Crash is Restart without a clean stop: what was not committed is lost in the stores and done again, at least once.
func (d *Driver) Crash() { d.reopen(false) }

func (d *Driver) reopen(clean bool) {
	d.t.Helper()
	d.arrived, d.waiting = nil, nil
	for _, id := range d.order {
		r := d.tasks[id]
		d.keepDropped(r)
		if err := r.local.Close(clean); err != nil {
			d.t.Fatalf("streamstest: close %s: %v", id, err)
		}
		if err := d.open(d.graph.Subtopology(id.Subtopology), id, r); err != nil {
			d.t.Fatalf("streamstest: open %s again: %v", id, err)
		}
	}
	d.settle()
}

func (d *Driver) keepDropped(r *running) {
	for reason, n := range r.local.Dropped() {
		d.dropped[reason] += n
	}
}

func (d *Driver) close() {
	d.t.Helper()
	for _, id := range d.order {
		if r := d.tasks[id]; r.local != nil {
			if err := r.local.Close(d.err == nil); err != nil {
				d.t.Errorf("streamstest: close %s: %v", id, err)
			}
		}
	}
	if err := d.engine.Close(); err != nil {
		d.t.Errorf("streamstest: %v", err)
	}
	if d.err != nil {
		d.t.Errorf("streamstest: the topology stopped: %v", d.err)
	}
}

// Err is what stopped the topology, or nil. A test that never asks fails when it is not nil.
func (d *Driver) Err() error {
	err := d.err
	d.err = nil
	return err
}

// Topics are the names of all topics written so far, internal ones included, in the order of their first record.
func (d *Driver) Topics() []string { return slices.Clone(d.written) }

// Dropped is the number of records dropped so far, by reason.
func (d *Driver) Dropped() map[string]int64 {
	all := maps.Clone(d.dropped)
	for _, r := range d.tasks {
		for reason, n := range r.local.Dropped() {
			all[reason] += n
		}
	}
	return all
}

// Store opens a store for reading and writing, of the task with the given partition.
func (d *Driver) Store[S any](h streams.StoreHandle[S], partition int32) S {
	d.t.Helper()
	for _, id := range d.order {
		sub := d.graph.Subtopology(id.Subtopology)
		if id.Partition != partition || !slices.ContainsFunc(sub.Stores, func(s topology.Store) bool { return s.Name == streams.StoreNameOf(h) }) {
			continue
		}
		r := d.tasks[id]
		bridge.Touch(r.program, d.now.UnixMilli())
		return bridge.Open(r.program, h).(S)
	}
	d.t.Fatalf("streamstest: no task with partition %d has the store %q", partition, streams.StoreNameOf(h))
	panic("unreachable")
}

// producer writes to the driver's topics.
type producer struct{ d *Driver }

type output struct {
	d     *Driver
	topic string
}

func (p producer) Output(topic string) (tasks.Output, error) { return output{p.d, topic}, nil }
func (p producer) Arena() *tasks.Arena                       { return &p.d.arena }
func (p producer) Flush(context.Context) error               { return nil }
func (p producer) Err() error                                { return nil }
func (p producer) Abort(context.Context) error               { return nil }
func (p producer) Reset(context.Context) error               { return nil }
func (p producer) Commit(context.Context, map[tasks.TopicPartition]tasks.Committed) error {
	return nil
}

func (o output) Send(partition int32, key, value []byte, timestamp int64, headers []tasks.Header) {
	o.d.write(o.topic, partition, tasks.Record{Key: key, Value: value, Timestamp: timestamp, Headers: headers})
}

func (o output) Partitions() (int, error) { return len(o.d.topic(o.topic).partitions), nil }

func (o output) Next(partition int32) int64 {
	n := len(o.d.topic(o.topic).partitions[partition])
	if n == 0 {
		return -1
	}
	return int64(n)
}

type clock struct{ d *Driver }

func (c clock) Now() time.Time { return c.d.now }
func (c clock) After(time.Duration) <-chan time.Time {
	panic(fmt.Sprintf("streamstest: nothing waits at %v", c.d.now))
}
