package conformance

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	invalidRequest     = 42
	invalidTopology    = 130
	unknownServerError = -1
	unknownMember      = 25
	groupNotFound      = 69
	fencedEpoch        = 110
)

var validationCases = []testCase{
	{name: "C01JoinNeedsEverything", run: c01},
	{name: "C02BlankFields", run: c02},
	{name: "C03EpochsAndLists", run: c03},
	{name: "C04ForbiddenTopics", run: c04},
	{name: "C05SourceTopicRegex", run: c05},
	{name: "C06UnsupportedBefore44", run: c06Refused, until: 43},
	{name: "C06AcceptedFrom44", run: c06Accepted, since: 44},
	{name: "C07UnknownGroupAndMember", run: c07},
	{name: "C08ForeignGroups", run: c08},
	{name: "C51ErrorAndLeaveShape", run: c51},
	{name: "C55ClientMistakes", run: c55},
	{name: "C59FieldChecksComeFirst", run: c59},
}

func c01(s *scene) {
	m := s.member(s.simple("in"))
	for _, tt := range []struct {
		change change
		text   string
	}{
		{func(r *kmsg.StreamsGroupHeartbeatRequest) { r.ActiveTasks = nil }, "ActiveTasks must be empty when (re-)joining."},
		{func(r *kmsg.StreamsGroupHeartbeatRequest) { r.StandbyTasks = nil }, "StandbyTasks must be empty when (re-)joining."},
		{func(r *kmsg.StreamsGroupHeartbeatRequest) { r.WarmupTasks = nil }, "WarmupTasks must be empty when (re-)joining."},
		{func(r *kmsg.StreamsGroupHeartbeatRequest) { r.ActiveTasks = idsOf([]string{"0_0"}) }, "ActiveTasks must be empty when (re-)joining."},
		{func(r *kmsg.StreamsGroupHeartbeatRequest) { r.StandbyTasks = idsOf([]string{"0_0"}) }, "StandbyTasks must be empty when (re-)joining."},
		{func(r *kmsg.StreamsGroupHeartbeatRequest) { r.RebalanceTimeoutMillis = -1 }, "RebalanceTimeoutMs must be provided in first request."},
		{func(r *kmsg.StreamsGroupHeartbeatRequest) { r.Topology = nil }, "Topology must be non-null when (re-)joining."},
	} {
		m.wantCode(m.tryJoin(tt.change), invalidRequest, tt.text)
	}
}

func c02(s *scene) {
	m := s.member(s.simple("in"))
	blank, empty := "  ", ""
	for _, tt := range []struct {
		change change
		text   string
	}{
		{func(r *kmsg.StreamsGroupHeartbeatRequest) { r.MemberID = blank }, "MemberId can't be empty."},
		{func(r *kmsg.StreamsGroupHeartbeatRequest) { r.MemberID = empty }, "MemberId can't be empty."},
		{func(r *kmsg.StreamsGroupHeartbeatRequest) { r.Group = blank }, "GroupId can't be empty."},
		{func(r *kmsg.StreamsGroupHeartbeatRequest) { r.RackID = &blank }, "RackId can't be empty."},
		{func(r *kmsg.StreamsGroupHeartbeatRequest) { r.RackID = &empty }, "RackId can't be empty."},
	} {
		m.wantCode(m.tryJoin(tt.change), invalidRequest, tt.text)
	}
	text := "InstanceId can't be empty."
	if s.release < 44 {
		text = "Static membership is not yet supported."
	}
	m.wantCode(m.tryJoin(func(r *kmsg.StreamsGroupHeartbeatRequest) { r.InstanceID = &blank }), invalidRequest, text)
}

func c03(s *scene) {
	m := s.member(s.simple("in"))
	m.wantCode(m.send(m.request(-3, nil)), invalidRequest, "MemberEpoch is -3, but must be greater than or equal to -2.")
	m.wantCode(m.send(m.request(-2, nil)), invalidRequest, "InstanceId can't be null.")
	m.wantCode(m.send(m.request(3, []change{func(r *kmsg.StreamsGroupHeartbeatRequest) { r.Topology = m.topology }})), invalidRequest,
		"Topology can only be provided when (re-)joining.")
	for _, set := range []change{
		func(r *kmsg.StreamsGroupHeartbeatRequest) { r.ActiveTasks = idsOf(nil) },
		func(r *kmsg.StreamsGroupHeartbeatRequest) { r.ActiveTasks, r.StandbyTasks = idsOf(nil), idsOf(nil) },
		func(r *kmsg.StreamsGroupHeartbeatRequest) { r.WarmupTasks = idsOf(nil) },
	} {
		m.wantCode(m.send(m.request(3, []change{set})), invalidRequest, "If one task-type is non-null, all must be non-null.")
	}
}

