package conformance

import (
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var assignmentCases = []testCase{
	{name: "C29EvenShares", run: c29},
	{name: "C30OnlyTheExcessMoves", run: c30},
	{name: "C31Standbys", run: c31},
	{name: "C32OneCopyPerProcess", run: c32},
	{name: "C33StandbyTakesOver", run: c33},
	{name: "C34HandOverAfterConfirmation", run: c34},
	{name: "C35NoConfirmation", run: c35},
	{name: "C36ListsOnChangeOnly", run: c36},
	{name: "C37RoleChangeInPlace", run: c37InPlace, since: 44},
	{name: "C37RoleChangeFullCycle", run: c37FullCycle, until: 43},
	{name: "C38AssignmentInterval", run: c38, since: 43},
	{name: "C39StandbyCountChanges", run: c39},
	{name: "C61StandbyRemovalIsConfirmed", run: c61},
}

func c29(s *scene) {
	s.create("in:7")
	var members []*member
	for range 3 {
		m := s.member(s.simple("in"))
		m.join()
		members = append(members, m)
	}
	s.settle(members...)
	s.wantOwners(tasks("0", 7), members...)
	for _, m := range members {
		if n := len(m.active); n < 2 || n > 3 {
			s.Errorf("%s runs %d tasks of 7 among 3", m.id, n)
		}
	}
}

func c30(s *scene) {
	s.create("in:6")
	a, b := s.member(s.simple("in")), s.member(s.simple("in"))
	a.join()
	b.join()
	s.settle(a, b)
	oldA, oldB := slices.Clone(a.active), slices.Clone(b.active)
	c := s.member(s.simple("in"))
	c.join()
	s.settle(a, b, c)
	s.wantOwners(tasks("0", 6), a, b, c)
	for m, old := range map[*member][]string{a: oldA, b: oldB} {
		if len(m.active) != 2 {
			s.Errorf("%s runs %v", m.id, m.active)
		}
		for _, t := range m.active {
			if !slices.Contains(old, t) {
				s.Errorf("task %s moved to %s", t, m.id)
			}
		}
	}
}

// mixed is a stateful subtopology "0" and a stateless one "1" over topics in0 and in1.
func (s *scene) mixed() *topology {
	return s.topologyOf(0, s.sub("0", reads("in0"), logs("log")), s.sub("1", reads("in1")))
}

func c31(s *scene) {
	s.create("in0:2", "in1:2", "log:2")
	s.configure(map[string]string{"streams.num.standby.replicas": "1"})
	a := s.member(s.mixed())
	a.join()
	s.settle(a)
	a.wantStandby() // one process has nowhere to put a copy
	b := s.member(s.mixed())
	b.join()
	s.settle(a, b)
	s.wantOwners(append(tasks("0", 2), tasks("1", 2)...), a, b)
	for m, other := range map[*member]*member{a: b, b: a} {
		for _, t := range m.active {
			if strings.HasPrefix(t, "0_") && !slices.Contains(other.standby, t) {
				s.Errorf("task %s of %s has no standby on %s, which has %v", t, m.id, other.id, other.standby)
			}
		}
		for _, t := range m.standby {
			if strings.HasPrefix(t, "1_") {
				s.Errorf("stateless task %s has a standby", t)
			}
		}
	}
}

func c32(s *scene) {
	s.create("in:4", "log:4")
	s.configure(map[string]string{"streams.num.standby.replicas": "1"})
	topo := s.stateful("log", "in")
	var members []*member
	for i := range 4 {
		m := s.member(topo).in([]string{"p1", "p2"}[i%2])
		m.join()
		members = append(members, m)
	}
	s.settle(members...)
	s.wantOwners(tasks("0", 4), members...)
	held := map[string]string{} // process and task: member
	copies := 0
	for _, m := range members {
		for _, t := range append(slices.Clone(m.active), m.standby...) {
			key := m.process + " " + t
			if other := held[key]; other != "" {
				s.Errorf("task %s is with %s and %s of one process", t, m.id, other)
			}
			held[key] = m.id
			copies++
		}
	}
	if copies != 8 {
		s.Errorf("%d copies, want 8", copies)
	}
}

func c33(s *scene) {
	s.create("in:1", "log:1")
	s.configure(map[string]string{"streams.num.standby.replicas": "1"})
	topo := s.stateful("log", "in")
	a, b, c := s.member(topo), s.member(topo), s.member(topo)
	a.join()
	b.join()
	s.settle(a, b)
	a.wantActive("0_0")
	b.wantStandby("0_0")
	c.join()
	s.settle(a, b, c)
	a.wantActive("0_0")
	b.wantStandby("0_0")
	a.leave()
	s.settle(b, c)
	b.wantActive("0_0")
	c.wantStandby("0_0")
}

func c34(s *scene) {
	s.create("in:2")
	a, b := s.member(s.simple("in")), s.member(s.simple("in"))
	a.join()
	old := a.epoch
	b.join()
	b.wantActive()
	if b.epoch <= old {
		s.Errorf("the new member is at epoch %d, the old one at %d", b.epoch, old)
	}
	target := b.epoch
	s.wantState("Reconciling")

	b.wantNoLists(b.beat())
	resp := a.beat()
	if resp.ActiveTasks == nil || len(a.active) != 1 {
		s.Fatalf("told to keep %v", a.active)
	}
	a.wantEpoch(old)
	b.wantNoLists(b.report())
	d := described(s.describe(), a.id)
	if len(tasksOf(d.Assignment.ActiveTasks)) != 1 {
		s.Errorf("described with %v, without what is being revoked", tasksOf(d.Assignment.ActiveTasks))
	}

	resp = a.beat(owns(tasks("0", 2), nil)) // not done yet
	a.wantNoLists(resp)
	a.wantEpoch(old)
	b.wantNoLists(b.beat())

	a.wantNoLists(a.report())
	a.wantEpoch(target)
	b.report()
	s.wantOwners(tasks("0", 2), a, b)
	s.wantState("Stable")
}

func c35(s *scene) {
	s.create("in:2")
	a, b := s.member(s.simple("in")), s.member(s.simple("in"))
	a.timeout = 1500
	a.join()
	b.join()
	a.beat()
	old := a.epoch
	s.waitEvery(200*time.Millisecond, "the rebalance timeout", func() bool {
		resp := a.tryBeat()
		if resp.ErrorCode == unknownMember {
			return true
		}
		a.wantCode(resp, 0, "")
		a.wantNoLists(resp)
		if resp.MemberEpoch != old {
			s.Errorf("epoch moved from %d to %d without a confirmation", old, resp.MemberEpoch)
		}
		return s.Failed()
	})
	s.settle(b)
	b.wantActive(tasks("0", 2)...)
}

func c36(s *scene) {
	s.create("in:4")
	a, b := s.member(s.simple("in")), s.member(s.simple("in"))
	a.join()
	a.wantNoLists(a.report())
	a.wantNoLists(a.beat())
	b.join()
	s.settle(a, b)
	was := slices.Clone(b.active)
	a.leave()
	resp := b.report()
	if resp.ActiveTasks == nil {
		resp = b.report()
	}
	if got := tasksOf(resp.ActiveTasks); !slices.Equal(got, tasks("0", 4)) {
		s.Errorf("told %v, want all four (had %v)", got, was)
	}
	b.wantNoLists(b.report())
}

// roles brings a (active 0_0) and b (standby 0_0) together.
func (s *scene) roles() (a, b *member) {
	s.Helper()
	s.create("in:1", "log:1")
	s.configure(map[string]string{"streams.num.standby.replicas": "1"})
	topo := s.stateful("log", "in")
	a, b = s.member(topo), s.member(topo)
	a.join()
	b.join()
	s.settle(a, b)
	a.wantActive("0_0")
	b.wantStandby("0_0")
	return a, b
}

func c37InPlace(s *scene) {
	a, b := s.roles()
	epoch := b.epoch
	a.leave()
	resp := b.report()
	if b.epoch <= epoch {
		s.Errorf("epoch %d, was %d", b.epoch, epoch)
	}
	b.wantActive("0_0")
	b.wantStandby()
	if resp.ActiveTasks == nil {
		s.Error("no lists with the promotion")
	}
	s.wantState("Stable")

	// The other way: a member hands one of its two tasks to a new one and keeps it as a standby.
	two := s.prefix + "two"
	s.groups = append(s.groups, two)
	s.create("in2:2", "log2:2")
	s.demotion(two, func(c, d *member) {
		resp := c.beat()
		if resp.ActiveTasks == nil {
			s.Fatal("no lists with the demotion")
		}
		if len(c.active) != 1 || len(c.standby) != 1 {
			s.Errorf("demoted to active %v, standby %v; want one each at once", c.active, c.standby)
		}
		held := c.epoch
		c.beat() // no report, no progress
		c.wantEpoch(held)
		c.report()
		if c.epoch <= held {
			s.Errorf("epoch %d after the confirmation, was %d", c.epoch, held)
		}
	})
}

// demotion brings a running member c to hand one of two tasks to d and keep it as a standby.
func (s *scene) demotion(group string, at func(c, d *member)) {
	s.Helper()
	old := s.group
	s.group = group
	defer func() { s.group = old }()
	s.configure(map[string]string{"streams.num.standby.replicas": "1"})
	topo := s.stateful("log2", "in2")
	c := s.member(topo)
	c.join()
	s.settle(c)
	c.wantActive("0_0", "0_1")
	d := s.member(topo)
	d.join()
	at(c, d)
	s.settle(c, d)
	if len(c.active) != 1 || !slices.Equal(c.standby, d.active) || !slices.Equal(d.standby, c.active) {
		s.Errorf("settled at %v/%v and %v/%v", c.active, c.standby, d.active, d.standby)
	}
}

func c37FullCycle(s *scene) {
	a, b := s.roles()
	epoch := b.epoch
	a.leave()
	b.beat() // first the standby goes
	b.wantActive()
	b.wantStandby()
	b.wantEpoch(epoch)
	b.report()
	if b.epoch <= epoch {
		s.Errorf("epoch %d after the confirmation, was %d", b.epoch, epoch)
	}
	s.wait("the active task", func() bool { b.report(); return len(b.active) == 1 })

	two := s.prefix + "two"
	s.groups = append(s.groups, two)
	s.create("in2:2", "log2:2")
	s.demotion(two, func(c, d *member) {
		c.beat()
		if len(c.active) != 1 || len(c.standby) != 0 {
			s.Errorf("demoted to active %v, standby %v; want the revocation first", c.active, c.standby)
		}
	})
}

func c38(s *scene) {
	s.create("in:4")
	s.configure(map[string]string{"streams.assignment.interval.ms": "2000"})
	a, b := s.member(s.simple("in")), s.member(s.simple("in"))
	a.join()
	a.wantActive(tasks("0", 4)...)
	epoch := a.epoch
	resp := b.join()
	b.wantStatus(resp, 5)
	if want := "Assignment delayed due to the configured assignment interval."; statusDetail(resp, 5) != want {
		s.Errorf("detail %q, want %q", statusDetail(resp, 5), want)
	}
	b.wantActive()
	b.wantEpoch(epoch)
	resp = a.beat()
	a.wantStatus(resp, 5)
	a.wantNoLists(resp)
	s.wantState("Assigning")
	s.wait("the end of the interval", func() bool { return !hasStatus(a.beat(), 5) })
	if len(a.active) != 2 {
		s.Errorf("told to keep %v", a.active)
	}
	s.settle(a, b)
	s.wantOwners(tasks("0", 4), a, b)
}

func c39(s *scene) {
	s.create("in:2", "log:2")
	topo := s.stateful("log", "in")
	s.configure(map[string]string{"streams.num.standby.replicas": "0"})
	a, b := s.member(topo), s.member(topo)
	a.join()
	b.join()
	s.settle(a, b)
	a.wantStandby()
	epoch := s.describe().Epoch
	s.configure(map[string]string{"streams.num.standby.replicas": "1"})
	s.wait("the new setting", func() bool { a.report(); return s.describe().Epoch == epoch+1 })
	s.settle(a, b)
	a.wantStandby(b.active...)
	b.wantStandby(a.active...)
	s.configure(map[string]string{"streams.num.standby.replicas": "0"})
	s.wait("the new setting", func() bool { a.report(); return s.describe().Epoch == epoch+2 })
	s.settle(a, b)
	a.wantStandby()
	b.wantStandby()
}

func c61(s *scene) {
	a, b := s.roles()
	epoch := b.epoch
	s.configure(map[string]string{"streams.num.standby.replicas": "0"})
	var resp *kmsg.StreamsGroupHeartbeatResponse
	s.wait("the removal of the standby", func() bool { resp = b.beat(); return resp.StandbyTasks != nil })
	b.wantStandby()
	b.wantEpoch(epoch)
	b.wantNoLists(b.beat())
	b.wantEpoch(epoch)
	b.beat(owns(nil, []string{"0_0"}))
	b.wantEpoch(epoch)
	b.report()
	if b.epoch <= epoch {
		s.Errorf("epoch %d after the confirmation, was %d", b.epoch, epoch)
	}
	s.settle(a, b)
	a.wantActive("0_0")
}
