package member

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/topology"
)

var (
	walkSeed  = flag.Uint64("walk.seed", 0, "seed of the random walk; 0: a new one, printed")
	walkSteps = flag.Int("walk.steps", 100_000, "steps of the random walk")
)

// walk drives a member at random against the model coordinator and a worker, and checks after each step what must always hold:
//
//   - at most one heartbeat in flight, not counting one leave
//   - a join goes out only when the worker has no active task, not even a suspended one (M-35), and no command that could make one
//   - a heartbeat never omits an active task it told before and that the worker still runs; the coordinator never frees one that runs (M-25)
//   - no assign while tasks are being revoked, none that closes an active task which was not revoked, and no task in two roles
//   - the epoch never falls, except to 0, -1 or -2
//   - one Lose for each loss, none else, and none while one is unanswered
//   - nothing after Left or Fail
//   - the broker never sees a request it would call invalid, and no tight loop
//
// Now and then the faults stop; then member, coordinator and worker must agree within ten minutes (M-33, M-34).
type walk struct {
	t      *testing.T
	rng    *rand.Rand
	seed   uint64
	now    time.Time
	m      *Member
	b      *model
	w      *worker
	log    []string
	faulty bool
	noDesc bool // describe is never possible

	told      *Assignment // lists told since the join
	beat      *flight
	leave     *flight
	lookup    uint64
	describe  uint64
	check     uint64
	losing    bool
	ended     bool
	epoch     int32
	sends     []time.Time
	reached   map[State]int
	converged int
	fatals    map[string]int
}

// flight is a heartbeat that the broker may or may not have seen.
type flight struct {
	id    uint64
	h     Heartbeat
	seen  bool
	resp  Response
	class Class
}

func TestRandomWalk(t *testing.T) {
	seed := *walkSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("-walk.seed=%d -walk.steps=%d", seed, *walkSteps)
	w := newWalk(t, seed)
	for range *walkSteps {
		w.step()
	}
	w.settle()
	t.Logf("agreed %d times; states reached %v; ends %v", w.converged, w.reached, w.fatals)
	if *walkSteps >= 1_000_000 {
		for s := Unsubscribed; s <= Fatal; s++ {
			if w.reached[s] == 0 {
				t.Errorf("never reached %v", s)
			}
		}
	}
}

// TestWalkIsDeterministic: same state, same event, same actions.
func TestWalkIsDeterministic(t *testing.T) {
	run := func() string {
		w := newWalk(t, 7)
		var all strings.Builder
		for range 5000 {
			w.step()
			for _, line := range w.log {
				all.WriteString(line + "\n")
			}
			w.log = nil
		}
		return all.String()
	}
	if first, second := run(), run(); first != second {
		t.Error(firstDifference(first, second))
	}
}

func newWalk(t *testing.T, seed uint64) *walk {
	w := &walk{
		t: t, seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), now: epoch0, faulty: true,
		reached: make(map[State]int), fatals: make(map[string]int),
	}
	w.b = &model{rng: w.rng, others: make(map[topology.TaskID]bool), now: func() time.Time { return w.now }}
	w.b.invalid = func(why string) { w.fatalf("the broker would refuse this: %s", why) }
	w.b.freed = func(task topology.TaskID) {
		if w.w.active[task] {
			w.fatalf("the coordinator frees %v, which still runs", task)
		}
	}
	w.b.retarget()
	w.create()
	return w
}

// create starts a process anew: another member, an empty worker.
func (w *walk) create() {
	cfg := Config{Group: "g", MemberID: fmt.Sprintf("m%d", w.rng.Uint32()), ProcessID: "p", Topology: testTopology(), PollInterval: 20 * time.Second}
	cfg.Jitter = w.rng.Float64
	w.b.old = w.rng.IntN(8) == 0
	w.noDesc = w.rng.IntN(6) == 0
	if !w.b.old && w.rng.IntN(3) == 0 {
		cfg.InstanceID = "i"
	}
	if w.rng.IntN(3) == 0 {
		cfg.Endpoint = &Endpoint{"h", 80}
	}
	n := 0
	cfg.NewMemberID = func() string { n++; return fmt.Sprintf("%s-%d", cfg.MemberID, n) }
	w.m, w.w = New(cfg), &worker{rng: w.rng, active: make(map[topology.TaskID]bool), replica: make(map[topology.TaskID]bool)}
	w.w.invalid = func(why string) { w.fatalf("the worker gets %s", why) }
	w.told, w.beat, w.leave = nil, nil, nil
	w.lookup, w.describe, w.check = 0, 0, 0
	w.losing, w.ended, w.epoch = false, false, 0
	w.log = append(w.log, "-- a new process")
	w.event(Join{})
}

