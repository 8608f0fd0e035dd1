//go:build kafka

package chaos

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/integration/kafka"
	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/serde"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// stage is a broker with the topics of the tests, and a producer that counts what it has written.
type stage struct {
	t       *testing.T
	ctx     context.Context
	cluster *kafka.Cluster
	brokers string
	cl      *kgo.Client
	adm     *kadm.Client
	sent    []int64 // by key
	cancel  context.CancelFunc
	wg      sync.WaitGroup
}

func set(t *testing.T, o kafka.Options) *stage {
	t.Helper()
	if o.Config == nil {
		o.Config = map[string]string{}
	}
	for k, v := range map[string]string{
		"group.streams.session.timeout.ms": "2000", "group.streams.heartbeat.interval.ms": "200", "group.streams.assignment.interval.ms": "0",
	} {
		if _, ok := o.Config[k]; !ok {
			o.Config[k] = v
		}
	}
	s := &stage{t: t, cluster: kafka.Test(t, o), sent: make([]int64, keys)}
	s.brokers = strings.Join(s.cluster.Addresses(), ",")
	ctx, cancel := context.WithTimeout(context.Background(), 4*time.Minute)
	t.Cleanup(cancel)
	s.ctx = ctx
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.cluster.Addresses()...), kgo.DefaultProduceTopic(input.Name()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	s.cl, s.adm = cl, kadm.NewClient(cl)
	if _, err := s.adm.CreateTopics(ctx, partitions, -1, nil, input.Name(), output.Name()); err != nil {
		t.Fatal(err)
	}
	return s
}

// produce writes records without pause until rest is called.
func (s *stage) produce(every time.Duration) {
	producing, cancel := context.WithCancel(s.ctx)
	s.cancel = cancel
	s.wg.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-producing.Done():
				return
			case <-tick.C:
				k := i % keys
				s.cl.Produce(s.ctx, &kgo.Record{Key: fmt.Appendf(nil, "key-%d", k), Value: []byte("x")}, func(_ *kgo.Record, err error) {
					if err != nil {
						s.t.Errorf("produce: %v", err)
						return
					}
					atomic.AddInt64(&s.sent[k], 1)
				})
			}
		}
	})
}

// rest ends the writing.
func (s *stage) rest() {
	s.cancel()
	s.wg.Wait()
	if err := s.cl.Flush(s.ctx); err != nil {
		s.t.Fatal(err)
	}
}

// wantExact checks that each key has every count up to that of its records exactly once.
func (s *stage) wantExact() {
	s.t.Helper()
	counted, folded := readCounts(s.ctx, s.t, s.cluster.Addresses())
	for k, n := range s.sent {
		key := fmt.Sprintf("key-%d", k)
		if int64(len(counted[key])) != n || folded[key] != n {
			s.t.Errorf("%s: %d results and %d in the changelog for %d records", key, len(counted[key]), folded[key], n)
		}
		for i := int64(1); i <= n; i++ {
			if times := counted[key][i]; times != 1 {
				s.t.Errorf("%s: the count %d was written %d times", key, i, times)
				break
			}
		}
	}
}

// members asks the coordinator for the number of active tasks of each member.
func (s *stage) members() (tasks map[string]int) {
	req := kmsg.NewPtrStreamsGroupDescribeRequest()
	req.Groups = []string{application}
	resp, err := req.RequestWith(s.ctx, s.cl)
	if err != nil || len(resp.Groups) != 1 || resp.Groups[0].ErrorCode != 0 {
		return nil
	}
	tasks = map[string]int{}
	for _, m := range resp.Groups[0].Members {
		for _, t := range m.Assignment.ActiveTasks {
			tasks[m.MemberID] += len(t.Partitions)
		}
	}
	return tasks
}

// await waits until cond holds.
func (s *stage) await(what string, limit time.Duration, cond func() bool) time.Duration {
	s.t.Helper()
	began := time.Now()
	for !cond() {
		select {
		case <-time.After(50 * time.Millisecond):
		case <-s.ctx.Done():
		}
		if time.Since(began) > limit {
			s.t.Fatalf("%s: not within %v", what, limit)
		}
	}
	return time.Since(began)
}

func sum(tasks map[string]int) (n int) {
	for _, t := range tasks {
		n += t
	}
	return n
}

// M-53, B-030: one of two processes is killed: the other one gets all tasks within the session timeout, and its open transactions hold nobody up for longer
// than theirs.
func TestM53OneOfTwoIsKilled(t *testing.T) {
	s := set(t, kafka.Options{})
	s.produce(2 * time.Millisecond)
	first, second := start(t, t.TempDir(), s.brokers), start(t, t.TempDir(), s.brokers)
	first.await(t)
	second.await(t)
	s.await("tasks on both", 20*time.Second, func() bool { m := s.members(); return len(m) == 4 && sum(m) == partitions })
	first.kill()
	took := s.await("all tasks on the other", 10*time.Second, func() bool { m := s.members(); return len(m) == 2 && sum(m) == partitions })
	t.Logf("the other process had all tasks after %v", took)
	s.rest()
	began := time.Now()
	awaitNoLag(s.ctx, t, s.adm, second)
	t.Logf("no lag after %v", time.Since(began))
	second.stop(t)
	s.wantExact()
}

