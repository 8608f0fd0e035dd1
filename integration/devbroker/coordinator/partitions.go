package coordinator

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// The status codes of a heartbeat response (§2.3).
const (
	StatusStaleTopology          int8 = 0
	StatusMissingSourceTopics    int8 = 1
	StatusIncorrectlyPartitioned int8 = 2
	StatusMissingInternalTopics  int8 = 3
	StatusShutdownApplication    int8 = 4
	StatusAssignmentDelayed      int8 = 5
	StatusMissingClientTags      int8 = 6
)

// configurator works out partition counts (§9.2).
type configurator struct {
	topology    *kmsg.StreamsGroupHeartbeatRequestTopology
	subs        []*kmsg.StreamsGroupHeartbeatRequestTopologySubtopology // ascending by id
	metadata    topicMetadata
	decided     map[string]int32 // counts of repartition topics
	fixed       map[string]int32 // the explicit ones among them
	repartition map[string]bool  // repartition source topics of the whole topology
}

// misconfigured is a status-2 finding.
type misconfigured string

func (m misconfigured) Error() string { return string(m) }

func configure(t *kmsg.StreamsGroupHeartbeatRequestTopology, metadata topicMetadata) (*configured, *failure) {
	c := &configurator{topology: t, metadata: metadata, decided: map[string]int32{}, fixed: map[string]int32{}, repartition: map[string]bool{}}
	for i := range t.Subtopologies {
		c.subs = append(c.subs, &t.Subtopologies[i])
	}
	slices.SortFunc(c.subs, func(a, b *kmsg.StreamsGroupHeartbeatRequestTopologySubtopology) int {
		return strings.Compare(a.SubtopologyID, b.SubtopologyID)
	})

	if missing := c.missingSources(); len(missing) > 0 {
		return &configured{status: StatusMissingSourceTopics, detail: "Source topics " + nameThree(missing, "topics") + " are missing."}, nil
	}
	if f := c.decideRepartitions(); f != nil {
		return nil, f
	}
	if bad := c.copartition(); bad != "" {
		return &configured{status: StatusIncorrectlyPartitioned, detail: string(bad)}, nil
	}
	return c.build()
}

func (c *configurator) missingSources() []string {
	var missing []string
	for _, s := range c.subs {
		for _, name := range s.SourceTopics {
			if _, ok := c.metadata.topics[name]; !ok {
				missing = append(missing, name)
			}
		}
	}
	slices.Sort(missing)
	return slices.Compact(missing)
}

// nameThree lists at most three names: "a, b, c and 2 additional topics".
func nameThree(names []string, what string) string {
	if len(names) <= 3 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d additional %s", strings.Join(names[:3], ", "), len(names)-3, what)
}

// decideRepartitions gives every repartition topic a count: the explicit one, or the maximum of the inputs of the subtopology that writes it,
// found round by round through chains (§9.2, 2).
func (c *configurator) decideRepartitions() *failure {
	for _, s := range c.subs {
		for _, ti := range s.RepartitionSourceTopics {
			c.repartition[ti.Topic] = true
			if ti.NumPartitions != 0 {
				c.fixed[ti.Topic] = ti.NumPartitions
				c.decided[ti.Topic] = ti.NumPartitions
			}
		}
	}
	for {
		waiting, progress := false, false
		for _, s := range c.subs {
			for _, sink := range s.RepartitionSinkTopics {
				if _, ok := c.decided[sink]; ok {
					continue
				}
				if n, ok := c.inputs(s); ok {
					c.decided[sink] = n
					progress = true
				} else {
					waiting = true
				}
			}
		}
		if !waiting {
			break
		}
		if !progress {
			return fail(kerr.StreamsInvalidTopology, "Failed to compute number of partitions for all repartition topics. There may be loops in the "+
				"topology that cannot be resolved.")
		}
	}
	for name := range c.repartition {
		if _, ok := c.decided[name]; !ok {
			return fail(kerr.StreamsInvalidTopology, "Failed to compute number of partitions for all repartition topics, because a repartition "+
				"source topic is never used as a sink topic.")
		}
	}
	return nil
}

// inputs is the largest known count among what a subtopology reads; false while none is known.
func (c *configurator) inputs(s *kmsg.StreamsGroupHeartbeatRequestTopologySubtopology) (int32, bool) {
	most, known := int32(0), false
	for _, name := range s.SourceTopics {
		if n, ok := c.metadata.partitions(name); ok {
			most, known = max(most, n), true
		}
	}
	for _, ti := range s.RepartitionSourceTopics {
		if n, ok := c.decided[ti.Topic]; ok {
			most, known = max(most, n), true
		}
	}
	return most, known
}

// count is that of the existing topic, or the decided one.
func (c *configurator) count(name string) int32 {
	if n, ok := c.metadata.partitions(name); ok {
		return n
	}
	return c.decided[name]
}

