package tasks

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/state"
	"github.com/millrace/millrace/topology"
)

// Config is what a worker is made of.
type Config struct {
	Name          string // such as app-worker-1
	ApplicationID string
	Topology      *topology.Topology
	Naming        topology.Naming
	NewProgram    func(sub *topology.Subtopology, id topology.TaskID) (Program, error)

	Group      Group
	Consumer   Consumer
	Log        Log
	Changelogs Changelogs
	Producer   Producer
	Dir        Directory // nil if no store is persistent
	Engine     state.Engine
	Clock      Clock

	ExactlyOnce    bool
	CommitInterval time.Duration // negative: after every record
	MaxTaskIdle    time.Duration
	BufferRecords  int           // per partition
	CacheBytes     int64         // of this worker; more uncommitted state than this commits early. Negative: no caching at all
	CloseTimeout   time.Duration // bounds the last commit and the leave

	Logger    *slog.Logger // never nil
	OnState   func(id topology.TaskID, from, to State, why string)
	OnRestore func(RestoreProgress) // called by the goroutines of several restorations at once
	OnCommit  func(CommitInfo)
	OnSettled func(settled bool) // whether every task that the worker was given runs, each time this changes
}

// CommitInfo describes one commit of a worker.
type CommitInfo struct {
	Worker  string
	Tasks   int
	Records int64         // processed since the last commit
	Took    time.Duration // from the first flush to the end
	Offsets map[TopicPartition]Committed
}

// ErrStop is why [Worker.Run] ended when somebody asked the whole application to stop.
var ErrStop = errors.New("tasks: the application is asked to stop")

// Worker owns tasks and runs them on one goroutine, that of [Worker.Run].
type Worker struct {
	cfg   Config
	log   *slog.Logger
	tasks map[topology.TaskID]*Task
	order []*Task // by id; rebuilt when tasks change

	prepared chan *restoration // of tasks that are ready to run, or failed to become so
	ready    bool              // the group lets new tasks start
	settled  bool              // as last told to OnSettled

	commands []Command      // heard and not yet obeyed
	arrivals []*restoration // heard and not yet taken over

	now          time.Time
	lastCommit   time.Time
	sinceCommit  int64 // records
	migrated     bool  // the producer was refused; a Lose is on its way
	restorations sync.WaitGroup

	published time.Time
	changed   bool
	processed int64 // records in all
	status    struct {
		sync.Mutex
		processed int64
		tasks     []TaskStatus
		restores  []*restoration // of those tasks, where there is one
	}
}

// TaskStatus is what [Worker.Status] says about one task.
type TaskStatus struct {
	ID         topology.TaskID
	State      State
	Standby    bool
	Processed  int64  // records since the task came here
	Buffered   int    // records
	StreamTime int64  // ms; -1 before the first record
	WaitsFor   string // why nothing moves; empty when something does
	Dropped    map[string]int64
}

// NewWorker makes a worker; Run starts it.
func NewWorker(cfg Config) *Worker {
	return &Worker{
		cfg: cfg, log: cfg.Logger.With("worker", cfg.Name), tasks: map[topology.TaskID]*Task{},
		prepared: make(chan *restoration),
	}
}

// Records per task and round: enough to make the round's own cost small, few enough that commands never wait long.
const roundRecords = 1000

// Run works until ctx ends, which is the clean stop (commit, close, leave; nil is returned), the group ends the membership, or something fails. When
// it returns, all tasks are closed and the group is left.
func (w *Worker) Run(ctx context.Context) (err error) {
	w.now = w.cfg.Clock.Now()
	w.lastCommit = w.now
	patient, cancel := Patient(ctx, w.cfg.CloseTimeout)
	defer cancel()
	err = w.loop(ctx, patient)
	return w.shutDown(patient, err)
}

// Patient returns a context that outlives ctx by d: what is under way when somebody asks to stop may still be finished, but not for ever.
func Patient(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	patient, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-time.After(d):
			cancel()
		case <-patient.Done():
		}
	})
	return patient, func() { stop(); cancel() }
}

