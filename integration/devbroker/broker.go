package devbroker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/millrace/millrace/integration/devbroker/coordinator"
)

// cleanupInterval is how often empty groups without offsets are dropped, the default of offsets.retention.check.interval.ms.
const cleanupInterval = 10 * time.Minute

// Broker is a running development broker. Close it after use.
type Broker struct {
	cfg       *config
	cluster   *kfake.Cluster
	addrs     []string
	exchanges exchanges

	mu struct { // never held while a response is written
		sync.Mutex
		coord   *coordinator.Coordinator
		claimed map[string]bool // ids that consumer or share groups were made under
		faults  []*fault
		changed chan struct{} // closed and replaced whenever a group may have changed
		armed   time.Time     // what the clock goroutine waits for; zero: nothing
		unsaved bool          // groups may have changed since they were saved
	}

	life struct {
		sync.RWMutex
		closed bool
	}
	stop, stopped chan struct{}
	wake          chan struct{}
	saved         []byte // what the data directory has of the groups; the clock goroutine's
}

// Start starts a broker. It is ready when Start returns.
func Start(opts ...Option) (*Broker, error) {
	cfg, err := newConfig(opts)
	if err != nil {
		return nil, err
	}
	b := &Broker{cfg: cfg, stop: make(chan struct{}), stopped: make(chan struct{}), wake: make(chan struct{}, 1)}
	b.exchanges.init()
	b.mu.claimed = map[string]bool{}
	b.mu.changed = make(chan struct{})
	b.mu.coord = coordinator.New(cfg.groups, clusterView{b})

	if err := b.loadGroups(); err != nil {
		return nil, err
	}

	ports := make([]int, len(cfg.addrs))
	hosts := make([]string, len(cfg.addrs))
	for i, a := range cfg.addrs {
		hosts[i], ports[i], _ = splitAddr(a) // checked by newConfig
	}
	listen := net.Listen
	if cfg.virtual != nil {
		listen = cfg.virtual.Listen
	}
	node := 0
	kopts := append([]kfake.Opt{
		kfake.Ports(ports...),
		kfake.ListenFn(func(network, addr string) (net.Listener, error) {
			host := "127.0.0.1"
			if node < len(hosts) {
				host = hosts[node]
			}
			node++
			_, port, err := net.SplitHostPort(addr)
			if err != nil {
				return nil, err
			}
			ln, err := listen(network, net.JoinHostPort(host, port))
			if err != nil {
				return nil, err
			}
			return &listener{Listener: ln, broker: b, virtual: cfg.virtual != nil}, nil
		}),
		kfake.MaxVersions(releaseVersions(cfg.groups.Release)),
		kfake.ClusterID("millrace-dev"),
		kfake.WithLogger(kfakeLogger{cfg.logger}),
	}, cfg.kfakeOptions...)
	for _, t := range cfg.topics {
		kopts = append(kopts, kfake.SeedTopics(t.partitions, t.name))
	}
	if cfg.dataDir != "" {
		kopts = append(kopts, kfake.DataDir(cfg.dataDir))
	}
	if cfg.autoCreate {
		kopts = append(kopts, kfake.AllowAutoTopicCreation())
	}
	if cfg.defaultParts > 0 {
		kopts = append(kopts, kfake.DefaultNumPartitions(cfg.defaultParts))
	}
	b.cluster, err = kfake.NewCluster(kopts...)
	if err != nil {
		return nil, fmt.Errorf("devbroker: %w", err)
	}
	b.installControls()
	b.addrs = b.cluster.ListenAddrs()
	go b.clock()
	return b, nil
}

func releaseVersions(r coordinator.Release) *kversion.Versions {
	switch r {
	case coordinator.Kafka42:
		return kversion.V4_2_0()
	case coordinator.Kafka43:
		return kversion.V4_3_0()
	default:
		return kversion.V4_4_0()
	}
}

// Close stops the broker and waits for its clock. It may be called more than once.
func (b *Broker) Close() {
	b.life.Lock()
	defer b.life.Unlock()
	if b.life.closed {
		return
	}
	b.life.closed = true
	close(b.stop)
	<-b.stopped
	b.cluster.Close()
	b.saveGroups()
}

// alive runs fn unless the broker is closed: a call to a closed kfake cluster would never return.
func (b *Broker) alive(fn func()) bool {
	b.life.RLock()
	defer b.life.RUnlock()
	if b.life.closed {
		return false
	}
	fn()
	return true
}

// Addrs returns the addresses of the nodes, "host:port".
func (b *Broker) Addrs() []string { return slices.Clone(b.addrs) }

// Dialer returns how to reach the broker: through its virtual network if it has one, else over TCP.
func (b *Broker) Dialer() func(ctx context.Context, network, addr string) (net.Conn, error) {
	if b.cfg.virtual != nil {
		return b.cfg.virtual.DialContext
	}
	return (&net.Dialer{Timeout: 10 * time.Second}).DialContext
}

// ClientOpts returns the options a kgo client needs to reach the broker: seeds and dialer.
func (b *Broker) ClientOpts() []kgo.Opt {
	return []kgo.Opt{kgo.SeedBrokers(b.addrs...), kgo.Dialer(b.Dialer())}
}

// Cluster returns the kfake cluster underneath, for what this package has no method for: faults on other keys, moving partitions, compaction. Heartbeats
// and descriptions of streams groups never reach its faults. Do not call it after Close.
func (b *Broker) Cluster() *kfake.Cluster { return b.cluster }

// CreateTopic creates a topic; configs may be nil.
func (b *Broker) CreateTopic(name string, partitions int32, configs map[string]string) error {
	err := errClosed
	b.alive(func() { err = b.cluster.CreateTopic(name, partitions, configs) })
	return err
}

