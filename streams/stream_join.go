package streams

import (
	"fmt"
	"time"

	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/streams/window"
	"github.com/millrace/millrace/topology"
)

// JoinWindows is [window.JoinWindows].
type JoinWindows = window.JoinWindows

// Join pairs the records of two streams that have one key and lie within w of each other. The result has the later time of the two.
// Records with a null key or value take no part (F-096).
func (s *Stream[K, V]) Join[W, R any](other *Stream[K, W], f func(value V, other W) R, w JoinWindows, opts ...JoinOption) *Stream[K, R] {
	return joinStreams(s, other, f, joinInner, func(_ K, v V, _ bool, w W, _ bool) R { return f(v, w) }, w, opts)
}

// LeftJoin also gives the records of s that found no partner, with ok false, once w and its grace have passed: when a later record of either stream
// comes, and at most once per second of wall-clock time (F-097, F-098). A record with a null key is given at once.
func (s *Stream[K, V]) LeftJoin[W, R any](other *Stream[K, W], f func(value V, other W, ok bool) R, w JoinWindows, opts ...JoinOption) *Stream[K, R] {
	return joinStreams(s, other, f, joinLeft, func(_ K, v V, _ bool, w W, ok bool) R { return f(v, w, ok) }, w, opts)
}

// OuterJoin also gives the records of either side that found no partner, see [Stream.LeftJoin]. At least one of valueOK and otherOK is true.
func (s *Stream[K, V]) OuterJoin[W, R any](other *Stream[K, W], f func(value V, valueOK bool, other W, otherOK bool) R, w JoinWindows, opts ...JoinOption) *Stream[K, R] {
	return joinStreams(s, other, f, joinOuter, func(_ K, v V, vok bool, w W, wok bool) R { return f(v, vok, w, wok) }, w, opts)
}

// JoinWithKey is Join for an f that reads the key.
func (s *Stream[K, V]) JoinWithKey[W, R any](other *Stream[K, W], f func(key K, value V, other W) R, w JoinWindows, opts ...JoinOption) *Stream[K, R] {
	return joinStreams(s, other, f, joinInner, func(k K, v V, _ bool, w W, _ bool) R { return f(k, v, w) }, w, opts)
}

// LeftJoinWithKey is LeftJoin for an f that reads the key.
func (s *Stream[K, V]) LeftJoinWithKey[W, R any](other *Stream[K, W], f func(key K, value V, other W, ok bool) R, w JoinWindows, opts ...JoinOption) *Stream[K, R] {
	return joinStreams(s, other, f, joinLeft, func(k K, v V, _ bool, w W, ok bool) R { return f(k, v, w, ok) }, w, opts)
}

// OuterJoinWithKey is OuterJoin for an f that reads the key.
func (s *Stream[K, V]) OuterJoinWithKey[W, R any](other *Stream[K, W], f func(key K, value V, valueOK bool, other W, otherOK bool) R, w JoinWindows, opts ...JoinOption) *Stream[K, R] {
	return joinStreams(s, other, f, joinOuter, f, w, opts)
}

