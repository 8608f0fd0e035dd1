package rebalance

import (
	"context"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/rebalance/member"
	"github.com/millrace/millrace/topology"
)

// M-01, M-02, M-03, M-06: what is null on the wire and what is not.
func TestM01WireFields(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t, 1)
		f.handle(steady(7, 0, 1))
		p := f.start(func(c *Config) {
			c.InstanceID, c.Rack, c.Endpoint = "i-1", "r1", &Endpoint{Host: "h", Port: 80}
			c.Tags = map[string]string{"zone": "a", "cluster": "b"}
			c.PollInterval = 90 * time.Second
		})
		p.m.SetOffsets(map[topology.TaskID]int64{{Subtopology: 0, Partition: 3}: 5}, map[topology.TaskID]int64{})
		advance(12 * time.Second)
		p.stop()
		beats := f.take()
		if len(beats) != 5 {
			t.Fatalf("%d heartbeats: %+v", len(beats), beats)
		}

		join := beats[0].req
		if join.Version != 1 || join.Group != "app" || join.MemberID != "m" || join.MemberEpoch != 0 || join.EndpointInformationEpoch != -1 || join.RebalanceTimeoutMillis != 90000 {
			t.Errorf("join %+v", join)
		}
		if join.Topology == nil || join.Topology.Subtopologies[0].SourceTopics[0] != "in" || *join.ProcessID != "p" || *join.RackID != "r1" || join.UserEndpoint.Port != 80 {
			t.Errorf("join %+v", join)
		}
		if len(join.ClientTags) != 2 || join.ClientTags[0].Key != "cluster" {
			t.Errorf("tags of the join %+v", join.ClientTags)
		}
		if text(join.ActiveTasks)+text(join.StandbyTasks)+text(join.WarmupTasks) != "[][][]" {
			t.Errorf("lists of the join %v %v %v", join.ActiveTasks, join.StandbyTasks, join.WarmupTasks)
		}
		if join.TaskOffsets == nil || join.TaskEndOffsets == nil {
			t.Error("the join has no offsets")
		}

		for i, want := range []string{"[][][]", "[0_0 0_1][][]", "nullnullnull", "nullnullnull", "nullnullnull"} {
			req := beats[i].req
			if got := text(req.ActiveTasks) + text(req.StandbyTasks) + text(req.WarmupTasks); got != want {
				t.Errorf("heartbeat %d at %v has lists %s, want %s", i, beats[i].at, got, want)
			}
			if req.InstanceID == nil || *req.InstanceID != "i-1" {
				t.Errorf("heartbeat %d has no instance id", i)
			}
			if i > 0 && (req.Topology != nil || req.ProcessID != nil || req.UserEndpoint != nil || req.RackID != nil || req.ClientTags != nil || req.RebalanceTimeoutMillis != -1) {
				t.Errorf("heartbeat %d repeats what only a join tells: %+v", i, req)
			}
		}
		if o := beats[1].req.TaskOffsets; len(o) != 1 || o[0].SubtopologyID != "0" || o[0].Partition != 3 || o[0].Offset != 5 {
			t.Errorf("offsets %+v", o)
		}
		if beats[4].req.MemberEpoch != -2 {
			t.Errorf("a static member leaves with %d", beats[4].req.MemberEpoch)
		}
	})
}

// Without tags the join has an empty list, not null.
func TestM01NoTags(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t, 1)
		f.handle(steady(1))
		p := f.start(nil)
		join := f.take()[0].req
		if join.ClientTags == nil || join.InstanceID != nil || join.RackID != nil || join.UserEndpoint != nil {
			t.Errorf("join %+v", join)
		}
		p.stop()
	})
}

// M-05: a coordinator of Kafka 4.2 or 4.3. Offsets and the instance id stay null, also in the join.
func TestM05Version0(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t, 1)
		f.versions[0] = 0
		f.handle(steady(1, 0))
		p := f.start(func(c *Config) { c.InstanceID = "i-1" })
		p.m.SetOffsets(map[topology.TaskID]int64{{Subtopology: 0, Partition: 3}: 5}, map[topology.TaskID]int64{})
		advance(12 * time.Second)
		p.stop()
		beats := f.take()
		for i, b := range beats {
			if b.req.Version != 0 || b.req.TaskOffsets != nil || b.req.TaskEndOffsets != nil || b.req.InstanceID != nil {
				t.Errorf("heartbeat %d: %+v", i, b.req)
			}
		}
		if last := beats[len(beats)-1].req.MemberEpoch; last != -1 {
			t.Errorf("a dynamic member leaves with %d", last)
		}
	})
}

