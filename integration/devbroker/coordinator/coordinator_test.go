package coordinator

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func codes(resp *kmsg.StreamsGroupHeartbeatResponse) []int8 {
	out := []int8{}
	for _, s := range resp.Status {
		out = append(out, s.StatusCode)
	}
	return out
}

func (b *bench) wantCodes(resp *kmsg.StreamsGroupHeartbeatResponse, want ...int8) {
	b.Helper()
	if got := codes(resp); resp.ErrorCode != 0 || !slices.Equal(got, append([]int8{}, want...)) {
		b.Errorf("error %d, status %v, want %v", resp.ErrorCode, got, want)
	}
}

// The worked example of §25.3, with a session of the broker's default.
func TestWorkedExample(t *testing.T) {
	b := newBench(t, func(c *Config) {
		*c = KafkaConfig()
		c.AssignmentInterval = 0
	})
	b.cluster.create("in", 2)
	tp := topo(sub("0", []string{"in"}, "log"))

	m1 := b.member("m1", "p1", tp)
	resp := m1.join()
	b.wantCodes(resp, StatusAssignmentDelayed, StatusMissingInternalTopics)
	b.wantEpochs(2, 1)
	b.now = b.now.Add(20 * time.Millisecond)
	b.wantCodes(m1.report(), StatusAssignmentDelayed)
	b.wantEpochs(3, 1)
	if d := b.c.Deadline(); !d.Equal(t0.Add(3 * time.Second)) {
		t.Errorf("deadline after %v, want 3s", d.Sub(t0))
	}
	b.now = t0.Add(3 * time.Second)
	b.c.Expire(b.now) // C-10: no heartbeat is needed
	b.wantEpochs(3, 3)
	b.now = t0.Add(5 * time.Second)
	b.wantCodes(m1.beat())
	if m1.epoch != 3 || !slices.Equal(m1.active, []string{"0_0", "0_1"}) {
		t.Errorf("m1 at %d runs %v", m1.epoch, m1.active)
	}

	b.now = t0.Add(10 * time.Second)
	m2 := b.member("m2", "p2", tp)
	m2.join()
	b.wantEpochs(4, 4)
	if m2.epoch != 4 || len(m2.active) != 0 {
		t.Errorf("m2 at %d runs %v", m2.epoch, m2.active)
	}
	if m1.beat(); m1.epoch != 3 || !slices.Equal(m1.active, []string{"0_0"}) {
		t.Errorf("m1 at %d runs %v", m1.epoch, m1.active)
	}
	if resp := m1.report(); m1.epoch != 4 || resp.ActiveTasks != nil {
		t.Errorf("m1 at %d, lists %v", m1.epoch, resp.ActiveTasks)
	}
	if m2.beat(); !slices.Equal(m2.active, []string{"0_1"}) {
		t.Errorf("m2 runs %v", m2.active)
	}
	if since := b.c.groups["app"].members["m2"].assigned[active][task{"0", 1}]; since != 4 {
		t.Errorf("assignment epoch %d, want 4", since)
	}
}

func (b *bench) wantEpochs(group, assignment int32) {
	b.Helper()
	g := b.c.groups["app"]
	if g.epoch != group || g.assignmentEpoch != assignment {
		b.Errorf("group at %d, assignment at %d; want %d, %d", g.epoch, g.assignmentEpoch, group, assignment)
	}
}

// C-10: a member that sends nothing between its join and the end of the delay gets its tasks with the next heartbeat, because the group of the creating
// heartbeat has no configured topology yet.
func TestC10SilentMember(t *testing.T) {
	b := newBench(t, func(c *Config) { c.InitialRebalanceDelay = 3 * time.Second })
	b.cluster.create("in", 1)
	m := b.member("m1", "p1", topo(sub("0", []string{"in"})))
	m.join()
	b.advance(3 * time.Second)
	b.wantEpochs(2, 1)
	b.wantCodes(m.beat())
	if !slices.Equal(m.active, []string{"0_0"}) {
		t.Errorf("runs %v", m.active)
	}
}

// C-14: what is left of the assignment epoch when the last member leaves, in all releases.
func TestC14EmptyGroup(t *testing.T) {
	for _, tt := range []struct {
		release Release
		want    int32
	}{{Kafka42, 2}, {Kafka43, 2}, {Kafka44, 3}} {
		b := newBench(t, func(c *Config) { c.Release = tt.release })
		b.cluster.create("in", 1)
		m := b.member("m1", "p1", topo(sub("0", []string{"in"})))
		m.join()
		m.leave()
		b.wantEpochs(3, tt.want)
		if s := b.c.State("app"); s != StateEmpty {
			t.Errorf("state %s", s)
		}
	}
}

