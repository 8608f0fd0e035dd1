package coordinator

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var (
	seed  = flag.Uint64("seed", 0, "seed of the random walk; 0 draws one")
	steps = flag.Int("steps", 3000, "steps of the random walk")
)

// TestRandomWalk lets a group of members do what members do, lose answers, stop, come back, while topics and settings change, and checks after every step
// what must hold at every moment. In the end all behave, and every task must have its owner.
func TestRandomWalk(t *testing.T) {
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	for _, release := range []Release{Kafka42, Kafka43, Kafka44} {
		t.Run(release.String(), func(t *testing.T) {
			t.Logf("run again with -seed %d", s)
			w := newWalk(t, release, s)
			for range *steps {
				w.step()
				w.check()
				if t.Failed() {
					w.story()
					return
				}
			}
			w.behave()
			if t.Failed() {
				w.story()
			}
		})
	}
}

type walk struct {
	*testing.T
	b       *bench
	r       *rand.Rand
	members []*actor
	made    int
	log     []string

	groupEpoch, assignmentEpoch int32
	sources                     map[string]int32
}

// actor is a client: what it was told last, and what it runs in fact.
type actor struct {
	*walker
	instance *string
	in       bool
	away     bool            // a static member that left for a while
	runs     map[string]bool // active tasks that run here
	unsure   bool            // an answer was lost
}

func newWalk(t *testing.T, release Release, seed uint64) *walk {
	w := &walk{T: t, r: rand.New(rand.NewPCG(seed, uint64(release))), sources: map[string]int32{"in0": 9, "in1": 5}}
	w.b = newBench(t, func(c *Config) {
		c.Release = release
		c.SessionTimeout = 10 * time.Second
		c.MaxStandbyReplicas = 2
		c.AssignmentInterval = time.Duration(w.r.IntN(2)) * 2 * time.Second
		c.InitialRebalanceDelay = time.Duration(w.r.IntN(2)) * 3 * time.Second
	})
	for name, n := range w.sources {
		w.b.cluster.create(name, n)
	}
	return w
}

// stopping reports whether the member has been told to stop a task that still runs.
func (a *actor) stopping() bool {
	for t := range a.runs {
		if !slices.Contains(a.active, t) {
			return true
		}
	}
	return false
}

func (w *walk) say(format string, args ...any) {
	w.log = append(w.log, w.b.now.Sub(t0).String()+" "+fmt.Sprintf(format, args...))
}

// story tells the last steps.
func (w *walk) story() {
	for _, l := range w.log[max(0, len(w.log)-60):] {
		w.Log(l)
	}
}

func (w *walk) topology() *kmsg.StreamsGroupHeartbeatRequestTopology {
	return topo(sub("0", []string{"in0"}, "log0"), sub("1", []string{"in1"}))
}

func (w *walk) step() {
	w.b.advance(time.Duration(w.r.IntN(400)) * time.Millisecond)
	w.notice()
	if len(w.members) < 2 || len(w.members) < 7 && w.r.IntN(20) == 0 {
		w.add()
		return
	}
	a := w.members[w.r.IntN(len(w.members))]
	switch n := w.r.IntN(200); {
	case !a.in:
		w.join(a)
	case n < 80 && a.stopping():
		w.busy(a)
	case n < 140:
		w.heartbeat(a, true)
	case n < 170:
		w.heartbeat(a, false)
	case n < 180:
		w.lose(a)
	case n < 184:
		w.leave(a)
	case n < 186:
		w.say("%s is gone without a word", a.id)
		w.remove(a)
	case n < 187:
		if w.r.IntN(2) == 0 {
			w.b.c.Failover(w.b.now, "app")
			w.say("failover")
			return
		}
		data, err := w.b.c.Snapshot()
		if err != nil {
			w.Fatal(err)
		}
		w.b.c = New(w.b.c.cfg, w.b.cluster)
		if err := w.b.c.Restore(w.b.now, data); err != nil {
			w.Fatal(err)
		}
		w.say("restart")
	case n < 190:
		v := strconv.Itoa(w.r.IntN(3))
		w.say("standbys %s", v)
		if err := w.b.c.AlterGroupConfigs("app", map[string]*string{"streams.num.standby.replicas": &v}, false); err != nil {
			w.Fatal(err)
		}
	case n < 191:
		w.topics()
	case n < 193:
		w.say("a while passes")
		w.b.advance(time.Duration(w.r.IntN(12)) * time.Second)
	default:
		w.join(a) // once more
	}
}

func (w *walk) add() {
	w.made++
	a := &actor{walker: w.b.member(fmt.Sprintf("m%d", w.made), fmt.Sprintf("p%d", w.r.IntN(4)), w.topology()), runs: map[string]bool{}}
	if w.b.c.cfg.Release >= Kafka44 && w.r.IntN(3) == 0 {
		i := "i" + strconv.Itoa(w.made)
		a.instance = &i
	}
	w.members = append(w.members, a)
	w.join(a)
}

