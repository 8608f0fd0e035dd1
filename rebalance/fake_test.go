package rebalance

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/millrace/millrace/topology"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a cluster on a virtual network whose streams coordinator is scripted by the test. It lives in a synctest bubble.
type fake struct {
	t       *testing.T
	cluster *kfake.Cluster
	network kfake.VirtualNetwork

	mu       sync.Mutex
	versions map[int32]int16 // highest heartbeat version by node; absent: 1; negative: the key is not listed
	handler  func(node int32, req *heartbeatReq) (*heartbeatResp, error)
	describe func(group string) *kmsg.StreamsGroupDescribeResponseGroup
	beats    []beat
	lookups  int
	found    func() int16 // error code of a coordinator look-up
	clients  []string     // client ids of heartbeats as they were on the wire
}

type (
	heartbeatReq  = kmsg.StreamsGroupHeartbeatRequest
	heartbeatResp = kmsg.StreamsGroupHeartbeatResponse
)

// beat is one heartbeat that a broker got.
type beat struct {
	at   time.Duration // since the start of the test
	node int32
	req  *heartbeatReq
}

var (
	errClose = errors.New("the broker closes the connection")
	started  = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // of every bubble
)

func newFake(t *testing.T, brokers int) *fake {
	t.Helper()
	f := &fake{t: t, versions: make(map[int32]int16)}
	ports := make([]int, brokers)
	for i := range ports {
		ports[i] = 9092 + i
	}
	cluster, err := kfake.NewCluster(kfake.NumBrokers(brokers), kfake.Ports(ports...), kfake.ListenFn(f.network.Listen), kfake.SeedTopics(4, "in"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cluster.Close)
	f.cluster = cluster

	// kfake has no streams groups: list their keys, and answer them by script.
	cl := f.client()
	ask := kmsg.NewPtrApiVersionsRequest()
	ask.ClientSoftwareName, ask.ClientSoftwareVersion = "test", "0"
	known, err := ask.RequestWith(t.Context(), cl)
	if err != nil {
		t.Fatal(err)
	}
	cl.Close()
	cluster.ControlKey(18, func(r kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		if r.GetVersion() > 5 {
			return nil, nil, false
		}
		resp := *known
		resp.Version = r.GetVersion()
		resp.ApiKeys = slices.Clone(known.ApiKeys)
		f.mu.Lock()
		defer f.mu.Unlock()
		highest, ok := f.versions[cluster.CurrentNode()]
		if !ok {
			highest = 1
		}
		for _, key := range []int16{88, 89} {
			if highest >= 0 {
				k := kmsg.NewApiVersionsResponseApiKey()
				k.ApiKey, k.MaxVersion = key, highest
				resp.ApiKeys = append(resp.ApiKeys, k)
			}
		}
		return &resp, nil, true
	})
	cluster.ControlKey(10, func(r kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		f.mu.Lock()
		defer f.mu.Unlock()
		f.lookups++
		if f.found == nil {
			return nil, nil, false
		}
		code := f.found()
		if code == 0 {
			return nil, nil, false
		}
		req := r.(*kmsg.FindCoordinatorRequest)
		resp := req.ResponseKind().(*kmsg.FindCoordinatorResponse)
		c := kmsg.NewFindCoordinatorResponseCoordinator()
		c.Key, c.NodeID, c.ErrorCode = req.CoordinatorKeys[0], -1, code
		resp.Coordinators = append(resp.Coordinators, c)
		return resp, nil, true
	})
	cluster.ControlKey(88, func(r kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		req := r.(*heartbeatReq)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.beats = append(f.beats, beat{time.Since(started), cluster.CurrentNode(), req})
		resp, err := f.handler(cluster.CurrentNode(), req)
		if resp == nil {
			return nil, err, true // no answer, or the end of the connection
		}
		return resp, nil, true
	})
	cluster.ControlKey(89, func(r kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		req := r.(*kmsg.StreamsGroupDescribeRequest)
		resp := req.ResponseKind().(*kmsg.StreamsGroupDescribeResponse)
		f.mu.Lock()
		defer f.mu.Unlock()
		if f.describe == nil {
			return nil, errClose, true
		}
		resp.Groups = append(resp.Groups, *f.describe(req.Groups[0]))
		return resp, nil, true
	})
	return f
}

// client returns one whose heartbeats are looked at on the wire.
func (f *fake) client(opts ...kgo.Opt) *kgo.Client {
	f.t.Helper()
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := f.network.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &sniffer{conn, f}, nil
	}
	cl, err := kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(f.cluster.ListenAddrs()...), kgo.Dialer(dial), kgo.ClientID("app-1")}, opts...)...)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(cl.Close)
	return cl
}

