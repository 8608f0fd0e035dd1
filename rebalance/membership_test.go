package rebalance

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/rebalance/member"
)

// M-10, M-16: join, acknowledge at once, then by the interval; an empty assignment is a normal one (B-039).
func TestM16JoinEmpty(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t, 1)
		f.handle(steady(1))
		p := f.start(nil)
		advance(11 * time.Second)
		var times []time.Duration
		for _, b := range f.take() {
			times = append(times, b.at.Round(time.Second))
		}
		if got := fmt.Sprint(times); got != "[0s 0s 5s 10s]" {
			t.Errorf("heartbeats at %s", got)
		}
		p.wantCommands("assign [] standby [] warmup [] ready=true")
		if s := p.m.Status(); s.State != member.Stable || s.Waiting != "" {
			t.Errorf("status %+v", s)
		}
		p.stop()
	})
}

// M-25, M-11: heartbeats do not wait for a worker that gives up a task, and none omits it before. The acknowledgement follows at once.
func TestM25RevokeBeforeAcknowledge(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t, 1)
		taken := false
		f.handle(func(_ int32, req *heartbeatReq) (*heartbeatResp, error) {
			switch {
			case req.MemberEpoch == 0:
				return grant(req, 1, 0, 1), nil
			case req.ActiveTasks == nil && !taken:
				taken = true
				return grant(req, 1, 0), nil
			case text(req.ActiveTasks) == "[0_0]":
				return ok(req, 2), nil
			}
			return ok(req, req.MemberEpoch), nil
		})
		p := f.start(nil)
		synctest.Wait()
		p.set(func() { p.hold = true })
		advance(26 * time.Second)
		p.wantCommands("assign [0_0 0_1]", "revoke [0_1]")
		if s := p.m.Status(); s.State != member.Reconciling || s.Waiting != "worker to give up 0_1" {
			t.Errorf("status %+v", s)
		}
		beats := f.take()
		if len(beats) != 7 { // a join, an acknowledgement, and one every 5 s
			t.Errorf("%d heartbeats", len(beats))
		}
		for _, b := range beats[2:] {
			if b.req.ActiveTasks != nil {
				t.Errorf("lists at %v: %s", b.at, text(b.req.ActiveTasks))
			}
		}
		before := time.Since(started)
		p.answer(nil)
		p.wantCommands("assign [0_0]")
		if beats := f.take(); len(beats) != 1 || text(beats[0].req.ActiveTasks) != "[0_0]" || beats[0].at != before {
			t.Errorf("acknowledgement %+v", beats)
		}
		if _, epoch := p.m.Identity(); epoch != 2 {
			t.Errorf("epoch %d", epoch)
		}
		p.stop()
	})
}

// M-24: a revoke that fails is tried again, is visible, and acknowledges nothing.
func TestM24FailingRevoke(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t, 1)
		taken := false
		f.handle(func(_ int32, req *heartbeatReq) (*heartbeatResp, error) {
			if req.MemberEpoch == 0 {
				return grant(req, 1, 0, 1), nil
			} else if req.ActiveTasks == nil && !taken {
				taken = true
				return grant(req, 1, 0), nil
			}
			return ok(req, 1), nil
		})
		p := f.start(nil)
		synctest.Wait()
		p.set(func() { p.fail = errors.New("disk full") })
		advance(5050 * time.Millisecond)
		p.wantCommands("assign [0_0 0_1]", "revoke [0_1]")
		if s := p.m.Status(); s.Err == nil || !strings.Contains(s.Err.Error(), "disk full") {
			t.Errorf("error %v", s.Err)
		}
		p.set(func() { p.fail = nil })
		advance(time.Second)
		p.wantCommands("revoke [0_1]", "assign [0_0]")
		for _, b := range f.take()[3:] {
			if got := text(b.req.ActiveTasks); got != "[0_0]" {
				t.Errorf("lists %s", got)
			}
		}
		p.stop()
	})
}

