package conformance

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

// patience is how long a state is waited for.
const patience = 30 * time.Second

// scene is a case at work: a group of its own, topics of its own, clients.
type scene struct {
	*testing.T
	target        Target
	release       int
	prefix        string // of topic and group names
	group         string
	ctx           context.Context
	client        *kgo.Client
	admin         *kadm.Client
	members       int // made so far
	configChanges int
	topics        []string
	groups        []string
}

var sceneNumber atomic.Int32

func newScene(t *testing.T, target Target, release int, run string) *scene {
	prefix := fmt.Sprintf("conf-%s-%d-", run, sceneNumber.Add(1))
	s := &scene{T: t, target: target, release: release, prefix: prefix, group: prefix + "group"}
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	s.ctx = ctx
	s.client = s.newClient()
	s.admin = kadm.NewClient(s.client)
	s.groups = []string{s.group}
	t.Cleanup(func() {
		defer cancel()
		defer s.client.Close()
		if len(s.topics) > 0 {
			s.admin.DeleteTopics(ctx, s.topics...)
		}
		s.admin.DeleteGroups(ctx, s.groups...)
	})
	return s
}

func (s *scene) newClient(opts ...kgo.Opt) *kgo.Client {
	all := []kgo.Opt{kgo.SeedBrokers(s.target.Seeds...), kgo.ClientID("conformance")}
	if s.target.Dialer != nil {
		all = append(all, kgo.Dialer(s.target.Dialer))
	}
	c, err := kgo.NewClient(append(all, opts...)...)
	if err != nil {
		s.Fatal(err)
	}
	return c
}

// otherClient is a second client, closed at the end.
func (s *scene) otherClient(opts ...kgo.Opt) *kgo.Client {
	c := s.newClient(opts...)
	s.Cleanup(c.Close)
	return c
}

// clientV0 sends heartbeats and descriptions at version 0.
func (s *scene) clientV0() *kgo.Client {
	v := kversion.Stable()
	v.SetMaxKeyVersion(88, 0)
	v.SetMaxKeyVersion(89, 0)
	return s.otherClient(kgo.MaxVersions(v))
}

// topic is the full name of a topic of this case.
func (s *scene) topic(name string) string { return s.prefix + name }

// coordinator finds the node of a group.
func (s *scene) coordinator(group string) int {
	var node int32
	s.wait("a coordinator of "+group, func() bool {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.CoordinatorKey, req.CoordinatorKeys = group, []string{group}
		resp, err := s.client.Request(s.ctx, req)
		if err != nil {
			s.Fatal(err)
		}
		f := resp.(*kmsg.FindCoordinatorResponse)
		if len(f.Coordinators) > 0 {
			node = f.Coordinators[0].NodeID
			return f.Coordinators[0].ErrorCode == 0
		}
		node = f.NodeID
		return f.ErrorCode == 0
	})
	return int(node)
}

// wait asks for a state again and again until it is there. Brokers announce nothing, so there is nothing else to wait on.
func (s *scene) wait(what string, there func() bool) {
	s.Helper()
	s.waitEvery(20*time.Millisecond, what, there)
}

func (s *scene) waitEvery(pause time.Duration, what string, there func() bool) {
	s.Helper()
	deadline := time.After(patience)
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for !there() {
		select {
		case <-tick.C:
		case <-deadline:
			s.Fatalf("waited %v for %s", patience, what)
		}
	}
}

// create creates topics given as name:partitions and waits until group coordinators know them.
func (s *scene) create(specs ...string) {
	s.Helper()
	s.createWith(nil, specs...)
}

func (s *scene) createWith(configs map[string]*string, specs ...string) {
	s.Helper()
	var names []string
	for _, spec := range specs {
		name, count, _ := strings.Cut(spec, ":")
		n, err := strconv.Atoi(count)
		if err != nil {
			s.Fatal(err)
		}
		full := s.topic(name)
		if _, err := s.admin.CreateTopic(s.ctx, int32(n), 1, configs, full); err != nil {
			s.Fatalf("create %s: %v", full, err)
		}
		names = append(names, full)
	}
	s.topics = append(s.topics, names...)
	s.awaitTopics(names)
}

// awaitTopics waits until a coordinator no longer misses the topics: a group of its own reads them.
func (s *scene) awaitTopics(names []string) {
	s.Helper()
	probe := s.prefix + "probe"
	if !slices.Contains(s.groups, probe) {
		s.groups = append(s.groups, probe)
	}
	node := s.coordinator(probe)
	s.wait("topics to be known", func() bool {
		sub := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology()
		sub.SubtopologyID, sub.SourceTopics = "0", names
		m := s.memberOf(probe, s.topologyOf(0, sub))
		m.node = node
		resp := m.tryJoin()
		if resp.ErrorCode == kerr.CoordinatorLoadInProgress.Code || resp.ErrorCode == kerr.NotCoordinator.Code {
			return false // the group's partition of __consumer_offsets is on its way
		}
		if resp.ErrorCode != 0 {
			s.Fatalf("probe answered %d %s", resp.ErrorCode, message(resp.ErrorMessage))
		}
		m.epoch = resp.MemberEpoch
		m.leave()
		if _, err := s.admin.DeleteGroups(s.ctx, probe); err != nil {
			s.Fatal(err)
		}
		return !hasStatus(resp, 1)
	})
}

func (s *scene) deleteTopic(name string) {
	s.Helper()
	if _, err := s.admin.DeleteTopic(s.ctx, s.topic(name)); err != nil {
		s.Fatal(err)
	}
}