// C-17, C-63: the session ends to the millisecond, and only accepted heartbeats extend it.
func TestC17Session(t *testing.T) {
	b := newBench(t, nil)
	b.cluster.create("in", 2)
	m := b.member("m1", "p1", topo(sub("0", []string{"in"})))
	m.join()
	b.advance(5 * time.Second)
	m.beat()
	b.advance(5 * time.Second)
	if resp := b.send(m.request(m.epoch + 1)); resp.ErrorCode != kerr.FencedMemberEpoch.Code {
		t.Errorf("answered %d", resp.ErrorCode)
	}
	if d := b.c.Deadline(); !d.Equal(t0.Add(11 * time.Second)) {
		t.Errorf("deadline after %v, want 11s", d.Sub(t0))
	}
	b.advance(999 * time.Millisecond)
	if b.c.Empty("app") {
		t.Fatal("removed early")
	}
	b.advance(time.Millisecond)
	if !b.c.Empty("app") {
		t.Fatal("not removed")
	}
	if resp := b.send(m.request(m.epoch)); resp.ErrorCode != kerr.UnknownMemberID.Code {
		t.Errorf("answered %d", resp.ErrorCode)
	}
	if !b.c.Deadline().IsZero() {
		t.Error("an empty group has a deadline")
	}
}

// C-26: a failed creation shows, and is not tried again, for twice the heartbeat interval.
func TestC26CreationBackOff(t *testing.T) {
	b := newBench(t, nil)
	b.create = false
	b.cluster.create("in", 1)
	m := b.member("m1", "p1", topo(sub("0", []string{"in"}, "log-a", "log-b")))
	beat := func(req *kmsg.StreamsGroupHeartbeatRequest) (string, []string) {
		t.Helper()
		resp, create := b.c.Heartbeat(b.now, 0, Client{}, req)
		if resp.ErrorCode != 0 || !slices.Equal(codes(resp), []int8{StatusMissingInternalTopics}) {
			t.Fatalf("answered %+v", resp)
		}
		var asked []string
		for _, nt := range create {
			asked = append(asked, nt.Name)
		}
		return resp.Status[0].StatusDetail, asked
	}
	detail, asked := beat(m.joinRequest())
	if want := []string{"log-a", "log-b"}; !slices.Equal(asked, want) || detail != "Internal topics are missing: log-a, log-b" {
		t.Errorf("asked for %v, detail %q", asked, detail)
	}
	b.c.CreationFailed(b.now, "app", "log-b", "no room")
	detail, asked = beat(m.request(2))
	if !slices.Equal(asked, []string{"log-a"}) || detail != "Internal topics are missing: log-a, log-b; Creation failed: log-b (no room)." {
		t.Errorf("asked for %v, detail %q", asked, detail)
	}
	b.advance(time.Second) // twice 500 ms
	detail, asked = beat(m.request(2))
	if !slices.Equal(asked, []string{"log-a", "log-b"}) || strings.Contains(detail, "failed") {
		t.Errorf("asked for %v, detail %q", asked, detail)
	}
	for _, n := range []string{"log-a", "log-b"} {
		b.c.CreationFailed(b.now, "app", n, "x")
	}
	if detail, _ = beat(m.request(2)); !strings.HasSuffix(detail, "; Creation failed: log-a (x), log-b (x).") {
		t.Errorf("detail %q", detail)
	}
}

// C-33: what a member reports to have on disk draws its task back to it, in 4.4.
func TestC33ReportedOffsetsSteer(t *testing.T) {
	b := newBench(t, func(c *Config) { c.InitialRebalanceDelay = time.Second })
	b.cluster.create("in", 2)
	b.cluster.create("log", 2)
	tp := topo(sub("0", []string{"in"}, "log"))
	first := b.member("m0", "p0", tp)
	first.join()
	first.leave() // the creating heartbeat would not keep offsets
	a, z := b.member("a", "pa", tp), b.member("z", "pz", tp)
	a.join()
	req := z.joinRequest()
	o := kmsg.NewTaskOffset()
	o.SubtopologyID, o.Partition, o.Offset = "0", 0, 100
	req.TaskOffsets = []kmsg.TaskOffset{o}
	z.take(b.send(req))
	b.advance(time.Second)
	b.settle(a, z)
	if !slices.Equal(z.active, []string{"0_0"}) || !slices.Equal(a.active, []string{"0_1"}) {
		t.Errorf("z runs %v, a runs %v", z.active, a.active)
	}
}

