package conformance

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var topologyCases = []testCase{
	{name: "C18OnlyTheSameTopology", run: c18},
	{name: "C19TopologyOutlivesMembers", run: c19},
	{name: "C20MissingSourceTopics", run: c20},
	{name: "C21WrongPartitionCounts", run: c21},
	{name: "C22RepartitionCounts", run: c22},
	{name: "C23FixedRepartitionCounts", run: c23},
	{name: "C24ChangelogCounts", run: c24},
	{name: "C25InternalTopicsAreCreated", run: c25},
	{name: "C26CreationFailsAndIsRetried", run: c26},
	{name: "C27SourceTopicDeleted", run: c27},
	{name: "C28OwnedTasksOutside", run: c28},
	{name: "C52CreatingHeartbeat", run: c52},
	{name: "C52OffsetsOfCreatingHeartbeat", run: c52Offsets, since: 44},
	{name: "C56SourceTopicEnlarged", run: c56},
}

func c18(s *scene) {
	s.create("a:1", "b:1")
	topo := func(epoch int32, sources ...string) *topology {
		return s.topologyOf(epoch, s.sub("0", reads(sources...)))
	}
	a := s.member(topo(3, "a", "b"))
	a.join()
	b := s.member(topo(3, "a", "b"))
	b.join()
	const text = "Topology updates are not supported yet."
	for _, t := range []*topology{topo(3, "b", "a"), topo(4, "a", "b"), topo(3, "a"), topo(3, "a", "b", "c")} {
		c := s.member(t)
		c.wantCode(c.tryJoin(), invalidRequest, text)
	}
	old := s.member(topo(2, "a", "b"))
	resp := old.join()
	old.wantStatus(resp, 0)
	if want := "The member's topology epoch 2 is behind the group's topology epoch 3."; statusDetail(resp, 0) != want {
		s.Errorf("detail %q, want %q", statusDetail(resp, 0), want)
	}
	old.wantStatus(old.beat(), 0)
	old.wantStatus(old.beat(), 0)
	a.wantStatus(a.beat())
	if d := described(s.describe(), old.id); d.TopologyEpoch != 2 {
		s.Errorf("topology epoch %d", d.TopologyEpoch)
	}
}

func c19(s *scene) {
	s.create("a:1", "b:1")
	a := s.member(s.simple("a"))
	a.join()
	a.leave()
	if g := s.describe(); g.State != "Empty" || g.Topology == nil || len(g.Topology.Subtopologies) != 1 {
		s.Errorf("described as %+v", g)
	}
	b := s.member(s.simple("b"))
	b.wantCode(b.tryJoin(), invalidRequest, "Topology updates are not supported yet.")
	if _, err := s.admin.DeleteGroup(s.ctx, s.group); err != nil {
		s.Fatal(err)
	}
	b.join()
	b.wantActive("0_0")
}

func c20(s *scene) {
	names := []string{"s1", "s2", "s3", "s4", "s5"}
	s.create("s1:2")
	m := s.member(s.simple(names...))
	resp := m.join()
	m.wantActive()
	m.wantStatus(resp, 1)
	want := "Source topics " + s.topic("s2") + ", " + s.topic("s3") + ", " + s.topic("s4") + " and 1 additional topics are missing."
	if got := statusDetail(resp, 1); got != want {
		s.Errorf("detail %q, want %q", got, want)
	}
	s.wantState("NotReady")
	m.wantStatus(m.report(), 1)
	before := s.describe().Epoch
	s.createWith(nil, "s2:1", "s3:1", "s4:1", "s5:1")
	m.ready()
	m.wantActive("0_0", "0_1")
	g := s.describe()
	if g.State != "Stable" || g.Epoch <= before {
		s.Errorf("group is %s at epoch %d, was at %d", g.State, g.Epoch, before)
	}
}

