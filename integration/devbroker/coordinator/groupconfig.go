package coordinator

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// settings are what holds for one group: the broker's settings with the group's own over them, clamped to the bounds (§22).
type settings struct {
	heartbeat, session, initialDelay, assignmentInterval, taskOffsetInterval time.Duration
	standbys                                                                 int
	tags                                                                     []string
	recoveryLag                                                              int64
}

func (c *Coordinator) settings(group string) settings {
	own := c.configs[group]
	base := &c.cfg
	if c.cfg.Release == Kafka42 && len(own) > 0 {
		// C-64: a 4.2 broker takes the settings a group does not have from the built-in defaults, not from its own configuration.
		builtin := KafkaConfig()
		base = &builtin
	}
	s := settings{
		heartbeat:          base.HeartbeatInterval,
		session:            base.SessionTimeout,
		initialDelay:       base.InitialRebalanceDelay,
		assignmentInterval: base.AssignmentInterval,
		taskOffsetInterval: base.TaskOffsetInterval,
		standbys:           base.StandbyReplicas,
		tags:               base.RackAwareTags,
		recoveryLag:        base.AcceptableRecoveryLag,
	}
	for _, name := range slices.Sorted(maps.Keys(own)) {
		if g, ok := groupConfigs[name]; ok && g.apply != nil {
			g.apply(&c.cfg, &s, own[name])
		}
	}
	if c.cfg.Release == Kafka42 {
		s.assignmentInterval = 0
	}
	if c.cfg.Release < Kafka44 {
		s.tags = nil
	}
	return s
}

// groupConfig is one setting a group may have.
type groupConfig struct {
	since    Release
	internal bool // described only once set (§22)
	check    func(*Config, string) error
	apply    func(*Config, *settings, string)
	def      func(*Config) string
}

var groupConfigs = map[string]groupConfig{
	"streams.session.timeout.ms": {
		since: Kafka42,
		check: checkMillis(func(c *Config) (time.Duration, time.Duration) { return c.MinSessionTimeout, c.MaxSessionTimeout }),
		apply: func(c *Config, s *settings, v string) {
			s.session = clampMillis(v, c.MinSessionTimeout, c.MaxSessionTimeout)
		},
		def: func(c *Config) string { return formatMillis(c.SessionTimeout) },
	},
	"streams.heartbeat.interval.ms": {
		since: Kafka42,
		check: checkMillis(func(c *Config) (time.Duration, time.Duration) { return c.MinHeartbeatInterval, c.MaxHeartbeatInterval }),
		apply: func(c *Config, s *settings, v string) {
			s.heartbeat = clampMillis(v, c.MinHeartbeatInterval, c.MaxHeartbeatInterval)
		},
		def: func(c *Config) string { return formatMillis(c.HeartbeatInterval) },
	},
	"streams.num.standby.replicas": {
		since: Kafka42,
		check: checkInt(func(c *Config) (int64, int64) { return 0, int64(c.MaxStandbyReplicas) }),
		apply: func(c *Config, s *settings, v string) { s.standbys = int(clamp(v, 0, int64(c.MaxStandbyReplicas))) },
		def:   func(c *Config) string { return strconv.Itoa(c.StandbyReplicas) },
	},
	"streams.initial.rebalance.delay.ms": {
		since: Kafka42,
		check: checkInt(func(*Config) (int64, int64) { return 0, 1<<31 - 1 }),
		apply: func(_ *Config, s *settings, v string) { s.initialDelay = clampMillis(v, 0, 1<<62) },
		def:   func(c *Config) string { return formatMillis(c.InitialRebalanceDelay) },
	},
	"streams.assignment.interval.ms": {
		since: Kafka43,
		check: checkMillis(func(c *Config) (time.Duration, time.Duration) {
			return c.MinAssignmentInterval, c.MaxAssignmentInterval
		}),
		apply: func(c *Config, s *settings, v string) {
			s.assignmentInterval = clampMillis(v, c.MinAssignmentInterval, c.MaxAssignmentInterval)
		},
		def: func(c *Config) string { return formatMillis(c.AssignmentInterval) },
	},
	"streams.assignor.offload.enable": {
		since:    Kafka43,
		internal: true,
		check: func(_ *Config, v string) error {
			if v != "true" && v != "false" {
				return fmt.Errorf("%q is neither true nor false", v)
			}
			return nil
		},
		def: func(*Config) string { return "true" },
	},
	"streams.assignor.name": {
		since: Kafka44,
		check: func(_ *Config, v string) error {
			if v != AssignorName {
				return fmt.Errorf("no assignor %q, only %q", v, AssignorName)
			}
			return nil
		},
		def: func(*Config) string { return "" },
	},
	"streams.rack.aware.assignment.tags": {
		since: Kafka44,
		check: func(_ *Config, v string) error {
			tags := splitList(v)
			slices.Sort(tags)
			if len(slices.Compact(slices.Clone(tags))) != len(tags) {
				return fmt.Errorf("%q names a tag twice", v)
			}
			return nil
		},
		apply: func(_ *Config, s *settings, v string) { s.tags = splitList(v) },
		def:   func(c *Config) string { return strings.Join(c.RackAwareTags, ",") },
	},
	"streams.task.offset.interval.ms": {
		since:    Kafka44,
		internal: true,
		check: checkMillis(func(c *Config) (time.Duration, time.Duration) {
			return c.MinTaskOffsetInterval, (1<<31 - 1) * time.Millisecond
		}),
		apply: func(c *Config, s *settings, v string) {
			s.taskOffsetInterval = clampMillis(v, c.MinTaskOffsetInterval, 1<<62)
		},
		def: func(c *Config) string { return formatMillis(c.TaskOffsetInterval) },
	},
	"streams.num.warmup.replicas": {
		since:    Kafka44,
		internal: true,
		check:    checkInt(func(c *Config) (int64, int64) { return 0, int64(c.MaxWarmupReplicas) }),
		def:      func(c *Config) string { return strconv.Itoa(c.WarmupReplicas) },
	},
	"streams.acceptable.recovery.lag": {
		since:    Kafka44,
		internal: true,
		check:    checkInt(func(*Config) (int64, int64) { return 0, 1<<63 - 1 }),
		apply:    func(_ *Config, s *settings, v string) { s.recoveryLag = clamp(v, 0, 1<<63-1) },
		def:      func(c *Config) string { return strconv.FormatInt(c.AcceptableRecoveryLag, 10) },
	},
}

