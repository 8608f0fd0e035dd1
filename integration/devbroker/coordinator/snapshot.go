package coordinator

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// A snapshot holds what a broker persists of its streams groups (§25.1), and their settings, as one JSON document:
//
//	{"version": 1,
//	 "configs": {"<group>": {"<name>": "<value>"}},
//	 "groups": [{"id", "epoch", "assignmentEpoch", "assignedAt" (Unix ms, 0: none), "validatedTopology", "metadataHash", "standbys", "tags",
//	             "topology": as in the heartbeat, "members": [{"id", …}], "targets": {"<member>": tasks}}]}
//
// Tasks are a list per role (active, standby, warm-up) of [subtopology, partition, assignment epoch].

const snapshotVersion = 1

type snapshot struct {
	Version int                          `json:"version"`
	Configs map[string]map[string]string `json:"configs,omitempty"`
	Groups  []groupRecord                `json:"groups,omitempty"`
}

type groupRecord struct {
	ID                string                                     `json:"id"`
	Epoch             int32                                      `json:"epoch"`
	AssignmentEpoch   int32                                      `json:"assignmentEpoch"`
	AssignedAt        int64                                      `json:"assignedAt"`
	ValidatedTopology int32                                      `json:"validatedTopology"`
	MetadataHash      uint64                                     `json:"metadataHash"`
	Standbys          int                                        `json:"standbys"`
	Tags              string                                     `json:"tags,omitempty"`
	Topology          *kmsg.StreamsGroupHeartbeatRequestTopology `json:"topology"`
	Members           []memberRecord                             `json:"members,omitempty"`
	Targets           map[string]taskRecords                     `json:"targets,omitempty"`
}

type memberRecord struct {
	ID               string         `json:"id"`
	Epoch            int32          `json:"epoch"`
	PreviousEpoch    int32          `json:"previousEpoch"`
	State            memberState    `json:"state"`
	Assigned         taskRecords    `json:"assigned"`
	Pending          taskRecords    `json:"pending"`
	InstanceID       *string        `json:"instanceId,omitempty"`
	RackID           *string        `json:"rackId,omitempty"`
	ClientID         string         `json:"clientId"`
	ClientHost       string         `json:"clientHost"`
	RebalanceTimeout int32          `json:"rebalanceTimeout"`
	TopologyEpoch    int32          `json:"topologyEpoch"`
	ProcessID        string         `json:"processId"`
	Endpoint         *endpointFacts `json:"endpoint,omitempty"`
	Tags             [][2]string    `json:"tags,omitempty"`
}

type endpointFacts struct {
	Host string `json:"host"`
	Port uint16 `json:"port"`
}

type taskRecords [numRoles][]taskRecord

type taskRecord struct {
	task
	epoch int32
}

func (r taskRecord) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{r.subtopology, r.partition, r.epoch})
}

func (r *taskRecord) UnmarshalJSON(b []byte) error {
	return json.Unmarshal(b, &[]any{&r.subtopology, &r.partition, &r.epoch})
}

func recordTasks(ts tasks) (out taskRecords) {
	for r := range ts {
		for _, t := range sortedTasks(ts[r]) {
			out[r] = append(out[r], taskRecord{t, ts[r][t]})
		}
	}
	return out
}

func (rs taskRecords) tasks() (ts tasks) {
	for r := range rs {
		for _, t := range rs[r] {
			ts.add(role(r), t.task, t.epoch)
		}
	}
	return ts
}

