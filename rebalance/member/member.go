package member

import (
	"fmt"
	"time"

	"github.com/millrace/millrace/topology"
)

// Member is the state of one member. It is not safe for concurrent use: one goroutine owns it.
type Member struct {
	cfg     Config
	known   map[int]bool // sub-topologies of this program
	state   State
	id      string // member id
	epoch   int32
	now     time.Time // of the Step under way
	actions []Action  // of the Step under way
	lastID  uint64    // of actions; they share one sequence
	life    uint64    // counts joins; answers from an earlier life are dropped

	// Coordinator.
	coordinator bool   // known
	version     int16  // of the heartbeat there; meaningful once one was found
	lookup      uint64 // id of the FindCoordinator under way, 0: none
	lookupTries int    // since the last heartbeat that a coordinator took; they back off
	lookupAt    time.Time

	// Heartbeats.
	inflight    inflight
	interval    time.Duration
	sentAt      time.Time // last heartbeat was sent
	expired     bool      // the interval is over before its time: an error, or something urgent to tell
	failures    int       // in a row, for backoff
	notBefore   time.Time // backoff
	lastContact time.Time // when the last heartbeat that succeeded was sent
	sent        sent

	// What the application wants told.
	shutdown     bool
	offsets      []TaskOffset
	ends         []TaskOffset
	offsetsAgain bool

	// What the broker told.
	statuses       []Status
	ready          bool // by the last statuses
	endpointEpoch  int32
	offsetInterval time.Duration
	recoveryLag    int64

	// Tasks.
	target   target
	owned    target            // what the last finished reconciliation captured
	reported Assignment        // what was taken by the worker, for heartbeats
	running  []topology.TaskID // active tasks the worker may have
	work     work
	retryAt  time.Time // a failed reconciliation starts again
	tries    int
	verify   verification
	watch    statusWatch

	// Joining.
	static        bool // the last join carried the instance id
	mayHold       bool // the broker may hold the instance id for this very member
	release       bool // take the own record off the broker before the next join
	fences        int  // since the last steady heartbeat that succeeded
	refusedJoins  int  // in a row, by fencing
	refusedSince  time.Time
	unreleasedAt  time.Time // first refusal for an instance id in use; zero: none
	unexplainedAt time.Time // first error of class Unexplained in a row; zero: none
	groupGone     bool      // the group was gone once, and no heartbeat succeeded in the group since
	topicDenied   bool      // reported

	pollBy time.Time // the worker must have polled; meaningful from Join on
	leave  leaving
}

// inflight is the one heartbeat that is not a leave and has no answer yet; id 0: none.
type inflight struct {
	id    uint64
	kind  kind
	lists bool   // has task lists
	life  uint64 // of the member when it was sent
	at    time.Time
}

type kind uint8

const (
	steady    kind = iota
	joining        // epoch 0
	releasing      // a leave of the member's own record, before a join
)

// defaultInterval of heartbeats is the brokers'.
const defaultInterval = 5 * time.Second

var noTime time.Time

// New returns a member that does nothing until it is told to [Join]. The configuration must have passed [Config.Validate].
func New(cfg Config) *Member {
	m := &Member{
		cfg:           cfg.withDefaults(),
		id:            cfg.MemberID,
		known:         make(map[int]bool),
		ready:         true,
		endpointEpoch: -1,
		recoveryLag:   -1,
	}
	for _, s := range cfg.Topology.Subtopologies {
		m.known[s.ID] = true
	}
	m.watch.init()
	return m
}