// C-35, C-60: the rebalance timeout runs from the revocation, and removes at once if it is not above zero.
func TestC35RebalanceTimeout(t *testing.T) {
	for timeout, want := range map[int32]time.Duration{3000: 3 * time.Second, 0: 0, -5: 0} {
		b := newBench(t, nil)
		b.cluster.create("in", 2)
		tp := topo(sub("0", []string{"in"}))
		a, z := b.member("a", "pa", tp), b.member("z", "pz", tp)
		req := a.joinRequest()
		req.RebalanceTimeoutMillis = timeout
		a.take(b.send(req))
		b.advance(100 * time.Millisecond)
		z.join()
		a.beat()
		if d := b.c.Deadline(); d.Sub(b.now) != want {
			t.Errorf("timeout %d: deadline in %v, want %v", timeout, d.Sub(b.now), want)
		}
		b.advance(want / 2)
		a.beat() // does not restart it
		b.advance(want - want/2)
		if b.c.groups["app"].members["a"] != nil {
			t.Errorf("timeout %d: not removed", timeout)
		}
		z.beat()
		if len(z.active) != 2 {
			t.Errorf("timeout %d: the other runs %v", timeout, z.active)
		}
	}
}

// C-38: the interval counts from the last assignment, and has no timer.
func TestC38Interval(t *testing.T) {
	for _, release := range []Release{Kafka42, Kafka43, Kafka44} {
		b := newBench(t, func(c *Config) { c.Release, c.AssignmentInterval = release, time.Second })
		b.cluster.create("in", 2)
		tp := topo(sub("0", []string{"in"}))
		a, z := b.member("a", "pa", tp), b.member("z", "pz", tp)
		a.join()
		b.advance(400 * time.Millisecond)
		resp := z.join()
		if release == Kafka42 {
			b.wantCodes(resp) // knows no interval
			continue
		}
		b.wantCodes(resp, StatusAssignmentDelayed)
		b.advance(599 * time.Millisecond)
		b.wantCodes(a.beat(), StatusAssignmentDelayed)
		b.advance(time.Millisecond)
		if s := b.c.State("app"); s != StateAssigning {
			t.Errorf("state %s, though nobody sent a heartbeat", s)
		}
		b.wantCodes(a.beat())
		if len(a.active) != 1 {
			t.Errorf("a runs %v", a.active)
		}
	}
}

// C-49: a new coordinator knows what was persisted and nothing else, and starts all timers afresh.
func TestC49Failover(t *testing.T) {
	b := newBench(t, nil)
	b.cluster.create("in", 2)
	tp := topo(sub("0", []string{"in"}))
	a, z := b.member("a", "pa", tp), b.member("z", "pz", tp)
	a.join()
	z.join()
	a.beat()
	req := a.request(a.epoch)
	req.ShutdownApplication = true
	o := kmsg.NewTaskOffset()
	o.SubtopologyID = "0"
	req.TaskOffsets = []kmsg.TaskOffset{o}
	b.wantCodes(b.send(req), StatusShutdownApplication)
	b.advance(5 * time.Second)

	b.cluster.nodes["app"] = 1
	if resp, _ := b.c.Heartbeat(b.now, 0, Client{}, a.request(a.epoch)); resp.ErrorCode != kerr.NotCoordinator.Code {
		t.Errorf("the old node answered %d", resp.ErrorCode)
	}
	epoch := a.epoch
	resp := a.beat()
	b.wantCodes(resp)
	if a.epoch != epoch || resp.ActiveTasks != nil || resp.EndpointInformationEpoch != 0 {
		t.Errorf("answered %+v", resp)
	}
	if g := b.c.groups["app"]; len(g.members["a"].offsets) != 0 || g.members["a"].state != unrevoked {
		t.Errorf("member is %+v", g.members["a"])
	}
	b.advance(5 * time.Second) // z has a fresh session
	if b.c.groups["app"].members["z"] == nil {
		t.Error("a member was removed by the timer of the old coordinator")
	}
	a.report()
	if a.epoch <= epoch {
		t.Errorf("epoch %d after the confirmation", a.epoch)
	}
}

// C-53: without the defect of real brokers an endpoint does no harm while topics are missing.
func TestC53SaneByDefault(t *testing.T) {
	b := newBench(t, nil)
	m := b.member("m1", "p1", topo(sub("0", []string{"in"})))
	req := m.joinRequest()
	e := kmsg.NewStreamsGroupHeartbeatRequestUserEndpoint()
	e.Host, e.Port = "localhost", 80
	req.UserEndpoint = &e
	resp := m.take(b.send(req))
	b.wantCodes(resp, StatusMissingSourceTopics)
	if resp.PartitionsByUserEndpoint == nil || len(resp.PartitionsByUserEndpoint) != 0 {
		t.Errorf("map %+v, want an empty one", resp.PartitionsByUserEndpoint)
	}
}

