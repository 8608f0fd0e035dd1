package conformance

import (
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// member is a member of a streams group, driven step by step.
type member struct {
	s        *scene
	group    string
	id       string
	process  string
	topology *kmsg.StreamsGroupHeartbeatRequestTopology
	timeout  int32 // rebalance timeout in ms
	instance *string
	endpoint *kmsg.StreamsGroupHeartbeatRequestUserEndpoint
	client   *kgo.Client
	node     int

	epoch                   int32 // the last one told
	endpointEpoch           int32 // the last one told; -1 before
	active, standby, warmup []string
}

// change alters a request before it is sent.
type change func(*kmsg.StreamsGroupHeartbeatRequest)

// member makes a member of the scene's group in a process of its own.
func (s *scene) member(topology *kmsg.StreamsGroupHeartbeatRequestTopology) *member {
	return s.memberOf(s.group, topology)
}

func (s *scene) memberOf(group string, topology *kmsg.StreamsGroupHeartbeatRequestTopology) *member {
	s.members++
	m := &member{
		s: s, group: group, topology: topology, timeout: 60000, client: s.client, node: -1, endpointEpoch: -1,
		id: fmt.Sprintf("member-%02d", s.members), process: fmt.Sprintf("process-%02d", s.members),
	}
	return m
}

// in puts the member into a process, shared with others.
func (m *member) in(process string) *member { m.process = process; return m }

// send sends a request as it is.
func (m *member) send(req *kmsg.StreamsGroupHeartbeatRequest) *kmsg.StreamsGroupHeartbeatResponse {
	m.s.Helper()
	if m.node < 0 {
		m.node = m.s.coordinator(m.group)
	}
	resp, err := m.client.Broker(m.node).Request(m.s.ctx, req)
	if err != nil {
		m.s.Fatalf("heartbeat of %s: %v", m.id, err)
	}
	return resp.(*kmsg.StreamsGroupHeartbeatResponse)
}

func (m *member) request(epoch int32, changes []change) *kmsg.StreamsGroupHeartbeatRequest {
	req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch = m.group, m.id, epoch
	req.EndpointInformationEpoch = m.endpointEpoch
	req.InstanceID = m.instance
	for _, c := range changes {
		c(req)
	}
	return req
}

// tryJoin sends a join, whatever comes of it.
func (m *member) tryJoin(changes ...change) *kmsg.StreamsGroupHeartbeatResponse {
	m.s.Helper()
	process := m.process
	return m.send(m.request(0, append([]change{func(r *kmsg.StreamsGroupHeartbeatRequest) {
		r.RebalanceTimeoutMillis = m.timeout
		r.Topology = m.topology
		r.ProcessID = &process
		r.UserEndpoint = m.endpoint
		r.ClientTags = []kmsg.StreamsGroupHeartbeatRequestClientTag{}
		r.ActiveTasks, r.StandbyTasks, r.WarmupTasks = idsOf(nil), idsOf(nil), idsOf(nil)
	}}, changes...)))
}

// join joins, or joins again.
func (m *member) join(changes ...change) *kmsg.StreamsGroupHeartbeatResponse {
	m.s.Helper()
	resp := m.accept(m.tryJoin(changes...))
	if resp.ActiveTasks == nil || resp.StandbyTasks == nil || resp.WarmupTasks == nil {
		m.s.Fatalf("a join was answered without task lists: %+v", resp)
	}
	return resp
}

// tryBeat sends a heartbeat at the member's epoch that reports no tasks, whatever comes of it.
func (m *member) tryBeat(changes ...change) *kmsg.StreamsGroupHeartbeatResponse {
	m.s.Helper()
	return m.send(m.request(m.epoch, changes))
}

// beat sends a heartbeat that reports no tasks.
func (m *member) beat(changes ...change) *kmsg.StreamsGroupHeartbeatResponse {
	m.s.Helper()
	return m.accept(m.tryBeat(changes...))
}

// report sends a heartbeat that reports what the member was last told to have: it has followed at once.
func (m *member) report(changes ...change) *kmsg.StreamsGroupHeartbeatResponse {
	m.s.Helper()
	return m.beat(append([]change{owns(m.active, m.standby)}, changes...)...)
}

// leave leaves for good.
func (m *member) leave() *kmsg.StreamsGroupHeartbeatResponse {
	m.s.Helper()
	resp := m.send(m.request(-1, nil))
	if resp.ErrorCode != 0 {
		m.s.Fatalf("leave of %s answered %d %s", m.id, resp.ErrorCode, message(resp.ErrorMessage))
	}
	m.active, m.standby, m.warmup = nil, nil, nil
	return resp
}

// accept takes over what a successful response says.
func (m *member) accept(resp *kmsg.StreamsGroupHeartbeatResponse) *kmsg.StreamsGroupHeartbeatResponse {
	m.s.Helper()
	if resp.ErrorCode != 0 {
		m.s.Fatalf("heartbeat of %s at epoch %d answered %d %s", m.id, m.epoch, resp.ErrorCode, message(resp.ErrorMessage))
	}
	if resp.MemberID != m.id {
		m.s.Errorf("answer for member %q, want %q", resp.MemberID, m.id)
	}
	if resp.Status == nil {
		m.s.Error("status is null")
	}
	m.epoch, m.endpointEpoch = resp.MemberEpoch, resp.EndpointInformationEpoch
	if lists := 0; resp.ActiveTasks != nil || resp.StandbyTasks != nil || resp.WarmupTasks != nil {
		for _, l := range [][]kmsg.TaskIDs{resp.ActiveTasks, resp.StandbyTasks, resp.WarmupTasks} {
			if l != nil {
				lists++
			}
		}
		if lists != 3 {
			m.s.Fatalf("%d of three task lists are set", lists)
		}
		m.active, m.standby, m.warmup = tasksOf(resp.ActiveTasks), tasksOf(resp.StandbyTasks), tasksOf(resp.WarmupTasks)
	}
	return resp
}

// owns reports tasks.
func owns(active, standby []string) change {
	return func(r *kmsg.StreamsGroupHeartbeatRequest) {
		r.ActiveTasks, r.StandbyTasks, r.WarmupTasks = idsOf(active), idsOf(standby), idsOf(nil)
	}
}

// atEpoch sends another epoch than the member's.
func atEpoch(e int32) change {
	return func(r *kmsg.StreamsGroupHeartbeatRequest) { r.MemberEpoch = e }
}

func (m *member) wantCode(resp *kmsg.StreamsGroupHeartbeatResponse, code int16, text string) {
	m.s.Helper()
	if resp.ErrorCode != code {
		m.s.Errorf("answered %d %s, want %d", resp.ErrorCode, message(resp.ErrorMessage), code)
		return
	}
	if text != "" && (resp.ErrorMessage == nil || !strings.Contains(*resp.ErrorMessage, text)) {
		m.s.Errorf("message %q, want %q", message(resp.ErrorMessage), text)
	}
}

func (m *member) wantActive(want ...string) {
	m.s.Helper()
	if want == nil {
		want = []string{}
	}
	if !slices.Equal(m.active, want) {
		m.s.Errorf("%s runs %v, want %v", m.id, m.active, want)
	}
}

func (m *member) wantStandby(want ...string) {
	m.s.Helper()
	if want == nil {
		want = []string{}
	}
	if !slices.Equal(m.standby, want) {
		m.s.Errorf("%s has standbys %v, want %v", m.id, m.standby, want)
	}
}

func (m *member) wantEpoch(want int32) {
	m.s.Helper()
	if m.epoch != want {
		m.s.Errorf("%s is at epoch %d, want %d", m.id, m.epoch, want)
	}
}

// wantNoLists checks that an answer leaves the assignment as it was.
func (m *member) wantNoLists(resp *kmsg.StreamsGroupHeartbeatResponse) {
	m.s.Helper()
	if resp.ActiveTasks != nil || resp.StandbyTasks != nil || resp.WarmupTasks != nil {
		m.s.Errorf("task lists are set: %v %v %v", resp.ActiveTasks, resp.StandbyTasks, resp.WarmupTasks)
	}
}

func (m *member) wantStatus(resp *kmsg.StreamsGroupHeartbeatResponse, codes ...int8) {
	m.s.Helper()
	if got := statusCodes(resp); !slices.Equal(got, append([]int8{}, codes...)) {
		m.s.Errorf("status %v, want %v", got, codes)
	}
}

// ready heartbeats until no status says that topics are missing: internal topics take a moment.
func (m *member) ready() *kmsg.StreamsGroupHeartbeatResponse {
	m.s.Helper()
	var resp *kmsg.StreamsGroupHeartbeatResponse
	m.s.wait("topics of the group", func() bool {
		resp = m.report()
		return !hasStatus(resp, 1) && !hasStatus(resp, 3)
	})
	return resp
}

// settle lets members heartbeat and follow until the group is stable and each has what it shall have.
func (s *scene) settle(members ...*member) {
	s.Helper()
	s.wait("the group to settle", func() bool {
		for _, m := range members {
			m.report()
		}
		g := s.describe()
		if g.State != "Stable" || len(g.Members) != len(members) {
			return false
		}
		for _, m := range members {
			d := described(g, m.id)
			if d == nil || d.MemberEpoch != m.epoch || !slices.Equal(tasksOf(d.Assignment.ActiveTasks), m.active) ||
				!slices.Equal(tasksOf(d.Assignment.StandbyTasks), m.standby) {
				return false
			}
		}
		return true
	})
}

// wantOwners checks that the members' active tasks are the given ones, each once.
func (s *scene) wantOwners(tasks []string, members ...*member) {
	s.Helper()
	var all []string
	for _, m := range members {
		all = append(all, m.active...)
	}
	slices.Sort(all)
	if !slices.Equal(all, tasks) {
		s.Errorf("active tasks are %v, want %v", all, tasks)
	}
}

// tasks names tasks 0 to n-1 of a subtopology.
func tasks(sub string, n int) []string {
	out := []string{}
	for i := range n {
		out = append(out, fmt.Sprintf("%s_%d", sub, i))
	}
	return out
}
