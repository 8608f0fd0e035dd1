package tasks

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/topology"
)

// scene is a worker in a bubble of synctest, with everything around it played by fakes. The topology reads topic "in", keeps the last value of each key in
// the store "last", and writes every record to "out".
type scene struct {
	t      *testing.T
	worker *Worker
	cfg    Config

	group    *fakeGroup
	consumer *fakeConsumer
	log      *fakeLog
	changes  *fakeChangelogs
	producer *fakeProducer
	dir      *fakeDir

	programs []*keeper // in the order they were made

	stop context.CancelFunc
	done chan struct{}
	err  error // of Run, when done is closed
}

func play(t *testing.T, change func(*Config), f func(s *scene)) {
	synctest.Test(t, func(t *testing.T) {
		g := topology.NewGraph()
		g.Add(topology.Node{Name: "source", Kind: topology.Source, Topics: []string{"in"}})
		g.Add(topology.Node{Name: "keep", Kind: topology.Processor}, "source")
		g.AddStore(topology.Store{Name: "last", Kind: topology.KeyValueStore, Logging: true}, "", "keep")
		g.Add(topology.Node{Name: "sink", Kind: topology.Sink, Topic: "out"}, "keep")
		top, err := g.Build()
		if err != nil {
			t.Fatal(err)
		}
		s := &scene{
			t: t, done: make(chan struct{}),
			group:    &fakeGroup{commands: make(chan Command), closed: make(chan struct{}), epoch: 1},
			consumer: &fakeConsumer{arrived: make(chan struct{}, 1), from: map[TopicPartition]int64{}},
			log:      &fakeLog{committed: map[TopicPartition]Committed{}, bounds: map[TopicPartition]Bounds{}},
			changes:  &fakeChangelogs{},
			producer: &fakeProducer{outputs: map[string]*fakeOutput{}},
			dir:      &fakeDir{},
		}
		s.cfg = Config{
			Name: "worker", ApplicationID: "app", Topology: top, Naming: topology.Naming{ApplicationID: "app"},
			Group: s.group, Consumer: s.consumer, Log: s.log, Changelogs: s.changes, Producer: s.producer, Dir: s.dir, Clock: wallClock{},
			CommitInterval: time.Hour, BufferRecords: 1000, CacheBytes: 1 << 20, CloseTimeout: 10 * time.Second, Logger: slog.New(slog.NewTextHandler(t.Output(), nil)),
			NewProgram: func(*topology.Subtopology, topology.TaskID) (Program, error) {
				p := &keeper{}
				s.programs = append(s.programs, p)
				return p, nil
			},
		}
		if change != nil {
			change(&s.cfg)
		}
		s.worker = NewWorker(s.cfg)
		ctx, stop := context.WithCancel(context.Background())
		s.stop = stop
		go func() {
			defer close(s.done)
			s.err = s.worker.Run(ctx)
		}()
		defer func() {
			stop()
			<-s.done
		}()
		f(s)
	})
}

func exactlyOnce(c *Config) { c.ExactlyOnce = true }

func id(partition int32) topology.TaskID { return topology.TaskID{Partition: partition} }

func ids(partitions ...int32) (list []topology.TaskID) {
	for _, p := range partitions {
		list = append(list, id(p))
	}
	return list
}

func in(partition int32) TopicPartition { return TopicPartition{"in", partition} }

func changelogOf(partition int32) TopicPartition {
	return TopicPartition{"app-last-changelog", partition}
}

// update is a batch of one record of a changelog.
func update(partition int32, offset, end int64, key, value string) Batch {
	r := Record{Key: []byte(key), Value: []byte(value), Offset: offset}
	return Batch{TopicPartition: changelogOf(partition), Records: []Record{r}, Next: offset + 1, End: end}
}

// command gives the worker a command and returns its answer.
func (s *scene) command(c Command) error {
	s.t.Helper()
	answer := make(chan error, 1)
	c.Done = func(err error) { answer <- err }
	select {
	case s.group.commands <- c:
	case <-s.done:
		s.t.Fatalf("the worker has ended: %v", s.err)
	}
	err := <-answer
	synctest.Wait()
	return err
}

// assign gives the worker active tasks and waits until they run.
func (s *scene) assign(partitions ...int32) {
	s.t.Helper()
	if err := s.command(Command{Kind: Assign, Active: ids(partitions...), Ready: true}); err != nil {
		s.t.Fatal(err)
	}
}

// input lets values "key=value" arrive, from the given offset on, and waits until they are processed.
func (s *scene) input(partition int32, offset int64, values ...string) {
	b := Batch{TopicPartition: in(partition), Next: offset + int64(len(values)), End: offset + int64(len(values))}
	for i, v := range values {
		key, value, _ := strings.Cut(v, "=")
		b.Records = append(b.Records, Record{Key: []byte(key), Value: []byte(value), Offset: offset + int64(i), Timestamp: 1000})
	}
	s.arrive(b)
}

