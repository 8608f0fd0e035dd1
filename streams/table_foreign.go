package streams

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/topology"
)

// JoinForeign has a row for each row of t whose foreign key other has. fk returns false for a row that refers to nothing. A change on
// either side updates the result. The tables need not be partitioned alike: rows of t subscribe to those of other through one internal topic, and answers
// come back through a second one (KIP-213).
func (t *Table[K, V]) JoinForeign[KO, VO, R any](other *Table[KO, VO], fk func(key K, value V) (KO, bool), f func(value V, other VO) R, opts ...ForeignKeyOption) *Table[K, R] {
	return joinForeign(t, other, fk, f, false, func(v V, w VO, _ bool) R { return f(v, w) }, opts)
}

// LeftJoinForeign has a row for each row of t; ok is false where fk is, or where other has no such row.
func (t *Table[K, V]) LeftJoinForeign[KO, VO, R any](other *Table[KO, VO], fk func(key K, value V) (KO, bool), f func(value V, other VO, ok bool) R, opts ...ForeignKeyOption) *Table[K, R] {
	return joinForeign(t, other, fk, f, true, f, opts)
}

// ForeignKeyOnly is an option of foreign-key joins.
type ForeignKeyOnly struct{ set func(*options) }

func (f ForeignKeyOnly) foreign(o *options) { f.set(o) }

// TablePartitioners tells a foreign-key join how the topics of its two tables are partitioned, where that is not by the default (KIP-775). Types that differ
// from the tables' keys are a Build error.
func TablePartitioners[K, KO any](this func(key K, partitions int) int, other func(key KO, partitions int) int) ForeignKeyOnly {
	return ForeignKeyOnly{func(o *options) { o.thisPlace, o.otherPlace = this, other }}
}

// foreignNames are the names of a foreign-key join's topics, stores and nodes (F-043).
type foreignNames struct {
	request, send, requestSink, requestSource, store, receive, join, foreign string
	response, responseSink, responseSource, resolve                          string
}

func (c *call) foreignNames() (n foreignNames) {
	const request, response, subscription = "KTABLE-FK-JOIN-SUBSCRIPTION-REGISTRATION-", "KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-", "KTABLE-FK-JOIN-SUBSCRIPTION-PROCESSOR-"
	n.request = c.part("-subscription-registration", request) + "-topic"
	n.send = c.part("-subscription-registration-processor", request)
	n.requestSink = c.part("-subscription-registration-sink", "KTABLE-SINK-")
	n.requestSource = c.part("-subscription-registration-source", "KTABLE-SOURCE-")
	n.store = c.part("-subscription-store", "KTABLE-FK-JOIN-SUBSCRIPTION-STATE-STORE-")
	n.receive = c.part("-subscription-receive", subscription)
	n.join = c.part("-subscription-join-foreign", subscription)
	n.foreign = c.part("-foreign-join-subscription", subscription)
	n.response = c.part("-subscription-response", response) + "-topic"
	n.responseSink = c.part("-subscription-response-sink", "KTABLE-SINK-")
	n.responseSource = c.part("-subscription-response-source", "KTABLE-SOURCE-")
	n.resolve = c.part("-subscription-response-resolver", "KTABLE-FK-JOIN-SUBSCRIPTION-RESPONSE-RESOLVER-PROCESSOR-")
	return n
}

