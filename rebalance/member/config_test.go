package member

import (
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/topology"
)

// M-60: refused before any request.
func TestM60ConfigIsValidated(t *testing.T) {
	topic := func(names ...string) (topics []topology.InternalTopic) {
		for _, n := range names {
			topics = append(topics, topology.InternalTopic{Name: n})
		}
		return topics
	}
	sub := func(f func(*topology.SubtopologyMetadata)) func(*Config) {
		return func(c *Config) { f(&c.Topology.Subtopologies[0]) }
	}
	for _, tt := range []struct {
		name   string
		change func(*Config)
		want   string // empty: valid
	}{
		{"valid", func(*Config) {}, ""},
		{"no group", func(c *Config) { c.Group = " " }, "group is blank"},
		{"no member id", func(c *Config) { c.MemberID = "" }, "member id is blank"},
		{"no process id", func(c *Config) { c.ProcessID = "" }, "process id is blank"},
		{"blank instance id", func(c *Config) { c.InstanceID = " " }, "instance id is blank"},
		{"blank rack is none", func(c *Config) { c.Rack = " " }, ""},
		{"negative rebalance timeout", func(c *Config) { c.PollInterval = -1 }, "poll interval"},
		{"rebalance timeout of 0 ms", func(c *Config) { c.PollInterval = time.Microsecond }, "poll interval"},
		{"huge rebalance timeout", func(c *Config) { c.PollInterval = 1000 * time.Hour }, "more than the protocol can say"},
		{"tag twice", func(c *Config) { c.Tags = []Tag{{"k", "a"}, {"l", "a"}, {"k", "b"}} }, `client tag "k" is given twice`},
		{"endpoint without port", func(c *Config) { c.Endpoint = &Endpoint{Host: "h"} }, "needs a host and a port"},
		{"negative topology epoch", func(c *Config) { c.TopologyEpoch = -1 }, "epoch is -1"},
		{"no sub-topologies", func(c *Config) { c.Topology.Subtopologies = nil }, "no sub-topologies"},
		{"sub-topology twice", func(c *Config) { c.Topology.Subtopologies[1].ID = 0 }, "sub-topology 0 is given twice"},
		{"no source", sub(func(s *topology.SubtopologyMetadata) { s.SourceTopics = nil }), "sub-topology 0 has no source topic"},
		{"only a repartition source", sub(func(s *topology.SubtopologyMetadata) { s.SourceTopics, s.RepartitionSourceTopics = nil, topic("r") }), ""},
		{"changelog twice", sub(func(s *topology.SubtopologyMetadata) { s.ChangelogTopics = topic("c", "d", "c") }), "changelog c twice"},
		{"repartition source twice", sub(func(s *topology.SubtopologyMetadata) { s.RepartitionSourceTopics = topic("r", "r") }), "repartition source r twice"},
		{"changelog with partitions", sub(func(s *topology.SubtopologyMetadata) {
			s.ChangelogTopics = []topology.InternalTopic{{Name: "c", Partitions: 3}}
		}), "fixes the partitions of the changelog c"},
		{"co-partition index", sub(func(s *topology.SubtopologyMetadata) {
			s.CopartitionGroups = []topology.CopartitionGroup{{SourceTopics: []int16{1}}}
		}), "index outside its topics"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cfg := Config{Group: "g", MemberID: "m", ProcessID: "p", Topology: testTopology()}
			tt.change(&cfg)
			err := cfg.Validate()
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestConfigReportsEverything(t *testing.T) {
	err := Config{PollInterval: -1, TopologyEpoch: -1}.Validate()
	for _, want := range []string{"group", "member id", "process id", "poll interval", "epoch", "no sub-topologies"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v does not speak of %q", err, want)
		}
	}
}
