package devbroker

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/integration/devbroker/coordinator"
)

// control handles a request that arrived at a node, or lets kfake do it by returning handled false; it may change the request first. x tells about the
// client and takes a change to kfake's response; it is nil for requests that cannot be marked, which are those of old versions.
type control func(node int32, req kmsg.Request, x *exchange) (resp kmsg.Response, err error, handled bool)

func (b *Broker) installControls() {
	controls := map[kmsg.Key]control{
		kmsg.OffsetCommit:            b.offsetCommit,
		kmsg.OffsetFetch:             b.offsetFetch,
		kmsg.JoinGroup:               b.joinGroup,
		kmsg.DescribeGroups:          b.describeGroups,
		kmsg.ListGroups:              b.listGroups,
		kmsg.TxnOffsetCommit:         b.txnOffsetCommit,
		kmsg.DescribeConfigs:         b.describeConfigs,
		kmsg.DeleteGroups:            b.deleteGroups,
		kmsg.IncrementalAlterConfigs: b.alterConfigs,
		kmsg.OffsetDelete:            b.offsetDelete,
		kmsg.ConsumerGroupHeartbeat:  b.consumerHeartbeat,
		kmsg.ShareGroupHeartbeat:     b.shareHeartbeat,
	}
	if !b.cfg.noStreams {
		controls[kmsg.StreamsGroupHeartbeat] = b.heartbeat
		controls[kmsg.StreamsGroupDescribe] = b.describe
		controls[kmsg.StreamsGroupTopologyDescriptionUpdate] = b.updateDescription
	}
	for key, fn := range controls {
		b.cluster.ControlKey(int16(key), func(req kmsg.Request) (kmsg.Response, error, bool) {
			b.cluster.KeepControl()
			id, marked := unmark(req)
			if marked && id == internalMark {
				return nil, nil, false
			}
			var x *exchange
			if marked {
				x = b.exchanges.take(id)
			}
			return fn(b.cluster.CurrentNode(), req, x)
		})
	}
}

// streamsVersions are the highest versions of keys 88, 89 and 93 a release has; -1: none (§2.1).
func streamsVersions(r coordinator.Release) (heartbeat, describe, description int16) {
	if r >= coordinator.Kafka44 {
		return 1, 1, 0
	}
	return 0, 0, -1
}

// amendVersions adds to ApiVersions what kfake does not know of.
func (b *Broker) amendVersions(r kmsg.Response) {
	resp := r.(*kmsg.ApiVersionsResponse)
	if b.cfg.noStreams || resp.ErrorCode != 0 {
		return
	}
	heartbeat, describe, description := streamsVersions(b.cfg.groups.Release)
	for _, k := range []struct {
		key kmsg.Key
		max int16
	}{
		{kmsg.StreamsGroupHeartbeat, heartbeat}, {kmsg.StreamsGroupDescribe, describe}, {kmsg.StreamsGroupTopologyDescriptionUpdate, description},
	} {
		if k.max >= 0 {
			a := kmsg.NewApiVersionsResponseApiKey()
			a.ApiKey, a.MaxVersion = int16(k.key), k.max
			resp.ApiKeys = append(resp.ApiKeys, a)
		}
	}
}

// Heartbeat is a heartbeat and its answer, as [OnHeartbeat] sees them.
type Heartbeat struct {
	At       time.Time
	Node     int32
	Request  *kmsg.StreamsGroupHeartbeatRequest
	Response *kmsg.StreamsGroupHeartbeatResponse
	Lost     bool // the answer does not reach the client, because of [Broker.DropResponses] or [Broker.CutResponses]
}

// errCut ends the connection a request came on.
var errCut = errors.New("devbroker: connection cut on demand")