// configure sets settings of the scene's group. On a 4.2 broker the others fall back to what brokers ship with (C-64), so what cases rely on is set too.
func (s *scene) configure(configs map[string]string) {
	s.Helper()
	all := map[string]string{}
	if s.release == 42 {
		all["streams.initial.rebalance.delay.ms"] = "0"
		all["streams.heartbeat.interval.ms"] = "500"
	}
	for k, v := range configs {
		all[k] = v
	}
	if err := s.setConfigs(s.group, all); err != nil {
		s.Fatal(err)
	}
	s.awaitConfigs()
}

// awaitConfigs waits until settings made before are in force. Brokers apply changes in order, so a later change of another group tells.
func (s *scene) awaitConfigs() {
	s.Helper()
	probe := s.prefix + "config-probe"
	if !slices.Contains(s.groups, probe) {
		s.groups = append(s.groups, probe)
	}
	s.configChanges++
	want := int32(600 + s.configChanges)
	if err := s.setConfigs(probe, map[string]string{
		"streams.heartbeat.interval.ms": strconv.Itoa(int(want)), "streams.initial.rebalance.delay.ms": "0",
	}); err != nil {
		s.Fatal(err)
	}
	m := s.memberOf(probe, s.topologyOf(0))
	s.wait("the settings", func() bool {
		resp := m.tryJoin()
		return resp.ErrorCode == 0 && resp.HeartbeatIntervalMillis == want
	})
	m.leave()
}

func (s *scene) setConfigs(group string, configs map[string]string) error {
	if s.target.SetGroupConfigs != nil {
		return s.target.SetGroupConfigs(s.ctx, group, configs)
	}
	return s.alterConfigs(group, configs)
}

func (s *scene) alterConfigs(group string, configs map[string]string) error {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	res := kmsg.NewIncrementalAlterConfigsRequestResource()
	res.ResourceType, res.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	for k, v := range configs {
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Value, c.Op = k, &v, kmsg.IncrementalAlterConfigOpSet
		res.Configs = append(res.Configs, c)
	}
	req.Resources = append(req.Resources, res)
	resp, err := s.client.Request(s.ctx, req)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.(*kmsg.IncrementalAlterConfigsResponse).Resources[0].ErrorCode)
}

// describe describes the scene's group.
func (s *scene) describe() kmsg.StreamsGroupDescribeResponseGroup {
	s.Helper()
	g := s.describeGroup(s.group)
	if g.ErrorCode != 0 {
		s.Fatalf("describe answered %d %s", g.ErrorCode, message(g.ErrorMessage))
	}
	return g
}

func (s *scene) describeGroup(group string) kmsg.StreamsGroupDescribeResponseGroup {
	s.Helper()
	req := kmsg.NewPtrStreamsGroupDescribeRequest()
	req.Groups = []string{group}
	resp, err := s.client.Broker(s.coordinator(group)).Request(s.ctx, req)
	if err != nil {
		s.Fatal(err)
	}
	return resp.(*kmsg.StreamsGroupDescribeResponse).Groups[0]
}

// described finds a member in a description; nil if it is not there.
func described(g kmsg.StreamsGroupDescribeResponseGroup, id string) *kmsg.StreamsGroupDescribeResponseGroupMember {
	for i := range g.Members {
		if g.Members[i].MemberID == id {
			return &g.Members[i]
		}
	}
	return nil
}

func (s *scene) wantState(want string) {
	s.Helper()
	if got := s.describe().State; got != want {
		s.Errorf("group is %s, want %s", got, want)
	}
}

func message(m *string) string {
	if m == nil {
		return "(no message)"
	}
	return *m
}

// tasksOf lists tasks as sub_partition, sorted.
func tasksOf(ids []kmsg.TaskIDs) []string {
	out := []string{}
	for _, id := range ids {
		for _, p := range id.Partitions {
			out = append(out, id.SubtopologyID+"_"+strconv.Itoa(int(p)))
		}
	}
	slices.Sort(out)
	return out
}

// idsOf is the reverse of tasksOf. Never nil.
func idsOf(tasks []string) []kmsg.TaskIDs {
	out := []kmsg.TaskIDs{}
	for _, task := range tasks {
		sub, p, _ := strings.Cut(task, "_")
		n, _ := strconv.Atoi(p)
		i := slices.IndexFunc(out, func(id kmsg.TaskIDs) bool { return id.SubtopologyID == sub })
		if i < 0 {
			id := kmsg.NewTaskIDs()
			id.SubtopologyID = sub
			out = append(out, id)
			i = len(out) - 1
		}
		out[i].Partitions = append(out[i].Partitions, int32(n))
	}
	return out
}

func hasStatus(resp *kmsg.StreamsGroupHeartbeatResponse, code int8) bool {
	return slices.ContainsFunc(resp.Status, func(st kmsg.StreamsGroupHeartbeatResponseStatus) bool { return st.StatusCode == code })
}

func statusDetail(resp *kmsg.StreamsGroupHeartbeatResponse, code int8) string {
	for _, st := range resp.Status {
		if st.StatusCode == code {
			return st.StatusDetail
		}
	}
	return ""
}

func statusCodes(resp *kmsg.StreamsGroupHeartbeatResponse) []int8 {
	out := []int8{}
	for _, st := range resp.Status {
		out = append(out, st.StatusCode)
	}
	return out
}
