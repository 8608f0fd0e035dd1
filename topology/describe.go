package topology

import (
	"slices"
	"strconv"
	"strings"
)

// Describe returns the text of Kafka Streams' Topology#describe, byte for byte (T-1).
func (t *Topology) Describe() string {
	var b strings.Builder
	b.WriteString("Topologies:\n ")
	globals := t.Globals
	for _, s := range t.Subtopologies {
		for len(globals) > 0 && globals[0].ID < s.ID {
			globals[0].describeGlobal(&b)
			globals = globals[1:]
		}
		b.WriteString("  Sub-topology: " + strconv.Itoa(s.ID) + "\n")
		d := newDescription(s)
		for _, n := range d.ordered() {
			d.write(&b, n)
		}
		b.WriteString("\n")
	}
	for _, s := range globals {
		s.describeGlobal(&b)
	}
	return b.String()
}

// describeGlobal writes a global store: its source and its processor.
func (s *Subtopology) describeGlobal(b *strings.Builder) {
	b.WriteString("  Sub-topology: " + strconv.Itoa(s.ID) + " for global store (will not generate tasks)\n")
	d := newDescription(s)
	for _, n := range s.Nodes {
		d.write(b, n)
	}
}

// description holds what the order of the text depends on. Java keeps nodes in hash sets and in tree sets that compare by a size which still grows
// while they are filled, so the order of successors depends on the order in which nodes are connected; it is replayed here.
type description struct {
	size         map[*Node]int
	predecessors map[*Node]*treeSet
	successors   map[*Node]*treeSet
}

func newDescription(s *Subtopology) *description {
	d := &description{size: map[*Node]int{}, predecessors: map[*Node]*treeSet{}, successors: map[*Node]*treeSet{}}
	byName := map[string]*Node{}
	names := make([]string, len(s.Nodes))
	for i, n := range s.Nodes {
		byName[n.Name] = n
		names[i] = n.Name
		d.size[n] = 1
		d.predecessors[n] = &treeSet{compare: d.compare}
		d.successors[n] = &treeSet{compare: d.compare}
	}
	for _, name := range hashOrder(hashOrder(names)) { // the group is a hash set, which fills a hash map
		n := byName[name]
		for _, p := range n.Parents {
			d.predecessors[n].add(p)
			d.successors[p].add(n)
			d.grow(p, d.size[n])
		}
	}
	return d
}

func (d *description) grow(n *Node, by int) {
	d.size[n] += by
	for _, p := range d.predecessors[n].list() {
		d.grow(p, by)
	}
}

// compare orders by size, descending, then by name.
func (d *description) compare(a, b *Node) int {
	if d.size[a] != d.size[b] {
		return d.size[b] - d.size[a]
	}
	return compareNames(a.Name, b.Name)
}

func (d *description) ordered() []*Node {
	nodes := make([]*Node, 0, len(d.size))
	for n := range d.size {
		nodes = append(nodes, n)
	}
	slices.SortFunc(nodes, d.compare)
	return nodes
}

func (d *description) write(b *strings.Builder, n *Node) {
	switch n.Kind {
	case Source:
		b.WriteString("    Source: " + n.Name + " (topics: [" + strings.Join(hashOrder(n.Topics), ", ") + "])\n")
		b.WriteString("      --> " + nameList(d.successors[n].list()) + "\n")
	case Processor:
		b.WriteString("    Processor: " + n.Name + " (stores: [" + strings.Join(hashOrder(n.Stores), ", ") + "])\n")
		b.WriteString("      --> " + nameList(d.successors[n].list()) + "\n")
		b.WriteString("      <-- " + nameList(d.predecessors[n].list()) + "\n")
	case Sink:
		if n.Dynamic != "" {
			b.WriteString("    Sink: " + n.Name + " (extractor class: " + n.Dynamic + ")\n")
		} else {
			b.WriteString("    Sink: " + n.Name + " (topic: " + n.Topic + ")\n")
		}
		b.WriteString("      <-- " + nameList(d.predecessors[n].list()) + "\n")
	}
}

func nameList(nodes []*Node) string {
	if len(nodes) == 0 {
		return "none"
	}
	names := make([]string, len(nodes))
	for i, n := range nodes {
		names[i] = n.Name
	}
	return strings.Join(names, ", ")
}

// hashOrder returns names in the order in which a java.util.HashSet that was filled in the given order yields them. Names are ASCII.
func hashOrder(names []string) []string {
	size := 16
	for len(names) > size*3/4 {
		size *= 2
	}
	buckets := make([][]string, size)
	for _, name := range names {
		var h uint32
		for _, c := range []byte(name) {
			h = 31*h + uint32(c)
		}
		i := (h ^ h>>16) & uint32(size-1)
		if !slices.Contains(buckets[i], name) {
			buckets[i] = append(buckets[i], name)
		}
	}
	return slices.Concat(buckets...)
}