func (w *walk) remove(a *actor) {
	// A client that is gone runs nothing any more, though the coordinator does not know yet.
	w.members = slices.DeleteFunc(w.members, func(o *actor) bool { return o == a })
}

func (w *walk) join(a *actor) {
	if a.instance != nil && a.in {
		return // a live static member cannot join again
	}
	clear(a.runs) // a join says that nothing runs
	a.active, a.standby, a.warmup = nil, nil, nil
	req := a.joinRequest()
	req.InstanceID = a.instance
	if w.r.IntN(2) == 0 {
		req.RebalanceTimeoutMillis = 3000
	}
	if a.instance != nil && a.away {
		w.made++
		a.id = fmt.Sprintf("m%d", w.made)
		req.MemberID = a.id
	}
	resp := w.b.send(req)
	w.say("%s (%s) joins: code %d epoch %d active %v standby %v", a.id, a.process, resp.ErrorCode, resp.MemberEpoch, names(resp.ActiveTasks), names(resp.StandbyTasks))
	switch resp.ErrorCode {
	case 0:
		a.in, a.away, a.unsure = true, false, false
		w.follow(a, resp)
	case kerr.UnreleasedInstanceID.Code:
		w.remove(a) // its former self is not yet forgotten
	default:
		w.Errorf("join answered %d %s", resp.ErrorCode, text(resp.ErrorMessage))
	}
}

