package rebalance

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/rebalance/member"
	"github.com/millrace/millrace/topology"
)

// Membership is one member of a streams group. See the package comment for its life.
type Membership struct {
	cfg      Config
	log      *slog.Logger
	topology *kmsg.StreamsGroupHeartbeatRequestTopology
	commands chan Command

	// What the goroutine of Run shows to others. Each is replaced as a whole.
	identity  atomic.Pointer[identity]
	status    atomic.Pointer[Status]
	endpoints atomic.Pointer[[]HostPartitions]
	losing    atomic.Bool

	// What others leave for the goroutine of Run.
	polled   atomic.Int64 // nanoseconds since start of the last poll, plus one; 0: none since it was looked at
	wakePoll atomic.Bool  // a poll is waited for
	offsets  atomic.Pointer[member.Offsets]
	start    time.Time
	mailbox  struct {
		sync.Mutex
		posts []func()
	}
	wake chan struct{} // a post is there; capacity 1
	ran  atomic.Bool

	// Owned by the goroutine of Run.
	core     *member.Member
	ctx      context.Context
	requests sync.WaitGroup
	node     int32 // the coordinator; -1: not known
	lookups  int   // so far
	queue    []Command
	unlost   bool // a Lose has no answer yet
	left     bool
	failed   *Error
	lastErr  error
	state    member.State
}

type identity struct {
	memberID string
	epoch    int32
}

// HostPartitions are the partitions that can be queried at one endpoint.
type HostPartitions = member.HostPartitions

// TopicPartitions are partitions of a topic.
type TopicPartitions = member.TopicPartitions

// New returns a membership that has not begun, or all that is wrong with the configuration.
func New(cfg Config) (*Membership, error) {
	cfg, core, err := cfg.prepare()
	if err != nil {
		return nil, err
	}
	m := &Membership{
		cfg:      cfg,
		log:      cfg.Logger.With("group", cfg.Group, "member", cfg.MemberID),
		topology: topologyRequest(cfg.Topology, cfg.TopologyEpoch),
		commands: make(chan Command),
		wake:     make(chan struct{}, 1),
		start:    cfg.Now(),
		core:     member.New(core),
		node:     -1,
	}
	m.publish()
	m.endpoints.Store(new([]HostPartitions(nil)))
	return m, nil
}

// Run joins the group and stays until the member has left as asked (nil), the membership ended for good (a *[Error]), or ctx ended (its error): then the
// member is abandoned without a leave, and its session at the broker has to end. It can be called once. When it returns, the commands channel is
// closed and no goroutine of it is left.
func (m *Membership) Run(ctx context.Context) error {
	if m.ran.Swap(true) {
		return errRunTwice
	}
	ctx, cancel := context.WithCancel(ctx)
	m.ctx = ctx
	defer close(m.commands)
	defer m.requests.Wait()
	defer cancel()

	m.log.Info("joining the group", "process", m.cfg.ProcessID, "topology", TopologyHash(m.cfg.Topology, m.cfg.TopologyEpoch))
	m.step(member.Join{})

	timer := time.NewTimer(0)
	defer timer.Stop()
	var grace <-chan time.Time // bounds the end of a failed membership
	for !m.over() {
		if m.failed != nil && grace == nil {
			grace = time.After(m.cfg.LeaveTimeout)
		}
		timer.Stop()
		if d := m.core.Deadline(); !d.IsZero() {
			timer.Reset(d.Sub(m.cfg.Now()))
		}
		var out chan<- Command
		var first Command
		if len(m.queue) > 0 {
			out, first = m.commands, m.queue[0]
		}
		select {
		case <-ctx.Done():
			m.identity.Store(&identity{m.cfg.MemberID, 0})
			return context.Cause(ctx)
		case <-m.wake:
			m.takePosts()
		case out <- first:
			m.queue = m.queue[1:]
		case <-timer.C:
			m.step(member.Tick{})
		case <-grace:
			m.queue, m.unlost = nil, false
		}
	}
	if m.failed != nil {
		return m.failed
	}
	return nil
}

