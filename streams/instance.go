package streams

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/millrace/millrace/rebalance"
	"github.com/millrace/millrace/state"
	"github.com/millrace/millrace/state/pebblestore"
	"github.com/millrace/millrace/streams/internal/client"
	"github.com/millrace/millrace/tasks"
	"github.com/millrace/millrace/topology"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// instance is an app while it runs: the clients and the directory that its workers share.
type instance struct {
	app       *App
	id        string // process id of the group: kept in the state directory where there is one
	dir       *state.Dir
	engine    *pebblestore.Engine
	clients   client.Config
	admin     *kgo.Client
	log       *client.Log
	consumer  *client.Consumer
	changelog *client.Changelogs
	tasks     *taskConfig
	globals   *tasks.Global // nil if the topology has no global stores

	group    sync.WaitGroup // of workers
	failures chan failure
	stop     context.CancelFunc // asks all workers to end
	workers  context.Context
	patient  context.Context // ends some time after workers, for what they wait for
}

// failure is the end of a worker with an error.
type failure struct {
	w   *worker
	err error
}

// open opens everything but the workers.
func (p *instance) open(ctx context.Context) error {
	cfg := &p.app.cfg
	p.failures = make(chan failure)
	p.id = newProcessID()
	if cfg.StateDir != "" && p.app.topology.persistent() {
		dir, err := state.OpenDir(state.DirOptions{StateDir: cfg.StateDir, ApplicationID: cfg.ApplicationID, Logger: cfg.Logger, Now: cfg.Clock.Now})
		if err != nil {
			return fmt.Errorf("streams: %w", err)
		}
		p.dir = dir
		p.id = dir.ProcessID()
		p.engine = pebblestore.New(pebblestore.Options{Logger: cfg.Logger})
	}
	p.clients = client.Config{
		Brokers: cfg.Brokers, Group: cfg.ApplicationID, ExactlyOnce: cfg.Guarantee == ExactlyOnce, Dial: cfg.Dial, Logger: cfg.Logger,
		ClientID: func(role string) string { return cfg.ClientID + "-" + role },
	}
	if cfg.Kafka != nil {
		p.clients.Options = func(role string) []kgo.Opt {
			for _, r := range []ClientRole{MainConsumer, RestoreConsumer, Producer, Admin} {
				if r.String() == role {
					return cfg.Kafka(r)
				}
			}
			return nil
		}
	}
	var err error
	why := &dials{}
	if p.admin, err = client.NewAdmin(p.clients, kgo.WithHooks(why)); err != nil {
		return fmt.Errorf("streams: %w", err)
	}
	if err := p.reach(ctx, why); err != nil {
		return err
	}
	p.log = client.NewLog(p.clients, p.admin, p.app.resetOf, cfg.Clock.Now)
	if p.consumer, err = client.NewConsumer(p.clients, cfg.BufferRecords); err != nil {
		return fmt.Errorf("streams: %w", err)
	}
	if p.changelog, err = client.NewChangelogs(p.clients); err != nil {
		return fmt.Errorf("streams: %w", err)
	}
	p.tasks = &taskConfig{
		ctx: ctx, naming: p.app.naming, topology: p.app.topology.t, wrap: p.app.topology.wrap, timestamps: cfg.Timestamps,
		onDecodeError: cfg.OnDecodeError, onProcessError: cfg.OnProcessError, onProduceError: cfg.OnProduceError,
		deadLetters: cfg.DeadLetterTopic, print: &lockedWriter{w: cfg.Print}, log: cfg.Logger, caching: cfg.CacheBytes >= 0,
		stateDir: func(id topology.TaskID) string {
			if p.dir == nil {
				return ""
			}
			return p.dir.TaskPath(id)
		},
	}
	return p.openGlobals()
}

// reach waits until a broker answers, and checks that it has streams groups.
func (p *instance) reach(ctx context.Context, why *dials) error {
	cfg := &p.app.cfg
	limited, cancel := context.WithTimeout(ctx, cfg.ConnectTimeout)
	defer cancel()
	for {
		req := kmsg.NewPtrApiVersionsRequest()
		req.ClientSoftwareName, req.ClientSoftwareVersion = "millrace", "0"
		resp, err := req.RequestWith(limited, p.admin)
		if err == nil {
			for _, k := range resp.ApiKeys {
				if k.ApiKey == int16(kmsg.StreamsGroupHeartbeat) {
					return nil
				}
			}
			return fmt.Errorf("%w: %v; Millrace needs Apache Kafka 4.2 or later with streams.version 1 (kafka-features.sh upgrade --feature streams.version=1)",
				ErrNoStreamsGroups, cfg.Brokers)
		}
		select {
		case <-cfg.Clock.After(100 * time.Millisecond):
		case <-limited.Done():
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return fmt.Errorf("%w at %v within %v: %w; check Config.Brokers and that the brokers run", ErrNoBroker, cfg.Brokers, cfg.ConnectTimeout, why.cause())
		}
	}
}