func c21(s *scene) {
	s.create("a:3", "b:4", "log:2", "rep:5")
	group := 0
	check := func(want string, subs ...subtopology) {
		s.Helper()
		group++
		m := s.memberOf(s.prefix+"group-"+string(rune('a'+group)), s.topologyOf(0, subs...))
		s.groups = append(s.groups, m.group)
		resp := m.join()
		m.wantStatus(resp, 2)
		if got := statusDetail(resp, 2); got != want {
			s.Errorf("detail %q, want %q", got, want)
		}
		m.wantStatus(m.report(), 2)
		m.wantActive()
		if g := s.describeGroup(m.group); g.State != "NotReady" {
			s.Errorf("group is %s", g.State)
		}
		m.leave()
	}
	check("Following topics do not have the same number of partitions: [{"+s.topic("a")+"=3, "+s.topic("b")+"=4}]",
		s.sub("0", reads("a", "b"), copartitions([]int16{0, 1}, nil)))
	check("Existing topic "+s.topic("log")+" has different number of partitions: expected 3, found 2",
		s.sub("0", reads("a"), logs("log", "other-log")))
	check("Existing topic "+s.topic("rep")+" has different number of partitions: expected 3, found 5",
		s.sub("0", reads("a"), writes("rep")), s.sub("1", repartitions("rep", 0), logs("other-log")))
	topics, err := s.admin.ListTopics(s.ctx)
	if err != nil {
		s.Fatal(err)
	}
	if topics.Has(s.topic("other-log")) {
		s.Error("an internal topic was created although counts are wrong")
	}
}

// partitionCount waits for a topic and returns its partition count.
func (s *scene) partitionCount(name string) int {
	s.Helper()
	n := 0
	s.wait("topic "+name, func() bool {
		topics, err := s.admin.ListTopics(s.ctx, s.topic(name))
		if err != nil {
			s.Fatal(err)
		}
		n = len(topics[s.topic(name)].Partitions)
		return topics[s.topic(name)].Err == nil && n > 0
	})
	return n
}

func (s *scene) wantPartitions(name string, want int) {
	s.Helper()
	if got := s.partitionCount(name); got != want {
		s.Errorf("topic %s has %d partitions, want %d", name, got, want)
	}
}

func c22(s *scene) {
	s.create("a:2", "b:5")
	m := s.member(s.topologyOf(0,
		s.sub("0", reads("a", "b"), writes("r1")),
		s.sub("1", repartitions("r1", 0), writes("r2")),
		s.sub("2", repartitions("r2", 0)),
	))
	m.wantStatus(m.join(), 3)
	m.ready()
	s.wantPartitions("r1", 5)
	s.wantPartitions("r2", 5)
	if len(m.active) != 15 {
		s.Errorf("member runs %v, want 15 tasks", m.active)
	}

	x := s.memberOf(s.prefix+"loop", nil)
	s.groups = append(s.groups, x.group)
	x.topology = s.topologyOf(0, s.sub("0", reads("a")),
		s.sub("1", repartitions("l1", 0), writes("l2")), s.sub("2", repartitions("l2", 0), writes("l1")))
	x.wantCode(x.tryJoin(), invalidTopology, "There may be loops in the topology that cannot be resolved.")
	x.topology = s.topologyOf(0, s.sub("0", reads("a")), s.sub("1", repartitions("nobody", 0)))
	x.wantCode(x.tryJoin(), invalidTopology, "a repartition source topic is never used as a sink topic")
}

func c23(s *scene) {
	s.create("a:3", "b:2")
	m := s.member(s.topologyOf(0,
		s.sub("0", reads("a"), writes("fixed")),
		s.sub("1", reads("b"), repartitions("fixed", 4), copartitions([]int16{0}, []int16{0})),
	))
	resp := m.join()
	m.wantStatus(resp, 2)
	want := "Number of partitions [4] of repartition topic [" + s.topic("fixed") + "] doesn't match number of partitions [2] of the source topic."
	if got := statusDetail(resp, 2); got != want {
		s.Errorf("detail %q, want %q", got, want)
	}
	m.leave()

	// A flexible one takes the count of the source it is joined with, not the larger one of what feeds it.
	f := s.memberOf(s.prefix+"flexible", s.topologyOf(0,
		s.sub("0", reads("a"), writes("flexible")),
		s.sub("1", reads("b"), repartitions("flexible", 0), copartitions([]int16{0}, []int16{0})),
	))
	s.groups = append(s.groups, f.group)
	f.wantStatus(f.join(), 3)
	f.ready()
	s.wantPartitions("flexible", 2)
	f.leave()

	// Repartition topics among themselves: the fixed ones of the whole topology decide, and the group's are quoted.
	g := s.memberOf(s.prefix+"among", s.topologyOf(0,
		s.sub("0", reads("a"), writes("ra", "rb", "far")),
		s.sub("1", repartitions("ra", 4), repartitions("rb", 0), copartitions(nil, []int16{0, 1})),
		s.sub("2", repartitions("far", 7)),
	))
	s.groups = append(s.groups, g.group)
	resp = g.join()
	g.wantStatus(resp, 2)
	want = "Following topics do not have the same number of partitions: [{" + s.topic("ra") + "=4, " + s.topic("rb") + "=3}]"
	if got := statusDetail(resp, 2); got != want {
		s.Errorf("detail %q, want %q", got, want)
	}
	g.leave()
}

