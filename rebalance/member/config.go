package member

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/millrace/millrace/topology"
)

// Config says who the member is and how patient it is. Durations of zero mean the default.
type Config struct {
	// Group is the group id, which is the application id. It is needed for error texts only. Required.
	Group string

	// MemberID names the member for its whole life, over fencing and rejoins. It must be random and new for each process start (Kafka
	// Streams uses 128 bits as 22 characters of base64). Required.
	MemberID string

	// NewMemberID makes another id, for a broker that keeps refusing the join of MemberID because it still knows it (Kafka 4.1). It is
	// called only after such a join was refused for SessionTimeout, with the id given up released first. Nil: never.
	NewMemberID func() string

	// InstanceID makes the member static. It needs a coordinator of Kafka 4.4 or later; on an older one the member is dynamic, with a
	// warning. Empty: dynamic.
	InstanceID string

	// ProcessID is the same for all members of a process; the coordinator divides tasks by members per process. It should be kept with the
	// local state, so that a restarted process gets its tasks back. Required.
	ProcessID string

	// Rack is where the process runs. Empty or only spaces: not told.
	Rack string

	// Tags are the client tags of rack-aware standby placement.
	Tags []Tag

	// Endpoint is where other instances reach this one with queries. Nil: none.
	Endpoint *Endpoint

	// Topology is what the member tells the group when it joins. Only the ids of its sub-topologies and its topic names matter here.
	Topology topology.Metadata

	// TopologyEpoch numbers the topology; not negative. Kafka Streams always uses 0, and brokers refuse a change (§7.6).
	TopologyEpoch int32

	// PollInterval is both the longest time between two [Polled] events before the member leaves, and the time the coordinator waits for
	// tasks to be given up (max.poll.interval.ms, the rebalance timeout). Default 5 minutes.
	PollInterval time.Duration

	// RequestTimeout bounds one heartbeat. The bound used is the larger of 10 seconds and two intervals, but never more than this, because
	// 30 seconds are long against a session of 45. Default 30 seconds.
	RequestTimeout time.Duration

	// LeaveTimeout bounds, when leaving, the wait for the worker's tasks and then the wait for the broker's answer. Default 30 seconds.
	LeaveTimeout time.Duration

	// SessionTimeout is the broker's session timeout, which it never tells. It bounds the retries of errors that are not understood.
	// Default 45 seconds.
	SessionTimeout time.Duration

	// InstancePatience bounds how long a static join is retried while the instance id is still held by a process that did not say good-bye.
	// Default 60 seconds.
	InstancePatience time.Duration

	// InternalTopicTimeout fails the worker when the group waited so long for its internal topics. Zero: wait without limit.
	InternalTopicTimeout time.Duration

	// KeepOnTopicDenied goes on with heartbeats when a topic of the topology is not authorized, instead of also asking the worker to stop.
	KeepOnTopicDenied bool

	// Jitter returns the next number in [0, 1), which spreads backoff by ±20 %. Nil: no jitter.
	Jitter func() float64
}

// Tag is one client tag.
type Tag struct{ Key, Value string }

// Endpoint is a host and port for queries.
type Endpoint struct {
	Host string
	Port uint16
}

func (e Endpoint) String() string { return fmt.Sprintf("%s:%d", e.Host, e.Port) }

func (c Config) withDefaults() Config {
	def := func(d *time.Duration, v time.Duration) {
		if *d == 0 {
			*d = v
		}
	}
	def(&c.PollInterval, 5*time.Minute)
	def(&c.RequestTimeout, 30*time.Second)
	def(&c.LeaveTimeout, 30*time.Second)
	def(&c.SessionTimeout, 45*time.Second)
	def(&c.InstancePatience, time.Minute)
	if c.Jitter == nil {
		c.Jitter = func() float64 { return 0.5 }
	}
	return c
}

// Validate reports everything that a broker would refuse, or would take and then fail on (M-60), and what this package cannot work with.
func (c Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("member: "+format, args...)) }

	for _, s := range []struct{ name, value string }{{"group", c.Group}, {"member id", c.MemberID}, {"process id", c.ProcessID}} {
		if strings.TrimSpace(s.value) == "" {
			bad("%s is blank", s.name)
		}
	}
	if c.InstanceID != "" && strings.TrimSpace(c.InstanceID) == "" {
		bad("instance id is blank")
	}
	for _, d := range []struct {
		name  string
		value time.Duration
	}{
		{"poll interval", c.PollInterval}, {"request timeout", c.RequestTimeout}, {"leave timeout", c.LeaveTimeout},
		{"session timeout", c.SessionTimeout}, {"instance patience", c.InstancePatience}, {"internal topic timeout", c.InternalTopicTimeout},
	} {
		if d.value < 0 || d.value > 0 && d.value < time.Millisecond {
			bad("%s is %v, must be at least 1ms", d.name, d.value)
		}
	}
	if c.PollInterval.Milliseconds() > 1<<31-1 {
		bad("poll interval is %v, more than the protocol can say", c.PollInterval)
	}
	tags := make(map[string]bool)
	for _, t := range c.Tags {
		if tags[t.Key] {
			bad("client tag %q is given twice", t.Key)
		}
		tags[t.Key] = true
	}
	if e := c.Endpoint; e != nil && (strings.TrimSpace(e.Host) == "" || e.Port == 0) {
		bad("endpoint %v needs a host and a port", e)
	}
	errs = append(errs, validateTopology(c.Topology, c.TopologyEpoch)...)
	return errors.Join(errs...)
}

func validateTopology(t topology.Metadata, epoch int32) (errs []error) {
	bad := func(format string, args ...any) {
		errs = append(errs, fmt.Errorf("member: topology: "+format, args...))
	}
	if epoch < 0 {
		bad("epoch is %d, must not be negative", epoch)
	}
	if len(t.Subtopologies) == 0 {
		bad("no sub-topologies")
	}
	ids := make(map[int]bool)
	for _, s := range t.Subtopologies {
		if ids[s.ID] {
			bad("sub-topology %d is given twice", s.ID)
		}
		ids[s.ID] = true
		if s.ID < 0 {
			bad("sub-topology %d has a negative id", s.ID)
		}
		if len(s.SourceTopics)+len(s.RepartitionSourceTopics) == 0 {
			bad("sub-topology %d has no source topic", s.ID)
		}
		for _, list := range []struct {
			kind   string
			topics []topology.InternalTopic
		}{{"changelog", s.ChangelogTopics}, {"repartition source", s.RepartitionSourceTopics}} {
			seen := make(map[string]bool)
			for _, topic := range list.topics {
				if seen[topic.Name] {
					bad("sub-topology %d has the %s %s twice", s.ID, list.kind, topic.Name)
				}
				seen[topic.Name] = true
			}
		}
		for _, topic := range s.ChangelogTopics {
			if topic.Partitions != 0 {
				bad("sub-topology %d fixes the partitions of the changelog %s, which the broker derives", s.ID, topic.Name)
			}
		}
		for _, g := range s.CopartitionGroups {
			if !within(g.SourceTopics, len(s.SourceTopics)) || !within(g.RepartitionSourceTopics, len(s.RepartitionSourceTopics)) {
				bad("sub-topology %d has a co-partition group with an index outside its topics", s.ID)
			}
		}
	}
	return errs
}

func within(indexes []int16, n int) bool {
	for _, i := range indexes {
		if i < 0 || int(i) >= n {
			return false
		}
	}
	return true
}
