package conformance

import "github.com/twmb/franz-go/pkg/kmsg"

type (
	topology    = kmsg.StreamsGroupHeartbeatRequestTopology
	subtopology = kmsg.StreamsGroupHeartbeatRequestTopologySubtopology
	subOption   func(*scene, *subtopology)
)

// topologyOf puts subtopologies together.
func (s *scene) topologyOf(epoch int32, subs ...subtopology) *topology {
	t := kmsg.NewStreamsGroupHeartbeatRequestTopology()
	t.Epoch = epoch
	t.Subtopologies = append([]subtopology{}, subs...)
	return &t
}

// sub makes a subtopology. Topic names in the options get the scene's prefix.
func (s *scene) sub(id string, opts ...subOption) subtopology {
	st := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopology()
	st.SubtopologyID = id
	for _, o := range opts {
		o(s, &st)
	}
	return st
}

// simple is one stateless subtopology "0" over source topics.
func (s *scene) simple(sources ...string) *topology {
	return s.topologyOf(0, s.sub("0", reads(sources...)))
}

// stateful is one subtopology "0" with a changelog over source topics.
func (s *scene) stateful(changelog string, sources ...string) *topology {
	return s.topologyOf(0, s.sub("0", reads(sources...), logs(changelog)))
}

func reads(topics ...string) subOption {
	return func(s *scene, st *subtopology) {
		for _, t := range topics {
			st.SourceTopics = append(st.SourceTopics, s.topic(t))
		}
	}
}

func writes(topics ...string) subOption {
	return func(s *scene, st *subtopology) {
		for _, t := range topics {
			st.RepartitionSinkTopics = append(st.RepartitionSinkTopics, s.topic(t))
		}
	}
}

func logs(topics ...string) subOption {
	return func(s *scene, st *subtopology) {
		for _, t := range topics {
			st.StateChangelogTopics = append(st.StateChangelogTopics, s.internal(t, 0))
		}
	}
}

// repartitions reads repartition topics; zero partitions leave the count to the broker.
func repartitions(topic string, partitions int32) subOption {
	return func(s *scene, st *subtopology) {
		st.RepartitionSourceTopics = append(st.RepartitionSourceTopics, s.internal(topic, partitions))
	}
}

// copartitions ties sources and repartition sources together, by index.
func copartitions(sources, repartitions []int16) subOption {
	return func(_ *scene, st *subtopology) {
		cg := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopologyCopartitionGroup()
		cg.SourceTopics, cg.RepartitionSourceTopics = sources, repartitions
		st.CopartitionGroups = append(st.CopartitionGroups, cg)
	}
}

func (s *scene) internal(name string, partitions int32) kmsg.TopicInfo {
	ti := kmsg.NewTopicInfo()
	ti.Topic, ti.NumPartitions = s.topic(name), partitions
	s.topics = append(s.topics, ti.Topic) // deleted at the end if it was created
	return ti
}
