package topology

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"
)

// Naming is what full topic names and internal topic settings depend on besides the topology.
type Naming struct {
	ApplicationID     string
	ReplicationFactor int16             // of internal topics; -1: the broker's default
	InternalConfigs   map[string]string // settings of all internal topics, below those of a single store
	WindowExtra       time.Duration     // added to the retention of window and session changelogs
}

// TopicName returns the full name of a topic of the topology: internal ones get the application id in front (T-2).
func (t *Topology) TopicName(n Naming, topic string) string {
	if t.Internal(topic) {
		return n.ApplicationID + "-" + topic
	}
	return topic
}

// ChangelogName returns the changelog topic of a store, "" if it has none.
func (s Store) ChangelogName(applicationID string) string {
	switch {
	case !s.Logging:
		return ""
	case s.SourceTopic != "":
		return s.SourceTopic
	}
	return applicationID + "-" + s.Name + "-changelog"
}

// Metadata returns what a member sends when it joins. Equal topologies give equal metadata, in every process and every run (M-36).
func (t *Topology) Metadata(n Naming) Metadata {
	var m Metadata
	for _, s := range t.Subtopologies {
		w := SubtopologyMetadata{ID: s.ID, SourceTopics: slices.Clone(s.SourceTopics)}
		for _, topic := range s.SinkTopics {
			if t.Internal(topic) {
				w.RepartitionSinkTopics = append(w.RepartitionSinkTopics, t.TopicName(n, topic))
			}
		}
		for _, topic := range s.RepartitionTopics {
			w.RepartitionSourceTopics = append(w.RepartitionSourceTopics, InternalTopic{
				Name: t.TopicName(n, topic), Partitions: t.internal[topic].Partitions, ReplicationFactor: n.ReplicationFactor,
				Configs: n.configs(map[string]string{"cleanup.policy": "delete", "segment.bytes": "52428800", "retention.ms": "-1"}, nil),
			})
		}
		for _, store := range s.Stores {
			if store.Logging {
				w.ChangelogTopics = append(w.ChangelogTopics, InternalTopic{
					Name: store.ChangelogName(n.ApplicationID), ReplicationFactor: n.ReplicationFactor,
					Configs: n.configs(store.changelogConfigs(n.WindowExtra), store.ChangelogConfig),
				})
			}
		}
		byName := func(a, b InternalTopic) int { return cmp.Compare(a.Name, b.Name) }
		slices.SortFunc(w.ChangelogTopics, byName)
		w.CopartitionGroups = s.copartitionGroups()
		m.Subtopologies = append(m.Subtopologies, w)
	}
	slices.SortFunc(m.Subtopologies, func(a, b SubtopologyMetadata) int {
		return cmp.Compare(strconv.Itoa(a.ID), strconv.Itoa(b.ID)) // as strings: "10" before "2"
	})
	return m
}

func (n Naming) configs(library, own map[string]string) []TopicConfig {
	all := map[string]string{"message.timestamp.type": "CreateTime"}
	maps.Copy(all, library)
	maps.Copy(all, n.InternalConfigs)
	maps.Copy(all, own)
	var list []TopicConfig
	for _, k := range slices.Sorted(maps.Keys(all)) {
		list = append(list, TopicConfig{k, all[k]})
	}
	return list
}

// changelogConfigs are the settings of Kafka Streams for each kind of store (member spec §7.4).
func (s Store) changelogConfigs(windowExtra time.Duration) map[string]string {
	retention, extra := s.Retention.Milliseconds(), windowExtra.Milliseconds()
	if retention > math.MaxInt64-extra {
		retention = math.MaxInt64 - extra
	}
	switch s.Kind {
	case KeyValueStore, BufferStore:
		return map[string]string{"cleanup.policy": "compact"}
	case VersionedStore: // a compacted topic that keeps the history
		return map[string]string{"cleanup.policy": "compact", "min.compaction.lag.ms": strconv.FormatInt(retention+extra, 10)}
	}
	policy := "compact,delete"
	if s.Duplicates {
		policy = "delete"
	}
	return map[string]string{"cleanup.policy": policy, "retention.ms": strconv.FormatInt(retention+extra, 10)}
}

// copartitionGroups turns names into indexes of the sorted lists, in an order that does not depend on chance.
func (s *Subtopology) copartitionGroups() []CopartitionGroup {
	var groups []CopartitionGroup
	for _, set := range s.Copartitioned {
		var g CopartitionGroup
		for _, topic := range set {
			if i, ok := slices.BinarySearch(s.SourceTopics, topic); ok {
				g.SourceTopics = append(g.SourceTopics, int16(i))
			}
			if i, ok := slices.BinarySearch(s.RepartitionTopics, topic); ok {
				g.RepartitionSourceTopics = append(g.RepartitionSourceTopics, int16(i))
			}
		}
		groups = append(groups, g)
	}
	slices.SortFunc(groups, func(a, b CopartitionGroup) int {
		return cmp.Or(slices.Compare(a.SourceTopics, b.SourceTopics), slices.Compare(a.RepartitionSourceTopics, b.RepartitionSourceTopics))
	})
	return groups
}