// M-19, B-037: membership is lost while the worker revokes. The worker can see it at once, the command overtakes, and no join goes out before its answer.
func TestM19LostWhileRevoking(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t, 1)
		n := 0
		f.handle(func(_ int32, req *heartbeatReq) (*heartbeatResp, error) {
			switch n++; {
			case req.MemberEpoch == 0:
				return grant(req, int32(n), 0, 1), nil
			case n == 3:
				return grant(req, 1, 0), nil
			case n == 4:
				return refuse(req, kerr.UnknownMemberID.Code, "who?"), nil
			}
			return ok(req, req.MemberEpoch), nil
		})
		p := f.start(nil)
		synctest.Wait()
		p.set(func() { p.hold = true })
		advance(5 * time.Second)
		p.wantCommands("assign [0_0 0_1]", "revoke [0_1]")
		if p.m.Lost() {
			t.Error("lost already")
		}
		advance(5 * time.Second)
		if _, epoch := p.m.Identity(); !p.m.Lost() || epoch > 0 {
			t.Errorf("not lost, epoch %d", epoch)
		}
		advance(20 * time.Second)
		p.wantCommands("lose")
		if beats := f.take(); len(beats) != 4 {
			t.Errorf("heartbeats %+v", beats)
		}
		p.answer(nil)
		p.wantCommands("assign [0_0 0_1]")
		if p.m.Lost() {
			t.Error("still lost")
		}
		if beats := f.take(); len(beats) != 2 || beats[0].req.MemberEpoch != 0 || beats[0].req.MemberID != "m" {
			t.Errorf("heartbeats %+v", beats)
		}
		p.stop()
	})
}

// A loss overtakes commands that a busy worker has not taken.
func TestLoseOvertakes(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t, 1)
		n := 0
		f.handle(func(_ int32, req *heartbeatReq) (*heartbeatResp, error) {
			switch n++; {
			case req.MemberEpoch == 0:
				return grant(req, 1, 0), nil
			case n == 2:
				return refuse(req, kerr.FencedMemberEpoch.Code, ""), nil
			}
			return ok(req, req.MemberEpoch), nil
		})
		p := f.prepare(nil)
		done := make(chan error)
		go func() { done <- p.m.Run(t.Context()) }()
		advance(6 * time.Second) // nobody takes the assign of the join
		c := <-p.m.Commands()
		if _, ok := c.(Lose); !ok {
			t.Fatalf("got %#v", c)
		}
		c.Done(nil)
		c.Done(errors.New("once is enough"))
		if c, ok := (<-p.m.Commands()).(Assign); !ok || len(c.Active) != 1 {
			t.Errorf("got %#v", c)
		}
		p.m.LeaveClosed(LeaveDefault)
		if err := <-done; err != nil {
			t.Error(err)
		}
		if _, ok := <-p.m.Commands(); ok {
			t.Error("commands are open after Run")
		}
	})
}

// M-20, M-39: an error that is final. The worker loses its tasks, hears the error, and there is no further heartbeat.
func TestM20Fatal(t *testing.T) {
	for _, tt := range []struct {
		code    int16
		message string
		want    error
		text    string
	}{
		{kerr.InvalidRequest.Code, "Topology updates are not supported yet.", ErrTopologyDiffers, "use a new application id, or delete the group"},
		{kerr.GroupAuthorizationFailed.Code, "", kerr.GroupAuthorizationFailed, "READ is needed on the group"},
		{kerr.GroupMaxSizeReached.Code, "The streams group has reached its maximum capacity of 1 members.", kerr.GroupMaxSizeReached, "maximum capacity of 1"},
		{kerr.StreamsInvalidTopology.Code, "bad", kerr.StreamsInvalidTopology, `"bad"`},
		{kerr.UnsupportedVersion.Code, "", ErrUnsupported, "Kafka 4.2 or later"},
		{kerr.GroupIDNotFound.Code, "Group app is not a streams group.", ErrGroupOfAnotherType, "only an empty classic group"},
		{kerr.FencedInstanceID.Code, "", kerr.FencedInstanceID, "another process"},
	} {
		t.Run(kerr.TypedErrorForCode(tt.code).Message, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t, 1)
				f.handle(func(_ int32, req *heartbeatReq) (*heartbeatResp, error) { return refuse(req, tt.code, tt.message), nil })
				p := f.start(nil)
				err := p.wantEnd(time.Second)
				e, ok := errors.AsType[*Error](err)
				if !ok || e.Group != "app" || e.MemberID != "m" || !errors.Is(err, tt.want) || !errors.Is(err, kerr.ErrorForCode(tt.code)) {
					t.Errorf("Run: %v", err)
				}
				for _, want := range []string{tt.text, fmt.Sprintf("(%d)", tt.code), kerr.TypedErrorForCode(tt.code).Message, `group "app"`, "member m at epoch 0"} {
					if !strings.Contains(err.Error(), want) {
						t.Errorf("%v does not say %q", err, want)
					}
				}
				p.wantCommands("lose", "failed fatal=true: rebalance: group")
				advance(time.Minute)
				if beats := f.take(); len(beats) != 1 {
					t.Errorf("heartbeats after the end: %+v", beats)
				}
				if _, epoch := p.m.Identity(); epoch > 0 || p.m.Status().State != member.Fatal {
					t.Errorf("status %+v", p.m.Status())
				}
			})
		})
	}
}