func (w *walk) fatalf(format string, args ...any) {
	w.t.Helper()
	log := w.log
	if i := slices.Index(log, settling); i >= 0 { // what came before is what matters
		log = log[:min(len(log), i+20)]
	}
	w.t.Fatalf("%s\nseed %d, the last events:\n%s", fmt.Sprintf(format, args...), w.seed, strings.Join(log[max(0, len(log)-80):], "\n"))
}

func (w *walk) logf(format string, args ...any) {
	if len(w.log) > 4000 {
		w.log = slices.Clone(w.log[len(w.log)-100:])
	}
	w.log = append(w.log, w.now.Sub(epoch0).String()+" "+fmt.Sprintf(format, args...))
}

func (w *walk) chance(n int) bool { return w.faulty && w.rng.IntN(n) == 0 }

// step lets one thing happen.
func (w *walk) step() {
	if w.ended {
		w.create()
		return
	}
	if w.rng.IntN(1500) == 0 {
		w.settle()
		return
	}
	switch w.rng.IntN(17) {
	case 0, 1:
		w.pass(time.Duration(w.rng.IntN(300)) * time.Millisecond)
	case 2:
		w.pass(time.Duration(w.rng.IntN(6000)) * time.Millisecond)
	case 3:
		if w.chance(60) {
			w.pass(time.Duration(w.rng.IntN(40)) * time.Second) // the worker may miss its poll limit
		}
	case 4, 5, 6:
		w.broker()
	case 7, 8:
		w.answerOthers()
	case 9, 10, 11:
		w.worker()
	case 12, 13:
		w.event(Polled{})
	case 14:
		w.group()
	case 15:
		if w.rng.IntN(10) > 0 {
			break
		}
		offsets := map[topology.TaskID]int64{allTasks[w.rng.IntN(8)]: int64(w.rng.IntN(1000))}
		w.event(Offsets{offsets, offsets})
	case 16:
		switch {
		case w.chance(100):
			w.event(Migrated{})
		case w.chance(150):
			w.event(Leave{Mode: LeaveMode(w.rng.IntN(3)), Closed: w.closed()})
		case w.chance(1000):
			w.event(Shutdown{})
		}
	}
}

// closed lets the worker close everything before a leave, sometimes.
func (w *walk) closed() bool {
	if w.rng.IntN(2) == 0 {
		return false
	}
	clear(w.w.active)
	clear(w.w.replica)
	w.w.queue = nil
	return true
}

// pass lets time go by, with ticks at the deadlines.
func (w *walk) pass(d time.Duration) {
	end := w.now.Add(d)
	for range 10_000 {
		next := w.m.Deadline()
		if next.IsZero() || next.After(end) || w.ended {
			w.now = end
			return
		}
		w.now = maxTime(w.now, next)
		w.event(Tick{})
	}
	w.fatalf("ticks lead nowhere")
}

// group changes the world of the coordinator.
func (w *walk) group() {
	switch w.rng.IntN(12) {
	case 0, 1:
		if w.rng.IntN(3) == 0 {
			w.b.retarget()
			w.logf("retarget to %v, others %v", w.b.target, w.b.others)
		}
	case 2, 3:
		clear(w.b.others)
	case 4:
		w.b.statuses = nil
	case 5:
		if w.chance(3) {
			code := []StatusCode{AssignmentDelayed, AssignmentDelayed, MissingInternalTopics, MissingSourceTopics, MissingClientTags, 77}[w.rng.IntN(6)]
			w.b.statuses = []Status{{code, "x"}}
		}
	case 6:
		if w.chance(30) {
			w.logf("session ends")
			w.b.remove()
		}
	}
}

