package topology

// Metadata is what a member tells the broker about its topology when it joins a streams group (KIP-1071). All lists are sorted, because
// brokers compare them element by element (member spec §7.2, §7.6).
type Metadata struct {
	Subtopologies []SubtopologyMetadata // ascending by id as a string
}

// SubtopologyMetadata describes one sub-topology. Topic names are full names, with the application id where the topic is internal.
type SubtopologyMetadata struct {
	ID                      int
	SourceTopics            []string // external topics, ascending
	RepartitionSinkTopics   []string // ascending
	RepartitionSourceTopics []InternalTopic
	ChangelogTopics         []InternalTopic
	CopartitionGroups       []CopartitionGroup
}

// InternalTopic is a topic the broker creates for the application.
type InternalTopic struct {
	Name              string
	Partitions        int32         // 0: derived by the broker
	ReplicationFactor int16         // -1: the broker's default
	Configs           []TopicConfig // ascending by key
}

// TopicConfig is one setting of a topic.
type TopicConfig struct{ Key, Value string }

// CopartitionGroup names topics of one sub-topology that need equal partition counts, as indexes into its sorted lists.
type CopartitionGroup struct {
	SourceTopics            []int16
	RepartitionSourceTopics []int16
}
