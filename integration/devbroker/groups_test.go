package devbroker_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/integration/devbroker"
	"github.com/millrace/millrace/integration/devbroker/coordinator"
)

func request[R kmsg.Response](t *testing.T, c *kgo.Client, node int, req kmsg.Request) R {
	t.Helper()
	resp, err := c.Broker(node).Request(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return resp.(R)
}

// adminCommit commits for a group without members, as tools do.
func adminCommit(t *testing.T, c *kgo.Client, group, topic string, offset int64) {
	t.Helper()
	os := kadm.Offsets{}
	os.AddOffset(topic, 0, offset, -1)
	if err := kadm.NewClient(c).CommitAllOffsets(t.Context(), group, os); err != nil {
		t.Fatal(err)
	}
}

// Requests that name streams groups and others at once are answered for both: kfake answers for its own and the rest is added (C-44, C-47, C-48).
func TestMixedRequests(t *testing.T) {
	b := start(t, devbroker.Topic("in", 1), devbroker.Topic("other", 1))
	c := client(t, b)
	epoch := beat(t, c, 0, join("streams", "m1", "in")).MemberEpoch
	adminCommit(t, c, "classic", "in", 3)
	adminCommit(t, c, "classic-2", "in", 4)
	if code := memberCommit(t, c, "streams", "m1", epoch, map[string]int64{"in": 5, "other": 6}); code != 0 {
		t.Fatalf("commit answered %d", code)
	}

	// Lists: each group once, with its own type.
	list := request[*kmsg.ListGroupsResponse](t, c, 0, kmsg.NewPtrListGroupsRequest())
	types := map[string]string{}
	for _, g := range list.Groups {
		if types[g.Group] != "" {
			t.Errorf("group %s is listed twice", g.Group)
		}
		types[g.Group] = g.GroupType + " " + g.GroupState
	}
	if len(types) != 3 || types["streams"] != "streams Stable" || types["classic"] != "classic Empty" {
		t.Errorf("listed %v", types)
	}

	// Descriptions.
	dg := kmsg.NewPtrDescribeGroupsRequest()
	dg.Groups = []string{"classic", "streams"}
	for _, g := range request[*kmsg.DescribeGroupsResponse](t, c, 0, dg).Groups {
		if want := map[string]string{"classic": "Empty", "streams": "Dead"}[g.Group]; g.State != want {
			t.Errorf("%s is described as %s, want %s", g.Group, g.State, want)
		}
	}

	// Fetches: one known to kfake, one refused, one unknown to all.
	of := kmsg.NewPtrOffsetFetchRequest()
	of.Version = 9
	nobody := "nobody"
	for _, id := range []string{"classic", "streams", "unknown"} {
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group, g.MemberEpoch = id, -1
		if id == "streams" {
			g.MemberID, g.MemberEpoch = &nobody, epoch
		}
		rt := kmsg.NewOffsetFetchRequestGroupTopic()
		rt.Topic, rt.Partitions = "in", []int32{0}
		rt.TopicID = b.Cluster().TopicInfo("in").TopicID
		g.Topics = append(g.Topics, rt)
		of.Groups = append(of.Groups, g)
	}
	fetched := request[*kmsg.OffsetFetchResponse](t, c, 0, of)
	if len(fetched.Groups) != 3 {
		t.Fatalf("fetched %+v", fetched.Groups)
	}
	for _, g := range fetched.Groups {
		switch g.Group {
		case "classic":
			if g.ErrorCode != 0 || g.Topics[0].Partitions[0].Offset != 3 {
				t.Errorf("classic: %+v", g)
			}
		case "streams":
			if g.ErrorCode != kerr.UnknownMemberID.Code {
				t.Errorf("streams: %+v", g)
			}
		case "unknown":
			if g.ErrorCode != 0 || g.Topics[0].Partitions[0].Offset != -1 {
				t.Errorf("unknown: %+v", g)
			}
		}
	}

	// Offsets of one topic may be deleted, those of the other may not.
	od := kmsg.NewPtrOffsetDeleteRequest()
	od.Group = "streams"
	for _, name := range []string{"in", "other"} {
		rt := kmsg.NewOffsetDeleteRequestTopic()
		rt.Topic = name
		rt.Partitions = append(rt.Partitions, kmsg.NewOffsetDeleteRequestTopicPartition())
		od.Topics = append(od.Topics, rt)
	}
	deleted := map[string]int16{}
	for _, rt := range request[*kmsg.OffsetDeleteResponse](t, c, 0, od).Topics {
		deleted[rt.Topic] = rt.Partitions[0].ErrorCode
	}
	if len(deleted) != 2 || deleted["in"] != kerr.GroupSubscribedToTopic.Code || deleted["other"] != 0 {
		t.Errorf("deleted %v", deleted)
	}

	// Deletion.
	delReq := kmsg.NewPtrDeleteGroupsRequest()
	delReq.Groups = []string{"streams", "classic", "nowhere"}
	gone := map[string]int16{}
	for _, g := range request[*kmsg.DeleteGroupsResponse](t, c, 0, delReq).Groups {
		gone[g.Group] = g.ErrorCode
	}
	if len(gone) != 3 || gone["streams"] != kerr.NonEmptyGroup.Code || gone["classic"] != 0 || gone["nowhere"] != kerr.GroupIDNotFound.Code {
		t.Errorf("deleted %v", gone)
	}

	// Settings of a group and of a topic at once.
	ac := kmsg.NewPtrIncrementalAlterConfigsRequest()
	for _, r := range []struct {
		kind       kmsg.ConfigResourceType
		name, k, v string
	}{
		{kmsg.ConfigResourceTypeGroupConfig, "streams", "streams.num.standby.replicas", "2"},
		{kmsg.ConfigResourceTypeTopic, "in", "retention.ms", "1234567"},
		{kmsg.ConfigResourceTypeGroupConfig, "consumer", "consumer.session.timeout.ms", "50000"},
	} {
		res := kmsg.NewIncrementalAlterConfigsRequestResource()
		res.ResourceType, res.ResourceName = r.kind, r.name
		cfg := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		cfg.Name, cfg.Value = r.k, &r.v
		res.Configs = append(res.Configs, cfg)
		ac.Resources = append(ac.Resources, res)
	}
	altered := request[*kmsg.IncrementalAlterConfigsResponse](t, c, 0, ac)
	if len(altered.Resources) != 3 {
		t.Errorf("altered %+v", altered.Resources)
	}
	for _, r := range altered.Resources {
		if r.ErrorCode != 0 {
			t.Errorf("%s: %v", r.ResourceName, kerr.ErrorForCode(r.ErrorCode))
		}
	}
}

// memberCommit commits offsets of partition 0 as a member.
func memberCommit(t *testing.T, c *kgo.Client, group, member string, epoch int32, offsets map[string]int64) int16 {
	t.Helper()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation = group, member, epoch
	topics, err := kadm.NewClient(c).ListTopics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range offsets {
		rt := kmsg.NewOffsetCommitRequestTopic()
		rt.Topic, rt.TopicID = name, topics[name].ID
		rp := kmsg.NewOffsetCommitRequestTopicPartition()
		rp.Offset = o
		rt.Partitions = append(rt.Partitions, rp)
		req.Topics = append(req.Topics, rt)
	}
	resp, err := c.Request(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return resp.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
}

// Data and groups outlive a restart: the member goes on where it was.
func TestDataDir(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	b := start(t, devbroker.DataDir(dir), devbroker.Topic("in", 2))
	c := client(t, b, kgo.DefaultProduceTopic("in"))
	if err := c.ProduceSync(t.Context(), kgo.StringRecord("v")).FirstErr(); err != nil {
		t.Fatal(err)
	}
	epoch := beat(t, c, 0, join("app", "m1", "in")).MemberEpoch
	if code := memberCommit(t, c, "app", "m1", epoch, map[string]int64{"in": 1}); code != 0 {
		t.Fatalf("commit answered %d", code)
	}
	c.Close()
	b.Close()

	b = start(t, devbroker.DataDir(dir), devbroker.Topic("in", 7))
	c = client(t, b)
	if resp := beat(t, c, 0, steady("app", "m1", epoch)); resp.ErrorCode != 0 || resp.MemberEpoch != epoch || resp.ActiveTasks != nil {
		t.Errorf("answered %+v", resp)
	}
	if resp := beat(t, c, 0, join("app", "m1", "in")); resp.ErrorCode != 0 || len(resp.ActiveTasks[0].Partitions) != 2 {
		t.Errorf("answered %+v", resp)
	}
	if offset, code := fetchOffset(t, c, "app", "in", true); offset != 1 || code != 0 {
		t.Errorf("offset %d, code %d", offset, code)
	}
	ends, err := kadm.NewClient(c).ListEndOffsets(t.Context(), "in")
	if err != nil {
		t.Fatal(err)
	}
	records := int64(0)
	ends.Each(func(o kadm.ListedOffset) { records += o.Offset })
	if records != 1 {
		t.Errorf("%d records, want 1", records)
	}
}

// A process that is killed has saved its groups up to a moment ago.
func TestGroupsAreSavedWhileRunning(t *testing.T) {
	dir := t.TempDir()
	b := start(t, devbroker.DataDir(dir), devbroker.Topic("in", 2))
	c := client(t, b)
	beat(t, c, 0, join("app", "m1", "in"))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		data, err := os.ReadFile(filepath.Join(dir, "streams-groups.json"))
		if err == nil && strings.Contains(string(data), `"id":"m1"`) {
			break
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("the file has %q, %v", data, err)
		}
	}
	c.Close()
	b.Close()

	if err := os.WriteFile(filepath.Join(dir, "streams-groups.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if b, err := devbroker.Start(devbroker.DataDir(dir)); err == nil {
		b.Close()
		t.Error("started on a broken file")
	} else if !strings.Contains(err.Error(), dir) {
		t.Errorf("error %v does not name the directory", err)
	}
}

// An empty group without offsets is dropped at the next cleanup, with its topology; one with offsets stays (§23). Months pass in this test.
func TestCleanupOfEmptyGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := devbroker.Start(devbroker.VirtualNetwork(), devbroker.Topic("in", 1), devbroker.Topic("other", 1))
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		c, err := kgo.NewClient(b.ClientOpts()...)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for _, g := range []string{"bare", "committed"} {
			epoch := beat(t, c, 0, join(g, "m1", "in")).MemberEpoch
			if g == "committed" {
				if code := memberCommit(t, c, g, "m1", epoch, map[string]int64{"in": 1}); code != 0 {
					t.Fatalf("commit answered %d", code)
				}
			}
			beat(t, c, 0, steady(g, "m1", -1))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
		defer cancel()
		if err := b.WaitGroup(ctx, "bare", func(g kmsg.StreamsGroupDescribeResponseGroup) bool { return g.ErrorCode == 69 }); err != nil {
			t.Error(err)
		}
		if got := b.Groups(); !slices.Equal(got, []string{"committed"}) {
			t.Errorf("groups %v", got)
		}
		if resp := beat(t, c, 0, join("bare", "m1", "other")); resp.ErrorCode != 0 {
			t.Errorf("another topology was answered with %d", resp.ErrorCode)
		}
	})
}