// loop works until ctx ends. What must not be cut short, such as a commit, has until patient ends.
func (w *Worker) loop(ctx, patient context.Context) error {
	for {
		w.now = w.cfg.Clock.Now()
		w.cfg.Group.Poll()
		busy := false
		if err := w.listen(patient); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return nil
		}
		if err := w.take(patient); err != nil {
			return err
		}
		for _, t := range w.order {
			if t.state != Running || w.migrated {
				continue
			}
			t.ctx.now = w.now.UnixMilli()
			n, err := t.process(w.now, roundRecords)
			w.sinceCommit += int64(n)
			w.processed += int64(n)
			if gone := n + t.skipped; gone > 0 {
				busy = true
				t.skipped = 0
				w.cfg.Consumer.Processed(gone)
			}
			if err != nil {
				return err
			}
			if err := t.punctuateWall(w.now); err != nil {
				return err
			}
			w.feed(t)
		}
		if err := w.cfg.Producer.Err(); err != nil && !w.migrated {
			if err = w.recover(patient, err); err != nil {
				return err
			}
		}
		if w.commitDue() {
			if err := w.commitAll(patient); err != nil {
				return err
			}
		}
		w.publish(!busy)
		if !busy {
			w.wait(ctx)
		}
	}
}

// listen carries out what the group asks and takes over tasks that were prepared, without waiting for either.
func (w *Worker) listen(ctx context.Context) error {
	for more := true; more; {
		select {
		case c := <-w.cfg.Group.Commands():
			w.commands = append(w.commands, c)
		case r := <-w.prepared:
			w.arrivals = append(w.arrivals, r)
		default:
			more = false
		}
	}
	for len(w.commands) > 0 {
		c := w.commands[0]
		w.commands = w.commands[1:]
		if err := w.obey(ctx, c); err != nil {
			return err
		}
	}
	for len(w.arrivals) > 0 {
		r := w.arrivals[0]
		w.arrivals = w.arrivals[1:]
		if err := w.takeOver(r); err != nil {
			return err
		}
	}
	return nil
}

// wait blocks until there is something to do.
func (w *Worker) wait(ctx context.Context) {
	var timer <-chan time.Time
	if d, ok := w.nextDeadline(); ok {
		if d <= 0 {
			return
		}
		timer = w.cfg.Clock.After(d)
	}
	select {
	case <-ctx.Done():
	case <-w.cfg.Consumer.Arrived():
	case <-timer:
	case c := <-w.cfg.Group.Commands():
		w.commands = append(w.commands, c)
	case r := <-w.prepared:
		w.arrivals = append(w.arrivals, r)
	}
}

// nextDeadline is how long the worker may sleep when nothing arrives.
func (w *Worker) nextDeadline() (d time.Duration, ok bool) {
	at := func(t time.Time) {
		if left := t.Sub(w.now); !ok || left < d {
			d, ok = left, true
		}
	}
	for _, t := range w.order {
		if t.state != Running {
			continue
		}
		if ms, scheduled := t.ctx.wall.next(); scheduled {
			at(time.UnixMilli(ms))
		}
		if until, idle := t.idleDeadline(); idle {
			at(until)
		}
		if t.dirty && w.cfg.CommitInterval >= 0 {
			at(w.lastCommit.Add(w.cfg.CommitInterval))
		}
	}
	at(w.now.Add(maxSleep)) // the group counts a worker that is silent for too long as dead
	return d, ok
}

// maxSleep keeps an idle worker's poll timer fresh; the group's limit is minutes.
const maxSleep = 10 * time.Second