// over reports whether Run may return. After a failure the worker gets to hear of it first, and drops its tasks.
func (m *Membership) over() bool {
	return m.left || m.failed != nil && len(m.queue) == 0 && !m.unlost
}

// post leaves f for the goroutine of Run.
func (m *Membership) post(f func()) {
	m.mailbox.Lock()
	m.mailbox.posts = append(m.mailbox.posts, f)
	m.mailbox.Unlock()
	m.wakeUp()
}

func (m *Membership) wakeUp() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

func (m *Membership) takePosts() {
	m.mailbox.Lock()
	posts := m.mailbox.posts
	m.mailbox.posts = nil
	m.mailbox.Unlock()
	for _, f := range posts {
		f()
	}
	m.absorb()
}

// step lets the core take one event.
func (m *Membership) step(e member.Event) {
	m.absorb()
	m.apply(e)
}

// absorb takes what callers left without waking anybody.
func (m *Membership) absorb() {
	if at := m.polled.Swap(0); at != 0 {
		m.apply(member.Polled{At: m.start.Add(time.Duration(at - 1))})
	}
	if o := m.offsets.Swap(nil); o != nil {
		m.apply(*o)
	}
}

func (m *Membership) apply(e member.Event) {
	for _, a := range m.core.Step(m.cfg.Now(), e) {
		m.do(a)
	}
	if s := m.core.State(); s != m.state {
		_, epoch := m.core.Identity()
		m.log.Info("member state", "from", m.state.String(), "to", s.String(), "epoch", epoch, "why", fmt.Sprintf("%T", e))
		m.state = s
	}
	m.publish()
	// The worker's next poll must wake us, if it is what the member waits for.
	m.wakePoll.Store(m.state == member.Stale)
}

// publish shows the state to others.
func (m *Membership) publish() {
	s := m.core.Snapshot()
	if id := m.identity.Load(); id == nil || id.memberID != s.MemberID || id.epoch != s.Epoch {
		m.identity.Store(&identity{s.MemberID, s.Epoch})
	}
	m.status.Store(&Status{Snapshot: s, Coordinator: m.node, Err: m.lastErr})
}

// do carries out one action.
func (m *Membership) do(a member.Action) {
	switch a := a.(type) {
	case member.FindCoordinator:
		m.findCoordinator(a)
	case member.SendHeartbeat:
		m.sendHeartbeat(a)
	case member.Describe:
		m.describe(a)
	case member.CheckTopics:
		m.checkTopics(a)
	case member.Revoke:
		m.log.Info("revoking tasks", "tasks", a.Tasks)
		m.command(Revoke{Tasks: a.Tasks, answer: m.answer(func(err error) member.Event { return member.Revoked{ID: a.ID, Err: err} })})
	case member.Assign:
		m.log.Info("assigning tasks", "tasks", a.Tasks.String(), "ready", a.Ready)
		m.command(Assign{
			Active: a.Tasks.Active, Standby: a.Tasks.Standby, Warmup: a.Tasks.Warmup, Ready: a.Ready,
			answer: m.answer(func(err error) member.Event { return member.Assigned{ID: a.ID, Err: err} }),
		})
	case member.Lose:
		m.lose(a)
	case member.UpdateEndpoints:
		m.endpoints.Store(&a.Hosts)
	case member.StopApplication:
		m.log.Warn("a member asked the application to stop", "detail", a.Detail)
		m.command(StopApplication{Detail: a.Detail})
	case member.Report:
		m.log.Error("the group has a problem", "err", a.Err, "stop", a.Stop)
		m.lastErr = a.Err
		if a.Stop {
			m.command(Failed{Err: a.Err})
		}
	case member.Note:
		level := slog.LevelInfo
		if a.Warn {
			level = slog.LevelWarn
		}
		m.log.Log(context.Background(), level, a.Message, "detail", a.Detail)
	case member.Left:
		m.left = true
	case member.Fail:
		m.log.Error("the membership has ended", "err", a.Err)
		m.failed, m.lastErr = a.Err, a.Err
		m.command(Failed{Err: a.Err, Fatal: true})
	default:
		panic(fmt.Sprintf("rebalance: unknown action %T", a))
	}
}