// joinStreams adds the five nodes of a join: for each side one that keeps its records and one that looks the other side up, and one that merges.
func joinStreams[K, V, W, R any](s *Stream[K, V], other *Stream[K, W], given any, kind joinKind, f joiner[K, V, W, R], windows JoinWindows, opts []JoinOption) *Stream[K, R] {
	c := &call{b: s.b, name: s.name, at: s.b.line(), opts: gather(opts, JoinOption.join)}
	if c.checkName(); c.opts.name != "" {
		c.name = c.opts.name
	}
	before, unnamed := len(c.b.errs), c.name
	c.need(given)
	if other == nil {
		c.mistake(fmt.Errorf("%w: the other stream is nil", ErrBadOption))
		c.b.rename(before, unnamed, c.joinNames(kind).merge)
		return &Stream[K, R]{above: s.above}
	}
	c.same(other.above)
	w, err := windows.Spec()
	if err != nil {
		c.mistake(fmt.Errorf("%w: %w", ErrBadWindow, err))
	}
	key := serdeFor(c.b, c.name, c.at, true, c.opts.serdes, s.serdes.key)
	left := serdeFor(c.b, c.name, c.at, false, c.opts.serdes, s.serdes.value)
	right := serdeFor(c.b, c.name, c.at, false, otherSerdes(c.opts.serdes), other.serdes.value)
	from, with := s.above, other.above
	if from.rekeyed {
		from = c.throughJoinTopic(from, c.orName("-left", from.name), key, left)
	}
	if with.rekeyed {
		with = c.throughJoinTopic(with, c.orName("-right", with.name), key, right)
	}
	n := c.joinNames(kind)
	c.b.rename(before, unnamed, n.merge)
	c.name = n.merge
	this := c.joinStore(n.store(n.thisStore), w)
	that := c.joinStore(n.store(n.otherStore), w)
	parked := topology.Store{Name: n.store(n.parked), Kind: topology.KeyValueStore, Logging: true, Headers: true}
	c.opts.applyStore(&parked)
	stores := []topology.Store{this, that, parked}
	if kind == joinInner {
		stores = stores[:2]
	}
	for i, st := range stores {
		c.ownHidden(st, i == 0) // the names of the others have the same ending
	}
	sources := copartition(from, with)
	st := c.add(func(g *topology.Graph) {
		// Where a record is not in its own window, Kafka Streams pairs it with itself all the same; we leave such a join as it is.
		itself := w.Before >= 0 && w.After >= 0
		if f, ok := any(f).(joiner[K, V, V, R]); ok && c.b.opts.selfJoins && itself && c.b.resolve(from.name) == c.b.resolve(with.name) {
			c.selfJoin(g, n, w, this, key, left, f, from)
			c.copartitioned(g, sources)
			return
		}
		for _, st := range stores {
			c.addStore(g, st, c.opts.joinStores != "")
		}
		c.nodeNamed(g, n.thisWindowed, specOf(func(t *task, n *nodeInfo) sink[K, V] { return newJoinWindow(base{t, n}, this, key, left) }), []string{this.Name}, from.name)
		c.nodeNamed(g, n.otherWindowed, specOf(func(t *task, n *nodeInfo) sink[K, W] { return newJoinWindow(base{t, n}, that, key, right) }), []string{that.Name}, with.name)
		uses, usesOther := []string{that.Name}, []string{this.Name}
		if kind != joinInner {
			uses, usesOther = append(uses, parked.Name), append(usesOther, parked.Name)
		}
		open := func(t *task) *parkedRecords[K, V, W] {
			if kind == joinInner {
				return nil
			}
			return openParked(t, parked, key, left, right)
		}
		c.nodeNamed(g, n.this, specOf(func(t *task, n *nodeInfo) sink[K, V] {
			return newStreamJoin(base{t, n}, w, kind != joinInner, openWindow(t, that, key, right), leftSide(open(t), w, f), f)
		}), uses, n.thisWindowed)
		c.nodeNamed(g, n.other, specOf(func(t *task, n *nodeInfo) sink[K, W] {
			swapped := window.JoinSpec{Before: w.After, After: w.Before, Grace: w.Grace}
			return newStreamJoin(base{t, n}, swapped, kind == joinOuter, openWindow(t, this, key, left), rightSide(open(t), w, f), f.reversed())
		}), usesOther, n.otherWindowed)
		c.nodeNamed(g, n.merge, specOf(func(*task, *nodeInfo) sink[K, R] { return &pass[K, R]{} }), nil, n.this, n.other)
		c.copartitioned(g, sources)
	}, from.step, with.step)
	st.name, st.relaxed = n.merge, kind != joinInner
	return &Stream[K, R]{above{b: s.b, step: st, name: n.merge, sources: sources}, serdes[K, R]{key: key}}
}

// selfJoin writes the two nodes of the join of a stream with itself in place of the five of others.
func (c *call) selfJoin[K, V, R any](g *topology.Graph, n joinNames, w window.JoinSpec, store topology.Store, key serde.Serde[K], value serde.Serde[V], f joiner[K, V, V, R], from above) {
	c.addStore(g, store, c.opts.joinStores != "")
	c.nodeNamed(g, n.thisWindowed, specOf(func(t *task, n *nodeInfo) sink[K, V] { return newJoinWindow(base{t, n}, store, key, value) }), []string{store.Name}, from.name)
	c.nodeNamed(g, n.merge, specOf(func(t *task, n *nodeInfo) sink[K, V] {
		return newSelfJoin(base{t, n}, w, openWindow(t, store, key, value), f)
	}), []string{store.Name}, n.thisWindowed)
}