func (s *scene) arrive(b Batch) {
	s.consumer.mu.Lock()
	s.consumer.inbox = append(s.consumer.inbox, b)
	s.consumer.given += len(b.Records)
	s.consumer.mu.Unlock()
	select {
	case s.consumer.arrived <- struct{}{}:
	default:
	}
	synctest.Wait()
}

// states are those of the worker's tasks, such as "0_0 running".
func (s *scene) states() string {
	synctest.Wait()
	list, _ := s.worker.Status()
	var text []string
	for _, t := range list {
		text = append(text, t.ID.String()+" "+t.State.String())
	}
	return strings.Join(text, ", ")
}

// lookUp reads the store of the worker's first task. The worker must be idle.
func (s *scene) lookUp(key string) (value string, ok bool, err error) {
	synctest.Wait()
	store, err := s.worker.order[0].stores.KeyValue("last")
	if err != nil {
		return "", false, err
	}
	v, _, ok, err := store.Get([]byte(key))
	return string(v), ok, err
}

func (s *scene) want(what, got, want string) {
	s.t.Helper()
	if got != want {
		s.t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

// keeper is the program: it keeps the last value of each key and hands every record on.
type keeper struct {
	c     *Context
	notes []string
	opens int
	close int
}

func (k *keeper) Source(string) Source  { return k }
func (k *keeper) Open(c *Context) error { k.c, k.opens = c, k.opens+1; return nil }
func (k *keeper) Close() error          { k.close++; return nil }
func (k *keeper) Locate(p *Panic) error {
	return fmt.Errorf("%v while processing offset %d", p.Value, k.c.Record.Offset)
}

// Time skips records with the value "untimely".
func (k *keeper) Time(r *Record, _ int64) (int64, bool) {
	return r.Timestamp, string(r.Value) != "untimely"
}

// Process panics at the value "panic", fails at "fail", and keeps nothing of "pass".
func (k *keeper) Process(r *Record, ms int64) {
	switch string(r.Value) {
	case "panic":
		panic("boom")
	case "fail":
		Throw(errors.New("a bad record"))
	}
	k.notes = append(k.notes, fmt.Sprintf("%d", r.Offset))
	if string(r.Value) == "pass" {
		return
	}
	store, err := k.c.Stores.KeyValue("last")
	if err == nil {
		err = store.Put(r.Key, r.Value, -1, nil)
	}
	if err != nil {
		Throw(err)
	}
	out, err := k.c.Producer.Output("out")
	if err != nil {
		Throw(err)
	}
	out.Send(k.c.Task.Partition, r.Key, r.Value, ms, nil)
}

type wallClock struct{}

func (wallClock) Now() time.Time                         { return time.Now() }
func (wallClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

type fakeGroup struct {
	commands chan Command
	closed   chan struct{}
	leave    sync.Once

	mu       sync.Mutex
	epoch    int32
	migrated int
}

func (g *fakeGroup) Commands() <-chan Command { return g.commands }
func (g *fakeGroup) Epoch() int32             { g.mu.Lock(); defer g.mu.Unlock(); return g.epoch }
func (g *fakeGroup) Poll()                    {}
func (g *fakeGroup) Migrated()                { g.mu.Lock(); defer g.mu.Unlock(); g.migrated++ }
func (g *fakeGroup) Leave()                   { g.leave.Do(func() { close(g.closed) }) }
func (g *fakeGroup) Closed() <-chan struct{}  { return g.closed }
func (g *fakeGroup) Report(_, _ map[topology.TaskID]int64) {
}

type fakeConsumer struct {
	arrived chan struct{}

	mu        sync.Mutex
	inbox     []Batch
	from      map[TopicPartition]int64 // what is fetched now, and where that began
	given     int                      // records that arrived
	processed int                      // records that were reported back
	hungry    []TopicPartition
	steps     *[]string // notes of starts and stops, if wanted
}

func (c *fakeConsumer) Start(from map[TopicPartition]int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.Copy(c.from, from)
}

func (c *fakeConsumer) Stop(partitions ...TopicPartition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, p := range partitions {
		delete(c.from, p)
		if c.steps != nil {
			*c.steps = append(*c.steps, fmt.Sprintf("stop %s-%d", p.Topic, p.Partition))
		}
	}
}

func (c *fakeConsumer) Take() []Batch {
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := c.inbox
	c.inbox = nil
	return taken
}

func (c *fakeConsumer) Arrived() <-chan struct{} { return c.arrived }
func (c *fakeConsumer) Processed(n int)          { c.mu.Lock(); defer c.mu.Unlock(); c.processed += n }
func (c *fakeConsumer) Full(TopicPartition)      {}
func (c *fakeConsumer) Room(TopicPartition)      {}
func (c *fakeConsumer) Hungry(p TopicPartition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.hungry = append(c.hungry, p)
}

// waiting is how many records the consumer thinks are still to be processed.
func (c *fakeConsumer) waiting() int { c.mu.Lock(); defer c.mu.Unlock(); return c.given - c.processed }

type fakeLog struct {
	mu        sync.Mutex
	committed map[TopicPartition]Committed
	bounds    map[TopicPartition]Bounds
}

func (l *fakeLog) setBounds(p TopicPartition, b Bounds) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.bounds[p] = b
}

func (l *fakeLog) setCommitted(p TopicPartition, offset int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.committed[p] = Committed{Offset: offset}
}

func (l *fakeLog) Committed(_ context.Context, partitions []TopicPartition) (map[TopicPartition]Committed, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := map[TopicPartition]Committed{}
	for _, p := range partitions {
		if c, ok := l.committed[p]; ok {
			found[p] = c
		}
	}
	return found, nil
}

func (l *fakeLog) Start(_ context.Context, partitions []TopicPartition) (map[TopicPartition]int64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := map[TopicPartition]int64{}
	for _, p := range partitions {
		found[p] = l.bounds[p].Start
	}
	return found, nil
}

func (l *fakeLog) Bounds(_ context.Context, partitions []TopicPartition) (map[TopicPartition]Bounds, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := map[TopicPartition]Bounds{}
	for _, p := range partitions {
		found[p] = l.bounds[p]
	}
	return found, nil
}

func (l *fakeLog) Topics(_ context.Context, names []string) (map[string]TopicInfo, error) {
	found := map[string]TopicInfo{}
	for _, n := range names {
		found[n] = TopicInfo{ID: [16]byte{byte(len(n))}, Partitions: 4}
	}
	return found, nil
}

// fakeChangelogs hands out, for its nth reading, the batches that a test prepared, and then nothing more.
type fakeChangelogs struct {
	mu      sync.Mutex
	reads   int
	batches func(n int) []Batch
}

func (c *fakeChangelogs) Read(ctx context.Context, from map[TopicPartition]int64, apply func(Batch) error) error {
	var batches []Batch
	c.mu.Lock()
	if c.batches != nil {
		batches = c.batches(c.reads)
	}
	c.reads++
	c.mu.Unlock()
	for _, b := range batches {
		if _, ok := from[b.TopicPartition]; ok {
			if err := apply(b); err != nil {
				return err
			}
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

// fakeProducer notes what it is asked to do. Its outputs acknowledge at once.
type fakeProducer struct {
	outputs map[string]*fakeOutput
	arena   Arena

	mu      sync.Mutex
	steps   []string
	commits []map[TopicPartition]Committed
	refuse  []error // of the next commits; nil lets one succeed
	failure error
}

func (p *fakeProducer) note(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.steps = append(p.steps, fmt.Sprintf(format, args...))
}

// history returns the steps since the last call.
func (p *fakeProducer) history() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	steps := p.steps
	p.steps = nil
	return strings.Join(steps, "; ")
}

func (p *fakeProducer) Output(topic string) (Output, error) {
	if p.outputs[topic] == nil {
		p.outputs[topic] = &fakeOutput{p: p, topic: topic, next: map[int32]int64{}}
	}
	return p.outputs[topic], nil
}

func (p *fakeProducer) Arena() *Arena               { return &p.arena }
func (p *fakeProducer) Flush(context.Context) error { p.note("flush"); return p.Err() }
func (p *fakeProducer) Err() error                  { p.mu.Lock(); defer p.mu.Unlock(); return p.failure }
func (p *fakeProducer) Abort(context.Context) error { p.note("abort"); return nil }
func (p *fakeProducer) Reset(context.Context) error {
	p.note("reset")
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failure = nil
	return nil
}

func (p *fakeProducer) Commit(_ context.Context, offsets map[TopicPartition]Committed) error {
	var list []string
	for tp, c := range offsets {
		list = append(list, fmt.Sprintf("%s-%d=%d", tp.Topic, tp.Partition, c.Offset))
	}
	slices.Sort(list)
	p.mu.Lock()
	var err error
	if len(p.refuse) > 0 {
		err, p.refuse = p.refuse[0], p.refuse[1:]
	}
	if err == nil {
		p.commits = append(p.commits, maps.Clone(offsets))
	}
	p.mu.Unlock()
	what := "commit"
	if err != nil {
		what = "refused"
	}
	p.note("%s %s", what, strings.Join(list, ","))
	return err
}

type fakeOutput struct {
	p     *fakeProducer
	topic string
	next  map[int32]int64
	sent  int
}

func (o *fakeOutput) Send(partition int32, _, _ []byte, _ int64, _ []Header) {
	o.next[partition]++
	o.sent++
}

func (o *fakeOutput) Partitions() (int, error) { return 4, nil }

func (o *fakeOutput) Next(partition int32) int64 {
	if n, ok := o.next[partition]; ok {
		return n
	}
	return -1
}

type fakeDir struct {
	mu    sync.Mutex
	held  int
	wiped []string
}

func (d *fakeDir) Acquire(context.Context, topology.TaskID) (Claim, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held++
	return fakeClaim{d}, nil
}

func (d *fakeDir) TaskPath(id topology.TaskID) string { return "/state/" + id.String() }

type fakeClaim struct{ d *fakeDir }

func (c fakeClaim) Release() { c.d.mu.Lock(); defer c.d.mu.Unlock(); c.d.held-- }
func (c fakeClaim) Wipe(reason string) error {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	c.d.wiped = append(c.d.wiped, reason)
	return nil
}