// IsGroupConfig reports whether name is a setting of streams groups in some release.
func IsGroupConfig(name string) bool { return strings.HasPrefix(name, "streams.") }

// AlterGroupConfigs sets and deletes settings of a group, whether or not the group exists. A nil value deletes. Either all changes apply or, with an
// error, none: unknown names, values out of bounds and a session timeout not above the heartbeat interval are refused. The change is seen by the
// next heartbeat. With validateOnly nothing is changed.
func (c *Coordinator) AlterGroupConfigs(group string, changes map[string]*string, validateOnly bool) error {
	next := maps.Clone(c.configs[group])
	if next == nil {
		next = map[string]string{}
	}
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		g, ok := groupConfigs[name]
		if !ok || g.since > c.cfg.Release {
			return fmt.Errorf("coordinator: unknown group configuration %s", name)
		}
		v := changes[name]
		if v == nil {
			delete(next, name)
			continue
		}
		if err := g.check(&c.cfg, *v); err != nil {
			return fmt.Errorf("coordinator: %s: %w", name, err)
		}
		next[name] = *v
	}
	before := c.configs[group]
	c.configs[group] = next
	s := c.settings(group)
	if s.session <= s.heartbeat {
		c.configs[group] = before
		return fmt.Errorf("coordinator: session timeout %v is not above the heartbeat interval %v", s.session, s.heartbeat)
	}
	if validateOnly {
		c.configs[group] = before
	}
	return nil
}

// GroupConfig is one setting of a group.
type GroupConfig struct {
	Name, Value string
	Own         bool // set on the group, not taken from the broker
}

// GroupConfigs lists the settings of a group by name. Settings that a release keeps internal are listed only once set.
func (c *Coordinator) GroupConfigs(group string) []GroupConfig {
	var out []GroupConfig
	for _, name := range slices.Sorted(maps.Keys(groupConfigs)) {
		g := groupConfigs[name]
		if g.since > c.cfg.Release {
			continue
		}
		v, own := c.configs[group][name]
		if !own {
			if g.internal {
				continue
			}
			v = g.def(&c.cfg)
		}
		out = append(out, GroupConfig{Name: name, Value: v, Own: own})
	}
	return out
}

func splitList(v string) []string {
	var out []string
	for s := range strings.SplitSeq(v, ",") {
		if s = strings.TrimSpace(s); s != "" {
			out = append(out, s)
		}
	}
	return out
}

func formatMillis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

func clamp(v string, low, high int64) int64 {
	n, _ := strconv.ParseInt(v, 10, 64) // checked when set
	return min(max(n, low), high)
}

func clampMillis(v string, low, high time.Duration) time.Duration {
	return time.Duration(clamp(v, low.Milliseconds(), high.Milliseconds())) * time.Millisecond
}

func checkInt(bounds func(*Config) (low, high int64)) func(*Config, string) error {
	return func(c *Config, v string) error {
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil {
			return fmt.Errorf("%q is not a number", v)
		}
		if low, high := bounds(c); n < low || n > high {
			return fmt.Errorf("%d is outside %d..%d", n, low, high)
		}
		return nil
	}
}

func checkMillis(bounds func(*Config) (low, high time.Duration)) func(*Config, string) error {
	return checkInt(func(c *Config) (int64, int64) {
		low, high := bounds(c)
		return low.Milliseconds(), high.Milliseconds()
	})
}
