package streams

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/topology"
)

// step is an operator as the program named it. Steps are written to the topology.Graph by Build, in the order of the program, because what some of
// them need is known only then: whether a table needs a store, whether a null-key filter is wanted.
type step struct {
	name    string // of its last node, below which children go
	at      string // file:line of the call
	parents []*step
	write   func(g *topology.Graph)

	needs   *step              // of a lookup: that of the table, which must be written before it
	bumped  int                // see bump
	filter  *repartitionFilter // of a step that ends in a repartition topic
	relaxed bool               // a left join that takes records with a null key

	changes effect                  // what it does to records, for mergeRepartitions
	again   func(below *step) *step // of a repartition topic that may be merged with others: makes the one that stands for all, below a step
	moved   map[string]string       // names of parents, as the step wrote them down, that mergeRepartitions has replaced
}

// repartitionFilter is the node before a repartition topic that drops records with a null key, unless a relaxed join somewhere below wants them (F-029).
type repartitionFilter struct{ keepNulls bool }

// spec is the payload of a node in the topology.Graph: how to make it and how to hang it below its parents. Types are erased here, once, and not per
// record.
type spec struct {
	make   func(t *task, n *nodeInfo) any
	attach func(parent, child any) bool // false: the types do not fit
	source *sourceInfo                  // of a source
	wrap   func(t *task, n *nodeInfo, node any, wrap func(string, ProcessFunc) ProcessFunc) any

	updates string // the read-only store that the node alone may change
}

// sourceInfo is what the runtime must know about a source before it has a task.
type sourceInfo struct {
	reset *Reset
}

// above is a handle's place in the graph: what every handle knows, whatever its types.
type above struct {
	b        *Builder
	step     *step
	name     string   // of the node below which an operator goes
	sources  []string // names of the source nodes that feed it, for co-partitioning
	rekeyed  bool     // the key may not fit the partition: stateful operators go through a repartition topic
	windowed bool     // keys are windowed
}

// call is one operator call under way: the builder, its name and line, and what its options say.
type call struct {
	b    *Builder
	name string
	at   string
	opts options
}

// operator begins a call. A name is taken from the counter even if one is given, so that later names do not shift (F-039).
func (b *Builder) operator(prefix string, o options) *call {
	c := &call{b: b, name: b.newName(prefix), at: b.line(), opts: o}
	if c.checkName(); c.opts.name != "" {
		c.name = c.opts.name
	}
	return c
}

// part names one of several nodes of an operator: after the operator if that was named. One is taken from the counter in both cases (F-039).
func (c *call) part(suffix, prefix string) string {
	generated := c.b.newName(prefix)
	if c.opts.name != "" {
		return c.opts.name + suffix
	}
	return generated
}

// checkName reports an illegal name, once: the operator goes on as one without a name.
func (c *call) checkName() {
	if c.opts.name == "" {
		return
	}
	if err := topology.CheckName(c.opts.name); err != nil {
		c.b.mistake(c.opts.name, c.at, badName(err))
		c.opts.name = ""
	}
}

// newName returns the next generated name (F-038).
func (b *Builder) newName(prefix string) string {
	n := fmt.Sprintf("%s%010d", prefix, b.counter)
	b.counter++
	return n
}

// newStoreName returns the next generated store name (F-040).
func (b *Builder) newStoreName(prefix string) string { return b.newName(prefix + "STATE-STORE-") }

// mistake notes a mistake, once: some are found by several of the things that an operator needs.
func (b *Builder) mistake(op, at string, err error) {
	e := &BuildError{Operator: op, At: at, Err: err}
	if !slices.ContainsFunc(b.errs, func(other error) bool { return other.Error() == e.Error() }) {
		b.errs = append(b.errs, e)
	}
}

func (c *call) mistake(err error) { c.b.mistake(c.name, c.at, err) }

// rename gives the mistakes since the first n the name of an operator that had none yet when they were found.
func (b *Builder) rename(n int, from, to string) {
	for _, err := range b.errs[n:] {
		if e, ok := errors.AsType[*BuildError](err); ok && e.Operator == from {
			e.Operator = to
		}
	}
}

// line is file:line of the user's call. The builder remembers the order of lines, which is that of the program.
func (b *Builder) line() string {
	at := caller()
	if _, ok := b.lines[at]; !ok {
		b.lines[at] = len(b.lines)
	}
	return at
}

// need reports a nil function.
func (c *call) need(f any) {
	if v := reflect.ValueOf(f); !v.IsValid() || v.Kind() == reflect.Func && v.IsNil() {
		c.mistake(ErrNilFunction)
	}
}

// same reports a handle of another builder.
func (c *call) same(other above) {
	if other.b != c.b {
		c.mistake(fmt.Errorf("%w: %s", ErrOtherBuilder, other.name))
	}
}

