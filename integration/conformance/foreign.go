package conformance

import (
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// consumerMember is a member of a consumer group (KIP-848), as far as the cases need one.
type consumerMember struct {
	s           *scene
	group, id   string
	topic       string
	coordinator int
}

func (s *scene) consumerMember(group, topic string) *consumerMember {
	return &consumerMember{s: s, group: group, id: "consumer", topic: s.topic(topic), coordinator: s.coordinator(group)}
}

// beat sends a heartbeat and returns its code.
func (c *consumerMember) beat(epoch int32) int16 {
	c.s.Helper()
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch = c.group, c.id, epoch
	if epoch == 0 {
		req.RebalanceTimeoutMillis = 60000
		req.SubscribedTopicNames = []string{c.topic}
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	}
	resp, err := c.s.client.Broker(c.coordinator).Request(c.s.ctx, req)
	if err != nil {
		c.s.Fatal(err)
	}
	return resp.(*kmsg.ConsumerGroupHeartbeatResponse).ErrorCode
}

func classicJoinRequest(group, member string) *kmsg.JoinGroupRequest {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Group, req.MemberID = group, member
	req.ProtocolType = "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 30000, 30000
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = "range", []byte{0}
	req.Protocols = append(req.Protocols, p)
	return req
}

// toCoordinator sends a request to a group's coordinator, once.
func (s *scene) toCoordinator(group string, req kmsg.Request) kmsg.Response {
	s.Helper()
	resp, err := s.client.Broker(s.coordinator(group)).Request(s.ctx, req)
	if err != nil {
		s.Fatal(err)
	}
	return resp
}

// classicJoin tries to join as a classic member and returns the code.
func (s *scene) classicJoin(group string) int16 {
	s.Helper()
	return s.toCoordinator(group, classicJoinRequest(group, "")).(*kmsg.JoinGroupResponse).ErrorCode
}

// classicMember joins and syncs as a classic member and returns its id.
func (s *scene) classicMember(group string) string {
	s.Helper()
	resp := s.toCoordinator(group, classicJoinRequest(group, "")).(*kmsg.JoinGroupResponse)
	if resp.ErrorCode == kerr.MemberIDRequired.Code {
		resp = s.toCoordinator(group, classicJoinRequest(group, resp.MemberID)).(*kmsg.JoinGroupResponse)
	}
	if resp.ErrorCode != 0 {
		s.Fatalf("classic join answered %v", kerr.ErrorForCode(resp.ErrorCode))
	}
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.MemberID, sync.Generation = group, resp.MemberID, resp.Generation
	sync.ProtocolType, sync.Protocol = resp.ProtocolType, resp.Protocol
	a := kmsg.NewSyncGroupRequestGroupAssignment()
	a.MemberID, a.MemberAssignment = resp.MemberID, []byte{0}
	sync.GroupAssignment = append(sync.GroupAssignment, a)
	if code := s.toCoordinator(group, sync).(*kmsg.SyncGroupResponse).ErrorCode; code != 0 {
		s.Fatalf("sync answered %v", kerr.ErrorForCode(code))
	}
	return resp.MemberID
}

func (s *scene) classicLeave(group, member string) {
	s.Helper()
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Group, req.MemberID = group, member
	m := kmsg.NewLeaveGroupRequestMember()
	m.MemberID = member
	req.Members = append(req.Members, m)
	if code := s.toCoordinator(group, req).(*kmsg.LeaveGroupResponse).ErrorCode; code != 0 {
		s.Fatalf("leave answered %v", kerr.ErrorForCode(code))
	}
}