// joinNames are the names of a stream-stream join's nodes, and of its stores without their ending.
type joinNames struct {
	thisWindowed, otherWindowed, this, other, merge string
	thisStore, otherStore, parked                   string
}

func (joinNames) store(base string) string { return base + "-store" }

// joinNames takes the names of a join from the counter. Stores have generated names even if the operator has a name of its own; [StoreName] is what
// names them.
func (c *call) joinNames(kind joinKind) (n joinNames) {
	thisSuffix, otherSuffix := "-this-join", "-other-join"
	thisPrefix, otherPrefix, parked := "KSTREAM-JOINTHIS-", "KSTREAM-JOINOTHER-", "-left-shared-join"
	if kind != joinInner {
		otherSuffix, otherPrefix = "-outer-other-join", "KSTREAM-OUTEROTHER-"
	}
	if kind == joinOuter {
		thisSuffix, thisPrefix, parked = "-outer-this-join", "KSTREAM-OUTERTHIS-", "-outer-shared-join"
	}
	n.thisWindowed, n.otherWindowed = c.part("-this-windowed", "KSTREAM-WINDOWED-"), c.part("-other-windowed", "KSTREAM-WINDOWED-")
	n.thisStore, n.otherStore = c.b.newName(thisPrefix), c.b.newName(otherPrefix)
	n.this, n.other = c.orName(thisSuffix, n.thisStore), c.orName(otherSuffix, n.otherStore)
	n.parked = "KSTREAM-OUTERSHARED-" + n.thisStore[len(thisPrefix):]
	n.merge = c.part("-merge", "KSTREAM-MERGE-")
	if name := c.opts.joinStores; name != "" {
		n.thisStore, n.otherStore, n.parked = name+thisSuffix, name+otherSuffix, name+parked
	}
	return n
}

// joinStore is the store of one side of a join: every record, for as long as it can find a partner (F-103).
func (c *call) joinStore(name string, w window.JoinSpec) topology.Store {
	s := topology.Store{
		Name: name, Kind: topology.WindowStore, Logging: true, Headers: true, Duplicates: true,
		WindowSize: time.Duration(w.Size()) * time.Millisecond, Retention: time.Duration(w.Size()+w.Grace) * time.Millisecond,
	}
	c.opts.applyStore(&s)
	if c.opts.retention != nil {
		c.mistake(fmt.Errorf("%w: the stores of a join keep records for the window and its grace; there is no other retention", ErrBadOption))
	}
	s.Caching = false
	return s
}

// ownHidden notes a store which nobody else can open, as its values have a form of their own. With check an illegal name is reported.
func (c *call) ownHidden(s topology.Store, check bool) {
	if d := c.b.stores[s.Name]; d != nil {
		c.mistake(fmt.Errorf("%w: store %q is that of the operator at %s", ErrDuplicateName, s.Name, d.at))
		return
	}
	if err := topology.CheckName(s.Name); err != nil {
		if check {
			c.mistake(fmt.Errorf("store: %w", badName(err)))
		}
		return
	}
	c.b.stores[s.Name] = &declaredStore{store: s, as: s, at: c.at, owned: true}
}

// orName is the name of a node that shares its generated name with something else.
func (c *call) orName(suffix, generated string) string {
	if c.opts.name != "" {
		return c.opts.name + suffix
	}
	return generated
}

// throughJoinTopic makes the repartition topic of a join. Joins of one stream share it unless they are named (F-028); the names are taken from the counter
// in any case.
func (c *call) throughJoinTopic[K, V any](from above, prefix string, key serde.Serde[K], value serde.Serde[V]) above {
	if shared, ok := c.b.joined[from.name]; ok && prefix == from.name {
		for range 3 {
			c.b.newName("")
		}
		return shared
	}
	a := repartition(c, from, prefix, key, value, topology.Repartition{}, nil)
	c.b.joined[from.name] = a
	return a
}

// otherSerdes are the serdes that the options give for the other side of a join, as if they were for this one.
func otherSerdes(given []SerdeOption) (other []SerdeOption) {
	for _, g := range given {
		if g.other {
			g.other = false
			other = append(other, g)
		}
	}
	return other
}
