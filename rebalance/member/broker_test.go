package member

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/millrace/millrace/topology"
)

// model is a small coordinator with one real member, the one under test, and others that exist only as owners of tasks. It follows the
// coordinator specification: epochs and the check of owned lists (§6.2), confirmed revocations (§15.2), lists only on a join or a change (§16.2).
type model struct {
	rng      *rand.Rand
	old      bool // Kafka 4.1: a second join of a known id is fenced
	epoch    int32
	target   Assignment
	others   map[topology.TaskID]bool // active tasks that another member holds
	statuses []Status
	record   *record

	now     func() time.Time
	freed   func(topology.TaskID) // an active task of the member was given to whoever wants it
	invalid func(string)
}

type record struct {
	id           string
	static       bool
	epoch, prev  int32
	assigned     Assignment
	pending      Assignment // revocations that are not confirmed
	waitsRelease bool
	left         bool // with -2
	seen         time.Time
}

const modelSession = 45 * time.Second

// expire ends the session of a member that was silent.
func (b *model) expire() {
	if b.record != nil && b.now().Sub(b.record.seen) >= modelSession {
		b.remove()
	}
}

var allTasks = func() (tasks []topology.TaskID) {
	for s := range 2 {
		for p := range 4 {
			tasks = append(tasks, topology.TaskID{Subtopology: s, Partition: int32(p)})
		}
	}
	return tasks
}()

// retarget draws a new target; tasks that are new to the member may be held by another one for a while.
func (b *model) retarget() {
	var a Assignment
	for _, t := range allTasks {
		switch b.rng.IntN(5) {
		case 0, 1:
			a.Active = append(a.Active, t)
			if b.record == nil || !slices.Contains(b.record.assigned.Active, t) {
				b.others[t] = b.rng.IntN(2) == 0
			}
		case 2:
			a.Standby = append(a.Standby, t)
		case 3:
			if b.rng.IntN(2) == 0 {
				a.Warmup = append(a.Warmup, t)
			}
		}
	}
	b.epoch++
	b.target = a.normalize()
}

// remove takes the member out of the group; its tasks go to others.
func (b *model) remove() {
	if b.record != nil {
		b.record = nil
		b.epoch++
	}
}

// heartbeat answers like a broker; class 0 is success.
func (b *model) heartbeat(h Heartbeat) (Response, Class) {
	b.check(h)
	b.expire()
	r := b.record
	if h.Epoch < 0 {
		switch {
		case r == nil:
			return Response{}, UnknownMember
		case r.id != h.MemberID:
			return Response{}, UnknownMember
		case h.Epoch == epochLeave:
			b.remove()
		default:
			r.epoch, r.left, r.pending = epochLeaveBack, true, Assignment{}
		}
		return Response{Epoch: h.Epoch, RecoveryLag: -1, Statuses: []Status{}}, 0
	}
	joins := h.Epoch == 0
	if joins {
		switch {
		case r == nil || r.id != h.MemberID && h.InstanceID == nil: // a former process is just one of the others
			r = &record{id: h.MemberID}
			b.record = r
			b.epoch++
		case r.static && h.InstanceID != nil && !r.left:
			return Response{}, Unreleased
		case r.static && h.InstanceID != nil:
			r.id, r.epoch, r.prev, r.left = h.MemberID, 0, 0, false
		case b.old:
			return Response{}, FencedEpoch
		}
		r.static = h.InstanceID != nil
		b.confirm(r, Assignment{})
	} else {
		switch {
		case r == nil || r.id != h.MemberID:
			return Response{}, UnknownMember
		case h.Epoch == r.epoch:
		case h.Epoch == r.prev && h.Tasks != nil && subset(*h.Tasks, r):
		default:
			return Response{}, FencedEpoch
		}
	}
	r.seen = b.now()
	before := r.assigned
	b.reconcile(r, h.Tasks)
	resp := Response{
		Epoch: r.epoch, Interval: 5 * time.Second, OffsetInterval: time.Minute, RecoveryLag: 100,
		Statuses: slices.Clone(b.statuses), EndpointEpoch: 1,
	}
	if resp.Statuses == nil {
		resp.Statuses = []Status{}
	}
	if joins || !before.equal(r.assigned) {
		resp.Active, resp.Standby, resp.Warmup = notNil(r.assigned.Active), notNil(r.assigned.Standby), notNil(r.assigned.Warmup)
	}
	return resp, 0
}

// check holds a request against what a broker refuses (§1.4).
func (b *model) check(h Heartbeat) {
	switch {
	case h.MemberID == "":
		b.invalid("no member id")
	case h.Epoch < -2:
		b.invalid("epoch")
	case h.Epoch == -2 && h.InstanceID == nil:
		b.invalid("-2 of a dynamic member")
	case h.Epoch == 0 && (!h.Topology || h.RebalanceTimeout <= 0 || h.ProcessID == nil || h.Tags == nil):
		b.invalid("a join that does not tell everything")
	case h.Epoch == 0 && (h.Tasks == nil || h.Tasks.Active != nil || h.Tasks.Standby != nil || h.Tasks.Warmup != nil):
		b.invalid("a join without three empty lists")
	case h.Epoch != 0 && (h.Topology || h.RebalanceTimeout >= 0 || h.ProcessID != nil || h.Tags != nil || h.RackID != nil || h.Endpoint != nil):
		b.invalid("a steady heartbeat that repeats what only a join tells")
	}
}