// caller is file:line of the user's call: the first frame outside this package.
func caller() string {
	var pcs [16]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs[:])])
	for {
		f, more := frames.Next()
		if !strings.HasPrefix(f.Function, thisPackage) || strings.HasSuffix(f.File, "_test.go") {
			file := f.File
			if i := strings.LastIndexByte(file, '/'); i >= 0 {
				if j := strings.LastIndexByte(file[:i], '/'); j >= 0 {
					file = file[j+1:]
				}
			}
			return file + ":" + strconv.Itoa(f.Line)
		}
		if !more {
			return ""
		}
	}
}

var thisPackage = reflect.TypeFor[Builder]().PkgPath() + "."

// add puts a step with one processor node below the given places.
func (c *call) add(write func(g *topology.Graph), parents ...*step) *step {
	s := &step{name: c.name, at: c.at, parents: parents, write: write}
	c.b.steps = append(c.b.steps, s)
	return s
}

// bump moves a step behind all that there are. Kafka Streams does it with the repartition topic of a grouping whenever another aggregation shares it, and as
// sub-topologies are numbered in the order in which nodes are written, it decides about task ids.
func (b *Builder) bump(s *step) { s.bumped = len(b.steps) }

// order is the order in which steps are written: that of the program, where nothing was bumped.
func (b *Builder) order() []*step {
	rest := slices.Clone(b.steps)
	if !slices.ContainsFunc(rest, func(s *step) bool { return s.bumped > 0 }) {
		return rest
	}
	place, waits := map[*step]float64{}, map[*step]bool{}
	for i, s := range rest {
		place[s], waits[s] = float64(i), true
		if s.bumped > 0 {
			place[s] = float64(s.bumped) - 0.5
		}
	}
	slices.SortStableFunc(rest, func(a, b *step) int { return cmp.Compare(place[a], place[b]) })
	var list []*step
	for len(rest) > 0 {
		i := slices.IndexFunc(rest, func(s *step) bool {
			return !waits[s.needs] && !slices.ContainsFunc(s.parents, func(p *step) bool { return waits[p] })
		})
		delete(waits, rest[i])
		list = append(list, rest[i])
		rest = slices.Delete(rest, i, i+1)
	}
	return list
}

// node writes a processor node. It is the common case of a step's write.
func (c *call) node(g *topology.Graph, s spec, stores []string, parents ...string) {
	c.nodeNamed(g, c.name, s, stores, parents...)
}