// broker lets the heartbeat, or the leave, get to the coordinator and back, or get lost on either way.
func (w *walk) broker() {
	f := &w.beat
	if *f == nil || w.leave != nil && w.rng.IntN(2) == 0 {
		f = &w.leave
	}
	if *f == nil {
		return
	}
	c := *f
	if !c.seen {
		c.seen = true
		switch {
		case w.chance(30):
			c.class = []Class{Moved, Loading, Transport, Unexplained, TopicDenied}[w.rng.IntN(5)] // not taken
		case w.chance(3000):
			c.class = []Class{GroupGone, Unrecoverable}[w.rng.IntN(2)]
		default:
			c.resp, c.class = w.b.heartbeat(c.h)
			if w.chance(20) {
				c.class = []Class{Transport, Moved, Transport}[w.rng.IntN(3)] // taken, and the answer lost
			}
			if w.chance(5000) && c.resp.Active != nil {
				c.resp.Warmup = nil
			}
		}
		if w.rng.IntN(3) == 0 {
			return // answered later
		}
	}
	*f = nil
	if c.class == 0 {
		w.event(HeartbeatOK{c.id, c.resp})
	} else {
		w.event(HeartbeatFailed{c.id, c.class, errors.New(c.class.String())})
	}
}

func (w *walk) answerOthers() {
	take := func(id *uint64) uint64 { v := *id; *id = 0; return v }
	switch {
	case w.lookup != 0:
		if w.chance(6) {
			w.event(CoordinatorFailed{take(&w.lookup), Transport, errors.New("no coordinator")})
		} else {
			w.event(CoordinatorFound{take(&w.lookup), 1})
		}
	case w.describe != 0:
		switch {
		case w.noDesc:
			w.event(DescribeFailed{take(&w.describe), Unrecoverable, errors.New("denied")})
		case w.chance(4):
			w.event(DescribeFailed{take(&w.describe), Transport, errors.New("lost")})
		default:
			w.b.expire()
			e := Described{ID: take(&w.describe)}
			if r := w.b.record; r != nil && r.id == w.m.id {
				e.Found, e.Epoch, e.Tasks = true, r.epoch, r.assigned
			}
			w.event(e)
		}
	case w.check != 0:
		e := TopicsChecked{ID: take(&w.check)}
		if w.chance(10) {
			e.Missing = "a"
		}
		w.event(e)
	}
}

func (w *walk) worker() {
	if len(w.w.queue) > 0 {
		w.event(w.w.work(w.faulty))
	}
}

// event steps the member and checks what must always hold.
func (w *walk) event(e Event) {
	if w.ended {
		return
	}
	before := w.m.state
	if _, idle := e.(Polled); !idle || before == Stale {
		w.logf("%T%v in %v", e, e, before)
	}
	if _, ok := e.(LostDone); ok {
		w.losing = false
	}
	actions := w.m.Step(w.now, e)
	loses := 0
	for _, a := range actions {
		w.logf("    %T%v", a, a)
		if w.ended {
			w.fatalf("an action after the end")
		}
		if _, ok := a.(Lose); ok {
			loses++
		}
		w.action(a)
	}
	after := w.m.state
	w.reached[after]++
	if loses > 1 {
		w.fatalf("%d losses at once", loses)
	}
	lost := after != before && (after == Fenced || after == Stale && before.inGroup() || after == Fatal && before.inGroup())
	if lost && loses != 1 {
		w.fatalf("from %v to %v with %d losses", before, after, loses)
	}
	leaving := after == PrepareLeaving || after == Leaving || after == Unsubscribed // with epoch 0, fenced, or because the worker hangs
	if loses > 0 && !lost && !leaving && after != Fatal {
		w.fatalf("a loss in %v", after)
	}
	if _, epoch := w.m.Identity(); epoch < w.epoch && epoch > 0 {
		w.fatalf("epoch fell from %d to %d", w.epoch, epoch)
	} else {
		w.epoch = epoch
	}
	if after == Fatal {
		if again := w.m.Step(w.now, Polled{}); len(again) > 0 || !w.m.Deadline().IsZero() {
			w.fatalf("alive after the end: %v", again)
		}
	}
}