// C-49 with several nodes: the group really moves.
func TestMoveCoordinatorBetweenNodes(t *testing.T) {
	b := start(t, devbroker.Nodes(3), devbroker.Topic("in", 1))
	c := client(t, b)
	if len(b.Addrs()) != 3 {
		t.Fatalf("addresses %v", b.Addrs())
	}
	before := int(b.Cluster().CoordinatorFor("app"))
	epoch := beat(t, c, before, join("app", "m1", "in")).MemberEpoch
	if err := b.MoveCoordinator("app"); err != nil {
		t.Fatal(err)
	}
	after := int(b.Cluster().CoordinatorFor("app"))
	if before == after {
		t.Fatalf("still on node %d", after)
	}
	if resp := beat(t, c, before, steady("app", "m1", epoch)); resp.ErrorCode != kerr.NotCoordinator.Code {
		t.Errorf("the old node answered %d", resp.ErrorCode)
	}
	if resp := beat(t, c, after, steady("app", "m1", epoch)); resp.ErrorCode != 0 || resp.MemberEpoch != epoch || resp.ActiveTasks != nil {
		t.Errorf("the new node answered %+v", resp)
	}
	d := kmsg.NewPtrStreamsGroupDescribeRequest()
	d.Groups = []string{"app"}
	for node := range 3 {
		g := request[*kmsg.StreamsGroupDescribeResponse](t, c, node, d).Groups[0]
		if want := map[bool]int16{true: 0, false: kerr.NotCoordinator.Code}[node == after]; g.ErrorCode != want {
			t.Errorf("node %d describes with %d, want %d", node, g.ErrorCode, want)
		}
	}
}