// M-13, M-08, B-035: the coordinator moves to an older broker. It is looked up at once and its versions are asked for again.
func TestM13CoordinatorMoves(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t, 2)
		var coordinator int32 = -1
		f.handle(func(node int32, req *heartbeatReq) (*heartbeatResp, error) {
			switch {
			case node != coordinator && coordinator >= 0:
				return refuse(req, kerr.NotCoordinator.Code, ""), nil
			case req.MemberEpoch == 0:
				return grant(req, 1, 0), nil
			}
			resp := ok(req, 1)
			resp.EndpointInformationEpoch = 9
			return resp, nil
		})
		f.describe = func(group string) *kmsg.StreamsGroupDescribeResponseGroup { return describeMember(group, "m", 1, 0) }
		p := f.start(nil)
		first := f.take()[0].node
		f.mu.Lock()
		coordinator = 1 - first
		f.versions[coordinator] = 0
		f.mu.Unlock()
		for f.cluster.CoordinatorFor("app") != coordinator {
			f.cluster.RehashCoordinators()
		}
		p.m.SetOffsets(map[topology.TaskID]int64{{Subtopology: 0, Partition: 3}: 5}, map[topology.TaskID]int64{})
		advance(4 * time.Second)
		before := time.Since(started)
		advance(2 * time.Second)
		beats := f.take()
		if len(beats) != 2 || beats[0].node != first || beats[1].node != coordinator {
			t.Fatalf("heartbeats %+v", beats)
		}
		if d := beats[1].at - beats[0].at; d != 0 {
			t.Errorf("the heartbeat followed after %v, before it was %v", d, before)
		}
		moved := beats[1].req
		if moved.Version != 0 || text(moved.ActiveTasks) != "[0_0]" || moved.TaskOffsets != nil || moved.EndpointInformationEpoch != -1 {
			t.Errorf("after the move %+v", moved)
		}
		p.wantCommands("assign [0_0]")
		if s := p.m.Status(); s.Coordinator != coordinator || s.Suspect {
			t.Errorf("status %+v", s)
		}
		p.stop()
	})
}

// M-61: a fresh cluster answers 15 to the first look-ups; no heartbeat before a node is named.
func TestM61FreshCluster(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t, 1)
		f.handle(steady(1, 0))
		n := 0
		f.found = func() int16 {
			if n++; n <= 3 {
				return kerr.CoordinatorNotAvailable.Code
			}
			return 0
		}
		p := f.start(nil)
		synctest.Wait()
		if beats := f.take(); len(beats) > 0 {
			t.Errorf("heartbeats without a coordinator: %+v", beats)
		}
		advance(2 * time.Second)
		if beats := f.take(); len(beats) != 2 || n != 4 {
			t.Errorf("%d heartbeats, %d look-ups", len(beats), n)
		}
		p.stop()
	})
}

// M-59: one client id, over reconnects.
func TestM59OneClientID(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t, 1)
		n := 0
		f.handle(func(_ int32, req *heartbeatReq) (*heartbeatResp, error) {
			if n++; n%3 == 0 {
				return nil, errClose
			}
			return steady(1, 0)(0, req)
		})
		f.describe = func(group string) *kmsg.StreamsGroupDescribeResponseGroup { return describeMember(group, "m", 1, 0) }
		p := f.start(nil)
		advance(time.Minute)
		p.stop()
		if len(f.clients) < 12 || len(f.clients) != len(f.take()) {
			t.Errorf("%d client ids", len(f.clients))
		}
		for i, id := range f.clients {
			if id != "app-1" {
				t.Errorf("heartbeat %d has client id %q", i, id)
			}
		}
	})
}