func subset(owned Assignment, r *record) bool {
	all := func(a, b, c []topology.TaskID) bool { return len(minus(minus(a, b), c)) == 0 }
	return all(owned.Active, r.assigned.Active, r.pending.Active) && all(owned.Standby, r.assigned.Standby, r.pending.Standby) &&
		all(owned.Warmup, r.assigned.Warmup, r.pending.Warmup)
}

func empty(a Assignment) bool { return len(a.Active)+len(a.Standby)+len(a.Warmup) == 0 }

// confirm takes the pending revocations as done if no pending task is owned in the role it is pending in.
func (b *model) confirm(r *record, owned Assignment) bool {
	if empty(r.pending) {
		return false
	}
	still := func(p, o []topology.TaskID) bool { return len(minus(p, o)) < len(p) }
	if still(r.pending.Active, owned.Active) || still(r.pending.Standby, owned.Standby) || still(r.pending.Warmup, owned.Warmup) {
		return false
	}
	for _, t := range r.pending.Active {
		b.freed(t)
	}
	r.pending = Assignment{}
	return true
}

func (b *model) reconcile(r *record, owned *Assignment) {
	if !empty(r.pending) {
		if owned == nil || !b.confirm(r, *owned) {
			return
		}
		r.prev, r.epoch = r.epoch, r.epoch+1
	} else if r.epoch == b.epoch && !r.waitsRelease {
		return
	}
	keep := Assignment{both(r.assigned.Active, b.target.Active), both(r.assigned.Standby, b.target.Standby), both(r.assigned.Warmup, b.target.Warmup)}
	revoke := Assignment{minus(r.assigned.Active, keep.Active), minus(r.assigned.Standby, keep.Standby), minus(r.assigned.Warmup, keep.Warmup)}
	if !empty(revoke) {
		r.assigned, r.pending = keep, revoke
		if owned == nil || !b.confirm(r, *owned) {
			return
		}
	}
	r.waitsRelease = false
	add := func(keep, want []topology.TaskID, held map[topology.TaskID]bool) []topology.TaskID {
		for _, t := range minus(want, keep) {
			if held[t] {
				r.waitsRelease = true
			} else {
				keep = append(slices.Clip(keep), t)
			}
		}
		return sorted(keep)
	}
	r.assigned = Assignment{add(keep.Active, b.target.Active, b.others), add(keep.Standby, b.target.Standby, nil), add(keep.Warmup, b.target.Warmup, nil)}
	if r.epoch != b.epoch {
		r.prev, r.epoch = r.epoch, b.epoch
	}
}

func both(a, b []topology.TaskID) []topology.TaskID { return minus(a, minus(a, b)) }

// worker is what the member's worker has, and does in its own time.
type worker struct {
	rng     *rand.Rand
	queue   []Action
	active  map[topology.TaskID]bool // true: runs; false: suspended
	replica map[topology.TaskID]bool
	invalid func(string)
}

func (w *worker) add(a Action) {
	if _, lost := a.(Lose); lost {
		w.queue = nil // overtakes
	}
	w.queue = append(w.queue, a)
}

var errWorker = errors.New("worker failed")

// work does one command and returns the answer; faulty lets some fail half-way.
func (w *worker) work(faulty bool) Event {
	a := w.queue[0]
	w.queue = w.queue[1:]
	fails := faulty && w.rng.IntN(8) == 0
	switch a := a.(type) {
	case Revoke:
		for i, t := range a.Tasks {
			if fails && i > 0 {
				break
			}
			if _, ok := w.active[t]; ok {
				w.active[t] = false
			}
		}
		if fails && w.rng.IntN(4) == 0 {
			return Revoked{a.ID, ErrMigrated}
		}
		if fails {
			return Revoked{a.ID, errWorker}
		}
		return Revoked{ID: a.ID}
	case Assign:
		for t, runs := range w.active {
			if runs && !slices.Contains(a.Tasks.Active, t) {
				w.invalid("an assign that closes " + t.String() + ", which was not revoked")
			}
		}
		if !fails {
			clear(w.active)
			clear(w.replica)
		}
		for i, t := range a.Tasks.Active {
			if fails && i > 0 {
				break
			}
			w.active[t] = true
		}
		if fails {
			return Assigned{a.ID, errWorker}
		}
		for _, t := range slices.Concat(a.Tasks.Standby, a.Tasks.Warmup) {
			w.replica[t] = true
		}
		return Assigned{ID: a.ID}
	case Lose:
		clear(w.active)
		return LostDone(a)
	}
	panic("no such command")
}

func (w *worker) has(a Assignment) bool {
	active := slices.SortedFunc(maps.Keys(w.active), topology.TaskID.Compare)
	replica := slices.SortedFunc(maps.Keys(w.replica), topology.TaskID.Compare)
	return slices.Equal(active, a.Active) && slices.Equal(replica, sorted(slices.Concat(a.Standby, a.Warmup)))
}
