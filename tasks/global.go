package tasks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"slices"
	"sync"

	"github.com/millrace/millrace/state"
	"github.com/millrace/millrace/topology"
)

// GlobalConfig is what a [Global] is made of.
type GlobalConfig struct {
	ApplicationID string
	Subs          []*topology.Subtopology // each with one source, one topic and one store
	NewProgram    func(sub *topology.Subtopology, id topology.TaskID) (Program, error)
	Dir           string       // of the persistent stores; "" keeps all of them in memory
	Engine        state.Engine // nil likewise
	Clock         Clock
	Logger        *slog.Logger
}

// Global keeps the global stores of a process: every partition of their topics, in full, apart from all tasks. One goroutine hands it batches, and any
// may read.
type Global struct {
	cfg   GlobalConfig
	parts map[string]*globalPart // by topic

	mu     sync.Mutex // held while records are processed and rows are read
	stores *state.Stores
}

// globalPart is one global store and the nodes that fill it.
type globalPart struct {
	sub     *topology.Subtopology
	store   string
	program Program
	source  Source
	ctx     Context
	times   map[int32]int64 // highest time of each partition, for timestamp policies
	at      map[int32]int64 // next offset of each partition
}

// globalID is the task id in the stores of global tasks and in what they report.
var globalID = topology.TaskID{Subtopology: -1, Partition: -1}

// OpenGlobal opens the global stores with what a former process left in them.
func OpenGlobal(cfg GlobalConfig) (*Global, error) {
	g := &Global{cfg: cfg, parts: map[string]*globalPart{}}
	var specs []topology.Store
	for _, sub := range cfg.Subs {
		specs = append(specs, sub.Stores...)
	}
	open := func() (*state.Stores, error) {
		return state.Open(state.Options{
			ApplicationID: cfg.ApplicationID, Task: globalID, Dir: cfg.Dir, Engine: cfg.Engine, Stores: specs, Logger: cfg.Logger,
		})
	}
	stores, err := open()
	if _, corrupt := errors.AsType[*state.CorruptError](err); corrupt && cfg.Dir != "" {
		cfg.Logger.Warn("global stores are damaged and will be read again from their topics", "dir", cfg.Dir, "err", err)
		if err := os.RemoveAll(cfg.Dir); err != nil {
			return nil, fmt.Errorf("tasks: wipe the damaged global stores: %w", err)
		}
		stores, err = open()
	}
	if err != nil {
		return nil, fmt.Errorf("tasks: open the global stores: %w", err)
	}
	g.stores = stores
	for _, sub := range cfg.Subs {
		if err := g.open(sub); err != nil {
			return nil, errors.Join(err, stores.Close())
		}
	}
	return g, nil
}

func (g *Global) open(sub *topology.Subtopology) error {
	p := &globalPart{sub: sub, store: sub.Stores[0].Name, times: map[int32]int64{}, at: map[int32]int64{}}
	p.ctx = Context{Task: globalID, Stores: g.stores, clock: g.cfg.Clock, streamTime: -1, dropped: map[string]int64{}, now: g.cfg.Clock.Now().UnixMilli()}
	var err error
	if p.program, err = g.cfg.NewProgram(sub, globalID); err != nil {
		return err
	}
	topic := sub.SourceTopics[0]
	p.source = p.program.Source(topic)
	for tp, next := range g.stores.InputOffsets() {
		if tp.Topic == topic {
			p.at[tp.Partition] = next
		}
	}
	g.parts[topic] = p
	return g.run(p, func() error { return p.program.Open(&p.ctx) })
}

// run calls a part and turns what it throws into an error.
func (g *Global) run(p *globalPart, f func() error) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case abort:
			err = r.err
		default:
			err = p.program.Locate(&Panic{Value: r, Stack: debug.Stack()})
		}
		if err != nil {
			err = fmt.Errorf("global store %s: %w", p.store, err)
		}
	}()
	return f()
}

