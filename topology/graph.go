package topology

import (
	"errors"
	"fmt"
	"slices"
)

// NodeKind tells sources, processors and sinks apart.
type NodeKind uint8

// The kinds of nodes.
const (
	Source    NodeKind = iota // reads topics
	Processor                 // works on records, perhaps with stores
	Sink                      // writes to a topic
)

// Node is one step of a topology. Payload belongs to whoever builds and runs the graph; this package never looks into it.
type Node struct {
	Name    string
	Kind    NodeKind
	Topics  []string // Source: what it reads; names of internal topics are without the application id
	Topic   string   // Sink: where it writes, likewise; empty when Dynamic is set
	Dynamic string   // Sink: text that describes a topic chosen per record
	Stores  []string // Processor: stores it may use, in the order of connection
	Global  bool     // Source: read whole by every process, into a global store
	At      string   // file:line of the call that added it, for messages
	Payload any

	Parents  []*Node // in the order of connection
	Children []*Node // in the order of connection, which is the order in which records are handed on
}

// Graph collects nodes, stores and internal topics. Its methods never fail at once: what is wrong is remembered and returned by [Graph.Build],
// all of it. A Graph is used by one goroutine.
type Graph struct {
	nodes      []*Node
	byName     map[string]*Node
	stores     []Store
	users      map[string][]string // store to nodes, in the order of connection
	internal   map[string]Repartition
	copartners [][]string // sets of source node names that need equal partition counts
	errs       []error
}

// Repartition is what the application fixes about an internal repartition topic.
type Repartition struct {
	Partitions int32 // 0: derived from what is upstream
}

// NodeError is a mistake at one node.
type NodeError struct {
	Node string // its name
	At   string // file:line of the call that added it; may be empty
	Err  error
}

func (e *NodeError) Error() string {
	if e.At == "" {
		return fmt.Sprintf("%s: %v", e.Node, e.Err)
	}
	return fmt.Sprintf("%s (%s): %v", e.Node, e.At, e.Err)
}

// Unwrap returns the cause.
func (e *NodeError) Unwrap() error { return e.Err }

// Causes of a [NodeError].
var (
	ErrDuplicateName = errors.New("name is taken")
	ErrBadName       = errors.New("not a legal name")
	ErrUnknownNode   = errors.New("no such node")
	ErrUnknownStore  = errors.New("no such store")
	ErrTopicTaken    = errors.New("topic is read by another source")
	ErrNoSource      = errors.New("no source leads here")
	ErrCycle         = errors.New("topics form a cycle that no source feeds")
	ErrCopartition   = errors.New("cannot be co-partitioned")
	ErrStoreConflict = errors.New("store is declared in two ways")
)

// NewGraph returns an empty graph.
func NewGraph() *Graph {
	return &Graph{byName: map[string]*Node{}, users: map[string][]string{}, internal: map[string]Repartition{}}
}

func (g *Graph) fail(node, at string, err error) {
	g.errs = append(g.errs, &NodeError{Node: node, At: at, Err: err})
}

// Add adds a node below the named parents, which must have been added before.
func (g *Graph) Add(n Node, parents ...string) {
	if err := CheckName(n.Name); err != nil {
		g.fail(n.Name, n.At, err)
		return
	}
	if other := g.byName[n.Name]; other != nil {
		g.fail(n.Name, n.At, fmt.Errorf("%w by the node added at %s", ErrDuplicateName, other.At))
		return
	}
	node := &n
	for _, name := range parents {
		p := g.byName[name]
		if p == nil {
			g.fail(n.Name, n.At, fmt.Errorf("%w: parent %q", ErrUnknownNode, name))
			continue
		}
		node.Parents = append(node.Parents, p)
		p.Children = append(p.Children, node)
	}
	g.byName[n.Name] = node
	g.nodes = append(g.nodes, node)
	for _, s := range n.Stores {
		g.users[s] = append(g.users[s], n.Name)
	}
}

// Node returns a node by name, nil if there is none.
func (g *Graph) Node(name string) *Node { return g.byName[name] }

// AddStore declares a store and connects it to nodes. Declaring the same store twice is allowed, with the same properties.
func (g *Graph) AddStore(s Store, at string, nodes ...string) {
	if err := CheckName(s.Name); err != nil {
		g.fail(s.Name, at, err)
		return
	}
	i := slices.IndexFunc(g.stores, func(o Store) bool { return o.Name == s.Name })
	if i < 0 {
		g.stores = append(g.stores, s)
	} else {
		g.fail(s.Name, at, fmt.Errorf("store %w", ErrDuplicateName))
	}
	for _, n := range nodes {
		g.Connect(n, s.Name, at)
	}
}

// HasStore reports whether a store of this name was added.
func (g *Graph) HasStore(name string) bool {
	return slices.ContainsFunc(g.stores, func(o Store) bool { return o.Name == name })
}

// Connect lets a node use a store. Nodes that share one are in one sub-topology.
func (g *Graph) Connect(node, store, at string) {
	n := g.byName[node]
	if n == nil {
		g.fail(node, at, ErrUnknownNode)
		return
	}
	if !slices.Contains(n.Stores, store) {
		n.Stores = append(n.Stores, store)
		g.users[store] = append(g.users[store], node)
	}
}

// AddRepartition makes a topic internal: the broker creates it, and its real name begins with the application id.
func (g *Graph) AddRepartition(topic string, r Repartition) { g.internal[topic] = r }

// Copartition asks for equal partition counts of all topics that the named sources read.
func (g *Graph) Copartition(sources ...string) {
	g.copartners = append(g.copartners, slices.Clone(sources))
}

// CheckName applies Kafka Streams' rule for names of nodes, stores and topics: letters, digits, '.', '_' and '-', at most 249 characters (F-037).
func CheckName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: it is empty", ErrBadName)
	case name == "." || name == "..":
		return fmt.Errorf("%w: %q", ErrBadName, name)
	case len(name) > 249:
		return fmt.Errorf("%w: longer than 249 characters", ErrBadName)
	}
	for _, c := range []byte(name) {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-') {
			return fmt.Errorf("%w: %q has the character %q; letters, digits, '.', '_' and '-' are allowed", ErrBadName, name, c)
		}
	}
	return nil
}