// take moves what was fetched into the buffers of the tasks.
func (w *Worker) take(ctx context.Context) error {
	var lost []*Task
	for _, batch := range w.cfg.Consumer.Take() {
		t, b := w.reader(batch.TopicPartition)
		if b == nil { // of a task that left meanwhile
			if batch.Release != nil {
				batch.Release()
			}
			w.cfg.Consumer.Processed(len(batch.Records))
			continue
		}
		if errors.Is(batch.Err, ErrOutOfRange) {
			w.log.Warn("records were deleted before they were read: the source's reset policy decides where to go on",
				"task", t.id.String(), "topic", b.Topic, "partition", b.Partition, "position", b.position)
			if !slices.Contains(lost, t) {
				lost = append(lost, t)
			}
			continue
		}
		if batch.Err != nil {
			w.log.Warn("partition cannot be read", "task", t.id.String(), "topic", b.Topic, "partition", b.Partition, "err", batch.Err)
			continue
		}
		if len(batch.Records) == 0 && batch.Next > b.position {
			t.dirty = true // markers of transactions moved the position: a commit has something to say
		}
		b.add(batch)
		if b.records > w.cfg.BufferRecords && !b.full {
			b.full = true
			w.cfg.Consumer.Full(b.TopicPartition)
		}
	}
	if len(lost) == 0 {
		return nil
	}
	if err := w.commitAll(ctx); err != nil { // what they have done so far stays
		return err
	}
	for _, t := range lost {
		if t.state == Running {
			if err := w.revive(t, "records were deleted before they were read"); err != nil {
				return err
			}
		}
	}
	return nil
}

func (w *Worker) reader(p TopicPartition) (*Task, *buffer) {
	for _, t := range w.order {
		if b := t.buffer(p); b != nil && t.state == Running {
			return t, b
		}
	}
	return nil, nil
}

// feed tells the consumer which partitions of a task have room again, and which one the task waits for.
func (w *Worker) feed(t *Task) {
	waiting := t.records() > 0
	for _, b := range t.buffers {
		if b.full && b.records <= w.cfg.BufferRecords/2 {
			b.full = false
			w.cfg.Consumer.Room(b.TopicPartition)
		}
		if waiting && b.empty() && !b.caughtUp() && !b.hungry {
			b.hungry = true
			w.cfg.Consumer.Hungry(b.TopicPartition)
		}
	}
}

func (w *Worker) reorder() {
	w.order = w.order[:0]
	for _, t := range w.tasks {
		w.order = append(w.order, t)
	}
	slices.SortFunc(w.order, func(a, b *Task) int { return cmp.Or(a.id.Compare(b.id)) })
}

// tellSettled tells whether the worker has what the group gave it, and all of it runs.
func (w *Worker) tellSettled() {
	settled := w.ready
	for _, t := range w.order {
		settled = settled && (t.standby || t.state == Running)
	}
	if settled != w.settled {
		w.settled = settled
		if w.cfg.OnSettled != nil {
			w.cfg.OnSettled(settled)
		}
	}
}

// Status describes the worker's tasks as of its last round, and how many records the worker has processed in all, also in tasks that have left it. It may
// be called from anywhere.
func (w *Worker) Status() (list []TaskStatus, processed int64) {
	w.status.Lock()
	defer w.status.Unlock()
	list = slices.Clone(w.status.tasks)
	for i, r := range w.status.restores {
		if r != nil { // its goroutine goes on while the worker sleeps
			list[i].WaitsFor = r.waitsFor()
		}
	}
	return list, w.status.processed
}

// publish writes what Status reads: ten times a second, whenever a task changed its state, and before the worker goes to sleep.
func (w *Worker) publish(now bool) {
	if w.now.Sub(w.published) < 100*time.Millisecond && !w.changed && !now {
		return
	}
	if w.changed {
		w.tellSettled()
	}
	w.published, w.changed = w.now, false
	w.status.Lock()
	defer w.status.Unlock()
	w.status.processed = w.processed
	w.status.tasks, w.status.restores = w.status.tasks[:0], w.status.restores[:0]
	for _, t := range w.order {
		s := TaskStatus{ID: t.id, State: t.state, Standby: t.standby, Processed: t.processed, Buffered: t.records(), StreamTime: t.ctx.streamTime}
		switch {
		case t.state == Running && s.Buffered > 0 && t.ctx.Record == nil:
			for _, b := range t.buffers {
				if b.empty() && !b.caughtUp() {
					s.WaitsFor = "records of " + b.Topic
				}
			}
		}
		if len(t.ctx.dropped) > 0 {
			s.Dropped = make(map[string]int64, len(t.ctx.dropped))
			for k, v := range t.ctx.dropped {
				s.Dropped[k] = v
			}
		}
		w.status.tasks = append(w.status.tasks, s)
		w.status.restores = append(w.status.restores, t.restore)
	}
}
