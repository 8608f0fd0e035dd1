package streams

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/millrace/millrace/topology"
)

// Builder collects a topology. It is used by one goroutine, once: after [Builder.Build] it is spent. Operators never fail at once; what is
// wrong with them is remembered and returned by Build.
type Builder struct {
	opts    builderOptions
	counter int
	steps   []*step
	errs    []error
	built   bool
	writing *step // by Build

	lines   map[string]int    // file:line of the calls, in the order of the program
	merged  map[string]string // source names that were merged into others
	joined  map[string]above  // by name of a stream: below the repartition topic of its joins
	streams []*streamSource
	stores  map[string]*declaredStore // by name: stores of operators and of processors
}

// streamSource remembers a source of streams, to merge it with a later one of the same topics.
type streamSource struct {
	name, at string
	topics   []string
	typ      reflect.Type // of its spec: K and V
	how      reading
}

// reading is what two readers of one source must agree about.
type reading struct {
	reset      Reset
	timestamps int
	extractor  uintptr
}

func readingOf(o options, extractor any) reading {
	r := reading{timestamps: -1, extractor: reflect.ValueOf(extractor).Pointer()}
	if o.reset != nil {
		r.reset = *o.reset
	}
	if o.timestamps != nil {
		r.timestamps = int(*o.timestamps)
	}
	return r
}

// declaredStore is a store that an operator owns or a processor declared.
type declaredStore struct {
	store  topology.Store
	as     topology.Store // as it was declared, before an operator changed it
	shape  storeShape
	at     string
	owned  bool // by an operator
	global bool
}

// NewBuilder starts an empty topology.
func NewBuilder(opts ...BuilderOption) *Builder {
	b := &Builder{
		opts: builderOptions{serdes: map[reflect.Type]any{}}, lines: map[string]int{}, merged: map[string]string{}, joined: map[string]above{},
		stores: map[string]*declaredStore{},
	}
	for _, o := range opts {
		if given(o) {
			o.builder(&b.opts)
		}
	}
	for _, err := range b.opts.errs {
		b.mistake("NewBuilder", b.line(), err)
	}
	return b
}

// Stream reads a topic as a stream of independent records. The topic must exist when the app starts. Reading the same topic
// twice as a stream gives the same records to both; both must read it with the same types.
func (b *Builder) Stream[K, V any](from Source[K, V], opts ...SourceOption) *Stream[K, V] {
	c := b.operator("KSTREAM-SOURCE-", gather(opts, SourceOption.source))
	var src sourceSpec[K, V]
	if from != nil {
		src = from.source()
	} else {
		c.mistake(fmt.Errorf("%w: the topic is nil", ErrBadOption))
	}
	src.key = serdeFor(b, c.name, c.at, true, nil, src.key)
	src.value = serdeFor(b, c.name, c.at, false, nil, src.value)
	c.checkTopics(src.names)
	c.checkReading()
	own := &streamSource{
		name: c.name, at: c.at, topics: slices.Sorted(slices.Values(src.names)), typ: reflect.TypeOf(src), how: readingOf(c.opts, src.timestamp),
	}
	s := c.add(func(g *topology.Graph) {
		for _, other := range b.streams {
			if other == own {
				break
			}
			if !slices.Equal(other.topics, own.topics) {
				continue
			}
			if other.typ != own.typ {
				c.mistake(fmt.Errorf("%w: %q is read with other types at %s; read it once and use the handle twice", ErrTopicTaken, own.topics, other.at))
			} else if other.how != own.how {
				c.mistake(fmt.Errorf("%w: %q is read with another reset or other timestamps at %s", ErrTopicTaken, own.topics, other.at))
			}
			b.merged[c.name] = other.name
			return
		}
		g.Add(topology.Node{Name: c.name, Kind: topology.Source, Topics: src.names, At: c.at, Payload: sourceSpecOf(src, c.opts)})
	})
	b.streams = append(b.streams, own)
	return &Stream[K, V]{above{b: b, step: s, name: c.name, sources: []string{c.name}}, serdes[K, V]{src.key, src.value}}
}

func (c *call) checkTopics(names []string) {
	for _, n := range names {
		if err := topology.CheckName(n); err != nil {
			c.mistake(fmt.Errorf("topic: %w", badName(err)))
		}
	}
}

// checkReading reports a reset or a timestamp policy that does not exist.
func (c *call) checkReading() {
	if r := c.opts.reset; r != nil && r.ago < 0 {
		c.mistake(fmt.Errorf("%w: AgoAtStart(%v) would begin in the future", ErrBadOption, r.ago))
	}
	if p := c.opts.timestamps; p != nil && *p > AlwaysWallClock {
		c.mistake(fmt.Errorf("%w: there is no timestamp policy %d", ErrBadOption, *p))
	}
}

