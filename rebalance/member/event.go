package member

import (
	"fmt"
	"time"

	"github.com/millrace/millrace/topology"
)

// Event is something that happened: one of the structs of this file.
type Event interface{ event() }

type (
	// Join says that the worker wants to be in the group. It counts as the first [Polled].
	Join struct{}

	// Tick says that time has passed.
	Tick struct{}

	// CoordinatorFound answers [FindCoordinator]. Version is the highest version of the heartbeat that both sides know.
	CoordinatorFound struct {
		ID      uint64
		Version int16
	}

	// CoordinatorFailed answers [FindCoordinator].
	CoordinatorFailed struct {
		ID    uint64
		Class Class
		Err   error
	}

	// HeartbeatOK answers [SendHeartbeat] with a response that has no error code.
	HeartbeatOK struct {
		ID       uint64
		Response Response
	}

	// HeartbeatFailed answers [SendHeartbeat] with an error code, or with no response at all.
	HeartbeatFailed struct {
		ID    uint64
		Class Class
		Err   error
	}

	// Described answers [Describe] with the member as the coordinator knows it. Foreign is as in [Response].
	Described struct {
		ID      uint64
		Found   bool // the group lists the member
		Epoch   int32
		Tasks   Assignment
		Foreign []string
	}

	// DescribeFailed answers [Describe].
	DescribeFailed struct {
		ID    uint64
		Class Class
		Err   error
	}

	// TopicsChecked answers [CheckTopics] with what is wrong with the source topics, in words; empty: nothing. A failed check has an Err.
	TopicsChecked struct {
		ID         uint64
		Missing    string
		Mismatched string
		Err        error
	}

	// Revoked answers [Revoke]. With an Err no task counts as given up; one that is [ErrMigrated] is handled as [Migrated].
	Revoked struct {
		ID  uint64
		Err error
	}

	// Assigned answers [Assign]. With an Err nothing of it counts as taken.
	Assigned struct {
		ID  uint64
		Err error
	}

	// LostDone answers [Lose]. There is nothing to be done about an error.
	LostDone struct{ ID uint64 }

	// Polled says that the worker's loop finished a round, at a time not after that of the Step; zero: now. It is the sign of life that
	// [Config.PollInterval] waits for.
	Polled struct{ At time.Time }

	// Migrated says that a commit was refused because the member is no longer the owner (§11.4): tasks are lost, the member leaves and
	// joins again.
	Migrated struct{}

	// Offsets replaces what the worker knows of its tasks' changelog positions (§8): Offsets sums the positions of a task's changelogs, Ends their end
	// offsets; [UnknownOffset] where a sum is not known. Running active tasks must be absent. The maps must not be modified afterwards.
	Offsets struct {
		Offsets, Ends map[topology.TaskID]int64
	}

	// Shutdown asks every instance of the application to stop: all later heartbeats carry the flag.
	Shutdown struct{}

	// Leave asks the member to leave. Closed says that the worker has closed its tasks already, so nothing is asked of it any more.
	Leave struct {
		Mode   LeaveMode
		Closed bool
	}
)

func (Join) event()              {}
func (Tick) event()              {}
func (CoordinatorFound) event()  {}
func (CoordinatorFailed) event() {}
func (HeartbeatOK) event()       {}
func (HeartbeatFailed) event()   {}
func (Described) event()         {}
func (DescribeFailed) event()    {}
func (TopicsChecked) event()     {}
func (Revoked) event()           {}
func (Assigned) event()          {}
func (LostDone) event()          {}
func (Polled) event()            {}
func (Migrated) event()          {}
func (Offsets) event()           {}
func (Shutdown) event()          {}
func (Leave) event()             {}

// UnknownOffset stands for an offset or a sum that is not known or does not fit.
const UnknownOffset = 1<<63 - 1

// LeaveMode says what the group shall make of a member that leaves (§10.1).
type LeaveMode uint8

const (
	// LeaveDefault removes a dynamic member; a static one is expected back within the session timeout.
	LeaveDefault LeaveMode = iota
	// LeaveGroup removes the member, also a static one.
	LeaveGroup
	// RemainInGroup keeps the member in the group until its session ends: a dynamic member says nothing, a static one is expected back.
	RemainInGroup
)

func (l LeaveMode) String() string {
	switch l {
	case LeaveDefault:
		return "default"
	case LeaveGroup:
		return "leave"
	case RemainInGroup:
		return "remain"
	}
	return "invalid"
}

// Response is a heartbeat response without an error code. A nil slice is a null on the wire and means "unchanged"; an empty one means
// "nothing". The slices are taken over.
type Response struct {
	Epoch          int32
	Interval       time.Duration // until the next heartbeat
	OffsetInterval time.Duration // between two reports of offsets
	RecoveryLag    int64         // a warm-up task this close to the end has caught up; negative: not told
	Statuses       []Status

	// The complete assignment, all three lists or none. Foreign names sub-topologies with tasks whose ids are no number.
	Active, Standby, Warmup []topology.TaskID
	Foreign                 []string

	EndpointEpoch int32
	Endpoints     []HostPartitions // one entry per member, in any order
}

// Status is one condition of the group.
type Status struct {
	Code   StatusCode
	Detail string
}

// StatusCode names a condition of the group (§5).
type StatusCode int8

// The status codes of Kafka 4.1 to 4.4; others are noted and ignored.
const (
	StaleTopology StatusCode = iota
	MissingSourceTopics
	IncorrectlyPartitioned
	MissingInternalTopics
	ShutdownApplication
	AssignmentDelayed
	MissingClientTags
)

var statusNames = [...]string{
	"stale topology", "missing source topics", "incorrectly partitioned topics", "missing internal topics", "shutdown application",
	"assignment delayed", "missing client tags",
}

func (c StatusCode) String() string {
	if c.known() {
		return statusNames[c]
	}
	return fmt.Sprintf("status %d", int8(c))
}

func (c StatusCode) known() bool { return c >= 0 && int(c) < len(statusNames) }

// HostPartitions are the partitions that can be queried at one endpoint, topics ascending, partitions ascending.
type HostPartitions struct {
	Endpoint Endpoint
	Active   []TopicPartitions
	Standby  []TopicPartitions // of standby and warm-up tasks
}

// TopicPartitions are partitions of a topic.
type TopicPartitions struct {
	Topic      string
	Partitions []int32
}