// M-20: brokers that do not know the key.
func TestM20NoStreamsGroups(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t, 1)
		f.versions[0] = -1
		p := f.start(nil)
		if err := p.wantEnd(time.Second); !errors.Is(err, ErrUnsupported) {
			t.Errorf("Run: %v", err)
		}
	})
}

// A worker that is stuck does not keep Run from returning a failure for ever.
func TestFatalWithStuckWorker(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t, 1)
		f.handle(func(_ int32, req *heartbeatReq) (*heartbeatResp, error) {
			if req.MemberEpoch > 0 && req.ActiveTasks == nil {
				return refuse(req, kerr.InvalidRequest.Code, ""), nil
			}
			return steady(1, 0)(0, req)
		})
		p := f.start(nil)
		synctest.Wait()
		p.set(func() { p.hold = true })
		advance(34 * time.Second)
		select {
		case <-p.done:
			t.Fatal("Run did not wait for the worker")
		default:
		}
		if err := p.wantEnd(2 * time.Second); err == nil {
			t.Error("no error")
		}
	})
}

// M-21: a topic is not authorized: the worker shall stop, heartbeats go on.
func TestM21TopicDenied(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t, 1)
		f.handle(func(_ int32, req *heartbeatReq) (*heartbeatResp, error) {
			return refuse(req, kerr.TopicAuthorizationFailed.Code, ""), nil
		})
		p := f.start(nil)
		advance(10 * time.Second)
		p.wantCommands("failed fatal=false: rebalance: group \"app\": member m at epoch 0: TOPIC_AUTHORIZATION_FAILED (29) (DESCRIBE is needed")
		if n := len(f.take()); n < 10 {
			t.Errorf("%d heartbeats", n)
		}
		p.stop()
	})
}

// M-22: an unexplained error is retried for a session timeout.
func TestM22Unexplained(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t, 1)
		f.handle(func(_ int32, req *heartbeatReq) (*heartbeatResp, error) { return refuse(req, 1234, ""), nil })
		p := f.start(nil)
		advance(44 * time.Second)
		select {
		case <-p.done:
			t.Fatal("no patience")
		default:
		}
		if err := p.wantEnd(3 * time.Second); err == nil || !strings.Contains(err.Error(), "error code 1234") {
			t.Errorf("Run: %v", err)
		}
	})
}

// M-14, M-15, B-038: the worker is stuck for longer than the poll limit: one leave at the limit, silence until it moves, then a join.
func TestM14PollLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t, 1)
		f.handle(steady(1, 0))
		p := f.start(func(c *Config) { c.PollInterval = 12 * time.Second })
		advance(20 * time.Second)
		f.take()
		p.wantCommands("assign [0_0]")
		if s := p.m.Status(); s.State != member.Stable {
			t.Fatalf("status %+v", s)
		}
		p.set(func() { p.silent, p.hold = true, true })
		stuck := time.Since(started)
		advance(2 * time.Minute)
		beats := f.take()
		last := beats[len(beats)-1]
		if last.req.MemberEpoch != -1 || last.at-stuck < 11*time.Second || last.at-stuck > 13*time.Second {
			t.Errorf("last heartbeat %v after the worker stuck: %+v", last.at-stuck, last.req)
		}
		p.wantCommands("lose")
		if s := p.m.Status(); s.State != member.Stale || !p.m.Lost() {
			t.Errorf("status %+v", s)
		}
		p.answer(nil)
		if beats := f.take(); len(beats) > 0 {
			t.Errorf("heartbeats before the worker polled: %+v", beats)
		}
		p.set(func() { p.silent = false })
		advance(time.Second)
		if beats := f.take(); len(beats) != 2 || beats[0].req.MemberEpoch != 0 {
			t.Errorf("heartbeats %+v", beats)
		}
		p.wantCommands("assign [0_0]")
		p.stop()
	})
}

