package coordinator

import (
	"cmp"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// sameTopology compares as brokers do (§8): every list in order, subtopologies by id.
func sameTopology(a, b *kmsg.StreamsGroupHeartbeatRequestTopology) bool {
	if a.Epoch != b.Epoch || len(a.Subtopologies) != len(b.Subtopologies) {
		return false
	}
	byID := map[string]*kmsg.StreamsGroupHeartbeatRequestTopologySubtopology{}
	for i := range a.Subtopologies {
		byID[a.Subtopologies[i].SubtopologyID] = &a.Subtopologies[i]
	}
	for i := range b.Subtopologies {
		y := &b.Subtopologies[i]
		x := byID[y.SubtopologyID]
		if x == nil ||
			!slices.Equal(x.SourceTopics, y.SourceTopics) ||
			!slices.Equal(x.RepartitionSinkTopics, y.RepartitionSinkTopics) ||
			!slices.EqualFunc(x.StateChangelogTopics, y.StateChangelogTopics, sameTopicInfo) ||
			!slices.EqualFunc(x.RepartitionSourceTopics, y.RepartitionSourceTopics, sameTopicInfo) ||
			!slices.EqualFunc(x.CopartitionGroups, y.CopartitionGroups, sameCopartitionGroup) {
			return false
		}
	}
	return true
}

func sameTopicInfo(x, y kmsg.TopicInfo) bool {
	return x.Topic == y.Topic && x.NumPartitions == y.NumPartitions && x.ReplicationFactor == y.ReplicationFactor &&
		slices.EqualFunc(x.Configs, y.Configs, func(a, b kmsg.TopicInfoConfig) bool { return a.Key == b.Key && a.Value == b.Value })
}

func sameCopartitionGroup(x, y kmsg.StreamsGroupHeartbeatRequestTopologySubtopologyCopartitionGroup) bool {
	return slices.Equal(x.SourceTopics, y.SourceTopics) && slices.Equal(x.RepartitionSourceTopics, y.RepartitionSourceTopics) &&
		slices.Equal(x.SourceTopicRegex, y.SourceTopicRegex)
}

// copyTopology detaches a topology from the request it came in.
func copyTopology(t *kmsg.StreamsGroupHeartbeatRequestTopology) *kmsg.StreamsGroupHeartbeatRequestTopology {
	c := *t
	c.Subtopologies = slices.Clone(t.Subtopologies)
	for i := range c.Subtopologies {
		s := &c.Subtopologies[i]
		s.SourceTopics = slices.Clone(s.SourceTopics)
		s.SourceTopicRegex = slices.Clone(s.SourceTopicRegex)
		s.RepartitionSinkTopics = slices.Clone(s.RepartitionSinkTopics)
		s.StateChangelogTopics = copyTopicInfos(s.StateChangelogTopics)
		s.RepartitionSourceTopics = copyTopicInfos(s.RepartitionSourceTopics)
		s.CopartitionGroups = slices.Clone(s.CopartitionGroups)
		for j := range s.CopartitionGroups {
			cg := &s.CopartitionGroups[j]
			cg.SourceTopics = slices.Clone(cg.SourceTopics)
			cg.RepartitionSourceTopics = slices.Clone(cg.RepartitionSourceTopics)
			cg.SourceTopicRegex = slices.Clone(cg.SourceTopicRegex)
		}
	}
	return &c
}

func copyTopicInfos(in []kmsg.TopicInfo) []kmsg.TopicInfo {
	out := slices.Clone(in)
	for i := range out {
		out[i].Configs = slices.Clone(out[i].Configs)
	}
	return out
}

// requiredTopics are the topics whose change makes the topology be configured again (§9.1): sources, repartition sources and changelogs.
func requiredTopics(t *kmsg.StreamsGroupHeartbeatRequestTopology) []string {
	var names []string
	for i := range t.Subtopologies {
		s := &t.Subtopologies[i]
		names = append(names, s.SourceTopics...)
		for _, ti := range s.RepartitionSourceTopics {
			names = append(names, ti.Topic)
		}
		for _, ti := range s.StateChangelogTopics {
			names = append(names, ti.Topic)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// metadata is the state of the required topics at one moment, and a hash over those that exist.
type topicMetadata struct {
	topics map[string]Topic
	hash   uint64
}

func (m topicMetadata) partitions(name string) (int32, bool) {
	t, ok := m.topics[name]
	return t.Partitions, ok
}

func (c *Coordinator) readMetadata(t *kmsg.StreamsGroupHeartbeatRequestTopology) topicMetadata {
	m := topicMetadata{topics: map[string]Topic{}}
	h := fnv.New64a()
	for _, name := range requiredTopics(t) {
		info, ok := c.cluster.Topic(name)
		if !ok {
			continue
		}
		m.topics[name] = info
		h.Write([]byte(name))
		h.Write([]byte{0})
		h.Write(info.ID[:])
		h.Write(strconv.AppendInt(nil, int64(info.Partitions), 10))
	}
	if len(m.topics) > 0 {
		m.hash = h.Sum64()
	}
	return m
}

// configured is a topology with the partition counts of the moment: what can be assigned, or why nothing can.
type configured struct {
	// subtopologies is nil while source topics are missing or counts are wrong.
	subtopologies map[string]*subtopology

	status int8       // why the group is not ready; meaningless when ready
	detail string     // of the status; empty when ready
	create []NewTopic // internal topics that do not exist, in the order in which they were found missing
}

// subtopology is a configured subtopology.
type subtopology struct {
	tasks        int32
	sources      []string // source and repartition source topics
	changelogs   []kmsg.TopicInfo
	repartitions []kmsg.TopicInfo
}

func (c *configured) ready() bool { return c.detail == "" }

// allTasks lists the tasks ascending by partition, then subtopology id, and tells which are stateful.
func (c *configured) allTasks() (all []task, stateful map[task]bool) {
	stateful = map[task]bool{}
	for _, id := range slices.Sorted(maps.Keys(c.subtopologies)) {
		s := c.subtopologies[id]
		for p := range s.tasks {
			t := task{id, p}
			all = append(all, t)
			if len(s.changelogs) > 0 {
				stateful[t] = true
			}
		}
	}
	slices.SortStableFunc(all, func(a, b task) int { return cmp.Compare(a.partition, b.partition) })
	return all, stateful
}

// NewTopic is an internal topic a group needs and the cluster does not have.
type NewTopic struct {
	Name              string
	Partitions        int32
	ReplicationFactor int16 // -1: the broker's default
	Configs           []kmsg.TopicInfoConfig
}
