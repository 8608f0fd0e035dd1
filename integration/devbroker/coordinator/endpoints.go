package coordinator

import (
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// bumpsEndpoints reports whether a heartbeat makes the endpoint map new (§17).
func (c *Coordinator) bumpsEndpoints(m *member, join, endpointChanged, assignmentChanged bool) bool {
	if c.cfg.Release >= Kafka44 {
		return endpointChanged || assignmentChanged && m.meta.endpoint.set
	}
	return m.meta.endpoint.set && (join || assignmentChanged)
}

func (g *group) hasEndpoints() bool {
	for _, m := range g.members {
		if m.meta.endpoint.set {
			return true
		}
	}
	return false
}

// endpoints is the map of user endpoints to the partitions behind them, one entry per member that has an endpoint (C-45). Never nil.
func (c *Coordinator) endpoints(g *group) []kmsg.StreamsGroupHeartbeatResponsePartitionsByUserEndpoint {
	out := []kmsg.StreamsGroupHeartbeatResponsePartitionsByUserEndpoint{}
	if g.configured.subtopologies == nil {
		return out
	}
	for _, id := range g.memberIDs() {
		m := g.members[id]
		if !m.meta.endpoint.set {
			continue
		}
		e := kmsg.NewStreamsGroupHeartbeatResponsePartitionsByUserEndpoint()
		e.UserEndpoint.Host, e.UserEndpoint.Port = m.meta.endpoint.host, m.meta.endpoint.port
		actives := c.partitionsOf(g, m.assigned[active])
		copies := maps.Clone(m.assigned[standby])
		if c.cfg.Release >= Kafka44 && len(m.assigned[warmup]) > 0 {
			if copies == nil {
				copies = map[task]int32{}
			}
			maps.Copy(copies, m.assigned[warmup])
		}
		standbys := c.partitionsOf(g, copies)
		for _, topic := range slices.Sorted(maps.Keys(actives)) {
			a := kmsg.NewStreamsGroupHeartbeatResponsePartitionsByUserEndpointActivePartition()
			a.Topic, a.Partitions = topic, actives[topic]
			e.ActivePartitions = append(e.ActivePartitions, a)
		}
		for _, topic := range slices.Sorted(maps.Keys(standbys)) {
			s := kmsg.NewStreamsGroupHeartbeatResponsePartitionsByUserEndpointStandbyPartition()
			s.Topic, s.Partitions = topic, standbys[topic]
			e.StandbyPartitions = append(e.StandbyPartitions, s)
		}
		out = append(out, e)
	}
	return out
}

// partitionsOf lists, by topic, the input partitions of tasks.
func (c *Coordinator) partitionsOf(g *group, ts map[task]int32) map[string][]int32 {
	bySub := map[string][]int32{} // ascending
	for _, t := range sortedTasks(ts) {
		bySub[t.subtopology] = append(bySub[t.subtopology], t.partition)
	}
	out := map[string][]int32{}
	for _, id := range slices.Sorted(maps.Keys(bySub)) {
		s := g.configured.subtopologies[id]
		if s == nil {
			continue
		}
		for _, name := range s.sources {
			info, ok := c.cluster.Topic(name)
			if !ok {
				continue
			}
			ps := bySub[id]
			if c.cfg.Release >= Kafka44 {
				// A shorter topic has no partition for the higher tasks.
				ps = slices.DeleteFunc(slices.Clone(ps), func(p int32) bool { return p >= info.Partitions })
			} else {
				// Before 4.4 it is not asked which partitions there are, only how many: of more tasks than that the first ones are listed.
				ps = ps[:min(len(ps), int(info.Partitions))]
			}
			if len(ps) > 0 {
				out[name] = append(out[name], ps...)
			}
		}
	}
	for name, ps := range out {
		slices.Sort(ps)
		out[name] = slices.Compact(ps)
	}
	return out
}