func joinForeign[K, V, KO, VO, R any](t *Table[K, V], other *Table[KO, VO], fk func(K, V) (KO, bool), given any, left bool, f func(V, VO, bool) R, opts []ForeignKeyOption) *Table[K, R] {
	c := &call{b: t.b, name: t.name, at: t.b.line(), opts: gather(opts, ForeignKeyOption.foreign)}
	if c.checkName(); c.opts.name != "" {
		c.name = c.opts.name
	}
	before, unnamed := len(c.b.errs), c.name
	c.need(fk)
	c.need(given)
	c.checkHistory()
	if other == nil {
		c.mistake(fmt.Errorf("%w: the other table is nil", ErrBadOption))
		c.foreignNames()
		c.b.rename(before, unnamed, c.part("-result", "KTABLE-FK-JOIN-OUTPUT-"))
		return &Table[K, R]{above: t.above, info: &tableInfo{}}
	}
	c.same(other.above)
	other.info.sendOld(true)
	t.info.sendOld(true)
	n := c.foreignNames()
	if c.opts.name == "" && c.b.opts.requireNames {
		c.mistake(fmt.Errorf("%w: topics %s and %s; name the join with streams.Named", ErrNameRequired, n.request, n.response))
	}
	other.view.need()
	t.view.need()
	c.name = c.part("-result", "KTABLE-FK-JOIN-OUTPUT-")
	c.b.rename(before, unnamed, c.name)
	j := &foreignJoin[K, V, KO, VO]{
		names: n, left: left, fk: fk, versioned: t.info.versioned, otherVersioned: other.info.versioned,
		key: serdeFor(c.b, c.name, c.at, true, nil, t.serdes.key), value: serdeFor(c.b, c.name, c.at, false, nil, t.serdes.value),
		otherKey: serdeFor(c.b, c.name, c.at, true, nil, other.serdes.key), otherValue: serdeFor(c.b, c.name, c.at, false, nil, other.serdes.value),
		thisPlace: placeOf[K](c, c.opts.thisPlace), otherPlace: placeOf[KO](c, c.opts.otherPlace),
	}
	subscriptions := topology.Store{Name: n.store, Kind: topology.KeyValueStore, Timestamped: true, Logging: true, Headers: true}
	if topology.CheckName(n.store) == nil {
		c.ownHidden(subscriptions, true)
	}
	result := tableStore(c.opts)
	if !c.opts.hasStore {
		result.Name = c.b.newStoreName("KTABLE-FK-JOIN-OUTPUT-")
	}
	info := newTableInfo(c, result, c.opts.hasStore)
	sd := serdes[K, R]{key: j.key, value: givenSerde[R](c, false)}
	if sd.value == nil {
		sd.value = defaultSerde[R](c.b)
	}
	if info.keep {
		c.own(result, shapeOf[K, R](rowsByKey))
	}
	// Three steps, as each may be written at another time if a topic above is bumped.
	ask := c.add(func(g *topology.Graph) { j.writeRequests(g, c, subscriptions, t.above, other.above, other.view) }, t.step)
	ask.needs = other.step
	listen := c.add(func(g *topology.Graph) { j.writeForeign(g, c, subscriptions, other.above) }, other.step)
	st := c.add(func(g *topology.Graph) {
		if info.keep { // perhaps only since somebody below needs it
			sd.value = serdeFor(c.b, c.name, c.at, false, nil, sd.value)
		}
		j.writeResponses(g, c, t.above)
		c.nodeNamed(g, n.resolve, specOf(func(tk *task, info *nodeInfo) sink[K, answer[VO]] {
			return &resolveForeign[K, V, VO, R]{base: base{tk, info}, row: t.view.make(tk), hash: j.hasher(tk), left: left, f: f, null: isNull[R]()}
		}), t.view.stores(), n.responseSource)
		var stores []string
		if info.keep {
			stores = []string{result.Name}
			c.addStore(g, result, c.opts.hasStore)
		}
		c.node(g, specOf(func(tk *task, n *nodeInfo) sink[K, R] { return newTableSource(tk, n, info, sd.key, sd.value) }), stores, n.resolve)
	}, ask, listen)
	sources := append(slices.Clone(t.sources), n.responseSource)
	return &Table[K, R]{above{b: t.b, step: st, name: c.name, sources: sources}, sd, info, storeView(info, sd.key, sd.value)}
}

// placeOf is a partitioner that [TablePartitioners] names.
func placeOf[K any](c *call, given any) func(K, int) int {
	if given == nil {
		return nil
	}
	f, ok := given.(func(K, int) int)
	if !ok {
		c.mistake(fmt.Errorf("%w: TablePartitioners has %T, where the table's key is %v", ErrBadOption, given, reflect.TypeFor[K]()))
	}
	return f
}

// foreignJoin is what the nodes of a foreign-key join have in common. The result's type is not among it.
type foreignJoin[K, V, KO, VO any] struct {
	names foreignNames
	left  bool
	fk    func(K, V) (KO, bool)

	versioned, otherVersioned bool // the tables
	key                       serde.Serde[K]
	value                     serde.Serde[V]
	otherKey                  serde.Serde[KO]
	otherValue                serde.Serde[VO]
	thisPlace                 func(K, int) int
	otherPlace                func(KO, int) int
}

// pseudo is the topic that the serdes of a foreign-key join are told, which does not exist (F-035).
func (j *foreignJoin[K, V, KO, VO]) pseudo(t *task, suffix string, key bool) serde.Place {
	if t.cfg == nil {
		return serde.Place{}
	}
	return serde.Place{Topic: t.cfg.naming.ApplicationID + "-" + j.names.request + suffix, Key: key}
}

func (j *foreignJoin[K, V, KO, VO]) primaryKey(t *task) placedSerde[K] {
	return placedSerde[K]{j.key, j.pseudo(t, "-pk", true)}
}

func (j *foreignJoin[K, V, KO, VO]) foreignKey(t *task) placedSerde[KO] {
	return placedSerde[KO]{j.otherKey, j.pseudo(t, "-fk", true)}
}

func (j *foreignJoin[K, V, KO, VO]) hasher(t *task) *hasher[V] {
	return &hasher[V]{serde: placedSerde[V]{j.value, j.pseudo(t, "-vh", false)}}
}