func (c *call) nodeNamed(g *topology.Graph, name string, s spec, stores []string, parents ...string) {
	// Each comes once, also where a stream is merged with itself, and those that another source stands for come last, in the order of the program: as in Kafka
	// Streams, whose order shows in Describe.
	var list []string
	add := func(name string) {
		if !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	for _, p := range parents {
		if c.b.resolve(p) == p { // neither merged nor moved
			add(p)
		}
	}
	for _, s := range c.b.streams {
		if main := c.b.source(s.name); main != s.name && slices.Contains(parents, s.name) {
			add(main)
		}
	}
	for _, p := range parents {
		if to := c.b.place(p); to != p {
			add(c.b.resolve(p))
		}
	}
	g.Add(topology.Node{Name: name, Kind: topology.Processor, At: c.at, Payload: s, Stores: slices.Clone(stores)}, list...)
}

// resolve is the node that a name stands for as parent of the step that is written.
func (b *Builder) resolve(name string) string {
	return b.source(b.place(name))
}

// source follows the names of sources that were merged into others.
func (b *Builder) source(name string) string {
	if to, ok := b.merged[name]; ok {
		return to
	}
	return name
}

// specOf makes the payload of a node that takes records of one type.
func specOf[K, V any](make func(t *task, n *nodeInfo) sink[K, V]) spec {
	return spec{
		make:   func(t *task, n *nodeInfo) any { return make(t, n) },
		attach: attach[K, V],
		wrap: func(t *task, n *nodeInfo, node any, wrap func(string, ProcessFunc) ProcessFunc) any {
			return wrapNode(base{t, n}, node.(sink[K, V]), wrap)
		},
	}
}

func attach[K, V any](parent, child any) bool {
	p, ok := parent.(parentOf[K, V])
	if ok {
		c, fits := child.(sink[K, V])
		if !fits {
			return false
		}
		p.attach(c)
	}
	return ok
}

// simple adds an operator with one node and no store below a handle.
func simple[K, V any](c *call, from above, make func(t *task, n *nodeInfo) sink[K, V]) above {
	s := c.add(func(g *topology.Graph) { c.node(g, specOf(make), nil, from.name) }, from.step)
	return above{b: c.b, step: s, name: c.name, sources: from.sources, rekeyed: from.rekeyed, windowed: from.windowed}
}

var generatedName = regexp.MustCompile(`^KSTREAM.*-[0-9]{10}$`)

// repartition adds a repartition topic below from and returns the place below its source (F-041).
func repartition[K, V any](c *call, from above, prefix string, key serde.Serde[K], value serde.Serde[V], r topology.Repartition, p func(Record[K, V], int) Placement) above {
	topic := prefix
	if !strings.HasSuffix(topic, "-repartition") {
		topic += "-repartition"
	}
	sinkName, filterName, sourceName := c.b.newName("KSTREAM-SINK-"), c.b.newName("KSTREAM-FILTER-"), c.b.newName("KSTREAM-SOURCE-")
	if !generatedName.MatchString(prefix) {
		sinkName, filterName, sourceName = topic+"-sink", topic+"-filter", topic+"-source"
	} else if c.b.opts.requireNames {
		c.mistake(fmt.Errorf("%w: repartition topic %s; name the grouping, join or repartition with streams.Named", ErrNameRequired, topic))
	}
	bad := topology.CheckName(topic)
	if bad != nil {
		c.mistake(badName(bad))
	}
	filter := &repartitionFilter{}
	s := &step{name: sourceName, at: c.at, parents: []*step{from.step}, filter: filter}
	s.write = func(g *topology.Graph) {
		if bad != nil {
			return
		}
		if other := g.Node(sourceName); other != nil {
			c.mistake(fmt.Errorf("%w: repartition topic %s is that of the operator at %s", ErrDuplicateName, topic, other.At))
			return
		}
		g.AddRepartition(topic, r)
		c.nodeNamed(g, filterName, specOf(func(t *task, n *nodeInfo) sink[K, V] {
			return &nullKeyFilter[K, V]{t: t, info: n, keep: filter.keepNulls}
		}), nil, from.name)
		out := sinkSpec(topic, true, key, value, p)
		g.Add(topology.Node{Name: sinkName, Kind: topology.Sink, Topic: topic, At: c.at, Payload: out}, filterName)
		in := sourceSpecOf(sourceSpec[K, V]{names: []string{topic}, key: key, value: value}, options{})
		g.Add(topology.Node{Name: sourceName, Kind: topology.Source, Topics: []string{topic}, At: c.at, Payload: in})
	}
	s.again = func(below *step) *step {
		return repartition(c, above{b: c.b, step: below, name: below.name}, topic, key, value, r, p).step
	}
	c.b.steps = append(c.b.steps, s)
	return above{b: c.b, step: s, name: sourceName, sources: []string{sourceName}, windowed: from.windowed}
}

// copartition joins the sources of several handles.
func copartition(handles ...above) []string {
	var all []string
	for _, h := range handles {
		for _, s := range h.sources {
			if !slices.Contains(all, s) {
				all = append(all, s)
			}
		}
	}
	return all
}

// copartitioned says that sources must have the same number of partitions.
func (c *call) copartitioned(g *topology.Graph, sources []string) {
	var resolved []string
	for _, name := range sources {
		resolved = append(resolved, c.b.source(name))
	}
	g.Copartition(resolved...)
}

// markFilters tells each repartition filter whether a relaxed join lies somewhere below it (F-029).
func (b *Builder) markFilters() {
	for _, s := range b.steps {
		if !s.relaxed {
			continue
		}
		seen := map[*step]bool{}
		var up func(s *step)
		up = func(s *step) {
			if s == nil || seen[s] {
				return
			}
			seen[s] = true
			if s.filter != nil {
				s.filter.keepNulls = true
			}
			for _, p := range s.parents {
				up(p)
			}
		}
		up(s)
	}
}

func badName(err error) error {
	return fmt.Errorf("%w: %s", ErrBadName, strings.TrimPrefix(err.Error(), topology.ErrBadName.Error()+": "))
}

// follows reports whether a mistake that package topology found can only be the consequence of another one.
func follows(err error) bool {
	return errors.Is(err, topology.ErrUnknownNode) || errors.Is(err, topology.ErrUnknownStore) || errors.Is(err, topology.ErrNoSource)
}

// translate turns a mistake that package topology found into ours.
func translate(err error) error {
	n, ok := errors.AsType[*topology.NodeError](err)
	if !ok {
		return err
	}
	e := &BuildError{Operator: n.Node, At: n.At, Err: n.Err}
	for _, c := range []struct{ theirs, ours error }{
		{topology.ErrDuplicateName, ErrDuplicateName}, {topology.ErrBadName, ErrBadName}, {topology.ErrTopicTaken, ErrTopicTaken},
		{topology.ErrCycle, ErrCycle}, {topology.ErrCopartition, ErrCopartition}, {topology.ErrStoreConflict, ErrStoreConflict},
	} {
		if errors.Is(n.Err, c.theirs) {
			e.Err = fmt.Errorf("%w%s", c.ours, strings.TrimPrefix(n.Err.Error(), c.theirs.Error()))
		}
	}
	return e
}