// Run reads the topics: up to their present ends, then calls ready, and goes on until ctx ends. Only a failure is an error.
func (g *Global) Run(ctx context.Context, log Log, read Changelogs, ready func()) error {
	from, ends, err := g.positions(ctx, log)
	if err != nil {
		return err
	}
	behind := map[TopicPartition]int64{}
	for p, end := range ends {
		if from[p] < end {
			behind[p] = end
		}
	}
	if len(behind) == 0 {
		ready()
	}
	err = read.Read(ctx, from, func(b Batch) error {
		if err := g.Apply(b); err != nil {
			return err
		}
		if end, ok := behind[b.TopicPartition]; ok && b.Next >= end {
			if delete(behind, b.TopicPartition); len(behind) == 0 {
				ready()
			}
		}
		return nil
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// positions finds where to begin in each partition, and where it ends now. A store whose topic was made anew, or lost what the store has not read yet, is
// emptied and read from the start.
func (g *Global) positions(ctx context.Context, log Log) (from, ends map[TopicPartition]int64, err error) {
	topics := g.Topics()
	infos, err := log.Topics(ctx, topics)
	if err != nil {
		return nil, nil, fmt.Errorf("tasks: look up the topics of global stores: %w", err)
	}
	var partitions []TopicPartition
	for _, topic := range topics {
		info, ok := infos[topic]
		if !ok {
			return nil, nil, &MissingTopicError{topic}
		}
		for i := range info.Partitions {
			partitions = append(partitions, TopicPartition{topic, i})
		}
	}
	bounds, err := log.Bounds(ctx, partitions)
	if err != nil {
		return nil, nil, fmt.Errorf("tasks: read bounds for global stores: %w", err)
	}
	from, ends = map[TopicPartition]int64{}, map[TopicPartition]int64{}
	wipe := map[string]string{}
	for _, tp := range partitions {
		p, b := g.parts[tp.Topic], bounds[tp]
		at, known := p.at[tp.Partition]
		if id, ok := g.stores.TopicID(p.store); ok && id != infos[tp.Topic].ID {
			wipe[tp.Topic] = "the topic was made anew"
		} else if known && (at < b.Start || at > b.End) {
			wipe[tp.Topic] = fmt.Sprintf("partition %d has offsets %d to %d, and the store has read up to %d", tp.Partition, b.Start, b.End, at)
		}
		from[tp], ends[tp] = max(at, b.Start), b.End
	}
	for topic, reason := range wipe {
		p := g.parts[topic]
		if err := g.stores.WipeStore(p.store, reason); err != nil {
			return nil, nil, err
		}
		clear(p.at)
		for tp := range from {
			if tp.Topic == topic {
				from[tp] = bounds[tp].Start
			}
		}
	}
	ids := map[string][16]byte{}
	for topic, p := range g.parts {
		ids[p.store] = infos[topic].ID
	}
	return from, ends, g.stores.Commit(state.CommitPoint{StreamTime: -1, TopicIDs: ids, InputOffsets: inputOffsets(from)})
}

func inputOffsets(from map[TopicPartition]int64) map[state.TopicPartition]int64 {
	m := map[state.TopicPartition]int64{}
	for tp, at := range from {
		m[state.TopicPartition{Topic: tp.Topic, Partition: tp.Partition}] = at
	}
	return m
}

// MissingTopicError is a topic that does not exist.
type MissingTopicError struct{ Topic string }

func (e *MissingTopicError) Error() string { return "topic " + e.Topic + " does not exist" }

// Positions are the next offsets to read.
func (g *Global) Positions() map[TopicPartition]int64 {
	at := map[TopicPartition]int64{}
	for topic, p := range g.parts {
		for i, next := range p.at {
			at[TopicPartition{topic, i}] = next
		}
	}
	return at
}

// Topics are the topics of all global stores, in order.
func (g *Global) Topics() []string {
	var topics []string
	for topic := range g.parts {
		topics = append(topics, topic)
	}
	slices.SortFunc(topics, cmp.Compare)
	return topics
}

// Has reports whether a store is global.
func (g *Global) Has(store string) bool {
	for _, p := range g.parts {
		if p.store == store {
			return true
		}
	}
	return false
}

// Program is the program that fills a store, nil if it is not global. It is for tests, which have one goroutine.
func (g *Global) Program(store string) Program {
	for _, p := range g.parts {
		if p.store == store {
			return p.program
		}
	}
	return nil
}

// Apply processes a batch of a topic and makes it part of the stores. It is called by one goroutine.
func (g *Global) Apply(b Batch) error {
	if b.Err != nil {
		return fmt.Errorf("read %s partition %d: %w", b.Topic, b.Partition, b.Err)
	}
	p := g.parts[b.Topic]
	g.mu.Lock()
	defer g.mu.Unlock()
	if b.Release != nil {
		defer b.Release()
	}
	p.ctx.now = g.cfg.Clock.Now().UnixMilli()
	p.ctx.Topic, p.ctx.Partition = b.Topic, b.Partition
	err := g.run(p, func() error {
		for i := range b.Records {
			r := &b.Records[i]
			p.ctx.Record, p.ctx.Offset = r, r.Offset
			last, ok := p.times[b.Partition]
			if !ok {
				last = -1
			}
			ms, ok := p.source.Time(r, last)
			if !ok {
				continue
			}
			p.times[b.Partition] = max(last, ms)
			p.ctx.streamTime = max(p.ctx.streamTime, ms)
			p.source.Process(r, ms)
		}
		return nil
	})
	p.ctx.Record = nil
	if err != nil {
		return errors.Join(err, g.stores.Discard())
	}
	if err := g.stores.Flush(); err != nil {
		return err
	}
	p.at[b.Partition] = b.Next
	return g.stores.Commit(state.CommitPoint{
		StreamTime: p.ctx.streamTime, InputOffsets: inputOffsets(map[TopicPartition]int64{b.TopicPartition: b.Next}),
	})
}

// Read calls f with the stores. Nobody changes them meanwhile; f must not either.
func (g *Global) Read(f func(*state.Stores)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	f(g.stores)
}

// Stores are the global stores, for snapshots; everything else must go through Read.
func (g *Global) Stores() *state.Stores { return g.stores }

// Dropped counts the records that took no further part, by reason.
func (g *Global) Dropped() map[string]int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := map[string]int64{}
	for _, p := range g.parts {
		for why, n := range p.ctx.dropped {
			all[why] += n
		}
	}
	return all
}

// Close closes the user's processors and the stores.
func (g *Global) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	var errs []error
	for _, p := range g.parts {
		errs = append(errs, g.run(p, p.program.Close))
	}
	return errors.Join(append(errs, g.stores.Close())...)
}