// M-31, M-52: a commit is refused: nothing may be committed from that moment, tasks are lost, the member leaves, then joins again.
func TestM52Migrated(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t, 1)
		f.handle(steady(3, 0))
		p := f.start(nil)
		advance(time.Second)
		if id, epoch := p.m.Identity(); id != "m" || epoch != 3 {
			t.Fatalf("identity %s %d", id, epoch)
		}
		f.take()
		p.wantCommands("assign [0_0]")
		p.set(func() { p.hold = true })
		p.m.Migrated()
		p.wantCommands("lose")
		if _, epoch := p.m.Identity(); epoch > 0 {
			t.Errorf("epoch %d", epoch)
		}
		if beats := f.take(); len(beats) > 0 {
			t.Errorf("heartbeats %+v", beats)
		}
		p.answer(nil)
		beats := f.take()
		if len(beats) != 3 || beats[0].req.MemberEpoch != -1 || beats[1].req.MemberEpoch != 0 || beats[1].req.MemberID != "m" {
			t.Errorf("heartbeats %+v", beats)
		}
		p.wantCommands("assign [0_0]")
		p.stop()
	})
}

// M-52: the same from within a revoke, whose answer says so.
func TestM52MigratedWhileRevoking(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t, 1)
		taken := false
		f.handle(func(_ int32, req *heartbeatReq) (*heartbeatResp, error) {
			if req.MemberEpoch > 0 && req.ActiveTasks == nil && !taken {
				taken = true
				return grant(req, 3), nil
			}
			return steady(3, 0)(0, req)
		})
		p := f.start(nil)
		synctest.Wait()
		p.set(func() { p.fail = fmt.Errorf("commit: %w", ErrMigrated) })
		advance(5 * time.Second)
		got := p.commands()
		if len(got) < 3 || !strings.HasPrefix(got[1], "revoke [0_0]") || got[2] != "lose" {
			t.Errorf("commands %q", got)
		}
		p.set(func() { p.fail = nil })
		p.stop()
	})
}

// M-51: member id and epoch are one pair, also while they change.
func TestM51IdentityIsOnePair(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t, 1)
		var epoch int32
		f.handle(func(_ int32, req *heartbeatReq) (*heartbeatResp, error) {
			if req.MemberEpoch < 0 {
				return ok(req, 0), nil
			}
			epoch++
			if req.MemberEpoch == 0 {
				return grant(req, epoch, 0), nil
			}
			if epoch%3 == 0 {
				return refuse(req, kerr.UnknownMemberID.Code, ""), nil
			}
			return ok(req, epoch), nil
		})
		p := f.start(nil)
		var wg sync.WaitGroup
		wg.Go(func() {
			for range 2000 {
				<-time.After(10 * time.Millisecond)
				id, e := p.m.Identity()
				if s := p.m.Status(); id != "m" || e > 0 && s.Epoch <= 0 && !p.m.Lost() && s.State == member.Fenced {
					t.Errorf("identity %s %d, status %+v", id, e, s)
				}
			}
		})
		wg.Wait()
		p.stop()
		if epoch < 8 {
			t.Errorf("epoch %d", epoch)
		}
	})
}

