package conformance

import (
	"cmp"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

const staleEpoch = 113

var offsetCases = []testCase{
	{name: "C41CommitEpochs", run: c41},
	{name: "C42CommitWhileRevoking", run: c42},
	{name: "C43TransactionalCommits", run: c43},
	{name: "C44AdminCommitsAndDeletes", run: c44},
	{name: "C44FetchAsMember", run: c44Fetch},
	{name: "C57CommitsOfStaticMembers", run: c57Commits, since: 44},
	{name: "C58ClassicAndBack", run: c58},
	{name: "C62CurrentEpochCommitsAnything", run: c62},
}

// commit is an OffsetCommit of one topic.
type commit struct {
	group      string // default: the scene's
	member     string
	epoch      int32
	topic      string
	partitions []int32 // default: 0
	offset     int64
	client     *kgo.Client
}

func (s *scene) topicID(name string) [16]byte {
	s.Helper()
	topics, err := s.admin.ListTopics(s.ctx, s.topic(name))
	if err != nil {
		s.Fatal(err)
	}
	return topics[s.topic(name)].ID
}

// commit commits and returns the code, which must be the same for all partitions.
func (s *scene) commit(c commit) int16 {
	s.Helper()
	codes := s.commitEach(c)
	for _, code := range codes {
		if code != codes[0] {
			s.Errorf("codes %v differ", codes)
		}
	}
	return codes[0]
}

func (s *scene) commitEach(c commit) []int16 {
	s.Helper()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.MemberID, req.Generation = s.group, c.member, c.epoch
	if c.group != "" {
		req.Group = c.group
	}
	if c.partitions == nil {
		c.partitions = []int32{0}
	}
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic, t.TopicID = s.topic(c.topic), s.topicID(c.topic)
	for _, p := range c.partitions {
		rp := kmsg.NewOffsetCommitRequestTopicPartition()
		rp.Partition, rp.Offset = p, c.offset
		t.Partitions = append(t.Partitions, rp)
	}
	req.Topics = append(req.Topics, t)
	client := s.client
	if c.client != nil {
		client = c.client
	}
	resp, err := client.Request(s.ctx, req)
	if err != nil {
		s.Fatal(err)
	}
	var codes []int16
	for _, rt := range resp.(*kmsg.OffsetCommitResponse).Topics {
		// Brokers list what the request layer refuses before what the coordinator answers.
		slices.SortFunc(rt.Partitions, func(a, b kmsg.OffsetCommitResponseTopicPartition) int { return cmp.Compare(a.Partition, b.Partition) })
		for _, rp := range rt.Partitions {
			codes = append(codes, rp.ErrorCode)
		}
	}
	if len(codes) == 0 {
		s.Fatal("a commit was answered without partitions")
	}
	return codes
}

// fetch fetches an offset and returns it with the code of the group or the partition.
func (s *scene) fetch(group, topic string, partition int32, member *string, epoch int32, stable bool) (int64, int16) {
	s.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.RequireStable = stable
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group, g.MemberID, g.MemberEpoch = group, member, epoch
	t := kmsg.NewOffsetFetchRequestGroupTopic()
	t.Topic, t.TopicID, t.Partitions = s.topic(topic), s.topicID(topic), []int32{partition}
	g.Topics = append(g.Topics, t)
	req.Groups = append(req.Groups, g)
	resp, err := s.client.Request(s.ctx, req)
	if err != nil {
		s.Fatal(err)
	}
	rg := resp.(*kmsg.OffsetFetchResponse).Groups[0]
	if rg.ErrorCode != 0 {
		return -1, rg.ErrorCode
	}
	return rg.Topics[0].Partitions[0].Offset, rg.Topics[0].Partitions[0].ErrorCode
}

// committed is the committed offset; -1 if there is none.
func (s *scene) committed(group, topic string, partition int32) int64 {
	s.Helper()
	offset, code := s.fetch(group, topic, partition, nil, -1, false)
	if code != 0 {
		s.Fatalf("offset fetch answered %d", code)
	}
	return offset
}

func (s *scene) wantCommit(what string, c commit, want int16) {
	s.Helper()
	if got := s.commit(c); got != want {
		s.Errorf("%s: commit answered %d (%v), want %d", what, got, kerr.ErrorForCode(got), want)
	}
}

// partitionOf is the partition of a task of subtopology 0.
func partitionOf(task string) int32 { return idsOf([]string{task})[0].Partitions[0] }

// twoSettled brings two members together, each with two of four tasks; a was there first.
func (s *scene) twoSettled() (a, b *member, first int32) {
	s.Helper()
	s.create("in:4", "other:1")
	a, b = s.member(s.simple("in")), s.member(s.simple("in"))
	a.join()
	first = a.epoch
	b.join()
	s.settle(a, b)
	return a, b, first
}

func c41(s *scene) {
	a, b, first := s.twoSettled()
	kept, gained := partitionOf(a.active[0]), partitionOf(b.active[0])
	s.wantCommit("at the present epoch", commit{member: a.id, epoch: a.epoch, topic: "in", partitions: []int32{kept}, offset: 1}, 0)
	s.wantCommit("at a newer epoch", commit{member: a.id, epoch: a.epoch + 1, topic: "in", partitions: []int32{kept}, offset: 2}, staleEpoch)
	s.wantCommit("at an older epoch, held since", commit{member: a.id, epoch: first, topic: "in", partitions: []int32{kept}, offset: 3}, 0)
	if got := s.committed(s.group, "in", kept); got != 3 {
		s.Errorf("offset %d, want 3", got)
	}
	// b got its tasks at the second assignment, so the first epoch is too old for them; one such partition fails all.
	s.wantCommit("older than the task", commit{member: b.id, epoch: first, topic: "in", partitions: []int32{gained}, offset: 4}, staleEpoch)
	s.wantCommit("one partition of another", commit{member: a.id, epoch: first, topic: "in", partitions: []int32{kept, gained}, offset: 5}, staleEpoch)
	if x, y := s.committed(s.group, "in", kept), s.committed(s.group, "in", gained); x != 3 || y != -1 {
		s.Errorf("a refused commit left offsets %d and %d", x, y)
	}
	s.wantCommit("a topic outside at an older epoch", commit{member: a.id, epoch: first, topic: "other", offset: 1}, staleEpoch)
	s.wantCommit("an unknown member", commit{member: "nobody", epoch: a.epoch, topic: "in", offset: 1}, unknownMember)
	s.wantCommit("a member with epoch -1", commit{member: a.id, epoch: -1, topic: "in", offset: 1}, staleEpoch)

	v8 := kversion.Stable()
	v8.SetMaxKeyVersion(8, 8)
	old := s.otherClient(kgo.MaxVersions(v8))
	s.wantCommit("an old request version", commit{member: a.id, epoch: a.epoch, topic: "in", partitions: []int32{kept}, offset: 1, client: old}, 35)
	s.wantCommit("an unknown group", commit{group: s.prefix + "none", member: "m", epoch: 3, topic: "in", offset: 1}, groupNotFound)
	s.wantCommit("an unknown group, old request version", commit{group: s.prefix + "none", member: "m", epoch: 3, topic: "in", offset: 1, client: old}, 22)
}

func c42(s *scene) {
	s.create("in:2")
	a, b := s.member(s.simple("in")), s.member(s.simple("in"))
	a.join()
	first := a.epoch
	b.join()
	a.beat()
	going := partitionOf(tasks("0", 2)[1-slices.Index(tasks("0", 2), a.active[0])])
	s.wantCommit("while it is revoked", commit{member: a.id, epoch: first, topic: "in", partitions: []int32{going}, offset: 1}, 0)
	a.report()
	s.wantCommit("after it is released", commit{member: a.id, epoch: first, topic: "in", partitions: []int32{going}, offset: 2}, staleEpoch)
	s.wantCommit("what it keeps", commit{member: a.id, epoch: first, topic: "in", partitions: []int32{1 - going}, offset: 3}, 0)
	b.report()
	if got := s.committed(s.group, "in", going); got != 1 {
		s.Errorf("offset %d, want 1", got)
	}
}

// txn is a transactional producer that stages offsets.
type txn struct {
	s      *scene
	client *kgo.Client
	id     string
}

func (s *scene) txn(name string, maxCommitVersion int16) *txn {
	v := kversion.Stable()
	v.SetMaxKeyVersion(28, maxCommitVersion)
	id := s.prefix + name
	return &txn{s: s, id: id, client: s.otherClient(kgo.TransactionalID(id), kgo.MaxVersions(v), kgo.DefaultProduceTopic(s.topic("out")))}
}

// begin begins a transaction and writes a record: a transaction of offsets only would not be ended by the client.
func (x *txn) begin() {
	x.s.Helper()
	if err := x.client.BeginTransaction(); err != nil {
		x.s.Fatal(err)
	}
	if err := x.client.ProduceSync(x.s.ctx, kgo.StringRecord("v")).FirstErr(); err != nil {
		x.s.Fatal(err)
	}
}

func (x *txn) commit(member string, epoch int32, topic string, partition int32, offset int64) int16 {
	x.s.Helper()
	id, producerEpoch, err := x.client.ProducerID(x.s.ctx)
	if err != nil {
		x.s.Fatal(err)
	}
	add := kmsg.NewPtrAddOffsetsToTxnRequest()
	add.TransactionalID, add.ProducerID, add.ProducerEpoch, add.Group = x.id, id, producerEpoch, x.s.group
	if resp, err := x.client.Request(x.s.ctx, add); err != nil {
		x.s.Fatal(err)
	} else if code := resp.(*kmsg.AddOffsetsToTxnResponse).ErrorCode; code != 0 {
		x.s.Fatalf("AddOffsetsToTxn answered %v", kerr.ErrorForCode(code))
	}
	req := kmsg.NewPtrTxnOffsetCommitRequest()
	req.TransactionalID, req.Group, req.ProducerID, req.ProducerEpoch = x.id, x.s.group, id, producerEpoch
	req.MemberID, req.Generation = member, epoch
	t := kmsg.NewTxnOffsetCommitRequestTopic()
	t.Topic, t.TopicID = x.s.topic(topic), x.s.topicID(topic)
	p := kmsg.NewTxnOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset = partition, offset
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	resp, err := x.client.Request(x.s.ctx, req)
	if err != nil {
		x.s.Fatal(err)
	}
	return resp.(*kmsg.TxnOffsetCommitResponse).Topics[0].Partitions[0].ErrorCode
}

func (x *txn) end(try kgo.TransactionEndTry) {
	x.s.Helper()
	if err := x.client.EndTransaction(x.s.ctx, try); err != nil {
		x.s.Fatal(err)
	}
}

func c43(s *scene) {
	s.create("in:4", "out:1")
	a, b := s.member(s.simple("in")), s.member(s.simple("in"))
	a.join()
	b.join()
	s.settle(a, b)
	kept, gained := partitionOf(a.active[0]), partitionOf(b.active[0])

	for version := int16(5); version <= 6; version++ {
		if version == 6 && s.release < 44 {
			continue
		}
		x := s.txn("txn-v"+string(rune('0'+version)), version)
		stale := int16(22)
		if version == 6 {
			stale = staleEpoch
		}
		x.begin()
		for what, tt := range map[string]struct {
			member string
			epoch  int32
			part   int32
			want   int16
		}{
			"a newer epoch":         {a.id, a.epoch + 1, kept, stale},
			"older than the task":   {b.id, 2, gained, stale},
			"an unknown member":     {"nobody", a.epoch, kept, unknownMember},
			"without member data":   {"", -1, kept, 0},
			"at the present epoch":  {a.id, a.epoch, kept, 0},
			"at an older, held one": {a.id, 2, kept, 0},
		} {
			if got := x.commit(tt.member, tt.epoch, "in", tt.part, 10); got != tt.want {
				s.Errorf("version %d, %s: answered %d, want %d", version, what, got, tt.want)
			}
		}
		before := s.committed(s.group, "in", kept)
		if _, code := s.fetch(s.group, "in", kept, nil, -1, true); code != 88 {
			s.Errorf("a stable fetch of a staged offset is answered with %d, want 88", code)
		}
		x.end(kgo.TryAbort)
		if got := s.committed(s.group, "in", kept); got != before {
			s.Errorf("an aborted transaction moved the offset from %d to %d", before, got)
		}
		x.begin()
		if got := x.commit(a.id, a.epoch, "in", kept, 20+int64(version)); got != 0 {
			s.Errorf("commit answered %d", got)
		}
		if got := s.committed(s.group, "in", kept); got != before {
			s.Errorf("a staged offset shows: %d, was %d", got, before)
		}
		x.end(kgo.TryCommit)
		s.wait("the offset of the transaction", func() bool { return s.committed(s.group, "in", kept) == 20+int64(version) })
	}
}

// deleteOffset deletes a committed offset and returns the code of the partition.
func (s *scene) deleteOffset(topic string, partition int32) int16 {
	s.Helper()
	req := kmsg.NewPtrOffsetDeleteRequest()
	req.Group = s.group
	t := kmsg.NewOffsetDeleteRequestTopic()
	t.Topic = s.topic(topic)
	p := kmsg.NewOffsetDeleteRequestTopicPartition()
	p.Partition = partition
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	resp, err := s.client.Request(s.ctx, req)
	if err != nil {
		s.Fatal(err)
	}
	r := resp.(*kmsg.OffsetDeleteResponse)
	if r.ErrorCode != 0 {
		return r.ErrorCode
	}
	return r.Topics[0].Partitions[0].ErrorCode
}

func c44(s *scene) {
	s.create("in:2", "other:1")
	m := s.member(s.simple("in"))
	m.join()
	s.wantCommit("of an admin, with members", commit{epoch: -1, topic: "in", offset: 1}, unknownMember)
	s.wantCommit("of the member", commit{member: m.id, epoch: m.epoch, topic: "in", offset: 2}, 0)
	s.wantCommit("of the member, elsewhere", commit{member: m.id, epoch: m.epoch, topic: "other", offset: 3}, 0)
	if code := s.deleteOffset("in", 0); code != 86 {
		s.Errorf("deletion of a source topic's offset answered %d, want 86", code)
	}
	if code := s.deleteOffset("other", 0); code != 0 {
		s.Errorf("deletion of another topic's offset answered %d", code)
	}
	if a, b := s.committed(s.group, "in", 0), s.committed(s.group, "other", 0); a != 2 || b != -1 {
		s.Errorf("offsets %d and %d, want 2 and -1", a, b)
	}
	m.leave()
	s.wantCommit("of a member, without members", commit{member: m.id, epoch: 3, topic: "in", offset: 9}, unknownMember)
	s.wantCommit("of an admin, without members", commit{epoch: -1, topic: "in", offset: 4}, 0)
	if got := s.committed(s.group, "in", 0); got != 4 {
		s.Errorf("offset %d, want 4", got)
	}
	if code := s.deleteOffset("in", 0); code != 0 {
		s.Errorf("deletion without members answered %d", code)
	}
	if got := s.committed(s.group, "in", 0); got != -1 {
		s.Errorf("offset %d after its deletion", got)
	}
}

// c44Fetch covers the fetch side of §19.3.
func c44Fetch(s *scene) {
	s.create("in:1")
	m := s.member(s.simple("in"))
	m.join()
	s.wantCommit("of the member", commit{member: m.id, epoch: m.epoch, topic: "in", offset: 2}, 0)
	nobody, none := "nobody", ""
	for what, tt := range map[string]struct {
		group  string
		member *string
		epoch  int32
		offset int64
		code   int16
	}{
		"without a member":             {s.group, nil, -1, 2, 0},
		"no member, but an epoch":      {s.group, nil, 3, -1, unknownServerError},
		"as the member":                {s.group, &m.id, m.epoch, 2, 0},
		"as the member, another epoch": {s.group, &m.id, m.epoch + 1, -1, staleEpoch},
		"as somebody else":             {s.group, &nobody, m.epoch, -1, unknownMember},
		"as nobody":                    {s.group, &none, -1, -1, unknownMember},
		"of an unknown group":          {s.prefix + "none", nil, -1, -1, 0},
		"of an unknown group, as one":  {s.prefix + "none", &nobody, 4, -1, 0},
	} {
		if offset, code := s.fetch(tt.group, "in", 0, tt.member, tt.epoch, false); offset != tt.offset || code != tt.code {
			s.Errorf("fetch %s: offset %d, code %d; want %d, %d", what, offset, code, tt.offset, tt.code)
		}
	}
	m.leave()
}

func c57Commits(s *scene) {
	s.create("in:1")
	instance := "instance-1"
	a := s.member(s.simple("in"))
	a.instance = &instance
	a.join()
	epoch := a.epoch
	s.wantCommit("of the static member", commit{member: a.id, epoch: epoch, topic: "in", offset: 1}, 0)
	a.leaveForNow()
	s.wantCommit("after a temporary leave", commit{member: a.id, epoch: epoch, topic: "in", offset: 2}, staleEpoch)
	b := s.member(s.simple("in")).in(a.process)
	b.instance = &instance
	b.join()
	s.wantCommit("of the old member id", commit{member: a.id, epoch: epoch, topic: "in", offset: 3}, unknownMember)
	s.wantCommit("of the new member id", commit{member: b.id, epoch: b.epoch, topic: "in", offset: 4}, 0)
	b.leave()
}

func c58(s *scene) {
	s.create("a:1", "b:1")
	m := s.member(s.simple("a"))
	m.join()
	s.wantCommit("of the member", commit{member: m.id, epoch: m.epoch, topic: "a", offset: 5}, 0)
	if code := s.classicJoin(s.group); code != 23 {
		s.Errorf("a classic join into the group answered %d, want 23", code)
	}
	if code := s.consumerMember(s.group, "a").beat(0); code != groupNotFound {
		s.Errorf("a consumer heartbeat answered %d, want 69", code)
	}
	m.leave()
	if code := s.consumerMember(s.group, "a").beat(0); code != groupNotFound {
		s.Errorf("a consumer heartbeat into the emptied group answered %d, want 69", code)
	}

	// A classic member makes it a classic group; when that is empty it can be a streams group again, of another topology.
	id := s.classicMember(s.group)
	if got := s.committed(s.group, "a", 0); got != 5 {
		s.Errorf("offset %d in the classic group, want 5", got)
	}
	n := s.member(s.simple("b"))
	n.wantCode(n.tryJoin(), groupNotFound, "is not a streams group.")
	s.classicLeave(s.group, id)
	n.join()
	n.wantActive("0_0")
	if got := s.committed(s.group, "a", 0); got != 5 {
		s.Errorf("offset %d after the way back, want 5", got)
	}
	n.leave()
}

func c62(s *scene) {
	s.create("in:2", "other:1", "out:1")
	a, b := s.member(s.simple("in")), s.member(s.simple("in"))
	a.join()
	b.join()
	s.settle(a, b)
	released := partitionOf(b.active[0])
	s.wantCommit("a released partition", commit{member: a.id, epoch: a.epoch, topic: "in", partitions: []int32{released}, offset: 1}, 0)
	s.wantCommit("a topic outside", commit{member: a.id, epoch: a.epoch, topic: "other", offset: 2}, 0)
	if codes := s.commitEach(commit{member: a.id, epoch: a.epoch, topic: "in", partitions: []int32{0, 77}, offset: 3}); !slices.Equal(codes, []int16{0, 3}) {
		s.Errorf("a partition that does not exist: codes %v, want 0 and 3", codes)
	}

	x := s.txn("txn", 5)
	x.begin()
	if code := x.commit(a.id, a.epoch, "in", 0, 50); code != 0 {
		s.Fatalf("commit answered %d", code)
	}
	a.leave()
	b.leave()
	x.end(kgo.TryCommit)
	s.wait("the offset of the transaction", func() bool { return s.committed(s.group, "in", 0) == 50 })
}
