package conformance

import (
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var membershipCases = []testCase{
	{name: "C09FirstJoin", run: c09},
	{name: "C10InitialDelay", run: c10},
	{name: "C11JoinAgain", run: c11},
	{name: "C12OldEpochNeedsOwnedLists", run: c12},
	{name: "C13Leave", run: c13},
	{name: "C14LastLeave", run: c14},
	{name: "C15GroupIsFull", run: c15, needs: func(t Target) bool { return t.MaxSize > 0 }},
	{name: "C17SessionExpiry", run: c17},
	{name: "C54MetadataChanges", run: c54},
	{name: "C60RebalanceTimeoutZero", run: c60},
	{name: "C63FencedHeartbeatsKeepNothingAlive", run: c63},
}

func c09(s *scene) {
	s.create("in:3")
	m := s.member(s.simple("in"))
	m.join()
	m.wantEpoch(2)
	m.wantActive("0_0", "0_1", "0_2")
	s.wantState("Stable")
}

func c10(s *scene) {
	s.create("in:2")
	s.configure(map[string]string{"streams.initial.rebalance.delay.ms": "1500"})
	m := s.member(s.simple("in"))
	resp := m.join()
	m.wantEpoch(1)
	m.wantActive()
	m.wantStatus(resp, 5)
	if want := "Assignment delayed due to the configured initial rebalance delay."; statusDetail(resp, 5) != want {
		s.Errorf("detail %q, want %q", statusDetail(resp, 5), want)
	}
	resp = m.report()
	m.wantEpoch(1)
	m.wantNoLists(resp)
	m.wantStatus(resp, 5)
	s.wait("the end of the delay", func() bool { return !hasStatus(m.beat(), 5) })
	m.wantActive("0_0", "0_1")
	m.wantEpoch(2)
}

func c11(s *scene) {
	s.create("in:2")
	m := s.member(s.simple("in"))
	m.join()
	before := s.describe().Epoch
	epoch := m.epoch
	m.active = nil
	m.join()
	m.wantEpoch(epoch)
	m.wantActive("0_0", "0_1")
	if got := s.describe().Epoch; got != before {
		s.Errorf("group epoch went from %d to %d", before, got)
	}
}

func c12(s *scene) {
	s.create("in:4")
	a, b := s.member(s.simple("in")), s.member(s.simple("in"))
	a.join()
	b.join()
	old := a.epoch
	a.report() // is told to revoke two tasks
	kept := slices.Clone(a.active)
	if len(kept) != 2 {
		s.Fatalf("member keeps %v", kept)
	}
	a.wantEpoch(old)
	a.report() // confirms; the epoch moves
	if a.epoch <= old {
		s.Fatalf("epoch %d after the confirmation, was %d", a.epoch, old)
	}
	now := a.epoch

	a.wantCode(a.tryBeat(atEpoch(now+1)), fencedEpoch, "greater member epoch")
	a.wantCode(a.tryBeat(atEpoch(old)), fencedEpoch, "smaller member epoch")
	foreign := []string{}
	for _, t := range tasks("0", 4) {
		if !slices.Contains(kept, t) {
			foreign = append(foreign, t)
		}
	}
	a.wantCode(a.tryBeat(atEpoch(old), owns(append(slices.Clone(kept), foreign[0]), nil)), fencedEpoch, "smaller member epoch")
	a.wantCode(a.tryBeat(atEpoch(old), owns(nil, kept[:1])), fencedEpoch, "") // in another role
	if old > 1 {
		a.wantCode(a.tryBeat(atEpoch(old-1), owns(kept, nil)), fencedEpoch, "")
	}
	if described(s.describe(), a.id) == nil {
		s.Error("a fenced member is gone")
	}
	resp := a.beat(atEpoch(old), owns(kept, nil))
	a.wantNoLists(resp)
	a.wantEpoch(now)
	resp = a.beat(atEpoch(old), owns(kept[:1], nil))
	a.wantNoLists(resp)
	a.wantEpoch(now)
	b.leave()
	a.leave()
}

func c13(s *scene) {
	s.create("in:2")
	a, b := s.member(s.simple("in")), s.member(s.simple("in"))
	a.join()
	b.join()
	before := s.describe().Epoch
	resp := b.leave()
	if resp.MemberEpoch != -1 || resp.HeartbeatIntervalMillis != 0 || len(resp.Status) != 0 {
		s.Errorf("leave answered %+v", resp)
	}
	if got := s.describe().Epoch; got != before+1 {
		s.Errorf("group epoch %d, want %d", got, before+1)
	}
	b.wantCode(b.send(b.request(-1, nil)), unknownMember, "")
}

func c14(s *scene) {
	s.create("in:2")
	s.configure(map[string]string{"streams.initial.rebalance.delay.ms": "0"})
	m := s.member(s.simple("in"))
	m.join()
	assigned := s.describe().AssignmentEpoch
	m.leave()
	g := s.describe()
	if g.State != "Empty" {
		s.Errorf("group is %s", g.State)
	}
	want := assigned
	if s.release >= 44 {
		want = g.Epoch
	}
	if g.AssignmentEpoch != want {
		s.Errorf("assignment epoch %d, want %d (group epoch %d)", g.AssignmentEpoch, want, g.Epoch)
	}
	s.configure(map[string]string{"streams.initial.rebalance.delay.ms": "60000"})
	m = s.member(s.simple("in"))
	resp := m.join()
	m.wantEpoch(want)
	m.wantActive()
	m.wantStatus(resp, 5)
	m.leave()
}

func c15(s *scene) {
	s.create("in:2")
	var members []*member
	for range s.target.MaxSize {
		m := s.member(s.simple("in"))
		m.join()
		members = append(members, m)
	}
	extra := s.member(s.simple("in"))
	extra.wantCode(extra.tryJoin(), 81, "The streams group has reached its maximum capacity of")
	again := members[0].tryJoin()
	if s.release >= 44 {
		members[0].wantCode(again, 0, "")
	} else {
		members[0].wantCode(again, 81, "")
	}
	for _, m := range members {
		m.leave()
	}
}

func c17(s *scene) {
	s.create("in:2")
	s.configure(map[string]string{"streams.session.timeout.ms": "1500", "streams.heartbeat.interval.ms": "500"})
	a, b := s.member(s.simple("in")), s.member(s.simple("in"))
	a.join()
	b.join()
	s.settle(a, b)
	before := s.describe().Epoch
	s.waitEvery(200*time.Millisecond, "the other member's session to end", func() bool {
		a.report()
		return described(s.describe(), b.id) == nil
	})
	if got := s.describe().Epoch; got != before+1 {
		s.Errorf("group epoch %d, want %d", got, before+1)
	}
	b.wantCode(b.tryBeat(), unknownMember, "")
	s.wait("the tasks of the removed member", func() bool { a.report(); return len(a.active) == 2 })
	a.leave()
}

func c54(s *scene) {
	s.create("in:1")
	m := s.member(s.simple("in"))
	m.join()
	epoch := s.describe().Epoch
	bumps := func(what string, want bool, changes ...change) {
		s.Helper()
		m.beat(changes...)
		got := s.describe().Epoch
		if want && got != epoch+1 || !want && got != epoch {
			s.Errorf("%s took the group epoch from %d to %d", what, epoch, got)
		}
		epoch = got
	}
	rack, process := "rack-a", "another-process"
	setRack := func(r *kmsg.StreamsGroupHeartbeatRequest) { r.RackID = &rack }
	setProcess := func(r *kmsg.StreamsGroupHeartbeatRequest) { r.ProcessID = &process }
	setTimeout := func(r *kmsg.StreamsGroupHeartbeatRequest) { r.RebalanceTimeoutMillis = 12345 }
	setTags := func(r *kmsg.StreamsGroupHeartbeatRequest) {
		tag := kmsg.NewStreamsGroupHeartbeatRequestClientTag()
		tag.Key, tag.Value = "zone", "a"
		r.ClientTags = append(r.ClientTags, tag)
	}
	setEndpoint := func(r *kmsg.StreamsGroupHeartbeatRequest) {
		e := kmsg.NewStreamsGroupHeartbeatRequestUserEndpoint()
		e.Host, e.Port = "localhost", 8080
		r.UserEndpoint = &e
	}
	bumps("nothing new", false)
	for what, c := range map[string]change{
		"a rack": setRack, "a process id": setProcess, "a rebalance timeout": setTimeout, "tags": setTags, "an endpoint": setEndpoint,
	} {
		bumps(what, true, c)
		bumps(what+" again", false, c)
	}
	m.client = s.otherClient(kgo.ClientID("another-client"))
	bumps("another client id", true)
	bumps("the same client id", false)
	d := described(s.describe(), m.id)
	if d.ClientID != "another-client" || d.ProcessID != process || d.RackID == nil || *d.RackID != rack || d.UserEndpoint == nil || len(d.ClientTags) != 1 {
		s.Errorf("described as %+v", d)
	}
	if !strings.HasPrefix(d.ClientHost, "/") {
		s.Errorf("client host %q", d.ClientHost)
	}
	m.leave()
}

func c60(s *scene) {
	s.create("in:2")
	for _, timeout := range []int32{0, -7} {
		a, b := s.member(s.simple("in")), s.member(s.simple("in"))
		a.timeout = timeout
		a.join()
		b.join()
		a.report() // is told to revoke, and is removed for not having done so
		if len(a.active) != 1 {
			s.Errorf("member runs %v", a.active)
		}
		s.wait("the removal", func() bool { return described(s.describe(), a.id) == nil })
		a.wantCode(a.tryBeat(), unknownMember, "")
		b.leave()
	}
}

func c63(s *scene) {
	s.create("in:1")
	s.configure(map[string]string{"streams.session.timeout.ms": "1500", "streams.heartbeat.interval.ms": "500"})
	m := s.member(s.simple("in"))
	m.join()
	s.waitEvery(300*time.Millisecond, "the session to end", func() bool {
		resp := m.tryBeat(atEpoch(m.epoch + 1))
		switch resp.ErrorCode {
		case fencedEpoch:
		case unknownMember:
			return true
		default:
			s.Fatalf("answered %d", resp.ErrorCode)
		}
		return false
	})
}
