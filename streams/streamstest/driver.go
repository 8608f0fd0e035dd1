// Package streamstest runs a topology inside a test: no broker, no goroutine, and a clock that only the test moves.
//
//	d := streamstest.New(t, topology)
//	in, out := d.Input(lines), d.Output(counts)
//	in.PipeValues("to be or not to be")
//	got := streamstest.Latest(out)
//
// Piping a record runs it through all sub-topologies to the end, repartition topics included, and commits; so every update is seen
// and no cache collapses them. Partitions are those of the real thing: a record goes where the partitioner sends it, to a task of its own.
//
// [CommitEvery] lets caches work. [Driver.Restart] and [Driver.Crash] end the tasks and begin them again, from their stores or from their changelogs.
// [Driver.FailProduce], [Driver.FailCommit] and [Driver.FailStore] are for what must not happen and will. [RunProcessor] tests one processor by itself,
// and [Run] is a driver outside of a test.
//
// A Driver and what it gives out belong to the test's goroutine.
package streamstest

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
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
type Option interface{ apply(*Driver) }

type option func(*Driver)

func (o option) apply(d *Driver) { o(d) }

// StartAt sets the wall clock. Default: 2000-01-01 UTC, so that tests do not depend on the day they run.
func StartAt(t time.Time) Option { return option(func(d *Driver) { d.now = t }) }

// Partitions gives a topic, or all that match a pattern of [path.Match] such as "*", n partitions. A name goes before patterns, and the first pattern
// that matches before others. Default: 1. Repartition topics have as many as what is upstream of them, or as their operator says.
func Partitions(topic string, n int) Option {
	return option(func(d *Driver) { d.counts = append(d.counts, count{topic, n}) })
}

// WithConfig sets what an app would have: application id, guarantee, handlers, dead letter topic, print, and whether stores cache (CacheBytes; its size
// does not matter). What concerns brokers, files, workers and intervals is ignored. Default: the zero Config, with the application id "test".
func WithConfig(cfg streams.Config) Option { return option(func(d *Driver) { d.cfg = cfg }) }

// CommitEvery commits after n processed records, those of repartition topics included, instead of after each. That lets caches collapse updates as in
// production. 0 commits only in [Driver.Commit] and where a processor asks for it.
func CommitEvery(n int) Option { return option(func(d *Driver) { d.every = n }) }

// Driver runs one topology. It is closed by the test's Cleanup, which also fails the test if a processor did not close an iterator, and if the topology
// stopped and nobody asked [Driver.Err].
type Driver struct {
	t        testing.TB
	topology *streams.Topology
	graph    *topology.Topology
	cfg      streams.Config
	naming   topology.Naming
	counts   []count
	every    int
	now      time.Time
	dir      string
	engine   *pebblestore.Engine

	internal  map[string]int32 // partitions of repartition topics, by full name
	topics    map[string]*topicLog
	written   []string // topics in the order of their first record
	tasks     map[topology.TaskID]*running
	order     []topology.TaskID
	readers   map[tasks.TopicPartition]*running
	arrived   []tasks.TopicPartition // inputs of tasks that were written to
	waiting   heads
	processed int              // records processed since the last commit
	asked     bool             // a processor asked for a commit
	commits   int              // so far, of those that processors asked for
	dropped   map[string]int64 // of tasks that were closed
	arena     tasks.Arena
	fail      failures
	globals   *tasks.Global                  // nil if the topology has no global stores
	globalAt  map[tasks.TopicPartition]int64 // handed to them

	err  error // what stopped the topology
	told bool  // the test has asked for it
}

// count is a number of partitions for the topics that match a pattern.
type count struct {
	pattern string
	n       int
}

// running is one task, with what survives its restart.
type running struct {
	local   *tasks.Local
	stores  *state.Stores
	program tasks.Program
	offsets map[tasks.TopicPartition]int64 // committed
	times   map[tasks.TopicPartition]int64
	kept    map[string]int64               // metadata of processors, committed with the offsets
	fed     map[tasks.TopicPartition]int64 // handed to the task
}

