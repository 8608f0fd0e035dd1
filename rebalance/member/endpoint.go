package member

import (
	"cmp"
	"maps"
	"slices"
)

// mergeEndpoints makes one entry per endpoint of the entries per member (§9, M-47).
func mergeEndpoints(entries []HostPartitions) []HostPartitions {
	type partitions map[string]map[int32]bool
	type sets struct{ active, standby partitions }
	add := func(to partitions, from []TopicPartitions) {
		for _, t := range from {
			if to[t.Topic] == nil {
				to[t.Topic] = make(map[int32]bool)
			}
			for _, p := range t.Partitions {
				to[t.Topic][p] = true
			}
		}
	}
	list := func(set partitions) (out []TopicPartitions) {
		for _, topic := range slices.Sorted(maps.Keys(set)) {
			out = append(out, TopicPartitions{topic, slices.Sorted(maps.Keys(set[topic]))})
		}
		return out
	}

	hosts := make(map[Endpoint]sets)
	for _, e := range entries {
		h, ok := hosts[e.Endpoint]
		if !ok {
			h = sets{make(partitions), make(partitions)}
			hosts[e.Endpoint] = h
		}
		add(h.active, e.Active)
		add(h.standby, e.Standby)
	}
	out := make([]HostPartitions, 0, len(hosts))
	for _, e := range slices.SortedFunc(maps.Keys(hosts), Endpoint.compare) {
		out = append(out, HostPartitions{e, list(hosts[e].active), list(hosts[e].standby)})
	}
	return out
}

func (e Endpoint) compare(o Endpoint) int {
	return cmp.Or(cmp.Compare(e.Host, o.Host), cmp.Compare(e.Port, o.Port))
}
