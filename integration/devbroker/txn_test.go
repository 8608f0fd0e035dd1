package devbroker_test

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/integration/devbroker"
	"github.com/millrace/millrace/integration/devbroker/coordinator"
)

// txnCommit stages an offset in the producer's transaction for a member of a streams group, and returns the code of the partition.
func txnCommit(t *testing.T, c *kgo.Client, txnID, group, member string, epoch int32, topic string, offset int64) int16 {
	t.Helper()
	id, pe, err := c.ProducerID(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	info, err := kadm.NewClient(c).ListTopics(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch = txnID, group, id, pe
	req.MemberID, req.Generation = member, epoch
	rt := kmsg.NewTxnOffsetCommitRequestTopic()
	rt.Topic, rt.TopicID = topic, info[topic].ID
	rp := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	rp.Offset = offset
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	resp, err := c.Request(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return resp.(*kmsg.TxnOffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
}

// fetchOffset returns the committed offset of partition 0, and the code of the partition or the group.
func fetchOffset(t *testing.T, c *kgo.Client, group, topic string, stable bool) (int64, int16) {
	t.Helper()
	info, err := kadm.NewClient(c).ListTopics(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	req := kmsg.NewPtrOffsetFetchRequest()
	req.RequireStable = stable
	rg := kmsg.NewOffsetFetchRequestGroup()
	rg.Group, rg.MemberEpoch = group, -1
	rt := kmsg.NewOffsetFetchRequestGroupTopic()
	rt.Topic, rt.TopicID, rt.Partitions = topic, info[topic].ID, []int32{0}
	rg.Topics = append(rg.Topics, rt)
	req.Groups = append(req.Groups, rg)
	resp, err := c.Request(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	g := resp.(*kmsg.OffsetFetchResponse).Groups[0]
	if g.ErrorCode != 0 {
		return -1, g.ErrorCode
	}
	return g.Topics[0].Partitions[0].Offset, g.Topics[0].Partitions[0].ErrorCode
}

// The transaction of a streams member: output records and offsets become visible together; a fenced member cannot commit (C-43).
func TestTransactionOfAMember(t *testing.T) {
	for _, tt := range []struct {
		release coordinator.Release
		stale   int16
	}{
		{coordinator.Kafka44, kerr.StaleMemberEpoch.Code},
		{coordinator.Kafka42, kerr.IllegalGeneration.Code},
	} {
		t.Run(tt.release.String(), func(t *testing.T) {
			b := start(t, devbroker.Nodes(2), devbroker.Topic("in", 1), devbroker.Topic("out", 1), devbroker.PlayRelease(tt.release))
			plain := client(t, b)
			node := int(b.Cluster().CoordinatorFor("app"))
			epoch := beat(t, plain, node, join("app", "m1", "in")).MemberEpoch

			producer := client(t, b, kgo.TransactionalID("app-txn"), kgo.DefaultProduceTopic("out"))
			transact := func(value string, epoch int32, offset int64, end kgo.TransactionEndTry) int16 {
				t.Helper()
				if err := producer.BeginTransaction(); err != nil {
					t.Fatal(err)
				}
				if err := producer.ProduceSync(t.Context(), kgo.StringRecord(value)).FirstErr(); err != nil {
					t.Fatal(err)
				}
				code := txnCommit(t, producer, "app-txn", "app", "m1", epoch, "in", offset)
				if code != 0 {
					end = kgo.TryAbort
				} else if _, unstable := fetchOffset(t, plain, "app", "in", true); unstable != kerr.UnstableOffsetCommit.Code {
					t.Errorf("a staged offset is answered with %d, want UNSTABLE_OFFSET_COMMIT", unstable)
				}
				if err := producer.EndTransaction(t.Context(), end); err != nil {
					t.Fatal(err)
				}
				return code
			}

			if code := transact("aborted", epoch, 3, kgo.TryAbort); code != 0 {
				t.Fatalf("commit answered with %d", code)
			}
			if offset, code := fetchOffset(t, plain, "app", "in", true); offset != -1 || code != 0 {
				t.Errorf("after an abort the offset is %d, code %d", offset, code)
			}
			if code := transact("committed", epoch, 5, kgo.TryCommit); code != 0 {
				t.Fatalf("commit answered with %d", code)
			}
			if offset, code := fetchOffset(t, plain, "app", "in", true); offset != 5 || code != 0 {
				t.Errorf("after a commit the offset is %d, code %d", offset, code)
			}

			// The member is fenced: another one is in its place and it has not heard of it.
			if code := transact("stale", epoch+1, 7, kgo.TryCommit); code != tt.stale {
				t.Errorf("a stale commit is answered with %d, want %d", code, tt.stale)
			}
			if err := b.ExpireMember("app", "m1"); err != nil {
				t.Fatal(err)
			}
			if code := transact("gone", epoch, 8, kgo.TryCommit); code != kerr.UnknownMemberID.Code {
				t.Errorf("the commit of a removed member is answered with %d", code)
			}
			if offset, _ := fetchOffset(t, plain, "app", "in", true); offset != 5 {
				t.Errorf("a fenced commit moved the offset to %d", offset)
			}

			if err := transactOnly(t, producer, "last"); err != nil {
				t.Fatal(err)
			}
			reader := client(t, b, kgo.ConsumeTopics("out"), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			var values []string
			for len(values) == 0 || values[len(values)-1] != "last" {
				fs := reader.PollFetches(ctx)
				if ctx.Err() != nil {
					t.Fatalf("read %v", values)
				}
				fs.EachRecord(func(r *kgo.Record) { values = append(values, string(r.Value)) })
			}
			if len(values) != 2 || values[0] != "committed" {
				t.Errorf("read committed %v, want [committed last]", values)
			}
		})
	}
}

func transactOnly(t *testing.T, producer *kgo.Client, value string) error {
	t.Helper()
	if err := producer.BeginTransaction(); err != nil {
		return err
	}
	if err := producer.ProduceSync(t.Context(), kgo.StringRecord(value)).FirstErr(); err != nil {
		return err
	}
	return producer.EndTransaction(t.Context(), kgo.TryCommit)
}

// Offsets staged before a leave are applied by the commit (C-62).
func TestStagedOffsetsOutliveTheMember(t *testing.T) {
	b := start(t, devbroker.Topic("in", 1), devbroker.Topic("out", 1))
	c := client(t, b)
	epoch := beat(t, c, 0, join("app", "m1", "in")).MemberEpoch
	producer := client(t, b, kgo.TransactionalID("txn"), kgo.DefaultProduceTopic("out"))
	if err := producer.BeginTransaction(); err != nil {
		t.Fatal(err)
	}
	if err := producer.ProduceSync(t.Context(), kgo.StringRecord("v")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	if code := txnCommit(t, producer, "txn", "app", "m1", epoch, "in", 9); code != 0 {
		t.Fatalf("commit answered with %d", code)
	}
	if got := beat(t, c, 0, steady("app", "m1", -1)); got.ErrorCode != 0 || got.MemberEpoch != -1 {
		t.Fatalf("leave answered %+v", got)
	}
	if err := producer.EndTransaction(t.Context(), kgo.TryCommit); err != nil {
		t.Fatal(err)
	}
	if offset, code := fetchOffset(t, c, "app", "in", true); offset != 9 || code != 0 {
		t.Errorf("offset %d, code %d", offset, code)
	}
}

// A group transaction session of kgo, which knows nothing of streams groups, works on the same broker.
func TestGroupTransactSession(t *testing.T) {
	b := start(t, devbroker.Topic("in", 1), devbroker.Topic("out", 1))
	feed := client(t, b, kgo.DefaultProduceTopic("in"))
	if err := feed.ProduceSync(t.Context(), kgo.StringRecord("a"), kgo.StringRecord("b")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	s, err := kgo.NewGroupTransactSession(append(b.ClientOpts(), kgo.TransactionalID("session"), kgo.ConsumerGroup("classic"),
		kgo.ConsumeTopics("in"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DefaultProduceTopic("out"))...)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	read := 0
	for read < 2 {
		fs := s.PollFetches(ctx)
		if ctx.Err() != nil {
			t.Fatal("nothing to read")
		}
		if err := s.Begin(); err != nil {
			t.Fatal(err)
		}
		fs.EachRecord(func(r *kgo.Record) {
			read++
			s.Produce(ctx, kgo.SliceRecord(r.Value), nil)
		})
		if ok, err := s.End(ctx, kgo.TryCommit); err != nil || !ok {
			t.Fatalf("transaction ended %v, %v", ok, err)
		}
	}
	if offset, code := fetchOffset(t, feed, "classic", "in", true); offset != 2 || code != 0 {
		t.Errorf("offset %d, code %d", offset, code)
	}
}
