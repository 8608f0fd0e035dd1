package rebalance

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"pgregory.net/rapid"

	"github.com/millrace/millrace/rebalance/member"
	"github.com/millrace/millrace/topology"
)

// Null and empty survive the wire, both ways.
func TestNullIsNotEmpty(t *testing.T) {
	if taskOffsets(nil) != nil || taskOffsets([]member.TaskOffset{}) == nil || taskIDs(nil) == nil {
		t.Error("offsets or tasks changed between null and empty")
	}
	for _, h := range []member.Heartbeat{{}, {Tasks: &member.Assignment{}, Tags: []member.Tag{}, Offsets: []member.TaskOffset{}, EndOffsets: []member.TaskOffset{}}} {
		sent := heartbeatRequest("g", h, nil)
		sent.SetVersion(1)
		got := kmsg.NewPtrStreamsGroupHeartbeatRequest()
		got.SetVersion(1)
		if err := got.ReadFrom(sent.AppendTo(nil)); err != nil {
			t.Fatal(err)
		}
		null := h.Tasks == nil
		for i, isNull := range []bool{
			got.ActiveTasks == nil, got.StandbyTasks == nil, got.WarmupTasks == nil, got.ClientTags == nil, got.TaskOffsets == nil, got.TaskEndOffsets == nil,
		} {
			if isNull != null {
				t.Errorf("field %d: null is %v, want %v", i, isNull, null)
			}
		}
	}
	for _, null := range []bool{true, false} {
		sent := kmsg.NewPtrStreamsGroupHeartbeatResponse()
		sent.SetVersion(1)
		if !null {
			sent.Status, sent.PartitionsByUserEndpoint = []kmsg.StreamsGroupHeartbeatResponseStatus{}, []kmsg.StreamsGroupHeartbeatResponsePartitionsByUserEndpoint{}
			sent.ActiveTasks, sent.StandbyTasks, sent.WarmupTasks = []kmsg.TaskIDs{}, []kmsg.TaskIDs{}, []kmsg.TaskIDs{}
		}
		got := kmsg.NewPtrStreamsGroupHeartbeatResponse()
		got.SetVersion(1)
		if err := got.ReadFrom(sent.AppendTo(nil)); err != nil {
			t.Fatal(err)
		}
		r := heartbeatResponse(got)
		for i, isNull := range []bool{r.Statuses == nil, r.Active == nil, r.Standby == nil, r.Warmup == nil, r.Endpoints == nil} {
			if isNull != null {
				t.Errorf("response field %d: null is %v, want %v", i, isNull, null)
			}
		}
	}
}

// Tasks survive the wire.
func TestTaskLists(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tasks := rapid.SliceOfDistinct(rapid.Custom(func(t *rapid.T) topology.TaskID {
			return topology.TaskID{Subtopology: rapid.IntRange(0, 12).Draw(t, "sub"), Partition: rapid.Int32Range(0, 9).Draw(t, "partition")}
		}), func(id topology.TaskID) topology.TaskID { return id }).Draw(t, "tasks")
		slices.SortFunc(tasks, topology.TaskID.Compare)
		var foreign []string
		wire := taskIDs(tasks)
		if got := taskList(wire, &foreign); !slices.Equal(got, tasks) || foreign != nil {
			t.Fatalf("got %v, foreign %v, want %v", got, foreign, tasks)
		}
		seen := make(map[string]bool)
		for _, s := range wire {
			if seen[s.SubtopologyID] {
				t.Fatalf("sub-topology %s twice", s.SubtopologyID)
			}
			seen[s.SubtopologyID] = true
		}
	})
}

// M-23: ids that are no number of ours are named as they came.
func TestM23ForeignSubtopologies(t *testing.T) {
	resp := kmsg.NewPtrStreamsGroupHeartbeatResponse()
	for _, id := range []string{"0", "x", "01", ""} {
		s := kmsg.NewTaskIDs()
		s.SubtopologyID, s.Partitions = id, []int32{1}
		resp.ActiveTasks = append(resp.ActiveTasks, s)
	}
	if r := heartbeatResponse(resp); len(r.Active) != 1 || fmt.Sprintf("%q", r.Foreign) != `["x" "01" ""]` {
		t.Errorf("%+v", r)
	}
}

// Version 0 has a lag field of another meaning (M-46: a lag that was not told never counts).
func TestRecoveryLagByVersion(t *testing.T) {
	resp := kmsg.NewPtrStreamsGroupHeartbeatResponse()
	resp.AcceptableRecoveryLagLegacy, resp.AcceptableRecoveryLag = 7, 9
	if r := heartbeatResponse(resp); r.RecoveryLag != -1 {
		t.Errorf("version 0: %d", r.RecoveryLag)
	}
	resp.Version = 1
	if r := heartbeatResponse(resp); r.RecoveryLag != 9 {
		t.Errorf("version 1: %d", r.RecoveryLag)
	}
}

