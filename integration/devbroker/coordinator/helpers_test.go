package coordinator

import (
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// fakeCluster is a cluster for the core: topics by partition count, coordinators by group.
type fakeCluster struct {
	topics   map[string]Topic
	nodes    map[string]int32 // coordinators; others are at node 0
	occupied map[string]bool
	nextID   byte
}

func newFakeCluster() *fakeCluster {
	return &fakeCluster{topics: map[string]Topic{}, nodes: map[string]int32{}, occupied: map[string]bool{}}
}

func (f *fakeCluster) Topic(name string) (Topic, bool) { t, ok := f.topics[name]; return t, ok }
func (f *fakeCluster) Coordinator(group string) int32  { return f.nodes[group] }
func (f *fakeCluster) Occupied(group string) bool      { return f.occupied[group] }

func (f *fakeCluster) create(name string, partitions int32) {
	f.nextID++
	f.topics[name] = Topic{ID: [16]byte{f.nextID}, Partitions: partitions}
}

// bench drives a coordinator by hand with a clock of its own.
type bench struct {
	*testing.T
	cluster *fakeCluster
	c       *Coordinator
	now     time.Time
	create  bool // create the internal topics heartbeats ask for
}

var t0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newBench(t *testing.T, change func(*Config)) *bench {
	cfg := QuickConfig()
	cfg.HeartbeatInterval, cfg.SessionTimeout = 500*time.Millisecond, 6*time.Second
	if change != nil {
		change(&cfg)
	}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	b := &bench{T: t, cluster: newFakeCluster(), now: t0, create: true}
	b.c = New(cfg, b.cluster)
	return b
}

func (b *bench) advance(d time.Duration) { b.now = b.now.Add(d); b.c.Expire(b.now) }

// send sends a request to the group's coordinator.
func (b *bench) send(req *kmsg.StreamsGroupHeartbeatRequest) *kmsg.StreamsGroupHeartbeatResponse {
	b.Helper()
	resp, create := b.c.Heartbeat(b.now, b.cluster.Coordinator(req.Group), Client{ID: "bench", Host: "/127.0.0.1"}, req)
	if b.create {
		for _, t := range create {
			b.cluster.create(t.Name, t.Partitions)
		}
	}
	return resp
}

// walker is a member as the tests drive it.
type walker struct {
	b                       *bench
	group, id, process      string
	topology                *kmsg.StreamsGroupHeartbeatRequestTopology
	epoch                   int32
	active, standby, warmup []string
}

func (b *bench) member(id, process string, topology *kmsg.StreamsGroupHeartbeatRequestTopology) *walker {
	return &walker{b: b, group: "app", id: id, process: process, topology: topology}
}

func (w *walker) request(epoch int32) *kmsg.StreamsGroupHeartbeatRequest {
	req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	req.Version = 1
	req.Group, req.MemberID, req.MemberEpoch = w.group, w.id, epoch
	req.EndpointInformationEpoch = -1
	return req
}

func (w *walker) joinRequest() *kmsg.StreamsGroupHeartbeatRequest {
	req := w.request(0)
	req.RebalanceTimeoutMillis = 60000
	req.Topology = w.topology
	req.ProcessID = &w.process
	req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
	return req
}

func (w *walker) take(resp *kmsg.StreamsGroupHeartbeatResponse) *kmsg.StreamsGroupHeartbeatResponse {
	if resp.ErrorCode != 0 {
		return resp
	}
	w.epoch = resp.MemberEpoch
	if resp.ActiveTasks != nil {
		w.active, w.standby, w.warmup = names(resp.ActiveTasks), names(resp.StandbyTasks), names(resp.WarmupTasks)
	}
	return resp
}

func (w *walker) join() *kmsg.StreamsGroupHeartbeatResponse { return w.take(w.b.send(w.joinRequest())) }

func (w *walker) beat() *kmsg.StreamsGroupHeartbeatResponse {
	return w.take(w.b.send(w.request(w.epoch)))
}

func (w *walker) report() *kmsg.StreamsGroupHeartbeatResponse {
	req := w.request(w.epoch)
	req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = wire(w.active), wire(w.standby), wire(w.warmup)
	return w.take(w.b.send(req))
}

func (w *walker) leave() *kmsg.StreamsGroupHeartbeatResponse { return w.b.send(w.request(-1)) }

// settle lets members report until nothing changes any more.
func (b *bench) settle(ws ...*walker) {
	b.Helper()
	for range 20 {
		for _, w := range ws {
			if resp := w.report(); resp.ErrorCode != 0 {
				b.Fatalf("%s: answered %d", w.id, resp.ErrorCode)
			}
		}
		if b.c.State("app") == StateStable {
			for _, w := range ws {
				w.report()
			}
			return
		}
	}
	b.Fatalf("group is %s", b.c.State("app"))
}

func names(ids []kmsg.TaskIDs) []string {
	out := []string{}
	for _, id := range ids {
		for _, p := range id.Partitions {
			out = append(out, id.SubtopologyID+"_"+strconv.Itoa(int(p)))
		}
	}
	slices.Sort(out)
	return out
}

func parseTask(s string) task {
	i := slices.Index([]byte(s), '_')
	p, _ := strconv.Atoi(s[i+1:])
	return task{s[:i], int32(p)}
}

func wire(list []string) []kmsg.TaskIDs {
	m := map[task]int32{}
	for _, s := range list {
		m[parseTask(s)] = 0
	}
	return wireTasks(m)
}

func taskNames(m map[task]int32) []string {
	out := []string{}
	for t := range maps.Keys(m) {
		out = append(out, t.subtopology+"_"+strconv.Itoa(int(t.partition)))
	}
	slices.Sort(out)
	return out
}

// sub is a subtopology that reads sources and has a changelog for each log.
func sub(id string, sources []string, logs ...string) kmsg.StreamsGroupHeartbeatRequestTopologySubtopology {
	s := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology()
	s.SubtopologyID, s.SourceTopics = id, sources
	for _, l := range logs {
		ti := kmsg.NewTopicInfo()
		ti.Topic = l
		s.StateChangelogTopics = append(s.StateChangelogTopics, ti)
	}
	return s
}

func topo(subs ...kmsg.StreamsGroupHeartbeatRequestTopologySubtopology) *kmsg.StreamsGroupHeartbeatRequestTopology {
	t := kmsg.NewStreamsGroupHeartbeatRequestTopology()
	t.Subtopologies = subs
	return &t
}
