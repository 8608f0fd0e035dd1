package topology

import (
	"errors"
	"fmt"
	"maps"
	"slices"
)

// Topology is a checked graph, cut into sub-topologies. It is immutable.
type Topology struct {
	Subtopologies []*Subtopology // ascending by ID
	Globals       []*Subtopology // those that keep a global store, and make no tasks; ascending by ID among and beside the others

	internal map[string]Repartition
}

// Subtopology is a part of a topology that is connected by edges or shared stores, and runs as one task per partition.
type Subtopology struct {
	ID     int
	Nodes  []*Node // parents before children
	Stores []Store // in the order of declaration

	SourceTopics      []string   // external topics it reads, ascending
	RepartitionTopics []string   // internal topics it reads, without the application id, ascending
	SinkTopics        []string   // topics it writes, as far as they are known, ascending; internal ones without the application id
	Copartitioned     [][]string // sets of at least two of the topics it reads, disjoint, each ascending
}

// Internal reports whether topic is a repartition topic of the application.
func (t *Topology) Internal(topic string) bool { _, ok := t.internal[topic]; return ok }

// Subtopology returns a sub-topology by id, nil if there is none.
func (t *Topology) Subtopology(id int) *Subtopology {
	i, ok := slices.BinarySearchFunc(t.Subtopologies, id, func(s *Subtopology, id int) int { return s.ID - id })
	if !ok {
		return nil
	}
	return t.Subtopologies[i]
}

// Global returns the sub-topology that keeps a global store, nil if there is none of that name.
func (t *Topology) Global(store string) *Subtopology {
	for _, s := range t.Globals {
		if slices.ContainsFunc(s.Stores, func(o Store) bool { return o.Name == store }) {
			return s
		}
	}
	return nil
}

// Build checks the graph and cuts it into sub-topologies. The error joins one [*NodeError] per mistake.
func (g *Graph) Build() (*Topology, error) {
	g.checkSources()
	g.checkStores()
	groups := g.group()
	t := &Topology{internal: maps.Clone(g.internal)}
	for id, nodes := range groups {
		s := g.subtopology(id, nodes)
		if slices.ContainsFunc(nodes, func(n *Node) bool { return n.Global }) {
			t.Globals = append(t.Globals, s)
		} else {
			t.Subtopologies = append(t.Subtopologies, s)
		}
	}
	g.checkCopartition(t)
	g.checkCycles(t)
	if len(groups) == 0 && len(g.errs) == 0 {
		return nil, errors.New("topology: it has no source")
	}
	if len(g.errs) > 0 {
		return nil, errors.Join(g.errs...)
	}
	return t, nil
}

// checkSources refuses topics that two sources read, and nodes that no source reaches.
func (g *Graph) checkSources() {
	reader := map[string]*Node{}
	reached := map[*Node]bool{}
	for _, n := range g.nodes {
		if n.Kind == Source {
			reached[n] = true
			for _, topic := range n.Topics {
				if other := reader[topic]; other != nil {
					g.fail(n.Name, n.At, fmt.Errorf("%w: %q is read by %s (%s)", ErrTopicTaken, topic, other.Name, other.At))
				}
				reader[topic] = n
			}
		}
		for _, p := range n.Parents { // nodes stand in order, so parents are decided
			if reached[p] {
				reached[n] = true
			}
		}
		if !reached[n] {
			g.fail(n.Name, n.At, ErrNoSource)
		}
	}
}

func (g *Graph) checkStores() {
	for _, n := range g.nodes {
		for _, s := range n.Stores {
			if !g.HasStore(s) {
				g.fail(n.Name, n.At, fmt.Errorf("%w: %q", ErrUnknownStore, s))
			}
		}
	}
}

// group puts nodes that are connected by edges or stores together. Groups are numbered as Kafka Streams numbers them, by their first node in the order
// of addition, so that what is upstream comes first (F-202, F-204). What no source leads to is in no group.
func (g *Graph) group() [][]*Node {
	root := map[*Node]*Node{}
	var find func(n *Node) *Node
	find = func(n *Node) *Node {
		if root[n] == nil || root[n] == n {
			return n
		}
		r := find(root[n])
		root[n] = r
		return r
	}
	unite := func(a, b *Node) { root[find(a)] = find(b) }
	for _, n := range g.nodes {
		for _, p := range n.Parents {
			unite(n, p)
		}
	}
	for _, users := range g.users {
		for _, u := range users[1:] {
			unite(g.byName[u], g.byName[users[0]])
		}
	}
	fed := map[*Node]bool{}
	for _, n := range g.nodes {
		if n.Kind == Source {
			fed[find(n)] = true
		}
	}
	var groups [][]*Node
	number := map[*Node]int{}
	for _, n := range g.nodes {
		root := find(n)
		if !fed[root] {
			continue
		}
		id, ok := number[root]
		if !ok {
			id = len(groups)
			number[root] = id
			groups = append(groups, nil)
		}
		groups[id] = append(groups[id], n)
	}
	return groups
}