// C-53: with it a heartbeat fails, stores nothing, but raises the endpoint epoch and keeps the session alive.
func TestC53Defect(t *testing.T) {
	b := newBench(t, func(c *Config) { c.EndpointDefect = true })
	b.cluster.create("in", 1)
	m := b.member("m1", "p1", topo(sub("0", []string{"in"})))
	req := m.joinRequest()
	e := kmsg.NewStreamsGroupHeartbeatRequestUserEndpoint()
	e.Host, e.Port = "localhost", 80
	req.UserEndpoint = &e
	m.take(b.send(req))
	m.beat()
	before := b.c.groups["app"]
	endpointEpoch, epoch := before.endpointEpoch, before.epoch
	delete(b.cluster.topics, "in")
	for i := range 5 {
		b.advance(4 * time.Second)
		if resp := b.send(m.request(m.epoch)); resp.ErrorCode != kerr.UnknownServerError.Code || resp.ErrorMessage != nil {
			t.Fatalf("beat %d answered %+v", i, resp)
		}
	}
	g := b.c.groups["app"]
	if g.epoch != epoch || g.members["m1"] == nil || g.endpointEpoch != endpointEpoch+5 {
		t.Errorf("group at %d (was %d), endpoint epoch %d (was %d), members %v", g.epoch, epoch, g.endpointEpoch, endpointEpoch, g.memberIDs())
	}
}

// C-64: what a 4.2 broker makes of a group that has any setting of its own.
func TestC64BuiltInDefaults(t *testing.T) {
	one := "1"
	for _, tt := range []struct {
		release Release
		want    time.Duration
	}{{Kafka42, 5 * time.Second}, {Kafka43, 500 * time.Millisecond}, {Kafka44, 500 * time.Millisecond}} {
		b := newBench(t, func(c *Config) { c.Release = tt.release })
		if err := b.c.AlterGroupConfigs("app", map[string]*string{"streams.num.standby.replicas": &one}, false); err != nil {
			t.Fatal(err)
		}
		if got := b.c.settings("app"); got.heartbeat != tt.want || got.standbys != 1 {
			t.Errorf("%v: heartbeat %v, standbys %d", tt.release, got.heartbeat, got.standbys)
		}
		if err := b.c.AlterGroupConfigs("app", map[string]*string{"streams.num.standby.replicas": nil}, false); err != nil {
			t.Fatal(err)
		}
		if got := b.c.settings("app"); got.heartbeat != 500*time.Millisecond || got.standbys != 0 {
			t.Errorf("%v after the deletion: heartbeat %v, standbys %d", tt.release, got.heartbeat, got.standbys)
		}
	}
}

func TestGroupConfigs(t *testing.T) {
	b := newBench(t, func(c *Config) { *c = KafkaConfig() })
	alter := func(name, value string, validateOnly bool) error {
		return b.c.AlterGroupConfigs("app", map[string]*string{name: &value}, validateOnly)
	}
	for _, tt := range []struct{ name, value, want string }{
		{"streams.max.size", "3", "unknown group configuration"},
		{"streams.heartbeat.interval.ms", "4999", "outside 5000..15000"},
		{"streams.session.timeout.ms", "44999", "outside 45000..60000"},
		{"streams.num.standby.replicas", "3", "outside 0..2"},
		{"streams.num.standby.replicas", "x", "not a number"},
		{"streams.rack.aware.assignment.tags", "a, b,a", "names a tag twice"},
		{"streams.assignor.name", "other", "no assignor"},
		{"streams.assignor.offload.enable", "maybe", "neither true nor false"},
	} {
		if err := alter(tt.name, tt.value, false); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s=%s gave %v, want %q", tt.name, tt.value, err, tt.want)
		}
	}
	if err := alter("streams.heartbeat.interval.ms", "6000", true); err != nil || b.c.settings("app").heartbeat != 5*time.Second {
		t.Errorf("validation only: %v, heartbeat %v", err, b.c.settings("app").heartbeat)
	}
	listed := func(name string) (GroupConfig, bool) {
		for _, g := range b.c.GroupConfigs("app") {
			if g.Name == name {
				return g, true
			}
		}
		return GroupConfig{}, false
	}
	if _, ok := listed("streams.num.warmup.replicas"); ok {
		t.Error("an internal setting is listed before it is set")
	}
	if err := alter("streams.num.warmup.replicas", "4", false); err != nil {
		t.Fatal(err)
	}
	if g, ok := listed("streams.num.warmup.replicas"); !ok || !g.Own || g.Value != "4" {
		t.Errorf("listed as %+v, %v", g, ok)
	}
	if g, ok := listed("streams.session.timeout.ms"); !ok || g.Own || g.Value != "45000" {
		t.Errorf("listed as %+v, %v", g, ok)
	}
}