// addStore adds the store of subscriptions for whoever comes first.
func (j *foreignJoin[K, V, KO, VO]) addStore(g *topology.Graph, c *call, subscriptions topology.Store) {
	if topology.CheckName(subscriptions.Name) == nil && !g.HasStore(subscriptions.Name) {
		g.AddStore(subscriptions, c.at)
	}
}

// writeRequests adds the nodes that send subscriptions to the other table and answer them.
func (j *foreignJoin[K, V, KO, VO]) writeRequests(g *topology.Graph, c *call, subscriptions topology.Store, this, other above, otherRows tableView[KO, VO]) {
	n := &j.names
	g.AddRepartition(n.request, topology.Repartition{})
	c.nodeNamed(g, n.send, specOf(func(t *task, info *nodeInfo) sink[K, change[V]] {
		return &subscribe[K, V, KO]{base: base{t, info}, fk: j.fk, left: j.left, versioned: j.versioned, foreignKey: j.foreignKey(t), hash: j.hasher(t)}
	}), nil, this.name)
	g.Add(topology.Node{Name: n.requestSink, Kind: topology.Sink, Topic: n.request, At: c.at, Payload: specOf(func(t *task, info *nodeInfo) sink[KO, subscription[K]] {
		var place func(Record[KO, subscription[K]], int) Placement
		if f := j.otherPlace; f != nil {
			place = func(r Record[KO, subscription[K]], partitions int) Placement {
				if r.NullKey {
					return DefaultPartition
				}
				return Partition(f(r.Key, partitions))
			}
		}
		return newInternalSink(t, info, n.request, j.otherKey, subscriptionSerde[K]{j.primaryKey(t)}, place)
	})}, n.send)
	g.Add(topology.Node{Name: n.requestSource, Kind: topology.Source, Topics: []string{n.request}, At: c.at, Payload: spec{
		make: func(t *task, info *nodeInfo) any {
			return newSource(t, info, sourceSpec[KO, subscription[K]]{key: j.otherKey, value: subscriptionSerde[K]{j.primaryKey(t)}}, options{})
		},
		source: &sourceInfo{},
	}})
	c.copartitioned(g, append(slices.Clone(other.sources), n.requestSource))
	j.addStore(g, c, subscriptions)
	c.nodeNamed(g, n.receive, specOf(func(t *task, info *nodeInfo) sink[KO, subscription[K]] {
		return &receiveSubscription[K, KO]{base: base{t, info}, rows: openSubscriptions(t, subscriptions, j)}
	}), []string{subscriptions.Name}, n.requestSource)
	c.nodeNamed(g, n.join, specOf(func(t *task, info *nodeInfo) sink[KO, subscription[K]] {
		return &answerSubscription[K, KO, VO]{base: base{t, info}, row: otherRows.make(t)}
	}), otherRows.stores(), n.receive)
}

// writeForeign adds the node that tells subscribers of changes of the other table.
func (j *foreignJoin[K, V, KO, VO]) writeForeign(g *topology.Graph, c *call, subscriptions topology.Store, other above) {
	n := &j.names
	j.addStore(g, c, subscriptions)
	c.nodeNamed(g, n.foreign, specOf(func(t *task, info *nodeInfo) sink[KO, change[VO]] {
		return &answerAll[K, KO, VO]{base: base{t, info}, rows: openSubscriptions(t, subscriptions, j), versioned: j.otherVersioned}
	}), []string{subscriptions.Name}, other.name)
}

// writeResponses adds the topic of the answers.
func (j *foreignJoin[K, V, KO, VO]) writeResponses(g *topology.Graph, c *call, this above) {
	n := &j.names
	g.AddRepartition(n.response, topology.Repartition{})
	g.Add(topology.Node{Name: n.responseSink, Kind: topology.Sink, Topic: n.response, At: c.at, Payload: specOf(func(t *task, info *nodeInfo) sink[K, answer[VO]] {
		return newInternalSink(t, info, n.response, j.key, answerSerde[VO]{j.otherValue}, func(r Record[K, answer[VO]], partitions int) Placement {
			switch {
			case j.thisPlace != nil:
				return Partition(j.thisPlace(r.Key, partitions))
			case r.Value.partition >= 0:
				return Partition(int(r.Value.partition))
			}
			return DefaultPartition
		})
	})}, n.join, n.foreign)
	answers := sourceSpec[K, answer[VO]]{names: []string{n.response}, key: j.key, value: answerSerde[VO]{j.otherValue}}
	g.Add(topology.Node{Name: n.responseSource, Kind: topology.Source, Topics: []string{n.response}, At: c.at, Payload: sourceSpecOf(answers, options{})})
	c.copartitioned(g, append(slices.Clone(this.sources), n.responseSource))
}