func c04(s *scene) {
	m := s.member(nil)
	with := func(t *topology) change {
		return func(r *kmsg.StreamsGroupHeartbeatRequest) { r.Topology = t }
	}
	counted := s.sub("0", reads("in"), logs("log"))
	counted.StateChangelogTopics[0].NumPartitions = 3
	m.wantCode(m.tryJoin(with(s.topologyOf(0, counted))), invalidTopology, "must have an undefined partition count, but it is set to 3.")

	for _, name := range []string{"__consumer_offsets", "__transaction_state", "__share_group_state"} {
		sub := s.sub("0", reads("in"))
		sub.SourceTopics = append(sub.SourceTopics, name)
		m.wantCode(m.tryJoin(with(s.topologyOf(0, sub))), invalidTopology, "Use of Kafka internal topics "+name)
	}
	for _, name := range []string{"bad topic", "", "..", strings.Repeat("x", 250)} {
		sub := s.sub("0", reads("in"))
		sub.RepartitionSinkTopics = append(sub.RepartitionSinkTopics, name)
		m.wantCode(m.tryJoin(with(s.topologyOf(0, sub))), invalidTopology, "not valid topic names")
	}
}

func c05(s *scene) {
	sub := s.sub("0", reads("in"))
	sub.SourceTopicRegex = []string{"in.*"}
	m := s.member(s.topologyOf(0, sub))
	m.wantCode(m.tryJoin(), invalidRequest, "Regular expressions for source topics are not supported yet.")
}

func c06Refused(s *scene) {
	m := s.member(s.simple("in"))
	instance, empty := "i", ""
	for _, tt := range []struct {
		change change
		text   string
	}{
		{func(r *kmsg.StreamsGroupHeartbeatRequest) { r.InstanceID = &instance }, "Static membership is not yet supported."},
		{func(r *kmsg.StreamsGroupHeartbeatRequest) { r.InstanceID = &empty }, "Static membership is not yet supported."},
		{func(r *kmsg.StreamsGroupHeartbeatRequest) { r.TaskOffsets = []kmsg.TaskOffset{} }, "TaskOffsets are not supported yet."},
		{func(r *kmsg.StreamsGroupHeartbeatRequest) { r.TaskEndOffsets = []kmsg.TaskOffset{} }, "TaskEndOffsets are not supported yet."},
		{func(r *kmsg.StreamsGroupHeartbeatRequest) { r.WarmupTasks = idsOf([]string{"0_0"}) }, "WarmupTasks are not supported yet."},
	} {
		m.wantCode(m.tryJoin(tt.change), invalidRequest, tt.text)
	}
}

func c06Accepted(s *scene) {
	s.create("in:1")
	m := s.member(s.simple("in"))
	instance := "i"
	m.instance = &instance
	m.join(func(r *kmsg.StreamsGroupHeartbeatRequest) {
		r.TaskOffsets, r.TaskEndOffsets = []kmsg.TaskOffset{}, []kmsg.TaskOffset{}
	})
	m.beat(func(r *kmsg.StreamsGroupHeartbeatRequest) {
		r.ActiveTasks, r.StandbyTasks, r.WarmupTasks = idsOf(nil), idsOf(nil), idsOf([]string{"0_0"})
	})
	o := kmsg.NewTaskOffset()
	o.SubtopologyID, o.Offset = "0", 5
	m.wantCode(m.tryBeat(func(r *kmsg.StreamsGroupHeartbeatRequest) { r.TaskOffsets = []kmsg.TaskOffset{o, o} }), invalidRequest,
		"Task offsets contain a duplicate entry for subtopology 0 and partition 0.")
}

func c07(s *scene) {
	s.create("in:1")
	m := s.member(s.simple("in"))
	m.wantCode(m.send(m.request(1, nil)), groupNotFound, "Streams group "+s.group+" not found.")
	m.wantCode(m.send(m.request(-1, nil)), groupNotFound, "Group "+s.group+" not found.")
	m.join()
	other := s.member(s.simple("in"))
	other.wantCode(other.send(other.request(1, nil)), unknownMember, "Member "+other.id+" is not a member of group "+s.group+".")
	other.wantCode(other.send(other.request(-1, nil)), unknownMember, "")
}

func c08(s *scene) {
	s.create("in:2")
	// A consumer group with a member owns the id.
	consumer := s.consumerMember(s.group, "in")
	if code := consumer.beat(0); code != 0 {
		s.Fatalf("consumer group: %v", kerr.ErrorForCode(code))
	}
	m := s.member(s.simple("in"))
	m.wantCode(m.tryJoin(), groupNotFound, "Group "+s.group+" is not a streams group.")
	m.wantCode(m.send(m.request(1, nil)), groupNotFound, "")
	if code := consumer.beat(-1); code != 0 {
		s.Fatalf("consumer leave: %v", kerr.ErrorForCode(code))
	}
	// C-58: nor is an empty consumer group ever converted.
	m.wantCode(m.tryJoin(), groupNotFound, "Group "+s.group+" is not a streams group.")

	// An id that only has offsets is taken over, offsets and all.
	group := s.prefix + "offsets"
	s.groups = append(s.groups, group)
	if code := s.commit(commit{group: group, epoch: -1, topic: "in", offset: 7}); code != 0 {
		s.Fatalf("commit answered %d", code)
	}
	m = s.memberOf(group, s.simple("in"))
	m.join()
	m.wantActive("0_0", "0_1")
	if got := s.committed(group, "in", 0); got != 7 {
		s.Errorf("offset %d, want 7", got)
	}
	m.leave()
}

