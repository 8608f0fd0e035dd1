package streams

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/millrace/millrace/state"
	"github.com/millrace/millrace/streams/internal/client"
	"github.com/millrace/millrace/tasks"
	"github.com/millrace/millrace/topology"
)

// App runs a topology. Its life is New, Run, and the end of Run; it cannot run twice.
type App struct {
	cfg      Config
	topology *Topology
	naming   topology.Naming

	cancel context.CancelFunc // ends Run
	done   chan struct{}      // closed when Run has ended

	mu struct {
		sync.Mutex
		started bool
		closed  bool // Close was called, perhaps before Run
		state   State
		cause   error
		changed chan struct{} // closed and replaced at each change of state
		workers []*worker
		settled map[*worker]bool
		purge   map[tasks.TopicPartition]int64
	}
}

// State is where an app is in its life.
//
//	Created ──▶ Rebalancing ◀──▶ Running
//	   │             └──────┬───────┘
//	   └──────────▶ Closing ┴─▶ Closed, Failed
//
// It is Running when every task it was given runs, which may be none.
type State uint8

// The states.
const (
	Created State = iota
	Rebalancing
	Running
	Closing
	Closed
	Failed
)

// String returns the state in lower case.
func (s State) String() string {
	return [...]string{"created", "rebalancing", "running", "closing", "closed", "failed"}[s]
}

// Status is what [App.Status] returns.
type Status struct {
	State   State
	Workers []WorkerStatus
}

// WorkerStatus is one worker.
type WorkerStatus struct {
	Name     string
	Member   string // member id in the group
	Epoch    int32  // of the member; 0 or less: not in the group
	WaitsFor string // of the group; empty if it waits for nothing

	Processed int64 // records, also those of tasks that have left
	Active    []TaskStatus
	Standbys  []TaskStatus
}

// TaskStatus is one task.
type TaskStatus struct {
	Task       string
	State      string
	Processed  int64 // records since the task came here
	Buffered   int   // records
	StreamTime time.Time
	WaitsFor   string           // why nothing moves; empty when something does
	Dropped    map[string]int64 // records dropped, by reason
}

// New checks cfg and topology and connects to nothing yet.
func New(cfg Config, t *Topology) (*App, error) {
	cfg = cfg.withDefaults()
	if err := cfg.validate(t); err != nil {
		return nil, err
	}
	a := &App{cfg: cfg, topology: t, done: make(chan struct{}), naming: topology.Naming{
		ApplicationID: cfg.ApplicationID, ReplicationFactor: cfg.ReplicationFactor, InternalConfigs: cfg.InternalTopics, WindowExtra: cfg.WindowChangelogExtra,
	}}
	a.mu.changed = make(chan struct{})
	a.mu.settled = map[*worker]bool{}
	a.mu.purge = map[tasks.TopicPartition]int64{}
	return a, nil
}

// Run joins the group, restores and processes until ctx ends, Close is called or something fails. Ending ctx is the normal stop: Run then drains,
// commits and leaves within Config.CloseTimeout and returns nil. A second Run is ErrClosed.
func (a *App) Run(ctx context.Context) error {
	a.mu.Lock()
	if a.mu.started || a.mu.closed {
		a.mu.Unlock()
		return ErrClosed
	}
	a.mu.started = true
	ctx, a.cancel = context.WithCancel(ctx)
	a.mu.Unlock()
	defer close(a.done)
	defer a.cancel()

	a.setState(Rebalancing, nil)
	err := a.run(ctx)
	if err != nil {
		a.setState(Failed, err)
	} else {
		a.setState(Closed, nil)
	}
	return err
}

// run is the life of the app's parts: they are opened in order, and closed in the opposite one.
func (a *App) run(ctx context.Context) (err error) {
	p := &instance{app: a}
	defer func() {
		if e := p.close(); e != nil {
			err = errors.Join(err, e)
		}
	}()
	if err := p.open(ctx); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	return p.supervise(ctx)
}