// M-36, M-38: the encoded topology is the same each time; its hash tells differences of order, which brokers see too.
func TestM36TopologyIsEncodedAsItIs(t *testing.T) {
	topo := topology.Metadata{Subtopologies: []topology.SubtopologyMetadata{{
		ID: 3, SourceTopics: []string{"a", "b"}, RepartitionSinkTopics: []string{"r"},
		RepartitionSourceTopics: []topology.InternalTopic{{Name: "q", Partitions: 2, ReplicationFactor: -1, Configs: []topology.TopicConfig{{Key: "k", Value: "v"}}}},
		ChangelogTopics:         []topology.InternalTopic{{Name: "c", ReplicationFactor: -1}},
		CopartitionGroups:       []topology.CopartitionGroup{{SourceTopics: []int16{0, 1}, RepartitionSourceTopics: []int16{0}}},
	}}}
	encode := func() []byte {
		req := kmsg.NewPtrStreamsGroupHeartbeatRequest()
		req.Topology = topologyRequest(topo, 0)
		return req.AppendTo(nil)
	}
	first, hash := encode(), TopologyHash(topo, 0)
	for range 100 {
		if !bytes.Equal(encode(), first) {
			t.Fatal("differs")
		}
	}
	w := topologyRequest(topo, 0).Subtopologies[0]
	if w.SubtopologyID != "3" || w.SourceTopicRegex == nil || len(w.SourceTopicRegex) > 0 || w.RepartitionSourceTopics[0].NumPartitions != 2 ||
		w.StateChangelogTopics[0].NumPartitions != 0 || w.StateChangelogTopics[0].ReplicationFactor != -1 || w.RepartitionSourceTopics[0].Configs[0].Value != "v" {
		t.Errorf("%+v", w)
	}
	topo.Subtopologies[0].SourceTopics = []string{"b", "a"}
	if TopologyHash(topo, 0) == hash || TopologyHash(topo, 1) == TopologyHash(topo, 0) {
		t.Error("the hash does not see a difference")
	}
}

// The table of error codes: what it does not name is retried, and every class is used.
func TestReactions(t *testing.T) {
	used := map[member.Class]bool{member.Transport: true}
	for code, r := range reactions {
		class, err := brokerError(code, nil)
		if class != r.class || !errors.Is(err, kerr.ErrorForCode(code)) {
			t.Errorf("code %d: %v, %v", code, class, err)
		}
		used[class] = true
	}
	for c := member.Transport; c <= member.Unrecoverable; c++ {
		if !used[c] {
			t.Errorf("no code of class %v", c)
		}
	}
	if class, err := brokerError(999, new("new")); class != member.Unexplained || err.Error() != `error code 999: "new"` {
		t.Errorf("%v, %v", class, err)
	}
	for err, want := range map[error]member.Class{
		io.EOF: member.Transport, kgo.ErrClientClosed: member.Unrecoverable, kerr.SaslAuthenticationFailed: member.Unrecoverable,
	} {
		if class, _ := requestError(fmt.Errorf("wrapped: %w", err)); class != want {
			t.Errorf("%v is %v, want %v", err, class, want)
		}
	}
}

// M-58: which source topics do not fit together.
func TestMismatch(t *testing.T) {
	topo := topology.Metadata{Subtopologies: []topology.SubtopologyMetadata{
		{SourceTopics: []string{"a", "b", "c"}, CopartitionGroups: []topology.CopartitionGroup{{SourceTopics: []int16{0, 2}}}},
	}}
	for _, tt := range []struct {
		counts map[string]int
		want   string
	}{
		{map[string]int{"a": 2, "b": 3, "c": 2}, ""},
		{map[string]int{"a": 0, "b": 3, "c": 2}, ""},
		{map[string]int{"a": 2, "b": 3, "c": 4}, "a has 2 partitions, c has 4, and they must have equally many"},
	} {
		if got := mismatch(topo, tt.counts); got != tt.want {
			t.Errorf("%v: %q", tt.counts, got)
		}
	}
}

func TestMemberIDs(t *testing.T) {
	src := rand.NewPCG(1, 1)
	a, b := newMemberID(src), newMemberID(src)
	if len(a) != 22 || a == b {
		t.Errorf("%s %s", a, b)
	}
}