// M-04, M-33: the answer with a new task is lost, because the connection dies or because it never comes. The next heartbeat repeats the lists, and
// when its answer has none, describe tells the task.
func TestM33LostGrant(t *testing.T) {
	for _, tt := range []struct {
		name  string
		err   error
		after time.Duration // from the lost heartbeat to the next
	}{{"connection closed", errClose, time.Second}, {"no answer", nil, 11 * time.Second}} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t, 1)
				p := f.prepare(nil)
				lost := false
				f.handle(func(_ int32, req *heartbeatReq) (*heartbeatResp, error) {
					switch {
					case req.MemberEpoch == 0:
						return grant(req, 1, 0), nil
					case req.ActiveTasks == nil && !lost:
						lost = true // granted 0_1 with epoch 2
						return nil, tt.err
					case lost:
						return ok(req, 2), nil
					}
					return ok(req, 1), nil
				})
				f.describe = func(group string) *kmsg.StreamsGroupDescribeResponseGroup { return describeMember(group, "m", 2, 0, 1) }
				p.run(t.Context())
				advance(5 * time.Second)
				f.take()
				p.wantCommands("assign [0_0]")
				advance(tt.after)
				beats := f.take()
				if len(beats) == 0 || text(beats[0].req.ActiveTasks) != "[0_0]" || beats[0].req.TaskOffsets == nil || beats[0].req.MemberEpoch != 1 {
					t.Fatalf("heartbeats after the loss: %+v", beats)
				}
				p.wantCommands("assign [0_0 0_1]")
				p.stop()
			})
		})
	}
}

// M-34: the answer that takes a task away is lost; the epoch does not move.
func TestM34LostRevocation(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t, 1)
		lost, acknowledged := false, false
		f.handle(func(_ int32, req *heartbeatReq) (*heartbeatResp, error) {
			switch {
			case req.MemberEpoch == 0:
				return grant(req, 1, 0, 1), nil
			case req.ActiveTasks == nil && !lost:
				lost = true
				return nil, errClose
			case lost && text(req.ActiveTasks) == "[0_0]":
				acknowledged = true
				return ok(req, 2), nil
			}
			return ok(req, max(req.MemberEpoch, 1)), nil
		})
		f.describe = func(group string) *kmsg.StreamsGroupDescribeResponseGroup { return describeMember(group, "m", 1, 0) }
		p := f.start(nil)
		advance(8 * time.Second)
		p.wantCommands("assign [0_0 0_1]", "revoke [0_1]", "assign [0_0]")
		if _, epoch := p.m.Identity(); !acknowledged || epoch != 2 {
			t.Errorf("acknowledged %v, epoch %d", acknowledged, epoch)
		}
		p.stop()
	})
}

// M-35: describe is not allowed. All active tasks are closed before epoch 0 is sent.
func TestM35ControlledRejoin(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t, 1)
		lost := false
		f.handle(func(_ int32, req *heartbeatReq) (*heartbeatResp, error) {
			switch {
			case req.MemberEpoch == 0:
				return grant(req, 3, 0), nil
			case req.ActiveTasks == nil && !lost:
				lost = true
				return nil, errClose
			}
			return ok(req, 3), nil
		})
		f.describe = func(group string) *kmsg.StreamsGroupDescribeResponseGroup {
			g := kmsg.NewStreamsGroupDescribeResponseGroup()
			g.Group, g.ErrorCode = group, kerr.GroupAuthorizationFailed.Code
			return &g
		}
		p := f.start(nil)
		synctest.Wait()
		p.wantCommands("assign [0_0]")
		p.set(func() { p.hold = true })
		advance(8 * time.Second)
		p.wantCommands("revoke [0_0]")
		for _, b := range f.take()[1:] {
			if b.req.MemberEpoch == 0 {
				t.Error("a join while the task runs")
			}
		}
		p.answer(nil)
		p.wantCommands("assign [] standby [] warmup []", "assign [0_0]")
		if beats := f.take(); len(beats) != 2 || beats[0].req.MemberEpoch != 0 || text(beats[1].req.ActiveTasks) != "[0_0]" {
			t.Errorf("heartbeats %+v", beats)
		}
		p.stop()
	})
}