func c51(s *scene) {
	s.create("in:1")
	m := s.member(s.simple("in"))
	blank := func(what string, resp *kmsg.StreamsGroupHeartbeatResponse, id string, epoch int32) {
		s.Helper()
		if resp.Status == nil || len(resp.Status) != 0 || resp.ActiveTasks != nil || resp.StandbyTasks != nil || resp.WarmupTasks != nil ||
			resp.PartitionsByUserEndpoint != nil || resp.EndpointInformationEpoch != 0 || resp.HeartbeatIntervalMillis != 0 ||
			resp.AcceptableRecoveryLag != -1 || resp.MemberID != id || resp.MemberEpoch != epoch || resp.TaskOffsetIntervalMillis != 0 {
			s.Errorf("%s has the shape %+v", what, resp)
		}
	}
	blank("an error", m.send(m.request(1, nil)), "", 0)
	m.join()
	blank("a fenced member's answer", m.send(m.request(m.epoch+1, nil)), "", 0)
	blank("a leave", m.leave(), m.id, -1)
}

func c55(s *scene) {
	s.create("in:2")
	m := s.member(s.simple("in"))
	refused := func(what string, code int16, t *topology, changes ...change) {
		s.Helper()
		resp := m.tryJoin(append([]change{func(r *kmsg.StreamsGroupHeartbeatRequest) {
			if t != nil {
				r.Topology = t
			}
		}}, changes...)...)
		if resp.ErrorCode != code {
			s.Errorf("%s: answered %d %s, want %d", what, resp.ErrorCode, message(resp.ErrorMessage), code)
		}
		if code == unknownServerError && resp.ErrorMessage != nil {
			s.Errorf("%s: message %q, want none", what, *resp.ErrorMessage)
		}
	}
	duplicateTag := func(r *kmsg.StreamsGroupHeartbeatRequest) {
		for range 2 {
			tag := kmsg.NewStreamsGroupHeartbeatRequestClientTag()
			tag.Key, tag.Value = "zone", "a"
			r.ClientTags = append(r.ClientTags, tag)
		}
	}
	refused("a tag key twice", unknownServerError, nil, duplicateTag)
	refused("a subtopology id twice", unknownServerError, s.topologyOf(0, s.sub("0", reads("in")), s.sub("0", reads("in"))))
	refused("a negative topology epoch", unknownServerError, s.topologyOf(-1, s.sub("0", reads("in"))))
	refused("a copartition index outside", unknownServerError, s.topologyOf(0, s.sub("0", reads("in"), copartitions([]int16{0, 3}, nil))))
	refused("a changelog twice", unknownServerError, s.topologyOf(0, s.sub("0", reads("in"), logs("log", "log"))))
	refused("a repartition source twice", unknownServerError, s.topologyOf(0, s.sub("0", reads("in"), writes("rep")),
		s.sub("1", repartitions("rep", 0), repartitions("rep", 0))))
	refused("a subtopology without source", invalidTopology, s.topologyOf(0, s.sub("0", reads("in")), s.sub("1", logs("log"))))
	if g := s.describeGroup(s.group); g.ErrorCode != groupNotFound {
		s.Errorf("a refused join made a group: %+v", g)
	}

	m.join()
	resp := m.tryBeat(func(r *kmsg.StreamsGroupHeartbeatRequest) { duplicateTag(r) })
	m.wantCode(resp, unknownServerError, "")
	m.leave()

	empty := s.memberOf(s.prefix+"empty", s.topologyOf(0))
	s.groups = append(s.groups, empty.group)
	empty.join()
	empty.wantActive()
	if g := s.describeGroup(empty.group); g.State != "Stable" {
		s.Errorf("a group without subtopologies is %s", g.State)
	}
	empty.leave()
}

func c59(s *scene) {
	m := s.member(s.simple("in"))
	own := s.coordinator(s.group)
	meta, err := s.admin.BrokerMetadata(s.ctx)
	if err != nil {
		s.Fatal(err)
	}
	for _, b := range meta.Brokers {
		if int(b.NodeID) == own {
			continue
		}
		m.node = int(b.NodeID)
		m.wantCode(m.tryJoin(), kerr.NotCoordinator.Code, "")
		m.wantCode(m.tryJoin(func(r *kmsg.StreamsGroupHeartbeatRequest) { r.Topology = nil }), invalidRequest, "")
	}
	m.node = own
	m.wantCode(m.tryJoin(func(r *kmsg.StreamsGroupHeartbeatRequest) { r.Topology = nil }), invalidRequest, "")
}