// supervise runs the workers until ctx ends or one of them ends the app.
func (p *instance) supervise(ctx context.Context) error {
	cfg := &p.app.cfg
	p.workers, p.stop = context.WithCancel(context.Background())
	defer p.stop()
	patient, cancel := tasks.Patient(p.workers, cfg.CloseTimeout)
	defer cancel()
	p.patient = patient
	background, endBackground := context.WithCancel(ctx)
	defer endBackground()
	var chores sync.WaitGroup
	defer chores.Wait()
	defer endBackground()
	p.chore(background, &chores, cfg.RepartitionPurge, p.purge)
	if p.dir != nil {
		p.chore(background, &chores, cfg.StateCleanup, func(context.Context) {
			if _, err := p.dir.Clean(cfg.StateCleanup); err != nil {
				cfg.Logger.Warn("state of moved tasks could not be removed", "err", err)
			}
		})
	}
	err := p.runGlobals(p.workers)
	for i := range cfg.Workers {
		if err != nil || ctx.Err() != nil {
			break
		}
		err = p.startWorker(ctx, i+1)
	}
	if err != nil {
		p.stop()
		if e := p.wait(); ctx.Err() == nil {
			return joinErrors(err, e)
		}
		return nil
	}
	for {
		select {
		case <-ctx.Done():
			p.app.setState(Closing, nil)
			p.stop()
			return p.wait()
		case f := <-p.failures:
			err := p.explain(f.err)
			answer := p.uncaught(err)
			if f.w.global && answer == ReplaceWorker {
				answer = StopApp // nothing can take its place
			}
			switch answer {
			case ReplaceWorker:
				cfg.Logger.Error("worker failed and is replaced", "worker", f.w.name, "err", err)
				p.app.removeWorker(f.w)
				if e := p.startWorker(ctx, f.w.index); e != nil {
					err = errors.Join(err, e)
					break
				}
				continue
			case StopGroup:
				p.app.askAllToStop()
			}
			cfg.Logger.Error("worker failed", "worker", f.w.name, "err", err)
			p.app.setState(Closing, nil)
			p.stop()
			return joinErrors(append([]error{err}, p.remaining()...)...)
		}
	}
}

// uncaught asks the program what to do about a failed worker. An application that is asked to stop has no choice.
func (p *instance) uncaught(err error) Uncaught {
	if p.app.cfg.OnUncaught == nil || errors.Is(err, tasks.ErrStop) {
		return StopApp
	}
	return p.app.cfg.OnUncaught(err)
}

// wait waits for all workers and returns what they failed with.
func (p *instance) wait() error { return joinErrors(p.remaining()...) }

// remaining waits for all workers and returns what each of them failed with.
func (p *instance) remaining() (errs []error) {
	ended := make(chan struct{})
	go func() {
		p.group.Wait()
		close(ended)
	}()
	for {
		select {
		case f := <-p.failures:
			errs = append(errs, p.explain(f.err))
		case <-ended:
			return errs
		}
	}
}

// chore does something from time to time until ctx ends.
func (p *instance) chore(ctx context.Context, wg *sync.WaitGroup, every time.Duration, f func(context.Context)) {
	if every <= 0 {
		return
	}
	wg.Go(func() {
		for {
			select {
			case <-p.app.cfg.Clock.After(every):
				f(ctx)
			case <-ctx.Done():
				return
			}
		}
	})
}

// purge deletes what was consumed of repartition topics. A failure costs disk space on the broker and nothing else.
func (p *instance) purge(ctx context.Context) {
	if before := p.app.takePurge(); len(before) > 0 {
		if err := p.log.Purge(ctx, before); err != nil && ctx.Err() == nil {
			p.app.cfg.Logger.Warn("consumed records of repartition topics could not be deleted", "err", err)
		}
	}
}

// close closes what open opened, in the opposite order.
func (p *instance) close() error {
	var errs []error
	if p.changelog != nil {
		p.changelog.Close()
	}
	if p.consumer != nil {
		p.consumer.Close()
	}
	if p.admin != nil {
		p.admin.Close()
	}
	if p.globals != nil {
		errs = append(errs, p.globals.Close())
	}
	if p.engine != nil {
		errs = append(errs, p.engine.Close())
	}
	if p.dir != nil {
		errs = append(errs, p.dir.Close())
	}
	return errors.Join(errs...)
}

// worker is one worker of the app: its member, its producer and its loop.
type worker struct {
	name     string
	index    int  // from 1; a part of the transactional id
	global   bool // no worker: the goroutine that fills the global stores
	app      *App
	member   *rebalance.Membership
	producer *client.Producer
	loop     *tasks.Worker
}

