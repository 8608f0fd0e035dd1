package coordinator

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Release is the Apache Kafka release whose coordinator is played.
type Release int8

// The releases that speak the protocol as general availability.
const (
	Kafka42 Release = 42 // no static members, no task offsets, role changes take a full cycle, no assignment interval
	Kafka43 Release = 43 // as 4.2, with the assignment interval
	Kafka44 Release = 44 // static members, task offsets, role changes in place, versions 1 of keys 88 and 89
)

// ParseRelease reads "4.2", "4.3" or "4.4".
func ParseRelease(s string) (Release, error) {
	for _, r := range []Release{Kafka42, Kafka43, Kafka44} {
		if s == r.String() {
			return r, nil
		}
	}
	return 0, fmt.Errorf("coordinator: unknown release %q, want 4.2, 4.3 or 4.4", s)
}

// String returns the release as "4.4".
func (r Release) String() string { return fmt.Sprintf("%d.%d", r/10, r%10) }

// Config holds the broker's settings for streams groups, the ones named group.streams.* on a broker. Build one with [KafkaConfig] or [QuickConfig]
// and change fields; the zero value is not usable. Durations have millisecond resolution.
type Config struct {
	Release Release

	HeartbeatInterval    time.Duration // told to members; > 0
	MinHeartbeatInterval time.Duration // bounds of the group setting streams.heartbeat.interval.ms
	MaxHeartbeatInterval time.Duration

	SessionTimeout    time.Duration // a member silent for so long is removed; more than HeartbeatInterval
	MinSessionTimeout time.Duration // bounds of the group setting streams.session.timeout.ms
	MaxSessionTimeout time.Duration

	// InitialRebalanceDelay is how long an empty group that gets a member waits for more before it assigns tasks. Zero assigns at once.
	InitialRebalanceDelay time.Duration

	// AssignmentInterval is the shortest time between two assignments of a group. Zero: none. Kafka 4.2 has no such setting and ignores it.
	AssignmentInterval    time.Duration
	MinAssignmentInterval time.Duration // bounds of the group setting streams.assignment.interval.ms
	MaxAssignmentInterval time.Duration

	StandbyReplicas    int // standby copies of each stateful task; zero: none
	MaxStandbyReplicas int // bound of the group setting streams.num.standby.replicas
	MaxSize            int // members per group; > 0

	RackAwareTags []string // client tags members are asked for; empty: none. Kafka 4.4 only

	TaskOffsetInterval    time.Duration // told to members of a 4.4 broker: how often to report task offsets
	MinTaskOffsetInterval time.Duration // bound of the group setting streams.task.offset.interval.ms
	AcceptableRecoveryLag int64         // told to members of a 4.4 broker, in records
	WarmupReplicas        int           // group setting streams.num.warmup.replicas: accepted, and without effect as in every release so far
	MaxWarmupReplicas     int           // bound of that setting

	// EndpointDefect imitates a defect of real brokers (§17): while source topics are missing or counts are wrong and some member has a user
	// endpoint, heartbeats fail with UNKNOWN_SERVER_ERROR. False answers with the status and an empty map.
	EndpointDefect bool

	// Disabled answers every heartbeat and description with UNSUPPORTED_VERSION, as a cluster does whose streams feature is off.
	Disabled bool
}

// KafkaConfig returns the settings a 4.4 broker starts with: heartbeats every 5 s, sessions of 45 s, 3 s of initial delay, assignments at least 1 s apart.
func KafkaConfig() Config {
	return Config{
		Release:               Kafka44,
		HeartbeatInterval:     5 * time.Second,
		MinHeartbeatInterval:  5 * time.Second,
		MaxHeartbeatInterval:  15 * time.Second,
		SessionTimeout:        45 * time.Second,
		MinSessionTimeout:     45 * time.Second,
		MaxSessionTimeout:     60 * time.Second,
		InitialRebalanceDelay: 3 * time.Second,
		AssignmentInterval:    time.Second,
		MaxAssignmentInterval: 15 * time.Second,
		MaxStandbyReplicas:    2,
		MaxSize:               math.MaxInt32,
		TaskOffsetInterval:    time.Minute,
		MinTaskOffsetInterval: 15 * time.Second,
		AcceptableRecoveryLag: 10000,
		WarmupReplicas:        2,
		MaxWarmupReplicas:     20,
	}
}

// QuickConfig returns settings for tests and for work on one machine: heartbeats every 100 ms, sessions of 3 s, no delays, and bounds wide enough
// for any group setting.
func QuickConfig() Config {
	cfg := KafkaConfig()
	cfg.HeartbeatInterval = 100 * time.Millisecond
	cfg.MinHeartbeatInterval = time.Millisecond
	cfg.MaxHeartbeatInterval = time.Hour
	cfg.SessionTimeout = 3 * time.Second
	cfg.MinSessionTimeout = time.Millisecond
	cfg.MaxSessionTimeout = 24 * time.Hour
	cfg.InitialRebalanceDelay = 0
	cfg.AssignmentInterval = 0
	cfg.MaxAssignmentInterval = time.Hour
	cfg.MaxStandbyReplicas = 100
	cfg.TaskOffsetInterval = 500 * time.Millisecond
	cfg.MinTaskOffsetInterval = time.Millisecond
	cfg.MaxWarmupReplicas = 100
	return cfg
}

// Validate reports every setting that cannot be used.
func (c *Config) Validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("coordinator: "+format, args...)) }
	switch c.Release {
	case Kafka42, Kafka43, Kafka44:
	default:
		bad("unknown release %d", c.Release)
	}
	if c.HeartbeatInterval < time.Millisecond {
		bad("heartbeat interval %v is below 1ms", c.HeartbeatInterval)
	}
	if c.SessionTimeout <= c.HeartbeatInterval {
		bad("session timeout %v is not above the heartbeat interval %v", c.SessionTimeout, c.HeartbeatInterval)
	}
	if c.InitialRebalanceDelay < 0 {
		bad("initial rebalance delay %v is negative", c.InitialRebalanceDelay)
	}
	if c.AssignmentInterval < 0 {
		bad("assignment interval %v is negative", c.AssignmentInterval)
	}
	if c.StandbyReplicas < 0 || c.StandbyReplicas > c.MaxStandbyReplicas {
		bad("standby replicas %d are outside 0..%d", c.StandbyReplicas, c.MaxStandbyReplicas)
	}
	if c.MaxSize < 1 {
		bad("maximum size %d is below 1", c.MaxSize)
	}
	if c.AcceptableRecoveryLag < 0 {
		bad("acceptable recovery lag %d is negative", c.AcceptableRecoveryLag)
	}
	return errors.Join(errs...)
}

func millis(d time.Duration) int32 { return int32(min(d.Milliseconds(), math.MaxInt32)) }