// Step applies e at time now and returns what the caller must do, in order. Time must not go backwards.
func (m *Member) Step(now time.Time, e Event) []Action {
	if m.state == Fatal {
		return nil
	}
	m.now, m.actions = now, nil
	switch e := e.(type) {
	case Join:
		m.onJoin()
	case Tick:
	case CoordinatorFound:
		m.onCoordinatorFound(e)
	case CoordinatorFailed:
		m.onCoordinatorFailed(e)
	case HeartbeatOK:
		m.onHeartbeatOK(e)
	case HeartbeatFailed:
		m.onHeartbeatFailed(e)
	case Described:
		m.onDescribed(e)
	case DescribeFailed:
		m.onDescribeFailed(e)
	case TopicsChecked:
		m.onTopicsChecked(e)
	case Revoked:
		m.onRevoked(e)
	case Assigned:
		m.onAssigned(e)
	case LostDone:
		m.onLostDone(e)
	case Polled:
		m.onPolled(e)
	case Migrated:
		m.onMigrated()
	case Offsets:
		m.offsets, m.ends = taskOffsets(e.Offsets), taskOffsets(e.Ends)
	case Shutdown:
		m.shutdown, m.expired = true, true
	case Leave:
		m.onLeave(e)
	default:
		panic(fmt.Sprintf("member: unknown event %T", e))
	}
	m.advance()
	actions := m.actions
	m.actions = nil
	return actions
}

// advance does what has become due, whatever the event was.
func (m *Member) advance() {
	m.expirePoll()
	m.expireLeave()
	m.expireStatus()
	m.rejoin()
	m.findCoordinator()
	m.heartbeat()
	m.reconcile()
}

// Deadline reports when the caller must next call Step with a [Tick], if no other event comes before. Zero: no event, no change.
func (m *Member) Deadline() time.Time {
	var d deadline
	if at, due := m.heartbeatDue(); due && m.coordinator && m.inflight.id == 0 {
		d.add(at)
	}
	if m.wantsCoordinator() {
		d.add(m.lookupAt)
	}
	if m.state.inGroup() {
		d.add(m.pollBy)
	}
	if m.wantsWork() {
		d.add(m.retryAt)
	}
	d.add(m.leave.deadline)
	d.add(m.watch.missingBy(m))
	d.add(m.watch.internalBy(m))
	return d.at
}

// deadline is the earliest of the times added; zero times do not count.
type deadline struct{ at time.Time }

func (d *deadline) add(t time.Time) {
	if !t.IsZero() && (d.at.IsZero() || t.Before(d.at)) {
		d.at = t
	}
}

func (m *Member) do(a Action) { m.actions = append(m.actions, a) }

func (m *Member) nextID() uint64 {
	m.lastID++
	return m.lastID
}

func (m *Member) note(warn bool, message, detail string) { m.do(Note{warn, message, detail}) }

func (m *Member) err(err error) *Error {
	return &Error{Group: m.cfg.Group, MemberID: m.id, Epoch: m.epoch, Err: err}
}

// fail ends the membership: the worker loses its tasks, once, and the error goes to the application. No leave is sent (§2.3).
func (m *Member) fail(err error) {
	e := m.err(err)
	m.epoch = 0
	if m.state != Unsubscribed && m.state != Leaving && !m.leave.closed && m.work.kind != losing {
		m.lose()
	}
	m.leave = leaving{}
	m.to(Fatal)
	m.do(Fail{e})
}

func (m *Member) onJoin() {
	if m.state != Unsubscribed {
		return
	}
	m.leave = leaving{}
	m.startJoining()
}

// startJoining is the one way into Joining.
func (m *Member) startJoining() {
	m.life++
	m.epoch = 0
	m.target, m.owned, m.reported = target{}, target{}, Assignment{}
	m.work = work{}
	m.verify = verification{}
	m.pollBy = m.now.Add(m.cfg.PollInterval)
	m.to(Joining)
}

func (m *Member) onPolled(e Polled) {
	at := e.At
	if at.IsZero() {
		at = m.now
	}
	m.pollBy = maxTime(m.pollBy, at.Add(m.cfg.PollInterval))
	m.leave.polled = true
}

// Coordinator look-up. A look-up follows at once after the first heartbeat that needs it; further ones back off until a coordinator took a
// heartbeat, so that brokers which disagree are not asked in a tight loop.

func (m *Member) forgetCoordinator() {
	m.coordinator = false
	m.resetEndpointEpoch()
}

// coordinatorWorks says that a coordinator took a heartbeat as its own: the next look-up need not wait.
func (m *Member) coordinatorWorks() { m.lookupTries, m.lookupAt = 0, noTime }