// M-48: ways to leave.
func TestM48Leave(t *testing.T) {
	for _, tt := range []struct {
		name     string
		instance string
		mode     LeaveMode
		closed   bool
		epoch    int32 // 0: nothing is sent
	}{
		{"dynamic", "", LeaveDefault, false, -1},
		{"dynamic closed", "", LeaveDefault, true, -1},
		{"dynamic remains", "", RemainInGroup, true, 0},
		{"static", "i", LeaveDefault, false, -2},
		{"static for good", "i", LeaveGroup, true, -1},
		{"static remains", "i", RemainInGroup, true, -2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t, 1)
				f.handle(steady(1, 0))
				p := f.start(func(c *Config) { c.InstanceID = tt.instance })
				advance(time.Second)
				p.commands()
				f.take()
				if tt.closed {
					p.m.LeaveClosed(tt.mode)
				} else {
					p.set(func() { p.hold = true })
					p.m.Leave(tt.mode)
					p.wantCommands("revoke [0_0]")
					if beats := f.take(); len(beats) > 0 {
						t.Errorf("left before the tasks were given up: %+v", beats)
					}
					p.answer(nil)
				}
				if err := p.wantEnd(time.Second); err != nil {
					t.Error(err)
				}
				beats := f.take()
				if tt.epoch == 0 && len(beats) > 0 || tt.epoch != 0 && (len(beats) != 1 || beats[0].req.MemberEpoch != tt.epoch || beats[0].req.ActiveTasks != nil) {
					t.Errorf("leave %+v", beats)
				}
				p.wantCommands()
			})
		})
	}
}

// M-48: the answer to a leave is waited for, but not for ever, and an error ends it.
func TestM48LeaveAnswers(t *testing.T) {
	for _, tt := range []struct {
		name  string
		code  int16 // 0: no answer
		takes time.Duration
	}{{"no answer", 0, 10 * time.Second}, {"error", kerr.UnknownMemberID.Code, 0}} {
		t.Run(tt.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				f := newFake(t, 1)
				f.handle(func(_ int32, req *heartbeatReq) (*heartbeatResp, error) {
					switch {
					case req.MemberEpoch >= 0:
						return steady(1, 0)(0, req)
					case tt.code != 0:
						return refuse(req, tt.code, ""), nil
					}
					return nil, nil
				})
				p := f.start(func(c *Config) { c.LeaveTimeout = 10 * time.Second })
				advance(time.Second)
				before := time.Now()
				p.m.Leave(LeaveDefault)
				if err := p.wantEnd(time.Minute); err != nil {
					t.Error(err)
				}
				if d := time.Since(before); d != tt.takes {
					t.Errorf("took %v", d)
				}
			})
		})
	}
}

// M-41: status 4 stops the application; the own wish is told in every later heartbeat.
func TestM41Shutdown(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t, 1)
		f.handle(func(_ int32, req *heartbeatReq) (*heartbeatResp, error) {
			resp, err := steady(1, 0)(0, req)
			if req.ShutdownApplication && req.MemberEpoch > 0 {
				status(resp, 4, "m asked")
			}
			return resp, err
		})
		p := f.start(nil)
		advance(time.Second)
		f.take()
		p.m.RequestShutdown()
		advance(6 * time.Second)
		p.wantCommands("assign [0_0]", "stop application: m asked")
		p.stop()
		beats := f.take()
		if len(beats) != 3 || beats[0].at != time.Second {
			t.Errorf("heartbeats %+v", beats)
		}
		for _, b := range beats {
			if !b.req.ShutdownApplication {
				t.Errorf("no flag at %v", b.at)
			}
		}
	})
}

// M-40: missing source topics fail the worker after two intervals; membership goes on until it leaves.
func TestM40MissingSourceTopics(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t, 1)
		f.handle(func(_ int32, req *heartbeatReq) (*heartbeatResp, error) {
			resp, err := steady(1)(0, req)
			if req.MemberEpoch >= 0 {
				status(resp, 1, "Source topics in are missing.")
			}
			return resp, err
		})
		p := f.start(nil)
		advance(9 * time.Second)
		p.wantCommands("assign [] standby [] warmup [] ready=false")
		advance(2 * time.Second)
		got := p.commands()
		if len(got) != 1 || !strings.Contains(got[0], "source topics are missing: Source topics in are missing.") || !errors.Is(p.m.Status().Err, ErrMissingSourceTopics) {
			t.Errorf("commands %v, status %+v", got, p.m.Status())
		}
		p.stop()
	})
}