// command queues one for the worker. The queue has no bound, so that a busy worker never makes heartbeats wait; the core has at most one unfinished
// command, or two when a leave overtakes one.
func (m *Membership) command(c Command) { m.queue = append(m.queue, c) }

// answer turns the worker's Done into an event. Only the first counts.
func (m *Membership) answer(event func(error) member.Event) answer {
	var once sync.Once
	return answer{func(err error) {
		once.Do(func() { m.post(func() { m.step(event(err)) }) })
	}}
}

// lose overtakes every command that the worker has not taken.
func (m *Membership) lose(a member.Lose) {
	m.log.Warn("tasks are lost")
	m.queue = slices.DeleteFunc(m.queue, func(c Command) bool {
		switch c.(type) {
		case Revoke, Assign, Lose:
			return true
		}
		return false
	})
	m.losing.Store(true)
	m.unlost = true
	var once sync.Once
	m.command(Lose{answer{func(error) {
		once.Do(func() {
			m.post(func() {
				m.losing.Store(false)
				m.unlost = false
				m.step(member.LostDone(a))
			})
		})
	}}})
}

// request runs f, which does I/O, in a goroutine of its own and takes what it returns in the goroutine of Run.
func (m *Membership) request(timeout time.Duration, f func(ctx context.Context) (then func())) {
	m.requests.Go(func() {
		ctx, cancel := context.WithTimeout(m.ctx, timeout)
		defer cancel()
		then := f(ctx)
		if m.ctx.Err() == nil {
			m.post(then)
		}
	})
}

func (m *Membership) findCoordinator(a member.FindCoordinator) {
	m.node = -1
	m.lookups++
	first := m.lookups
	m.request(min(m.cfg.RequestTimeout, 10*time.Second), func(ctx context.Context) func() {
		node, version, f := findCoordinator(ctx, m.cfg.Client, m.cfg.Group, first)
		return func() {
			if f != nil {
				m.log.Warn("coordinator not found", "class", f.class.String(), "err", f.err)
				m.lastErr = f.err
				m.step(member.CoordinatorFailed{ID: a.ID, Class: f.class, Err: f.err})
				return
			}
			m.log.Info("coordinator found", "node", node, "version", version)
			m.node = node
			m.step(member.CoordinatorFound{ID: a.ID, Version: version})
		}
	})
}

func (m *Membership) sendHeartbeat(a member.SendHeartbeat) {
	m.log.Debug("heartbeat", "request", a.Request.String())
	node, req := m.node, heartbeatRequest(m.cfg.Group, a.Request, m.topology)
	m.request(a.Timeout, func(ctx context.Context) func() {
		resp, f := sendHeartbeat(ctx, m.cfg.Client, node, req)
		return func() {
			if f != nil {
				m.log.Warn("heartbeat failed", "epoch", req.MemberEpoch, "class", f.class.String(), "err", f.err)
				m.lastErr = f.err
				m.step(member.HeartbeatFailed{ID: a.ID, Class: f.class, Err: f.err})
				return
			}
			m.step(member.HeartbeatOK{ID: a.ID, Response: resp})
		}
	})
}

func (m *Membership) describe(a member.Describe) {
	node := m.node
	id, _ := m.core.Identity()
	m.request(min(m.cfg.RequestTimeout, 10*time.Second), func(ctx context.Context) func() {
		e, f := describe(ctx, m.cfg.Client, node, m.cfg.Group, id)
		return func() {
			if f != nil {
				m.log.Warn("describe failed", "class", f.class.String(), "err", f.err)
				m.step(member.DescribeFailed{ID: a.ID, Class: f.class, Err: f.err})
				return
			}
			m.log.Info("verified the assignment after a lost answer", "found", e.Found, "epoch", e.Epoch, "tasks", e.Tasks.String())
			e.ID = a.ID
			m.step(e)
		}
	})
}