func (b *Broker) heartbeat(node int32, r kmsg.Request, x *exchange) (kmsg.Response, error, bool) {
	req := r.(*kmsg.StreamsGroupHeartbeatRequest)
	if most, _, _ := streamsVersions(b.cfg.groups.Release); req.Version > most {
		return nil, fmt.Errorf("devbroker: StreamsGroupHeartbeat version %d is above %d", req.Version, most), true
	}
	var client coordinator.Client
	if x != nil {
		client = coordinator.Client{ID: x.client.id, Host: x.client.host}
	}
	now := time.Now()

	b.mu.Lock()
	f := b.takeFaultLocked(req)
	var resp *kmsg.StreamsGroupHeartbeatResponse
	var create []coordinator.NewTopic
	if f != nil && f.code != 0 {
		resp = coordinator.ErrorResponse(req, f.code)
	} else {
		resp, create = b.mu.coord.Heartbeat(now, node, client, req)
		b.changedLocked()
	}
	b.mu.Unlock()

	// As on a broker the response is made before the topics are: it still says that they are missing.
	for _, t := range create {
		if reason := b.createInternal(t); reason != "" {
			b.mu.Lock()
			b.mu.coord.CreationFailed(now, req.Group, t.Name, reason)
			b.mu.Unlock()
		}
	}
	lost := f != nil && (f.drop || f.cut)
	if b.cfg.onHeartbeat != nil {
		b.cfg.onHeartbeat(Heartbeat{At: now, Node: node, Request: req, Response: resp, Lost: lost})
	}
	switch {
	case lost && f.cut:
		return nil, errCut, true
	case lost:
		return nil, nil, true
	}
	return resp, nil, true
}

// createInternal creates an internal topic and returns why it cannot.
func (b *Broker) createInternal(t coordinator.NewTopic) (reason string) {
	if nodes := len(b.addrs); int(t.ReplicationFactor) > nodes {
		return fmt.Sprintf("Unable to replicate the partition %d time(s): The target replication factor of %d cannot be reached because only %d broker(s) are registered.",
			t.ReplicationFactor, t.ReplicationFactor, nodes)
	}
	configs := make(map[string]string, len(t.Configs))
	for _, c := range t.Configs {
		if !topicConfigs[c.Key] {
			return "Unknown topic config name: " + c.Key
		}
		configs[c.Key] = c.Value
	}
	if err := b.cluster.CreateTopic(t.Name, t.Partitions, configs); err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		if ke, ok := errors.AsType[*kerr.Error](err); ok {
			return ke.Description
		}
		return err.Error()
	}
	return ""
}

// topicConfigs are the topic settings of Kafka 4.4; kfake takes any name.
var topicConfigs = func() map[string]bool {
	names := map[string]bool{}
	for _, n := range []string{
		"cleanup.policy", "compression.gzip.level", "compression.lz4.level", "compression.type", "compression.zstd.level", "delete.retention.ms",
		"file.delete.delay.ms", "flush.messages", "flush.ms", "follower.replication.throttled.replicas", "index.interval.bytes",
		"leader.replication.throttled.replicas", "local.retention.bytes", "local.retention.ms", "max.compaction.lag.ms", "max.message.bytes",
		"message.timestamp.after.max.ms", "message.timestamp.before.max.ms", "message.timestamp.type", "min.cleanable.dirty.ratio",
		"min.compaction.lag.ms", "min.insync.replicas", "preallocate", "remote.copy.disable", "remote.log.delete.on.disable", "remote.storage.enable",
		"retention.bytes", "retention.ms", "segment.bytes", "segment.index.bytes", "segment.jitter.ms", "segment.ms", "unclean.leader.election.enable",
	} {
		names[n] = true
	}
	return names
}()

func (b *Broker) describe(node int32, r kmsg.Request, _ *exchange) (kmsg.Response, error, bool) {
	req := r.(*kmsg.StreamsGroupDescribeRequest)
	if _, most, _ := streamsVersions(b.cfg.groups.Release); req.Version > most {
		return nil, fmt.Errorf("devbroker: StreamsGroupDescribe version %d is above %d", req.Version, most), true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.coord.Expire(time.Now()) {
		b.changedLocked()
	}
	resp := b.mu.coord.Describe(node, req)
	for i := range resp.Groups {
		if g := &resp.Groups[i]; g.ErrorCode == 0 && !req.IncludeAuthorizedOperations {
			g.AuthorizedOperations = math.MinInt32
		}
	}
	return resp, nil, true
}

// updateDescription answers as a broker without a plugin for descriptions does (§24).
func (b *Broker) updateDescription(_ int32, r kmsg.Request, _ *exchange) (kmsg.Response, error, bool) {
	req := r.(*kmsg.StreamsGroupTopologyDescriptionUpdateRequest)
	if b.cfg.groups.Release < coordinator.Kafka44 {
		return nil, errors.New("devbroker: StreamsGroupTopologyDescriptionUpdate needs release 4.4"), true
	}
	resp := req.ResponseKind().(*kmsg.StreamsGroupTopologyDescriptionUpdateResponse)
	message := "The broker has no streams group topology description plugin configured."
	resp.ErrorCode, resp.ErrorMessage = kerr.UnsupportedVersion.Code, &message
	return resp, nil, true
}

func (b *Broker) hasGroup(group string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.coord.Has(group)
}
