package apptest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/integration/devbroker"
	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/serde"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// countEach counts records by key without a cache, so that each key gets every number from 1 on, once.
func countEach(b *streams.Builder) {
	b.Stream(lines).GroupByKey().Count("counts", streams.NoCaching).ToStream().To(counts)
}

func exactlyOnce(c *streams.Config) { c.Guarantee = streams.ExactlyOnce }

// traffic writes records for ten keys until it is stopped, one every few milliseconds.
type traffic struct {
	stop func() map[string]int64 // returns how many were written, by key
}

func startTraffic(t *testing.T, b *devbroker.Broker, every time.Duration) traffic {
	cl := client(t, b, kgo.ProducerLinger(0))
	done := make(chan struct{})
	sent := map[string]int64{}
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			case <-time.After(every):
				key := fmt.Sprintf("key-%d", i%10)
				if err := cl.ProduceSync(context.Background(), &kgo.Record{Topic: "lines", Key: []byte(key), Value: []byte("x")}).FirstErr(); err != nil {
					t.Errorf("produce: %v", err)
					return
				}
				sent[key]++
			}
		}
	})
	stop := sync.OnceValue(func() map[string]int64 {
		close(done)
		wg.Wait()
		cl.Close()
		return sent
	})
	t.Cleanup(func() { stop() })
	return traffic{stop}
}

// wantEach checks that the output holds, of each key, every number up to that of its records exactly once and in order.
func wantEach(t *testing.T, b *devbroker.Broker, sent map[string]int64) {
	t.Helper()
	latest(t, b, "counts", sent)
	cl := client(t, b, kgo.ConsumeTopics("counts"), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer cl.Close()
	last := map[string]int64{}
	for left := len(sent); left > 0; {
		fetches := cl.PollFetches(context.Background())
		if err := fetches.Err(); err != nil {
			t.Fatal(err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			n, err := serde.Int64.Decode(serde.Place{}, r.Value)
			if key := string(r.Key); err != nil || n != last[key]+1 {
				t.Errorf("%s: %d follows %d (%v)", key, n, last[key], err)
			}
			last[string(r.Key)] = n
			if n == sent[string(r.Key)] {
				left--
			}
		})
		if t.Failed() {
			return
		}
	}
}

// awaitCommitted waits until the group's offsets of a topic sum up to n.
func awaitCommitted(t *testing.T, b *devbroker.Broker, group, topic string, n int64) {
	t.Helper()
	var at int64
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); <-time.After(50 * time.Millisecond) {
		if at = committed(t, b, group)[topic]; at == n {
			return
		}
	}
	t.Fatalf("%d is committed, want %d", at, n)
}

// B-028, M-26, M-51, M-63: instances come and go in the middle of transactions. None fails, and the result is exact. F-188.
func TestB028InstancesComeAndGo(t *testing.T) {
	bubble(t, func(t *testing.T, b *devbroker.Broker) {
		topology := build(t, countEach)
		first, stopFirst := app(t, b, topology, exactlyOnce)
		await(t, first, streams.Running)
		input := startTraffic(t, b, 3*time.Millisecond)
		random := rand.New(rand.NewPCG(28, 0))
		for range 8 {
			second, stop := app(t, b, topology, exactlyOnce)
			await(t, second, streams.Running)
			<-time.After(time.Duration(random.IntN(700)) * time.Millisecond)
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			<-time.After(time.Duration(random.IntN(700)) * time.Millisecond)
		}
		sent := input.stop()
		wantEach(t, b, sent)
		await(t, first, streams.Running)
		if err := stopFirst(); err != nil {
			t.Error(err)
		}
	})
}