func (g *Graph) subtopology(id int, nodes []*Node) *Subtopology {
	s := &Subtopology{ID: id, Nodes: nodes}
	used := map[string]bool{}
	for _, n := range nodes {
		for _, topic := range n.Topics {
			if _, ok := g.internal[topic]; ok {
				s.RepartitionTopics = append(s.RepartitionTopics, topic)
			} else {
				s.SourceTopics = append(s.SourceTopics, topic)
			}
		}
		if n.Kind == Sink && n.Topic != "" && !slices.Contains(s.SinkTopics, n.Topic) {
			s.SinkTopics = append(s.SinkTopics, n.Topic)
		}
		for _, store := range n.Stores {
			used[store] = true
		}
	}
	for _, store := range g.stores {
		if used[store.Name] {
			s.Stores = append(s.Stores, store)
		}
	}
	slices.Sort(s.SourceTopics)
	slices.Sort(s.RepartitionTopics)
	slices.Sort(s.SinkTopics)
	return s
}

// checkCopartition merges the sets that share a topic and gives each to the sub-topology that reads all of it (member spec §7.5).
func (g *Graph) checkCopartition(t *Topology) {
	var sets [][]string
	for _, names := range g.copartners {
		var topics []string
		for _, name := range names {
			if n := g.byName[name]; n != nil {
				topics = append(topics, n.Topics...)
			}
		}
		for { // merge with every set that shares a topic
			i := slices.IndexFunc(sets, func(s []string) bool {
				return slices.ContainsFunc(s, func(topic string) bool { return slices.Contains(topics, topic) })
			})
			if i < 0 {
				break
			}
			topics = append(topics, sets[i]...)
			sets = slices.Delete(sets, i, i+1)
		}
		slices.Sort(topics)
		sets = append(sets, slices.Compact(topics))
	}
	for _, set := range sets {
		if len(set) < 2 {
			continue
		}
		i := slices.IndexFunc(t.Subtopologies, func(s *Subtopology) bool {
			return !slices.ContainsFunc(set, func(topic string) bool {
				return !slices.Contains(s.SourceTopics, topic) && !slices.Contains(s.RepartitionTopics, topic)
			})
		})
		if i < 0 {
			g.fail(set[0], "", fmt.Errorf("%w: no sub-topology reads all of %q", ErrCopartition, set))
			continue
		}
		g.checkCounts(set)
		t.Subtopologies[i].Copartitioned = append(t.Subtopologies[i].Copartitioned, set)
	}
	for _, s := range t.Subtopologies {
		slices.SortFunc(s.Copartitioned, slices.Compare)
	}
}

// checkCounts refuses a set whose repartition topics were given different numbers of partitions. It is a mistake of the later one.
func (g *Graph) checkCounts(set []string) {
	first := ""
	for _, n := range g.nodes {
		for _, topic := range n.Topics {
			r := g.internal[topic]
			switch {
			case n.Kind != Source || r.Partitions == 0 || !slices.Contains(set, topic):
			case first == "":
				first = topic
			case r.Partitions != g.internal[first].Partitions:
				g.fail(n.Name, n.At, fmt.Errorf("%w: %q has %d partitions and %q, which is read together with it, has %d",
					ErrCopartition, topic, r.Partitions, first, g.internal[first].Partitions))
			}
		}
	}
}

// checkCycles refuses repartition topics whose partition count can't be derived: a ring of internal topics that nothing external feeds, or one
// that nobody writes. The broker would refuse the whole group (coordinator spec §9.2).
func (g *Graph) checkCycles(t *Topology) {
	known := map[string]bool{}
	for topic, r := range g.internal {
		known[topic] = r.Partitions > 0
	}
	for changed := true; changed; {
		changed = false
		for _, s := range t.Subtopologies {
			if len(s.SourceTopics) == 0 && !slices.ContainsFunc(s.RepartitionTopics, func(topic string) bool { return known[topic] }) {
				continue
			}
			for _, topic := range s.SinkTopics {
				if k, internal := known[topic]; internal && !k {
					known[topic], changed = true, true
				}
			}
		}
	}
	for _, topic := range slices.Sorted(maps.Keys(known)) {
		if !known[topic] && g.readers(topic) == 1 { // two were reported
			for _, s := range t.Subtopologies {
				for _, n := range s.Nodes {
					if n.Kind == Source && slices.Contains(n.Topics, topic) {
						g.fail(n.Name, n.At, fmt.Errorf("%w: %q has no partition count", ErrCycle, topic))
					}
				}
			}
		}
	}
}

// readers counts the sources that read a topic.
func (g *Graph) readers(topic string) (count int) {
	for _, n := range g.nodes {
		if n.Kind == Source && slices.Contains(n.Topics, topic) {
			count++
		}
	}
	return count
}

func compareNames(a, b string) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}