// M-58: with an endpoint, brokers answer UNKNOWN_SERVER_ERROR while a source topic is missing. The member finds out itself, gives up its tasks, does not
// end, and gets them back when the topic is there.
func TestM58EndpointDefect(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t, 1)
		f.handle(func(_ int32, req *heartbeatReq) (*heartbeatResp, error) {
			if req.MemberEpoch > 0 && f.cluster.TopicInfo("in") == nil {
				return refuse(req, kerr.UnknownServerError.Code, ""), nil
			}
			return steady(2, 0)(0, req)
		})
		f.describe = func(group string) *kmsg.StreamsGroupDescribeResponseGroup { return describeMember(group, "m", 2, 0) }
		p := f.start(func(c *Config) { c.Endpoint = &Endpoint{Host: "h", Port: 80} })
		advance(time.Second)
		p.wantCommands("assign [0_0]")
		if err := f.cluster.DeleteTopic("in"); err != nil {
			t.Fatal(err)
		}
		advance(5 * time.Minute)
		p.wantCommands("revoke [0_0]", "assign [] standby [] warmup [] ready=false", "failed fatal=false: rebalance: group \"app\": member m at epoch 2: source topics are missing: in")
		if s := p.m.Status(); s.Waiting != "source topics" {
			t.Errorf("waiting for %s", s.Waiting)
		}
		if err := f.cluster.CreateTopic("in", 4, nil); err != nil {
			t.Fatal(err)
		}
		advance(10 * time.Second)
		got := p.commands()
		if len(got) == 0 || !strings.HasPrefix(got[len(got)-1], "assign [0_0] standby [] warmup [] ready=true") {
			t.Errorf("commands %q", got)
		}
		p.stop()
	})
}

// Ending the context abandons the member: no leave, and whatever is under way ends.
func TestContextEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		f := newFake(t, 1)
		f.handle(func(_ int32, req *heartbeatReq) (*heartbeatResp, error) {
			if req.ActiveTasks == nil {
				return nil, nil
			}
			return steady(1, 0)(0, req)
		})
		p := f.prepare(nil)
		ctx, cancel := context.WithCancelCause(t.Context())
		p.run(ctx)
		advance(6 * time.Second)
		cause := errors.New("enough")
		cancel(cause)
		if err := p.wantEnd(time.Second); !errors.Is(err, cause) {
			t.Errorf("Run: %v", err)
		}
		if beats := f.take(); len(beats) != 3 {
			t.Errorf("heartbeats %+v", beats)
		}
		if _, epoch := p.m.Identity(); epoch > 0 {
			t.Errorf("epoch %d", epoch)
		}
		if err := p.m.Run(t.Context()); err == nil {
			t.Error("Run can be called twice")
		}
	})
}

// Everything can be called at any time, from anywhere.
func TestCallsAtAnyTime(t *testing.T) {
	for round := range 20 {
		bubble(t, func(t *testing.T) {
			f := newFake(t, 1)
			f.handle(steady(1, 0))
			p := f.prepare(nil)
			calls := []func(){
				p.m.Poll, p.m.Migrated, p.m.RequestShutdown, func() { p.m.Identity() }, func() { p.m.Status() }, func() { p.m.Lost() },
				func() { p.m.Endpoints() }, func() { p.m.SetOffsets(nil, nil) },
			}
			if round%4 == 0 {
				p.m.Leave(LeaveDefault)
			}
			var wg sync.WaitGroup
			for i, call := range calls {
				wg.Go(func() {
					for range 5 {
						<-time.After(time.Duration(round*i) * 10 * time.Millisecond)
						call()
					}
				})
			}
			p.run(t.Context())
			wg.Wait()
			p.m.Leave(LeaveMode(round % 3))
			p.m.LeaveClosed(LeaveDefault)
			if err := p.wantEnd(2 * time.Minute); err != nil {
				t.Errorf("Run: %v", err)
			}
			for _, call := range calls {
				call()
			}
		})
	}
}

// M-60: New refuses everything that is wrong, at once.
func TestM60NewValidates(t *testing.T) {
	_, err := New(Config{PollInterval: -1})
	for _, want := range []string{"no client", "group is blank", "process id is blank", "poll interval", "no sub-topologies"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not say %q", err, want)
		}
	}
}