// internalTopicPatience is how long the brokers may take to create internal topics: long enough for one that restarts, short enough to be told of a
// setting that can never work.
const internalTopicPatience = time.Minute

func (p *instance) startWorker(ctx context.Context, index int) error {
	cfg := &p.app.cfg
	w := &worker{name: fmt.Sprintf("%s-worker-%d", cfg.ClientID, index), index: index, app: p.app}
	instance := ""
	if cfg.InstanceID != "" {
		instance = fmt.Sprintf("%s-%d", cfg.InstanceID, index)
	}
	member, err := rebalance.New(rebalance.Config{
		Client: p.admin, Group: cfg.ApplicationID, ProcessID: p.id, InstanceID: instance, Rack: cfg.Rack, Tags: cfg.Tags,
		Topology: p.app.topology.t.Metadata(p.app.naming), PollInterval: cfg.PollInterval, InternalTopicTimeout: internalTopicPatience, Logger: cfg.Logger,
	})
	if err != nil {
		return fmt.Errorf("streams: %w", err)
	}
	w.member = member
	own := client.ProducerConfig{Linger: cfg.Linger, Identity: member.Identity, InstanceID: instance, Context: p.patient}
	if cfg.Guarantee == ExactlyOnce {
		own.TransactionalID = fmt.Sprintf("%s-%s-%d", cfg.ApplicationID, p.id, index)
		own.TransactionTimeout = cfg.TransactionTimeout
	}
	if w.producer, err = client.NewProducer(ctx, p.clients, own, p.log); err != nil {
		return fmt.Errorf("streams: %w", err)
	}
	group := newGroup(member)
	w.loop = tasks.NewWorker(tasks.Config{
		Name: w.name, ApplicationID: cfg.ApplicationID, Topology: p.app.topology.t, Naming: p.app.naming,
		NewProgram: func(sub *topology.Subtopology, id topology.TaskID) (tasks.Program, error) {
			return newTask(p.tasks, sub, id)
		},
		Group: group, Consumer: p.consumer.Share(), Log: p.log, Changelogs: p.changelog, Producer: w.producer,
		Dir: p.directory(), Engine: p.stateEngine(), Clock: cfg.Clock,
		ExactlyOnce: cfg.Guarantee == ExactlyOnce, CommitInterval: cfg.CommitInterval, MaxTaskIdle: cfg.MaxTaskIdle, BufferRecords: cfg.BufferRecords,
		CacheBytes: cfg.CacheBytes / int64(cfg.Workers), CloseTimeout: cfg.CloseTimeout, Logger: cfg.Logger,
		OnState: func(id topology.TaskID, from, to tasks.State, why string) {
			each(cfg.Hooks, func(h HookTaskState) {
				h.OnTaskState(TaskStateChange{w.name, id.String(), from.String(), to.String(), why})
			})
		},
		OnRestore: p.app.restoreHook, OnCommit: p.app.commitHook,
		OnSettled: func(settled bool) { p.app.settle(w, settled) },
	})
	p.app.addWorker(w)
	p.group.Go(func() {
		err := group.run(func() error { return w.loop.Run(p.workers) })
		w.producer.Close()
		if err != nil {
			p.failures <- failure{w, err}
		}
	})
	return nil
}

func (p *instance) directory() tasks.Directory {
	if p.dir == nil {
		return nil
	}
	return directory{p.dir}
}

func (p *instance) stateEngine() state.Engine {
	if p.engine == nil {
		return nil
	}
	return p.engine
}

func (a *App) addWorker(w *worker) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.workers = append(a.mu.workers, w)
}

func (a *App) removeWorker(w *worker) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, o := range a.mu.workers {
		if o == w {
			a.mu.workers = append(a.mu.workers[:i:i], a.mu.workers[i+1:]...)
		}
	}
	delete(a.mu.settled, w)
}

// askAllToStop tells the group, through every member, that the application is to stop everywhere.
func (a *App) askAllToStop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, w := range a.mu.workers {
		w.member.RequestShutdown()
	}
}

func (w *worker) status() WorkerStatus {
	s := WorkerStatus{Name: w.name}
	member := w.member.Status()
	s.Member, s.Epoch, s.WaitsFor = member.MemberID, member.Epoch, member.Waiting
	list, processed := w.loop.Status()
	s.Processed = processed
	for _, t := range list {
		ts := TaskStatus{
			Task: t.ID.String(), State: t.State.String(), Processed: t.Processed, Buffered: t.Buffered, WaitsFor: t.WaitsFor, Dropped: t.Dropped,
		}
		if t.StreamTime >= 0 {
			ts.StreamTime = time.UnixMilli(t.StreamTime).UTC()
		}
		if t.Standby {
			s.Standbys = append(s.Standbys, ts)
		} else {
			s.Active = append(s.Active, ts)
		}
	}
	return s
}