// Close stops Run, if it runs, and waits for it at most until ctx ends. It may be called at any time, from anywhere but a user function, and
// more than once.
func (a *App) Close(ctx context.Context) error {
	a.mu.Lock()
	a.mu.closed = true
	running := a.mu.started
	cancel := a.cancel
	a.mu.Unlock()
	if !running {
		return nil
	}
	cancel()
	select {
	case <-a.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// CleanUp removes the app's local state, so that the next Run restores everything from the changelogs. It is allowed before Run and after it.
func (a *App) CleanUp() error {
	a.mu.Lock()
	busy := a.mu.started && a.mu.state < Closed
	a.mu.Unlock()
	if busy {
		return fmt.Errorf("streams: CleanUp while the app is %s", a.State())
	}
	if a.cfg.StateDir == "" {
		return nil
	}
	dir, err := state.OpenDir(state.DirOptions{StateDir: a.cfg.StateDir, ApplicationID: a.cfg.ApplicationID, Logger: a.cfg.Logger, Now: a.cfg.Clock.Now})
	if err != nil {
		return err
	}
	return errors.Join(dir.CleanUp(), dir.Close())
}

// State is the state now.
func (a *App) State() State {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mu.state
}

// Wait blocks until the app is in state s. If that can no longer happen it returns why: the error of Run, or [ErrClosed].
func (a *App) Wait(ctx context.Context, s State) error {
	for {
		a.mu.Lock()
		now, cause, changed := a.mu.state, a.mu.cause, a.mu.changed
		a.mu.Unlock()
		switch {
		case now == s:
			return nil
		case now >= Closed:
			if cause != nil {
				return cause
			}
			return ErrClosed
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// setState moves the app on. A state that lies behind is ignored: what runs may still report while the app closes.
func (a *App) setState(to State, cause error) {
	a.mu.Lock()
	from := a.mu.state
	if to == from || from >= Closed || from == Closing && to < Closed {
		a.mu.Unlock()
		return
	}
	a.mu.state, a.mu.cause = to, cause
	close(a.mu.changed)
	a.mu.changed = make(chan struct{})
	a.mu.Unlock()
	a.cfg.Logger.Info("app changes state", "from", from.String(), "to", to.String())
	each(a.cfg.Hooks, func(h HookAppState) { h.OnAppState(AppStateChange{from, to, cause}) })
}

// settle notes whether a worker runs all its tasks, from which the state of the app follows.
func (a *App) settle(w *worker, settled bool) {
	a.mu.Lock()
	a.mu.settled[w] = settled
	all := len(a.mu.workers) > 0
	for _, w := range a.mu.workers {
		all = all && a.mu.settled[w]
	}
	a.mu.Unlock()
	if all {
		a.setState(Running, nil)
	} else {
		a.setState(Rebalancing, nil)
	}
}

// Status describes workers and tasks at one moment.
func (a *App) Status() Status {
	a.mu.Lock()
	s := Status{State: a.mu.state}
	workers := slices.Clone(a.mu.workers)
	a.mu.Unlock()
	for _, w := range workers {
		s.Workers = append(s.Workers, w.status())
	}
	return s
}

// notePurge remembers how far repartition topics have been consumed.
func (a *App) notePurge(offsets map[tasks.TopicPartition]tasks.Committed) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for p, c := range offsets {
		if name, internal := cutPrefix(p.Topic, a.cfg.ApplicationID); internal && a.topology.t.Internal(name) {
			a.mu.purge[p] = max(a.mu.purge[p], c.Offset)
		}
	}
}

func cutPrefix(topic, applicationID string) (name string, ok bool) {
	if len(topic) > len(applicationID) && topic[:len(applicationID)] == applicationID && topic[len(applicationID)] == '-' {
		return topic[len(applicationID)+1:], true
	}
	return "", false
}

// takePurge returns what may be deleted since the last call.
func (a *App) takePurge() map[tasks.TopicPartition]int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	taken := maps.Clone(a.mu.purge)
	clear(a.mu.purge)
	return taken
}

// resetOf is the policy of a source topic.
func (a *App) resetOf(topic string) client.Reset {
	r := a.cfg.Reset
	for _, s := range a.topology.t.Subtopologies {
		for _, n := range s.Nodes {
			sp, ok := n.Payload.(spec)
			if !ok || sp.source == nil {
				continue
			}
			for _, name := range n.Topics {
				if a.topology.t.TopicName(a.naming, name) != topic {
					continue
				}
				if a.topology.t.Internal(name) {
					return client.Reset{Kind: client.Earliest} // nothing written to a repartition topic may be missed
				}
				if sp.source.reset != nil {
					r = *sp.source.reset
				}
			}
		}
	}
	switch r.kind {
	case resetLatest:
		return client.Reset{Kind: client.Latest}
	case resetFail:
		return client.Reset{Kind: client.None}
	case resetAgo:
		return client.Reset{Kind: client.Ago, Ago: r.ago}
	}
	return client.Reset{Kind: client.Earliest}
}
