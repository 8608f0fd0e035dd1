package streams

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"

	"github.com/millrace/millrace/state"
	"github.com/millrace/millrace/tasks"
	"github.com/millrace/millrace/topology"
)

// taskConfig is what the nodes of all tasks of an app share.
type taskConfig struct {
	ctx            context.Context // of the app
	naming         topology.Naming
	topology       *topology.Topology
	timestamps     TimestampPolicy
	onDecodeError  ErrorHandler
	onProcessError ErrorHandler
	onProduceError ErrorHandler
	deadLetters    string
	print          io.Writer
	log            *slog.Logger
	stateDir       func(topology.TaskID) string
	caching        bool          // false: stores that ask for a cache have none
	globals        *tasks.Global // nil if there are none
	wrap           func(string, ProcessFunc) ProcessFunc
}

// lockedWriter lets tasks of several workers print whole lines.
type lockedWriter struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *lockedWriter) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(b)
}

// task is the typed side of a task: the nodes of one sub-topology, wired for one partition. It implements [tasks.Program].
type task struct {
	cfg     *taskConfig
	ctx     *tasks.Context
	id      topology.TaskID
	log     *slog.Logger
	at      *nodeInfo // the node at work
	sources map[string]tasks.Source
	nodes   []any // in the order of the sub-topology: parents first
	outputs map[string]tasks.Output
	stores  map[string]any // opened typed stores
	onOpen  []func() error // opens the stores that nodes named when they were made
	onClose []func() error
	wrap    func(string, ProcessFunc) ProcessFunc // see [Wrap]; nil if there is none

	updaters map[string]*nodeInfo // by read-only store: the node that may change it
	readOnly bool                 // the store being opened is for another node
	scratch  []byte

	now     int64   // ms: the time of what a processor is working on
	headers Headers // and its headers
}

// newTask makes the nodes of a sub-topology.
func newTask(cfg *taskConfig, sub *topology.Subtopology, id topology.TaskID) (*task, error) {
	t := &task{cfg: cfg, id: id, log: cfg.log.With("task", id.String()), outputs: map[string]tasks.Output{}, stores: map[string]any{}, wrap: cfg.wrap}
	nodes, err := wire(sub, t)
	t.nodes = nodes
	return t, err
}

// wire makes the nodes of a sub-topology and hangs each below its parents.
func wire(sub *topology.Subtopology, t *task) ([]any, error) {
	made := map[*topology.Node]any{}
	var nodes []any
	t.sources, t.updaters = map[string]tasks.Source{}, map[string]*nodeInfo{}
	for _, n := range sub.Nodes {
		s, ok := n.Payload.(spec)
		if !ok {
			return nil, fmt.Errorf("streams: node %s has no program", n.Name)
		}
		info := &nodeInfo{name: n.Name, stores: n.Stores}
		for _, c := range n.Children {
			info.children = append(info.children, c.Name)
		}
		node := s.make(t, info)
		made[n] = node
		nodes = append(nodes, node)
		if s.updates != "" {
			t.updaters[s.updates] = info
		}
		child := node
		if t.wrap != nil && n.Kind == topology.Processor {
			child = s.wrap(t, info, node, t.wrap)
		}
		for _, p := range n.Parents {
			if !s.attach(made[p], child) {
				return nil, fmt.Errorf("streams: node %s takes other records than %s gives", n.Name, p.Name)
			}
		}
		if n.Kind == topology.Source {
			for _, topic := range n.Topics {
				if t.cfg != nil {
					topic = t.cfg.topology.TopicName(t.cfg.naming, topic)
				}
				t.sources[topic] = node.(tasks.Source)
			}
		}
	}
	return nodes, nil
}

// Source implements [tasks.Program].
func (t *task) Source(topic string) tasks.Source { return t.sources[topic] }

// opener is a node with something to open when its task begins to run; closer has something to close.
type (
	opener interface{ open() error }
	closer interface{ close() error }
)

// Open implements [tasks.Program].
func (t *task) Open(c *tasks.Context) error {
	t.ctx = c
	if err := t.openStores(); err != nil {
		return err
	}
	for _, n := range t.nodes {
		if o, ok := n.(opener); ok {
			if err := o.open(); err != nil {
				return err
			}
		}
	}
	return nil
}

// Close implements [tasks.Program].
func (t *task) Close() error {
	var errs []error
	for _, f := range t.onClose {
		errs = append(errs, f())
	}
	for _, n := range t.nodes {
		if c, ok := n.(closer); ok {
			errs = append(errs, c.close())
		}
	}
	return errors.Join(errs...)
}

// Locate implements [tasks.Program].
func (t *task) Locate(p *tasks.Panic) error {
	e := &PanicError{Value: p.Value, Stack: p.Stack, Task: t.id.String()}
	if t.at != nil {
		e.Node = t.at.name
	}
	if t.ctx != nil {
		e.Origin = t.origin()
	}
	return e
}

// output opens a topic for writing, once per task.
func (t *task) output(topic string) (tasks.Output, error) {
	if out := t.outputs[topic]; out != nil {
		return out, nil
	}
	out, err := t.ctx.Producer.Output(topic)
	if err != nil {
		return nil, err
	}
	t.outputs[topic] = out
	return out, nil
}

func (t *task) internalTopic(topic string) string {
	if t.cfg == nil { // wired only to be checked
		return topic
	}
	return t.cfg.topology.TopicName(t.cfg.naming, topic)
}

// flushes is a listener of flushes which says of every update what record it was made for.
func (t *task) flushes(f state.FlushFunc) state.FlushFunc {
	return func(u *state.Update) error {
		t.ctx.From(u.Topic, u.Offset)
		return f(u)
	}
}

// origin is the place of the record at hand, or of that which a cache or a buffer hands on.
func (t *task) origin() Origin {
	if t.ctx.Topic == "" {
		return Origin{Partition: -1, Offset: -1}
	}
	return Origin{t.ctx.Topic, t.ctx.Partition, t.ctx.Offset}
}
