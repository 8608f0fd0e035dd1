package devbroker

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"

	"github.com/twmb/franz-go/pkg/kfake"

	"github.com/millrace/millrace/integration/devbroker/coordinator"
)

// Option changes how a [Broker] is started.
type Option interface{ apply(*config) }

type option func(*config)

func (o option) apply(c *config) { o(c) }

type config struct {
	addrs          []string
	virtual        *kfake.VirtualNetwork
	topics         []seedTopic
	dataDir        string
	autoCreate     bool
	groups         coordinator.Config
	settings       []func(*coordinator.Config)
	noStreams      bool
	logger         *slog.Logger
	onHeartbeat    func(Heartbeat)
	defaultParts   int
	kfakeOptions   []kfake.Opt
	virtualInUse   bool
	explicitListen bool
}

type seedTopic struct {
	name       string
	partitions int32
}

// Nodes sets the number of brokers, each on a port chosen by the system. Default 1.
func Nodes(n int) Option {
	return option(func(c *config) {
		c.addrs = nil
		for range n {
			c.addrs = append(c.addrs, "127.0.0.1:0")
		}
		c.explicitListen = false
	})
}

// Listen sets the addresses to listen on, one broker for each; it overrides [Nodes]. Port 0 lets the system choose. Clients are told the same
// address, so the host must be one they can reach.
func Listen(addrs ...string) Option {
	return option(func(c *config) { c.addrs, c.explicitListen = addrs, true })
}

// VirtualNetwork keeps all connections inside the process, for tests in a testing/synctest bubble. Clients need the [Broker.Dialer], which
// [Broker.ClientOpts] includes. Ports start at 9092.
func VirtualNetwork() Option {
	return option(func(c *config) { c.virtualInUse = true })
}

// Topic creates a topic at the start, unless the data directory already holds a cluster.
func Topic(name string, partitions int32) Option {
	return option(func(c *config) { c.topics = append(c.topics, seedTopic{name, partitions}) })
}

// DataDir keeps topics, records, offsets, transactions and groups in a directory, which is created if need be, and finds them there at the next start.
// Members go on with their epochs, as after the restart of a real broker. Default: everything in memory.
func DataDir(dir string) Option {
	return option(func(c *config) { c.dataDir = dir })
}

// AutoCreateTopics creates topics that clients ask for with permission to create them. Default: off.
func AutoCreateTopics() Option {
	return option(func(c *config) { c.autoCreate = true })
}

// DefaultPartitions is the partition count of topics created without one. Default 10.
func DefaultPartitions(n int) Option {
	return option(func(c *config) { c.defaultParts = n })
}

// PlayRelease chooses the Kafka release whose streams coordinator is played. Default 4.4.
func PlayRelease(r coordinator.Release) Option {
	return option(func(c *config) { c.settings = append(c.settings, func(s *coordinator.Config) { s.Release = r }) })
}

// WithoutStreamsGroups plays a broker that does not know streams groups: it does not advertise their keys. For clients that fall back to the classic protocol.
func WithoutStreamsGroups() Option {
	return option(func(c *config) { c.noStreams = true })
}

// KafkaTimings selects the timings and bounds a real broker ships with, instead of the quick ones. Place it before [Settings].
func KafkaTimings() Option {
	return option(func(c *config) {
		c.settings = append(c.settings, func(s *coordinator.Config) {
			release := s.Release
			*s = coordinator.KafkaConfig()
			s.Release = release
		})
	})
}

// Settings changes the broker's settings for streams groups, such as the heartbeat interval or the number of standbys. Changes apply in the order given.
func Settings(change func(*coordinator.Config)) Option {
	return option(func(c *config) { c.settings = append(c.settings, change) })
}

// Logger receives what the broker has to say. Default: nothing is logged.
func Logger(l *slog.Logger) Option {
	return option(func(c *config) { c.logger = l })
}

// OnHeartbeat calls fn with every heartbeat and its answer, on the goroutine that serves the request: fn must neither block nor call the broker, and must
// not keep or change what it is given.
func OnHeartbeat(fn func(Heartbeat)) Option {
	return option(func(c *config) { c.onHeartbeat = fn })
}

// Kfake passes options to the underlying kfake cluster, such as BrokerConfigs. Listening, topics, versions and data are set by the options of this package.
func Kfake(opts ...kfake.Opt) Option {
	return option(func(c *config) { c.kfakeOptions = append(c.kfakeOptions, opts...) })
}

func newConfig(opts []Option) (*config, error) {
	c := &config{addrs: []string{"127.0.0.1:0"}, groups: coordinator.QuickConfig(), logger: slog.New(slog.DiscardHandler)}
	for _, o := range opts {
		o.apply(c)
	}
	for _, change := range c.settings {
		change(&c.groups)
	}
	if c.logger == nil {
		c.logger = slog.New(slog.DiscardHandler)
	}
	if c.virtualInUse {
		c.virtual = new(kfake.VirtualNetwork)
		if !c.explicitListen {
			for i := range c.addrs {
				c.addrs[i] = "127.0.0.1:" + strconv.Itoa(9092+i)
			}
		}
	}
	return c, c.validate()
}

func (c *config) validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("devbroker: "+format, args...)) }
	if len(c.addrs) == 0 {
		bad("no node to start")
	}
	for _, a := range c.addrs {
		if _, _, err := splitAddr(a); err != nil {
			errs = append(errs, err)
		}
	}
	seen := map[string]bool{}
	for _, t := range c.topics {
		switch {
		case t.name == "":
			bad("a topic without a name")
		case t.partitions < 1:
			bad("topic %s has %d partitions, want at least 1", t.name, t.partitions)
		case seen[t.name]:
			bad("topic %s is given twice", t.name)
		}
		seen[t.name] = true
	}
	if c.defaultParts < 0 {
		bad("default partition count %d is negative", c.defaultParts)
	}
	if err := c.groups.Validate(); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func splitAddr(addr string) (host string, port int, err error) {
	host, p, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, fmt.Errorf("devbroker: address %q: %w", addr, err)
	}
	port, err = strconv.Atoi(p)
	if err != nil || port < 0 || port > 65535 {
		return "", 0, fmt.Errorf("devbroker: address %q has no valid port", addr)
	}
	return host, port, nil
}