func (w *walk) action(a Action) {
	switch a := a.(type) {
	case SendHeartbeat:
		w.sent(a)
	case FindCoordinator:
		if w.lookup != 0 {
			w.fatalf("two look-ups")
		}
		w.lookup = a.ID
		w.count()
	case Describe:
		w.describe = a.ID
	case CheckTopics:
		w.check = a.ID
	case Revoke:
		w.w.add(a)
	case Assign:
		if slices.ContainsFunc(w.w.queue, func(c Action) bool { _, ok := c.(Revoke); return ok }) {
			w.fatalf("an assign while tasks are being revoked")
		}
		if n := a.Tasks.normalize(); !n.equal(a.Tasks) {
			w.fatalf("not normal: %v", a.Tasks)
		}
		w.w.add(a)
	case Lose:
		if w.losing {
			w.fatalf("a loss while another is unanswered")
		}
		w.losing = true
		w.w.add(a)
	case Fail:
		w.ended = true
		w.fatals[a.Err.Err.Error()]++
	case Left:
		w.ended = true
		w.fatals["left"]++
	}
}

func (w *walk) sent(a SendHeartbeat) {
	w.count()
	f := &flight{id: a.ID, h: a.Request}
	if a.ID == w.m.leave.id {
		if w.leave != nil && !w.leave.seen {
			w.leave.seen = true // timed out before; the network lost it
		}
		w.leave = f
		return
	}
	if w.beat != nil {
		w.fatalf("two heartbeats in flight")
	}
	w.beat = f
	h := a.Request
	if h.Epoch == 0 {
		if len(w.w.active) > 0 || len(w.w.queue) > 0 {
			w.fatalf("a join while the worker has active tasks %v or commands %v", w.w.active, w.w.queue)
		}
		w.told = &Assignment{}
	}
	if h.Epoch > 0 && h.Tasks != nil {
		for _, t := range minus(w.told.Active, h.Tasks.Active) {
			if w.w.active[t] {
				w.fatalf("%v is not told any more, but runs", t)
			}
		}
		w.told = h.Tasks
	}
}

// count finds tight loops: a second with more requests than anything sensible makes.
func (w *walk) count() {
	w.sends = append(w.sends, w.now)
	const most = 60
	if n := len(w.sends) - most; n >= 0 {
		if d := w.now.Sub(w.sends[n]); d < time.Second {
			w.fatalf("%d requests in %v", most, d)
		}
		w.sends = w.sends[n:]
	}
}

const settling = "-- no more faults"

// settle stops the faults and lets everybody come to rest.
func (w *walk) settle() {
	w.faulty = false
	defer func() { w.faulty = true }()
	clear(w.b.others)
	w.b.statuses = nil
	w.log = append(w.log, settling)
	for range 600 {
		for range 20 {
			w.broker()
			w.answerOthers()
			w.worker()
			w.event(Polled{})
		}
		if w.ended {
			w.create()
		}
		w.pass(time.Second)
	}
	r, s := w.b.record, w.m.Snapshot()
	switch {
	case s.State != Stable:
		w.fatalf("not stable but %v, waiting for %s", s.State, s.Waiting)
	case r == nil || r.id != s.MemberID || r.epoch != s.Epoch || r.epoch != w.b.epoch:
		w.fatalf("the coordinator has %+v at %d, the member is %s at %d", r, w.b.epoch, s.MemberID, s.Epoch)
	case !r.assigned.equal(s.Owned) || !empty(r.pending) || !w.b.target.equal(s.Owned):
		w.fatalf("the coordinator wants %v, has assigned %v, the member owns %v", w.b.target, r.assigned, s.Owned)
	case !w.w.has(s.Owned):
		w.fatalf("the member owns %v, the worker has %v and %v", s.Owned, w.w.active, w.w.replica)
	}
	w.converged++
	w.log = slices.DeleteFunc(w.log, func(line string) bool { return line == settling })
}
