package conformance

import (
	"errors"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var groupCases = []testCase{
	{name: "C45EndpointMap", run: c45},
	{name: "C46ShutdownApplication", run: c46},
	{name: "C47ListsAndStates", run: c47},
	{name: "C47DescribesAssignmentAndTarget", run: c47Describe},
	{name: "C47ReportedOffsets", run: c47Offsets, since: 44},
	{name: "C48DeleteGroup", run: c48},
	{name: "C49CoordinatorLosesItsMemory", run: c49, needs: func(t Target) bool { return t.LoseCoordinator != nil }, alone: true},
	{name: "C50MissingClientTags", run: c50, since: 44},
	{name: "C53EndpointAndMissingTopics", run: c53},
	{name: "C64GroupConfigsHideTheBrokers", run: c64, until: 42},
	{name: "C64GroupConfigsKeepTheBrokers", run: c64Not, since: 43},
	{name: "C64GroupConfigBounds", run: c64Bounds},
	{name: "C09ResponseSettings", run: c09Settings},
}

// withEndpoint gives the member a user endpoint.
func (m *member) withEndpoint(port uint16) *member {
	e := kmsg.NewStreamsGroupHeartbeatRequestUserEndpoint()
	e.Host, e.Port = "localhost", port
	m.endpoint = &e
	return m
}

// endpointParts lists, for a port, the active and standby partitions of the map as topic_partition without the scene's prefix.
func (s *scene) endpointParts(resp *kmsg.StreamsGroupHeartbeatResponse, port uint16) (active, standby []string) {
	name := func(topic string, ps []int32) []string {
		return tasksOf([]kmsg.TaskIDs{{SubtopologyID: strings.TrimPrefix(topic, s.prefix), Partitions: ps}})
	}
	for _, e := range resp.PartitionsByUserEndpoint {
		if e.UserEndpoint.Port != port {
			continue
		}
		for _, a := range e.ActivePartitions {
			active = append(active, name(a.Topic, a.Partitions)...)
		}
		for _, a := range e.StandbyPartitions {
			standby = append(standby, name(a.Topic, a.Partitions)...)
		}
	}
	slices.Sort(active)
	slices.Sort(standby)
	return active, standby
}

func c45(s *scene) {
	s.create("in:4", "short:1", "log:4")
	s.configure(map[string]string{"streams.num.standby.replicas": "1"})
	topo := s.stateful("log", "in", "short")
	a := s.member(topo).withEndpoint(7001)
	resp := a.join()
	if resp.EndpointInformationEpoch != 0 {
		s.Errorf("the creating heartbeat says endpoint epoch %d, want 0", resp.EndpointInformationEpoch)
	}
	b := s.member(topo).withEndpoint(7002)
	b.join()
	none := s.member(topo).in(b.process) // without endpoint
	none.join()
	s.settle(a, b, none)
	a.beat()
	epoch := a.endpointEpoch
	if epoch <= 0 {
		s.Errorf("endpoint epoch %d", epoch)
	}
	if resp = a.beat(); resp.PartitionsByUserEndpoint != nil {
		s.Errorf("the map is repeated at the known epoch: %+v", resp.PartitionsByUserEndpoint)
	}
	for _, known := range []int32{-1, epoch - 1, epoch + 1} {
		resp = a.beat(func(r *kmsg.StreamsGroupHeartbeatRequest) { r.EndpointInformationEpoch = known })
		if len(resp.PartitionsByUserEndpoint) != 2 {
			s.Fatalf("map %+v, want an entry for each of two endpoints", resp.PartitionsByUserEndpoint)
		}
	}
	for m, port := range map[*member]uint16{a: 7001, b: 7002} {
		want := func(ts []string) (out []string) {
			for i, t := range ts {
				p := strings.TrimPrefix(t, "0_")
				out = append(out, "in_"+p)
				// The short topic has one partition. Before 4.4 that is taken as: the first task of as many as it has partitions.
				if s.release >= 44 && p == "0" || s.release < 44 && i == 0 {
					out = append(out, "short_"+p)
				}
			}
			slices.Sort(out)
			return out
		}
		active, standby := s.endpointParts(resp, port)
		if !slices.Equal(active, want(m.active)) || !slices.Equal(standby, want(m.standby)) {
			s.Errorf("map of %s is %v and %v, it has %v and %v", m.id, active, standby, m.active, m.standby)
		}
	}

	// A leave is not noticed; the change of tasks that follows is.
	b.leave()
	none.leave()
	if resp = a.beat(func(r *kmsg.StreamsGroupHeartbeatRequest) { r.EndpointInformationEpoch = epoch }); resp.EndpointInformationEpoch < epoch {
		s.Errorf("endpoint epoch fell to %d", resp.EndpointInformationEpoch)
	}
	s.settle(a)
	if a.beat(); a.endpointEpoch <= epoch {
		s.Errorf("endpoint epoch %d after a change of tasks, was %d", a.endpointEpoch, epoch)
	}
	if resp = a.beat(func(r *kmsg.StreamsGroupHeartbeatRequest) { r.EndpointInformationEpoch = -1 }); len(resp.PartitionsByUserEndpoint) != 1 {
		s.Errorf("map %+v, want one entry", resp.PartitionsByUserEndpoint)
	}

	// A join without endpoint clears it in 4.4 and keeps it before.
	a.endpoint = nil
	resp = a.join(func(r *kmsg.StreamsGroupHeartbeatRequest) { r.EndpointInformationEpoch = -1 })
	entries := 1
	if s.release >= 44 {
		entries = 0
	}
	if resp.PartitionsByUserEndpoint == nil || len(resp.PartitionsByUserEndpoint) != entries {
		s.Errorf("after a join without endpoint the map is %+v, want %d entries", resp.PartitionsByUserEndpoint, entries)
	}
}

func c46(s *scene) {
	s.create("in:2")
	a, b := s.member(s.simple("in")), s.member(s.simple("in"))
	a.join()
	b.join()
	s.settle(a, b)
	resp := a.beat(func(r *kmsg.StreamsGroupHeartbeatRequest) { r.ShutdownApplication = true })
	a.wantStatus(resp, 4)
	want := "Streams group member " + a.id + " encountered a fatal error and requested a shutdown for the entire application."
	for _, m := range []*member{a, b} {
		resp = m.beat()
		m.wantStatus(resp, 4)
		if got := statusDetail(resp, 4); got != want {
			s.Errorf("detail %q, want %q", got, want)
		}
	}
	// The first to ask is named. A leave may ask too.
	b.beat(func(r *kmsg.StreamsGroupHeartbeatRequest) { r.ShutdownApplication = true })
	if got := statusDetail(b.beat(), 4); got != want {
		s.Errorf("detail %q, want %q", got, want)
	}
	c := s.member(s.simple("in"))
	c.wantStatus(c.join(), 4)
	a.leave()
	b.leave()
	c.wantStatus(c.beat(), 4)
	c.leave()
	d, e := s.member(s.simple("in")), s.member(s.simple("in"))
	d.wantStatus(d.join())
	e.join()
	d.send(d.request(-1, []change{func(r *kmsg.StreamsGroupHeartbeatRequest) { r.ShutdownApplication = true }}))
	e.wantStatus(e.beat(), 4)
	e.leave()
}

// listed returns the entry of the scene's group in a list; false if it is not there.
func (s *scene) listed(states, types []string) (kmsg.ListGroupsResponseGroup, bool) {
	s.Helper()
	req := kmsg.NewPtrListGroupsRequest()
	req.StatesFilter, req.TypesFilter = states, types
	resp := s.toCoordinator(s.group, req).(*kmsg.ListGroupsResponse)
	if resp.ErrorCode != 0 {
		s.Fatalf("list answered %v", kerr.ErrorForCode(resp.ErrorCode))
	}
	var found []kmsg.ListGroupsResponseGroup
	for _, g := range resp.Groups {
		if g.Group == s.group {
			found = append(found, g)
		}
	}
	switch len(found) {
	case 0:
		return kmsg.ListGroupsResponseGroup{}, false
	case 1:
		return found[0], true
	}
	s.Errorf("listed %d times: %+v", len(found), found)
	return found[0], true
}

func c47(s *scene) {
	wantListed := func(state string, states ...string) {
		s.Helper()
		for _, f := range [][]string{nil, states} {
			g, ok := s.listed(f, nil)
			if !ok || g.GroupState != state || g.GroupType != "streams" || g.ProtocolType != "streams" {
				s.Errorf("with states %v listed as %+v, %v; want %s", f, g, ok, state)
			}
		}
		for _, types := range [][]string{{"streams"}, {"STREAMS"}, {"classic", "Streams"}} {
			if _, ok := s.listed(nil, types); !ok {
				s.Errorf("not listed with types %v", types)
			}
		}
		if _, ok := s.listed(nil, []string{"classic", "consumer"}); ok {
			s.Error("listed as another type")
		}
	}
	s.create("in:2", "other:1")
	if s.release >= 43 {
		s.configure(map[string]string{"streams.assignment.interval.ms": "0"})
	}
	a, b := s.member(s.simple("in", "late")), s.member(s.simple("in", "late"))
	a.join()
	s.wantCommit("of the member", commit{member: a.id, epoch: a.epoch, topic: "other", offset: 1}, 0)
	wantListed("NotReady", "not_ready")
	wantListed("NotReady", "NOT_READY")
	if _, ok := s.listed([]string{"NotReady"}, nil); ok {
		s.Error("the state filter NotReady matches")
	}
	s.createWith(nil, "late:1")
	a.ready()
	s.settle(a)
	wantListed("Stable", "stable")
	b.join()
	wantListed("Reconciling", "Reconciling")
	s.settle(a, b)
	b.leave() // nothing is computed before the next heartbeat
	wantListed("Assigning", "ASSIGNING")
	s.settle(a)
	a.leave()
	wantListed("Empty", "empty")

	dg := kmsg.NewPtrDescribeGroupsRequest()
	dg.Groups = []string{s.group}
	resp := s.toCoordinator(s.group, dg).(*kmsg.DescribeGroupsResponse)
	if g := resp.Groups[0]; g.State != "Dead" || resp.Version >= 6 && g.ErrorCode != groupNotFound {
		s.Errorf("the classic description is %+v", g)
	}
	if g := s.describeGroup(s.prefix + "none"); g.ErrorCode != groupNotFound || message(g.ErrorMessage) != "Group "+s.prefix+"none not found." {
		s.Errorf("an unknown group is described as %+v", g)
	}
}

func c47Describe(s *scene) {
	s.create("in:2")
	a, b := s.member(s.simple("in")), s.member(s.simple("in"))
	a.join()
	b.join()
	g := s.describe()
	if g.AssignmentEpoch != g.Epoch || g.State != "Reconciling" {
		s.Errorf("group at %d, assignment at %d, %s", g.Epoch, g.AssignmentEpoch, g.State)
	}
	da, db := described(g, a.id), described(g, b.id)
	if n := len(tasksOf(da.Assignment.ActiveTasks)); n != 2 {
		s.Errorf("a has %d tasks before it heard of b", n)
	}
	if n := len(tasksOf(db.Assignment.ActiveTasks)); n != 0 {
		s.Errorf("b has %d tasks", n)
	}
	targets := append(tasksOf(da.TargetAssignment.ActiveTasks), tasksOf(db.TargetAssignment.ActiveTasks)...)
	slices.Sort(targets)
	if !slices.Equal(targets, tasks("0", 2)) || len(tasksOf(da.TargetAssignment.ActiveTasks)) != 1 {
		s.Errorf("targets %v", targets)
	}
	if da.ProcessID != a.process || da.IsClassic || da.TopologyEpoch != 0 || da.ClientID != "conformance" {
		s.Errorf("described as %+v", da)
	}
	if s.release >= 44 && (g.AssignorName == nil || *g.AssignorName != "sticky") {
		s.Errorf("assignor %v", g.AssignorName)
	}
	if s.describeGroup("").ErrorCode != 24 {
		s.Error("the empty group id is described")
	}
}

func c47Offsets(s *scene) {
	s.create("in:2")
	m := s.member(s.simple("in"))
	m.join()
	m.beat(func(r *kmsg.StreamsGroupHeartbeatRequest) {
		o := kmsg.NewTaskOffset()
		o.SubtopologyID, o.Partition, o.Offset = "0", 1, 40
		r.TaskOffsets = []kmsg.TaskOffset{o}
		o.Offset = 42
		r.TaskEndOffsets = []kmsg.TaskOffset{o}
	})
	m.beat() // null: as before
	d := described(s.describe(), m.id)
	if len(d.TaskOffsets) != 1 || d.TaskOffsets[0].Partition != 1 || d.TaskOffsets[0].Offset != 40 ||
		len(d.TaskEndOffsets) != 1 || d.TaskEndOffsets[0].Offset != 42 {
		s.Errorf("offsets described as %v and %v", d.TaskOffsets, d.TaskEndOffsets)
	}
}

func (s *scene) deleteGroup(group string) int16 {
	s.Helper()
	req := kmsg.NewPtrDeleteGroupsRequest()
	req.Groups = []string{group}
	return s.toCoordinator(group, req).(*kmsg.DeleteGroupsResponse).Groups[0].ErrorCode
}

func c48(s *scene) {
	s.create("in:1", "other:1")
	m := s.member(s.simple("in"))
	m.join()
	s.wantCommit("of the member", commit{member: m.id, epoch: m.epoch, topic: "in", offset: 5}, 0)
	if code := s.deleteGroup(s.group); code != 68 {
		s.Errorf("deletion of a non-empty group answered %d, want 68", code)
	}
	m.leave()
	if code := s.deleteGroup(s.group); code != 0 {
		s.Errorf("deletion answered %d", code)
	}
	if code := s.deleteGroup(s.group); code != groupNotFound {
		s.Errorf("deletion of what is gone answered %d, want 69", code)
	}
	if g := s.describeGroup(s.group); g.ErrorCode != groupNotFound {
		s.Errorf("described as %+v", g)
	}
	if got := s.committed(s.group, "in", 0); got != -1 {
		s.Errorf("offset %d outlived the group", got)
	}
	n := s.member(s.simple("other"))
	n.join()
	n.wantEpoch(2)
	n.leave()
	if code := s.deleteGroup(s.group); code != 0 {
		s.Errorf("deletion of a group without offsets answered %d", code)
	}
}

func c49(s *scene) {
	s.create("in:2")
	s.configure(map[string]string{"streams.session.timeout.ms": "45000"}) // a restart takes its time
	a, b := s.member(s.simple("in")).withEndpoint(7001), s.member(s.simple("in"))
	a.join()
	b.join()
	a.beat() // has to revoke one task, and does not yet
	keeps := slices.Clone(a.active)
	if s.release >= 44 {
		a.beat(func(r *kmsg.StreamsGroupHeartbeatRequest) {
			o := kmsg.NewTaskOffset()
			o.SubtopologyID, o.Offset = "0", 5
			r.TaskOffsets, r.TaskEndOffsets = []kmsg.TaskOffset{o}, []kmsg.TaskOffset{o}
		})
	}
	a.beat(func(r *kmsg.StreamsGroupHeartbeatRequest) { r.ShutdownApplication = true })
	epochs := [2]int32{a.epoch, b.epoch}
	if a.endpointEpoch == 0 {
		s.Error("endpoint epoch 0 before the move")
	}
	before := a.node
	s.target.LoseCoordinator(s.T, s.group)

	var resp *kmsg.StreamsGroupHeartbeatResponse
	s.wait("a coordinator", func() bool {
		r, err := a.client.Broker(s.coordinator(s.group)).Request(s.ctx, a.request(a.epoch, nil))
		if err != nil {
			return false // the broker may be down at the moment
		}
		resp = r.(*kmsg.StreamsGroupHeartbeatResponse)
		switch resp.ErrorCode {
		case 0:
			return true
		case kerr.NotCoordinator.Code, kerr.CoordinatorLoadInProgress.Code, kerr.CoordinatorNotAvailable.Code:
			return false
		}
		s.Fatalf("answered %v", kerr.ErrorForCode(resp.ErrorCode))
		return false
	})
	a.node, b.node = s.coordinator(s.group), s.coordinator(s.group)
	if a.node != before {
		old := s.member(nil)
		old.id, old.node = a.id, before
		old.wantCode(old.send(old.request(a.epoch, nil)), kerr.NotCoordinator.Code, "")
	}
	a.accept(resp)
	a.wantNoLists(resp)
	a.wantStatus(resp)
	a.wantEpoch(epochs[0])
	if resp.EndpointInformationEpoch != 0 || len(resp.PartitionsByUserEndpoint) != 1 {
		s.Errorf("endpoint epoch %d with map %+v, want 0 with one entry", resp.EndpointInformationEpoch, resp.PartitionsByUserEndpoint)
	}
	if d := described(s.describe(), a.id); len(d.TaskOffsets) != 0 {
		s.Errorf("task offsets outlived the move: %v", d.TaskOffsets)
	}
	b.wantNoLists(b.beat())
	b.wantEpoch(epochs[1])
	a.report(owns(tasks("0", 2), nil)) // the pending revocation is remembered
	a.wantEpoch(epochs[0])
	a.active = keeps
	a.report()
	if a.epoch <= epochs[0] {
		s.Errorf("epoch %d after the confirmation", a.epoch)
	}
	s.settle(a, b)
	s.wantOwners(tasks("0", 2), a, b)
	a.leave()
	b.leave()
}

func c50(s *scene) {
	s.create("in:1")
	s.configure(map[string]string{"streams.rack.aware.assignment.tags": "zone,cluster"})
	tags := func(kv ...string) change {
		return func(r *kmsg.StreamsGroupHeartbeatRequest) {
			r.ClientTags = []kmsg.StreamsGroupHeartbeatRequestClientTag{}
			for i := 0; i < len(kv); i += 2 {
				t := kmsg.NewStreamsGroupHeartbeatRequestClientTag()
				t.Key, t.Value = kv[i], kv[i+1]
				r.ClientTags = append(r.ClientTags, t)
			}
		}
	}
	m := s.member(s.simple("in"))
	resp := m.join()
	m.wantStatus(resp, 6)
	want := "Missing required client tags for rack-aware standby assignment: [zone, cluster]. Configure them via 'client.tag.<tagKey>' in your Streams config."
	if got := statusDetail(resp, 6); got != want {
		s.Errorf("detail %q, want %q", got, want)
	}
	resp = m.beat(tags("zone", "z"))
	m.wantStatus(resp, 6)
	if got := statusDetail(resp, 6); !strings.Contains(got, "[cluster]") {
		s.Errorf("detail %q, want only the cluster tag", got)
	}
	m.wantStatus(m.beat(), 6)
	m.client = s.clientV0()
	m.wantStatus(m.beat())
	m.client = s.client
	m.wantStatus(m.beat(), 6)
	m.wantStatus(m.beat(tags("zone", "z", "cluster", "c", "extra", "e")))
	m.leave()
}

func c53(s *scene) {
	m := s.member(s.simple("missing")).withEndpoint(7001)
	m.wantCode(m.tryJoin(), unknownServerError, "")
	if g := s.describeGroup(s.group); g.ErrorCode != groupNotFound {
		s.Errorf("a failed join made a group: %+v", g)
	}

	// Status 3 does no harm.
	s.create("in:1", "other:1")
	l := s.memberOf(s.prefix+"log", s.stateful("log", "in")).withEndpoint(7002)
	s.groups = append(s.groups, l.group)
	l.wantStatus(l.join(), 3)
	l.ready()
	l.leave()

	// A running member fails on every heartbeat once its topic is gone, while one without endpoint that knows the map goes on.
	r := s.member(s.simple("other")).withEndpoint(7003)
	r.join()
	r.beat()
	plain := s.member(s.simple("other")).in(r.process)
	plain.join()
	s.settle(r, plain)
	plain.beat()
	epoch, assigned := r.epoch, s.describe().AssignmentEpoch
	s.deleteTopic("other")
	var resp *kmsg.StreamsGroupHeartbeatResponse
	s.wait("the failure", func() bool { resp = r.tryBeat(); return resp.ErrorCode != 0 })
	r.wantCode(resp, unknownServerError, "")
	r.wantCode(r.tryBeat(), unknownServerError, "")
	g := s.describe()
	if d := described(g, r.id); d == nil || d.MemberEpoch != epoch || g.AssignmentEpoch != assigned {
		s.Errorf("a failed heartbeat was stored: %+v", d)
	}
	s.create("other:1")
	s.wait("the recovery", func() bool { resp = r.tryBeat(); return resp.ErrorCode == 0 })
	r.accept(resp)
	r.leave()
	plain.leave()
}

func c64(s *scene) {
	s.create("in:1")
	m := s.member(s.simple("in"))
	if resp := m.join(); resp.HeartbeatIntervalMillis == 5000 {
		s.Fatalf("the target's heartbeat interval is the built-in one, so the case shows nothing")
	}
	m.leave()
	if err := s.alterConfigs(s.group, map[string]string{"streams.num.standby.replicas": "1"}); err != nil {
		s.Fatal(err)
	}
	s.awaitConfigs()
	m = s.member(s.simple("in"))
	resp := m.join()
	if resp.HeartbeatIntervalMillis != 5000 {
		s.Errorf("heartbeat interval %d, want the built-in 5000", resp.HeartbeatIntervalMillis)
	}
	m.wantStatus(resp, 5) // and the built-in initial delay
	m.leave()
}

func c64Not(s *scene) {
	s.create("in:1")
	m := s.member(s.simple("in"))
	interval := m.join().HeartbeatIntervalMillis
	if err := s.alterConfigs(s.group, map[string]string{"streams.num.standby.replicas": "1"}); err != nil {
		s.Fatal(err)
	}
	s.wait("the setting", func() bool { m.beat(); return m.epoch > 2 })
	if resp := m.beat(); resp.HeartbeatIntervalMillis != interval {
		s.Errorf("heartbeat interval %d, was %d", resp.HeartbeatIntervalMillis, interval)
	}
	m.leave()
}

func c64Bounds(s *scene) {
	for _, c := range []map[string]string{
		{"streams.no.such.setting": "1"}, {"streams.max.size": "3"}, {"streams.num.standby.replicas": "-1"},
		{"streams.num.standby.replicas": "many"}, {"streams.initial.rebalance.delay.ms": "-1"},
		{"streams.heartbeat.interval.ms": "0"},
	} {
		if err := s.alterConfigs(s.group, c); !errors.Is(err, kerr.InvalidConfig) {
			s.Errorf("%v gave %v, want INVALID_CONFIG", c, err)
		}
	}
	if s.release >= 44 {
		for _, c := range []map[string]string{{"streams.assignor.name": "nobody"}, {"streams.rack.aware.assignment.tags": "a,a"}} {
			if err := s.alterConfigs(s.group, c); !errors.Is(err, kerr.InvalidConfig) {
				s.Errorf("%v gave %v, want INVALID_CONFIG", c, err)
			}
		}
	}
	if err := s.alterConfigs(s.group, map[string]string{"streams.num.standby.replicas": "1"}); err != nil {
		s.Fatal(err)
	}
	s.awaitConfigs()
	req := kmsg.NewPtrDescribeConfigsRequest()
	res := kmsg.NewDescribeConfigsRequestResource()
	res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeGroupConfig, s.group
	req.Resources = append(req.Resources, res)
	resp, err := s.client.Request(s.ctx, req)
	if err != nil {
		s.Fatal(err)
	}
	got := map[string]kmsg.DescribeConfigsResponseResourceConfig{}
	for _, c := range resp.(*kmsg.DescribeConfigsResponse).Resources[0].Configs {
		got[c.Name] = c
	}
	if c := got["streams.num.standby.replicas"]; c.Value == nil || *c.Value != "1" || c.Source != kmsg.ConfigSourceGroupConfig {
		s.Errorf("the setting is described as %+v", c)
	}
	if _, ok := got["streams.heartbeat.interval.ms"]; !ok {
		s.Error("settings that are not set are not described")
	}
}

func c09Settings(s *scene) {
	s.create("in:1")
	s.configure(map[string]string{"streams.heartbeat.interval.ms": "1234"})
	m := s.member(s.simple("in"))
	resp := m.join()
	if resp.HeartbeatIntervalMillis != 1234 {
		s.Errorf("heartbeat interval %d, want 1234", resp.HeartbeatIntervalMillis)
	}
	if got := resp.TaskOffsetIntervalMillis > 0; got != (s.release >= 44) {
		s.Errorf("task offset interval %d", resp.TaskOffsetIntervalMillis)
	}
	if got := resp.AcceptableRecoveryLag > 0; got != (s.release >= 44) {
		s.Errorf("acceptable recovery lag %d", resp.AcceptableRecoveryLag)
	}
	if resp.TopologyDescriptionRequired || resp.AcceptableRecoveryLagLegacy != 0 {
		s.Errorf("answered %+v", resp)
	}
	m.leave()
}