// New starts a topology. A topology that does not start fails the test.
func New(t testing.TB, topo *streams.Topology, opts ...Option) *Driver {
	t.Helper()
	d := &Driver{
		t: t, topology: topo, graph: topo.Graph(), every: 1, now: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC),
		internal: map[string]int32{}, topics: map[string]*topicLog{}, tasks: map[topology.TaskID]*running{},
		readers: map[tasks.TopicPartition]*running{}, dropped: map[string]int64{},
	}
	for _, o := range opts {
		if o != nil {
			o.apply(d)
		}
	}
	if d.cfg.ApplicationID == "" {
		d.cfg.ApplicationID = "test"
	}
	for _, c := range d.counts {
		if _, err := filepath.Match(c.pattern, ""); err != nil || c.n < 1 {
			t.Fatalf("streamstest: Partitions(%q, %d): it takes a name or a pattern, and at least 1 partition", c.pattern, c.n)
		}
	}
	d.naming = topology.Naming{ApplicationID: d.cfg.ApplicationID, ReplicationFactor: -1, WindowExtra: 24 * time.Hour}
	d.dir = t.TempDir()
	d.engine = pebblestore.New(pebblestore.Options{})
	t.Cleanup(d.close)
	d.countInternal()
	if err := d.openGlobals(); err != nil {
		t.Fatalf("streamstest: %v", err)
	}
	for _, s := range d.graph.Subtopologies {
		for p := range d.tasksOf(s) {
			id := topology.TaskID{Subtopology: s.ID, Partition: p}
			d.tasks[id] = &running{offsets: map[tasks.TopicPartition]int64{}, times: map[tasks.TopicPartition]int64{}}
			d.order = append(d.order, id)
			if err := d.open(id); err != nil {
				t.Fatalf("streamstest: %v", err)
			}
		}
	}
	return d
}

func (d *Driver) logger() *slog.Logger {
	if d.cfg.Logger != nil {
		return d.cfg.Logger
	}
	return slog.New(slog.DiscardHandler)
}

// openGlobals opens the global stores, which then read their topics from where they were.
func (d *Driver) openGlobals() error {
	if len(d.graph.Globals) == 0 {
		return nil
	}
	dir := d.directory(globalID)
	globals, err := tasks.OpenGlobal(tasks.GlobalConfig{
		ApplicationID: d.cfg.ApplicationID, Subs: d.graph.Globals, Dir: dir, Engine: d.engine, Clock: clock{d}, Logger: d.logger(),
		NewProgram: func(sub *topology.Subtopology, id topology.TaskID) (tasks.Program, error) {
			return bridge.Program(bridge.Task{Topology: d.topology, Config: d.cfg, Naming: d.naming, Sub: sub, ID: id, Logger: d.logger(), StateDir: dir})
		},
	})
	if err != nil {
		return err
	}
	d.globals, d.globalAt = globals, globals.Positions()
	d.deliverGlobals()
	return nil
}

// deliverGlobals hands what was written to the global stores, at once and before any task: they follow no time.
func (d *Driver) deliverGlobals() {
	if d.globals == nil {
		return
	}
	for _, topic := range d.globals.Topics() {
		for i, records := range d.topic(topic).partitions {
			p := tasks.TopicPartition{Topic: topic, Partition: int32(i)}
			for ; d.globalAt[p] < int64(len(records)) && d.err == nil; d.globalAt[p]++ {
				if next := records[d.globalAt[p]]; next.state != aborted {
					d.stop(d.globals.Apply(tasks.Batch{TopicPartition: p, Records: []tasks.Record{next.Record}, Next: next.Offset + 1, End: next.Offset + 1}))
				}
			}
		}
	}
}