func (m *Membership) checkTopics(a member.CheckTopics) {
	m.request(min(m.cfg.RequestTimeout, 10*time.Second), func(ctx context.Context) func() {
		missing, mismatched, err := checkTopics(ctx, m.cfg.Client, m.cfg.Topology)
		return func() {
			m.step(member.TopicsChecked{ID: a.ID, Missing: missing, Mismatched: mismatched, Err: err})
		}
	})
}

// Commands is where the worker gets its commands, in order. It is closed when Run returns.
func (m *Membership) Commands() <-chan Command { return m.commands }

// Identity returns the member id and epoch that a commit must carry, as one pair. If the epoch is not positive the worker is not a member:
// nothing may be committed.
func (m *Membership) Identity() (memberID string, epoch int32) {
	id := m.identity.Load()
	return id.memberID, id.epoch
}

// Lost reports whether a [Lose] waits for the worker's answer.
func (m *Membership) Lost() bool { return m.losing.Load() }

// Poll says that the worker's loop has finished one round: it took its commands and processed some records, or found none. It costs an atomic store.
func (m *Membership) Poll() {
	m.polled.Store(int64(m.cfg.Now().Sub(m.start)) + 1)
	if m.wakePoll.Load() {
		m.wakeUp()
	}
}

// Migrated says that a commit was refused because the member is no longer the owner. The tasks are lost, which comes as a command, and the member leaves
// and joins again.
func (m *Membership) Migrated() { m.post(func() { m.step(member.Migrated{}) }) }

// SetOffsets tells how far the worker's tasks are: the sums of the positions of each task's changelogs, and of their end offsets;
// [UnknownOffset] for a sum that is not known. Running active tasks must be absent; restoring ones, standby and warm-up tasks and state on disk
// without a task must be there. The maps are taken over.
func (m *Membership) SetOffsets(offsets, ends map[topology.TaskID]int64) {
	m.offsets.Store(&member.Offsets{Offsets: offsets, Ends: ends})
}

// UnknownOffset stands for an offset or a sum that is not known or does not fit.
const UnknownOffset = member.UnknownOffset

// Leave starts leaving. The worker gets a [Revoke] of all its active tasks first, or a [Lose] if it is not in the group at the moment, and must answer
// it; standby and warm-up tasks are its own to close. Run returns when the leave was answered or has timed out.
func (m *Membership) Leave(mode LeaveMode) { m.leave(mode, false) }

// LeaveClosed starts leaving for a worker that has closed all its tasks and takes no more commands.
func (m *Membership) LeaveClosed(mode LeaveMode) { m.leave(mode, true) }

func (m *Membership) leave(mode LeaveMode, closed bool) {
	m.post(func() {
		m.log.Info("leaving the group", "mode", mode.String(), "closed", closed)
		if closed && m.failed != nil {
			m.queue, m.unlost = nil, false
		}
		m.step(member.Leave{Mode: mode, Closed: closed})
	})
}

// RequestShutdown asks all instances of the application to stop: every later heartbeat says so, a leave too, and the next one goes out at once. This
// instance hears of it like all others, with [StopApplication].
func (m *Membership) RequestShutdown() { m.post(func() { m.step(member.Shutdown{}) }) }

// Status is what an operator wants to know of a member.
type Status struct {
	member.Snapshot
	Coordinator int32 // node id; -1: not known
	Err         error // the last error, which may be over
}

// Status returns the present state.
func (m *Membership) Status() Status { return *m.status.Load() }

// Endpoints returns the assigned partitions by endpoint, of all members that have one, ascending by endpoint. They are what is assigned, not what
// already runs; a leave shows only at the next change; and brokers before Kafka 4.4 may list partitions that a smaller topic does not have. The slice
// must not be modified.
func (m *Membership) Endpoints() []HostPartitions { return *m.endpoints.Load() }