func c24(s *scene) {
	s.create("a:2", "b:3")
	m := s.member(s.topologyOf(0,
		s.sub("0", reads("a"), writes("r")),
		s.sub("1", reads("b"), repartitions("r", 6), logs("log")),
	))
	m.join()
	m.ready()
	s.wantPartitions("log", 6)
	if want := append(tasks("0", 2), tasks("1", 6)...); !slices.Equal(m.active, want) {
		s.Errorf("member runs %v, want %v", m.active, want)
	}
	m.leave()
}

func c25(s *scene) {
	s.create("in:2")
	topo := s.stateful("log", "in")
	ti := &topo.Subtopologies[0].StateChangelogTopics[0]
	for _, kv := range [][2]string{{"cleanup.policy", "compact,delete"}, {"retention.ms", "86400000"}} {
		c := kmsg.NewTopicInfoConfig()
		c.Key, c.Value = kv[0], kv[1]
		ti.Configs = append(ti.Configs, c)
	}
	m := s.member(topo)
	resp := m.join()
	m.wantStatus(resp, 3)
	if want := "Internal topics are missing: " + s.topic("log"); !strings.HasPrefix(statusDetail(resp, 3), want) {
		s.Errorf("detail %q, want %q", statusDetail(resp, 3), want)
	}
	m.wantActive()
	before := s.describe().Epoch
	m.ready()
	m.wantActive("0_0", "0_1")
	if got := s.describe().Epoch; got <= before {
		s.Errorf("group epoch %d, was %d while topics were missing", got, before)
	}
	s.wantPartitions("log", 2)
	configs, err := s.admin.DescribeTopicConfigs(s.ctx, s.topic("log"))
	if err != nil {
		s.Fatal(err)
	}
	got := map[string]string{}
	for _, c := range configs[0].Configs {
		got[c.Key] = c.MaybeValue()
	}
	if got["cleanup.policy"] != "compact,delete" || got["retention.ms"] != "86400000" {
		s.Errorf("changelog has cleanup.policy %q and retention.ms %q", got["cleanup.policy"], got["retention.ms"])
	}
	m.leave()
}

func c26(s *scene) {
	s.create("in:1")
	topo := s.stateful("log", "in")
	topo.Subtopologies[0].StateChangelogTopics[0].ReplicationFactor = 17
	m := s.member(topo)
	m.wantStatus(m.join(), 3)
	var detail string
	s.wait("the failure in the status", func() bool {
		resp := m.report()
		m.wantStatus(resp, 3)
		detail = statusDetail(resp, 3)
		return s.Failed() || strings.Contains(detail, "; Creation failed: "+s.topic("log")+" (")
	})
	// Somebody makes the topic; the next try to create it, or the sight of it, ends the status.
	s.createWith(nil, "log:1")
	m.ready()
	m.wantActive("0_0")
	m.leave()
}

func c27(s *scene) {
	s.create("in:2", "other:1")
	m := s.member(s.simple("in", "other"))
	m.join()
	m.wantActive("0_0", "0_1")
	before := m.epoch
	s.deleteTopic("in")
	var resp *kmsg.StreamsGroupHeartbeatResponse
	s.wait("the loss of the topic", func() bool { resp = m.beat(); return hasStatus(resp, 1) })
	m.wantActive()
	m.wantEpoch(before)
	s.wantState("NotReady")
	m.wantStatus(m.report(), 1)
	if m.epoch <= before {
		s.Errorf("epoch %d after the confirmation, was %d", m.epoch, before)
	}
	s.createWith(nil, "in:2")
	m.ready()
	s.settle(m)
	m.wantActive("0_0", "0_1")
	m.leave()
}