// M-56: nothing of an error response counts.
func TestM56ErrorResponseIsOnlyAnError(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t, 1)
		n := 0
		f.handle(func(_ int32, req *heartbeatReq) (*heartbeatResp, error) {
			if n++; n == 3 {
				return refuse(req, kerr.CoordinatorLoadInProgress.Code, ""), nil
			}
			resp, err := steady(4, 0)(0, req)
			resp.EndpointInformationEpoch = 6
			return status(resp, 6, "zone"), err
		})
		p := f.start(nil)
		advance(5050 * time.Millisecond)
		s := p.m.Status()
		if s.Epoch != 4 || len(s.Statuses) != 1 || s.Interval != 5*time.Second || s.Owned.String() != "0_0" || s.Err == nil {
			t.Errorf("status %+v", s)
		}
		advance(time.Second)
		beats := f.take()
		if last := beats[len(beats)-1].req; len(beats) != 4 || last.EndpointInformationEpoch != 6 || last.MemberEpoch != 4 {
			t.Errorf("heartbeats %+v", beats)
		}
		p.stop()
	})
}

// M-12: a loading coordinator is asked with backoff, also for the join.
func TestM12Loading(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t, 1)
		f.handle(func(_ int32, req *heartbeatReq) (*heartbeatResp, error) {
			return refuse(req, kerr.CoordinatorLoadInProgress.Code, ""), nil
		})
		p := f.start(nil)
		advance(6 * time.Second)
		beats := f.take()
		for i, want := range []time.Duration{100, 200, 400, 800, 1000, 1000} {
			want *= time.Millisecond
			if i+1 >= len(beats) {
				t.Fatalf("only %d heartbeats", len(beats))
			}
			if d := beats[i+1].at - beats[i].at; d < want*8/10 || d > want*12/10 {
				t.Errorf("delay %d is %v, want %v ± 20 %%", i, d, want)
			}
		}
		p.m.LeaveClosed(LeaveDefault)
		if err := p.wantEnd(time.Minute); err != nil {
			t.Error(err)
		}
	})
}

// M-47: the map of partitions by host.
func TestM47Endpoints(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t, 1)
		f.handle(func(_ int32, req *heartbeatReq) (*heartbeatResp, error) {
			resp, err := steady(1, 0)(0, req)
			if req.MemberEpoch == 0 {
				for _, p := range []int32{2, 0} {
					e := kmsg.NewStreamsGroupHeartbeatResponsePartitionsByUserEndpoint()
					e.UserEndpoint.Host, e.UserEndpoint.Port = "h", 80
					a := kmsg.NewStreamsGroupHeartbeatResponsePartitionsByUserEndpointActivePartition()
					a.Topic, a.Partitions = "in", []int32{p}
					e.ActivePartitions = append(e.ActivePartitions, a)
					resp.PartitionsByUserEndpoint = append(resp.PartitionsByUserEndpoint, e)
				}
			}
			return resp, err
		})
		p := f.start(nil)
		advance(6 * time.Second)
		e := p.m.Endpoints()
		if len(e) != 1 || e[0].Endpoint.String() != "h:80" || len(e[0].Active) != 1 || len(e[0].Active[0].Partitions) != 2 {
			t.Errorf("endpoints %+v", e)
		}
		p.stop()
	})
}

// M-61: all brokers are away for a while. Look-ups go on with the core's backoff, of at most a second, so that the member is back soon after they are.
func TestM61BrokersAway(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t, 2)
		away := false
		f.handle(func(_ int32, req *heartbeatReq) (*heartbeatResp, error) {
			if away {
				return nil, errClose
			}
			return steady(1, 0)(0, req)
		})
		f.describe = func(group string) *kmsg.StreamsGroupDescribeResponseGroup { return describeMember(group, "m", 1, 0) }
		p := f.start(func(c *Config) {
			c.Client = f.client(kgo.Dialer(func(ctx context.Context, network, address string) (net.Conn, error) {
				f.mu.Lock()
				gone := away
				f.mu.Unlock()
				if gone {
					return nil, &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
				}
				return f.network.DialContext(ctx, network, address)
			}))
		})
		advance(time.Second)
		f.mu.Lock()
		away = true
		f.mu.Unlock()
		advance(30 * time.Second)
		if s := p.m.Status(); s.Waiting != "coordinator" || s.State != member.Stable {
			t.Errorf("status %+v", s)
		}
		f.take()
		f.mu.Lock()
		away = false
		f.mu.Unlock()
		advance(1500 * time.Millisecond)
		if beats := f.take(); len(beats) == 0 || text(beats[0].req.ActiveTasks) != "[0_0]" {
			t.Errorf("heartbeats %+v, status %+v", beats, p.m.Status())
		}
		p.stop()
	})
}