// sniffer notes the client id of every heartbeat that is written.
type sniffer struct {
	net.Conn
	f *fake
}

func (s *sniffer) Write(b []byte) (int, error) {
	// A request: int32 size, int16 key, int16 version, int32 correlation id, int16 length, client id.
	if len(b) > 14 && b[4] == 0 && b[5] == 88 {
		n := int(b[12])<<8 | int(b[13])
		s.f.mu.Lock()
		s.f.clients = append(s.f.clients, string(b[14:14+n]))
		s.f.mu.Unlock()
	}
	return s.Conn.Write(b)
}

// handle sets what the coordinator answers from now on. A nil response with a nil error is no answer at all.
func (f *fake) handle(h func(node int32, req *heartbeatReq) (*heartbeatResp, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.handler = h
}

// take returns the heartbeats since the last call.
func (f *fake) take() []beat {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	beats := f.beats
	f.beats = nil
	return beats
}

// ok is a successful response without lists.
func ok(req *heartbeatReq, epoch int32) *heartbeatResp {
	resp := req.ResponseKind().(*heartbeatResp)
	resp.MemberID = req.MemberID
	resp.MemberEpoch = epoch
	if req.MemberEpoch < 0 {
		resp.MemberEpoch = req.MemberEpoch
		return resp
	}
	resp.HeartbeatIntervalMillis = 5000
	resp.TaskOffsetIntervalMillis = 60000
	resp.Status = []kmsg.StreamsGroupHeartbeatResponseStatus{}
	return resp
}

// grant is a successful response with lists.
func grant(req *heartbeatReq, epoch int32, active ...int32) *heartbeatResp {
	resp := ok(req, epoch)
	resp.ActiveTasks, resp.StandbyTasks, resp.WarmupTasks = partitions(active...), []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
	return resp
}

// refuse is an error response. Its other fields are nonsense: nobody may look at them.
func refuse(req *heartbeatReq, code int16, message string) *heartbeatResp {
	resp := req.ResponseKind().(*heartbeatResp)
	resp.ErrorCode = code
	if message != "" {
		resp.ErrorMessage = &message
	}
	resp.Status = []kmsg.StreamsGroupHeartbeatResponseStatus{}
	resp.EndpointInformationEpoch = 77
	resp.HeartbeatIntervalMillis = 1
	resp.ActiveTasks = partitions(3)
	return resp
}

func status(resp *heartbeatResp, code int8, detail string) *heartbeatResp {
	s := kmsg.NewStreamsGroupHeartbeatResponseStatus()
	s.StatusCode, s.StatusDetail = code, detail
	resp.Status = append(resp.Status, s)
	return resp
}

func partitions(ps ...int32) []kmsg.TaskIDs {
	if len(ps) == 0 {
		return []kmsg.TaskIDs{}
	}
	ids := kmsg.NewTaskIDs()
	ids.SubtopologyID, ids.Partitions = "0", ps
	return []kmsg.TaskIDs{ids}
}

// steady grants the partitions on a join and has nothing to say later.
func steady(epoch int32, active ...int32) func(int32, *heartbeatReq) (*heartbeatResp, error) {
	return func(_ int32, req *heartbeatReq) (*heartbeatResp, error) {
		if req.MemberEpoch == 0 {
			return grant(req, epoch, active...), nil
		}
		return ok(req, epoch), nil
	}
}

func describeMember(group, id string, epoch int32, active ...int32) *kmsg.StreamsGroupDescribeResponseGroup {
	g := kmsg.NewStreamsGroupDescribeResponseGroup()
	g.Group = group
	m := kmsg.NewStreamsGroupDescribeResponseGroupMember()
	m.MemberID, m.MemberEpoch = id, epoch
	m.Assignment.ActiveTasks = partitions(active...)
	g.Members = append(g.Members, m)
	return &g
}

// process is a membership that runs, with a worker.
type process struct {
	t    *testing.T
	m    *Membership
	done chan struct{}
	err  error // of Run, once done is closed

	mu     sync.Mutex
	log    []string // commands, as text
	hold   bool     // commands are not answered
	fail   error    // the answer to revoke and assign
	held   []Command
	silent bool // does not poll
}

func (f *fake) start(change func(*Config)) *process {
	f.t.Helper()
	p := f.prepare(change)
	p.run(f.t.Context())
	return p
}

func (f *fake) prepare(change func(*Config)) *process {
	f.t.Helper()
	cfg := Config{
		Client: f.client(), Group: "app", ProcessID: "p", MemberID: "m", Rand: rand.NewPCG(1, 2),
		Topology: topology.Metadata{Subtopologies: []topology.SubtopologyMetadata{{ID: 0, SourceTopics: []string{"in"}}}},
		Logger:   slog.New(slog.NewTextHandler(f.t.Output(), nil)),
	}
	if change != nil {
		change(&cfg)
	}
	m, err := New(cfg)
	if err != nil {
		f.t.Fatal(err)
	}
	return &process{t: f.t, m: m, done: make(chan struct{})}
}

func (p *process) run(ctx context.Context) {
	go func() {
		defer close(p.done)
		p.err = p.m.Run(ctx)
	}()
	go p.work()
}

func (p *process) work() {
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case c, ok := <-p.m.Commands():
			if !ok {
				return
			}
			p.take(c)
		case <-tick.C:
		}
		p.mu.Lock()
		silent := p.silent
		p.mu.Unlock()
		if !silent {
			p.m.Poll()
		}
	}
}