// A failed heartbeat leaves no trace, whatever it failed on.
func TestFailuresLeaveNoTrace(t *testing.T) {
	b := newBench(t, nil)
	b.cluster.create("in", 2)
	m := b.member("m1", "p1", topo(sub("0", []string{"in"})))
	m.join()
	m.beat()
	before := *b.c.groups["app"]
	member := *before.members["m1"]

	rack := "r"
	for what, change := range map[string]func(*kmsg.StreamsGroupHeartbeatRequest){
		"a foreign task": func(r *kmsg.StreamsGroupHeartbeatRequest) {
			r.ActiveTasks, r.StandbyTasks, r.WarmupTasks = wire([]string{"9_0"}), wire(nil), wire(nil)
		},
		"another epoch": func(r *kmsg.StreamsGroupHeartbeatRequest) { r.MemberEpoch = 17 },
		"duplicate tags": func(r *kmsg.StreamsGroupHeartbeatRequest) {
			r.ClientTags = make([]kmsg.StreamsGroupHeartbeatRequestClientTag, 2)
		},
		"duplicate offset": func(r *kmsg.StreamsGroupHeartbeatRequest) { r.TaskOffsets = make([]kmsg.TaskOffset, 2) },
	} {
		req := m.request(m.epoch)
		req.RackID = &rack
		change(req)
		if resp := b.send(req); resp.ErrorCode == 0 {
			t.Errorf("%s was accepted", what)
		}
		after := b.c.groups["app"]
		if after.epoch != before.epoch || after.endpointEpoch != before.endpointEpoch || len(after.members) != 1 || after.members["m1"].meta.rackID.set {
			t.Errorf("%s left %+v", what, after)
		}
	}
	if got := b.c.groups["app"].members["m1"]; got.epoch != member.epoch || !got.sessionEnds.Equal(member.sessionEnds) {
		t.Errorf("member is %+v, was %+v", got, member)
	}
	other := b.member("m2", "p2", topo(sub("0", []string{"other"})))
	if resp := other.join(); resp.ErrorCode != kerr.InvalidRequest.Code || len(b.c.groups["app"].members) != 1 {
		t.Errorf("answered %d", resp.ErrorCode)
	}
	bad := b.member("m3", "p3", topo(sub("0", nil, "log")))
	bad.group = "bad"
	if resp := bad.join(); resp.ErrorCode != kerr.StreamsInvalidTopology.Code || b.c.Has("bad") {
		t.Errorf("answered %d", resp.ErrorCode)
	}
}

// The state filter knows NotReady under another name (C-47).
func TestC47List(t *testing.T) {
	b := newBench(t, nil)
	m := b.member("m1", "p1", topo(sub("0", []string{"in"})))
	m.join()
	for _, tt := range []struct {
		states, types []string
		want          bool
	}{
		{nil, nil, true}, {[]string{"NotReady"}, nil, false}, {[]string{"NOT_ready"}, nil, true}, {[]string{"stable"}, nil, false},
		{nil, []string{"Streams"}, true}, {nil, []string{"classic"}, false},
	} {
		if got := len(b.c.List(0, tt.states, tt.types)) == 1; got != tt.want {
			t.Errorf("states %v, types %v: listed %v", tt.states, tt.types, got)
		}
	}
	if len(b.c.List(1, nil, nil)) != 0 {
		t.Error("listed by a node that is not the coordinator")
	}
	b.cluster.create("in", 1)
	m.beat()
	if s := b.c.State("app"); s != StateStable {
		t.Errorf("state %s", s)
	}
}

func TestReleases(t *testing.T) {
	for _, r := range []Release{Kafka42, Kafka43, Kafka44} {
		if got, err := ParseRelease(r.String()); err != nil || got != r {
			t.Errorf("%v read as %v, %v", r, got, err)
		}
	}
	if _, err := ParseRelease("4.1"); err == nil {
		t.Error("4.1 was read")
	}
	b := newBench(t, func(c *Config) { c.Disabled = true })
	m := b.member("m1", "p1", topo())
	if resp := m.join(); resp.ErrorCode != kerr.UnsupportedVersion.Code || resp.ErrorMessage != nil {
		t.Errorf("a disabled cluster answered %d", resp.ErrorCode)
	}
}