// Table reads a topic as a changelog: the last record of a key is its row, a null value deletes it. Records with a null key are
// dropped. It has a store if [Materialized], or if an operator below needs one.
func (b *Builder) Table[K, V any](from Topic[K, V], opts ...TableOption) *Table[K, V] {
	o := gather(opts, TableOption.table)
	store := tableStore(o)
	if !o.hasStore {
		store.Name = b.newStoreName(from.name + "-")
	}
	source := b.newName("KSTREAM-SOURCE-")
	c := b.operator("KTABLE-SOURCE-", o)
	if c.opts.name != "" {
		source = c.opts.name + "-source"
	}
	c.checkHistory()
	if b.opts.reuseSources {
		store.SourceTopic = from.name
	}
	src := from.source()
	src.key = serdeFor(b, c.name, c.at, true, o.serdes, src.key)
	src.value = serdeFor(b, c.name, c.at, false, o.serdes, src.value)
	c.checkTopics(src.names)
	c.checkReading()
	t := newTableInfo(c, store, o.hasStore)
	if o.hasStore {
		c.own(store, shapeOf[K, V](rowsByKey))
	}
	s := c.add(func(g *topology.Graph) {
		g.Add(topology.Node{Name: source, Kind: topology.Source, Topics: src.names, At: c.at, Payload: sourceSpecOf(src, c.opts)})
		var stores []string
		if t.keep {
			stores = []string{store.Name}
			c.addStore(g, store, o.hasStore)
		}
		c.node(g, specOf(func(tk *task, n *nodeInfo) sink[K, V] {
			return newTableSource(tk, n, t, src.key, src.value)
		}), stores, source)
	})
	view := storeView(t, src.key, src.value)
	return &Table[K, V]{above{b: b, step: s, name: c.name, sources: []string{source}}, serdes[K, V]{src.key, src.value}, t, view}
}

// tableStore is the store of a table operator before it has a name of its own: F-059, F-176.
func tableStore(o options) topology.Store {
	s := topology.Store{Name: o.materialized, Kind: topology.KeyValueStore, Timestamped: true, Caching: true, Logging: true}
	o.applyStore(&s)
	return s
}

// checkHistory refuses a history without a store to keep it in, and a negative one.
func (c *call) checkHistory() {
	switch {
	case c.opts.history == nil:
	case *c.opts.history < 0:
		c.mistake(fmt.Errorf("%w: a history of %v", ErrBadOption, *c.opts.history))
	case !c.opts.hasStore:
		c.mistake(fmt.Errorf("%w: Versioned needs a store to keep the history in; give the table one with streams.Materialized", ErrBadOption))
	}
}

// Build checks the topology and closes it. The error joins one *[BuildError] per mistake, in the order of the program; errors.As finds the
// first, and an Unwrap() []error has them all.
func (b *Builder) Build() (*Topology, error) {
	if b.built {
		return nil, fmt.Errorf("streams: Build was called before; make another Builder: %w", ErrClosed)
	}
	b.built = true
	if b.opts.mergeRepartitions {
		b.mergeRepartitions()
	}
	b.markFilters()
	g := topology.NewGraph()
	for _, s := range b.order() {
		b.writing = s
		s.write(g)
	}
	if len(b.steps) == 0 && len(b.errs) > 0 {
		return nil, errors.Join(b.errs...)
	}
	if len(b.steps) == 0 {
		return nil, fmt.Errorf("streams: %w; begin with Builder.Stream or Builder.Table", ErrNoSource)
	}
	t, err := g.Build()
	b.collect(err)
	if len(b.errs) > 0 {
		return nil, errors.Join(b.errs...)
	}
	if err := b.checkTypes(t); err != nil {
		return nil, err
	}
	return &Topology{t: t, wrap: b.opts.wrap}, nil
}

// collect adds what package topology found to the builder's own mistakes, and brings all of them into the order of the program.
func (b *Builder) collect(err error) {
	found := []error{err}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		found = joined.Unwrap()
	}
	for _, e := range found {
		if e != nil && !follows(e) {
			b.errs = append(b.errs, translate(e))
		}
	}
	if err != nil && len(b.errs) == 0 {
		b.errs = append(b.errs, err)
	}
	line := func(err error) int {
		if e, ok := errors.AsType[*BuildError](err); ok {
			if n, ok := b.lines[e.At]; ok {
				return n
			}
		}
		return len(b.lines)
	}
	slices.SortStableFunc(b.errs, func(a, c error) int { return line(a) - line(c) })
}

// checkTypes makes every node once and hangs it below its parents, so that a fault of this package shows at Build and not in a task.
func (b *Builder) checkTypes(t *topology.Topology) error {
	for _, s := range t.Subtopologies {
		if _, err := wire(s, &task{}); err != nil {
			return err
		}
	}
	return nil
}

// Topology is a finished graph. It is immutable and may be run and described many times.
type Topology struct {
	t    *topology.Topology
	wrap func(node string, next ProcessFunc) ProcessFunc
}

// Describe is Kafka Streams' text, byte for byte.
func (t *Topology) Describe() string { return t.t.Describe() }

// Metadata is the topology as the members of a streams group send it to the broker, for tools and tests.
func (t *Topology) Metadata(n topology.Naming) topology.Metadata { return t.t.Metadata(n) }

// Graph gives the untyped graph, for tools and tests.
func (t *Topology) Graph() *topology.Topology { return t.t }