// Heartbeats can be watched, lost ones included.
func TestOnHeartbeat(t *testing.T) {
	var seen, lost atomic.Int32
	b := start(t, devbroker.Topic("in", 1), devbroker.OnHeartbeat(func(h devbroker.Heartbeat) {
		seen.Add(1)
		if h.Lost {
			lost.Add(1)
		}
		if h.Request.Group != "app" || h.Response == nil || h.At.IsZero() {
			t.Errorf("saw %+v", h)
		}
	}))
	c := client(t, b)
	epoch := beat(t, c, 0, join("app", "m1", "in")).MemberEpoch
	b.CutResponses("", "", 1)
	if _, err := c.Broker(0).Request(t.Context(), steady("app", "m1", epoch)); err == nil {
		t.Error("a cut response arrived")
	}
	b.FailMember("app", "m1", 5, kerr.NotCoordinator)
	b.ClearFaults()
	if got := beat(t, c, 0, steady("app", "m1", epoch)).ErrorCode; got != 0 {
		t.Errorf("answered %d after the faults were cleared", got)
	}
	if seen.Load() != 3 || lost.Load() != 1 {
		t.Errorf("saw %d heartbeats, %d lost; want 3, 1", seen.Load(), lost.Load())
	}
}

// A cluster whose streams feature is off (§2.1), and the missing description plugin (§24).
func TestRefusals(t *testing.T) {
	b := start(t, devbroker.Topic("in", 1), devbroker.Settings(func(c *coordinator.Config) { c.Disabled = true }))
	c := client(t, b)
	if resp := beat(t, c, 0, join("app", "m1", "in")); resp.ErrorCode != kerr.UnsupportedVersion.Code {
		t.Errorf("answered %d", resp.ErrorCode)
	}
	u := kmsg.NewPtrStreamsGroupTopologyDescriptionUpdateRequest()
	u.Group, u.MemberID = "app", "m1"
	if resp := request[*kmsg.StreamsGroupTopologyDescriptionUpdateResponse](t, c, 0, u); resp.ErrorCode != kerr.UnsupportedVersion.Code || resp.ErrorMessage == nil {
		t.Errorf("answered %+v", resp)
	}
}
