package conformance

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Static membership is in 4.4 and later.
var staticCases = []testCase{
	{name: "C16StaticMember", run: c16, since: 44},
	{name: "C57TemporaryLeave", run: c57, since: 44},
	{name: "C57SessionRunsOn", run: c57Session, since: 44},
	{name: "C16DynamicBecomesStatic", run: c16Becomes, since: 44},
}

func (m *member) leaveForNow() *kmsg.StreamsGroupHeartbeatResponse {
	m.s.Helper()
	resp := m.send(m.request(-2, nil))
	if resp.ErrorCode != 0 || resp.MemberEpoch != -2 || resp.HeartbeatIntervalMillis != 0 {
		m.s.Fatalf("temporary leave answered %+v", resp)
	}
	return resp
}

func c16(s *scene) {
	s.create("in:4")
	instance, unknown := "instance-1", "instance-9"
	a, b := s.member(s.simple("in")), s.member(s.simple("in"))
	a.instance = &instance
	a.join()
	b.join()
	s.settle(a, b)
	before := s.describe()
	old := a.active

	next := s.member(s.simple("in")).in(a.process)
	next.instance = &instance
	next.wantCode(next.tryJoin(), 111, "")
	a.wantCode(a.tryJoin(), 111, "") // no exception for the holder itself
	next.wantCode(next.send(next.request(a.epoch, nil)), 82, "")
	a.wantCode(a.send(a.request(a.epoch, []change{func(r *kmsg.StreamsGroupHeartbeatRequest) { r.InstanceID = &unknown }})), unknownMember,
		"Instance id instance-9 is unknown.")

	a.leaveForNow()
	g := s.describe()
	if g.Epoch != before.Epoch || g.State != "Reconciling" {
		s.Errorf("after a temporary leave the group is %s at epoch %d, was at %d", g.State, g.Epoch, before.Epoch)
	}
	if d := described(g, a.id); d == nil || d.MemberEpoch != -2 {
		s.Errorf("described as %+v", d)
	}
	next.join()
	next.wantActive(old...)
	g = s.describe()
	if g.Epoch != before.Epoch {
		s.Errorf("the return took the group epoch from %d to %d", before.Epoch, g.Epoch)
	}
	if described(g, a.id) != nil {
		s.Error("the old member id is still there")
	}
	a.wantCode(a.tryBeat(), 82, "")
	a.wantCode(a.send(a.request(-2, nil)), 82, "")
	s.settle(next, b)
	next.leave()
	b.leave()
}

func c57(s *scene) {
	s.create("in:2")
	instance := "instance-1"
	a := s.member(s.simple("in"))
	a.instance = &instance
	a.join()
	epoch := s.describe().Epoch
	a.leaveForNow()
	a.wantCode(a.tryBeat(), fencedEpoch, "greater member epoch")
	a.leaveForNow()

	same := s.member(s.simple("in")).in(a.process)
	same.instance = &instance
	same.join()
	same.wantActive("0_0", "0_1")
	if got := s.describe().Epoch; got != epoch {
		s.Errorf("the return in the same process took the group epoch from %d to %d", epoch, got)
	}
	same.leaveForNow()
	other := s.member(s.simple("in"))
	other.instance = &instance
	other.join()
	other.wantActive("0_0", "0_1")
	if got := s.describe().Epoch; got != epoch+1 {
		s.Errorf("the return in another process took the group epoch from %d to %d", epoch, got)
	}
	other.leave()
	s.wantState("Empty")
}

func c57Session(s *scene) {
	s.create("in:1")
	s.configure(map[string]string{"streams.session.timeout.ms": "1500", "streams.heartbeat.interval.ms": "500"})
	instance := "instance-1"
	a := s.member(s.simple("in"))
	a.instance = &instance
	a.join()
	joined := time.Now()
	s.waitEvery(300*time.Millisecond, "the session of the absent member to end", func() bool {
		resp := a.send(a.request(-2, nil))
		if resp.ErrorCode == unknownMember {
			return true
		}
		a.wantCode(resp, 0, "")
		return s.Failed()
	})
	if d := time.Since(joined); d > 10*time.Second {
		s.Errorf("removed after %v, session is 1.5s", d)
	}
	s.wantState("Empty")
}

func c16Becomes(s *scene) {
	s.create("in:1")
	a := s.member(s.simple("in"))
	a.join()
	epoch := s.describe().Epoch
	instance := "instance-1"
	a.instance = &instance
	a.join()
	g := s.describe()
	if g.Epoch != epoch {
		s.Errorf("becoming static took the group epoch from %d to %d", epoch, g.Epoch)
	}
	if d := described(g, a.id); d == nil || d.InstanceID == nil || *d.InstanceID != instance {
		s.Errorf("described as %+v", d)
	}
	a.leaveForNow()
	// Without the instance id requests of a static member are taken as those of a dynamic one.
	a.instance = nil
	a.join()
	a.wantActive("0_0")
	if d := described(s.describe(), a.id); d.InstanceID == nil {
		s.Error("the instance id is lost")
	}
	a.leave()
}
