package devbroker_test

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/millrace/millrace/integration/devbroker"
	"github.com/millrace/millrace/integration/devbroker/coordinator"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, opts ...devbroker.Option) *devbroker.Broker {
	t.Helper()
	b, err := devbroker.Start(opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

func client(t *testing.T, b *devbroker.Broker, opts ...kgo.Opt) *kgo.Client {
	t.Helper()
	c, err := kgo.NewClient(append(b.ClientOpts(), opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// join is a first heartbeat for one stateless subtopology that reads topic.
func join(group, member, topic string) *kmsg.StreamsGroupHeartbeatRequest {
	s := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology()
	s.SubtopologyID = "0"
	s.SourceTopics = []string{topic}
	tp := kmsg.NewStreamsGroupHeartbeatRequestTopology()
	tp.Subtopologies = append(tp.Subtopologies, s)

	req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	req.Group, req.MemberID = group, member
	req.RebalanceTimeoutMillis = 60000
	req.EndpointInformationEpoch = -1
	req.Topology = &tp
	process := "process-" + member
	req.ProcessID = &process
	req.ActiveTasks, req.StandbyTasks, req.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
	return req
}

// steady is a later heartbeat that reports nothing.
func steady(group, member string, epoch int32) *kmsg.StreamsGroupHeartbeatRequest {
	req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch = group, member, epoch
	req.EndpointInformationEpoch = -1
	return req
}

func beat(t *testing.T, c *kgo.Client, node int, req *kmsg.StreamsGroupHeartbeatRequest) *kmsg.StreamsGroupHeartbeatResponse {
	t.Helper()
	resp, err := c.Broker(node).Request(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return resp.(*kmsg.StreamsGroupHeartbeatResponse)
}

func TestHeartbeatOverTCP(t *testing.T) {
	b := start(t, devbroker.Topic("in", 3))
	c := client(t, b, kgo.ClientID("tcp-test"))

	resp := beat(t, c, 0, join("app", "m1", "in"))
	if resp.ErrorCode != 0 || resp.MemberEpoch != 2 || len(resp.ActiveTasks) != 1 || len(resp.ActiveTasks[0].Partitions) != 3 {
		t.Fatalf("join answered %+v", resp)
	}
	if resp.Version != 1 {
		t.Errorf("version %d, want 1 for a 4.4 broker", resp.Version)
	}
	g, ok := b.Group("app")
	if !ok || len(g.Members) != 1 || g.Members[0].ClientID != "tcp-test" || g.Members[0].ClientHost != "/127.0.0.1" {
		t.Fatalf("described as %+v", g)
	}
}

func TestVirtualNetworkInBubble(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := devbroker.Start(devbroker.VirtualNetwork(), devbroker.Topic("in", 2), devbroker.KafkaTimings())
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		c, err := kgo.NewClient(b.ClientOpts()...)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()

		resp := beat(t, c, 0, join("app", "m1", "in"))
		if resp.MemberEpoch != 1 || len(resp.Status) != 1 || resp.Status[0].StatusCode != coordinator.StatusAssignmentDelayed {
			t.Fatalf("join answered %+v", resp)
		}
		// From the second heartbeat on, the initial delay of 3 s ends without one, as does the session of 45 s.
		beat(t, c, 0, steady("app", "m1", 1))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		started := time.Now()
		if err := b.WaitGroup(ctx, "app", func(g kmsg.StreamsGroupDescribeResponseGroup) bool { return g.AssignmentEpoch == 2 }); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(started); d < 2*time.Second || d > 4*time.Second {
			t.Errorf("assigned after %v, want about 3s", d)
		}
		if err := b.WaitGroup(ctx, "app", func(g kmsg.StreamsGroupDescribeResponseGroup) bool { return g.State == coordinator.StateEmpty }); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(started); d < 44*time.Second || d > 46*time.Second {
			t.Errorf("expired after %v, want about 45s", d)
		}
	})
}

// Several nodes on a virtual network: a client finds the coordinator of a group and the leaders of partitions.
func TestVirtualNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := devbroker.Start(devbroker.VirtualNetwork(), devbroker.Nodes(3), devbroker.Topic("in", 6))
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		c, err := kgo.NewClient(append(b.ClientOpts(), kgo.DefaultProduceTopic("in"), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))...)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for range 6 {
			if err := c.ProduceSync(t.Context(), kgo.StringRecord("v")).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.CoordinatorKeys = []string{"app"}
		resp, err := c.Request(t.Context(), find)
		if err != nil {
			t.Fatal(err)
		}
		node := int(resp.(*kmsg.FindCoordinatorResponse).Coordinators[0].NodeID)
		if got := beat(t, c, node, join("app", "m1", "in")); got.ErrorCode != 0 || len(got.ActiveTasks[0].Partitions) != 6 {
			t.Errorf("answered %+v", got)
		}
	})
}

func TestListenOnTakenPortFails(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	b, err := devbroker.Start(devbroker.Listen(ln.Addr().String()))
	if err == nil {
		b.Close()
		t.Fatal("started on a port that is taken")
	}
	if !strings.Contains(err.Error(), "address already in use") {
		t.Errorf("error %v does not tell that the port is taken", err)
	}
}

func TestOptionsAreChecked(t *testing.T) {
	_, err := devbroker.Start(devbroker.Topic("in", 0), devbroker.Listen("nowhere"),
		devbroker.Settings(func(c *coordinator.Config) { c.SessionTimeout = c.HeartbeatInterval }))
	for _, want := range []string{"topic in has 0 partitions", `"nowhere"`, "session timeout"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v does not mention %s", err, want)
		}
	}
}