// copartition makes the topics of each copartition group agree, or says why they cannot (§9.2, 3).
func (c *configurator) copartition() misconfigured {
	for _, s := range c.subs {
		for _, cg := range s.CopartitionGroups {
			var names []string
			for _, i := range cg.SourceTopics {
				names = append(names, s.SourceTopics[i])
			}
			for _, i := range cg.RepartitionSourceTopics {
				names = append(names, s.RepartitionSourceTopics[i].Topic)
			}
			if bad := c.copartitionGroup(names); bad != "" {
				return bad
			}
		}
	}
	return ""
}

func (c *configurator) copartitionGroup(names []string) misconfigured {
	var external, internal []string
	for _, name := range names {
		if c.repartition[name] {
			internal = append(internal, name)
		} else {
			external = append(external, name)
		}
	}
	slices.Sort(internal)

	var chosen int32
	switch {
	case len(external) > 0:
		for _, name := range external {
			if c.count(name) != c.count(external[0]) {
				return c.notEqual(external)
			}
		}
		chosen = c.count(external[0])
	case len(c.fixed) > 0:
		// Brokers look at the fixed topics of the whole topology here, not only at those of the group, and quote the group's.
		for _, n := range c.fixed {
			if chosen != 0 && chosen != n {
				return c.notEqual(internal)
			}
			chosen = n
		}
	default:
		for _, name := range internal {
			chosen = max(chosen, c.count(name))
		}
	}
	for _, name := range internal {
		if n, ok := c.fixed[name]; ok && n != chosen {
			return misconfigured(fmt.Sprintf("Number of partitions [%d] of repartition topic [%s] doesn't match number of partitions [%d] of the source topic.",
				n, name, chosen))
		}
		c.decided[name] = chosen
	}
	return ""
}

func (c *configurator) notEqual(names []string) misconfigured {
	var parts []string
	for _, name := range slices.Compact(slices.Sorted(slices.Values(names))) {
		parts = append(parts, fmt.Sprintf("%s=%d", name, c.count(name)))
	}
	return misconfigured("Following topics do not have the same number of partitions: [{" + strings.Join(parts, ", ") + "}]")
}

// build sizes changelogs and tasks, checks the internal topics that exist and lists those that do not (§9.2, 4 to 7).
func (c *configurator) build() (*configured, *failure) {
	out := &configured{subtopologies: map[string]*subtopology{}}
	expected := map[string]int32{}
	var order []string
	infos := map[string]kmsg.TopicInfo{}
	want := func(ti kmsg.TopicInfo, n int32) kmsg.TopicInfo {
		ti.NumPartitions = n
		if _, ok := expected[ti.Topic]; !ok {
			order = append(order, ti.Topic)
		}
		expected[ti.Topic], infos[ti.Topic] = n, ti
		return ti
	}
	for _, s := range c.subs {
		logs, ok := c.inputs(s)
		if !ok {
			return nil, fail(kerr.StreamsInvalidTopology, "No source topics found for subtopology %s", s.SubtopologyID)
		}
		sub := &subtopology{sources: slices.Clone(s.SourceTopics)}
		for _, name := range s.SourceTopics {
			sub.tasks = max(sub.tasks, c.count(name))
		}
		for _, ti := range s.RepartitionSourceTopics {
			sub.sources = append(sub.sources, ti.Topic)
			sub.tasks = max(sub.tasks, c.count(ti.Topic))
			sub.repartitions = append(sub.repartitions, want(ti, c.decided[ti.Topic]))
		}
		for _, ti := range s.StateChangelogTopics {
			sub.changelogs = append(sub.changelogs, want(ti, logs))
		}
		slices.Sort(sub.sources)
		sub.sources = slices.Compact(sub.sources)
		out.subtopologies[s.SubtopologyID] = sub
	}

	for _, name := range slices.Sorted(maps.Keys(expected)) {
		if n, ok := c.metadata.partitions(name); ok && n != expected[name] {
			return &configured{status: StatusIncorrectlyPartitioned,
				detail: fmt.Sprintf("Existing topic %s has different number of partitions: expected %d, found %d", name, expected[name], n)}, nil
		}
	}
	var missing []string
	for _, name := range order {
		if _, ok := c.metadata.topics[name]; ok {
			continue
		}
		missing = append(missing, name)
		nt := NewTopic{Name: name, Partitions: expected[name], ReplicationFactor: infos[name].ReplicationFactor, Configs: slices.Clone(infos[name].Configs)}
		if nt.ReplicationFactor == 0 {
			nt.ReplicationFactor = -1
		}
		out.create = append(out.create, nt)
	}
	if len(missing) > 0 {
		out.status, out.detail = StatusMissingInternalTopics, "Internal topics are missing: "+nameThree(missing, "topics")
	}
	return out, nil
}
