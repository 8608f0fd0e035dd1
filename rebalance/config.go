package rebalance

import (
	"cmp"
	crand "crypto/rand"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/rebalance/member"
	"github.com/millrace/millrace/topology"
)

// Config says which group to join, and as whom. Durations of zero mean the default.
type Config struct {
	// Client sends all requests of the member. It must not manage a group itself. Brokers take a member whose heartbeats come with another client
	// id for a changed one and rebalance, so one client must serve the member for its whole life. Required.
	Client *kgo.Client

	// Group is the group id, which is the application id. Required.
	Group string

	// ProcessID is the same for all members of a process, and should be kept with the local state: it is what gets a restarted process its tasks back.
	// Text form of a UUID. Required.
	ProcessID string

	// InstanceID makes the member static; it must be unique for each member, such as "<instance>-<worker>". Brokers older than Kafka 4.4 have no static
	// members: there the member is dynamic, with a warning. Empty: dynamic.
	InstanceID string

	// Rack is where the process runs. Empty: not told.
	Rack string

	// Tags are the client tags of rack-aware standby placement.
	Tags map[string]string

	// Endpoint is where other instances reach this one with queries. Nil: none.
	Endpoint *Endpoint

	// Topology is what the program runs; all members of a group must bring the same. Required.
	Topology topology.Metadata

	// TopologyEpoch numbers the topology. Leave it 0: brokers up to 4.4 refuse a change.
	TopologyEpoch int32

	// PollInterval is the longest time between two calls of [Membership.Poll] before the member leaves, and the time the coordinator waits for tasks
	// to be given up (max.poll.interval.ms). Default 5 minutes.
	PollInterval time.Duration

	// RequestTimeout bounds one request. Heartbeats are bounded by the larger of 10 seconds and two intervals if that is less. Default 30 seconds.
	RequestTimeout time.Duration

	// LeaveTimeout bounds, when leaving, the wait for the worker and then the wait for the broker. Default 30 seconds.
	LeaveTimeout time.Duration

	// SessionTimeout is the broker's session timeout, which it never tells; errors that are not understood are retried so long. Default 45 seconds.
	SessionTimeout time.Duration

	// InstancePatience bounds the wait for an instance id that another process holds. Default 60 seconds.
	InstancePatience time.Duration

	// InternalTopicTimeout fails the worker when the group waited so long for its internal topics. Zero: wait without limit.
	InternalTopicTimeout time.Duration

	// KeepOnTopicDenied goes on when a topic of the topology is not authorized, instead of failing the worker.
	KeepOnTopicDenied bool

	// Logger gets what happens. Nil: nothing is logged.
	Logger *slog.Logger

	// MemberID names the member. It must be new for each process start. Empty: 128 random bits.
	MemberID string

	// Now is the clock. Nil: [time.Now].
	Now func() time.Time

	// Rand is where member ids and the jitter of backoff come from. Nil: seeded by the system.
	Rand rand.Source
}

// Endpoint is a host and port for queries.
type Endpoint = member.Endpoint

// LeaveMode says what the group shall make of a member that leaves.
type LeaveMode = member.LeaveMode

// The ways to leave.
const (
	// LeaveDefault removes a dynamic member; a static one is expected back within the session timeout.
	LeaveDefault = member.LeaveDefault
	// LeaveGroup removes the member, also a static one.
	LeaveGroup = member.LeaveGroup
	// RemainInGroup keeps the member in the group until its session ends: a dynamic member says nothing, a static one is expected back.
	RemainInGroup = member.RemainInGroup
)

// prepare checks the configuration, all of it, and fills in what is random or has a default here. The core has the other defaults.
func (c Config) prepare() (Config, member.Config, error) {
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Rand == nil {
		var seed [32]byte
		crand.Read(seed[:])
		c.Rand = rand.NewChaCha8(seed)
	}
	c.RequestTimeout = cmp.Or(c.RequestTimeout, 30*time.Second)
	c.LeaveTimeout = cmp.Or(c.LeaveTimeout, 30*time.Second)
	if c.MemberID == "" {
		c.MemberID = newMemberID(c.Rand)
	}
	core := member.Config{
		Group: c.Group, MemberID: c.MemberID, InstanceID: c.InstanceID, ProcessID: c.ProcessID, Rack: c.Rack, Endpoint: c.Endpoint,
		Topology: c.Topology, TopologyEpoch: c.TopologyEpoch,
		PollInterval: c.PollInterval, RequestTimeout: c.RequestTimeout, LeaveTimeout: c.LeaveTimeout, SessionTimeout: c.SessionTimeout,
		InstancePatience: c.InstancePatience, InternalTopicTimeout: c.InternalTopicTimeout, KeepOnTopicDenied: c.KeepOnTopicDenied,
		NewMemberID: func() string { return newMemberID(c.Rand) },
		Jitter:      rand.New(c.Rand).Float64,
	}
	for _, key := range slices.Sorted(maps.Keys(c.Tags)) {
		core.Tags = append(core.Tags, member.Tag{Key: key, Value: c.Tags[key]})
	}
	err := core.Validate()
	if c.Client == nil {
		err = errors.Join(errors.New("rebalance: no client"), err)
	}
	return c, core, err
}

// newMemberID returns 128 random bits as 22 characters, the form that Kafka Streams uses.
func newMemberID(src rand.Source) string {
	var id [16]byte
	binary.BigEndian.PutUint64(id[:8], src.Uint64())
	binary.BigEndian.PutUint64(id[8:], src.Uint64())
	return base64.RawURLEncoding.EncodeToString(id[:])
}