// Snapshot returns what a broker would find on its disk after a restart. The same state gives the same bytes.
func (c *Coordinator) Snapshot() ([]byte, error) {
	s := snapshot{Version: snapshotVersion, Configs: c.configs}
	for _, id := range c.Groups() {
		g := c.groups[id]
		r := groupRecord{
			ID: id, Epoch: g.epoch, AssignmentEpoch: g.assignmentEpoch, ValidatedTopology: g.validatedTopology, MetadataHash: g.metadataHash,
			Standbys: g.assignmentConfig.standbys, Tags: g.assignmentConfig.tags, Topology: g.topology, Targets: map[string]taskRecords{},
		}
		if !g.assignedAt.IsZero() {
			r.AssignedAt = g.assignedAt.UnixMilli()
		}
		for _, mid := range g.memberIDs() {
			m := g.members[mid]
			mr := memberRecord{
				ID: mid, Epoch: m.epoch, PreviousEpoch: m.prevEpoch, State: m.state, Assigned: recordTasks(m.assigned), Pending: recordTasks(m.pending),
				InstanceID: m.meta.instanceID.ptr(), RackID: m.meta.rackID.ptr(), ClientID: m.meta.clientID, ClientHost: m.meta.clientHost,
				RebalanceTimeout: m.meta.rebalanceTimeout, TopologyEpoch: m.meta.topologyEpoch, ProcessID: m.meta.processID,
			}
			if e := m.meta.endpoint; e.set {
				mr.Endpoint = &endpointFacts{e.host, e.port}
			}
			for _, t := range m.meta.tags {
				mr.Tags = append(mr.Tags, [2]string{t.key, t.value})
			}
			r.Members = append(r.Members, mr)
		}
		for _, mid := range slices.Sorted(maps.Keys(g.targets)) {
			r.Targets[mid] = recordTasks(g.targets[mid])
		}
		s.Groups = append(s.Groups, r)
	}
	b, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("coordinator: snapshot: %w", err)
	}
	return b, nil
}

// Restore takes over a snapshot in place of what the coordinator has, as a broker loads its groups when it starts: timers start afresh at now (§20).
func (c *Coordinator) Restore(now time.Time, data []byte) error {
	var s snapshot
	if err := json.Unmarshal(data, &s); err != nil {
		return fmt.Errorf("coordinator: restore: %w", err)
	}
	if s.Version != snapshotVersion {
		return fmt.Errorf("coordinator: restore: version %d, want %d", s.Version, snapshotVersion)
	}
	groups := map[string]*group{}
	for _, r := range s.Groups {
		g := newGroup(r.ID)
		g.epoch, g.assignmentEpoch, g.validatedTopology, g.metadataHash = r.Epoch, r.AssignmentEpoch, r.ValidatedTopology, r.MetadataHash
		g.assignmentConfig = assignmentConfig{r.Standbys, r.Tags}
		g.topology = r.Topology
		if r.AssignedAt != 0 {
			g.assignedAt = time.UnixMilli(r.AssignedAt)
		}
		for _, mr := range r.Members {
			if mr.State < stable || mr.State > unreleased {
				return fmt.Errorf("coordinator: restore: member %s of group %s is in state %d", mr.ID, r.ID, mr.State)
			}
			m := newMember(mr.ID)
			m.epoch, m.prevEpoch, m.state = mr.Epoch, mr.PreviousEpoch, mr.State
			m.assigned, m.pending = mr.Assigned.tasks(), mr.Pending.tasks()
			m.meta = metadata{
				clientID: mr.ClientID, clientHost: mr.ClientHost, rebalanceTimeout: mr.RebalanceTimeout, topologyEpoch: mr.TopologyEpoch, processID: mr.ProcessID,
			}
			if mr.InstanceID != nil {
				m.meta.instanceID = optional{true, *mr.InstanceID}
			}
			if mr.RackID != nil {
				m.meta.rackID = optional{true, *mr.RackID}
			}
			if mr.Endpoint != nil {
				m.meta.endpoint = endpoint{true, mr.Endpoint.Host, mr.Endpoint.Port}
			}
			for _, t := range mr.Tags {
				m.meta.tags = append(m.meta.tags, tag{t[0], t[1]})
			}
			g.members[mr.ID] = m
		}
		for id, rs := range r.Targets {
			g.targets[id] = rs.tasks()
		}
		groups[r.ID] = g
	}
	c.groups = groups
	c.configs = s.Configs
	if c.configs == nil {
		c.configs = map[string]map[string]string{}
	}
	for _, g := range c.groups {
		c.failover(now, g)
	}
	return nil
}