func text(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func (w *walk) heartbeatRequest(a *actor, report bool) *kmsg.StreamsGroupHeartbeatRequest {
	req := a.request(a.epoch)
	req.InstanceID = a.instance
	if report || a.unsure {
		req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = wire(a.active), wire(a.standby), wire(a.warmup)
	}
	return req
}

func (w *walk) heartbeat(a *actor, report bool) {
	if report || a.unsure {
		// What it was told to stop is stopped before it says so.
		for t := range a.runs {
			if !slices.Contains(a.active, t) {
				delete(a.runs, t)
			}
		}
	}
	resp := w.b.send(w.heartbeatRequest(a, report))
	w.say("%s beats (report %v): code %d epoch %d active %v standby %v", a.id, report, resp.ErrorCode, resp.MemberEpoch, resp.ActiveTasks, resp.StandbyTasks)
	w.answered(a, resp)
}

// busy reports what runs, with what the member was told to stop and has not stopped yet.
func (w *walk) busy(a *actor) {
	req := w.heartbeatRequest(a, true)
	req.ActiveTasks = wire(slices.Sorted(maps.Keys(a.runs)))
	resp := w.b.send(req)
	w.say("%s beats, runs %v: code %d epoch %d active %v", a.id, req.ActiveTasks, resp.ErrorCode, resp.MemberEpoch, resp.ActiveTasks)
	w.answered(a, resp)
}

func (w *walk) answered(a *actor, resp *kmsg.StreamsGroupHeartbeatResponse) {
	switch resp.ErrorCode {
	case 0:
		if a.unsure && resp.ActiveTasks == nil {
			// The lists are not repeated: the member has to join again to know what it has. A static one leaves for a while first.
			a.unsure = false
			if a.instance != nil {
				w.leaveForNow(a)
			}
			w.join(a)
			return
		}
		a.unsure = false
		w.follow(a, resp)
	case kerr.FencedMemberEpoch.Code, kerr.UnknownMemberID.Code, kerr.FencedInstanceID.Code, kerr.GroupIDNotFound.Code:
		clear(a.runs)
		a.active, a.standby, a.warmup = nil, nil, nil
		a.in, a.unsure = false, false
	case kerr.InvalidRequest.Code:
		// It owns a task that is gone with its topic.
		w.say("%s: %s", a.id, text(resp.ErrorMessage))
		if a.instance != nil {
			w.leaveForNow(a)
		}
		w.join(a)
	default:
		w.Errorf("heartbeat answered %d %s", resp.ErrorCode, text(resp.ErrorMessage))
	}
}

func (w *walk) leaveForNow(a *actor) {
	clear(a.runs)
	req := a.request(-2)
	req.InstanceID = a.instance
	resp := w.b.send(req)
	w.say("%s leaves for now: %d", a.id, resp.ErrorCode)
	a.in, a.away = false, true
}

// follow takes over an answer. What is new starts at once; what is to stop goes on until the next report.
func (w *walk) follow(a *actor, resp *kmsg.StreamsGroupHeartbeatResponse) {
	lists := 0
	for _, l := range [][]kmsg.TaskIDs{resp.ActiveTasks, resp.StandbyTasks, resp.WarmupTasks} {
		if l != nil {
			lists++
		}
	}
	if lists != 0 && lists != 3 {
		w.Errorf("%d of three lists", lists)
	}
	if resp.Status == nil {
		w.Error("status is null")
	}
	a.take(resp)
	for _, t := range a.active {
		a.runs[t] = true
	}
}

// lose sends a heartbeat whose answer does not arrive.
func (w *walk) lose(a *actor) {
	for t := range a.runs {
		if !slices.Contains(a.active, t) {
			delete(a.runs, t)
		}
	}
	resp := w.b.send(w.heartbeatRequest(a, true))
	w.say("%s beats, the answer is lost: code %d epoch %d active %v", a.id, resp.ErrorCode, resp.MemberEpoch, resp.ActiveTasks)
	a.unsure = true
}

func (w *walk) leave(a *actor) {
	if a.instance != nil && w.r.IntN(2) == 0 {
		w.leaveForNow(a)
		return
	}
	clear(a.runs)
	req := a.request(-1)
	req.InstanceID = a.instance
	resp := w.b.send(req)
	w.say("%s leaves: %d", a.id, resp.ErrorCode)
	w.remove(a)
}

// notice makes members that were removed meanwhile stop: the coordinator may give their tasks away.
func (w *walk) notice() {
	g := w.b.c.groups["app"]
	for _, a := range w.members {
		if a.in && (g == nil || g.members[a.id] == nil) {
			clear(a.runs)
		}
	}
}

func (w *walk) topics() {
	name := []string{"in0", "in1"}[w.r.IntN(2)]
	if _, ok := w.b.cluster.topics[name]; ok {
		w.say("topic %s is deleted", name)
		delete(w.b.cluster.topics, name)
		if name == "in0" {
			delete(w.b.cluster.topics, "log0")
		}
		return
	}
	n := int32(1 + w.r.IntN(12))
	w.say("topic %s is created with %d partitions", name, n)
	w.b.cluster.create(name, n)
}

// check is what must hold at every moment.
func (w *walk) check() {
	w.notice()
	g := w.b.c.groups["app"]
	if g == nil {
		return
	}
	if g.epoch < w.groupEpoch || g.assignmentEpoch < w.assignmentEpoch {
		w.Errorf("epochs went back: %d after %d, %d after %d", g.epoch, w.groupEpoch, g.assignmentEpoch, w.assignmentEpoch)
	}
	w.groupEpoch, w.assignmentEpoch = g.epoch, g.assignmentEpoch
	if g.assignmentEpoch > g.epoch {
		w.Errorf("assignment epoch %d above group epoch %d", g.assignmentEpoch, g.epoch)
	}
	owner := map[task]string{}
	process := map[string]string{}
	for _, id := range g.memberIDs() {
		m := g.members[id]
		if m.epoch > g.assignmentEpoch {
			w.Errorf("%s is at epoch %d, the assignment at %d", id, m.epoch, g.assignmentEpoch)
		}
		if (m.state == unrevoked) != !m.pending.empty() {
			w.Errorf("%s is %v with pending tasks %v", id, m.state, m.pending)
		}
		if m.state == unrevoked && m.rebalanceEnds.IsZero() {
			w.Errorf("%s is unrevoked without a timer", id)
		}
		held := map[task]bool{}
		for _, ts := range []tasks{m.assigned, m.pending} {
			for r := range ts {
				for t := range ts[r] {
					held[t] = true
					if role(r) != active {
						continue
					}
					if other, ok := owner[t]; ok {
						w.Errorf("task %v is with %s and %s", t, other, id)
					}
					owner[t] = id
				}
			}
		}
		for t := range held {
			key := m.meta.processID + "/" + t.subtopology + "_" + strconv.Itoa(int(t.partition))
			if other, ok := process[key]; ok {
				w.Errorf("%s is with %s and %s of one process", key, other, id)
			}
			process[key] = id
		}
	}
	running := map[string]string{}
	for _, a := range w.members {
		for t := range a.runs {
			if other, ok := running[t]; ok {
				w.Errorf("task %s runs at %s and %s", t, other, a.id)
			}
			running[t] = a.id
		}
	}
}

// behave lets everybody do what they are told, until all is settled.
func (w *walk) behave() {
	for name := range w.sources {
		if _, ok := w.b.cluster.topics[name]; !ok {
			w.b.cluster.create(name, 3)
		}
	}
	if n := w.b.cluster.topics["in0"].Partitions; w.b.cluster.topics["log0"].Partitions != n {
		w.b.cluster.create("log0", n)
	}
	for range 200 {
		w.b.advance(500 * time.Millisecond)
		w.notice()
		for _, a := range slices.Clone(w.members) {
			if a.in {
				w.heartbeat(a, true)
			} else {
				w.join(a)
			}
			w.check()
			if w.Failed() {
				return
			}
		}
	}
	if len(w.members) == 0 {
		return
	}
	if got := w.b.c.State("app"); got != StateStable {
		w.Errorf("in the end the group is %s", got)
	}
	running := 0
	for _, a := range w.members {
		running += len(a.runs)
	}
	if want := int(w.b.cluster.topics["in0"].Partitions + w.b.cluster.topics["in1"].Partitions); running != want {
		w.Errorf("in the end %d tasks run, want %d", running, want)
	}
}