// resync makes the next heartbeat, as soon as backoff allows, repeat what the broker was told (§1.3).
func (m *Member) resync() { m.sent, m.expired = sent{}, true }

// wantsCoordinator reports whether a look-up is to be started, at lookupAt.
func (m *Member) wantsCoordinator() bool {
	if m.coordinator || m.lookup != 0 {
		return false
	}
	return m.state.inGroup() || m.state == PrepareLeaving && m.epoch > 0 || m.leave.again
}

func (m *Member) findCoordinator() {
	if !m.wantsCoordinator() || m.now.Before(m.lookupAt) {
		return
	}
	m.lookup = m.nextID()
	m.do(FindCoordinator{m.lookup})
	m.lookupAt = m.now.Add(m.backoff(m.lookupTries))
	m.lookupTries++
}

func (m *Member) onCoordinatorFound(e CoordinatorFound) {
	if e.ID != m.lookup {
		return
	}
	m.lookup = 0
	m.coordinator = true
	m.version = e.Version
	if m.cfg.InstanceID != "" && e.Version < 1 {
		m.watch.once(m, "no static members", "the coordinator is older than Kafka 4.4 and has no static members: joining as a dynamic one", m.cfg.InstanceID)
	}
	if m.leave.again {
		m.sendLeave()
	}
}

func (m *Member) onCoordinatorFailed(e CoordinatorFailed) {
	if e.ID != m.lookup {
		return
	}
	m.lookup = 0
	m.lookupAt = maxTime(m.lookupAt, m.now)
	switch {
	case m.leave.again:
		m.left()
	case e.Class == Unrecoverable && (m.state.inGroup() || m.state == PrepareLeaving):
		m.fail(e.Err)
	}
}

// backoff is 100 ms, doubled for each try up to 1 s, ±20 % (§3).
func (m *Member) backoff(tries int) time.Duration {
	const first, last = 100 * time.Millisecond, time.Second
	d := min(first<<min(tries, 4), last)
	return time.Duration(float64(d) * (0.8 + 0.4*m.cfg.Jitter()))
}

// backOff lets the next heartbeat wait after a failure.
func (m *Member) backOff() {
	m.notBefore = m.now.Add(m.backoff(m.failures))
	m.failures++
}

func (m *Member) skipBackoff() {
	m.failures = 0
	m.notBefore = time.Time{}
}

// heartbeatDue reports when the next heartbeat may go out, if the state sends any.
func (m *Member) heartbeatDue() (at time.Time, due bool) {
	switch m.state {
	case Joining, Acknowledging:
		return maxTime(m.notBefore, m.sentAt), true // at once; only backoff counts, also here (§3 rule 6)
	case Reconciling, Stable, Rejoining:
	case PrepareLeaving:
		if m.epoch <= 0 {
			return time.Time{}, false
		}
	default:
		return time.Time{}, false
	}
	at = m.sentAt.Add(m.interval)
	if m.expired {
		at = m.sentAt
	}
	return maxTime(m.notBefore, at), true
}

// heartbeat sends the one that is due.
func (m *Member) heartbeat() {
	at, due := m.heartbeatDue()
	if !due || m.now.Before(at) || !m.coordinator || m.inflight.id != 0 {
		return
	}
	var h Heartbeat
	kind := steady
	switch {
	case m.state == Joining && m.release:
		kind, h = releasing, m.leaveHeartbeat(m.leaveEpoch())
	case m.state == Joining:
		kind, h = joining, m.joinHeartbeat(m.now)
	default:
		h = m.steadyHeartbeat(m.now)
	}
	m.inflight = inflight{m.nextID(), kind, h.Tasks != nil, m.life, m.now}
	m.sentAt, m.expired = m.now, false
	m.do(SendHeartbeat{m.inflight.id, h, m.timeout()})
	if m.state == Acknowledging {
		if m.owned.change == m.target.change {
			m.to(Stable)
		} else {
			m.to(Reconciling)
		}
	}
}

// timeout of a heartbeat: 30 s are long against a session of 45 s (§3 rule 11).
func (m *Member) timeout() time.Duration {
	return min(m.cfg.RequestTimeout, max(10*time.Second, 2*m.interval))
}

func maxTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