// countInternal derives the partitions of repartition topics from what is upstream of them, as a broker does.
func (d *Driver) countInternal() {
	metadata := d.graph.Metadata(d.naming)
	fixed := map[string]bool{}
	for _, s := range metadata.Subtopologies {
		for _, r := range s.RepartitionSourceTopics {
			if r.Partitions > 0 {
				d.internal[r.Name], fixed[r.Name] = r.Partitions, true
			} else {
				d.internal[r.Name] = 0
			}
		}
	}
	for changed := true; changed; {
		changed = false
		for _, s := range metadata.Subtopologies {
			var most int32
			for _, topic := range s.SourceTopics {
				most = max(most, d.partitions(topic))
			}
			for _, r := range s.RepartitionSourceTopics {
				most = max(most, d.internal[r.Name])
			}
			for _, topic := range s.RepartitionSinkTopics {
				if d.internal[topic] < most && !fixed[topic] {
					d.internal[topic], changed = most, true
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
			for _, i := range g.SourceTopics[1:] {
				if m := d.partitions(s.SourceTopics[i]); m != n {
					d.t.Fatalf("streamstest: %s has %d partitions and %s has %d, but they are joined; give them as many with Partitions",
						s.SourceTopics[g.SourceTopics[0]], n, s.SourceTopics[i], m)
				}
			}
			for _, i := range g.RepartitionSourceTopics {
				if r := s.RepartitionSourceTopics[i]; !fixed[r.Name] {
					d.internal[r.Name] = n
				} else if r.Partitions != n {
					d.t.Fatalf("streamstest: %s has %d partitions and %s has %d, but they are joined; give them as many with Partitions",
						s.SourceTopics[g.SourceTopics[0]], n, r.Name, r.Partitions)
				}
			}
		}
	}
}

// partitions is how many a topic has. A changelog has as many as its sub-topology has tasks.
func (d *Driver) partitions(topic string) int32 {
	if n, ok := d.internal[topic]; ok {
		return n
	}
	for _, s := range d.graph.Subtopologies {
		for _, spec := range s.Stores {
			if spec.SourceTopic == "" && spec.ChangelogName(d.cfg.ApplicationID) == topic {
				return d.tasksOf(s)
			}
		}
	}
	n := int32(0)
	for _, c := range d.counts {
		if c.pattern == topic {
			return int32(c.n)
		}
		if ok, _ := filepath.Match(c.pattern, topic); ok && n == 0 {
			n = int32(c.n)
		}
	}
	return max(1, n)
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

// directory is where a task has its stores.
func (d *Driver) directory(id topology.TaskID) string {
	if id == globalID {
		return filepath.Join(d.dir, "global")
	}
	return filepath.Join(d.dir, id.String())
}

// globalID stands for the global stores.
var globalID = topology.TaskID{Subtopology: -1, Partition: -1}

// open starts a task from what its stores, its changelogs and its committed offsets hold.
func (d *Driver) open(id topology.TaskID) error {
	s, r := d.graph.Subtopology(id.Subtopology), d.tasks[id]
	r.local, r.stores = nil, nil
	log := d.logger()
	program, err := bridge.Program(bridge.Task{
		Topology: d.topology, Config: d.cfg, Naming: d.naming, Sub: s, ID: id, Globals: d.globals, Logger: log, StateDir: d.directory(id),
	})
	if err != nil {
		return err
	}
	r.program = program
	if len(s.Stores) > 0 {
		if d.cfg.CacheBytes < 0 {
			uncached := *s
			uncached.Stores = slices.Clone(s.Stores)
			for i := range uncached.Stores {
				uncached.Stores[i].Caching = false
			}
			s = &uncached
		}
		stores, err := state.Open(state.Options{ApplicationID: d.cfg.ApplicationID, Task: id, Dir: d.directory(id), Engine: d.engine, Stores: s.Stores, Logger: log})
		if err != nil {
			return err
		}
		r.stores = stores
		if err := d.restore(s, id, stores); err != nil {
			return err
		}
	}
	inputs := map[tasks.TopicPartition]int64{}
	for _, topic := range d.inputsOf(s) {
		if id.Partition < d.partitions(topic) {
			p := tasks.TopicPartition{Topic: topic, Partition: id.Partition}
			inputs[p] = r.offsets[p]
			d.readers[p] = r
			d.arrived = append(d.arrived, p)
		}
	}
	r.fed = maps.Clone(inputs)
	r.local, err = tasks.NewLocal(tasks.LocalConfig{
		ID: id, Sub: s, Naming: d.naming, Inputs: inputs, Times: r.times, Metadata: r.kept, Program: program, Stores: r.stores, Producer: producer{d},
		Clock: clock{d}, MaxIdle: -1, Logger: log,
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
		if spec.SourceTopic != "" { // what was not processed yet comes through the source
			at := d.tasks[id].offsets[tasks.TopicPartition{Topic: topic, Partition: id.Partition}]
			records = records[:min(at, int64(len(records)))]
		}
		next, _ := stores.ChangelogOffset(spec.Name)
		if next >= int64(len(records)) {
			continue
		}
		var batch []state.RestoreRecord
		for _, r := range records[next:] {
			if r.state == committed && (r.Key != nil || spec.SourceTopic == "") {
				batch = append(batch, state.RestoreRecord{Key: r.Key, Value: r.Value, Timestamp: r.Timestamp, Headers: r.Headers})
			}
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

// deliver hands what was written to the tasks that read it.
func (d *Driver) deliver() {
	d.deliverGlobals()
	for _, p := range d.arrived {
		r := d.readers[p]
		records := d.topic(p.Topic).partitions[p.Partition]
		if r.fed[p] == int64(len(records)) {
			continue
		}
		_, waits, err := r.local.Head(p)
		for ; r.fed[p] < int64(len(records)); r.fed[p]++ {
			if next := records[r.fed[p]]; next.state != aborted {
				r.local.Add(p, next.Record)
			}
		}
		if err == nil && !waits {
			err = d.wait(&head{reader: r, at: p})
		}
		if d.stop(err); d.err != nil {
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
	d.t.Helper()
	for d.err == nil {
		d.deliver()
		h := d.waiting.take()
		if h == nil || d.err != nil {
			return
		}
		d.stop(h.reader.local.Process(h.at, d.now))
		d.stop(d.wait(h))
		d.processed++
		d.asked = d.asked || h.reader.local.CommitRequested()
		if d.asked || d.every > 0 && d.processed >= d.every {
			d.flush()
			d.commit()
		}
	}
}

// stop notes what stopped the topology: an error of a task, or a record that a topic did not take.
func (d *Driver) stop(err error) {
	if err == nil {
		err = d.fail.produced
	}
	if d.err == nil && err != nil {
		d.err, d.told = err, false
	}
}

// Commit commits every task now, and first runs what the flushed caches lead to.
func (d *Driver) Commit() {
	d.t.Helper()
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
			d.stop(d.tasks[id].local.Flush())
		}
	}
}

func (d *Driver) commit() {
	d.t.Helper()
	if d.err == nil && d.fail.commit != nil {
		d.stop(fmt.Errorf("commit: %w", d.fail.commit))
	}
	if d.err != nil {
		return
	}
	d.checkIterators()
	for _, l := range d.topics {
		l.end(committed)
	}
	for _, id := range d.order {
		if d.err == nil {
			r := d.tasks[id]
			offsets, times, err := r.local.Commit()
			if d.stop(err); err == nil {
				r.offsets, r.times, r.kept = offsets, times, r.local.Metadata()
			}
		}
	}
	if d.asked {
		d.commits++
	}
	d.processed, d.asked = 0, false
}

// checkIterators fails the test if a processor has an iterator open where all of them have returned.
func (d *Driver) checkIterators() {
	d.t.Helper()
	for _, id := range d.order {
		if r := d.tasks[id]; r.stores != nil {
			for _, s := range r.stores.All() {
				if n := r.stores.OpenIterators(s.Name()); n > 0 {
					d.t.Errorf("streamstest: task %s has left %d iterators of the store %q open", id, n, s.Name())
				}
			}
		}
	}
}

func (d *Driver) records() (n int) {
	for _, l := range d.topics {
		n += len(l.order)
	}
	return n
}

// AdvanceWallClock moves the clock by d and runs the punctuations that are due; several missed ones become one. Stream time moves only with records.
func (d *Driver) AdvanceWallClock(by time.Duration) {
	d.t.Helper()
	d.now = d.now.Add(by)
	for _, id := range d.order {
		if d.err != nil {
			return
		}
		local := d.tasks[id].local
		d.stop(local.Punctuate(d.now))
		d.asked = d.asked || local.CommitRequested()
	}
	if d.asked || d.every > 0 {
		d.flush()
		d.commit()
	}
	d.settle()
}

// Now is the wall clock.
func (d *Driver) Now() time.Time { return d.now }

// RestartOption changes what [Driver.Restart] and [Driver.Crash] find again.
type RestartOption interface{ restart(*Driver) }

type restartOption func(*Driver)

func (o restartOption) restart(d *Driver) { o(d) }

// StateLost removes the state directory in between, as if the tasks moved to another machine: stores come back from their changelogs, and those without
// one are empty.
var StateLost RestartOption = restartOption(func(d *Driver) {
	for _, id := range append(slices.Clone(d.order), globalID) {
		if err := os.RemoveAll(d.directory(id)); err != nil {
			d.t.Fatalf("streamstest: %v", err)
		}
	}
})

// Restart commits, closes all tasks and opens them again, from their stores and from what those lack in changelogs, as after a clean stop. A topology
// that was stopped by an error starts again from its last commit, as after [Driver.Crash].
func (d *Driver) Restart(opts ...RestartOption) {
	d.t.Helper()
	d.Commit()
	d.reopen(d.err == nil, opts)
}

// Crash is Restart without a clean stop, as after kill -9: what the stores were told since the last commit is lost, and the records since then are
// processed again. Under [streams.AtLeastOnce] what was written meanwhile stays in the topics, changelogs included; under [streams.ExactlyOnce] it was
// in a transaction, and nobody ever sees it.
func (d *Driver) Crash(opts ...RestartOption) {
	d.t.Helper()
	d.reopen(false, opts)
}

func (d *Driver) reopen(clean bool, opts []RestartOption) {
	d.t.Helper()
	d.checkErr()
	for _, id := range d.order {
		if err := d.closeTask(id, clean); err != nil {
			d.t.Fatalf("streamstest: close %s: %v", id, err)
		}
	}
	if d.globals != nil {
		if err := d.globals.Close(); err != nil {
			d.t.Fatalf("streamstest: close the global stores: %v", err)
		}
	}
	for _, o := range opts {
		o.restart(d)
	}
	for _, l := range d.topics {
		l.end(aborted)
	}
	d.err, d.fail, d.asked, d.processed = nil, failures{}, false, 0
	d.arrived, d.waiting = nil, nil
	if err := d.openGlobals(); err != nil {
		d.t.Fatalf("streamstest: open the global stores again: %v", err)
	}
	for _, id := range d.order {
		if err := d.open(id); err != nil {
			d.t.Fatalf("streamstest: open %s again: %v", id, err)
		}
	}
	d.settle()
}

// closeTask closes a task and keeps its counts.
func (d *Driver) closeTask(id topology.TaskID, clean bool) error {
	r := d.tasks[id]
	if r.local == nil {
		if r.stores == nil {
			return nil
		}
		return r.stores.Close()
	}
	for reason, n := range r.local.Dropped() {
		d.dropped[reason] += n
	}
	err := r.local.Close(clean)
	r.local, r.stores = nil, nil
	return err
}

func (d *Driver) close() {
	d.t.Helper()
	d.checkIterators()
	for _, id := range d.order {
		if err := d.closeTask(id, d.err == nil); err != nil {
			d.t.Errorf("streamstest: close %s: %v", id, err)
		}
	}
	if d.globals != nil {
		if err := d.globals.Close(); err != nil {
			d.t.Errorf("streamstest: close the global stores: %v", err)
		}
	}
	if err := d.engine.Close(); err != nil {
		d.t.Errorf("streamstest: %v", err)
	}
	d.checkErr()
}

// checkErr fails the test if the topology stopped and nobody asked why.
func (d *Driver) checkErr() {
	d.t.Helper()
	if d.err != nil && !d.told {
		d.t.Errorf("streamstest: the topology stopped: %v", d.err)
	}
}

// Err is what stopped the topology, or nil. A stopped topology processes nothing more until [Driver.Restart] or [Driver.Crash] starts it again; records
// that are piped meanwhile wait in their topics. A test that never asks fails when it is not nil.
func (d *Driver) Err() error {
	d.told = true
	return d.err
}

// Topics are the names of all topics written so far, internal ones included, in the order of their first record.
func (d *Driver) Topics() []string { return slices.Clone(d.written) }

// Dropped is the number of records dropped so far, by reason.
func (d *Driver) Dropped() map[string]int64 {
	all := maps.Clone(d.dropped)
	for _, r := range d.tasks {
		if r.local != nil {
			for reason, n := range r.local.Dropped() {
				all[reason] += n
			}
		}
	}
	return all
}

// Store opens a store for reading and writing. Over several partitions it is one store: a key is looked for where it is, a new one goes where its bytes
// say. It may be kept and used after a restart. Writes have the time of the wall clock and are committed with the next commit; they are not sent
// downstream, unless by a cache. A failure of the store fails the test.
func (d *Driver) Store[S any](h streams.StoreHandle[S]) S {
	d.t.Helper()
	return d.openStore(h, func(topology.TaskID) bool { return true }).(S)
}

// StoreOf is the part of a store that belongs to one partition.
func (d *Driver) StoreOf[S any](h streams.StoreHandle[S], partition int) S {
	d.t.Helper()
	return d.openStore(h, func(id topology.TaskID) bool { return int(id.Partition) == partition }).(S)
}

func (d *Driver) openStore(h streams.StoreRef, want func(id topology.TaskID) bool) any {
	d.t.Helper()
	name := streams.StoreNameOf(h)
	if d.graph.Global(name) != nil {
		return d.globalStore(h, name)
	}
	var owners []topology.TaskID
	for _, id := range d.order {
		sub := d.graph.Subtopology(id.Subtopology)
		if want(id) && slices.ContainsFunc(sub.Stores, func(s topology.Store) bool { return s.Name == name }) {
			owners = append(owners, id)
		}
	}
	if len(owners) == 0 {
		d.t.Fatalf("streamstest: no task has the store %q; there are %q", name, d.storeNames())
	}
	store, err := bridge.Store(h, func() (programs []tasks.Program) {
		for _, id := range owners {
			p := d.tasks[id].program
			bridge.Touch(p, d.now.UnixMilli())
			programs = append(programs, p)
		}
		return programs
	}, d.guard)
	if err != nil {
		d.t.Fatalf("streamstest: %v", err)
	}
	return store
}

func (d *Driver) globalStore(h streams.StoreRef, name string) any {
	d.t.Helper()
	store, err := bridge.Store(h, func() []tasks.Program {
		p := d.globals.Program(name)
		bridge.Touch(p, d.now.UnixMilli())
		return []tasks.Program{p}
	}, d.guard)
	if err != nil {
		d.t.Fatalf("streamstest: %v", err)
	}
	return store
}

// guard runs a use of a store by the test.
func (d *Driver) guard(f func()) {
	d.t.Helper()
	if err := tasks.Catch(f); err != nil {
		d.t.Fatalf("streamstest: %v", err)
	}
}

func (d *Driver) storeNames() (names []string) {
	for _, s := range slices.Concat(d.graph.Subtopologies, d.graph.Globals) {
		for _, store := range s.Stores {
			names = append(names, store.Name)
		}
	}
	slices.Sort(names)
	return names
}