// M-54: the only broker, and with it the coordinator, restarts in the middle of a rebalance. All tasks run again, none twice, and the result is exact.
func TestM54CoordinatorRestartsDuringRebalance(t *testing.T) {
	s := set(t, kafka.Options{})
	s.produce(2 * time.Millisecond)
	first := start(t, t.TempDir(), s.brokers)
	first.await(t)
	second := start(t, t.TempDir(), s.brokers)
	s.await("the second process to join", 20*time.Second, func() bool { return len(s.members()) > 2 })
	node := s.cluster.Nodes[0]
	if !node.Running() {
		t.Fatal("this test needs a broker of its own that it can stop; run it without MILLRACE_BROKERS")
	}
	if err := node.Stop(); err != nil {
		t.Fatal(err)
	}
	if err := node.Restart(s.ctx); err != nil {
		t.Fatal(err)
	}
	second.await(t)
	s.await("tasks on both", 30*time.Second, func() bool { m := s.members(); return len(m) == 4 && sum(m) == partitions })
	s.rest()
	awaitNoLag(s.ctx, t, s.adm, second)
	first.stop(t)
	second.stop(t)
	s.wantExact()
}

// B-027, M-52: a process stands still in the middle of a transaction until another has its tasks. When it wakes up its commit is refused, and it works on
// without a restart.
func TestB027Zombie(t *testing.T) {
	s := set(t, kafka.Options{})
	s.produce(2 * time.Millisecond)
	first, second := start(t, t.TempDir(), s.brokers), start(t, t.TempDir(), s.brokers)
	first.await(t)
	second.await(t)
	s.await("tasks on both", 20*time.Second, func() bool { m := s.members(); return len(m) == 4 && sum(m) == partitions })
	first.freeze(t)
	s.await("all tasks on the other", 20*time.Second, func() bool { m := s.members(); return len(m) == 2 && sum(m) == partitions })
	<-time.After(2 * time.Second)
	first.thaw(t)
	s.await("tasks on both again", 30*time.Second, func() bool { m := s.members(); return len(m) == 4 && sum(m) == partitions })
	s.rest()
	awaitNoLag(s.ctx, t, s.adm, first)
	first.stop(t)
	second.stop(t)
	s.wantExact()
}

// B-013: a changelog that ends in the marker of a transaction. The state directory is lost, and there is no new input: the process runs all the same.
func TestB013MarkerAtTheEnd(t *testing.T) {
	s := set(t, kafka.Options{})
	one := &kgo.Record{Key: []byte("key-0"), Value: []byte("x")}
	if err := s.cl.ProduceSync(s.ctx, one).FirstErr(); err != nil {
		t.Fatal(err)
	}
	s.sent[0] = 1
	v := start(t, t.TempDir(), s.brokers)
	v.await(t)
	awaitNoLag(s.ctx, t, s.adm, v)
	v.stop(t)
	began := time.Now()
	v = start(t, t.TempDir(), s.brokers)
	v.await(t)
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("it took %v until the process ran", took)
	}
	v.stop(t)
	s.wantExact()
}

// M-64, M-62: input that leads to no output is committed under exactly once, is seen by a stable fetch, and survives the abort of a later transaction. Members
// that join meanwhile, within the assignment interval, stop nothing.
func TestM64OffsetsWithoutOutput(t *testing.T) {
	s := set(t, kafka.Options{Config: map[string]string{"group.streams.assignment.interval.ms": "3000"}})
	run := func(dir string) (stop func()) {
		b := streams.NewBuilder()
		b.Stream(streams.NewTopic(input.Name(), serde.String, serde.String)).Filter(func(_, v string) bool { return v != "x" }).
			Peek(func(_, v string) {
				if v == "panic" {
					panic("boom")
				}
			}).GroupByKey().Count("counts", streams.NoCaching).ToStream().To(output)
		topology, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		app, err := streams.New(streams.Config{
			ApplicationID: application, Brokers: s.cluster.Addresses(), StateDir: dir, Workers: 1, Guarantee: streams.ExactlyOnce,
		}, topology)
		if err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- app.Run(context.Background()) }()
		if err := app.Wait(s.ctx, streams.Running); err != nil {
			t.Fatal(err)
		}
		return func() {
			if err := app.Close(s.ctx); err != nil {
				t.Error(err)
			}
			if err := <-done; err != nil && !strings.Contains(err.Error(), "boom") {
				t.Error(err)
			}
		}
	}
	send := func(values ...string) {
		for _, v := range values {
			if err := s.cl.ProduceSync(s.ctx, &kgo.Record{Key: []byte("key-0"), Value: []byte(v)}).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
	}
	stable := func() (n int64) {
		req := kmsg.NewPtrOffsetFetchRequest()
		req.RequireStable = true
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group = application
		req.Groups = append(req.Groups, g)
		resp, err := req.RequestWith(s.ctx, s.cl)
		if err != nil {
			t.Fatal(err)
		}
		for _, topic := range resp.Groups[0].Topics {
			for _, p := range topic.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return -1
				}
				n += max(0, p.Offset)
			}
		}
		return n
	}
	stopFirst := run(t.TempDir())
	send("x", "x", "x")
	s.await("three offsets", 10*time.Second, func() bool { return stable() == 3 })
	stopSecond := run(t.TempDir()) // within the assignment interval
	send("x")
	s.await("four offsets", 10*time.Second, func() bool { return stable() == 4 })
	send("pass", "x", "x")
	s.await("seven offsets", 10*time.Second, func() bool { return stable() == 7 })
	send("panic") // whoever has the partition aborts
	s.await("a member to leave", 20*time.Second, func() bool { return len(s.members()) < 2 })
	stopFirst()
	stopSecond()
	s.await("seven offsets still", 10*time.Second, func() bool { return stable() == 7 })
}
