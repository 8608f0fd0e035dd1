package rebalance

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/millrace/millrace/rebalance/member"
	"github.com/millrace/millrace/topology"
)

// The requests of a member. kgo does not route keys 88 and 89 to the coordinator, so the coordinator is looked up here and asked by its id, each
// request once: a heartbeat that is sent twice with lists that became stale may fence the member.

const coordinatorTypeGroup = 0

// failure is a request that did not succeed.
type failure struct {
	class member.Class
	err   error
}

func failed(class member.Class, err error) *failure { return &failure{class, err} }

// lookupTimeout bounds the question to one broker, so that one that does not answer leaves time for others.
const lookupTimeout = 3 * time.Second

// findCoordinator asks the brokers, from the one at index first on, for the group's coordinator, and the coordinator for the highest version of the
// heartbeat that both know: the version decides what may be in a request (§1.6). On a fresh cluster it is this question that creates
// __consumer_offsets.
//
// Each broker is asked once. The client's own way of asking any broker waits up to seconds between tries, and the core has a backoff for it.
func findCoordinator(ctx context.Context, client *kgo.Client, group string, first int) (node int32, version int16, f *failure) {
	node, f = askCoordinator(ctx, client, group, first)
	if f != nil {
		return 0, 0, f
	}
	versions := kmsg.NewPtrApiVersionsRequest()
	versions.ClientSoftwareName, versions.ClientSoftwareVersion = "millrace", "0"
	vresp, err := versions.RequestWith(ctx, client.Broker(int(node)))
	if err != nil {
		return 0, 0, failed(requestError(err))
	}
	if vresp.ErrorCode != 0 {
		return 0, 0, failed(brokerError(vresp.ErrorCode, nil))
	}
	heartbeat := kmsg.NewPtrStreamsGroupHeartbeatRequest()
	for _, k := range vresp.ApiKeys {
		if k.ApiKey == heartbeat.Key() {
			return node, min(k.MaxVersion, heartbeat.MaxVersion()), nil
		}
	}
	return 0, 0, failed(brokerError(kerr.UnsupportedVersion.Code, nil))
}

func askCoordinator(ctx context.Context, client *kgo.Client, group string, first int) (node int32, f *failure) {
	brokers := append(client.DiscoveredBrokers(), client.SeedBrokers()...)
	for i := range brokers {
		node, f = askOne(ctx, brokers[(first+i)%len(brokers)], group)
		if f == nil || f.class != member.Transport || ctx.Err() != nil {
			break
		}
	}
	return node, f
}

func askOne(ctx context.Context, broker *kgo.Broker, group string) (node int32, f *failure) {
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorType = coordinatorTypeGroup
	req.CoordinatorKey = group
	req.CoordinatorKeys = []string{group}
	resp, err := req.RequestWith(ctx, broker)
	if err != nil {
		return 0, failed(requestError(err))
	}
	node, code, message := resp.NodeID, resp.ErrorCode, resp.ErrorMessage
	if resp.Version >= 4 {
		if len(resp.Coordinators) != 1 {
			return 0, failed(member.Transport, fmt.Errorf("find coordinator: the answer has %d coordinators", len(resp.Coordinators)))
		}
		c := resp.Coordinators[0]
		node, code, message = c.NodeID, c.ErrorCode, c.ErrorMessage
	}
	if code == 0 && node < 0 {
		code = kerr.CoordinatorNotAvailable.Code
	}
	if code != 0 {
		return 0, failed(brokerError(code, message))
	}
	return node, nil
}

// sendHeartbeat sends one heartbeat.
func sendHeartbeat(ctx context.Context, client *kgo.Client, node int32, req *kmsg.StreamsGroupHeartbeatRequest) (member.Response, *failure) {
	resp, err := req.RequestWith(ctx, client.Broker(int(node)))
	if err != nil {
		return member.Response{}, failed(requestError(err))
	}
	if resp.ErrorCode != 0 { // and nothing else of it counts (M-56)
		return member.Response{}, failed(brokerError(resp.ErrorCode, resp.ErrorMessage))
	}
	return heartbeatResponse(resp), nil
}

// describe asks the coordinator what it has assigned to the member.
func describe(ctx context.Context, client *kgo.Client, node int32, group, memberID string) (member.Described, *failure) {
	req := kmsg.NewPtrStreamsGroupDescribeRequest()
	req.Groups = []string{group}
	resp, err := req.RequestWith(ctx, client.Broker(int(node)))
	if err != nil {
		return member.Described{}, failed(requestError(err))
	}
	for _, g := range resp.Groups {
		if g.Group != group {
			continue
		}
		if g.ErrorCode != 0 {
			return member.Described{}, failed(brokerError(g.ErrorCode, g.ErrorMessage))
		}
		for _, m := range g.Members {
			if m.MemberID == memberID {
				tasks, foreign := assignment(m.Assignment)
				return member.Described{Found: true, Epoch: m.MemberEpoch, Tasks: tasks, Foreign: foreign}, nil
			}
		}
		return member.Described{}, nil
	}
	return member.Described{}, failed(member.Transport, fmt.Errorf("describe: answer does not have the group"))
}

// checkTopics looks for source topics that do not exist, or that must have equal partition counts and do not. Brokers answer
// UNKNOWN_SERVER_ERROR instead of saying so to a member with an endpoint (§4).
func checkTopics(ctx context.Context, client *kgo.Client, t topology.Metadata) (missing, mismatched string, err error) {
	counts := make(map[string]int)
	for _, s := range t.Subtopologies {
		for _, topic := range s.SourceTopics {
			counts[topic] = 0
		}
	}
	req := kmsg.NewPtrMetadataRequest()
	req.AllowAutoTopicCreation = false
	for _, topic := range slices.Sorted(maps.Keys(counts)) {
		rt := kmsg.NewMetadataRequestTopic()
		rt.Topic = kmsg.StringPtr(topic)
		req.Topics = append(req.Topics, rt)
	}
	resp, err := req.RequestWith(ctx, client)
	if err != nil {
		return "", "", err
	}
	var absent []string
	for _, rt := range resp.Topics {
		switch {
		case rt.Topic == nil:
		case rt.ErrorCode == kerr.UnknownTopicOrPartition.Code:
			absent = append(absent, *rt.Topic)
		case rt.ErrorCode != 0:
			return "", "", fmt.Errorf("topic %s: %w", *rt.Topic, kerr.ErrorForCode(rt.ErrorCode))
		default:
			counts[*rt.Topic] = len(rt.Partitions)
		}
	}
	slices.Sort(absent)
	return strings.Join(absent, ", "), mismatch(t, counts), nil
}

// mismatch names the first topics of a co-partition group whose partition counts differ; missing ones do not count.
func mismatch(t topology.Metadata, counts map[string]int) string {
	for _, s := range t.Subtopologies {
		for _, g := range s.CopartitionGroups {
			var first string
			for _, i := range g.SourceTopics {
				topic := s.SourceTopics[i]
				switch {
				case counts[topic] == 0:
				case first == "":
					first = topic
				case counts[topic] != counts[first]:
					return fmt.Sprintf("%s has %d partitions, %s has %d, and they must have equally many", first, counts[first], topic, counts[topic])
				}
			}
		}
	}
	return ""
}