func (p *process) take(c Command) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var err error
	switch c := c.(type) {
	case Revoke:
		p.log = append(p.log, fmt.Sprint("revoke ", c.Tasks))
		err = p.fail
	case Assign:
		p.log = append(p.log, fmt.Sprintf("assign %v standby %v warmup %v ready=%v", c.Active, c.Standby, c.Warmup, c.Ready))
		err = p.fail
	case Lose:
		p.log = append(p.log, "lose")
	case StopApplication:
		p.log = append(p.log, "stop application: "+c.Detail)
	case Failed:
		p.log = append(p.log, fmt.Sprintf("failed fatal=%v: %v", c.Fatal, c.Err))
	}
	if p.hold {
		p.held = append(p.held, c)
		return
	}
	c.Done(err)
}

func (p *process) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// answer answers the commands that were held.
func (p *process) answer(err error) {
	p.mu.Lock()
	held := p.held
	p.held, p.hold = nil, false
	p.mu.Unlock()
	for _, c := range held {
		c.Done(err)
	}
	synctest.Wait()
}

// commands returns what the worker got since the last call.
func (p *process) commands() []string {
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	log := p.log
	p.log = nil
	return log
}

func (p *process) wantCommands(want ...string) {
	p.t.Helper()
	got := p.commands()
	if !slices.EqualFunc(got, want, strings.HasPrefix) {
		p.t.Errorf("commands\n\t%s\nwant\n\t%s", strings.Join(got, "\n\t"), strings.Join(want, "\n\t"))
	}
}

// wantEnd waits until Run has returned.
func (p *process) wantEnd(within time.Duration) error {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(within):
		p.t.Fatalf("Run did not return within %v; %+v", within, p.m.Status())
	}
	return p.err
}

// stop makes the process leave.
func (p *process) stop() {
	p.t.Helper()
	p.m.Leave(LeaveDefault)
	if err := p.wantEnd(time.Minute); err != nil {
		p.t.Errorf("Run: %v", err)
	}
}

// advance lets time go by in the bubble.
func advance(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// bubble runs a test in a bubble of its own.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

func text(ids []kmsg.TaskIDs) string {
	if ids == nil {
		return "null"
	}
	var out []string
	for _, s := range ids {
		for _, p := range s.Partitions {
			out = append(out, fmt.Sprintf("%s_%d", s.SubtopologyID, p))
		}
	}
	return "[" + strings.Join(out, " ") + "]"
}
