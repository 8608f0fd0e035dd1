package streams

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/millrace/millrace/topology"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Config configures an [App]. Only ApplicationID, Brokers and StateDir are required; zero elsewhere means the default that the field states. [New]
// reports every wrong field at once.
type Config struct {
	// ApplicationID is the group id, the prefix of internal topics and client ids, and a part of the state directory. Required.
	ApplicationID string
	// Brokers are host:port pairs to begin with. Required.
	Brokers []string
	// StateDir holds the stores of all tasks. Two processes must not share one. Required when the topology has a persistent store.
	StateDir string
	// ClientID begins the ids of all clients. Default: ApplicationID and the process id.
	ClientID string

	// Workers is the number of goroutines that own tasks, each a member of the group. Default: the number of CPUs.
	Workers int
	// Guarantee is AtLeastOnce by default.
	Guarantee Guarantee
	// CommitInterval is the longest time between commits. Default: 30 s, and 100 ms with ExactlyOnce. Negative: after every round of records.
	CommitInterval time.Duration
	// TransactionTimeout is how long the broker waits before it aborts; not below CommitInterval. Default: 10 s.
	TransactionTimeout time.Duration
	// MaxTaskIdle is how long a task waits for partitions without data, to keep the order of time. 0 waits only for data known to
	// be on the broker; negative never waits (KIP-695).
	MaxTaskIdle time.Duration
	// CacheBytes is how much uncommitted state the process keeps before it commits early. It takes the place of Kafka Streams' record cache and of its
	// stores' write buffers together, hence the default: 64 MiB. Negative: no write cache, every update of a store is sent downstream.
	CacheBytes int64
	// BufferRecords bounds the fetched records that wait, per partition. Default: 1000.
	BufferRecords int
	// PollInterval is how long a worker may be busy with one round before the group gives its tasks to others. Default: 5 min.
	PollInterval time.Duration
	// Linger is how long an outgoing record may wait for others to share a request. Default: 100 ms, as in Kafka Streams. Negative: not at all.
	Linger time.Duration
	// CloseTimeout bounds drain, commit and leave when Run's context ends. Default: 30 s.
	CloseTimeout time.Duration
	// ConnectTimeout is how long Run tries to reach a broker at its start before it returns [ErrNoBroker]. Default: 30 s.
	ConnectTimeout time.Duration

	// InstanceID makes the members static: a restart within the session timeout moves nothing. Needs brokers from 4.4.
	InstanceID string
	// Rack is where the process runs; Tags are for the placement of standbys.
	Rack string
	Tags map[string]string

	// ReplicationFactor of internal topics. Default: the broker's.
	ReplicationFactor int16
	// InternalTopics are settings for all internal topics, below those given by [Changelog].
	InternalTopics map[string]string
	// RepartitionPurge is how often consumed records of repartition topics are deleted. Default: 30 s. Negative: never.
	RepartitionPurge time.Duration
	// WindowChangelogExtra is added to the retention of window changelogs. Default: 24 h.
	WindowChangelogExtra time.Duration
	// StateCleanup is the age at which the directory of a task that moved away is removed. Default: 10 min. Negative: never.
	StateCleanup time.Duration

	// Reset is where sources begin that have no committed offset. Default: Earliest.
	Reset Reset
	// Timestamps is what to do with invalid times. Default: FailOnInvalidTime.
	Timestamps TimestampPolicy

	// OnDecodeError, OnProcessError and OnProduceError decide about failed records. Default: LogAndFail.
	OnDecodeError, OnProcessError, OnProduceError ErrorHandler
	// DeadLetterTopic takes what LogAndFail and LogAndResume give up on. Empty: nothing is written. It must exist.
	DeadLetterTopic string
	// OnUncaught decides when a worker fails. Default: StopApp.
	OnUncaught func(err error) Uncaught

	// Logger takes the log. Default: none.
	Logger *slog.Logger
	// Hooks are values with any of the Hook methods: [HookAppState], [HookTaskState], [HookRestore], [HookCommit].
	Hooks []any
	// Print takes the output of Print. Default: os.Stdout.
	Print io.Writer
	// Clock is the wall clock. Default: the system's.
	Clock Clock
	// Dial opens connections to brokers. Default: plain TCP; a tls.Dialer's DialContext gives TLS.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Kafka adds franz-go options (SASL, TLS, hooks) to each client.
	Kafka func(role ClientRole) []kgo.Opt
}

// Guarantee is what a crash may do to results.
type Guarantee uint8