func c28(s *scene) {
	s.create("in:2")
	m := s.member(s.simple("in"))
	m.join()
	m.wantCode(m.tryBeat(owns([]string{"7_0"}, nil)), invalidRequest, "Subtopology 7 does not exist in the topology.")
	m.wantCode(m.tryBeat(owns([]string{"0_2"}, nil)), invalidRequest, "Task 2 for subtopology 0 is invalid. Number of tasks for this subtopology: 2")
	m.wantCode(m.tryBeat(owns(nil, []string{"0_-1"})), invalidRequest, "Task -1 for subtopology 0 is invalid.")
	m.report()
}

// changelogCount is what the description says of the one changelog.
func (s *scene) changelogCount() int32 {
	s.Helper()
	g := s.describe()
	if g.Topology == nil || len(g.Topology.Subtopologies) != 1 || len(g.Topology.Subtopologies[0].StateChangelogTopics) != 1 {
		s.Fatalf("described as %+v", g.Topology)
	}
	return g.Topology.Subtopologies[0].StateChangelogTopics[0].NumPartitions
}

func c52(s *scene) {
	s.create("in:2", "log:2")
	m := s.member(s.stateful("log", "in"))
	resp := m.join(func(r *kmsg.StreamsGroupHeartbeatRequest) { r.ShutdownApplication = true })
	m.wantStatus(resp, 4)
	if n := s.changelogCount(); n != 0 {
		s.Errorf("after the creating heartbeat the changelog is described with %d partitions", n)
	}
	m.wantStatus(m.beat())
	// A heartbeat that stores nothing does not make its configured topology visible either; one that stores something does.
	if n := s.changelogCount(); n != 0 {
		s.Errorf("after a heartbeat that stores nothing the changelog is described with %d partitions", n)
	}
	m.beat(func(r *kmsg.StreamsGroupHeartbeatRequest) { r.RebalanceTimeoutMillis = 777 })
	if n := s.changelogCount(); n != 2 {
		s.Errorf("after a heartbeat that stores something the changelog is described with %d partitions", n)
	}
	m.leave()
}

func c52Offsets(s *scene) {
	s.create("in:1")
	offsets := func(r *kmsg.StreamsGroupHeartbeatRequest) {
		o := kmsg.NewTaskOffset()
		o.SubtopologyID, o.Offset = "0", 5
		r.TaskOffsets = []kmsg.TaskOffset{o}
		o.Offset = 9
		r.TaskEndOffsets = []kmsg.TaskOffset{o}
	}
	m := s.member(s.simple("in"))
	m.join(offsets)
	if d := described(s.describe(), m.id); len(d.TaskOffsets) != 0 || len(d.TaskEndOffsets) != 0 {
		s.Errorf("the creating heartbeat's offsets are kept: %+v", d)
	}
	m.leave()
	m = s.member(s.simple("in"))
	m.join(offsets)
	d := described(s.describe(), m.id)
	if len(d.TaskOffsets) != 1 || d.TaskOffsets[0].Offset != 5 || len(d.TaskEndOffsets) != 1 || d.TaskEndOffsets[0].Offset != 9 {
		s.Errorf("offsets of a join into the emptied group are described as %v, %v", d.TaskOffsets, d.TaskEndOffsets)
	}
	m.leave()
}

func c56(s *scene) {
	s.create("in:2")
	m := s.member(s.simple("in"))
	m.join()
	l := s.memberOf(s.prefix+"stateful", s.stateful("log", "in"))
	s.groups = append(s.groups, l.group)
	l.join()
	l.ready()
	l.wantActive("0_0", "0_1")

	if _, err := s.admin.CreatePartitions(s.ctx, 1, s.topic("in")); err != nil {
		s.Fatal(err)
	}
	s.wait("the new task", func() bool { m.report(); return len(m.active) == 3 })
	var resp *kmsg.StreamsGroupHeartbeatResponse
	s.wait("the status of the stateful group", func() bool { resp = l.beat(); return len(resp.Status) > 0 })
	l.wantStatus(resp, 2)
	l.wantActive()
	if g := s.describeGroup(l.group); g.State != "NotReady" {
		s.Errorf("group is %s", g.State)
	}
	m.leave()
	l.report()
	l.leave()
}