// M-31, M-52: the group removes members, and forgets what it told others, while they work. They come back by themselves, and the result is exact.
func TestM52MembersAreRemoved(t *testing.T) {
	bubble(t, func(t *testing.T, b *devbroker.Broker) {
		a, stop := app(t, b, build(t, countEach), exactlyOnce)
		await(t, a, streams.Running)
		input := startTraffic(t, b, 3*time.Millisecond)
		for i := range 9 {
			<-time.After(700 * time.Millisecond)
			for _, w := range a.Status().Workers[:1+i%2] {
				switch i % 3 {
				case 0:
					if err := b.ExpireMember("app", w.Member); err != nil {
						t.Error(err)
					}
				case 1:
					b.FenceMember("app", w.Member)
				case 2:
					if err := b.MoveCoordinator("app"); err != nil {
						t.Error(err)
					}
				}
			}
		}
		wantEach(t, b, input.stop())
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// M-65: a broker that is still busy with the last transaction is asked again; M-52: one that refuses the offsets makes the member come back.
func TestM65TransactionalCommitFails(t *testing.T) {
	for _, code := range []*kerr.Error{kerr.ConcurrentTransactions, kerr.CoordinatorLoadInProgress, kerr.StaleMemberEpoch, kerr.IllegalGeneration, kerr.UnknownMemberID,
		kerr.TransactionAbortable, kerr.InvalidProducerEpoch} {
		t.Run(code.Message, func(t *testing.T) {
			bubble(t, func(t *testing.T, b *devbroker.Broker) {
				a, stop := app(t, b, build(t, countEach), exactlyOnce)
				await(t, a, streams.Running)
				input := startTraffic(t, b, 3*time.Millisecond)
				<-time.After(time.Second)
				var mu sync.Mutex
				failed := 0
				b.Cluster().ControlKey(int16(kmsg.TxnOffsetCommit), func(r kmsg.Request) (kmsg.Response, error, bool) {
					b.Cluster().KeepControl()
					mu.Lock()
					defer mu.Unlock()
					if failed == 5 {
						return nil, nil, false
					}
					failed++
					req := r.(*kmsg.TxnOffsetCommitRequest)
					resp := req.ResponseKind().(*kmsg.TxnOffsetCommitResponse)
					for _, topic := range req.Topics {
						rt := kmsg.NewTxnOffsetCommitResponseTopic()
						rt.Topic, rt.TopicID = topic.Topic, topic.TopicID
						for _, p := range topic.Partitions {
							rp := kmsg.NewTxnOffsetCommitResponseTopicPartition()
							rp.Partition, rp.ErrorCode = p.Partition, code.Code
							rt.Partitions = append(rt.Partitions, rp)
						}
						resp.Topics = append(resp.Topics, rt)
					}
					return resp, nil, true
				})
				<-time.After(5 * time.Second)
				wantEach(t, b, input.stop())
				if err := stop(); err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				if failed != 5 {
					t.Errorf("%d commits failed, want 5", failed)
				}
			})
		})
	}
}

// B-028: the answer to the end of a transaction is lost, before or after the broker did it.
func TestB028EndOfTransactionIsLost(t *testing.T) {
	bubble(t, func(t *testing.T, b *devbroker.Broker) {
		a, stop := app(t, b, build(t, countEach), exactlyOnce)
		await(t, a, streams.Running)
		input := startTraffic(t, b, 3*time.Millisecond)
		<-time.After(time.Second)
		var mu sync.Mutex
		n := 0
		b.Cluster().ControlKey(int16(kmsg.EndTxn), func(kmsg.Request) (kmsg.Response, error, bool) {
			b.Cluster().KeepControl()
			mu.Lock()
			defer mu.Unlock()
			if n++; n%7 < 2 {
				return nil, errors.New("the connection breaks"), true
			}
			return nil, nil, false
		})
		<-time.After(10 * time.Second)
		wantEach(t, b, input.stop())
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// M-64: under exactly once, input that leads to no output at all is committed as well, also for a reader that asks for stable offsets.
func TestM64OffsetsWithoutOutput(t *testing.T) {
	bubble(t, func(t *testing.T, b *devbroker.Broker) {
		topology := build(t, func(sb *streams.Builder) {
			sb.Stream(lines).Filter(func(_, v string) bool { return v == "pass" }).GroupByKey().Count("counts", streams.NoCaching).ToStream().To(counts)
		})
		a, stop := app(t, b, topology, exactlyOnce)
		await(t, a, streams.Running)
		produceTo(t, b, "lines", "drop", "drop", "drop")
		awaitCommitted(t, b, "app", "lines", 3)
		cl := client(t, b)
		defer cl.Close()
		req := kmsg.NewPtrOffsetFetchRequest()
		req.RequireStable = true
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group = "app"
		req.Groups = append(req.Groups, g)
		resp, err := req.RequestWith(context.Background(), cl)
		if err != nil {
			t.Fatal(err)
		}
		for _, topic := range resp.Groups[0].Topics {
			for _, p := range topic.Partitions {
				if p.ErrorCode != 0 {
					t.Errorf("partition %d: %v", p.Partition, kerr.ErrorForCode(p.ErrorCode))
				}
			}
		}
		produceTo(t, b, "lines", "pass", "drop")
		latest(t, b, "counts", map[string]int64{"key-0001": 1})
		awaitCommitted(t, b, "app", "lines", 5)
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// B-013: a changelog ends in the marker of a transaction, committed or aborted. An app without local state gets to run without any new input.
func TestB013ChangelogEndsInMarker(t *testing.T) {
	for _, g := range []streams.Guarantee{streams.AtLeastOnce, streams.ExactlyOnce} {
		t.Run(fmt.Sprint(g), func(t *testing.T) {
			bubble(t, func(t *testing.T, b *devbroker.Broker) {
				topology := build(t, countEach)
				a, stop := app(t, b, topology, func(c *streams.Config) { c.Guarantee = g })
				await(t, a, streams.Running)
				produceTo(t, b, "lines", "one")
				latest(t, b, "counts", map[string]int64{"key-0001": 1})
				if err := stop(); err != nil {
					t.Fatal(err)
				}
				if g == streams.ExactlyOnce {
					abortOn(t, b, "app-counts-changelog", "key-0001")
				}
				restored := &restores{}
				began := time.Now()
				a, _ = app(t, b, topology, func(c *streams.Config) { c.Guarantee, c.Hooks = g, []any{restored} })
				await(t, a, streams.Running)
				if took := time.Since(began); took > 5*time.Second {
					t.Errorf("it took %v until the app ran", took)
				}
				if n := restored.records(); n == 0 {
					t.Error("nothing was restored")
				}
				produceTo(t, b, "lines", "two")
				latest(t, b, "counts", map[string]int64{"key-0001": 2})
			})
		})
	}
}

// abortOn writes a record in a transaction that is aborted.
func abortOn(t *testing.T, b *devbroker.Broker, topic, key string) {
	t.Helper()
	cl := client(t, b, kgo.TransactionalID("aborts"))
	defer cl.Close()
	ctx := context.Background()
	if err := cl.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	partition := partitionOf(key)
	if err := cl.ProduceSync(ctx, &kgo.Record{Topic: topic, Partition: partition, Key: []byte(key), Value: make([]byte, 16)}).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if err := cl.EndTransaction(ctx, kgo.TryAbort); err != nil {
		t.Fatal(err)
	}
}

// restores is a hook that notes what was restored.
type restores struct {
	mu   sync.Mutex
	done []streams.RestoreEvent
}

// OnRestore implements [streams.HookRestore].
func (r *restores) OnRestore(e streams.RestoreEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if e.Done {
		r.done = append(r.done, e)
	}
}

func (r *restores) records() (n int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.done {
		n += e.Restored
	}
	return n
}

// deleteRecords deletes all records of a topic but the last offsets of each partition.
func deleteRecords(t *testing.T, b *devbroker.Broker, topic string, keep int64) {
	t.Helper()
	adm := kadm.NewClient(client(t, b))
	defer adm.Close()
	ctx := context.Background()
	ends, err := adm.ListEndOffsets(ctx, topic)
	if err != nil {
		t.Fatal(err)
	}
	offsets := kadm.Offsets{}
	ends.Each(func(o kadm.ListedOffset) { offsets.AddOffset(topic, o.Partition, max(0, o.Offset-keep), -1) })
	resp, err := adm.DeleteRecords(ctx, offsets)
	if err == nil {
		err = resp.Error()
	}
	if err != nil {
		t.Fatal(err)
	}
}