const (
	AtLeastOnce Guarantee = iota // results may be written twice
	ExactlyOnce                  // results, offsets and state are committed in one transaction
)

// ClientRole is what a Kafka client is for.
type ClientRole uint8

// The roles.
const (
	MainConsumer ClientRole = iota
	RestoreConsumer
	Producer
	Admin
)

// String returns the role as it appears in client ids.
func (r ClientRole) String() string {
	return [...]string{"consumer", "restore-consumer", "producer", "admin"}[r]
}

// Clock is the wall clock of an app.
type Clock interface {
	Now() time.Time
	After(d time.Duration) <-chan time.Time
}

type systemClock struct{}

func (systemClock) Now() time.Time                         { return time.Now() }
func (systemClock) After(d time.Duration) <-chan time.Time { return time.After(d) }

func orDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

// withDefaults fills in what was left zero.
func (c Config) withDefaults() Config {
	orDefault(&c.ClientID, fmt.Sprintf("%s-%d", c.ApplicationID, os.Getpid()))
	orDefault(&c.Workers, runtime.GOMAXPROCS(0))
	if c.Guarantee == ExactlyOnce {
		orDefault(&c.CommitInterval, 100*time.Millisecond)
	}
	orDefault(&c.CommitInterval, 30*time.Second)
	orDefault(&c.TransactionTimeout, 10*time.Second)
	orDefault(&c.CacheBytes, 64<<20)
	orDefault(&c.BufferRecords, 1000)
	orDefault(&c.PollInterval, 5*time.Minute)
	orDefault(&c.Linger, 100*time.Millisecond)
	orDefault(&c.CloseTimeout, 30*time.Second)
	orDefault(&c.ConnectTimeout, 30*time.Second)
	orDefault(&c.ReplicationFactor, -1)
	orDefault(&c.RepartitionPurge, 30*time.Second)
	orDefault(&c.WindowChangelogExtra, 24*time.Hour)
	orDefault(&c.StateCleanup, 10*time.Minute)
	orDefault(&c.Reset, Earliest)
	orDefault(&c.Clock, Clock(systemClock{}))
	orDefault(&c.Logger, slog.New(slog.DiscardHandler))
	orDefault(&c.Print, io.Writer(os.Stdout))
	if c.OnDecodeError == nil {
		c.OnDecodeError = LogAndFail
	}
	if c.OnProcessError == nil {
		c.OnProcessError = LogAndFail
	}
	if c.OnProduceError == nil {
		c.OnProduceError = LogAndFail
	}
	return c
}

// validate reports every field that is wrong, with what would be right.
func (c Config) validate(t *Topology) error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("streams: Config."+format, args...)) }
	if c.ApplicationID == "" {
		bad("ApplicationID is empty; it names the group, the internal topics and the state")
	} else if err := topology.CheckName(c.ApplicationID); err != nil {
		bad("ApplicationID: %v", err)
	}
	if len(c.Brokers) == 0 {
		bad("Brokers is empty; give at least one host:port")
	}
	for _, b := range c.Brokers {
		if _, _, err := net.SplitHostPort(b); err != nil {
			bad("Brokers: %q is not host:port", b)
		}
	}
	if t == nil {
		errs = append(errs, errors.New("streams: the topology is nil; did Builder.Build fail?"))
	} else if t.persistent() && c.StateDir == "" {
		bad("StateDir is empty, and the topology has persistent stores; give a directory that survives a restart, or make the stores streams.InMemory")
	}
	if c.StateDir != "" && filepath.Clean(c.StateDir) == "/" {
		bad("StateDir must not be /")
	}
	if c.Workers < 0 {
		bad("Workers is %d", c.Workers)
	}
	if c.PollInterval < 0 {
		bad("PollInterval is %v", c.PollInterval)
	}
	if c.Guarantee == ExactlyOnce && c.CommitInterval > 0 && c.TransactionTimeout > 0 && c.TransactionTimeout < c.CommitInterval {
		bad("TransactionTimeout %v is below CommitInterval %v: the broker would abort transactions before they are committed", c.TransactionTimeout, c.CommitInterval)
	}
	if c.BufferRecords < 0 {
		bad("BufferRecords is %d", c.BufferRecords)
	}
	return errors.Join(errs...)
}

// persistent reports whether any store is kept on disk.
func (t *Topology) persistent() bool {
	for _, s := range slices.Concat(t.t.Subtopologies, t.t.Globals) {
		for _, store := range s.Stores {
			if !store.InMemory {
				return true
			}
		}
	}
	return false
}