func TestCloseTwiceAndAfter(t *testing.T) {
	b := start(t)
	b.Close()
	b.Close()
	if err := b.CreateTopic("t", 1, nil); err == nil {
		t.Error("a closed broker created a topic")
	}
	if err := b.WaitStable(t.Context(), "app", 1); err == nil {
		t.Error("a closed broker has a stable group")
	}
}

func TestReleasesAdvertiseTheirVersions(t *testing.T) {
	for _, tt := range []struct {
		opts                     []devbroker.Option
		heartbeat, description   int16
		hasHeartbeat, hasTxnV6   bool
		hasDescriptionCapability bool
	}{
		{[]devbroker.Option{devbroker.PlayRelease(coordinator.Kafka44)}, 1, 0, true, true, true},
		{[]devbroker.Option{devbroker.PlayRelease(coordinator.Kafka43)}, 0, -1, true, false, false},
		{[]devbroker.Option{devbroker.PlayRelease(coordinator.Kafka42)}, 0, -1, true, false, false},
		{[]devbroker.Option{devbroker.WithoutStreamsGroups()}, -1, -1, false, true, false},
	} {
		b := start(t, tt.opts...)
		vs, err := kadm.NewClient(client(t, b)).ApiVersions(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range vs {
			if got, ok := v.KeyMaxVersion(88); ok != tt.hasHeartbeat || ok && got != tt.heartbeat {
				t.Errorf("key 88 advertised at %d, %v; want %d, %v", got, ok, tt.heartbeat, tt.hasHeartbeat)
			}
			if _, ok := v.KeyMaxVersion(93); ok != tt.hasDescriptionCapability {
				t.Errorf("key 93 advertised: %v, want %v", ok, tt.hasDescriptionCapability)
			}
			if got, _ := v.KeyMaxVersion(28); got >= 6 != tt.hasTxnV6 {
				t.Errorf("key 28 advertised at %d, want 6: %v", got, tt.hasTxnV6)
			}
		}
	}
}

func TestFaults(t *testing.T) {
	b := start(t, devbroker.Topic("in", 1))
	c := client(t, b)
	epoch := beat(t, c, 0, join("app", "m1", "in")).MemberEpoch

	b.FailHeartbeats("app", 2, kerr.CoordinatorNotAvailable)
	for _, want := range []int16{15, 15, 0} {
		if got := beat(t, c, 0, steady("app", "m1", epoch)).ErrorCode; got != want {
			t.Fatalf("error code %d, want %d", got, want)
		}
	}

	b.FenceMember("app", "m1")
	if got := beat(t, c, 0, steady("app", "m1", epoch)).ErrorCode; got != kerr.FencedMemberEpoch.Code {
		t.Errorf("fenced member got %d", got)
	}

	b.CutResponses("app", "m1", 1)
	if _, err := c.Broker(0).Request(t.Context(), steady("app", "m1", epoch)); err == nil {
		t.Error("a cut response arrived")
	}
	c = client(t, b) // the other may not have noticed yet that its connection is gone
	b.DropResponses("app", "m1", 1)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := c.Broker(0).Request(ctx, steady("app", "m1", epoch)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a dropped response gave %v", err)
	}

	c = client(t, b)
	if err := b.MoveCoordinator("app"); err != nil {
		t.Fatal(err)
	}
	for _, want := range []int16{16, 14, 0} {
		if got := beat(t, c, 0, steady("app", "m1", epoch)).ErrorCode; got != want {
			t.Fatalf("after the move error code %d, want %d", got, want)
		}
	}

	if err := b.ExpireMember("app", "m1"); err != nil {
		t.Fatal(err)
	}
	if got := beat(t, c, 0, steady("app", "m1", epoch)).ErrorCode; got != kerr.UnknownMemberID.Code {
		t.Errorf("expired member got %d", got)
	}
	if err := b.ExpireMember("app", "m1"); err == nil {
		t.Error("expired a member that is gone")
	}
}