// EnsureTopic creates a topic unless there is one of that name, whatever its partition count.
func (b *Broker) EnsureTopic(name string, partitions int32) error {
	if err := b.CreateTopic(name, partitions, nil); err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return fmt.Errorf("devbroker: create topic %s: %w", name, err)
	}
	return nil
}

// DeleteTopic deletes a topic and the offsets committed for it.
func (b *Broker) DeleteTopic(name string) error {
	err := errClosed
	b.alive(func() { err = b.cluster.DeleteTopic(name) })
	return err
}

// SetGroupConfigs sets settings of a group, such as streams.num.standby.replicas, whether or not the group exists. All are set or, with an error, none.
func (b *Broker) SetGroupConfigs(group string, configs map[string]string) error {
	changes := make(map[string]*string, len(configs))
	for k, v := range configs {
		changes[k] = &v
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.coord.AlterGroupConfigs(group, changes, false)
}

// Group describes a streams group as StreamsGroupDescribe does; false if there is none.
func (b *Broker) Group(group string) (kmsg.StreamsGroupDescribeResponseGroup, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.coord.DescribeGroup(group)
}

// Groups lists the streams groups by id.
func (b *Broker) Groups() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.coord.Groups()
}

// WaitGroup waits until ok is true of the group's description, which is asked for after every change. A group that does not exist shows with error code 69.
func (b *Broker) WaitGroup(ctx context.Context, group string, ok func(kmsg.StreamsGroupDescribeResponseGroup) bool) error {
	for {
		b.mu.Lock()
		changed := b.mu.changed
		g, found := b.mu.coord.DescribeGroup(group)
		b.mu.Unlock()
		if !found {
			g.Group, g.ErrorCode = group, 69
		}
		if ok(g) {
			return nil
		}
		select {
		case <-changed:
		case <-b.stop:
			return errClosed
		case <-ctx.Done():
			return fmt.Errorf("devbroker: group %s is %s with %d members: %w", group, g.State, len(g.Members), context.Cause(ctx))
		}
	}
}

// WaitStable waits until the group has that many members and each has what it shall have.
func (b *Broker) WaitStable(ctx context.Context, group string, members int) error {
	return b.WaitGroup(ctx, group, func(g kmsg.StreamsGroupDescribeResponseGroup) bool {
		return g.State == coordinator.StateStable && len(g.Members) == members
	})
}

// changedLocked tells waiters and the clock that groups may have changed. b.mu is held.
func (b *Broker) changedLocked() {
	close(b.mu.changed)
	b.mu.changed = make(chan struct{})
	d := b.mu.coord.Deadline()
	early := !d.IsZero() && (b.mu.armed.IsZero() || d.Before(b.mu.armed))
	if early || b.cfg.dataDir != "" && !b.mu.unsaved {
		b.mu.unsaved = true
		select {
		case b.wake <- struct{}{}:
		default:
		}
	}
}

// clock runs what is due without a request: sessions, rebalance timeouts, initial delays, the cleanup of empty groups.
func (b *Broker) clock() {
	defer close(b.stopped)
	timer := time.NewTimer(cleanupInterval)
	defer timer.Stop()
	cleanup := time.Now().Add(cleanupInterval)
	var save time.Time // when to save the groups next; zero: nothing to save
	for {
		now := time.Now()
		next := cleanup
		b.mu.Lock()
		if b.mu.coord.Expire(now) {
			b.changedLocked()
		}
		if d := b.mu.coord.Deadline(); !d.IsZero() && d.Before(next) {
			next = d
		}
		if b.mu.unsaved && save.IsZero() && b.cfg.dataDir != "" {
			save = now.Add(saveInterval)
		}
		if !save.IsZero() && save.Before(next) {
			next = save
		}
		b.mu.armed = next
		b.mu.Unlock()
		if !save.IsZero() && !now.Before(save) {
			b.saveGroups()
			save = time.Time{}
			continue
		}
		if !now.Before(cleanup) {
			b.cleanup()
			cleanup = now.Add(cleanupInterval)
			continue
		}
		timer.Reset(time.Until(next))
		select {
		case <-b.stop:
			return
		case <-b.wake:
		case <-timer.C:
		}
	}
}

// cleanup drops empty groups that have no offsets, and their topology with them (§23).
func (b *Broker) cleanup() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, id := range b.mu.coord.Groups() {
		if !b.mu.coord.Empty(id) {
			continue
		}
		if info := b.cluster.GroupInfo(id); info == nil || len(info.Commits) == 0 {
			b.mu.coord.Remove(id)
			b.changedLocked()
		}
	}
}

// clusterView is what the coordinator sees of the cluster. Its calls are served while a control function runs.
type clusterView struct{ b *Broker }

func (v clusterView) Topic(name string) (coordinator.Topic, bool) {
	partitions := v.b.cluster.PartitionInfos(name)
	info := v.b.cluster.TopicInfo(name)
	if partitions == nil || info == nil {
		return coordinator.Topic{}, false
	}
	return coordinator.Topic{ID: info.TopicID, Partitions: int32(len(partitions))}, true
}

func (v clusterView) Coordinator(group string) int32 { return v.b.cluster.CoordinatorFor(group) }

func (v clusterView) Occupied(group string) bool {
	info := v.b.cluster.GroupInfo(group)
	if info == nil {
		delete(v.b.mu.claimed, group)
		return false
	}
	return len(info.Members) > 0 || info.State != coordinator.StateEmpty || v.b.mu.claimed[group]
}
