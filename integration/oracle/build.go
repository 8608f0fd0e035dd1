package oracle

import (
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/streams/streamstest"
	"github.com/millrace/millrace/streams/window"
)

// builder makes the topology of a program through the public DSL.
type builder struct {
	*streams.Builder
	types  []Type
	at     int      // the operator at hand
	calls  []string // of peek and forEach
	stores []rows
}

// rows reads a store that a topology may have.
type rows struct {
	name     string
	windowed bool
	onClose  bool // it gives windows that have closed
	read     func(d *streamstest.Driver) []Row
}

// build makes the topology of a program.
func build(p *Program) (*builder, *streams.Topology, error) {
	types, err := p.Types()
	if err != nil {
		return nil, nil, err
	}
	opts := []streams.BuilderOption{streams.DefaultSerde(nullable)}
	if p.Reuse {
		opts = append(opts, streams.ReuseSourceTopics)
	}
	if p.Selves {
		opts = append(opts, streams.SingleStoreSelfJoin)
	}
	b := &builder{Builder: streams.NewBuilder(opts...), types: types}
	handles := make([]any, len(p.Ops))
	for i, o := range p.Ops {
		b.at = i
		var first, second any
		if len(o.In) > 0 {
			first = handles[o.In[0]]
		}
		if len(o.In) > 1 {
			second = handles[o.In[1]]
		}
		handles[i] = b.apply(o, types[i].V, first, second)
	}
	t, err := b.Build()
	if err != nil {
		return nil, nil, err
	}
	for i, h := range handles {
		if p.Ops[i].History > 0 {
			continue // a versioned store shows no rows
		}
		switch h := h.(type) {
		case *streams.Table[string, string]:
			b.keep(tableRows(h))
		case *streams.Table[string, int64]:
			b.keep(tableRows(h))
		case *streams.Table[string, *string]:
			b.keep(tableRows(h))
		}
	}
	return b, t, nil
}

// apply is one call. v is the type of the result's values.
func (b *builder) apply(o Op, v string, first, second any) any {
	switch h := first.(type) {
	case nil:
		return pick(v, onBuilder[string], onBuilder[int64], onBuilder[*string])(b, o)
	case *streams.Stream[string, string]:
		return onStream(b, o, h, second)
	case *streams.Stream[string, int64]:
		return onStream(b, o, h, second)
	case *streams.Stream[string, *string]:
		return onStream(b, o, h, second)
	case *streams.Branches[string, string]:
		return onBranches(o, h)
	case *streams.Branches[string, int64]:
		return onBranches(o, h)
	case *streams.Branches[string, *string]:
		return onBranches(o, h)
	case *streams.Table[string, string]:
		return onTable(o, h, second)
	case *streams.Table[string, int64]:
		return onTable(o, h, second)
	case *streams.Table[string, *string]:
		return onTable(o, h, second)
	case *streams.GroupedTable[string, string]:
		return onGroupedTable(o, h)
	case *streams.GroupedTable[string, int64]:
		return onGroupedTable(o, h)
	case *streams.GroupedTable[string, *string]:
		return onGroupedTable(o, h)
	case *streams.Grouped[string, string]:
		return onGrouped(o, h)
	case *streams.Grouped[string, int64]:
		return onGrouped(o, h)
	case *streams.Grouped[string, *string]:
		return onGrouped(o, h)
	case *streams.WindowedGrouped[string, string]:
		return onWindowedGrouped(b, o, h)
	case *streams.WindowedGrouped[string, int64]:
		return onWindowedGrouped(b, o, h)
	case *streams.WindowedGrouped[string, *string]:
		return onWindowedGrouped(b, o, h)
	case *streams.SessionGrouped[string, string]:
		return onSessionGrouped(b, o, h)
	case *streams.SessionGrouped[string, int64]:
		return onSessionGrouped(b, o, h)
	case *streams.SessionGrouped[string, *string]:
		return onSessionGrouped(b, o, h)
	case *streams.Cogrouped[string, string]:
		return onCogrouped(o, h, second)
	case *streams.Cogrouped[string, int64]:
		return onCogrouped(o, h, second)
	case *streams.Cogrouped[string, *string]:
		return onCogrouped(o, h, second)
	case *streams.WindowedCogrouped[string, string]:
		return onWindowedCogrouped(b, o, h)
	case *streams.WindowedCogrouped[string, int64]:
		return onWindowedCogrouped(b, o, h)
	case *streams.WindowedCogrouped[string, *string]:
		return onWindowedCogrouped(b, o, h)
	case *streams.SessionCogrouped[string, string]:
		return onSessionCogrouped(b, o, h)
	case *streams.SessionCogrouped[string, int64]:
		return onSessionCogrouped(b, o, h)
	case *streams.SessionCogrouped[string, *string]:
		return onSessionCogrouped(b, o, h)
	case *streams.WindowedTable[string, string]:
		return onWindowedTable(o, h)
	case *streams.WindowedTable[string, int64]:
		return onWindowedTable(o, h)
	case *streams.WindowedTable[string, *string]:
		return onWindowedTable(o, h)
	case *streams.WindowedStream[string, string]:
		return onWindowedStream(b, o, h, second)
	case *streams.WindowedStream[string, int64]:
		return onWindowedStream(b, o, h, second)
	case *streams.WindowedStream[string, *string]:
		return onWindowedStream(b, o, h, second)
	}
	panic(fmt.Sprintf("oracle: no operators of %T", first))
}

// pick chooses by a type of values.
func pick[T any](v string, s, l, p T) T {
	switch v {
	case Text:
		return s
	case Long:
		return l
	}
	return p
}

func onBuilder[V value](b *builder, o Op) any {
	switch o.Op {
	case "stream":
		t := topic[V](o.Topics[0])
		if len(o.Topics) > 1 {
			return b.Stream(t.And(o.Topics[1:]...), options[streams.SourceOption](o)...)
		}
		return b.Stream(t, options[streams.SourceOption](o)...)
	case "table":
		return b.Table(topic[V](o.Topics[0]), options[streams.TableOption](o)...)
	case "globalTable":
		t := b.GlobalTable(topic[V](o.Topics[0]), options[streams.TableOption](o)...)
		b.keep(storeRows(t.Store()))
		return t
	}
	panic(unknown(o))
}

func onStream[V value](b *builder, o Op, s *streams.Stream[string, V], second any) any {
	step, rekey := options[streams.StepOption](o), options[streams.RekeyOption](o)
	switch o.Op {
	case "filter":
		return s.Filter(Predicate[string, V](o.F, o.N), step...)
	case "filterNot":
		return s.FilterNot(Predicate[string, V](o.F, o.N), step...)
	case "filterRecords":
		return s.FilterRecords(Records[string, V](o.F), step...)
	case "dropNulls":
		return s.DropNulls(step...)
	case "selectKey":
		return s.SelectKey(KeyMaker[string, V](o.KF, o.KN), rekey...)
	case "mapRecords":
		return s.MapRecords(Nuller[string, V](o.F, o.N), rekey...)
	case "peek":
		return s.Peek(look[string, V](b), step...)
	case "forEach":
		s.ForEach(look[string, V](b), step...)
		return nil
	case "tryForEach":
		s.TryForEach(tryLook[string, V](b), step...)
		return nil
	case "merge":
		return s.Merge(second.(*streams.Stream[string, V]), step...)
	case "split":
		return s.Split(step...)
	case "repartition":
		return s.Repartition(streams.Unnamed, options[streams.RepartitionOption](o)...)
	case "to":
		s.To(topic[V](o.Topics[0]), options[streams.SinkOption](o)...)
		return nil
	case "route":
		s.Route(Router[string, V](o.F, o.N, o.Topics[0]), options[streams.SinkOption](o)...)
		return nil
	case "toTable":
		return s.ToTable(options[streams.TableOption](o)...)
	case "groupByKey":
		return s.GroupByKey(options[streams.GroupOption](o)...)
	case "groupBy":
		return s.GroupBy(KeyMaker[string, V](o.KF, o.KN), options[streams.GroupOption](o)...)
	}
	switch o.Op {
	case "process":
		return process(b, o, s)
	case "processValues":
		return processValues(b, o, s)
	}
	switch other := second.(type) {
	case *streams.Table[string, string]:
		return joinTable(o, s, other)
	case *streams.Table[string, int64]:
		return joinTable(o, s, other)
	case *streams.Table[string, *string]:
		return joinTable(o, s, other)
	case *streams.GlobalTable[string, string]:
		return joinGlobal(o, s, other)
	case *streams.GlobalTable[string, int64]:
		return joinGlobal(o, s, other)
	case *streams.GlobalTable[string, *string]:
		return joinGlobal(o, s, other)
	case *streams.Stream[string, string]:
		return joinStream(o, s, other)
	case *streams.Stream[string, int64]:
		return joinStream(o, s, other)
	case *streams.Stream[string, *string]:
		return joinStream(o, s, other)
	}
	return pick(o.V, mapStream[V, string], mapStream[V, int64], mapStream[V, *string])(o, s)
}

func mapStream[V, U value](o Op, s *streams.Stream[string, V]) any {
	step, rekey := options[streams.StepOption](o), options[streams.RekeyOption](o)
	switch o.Op {
	case "mapValues":
		return s.MapValues(Mapper[V, U](o.F, o.N), step...)
	case "mapValuesWithKey":
		return s.MapValuesWithKey(MapperWithKey[string, V, U](o.F, o.N), step...)
	case "tryMapValues":
		return s.TryMapValues(TryMapper[V, U](o.F, o.N), step...)
	case "flatMapValues":
		return s.FlatMapValues(Lister[V, U](o.F, o.N), step...)
	case "flatMapValuesSeq":
		return s.FlatMapValuesSeq(Sequence[V, U](o.F, o.N), step...)
	case "flatMapValuesWithKey":
		return s.FlatMapValuesWithKey(ListerWithKey[string, V, U](o.F, o.N), step...)
	case "map":
		return s.Map(Both[string, V, U](o.KF, o.KN, o.F, o.N), rekey...)
	case "tryMap":
		return s.TryMap(TryBoth[string, V, U](o.KF, o.KN, o.F, o.N), rekey...)
	case "flatMap":
		return s.FlatMap(Emitter[string, V, U](o.KF, o.KN, o.F, o.N), rekey...)
	}
	panic(unknown(o))
}

func joinTable[V, W value](o Op, s *streams.Stream[string, V], t *streams.Table[string, W]) any {
	opts := options[streams.LookupOption](o)
	switch o.Op {
	case "processTable":
		return processTable(o, s, t)
	case "joinTable":
		return s.JoinTable(t, Joiner[V, W](o.F, o.N), opts...)
	case "joinTableWithKey":
		return s.JoinTableWithKey(t, JoinerWithKey[V, W](o.F, o.N), opts...)
	case "leftJoinTable":
		return s.LeftJoinTable(t, LeftJoiner[V, W](o.F, o.N), opts...)
	case "leftJoinTableWithKey":
		return s.LeftJoinTableWithKey(t, LeftJoinerWithKey[V, W](o.F, o.N), opts...)
	}
	panic(unknown(o))
}

func joinGlobal[V, W value](o Op, s *streams.Stream[string, V], t *streams.GlobalTable[string, W]) any {
	step, by := options[streams.StepOption](o), KeyMaker[string, V](o.KF, o.KN)
	switch o.Op {
	case "joinGlobal":
		return s.JoinGlobal(t, by, Joiner[V, W](o.F, o.N), step...)
	case "joinGlobalWithKey":
		return s.JoinGlobalWithKey(t, by, JoinerWithKeys[V, W](o.F, o.N), step...)
	case "leftJoinGlobal":
		return s.LeftJoinGlobal(t, by, LeftJoiner[V, W](o.F, o.N), step...)
	case "leftJoinGlobalWithKey":
		return s.LeftJoinGlobalWithKey(t, by, LeftJoinerWithKeys[V, W](o.F, o.N), step...)
	}
	panic(unknown(o))
}

func joinStream[V, W value](o Op, s *streams.Stream[string, V], other *streams.Stream[string, W]) any {
	opts := options[streams.JoinOption](o)
	w := window.Within(0).Before(ms(o.Before)).After(ms(o.After)).Grace(ms(o.Grace))
	switch o.Op {
	case "join":
		return s.Join(other, Joiner[V, W](o.F, o.N), w, opts...)
	case "joinWithKey":
		return s.JoinWithKey(other, JoinerWithKey[V, W](o.F, o.N), w, opts...)
	case "leftJoin":
		return s.LeftJoin(other, LeftJoiner[V, W](o.F, o.N), w, opts...)
	case "leftJoinWithKey":
		return s.LeftJoinWithKey(other, LeftJoinerWithKey[V, W](o.F, o.N), w, opts...)
	case "outerJoin":
		return s.OuterJoin(other, OuterJoiner[V, W](o.F, o.N), w, opts...)
	case "outerJoinWithKey":
		return s.OuterJoinWithKey(other, OuterJoinerWithKey[V, W](o.F, o.N), w, opts...)
	}
	panic(unknown(o))
}

func onBranches[V value](o Op, s *streams.Branches[string, V]) any {
	step := options[streams.StepOption](o)
	switch o.Op {
	case "branch":
		return s.Branch(Predicate[string, V](o.F, o.N), step...)
	case "default":
		return s.Default(step...)
	}
	panic(unknown(o))
}

func onTable[V value](o Op, t *streams.Table[string, V], second any) any {
	opts := options[streams.TableOption](o)
	switch o.Op {
	case "table.filter":
		return t.Filter(Predicate[string, V](o.F, o.N), opts...)
	case "table.filterNot":
		return t.FilterNot(Predicate[string, V](o.F, o.N), opts...)
	case "toStream":
		return t.ToStream(options[streams.StepOption](o)...)
	case "table.suppress":
		return t.Suppress(o.limit(), options[streams.SuppressOption](o)...)
	}
	switch other := second.(type) {
	case *streams.Table[string, string]:
		return joinTables(o, t, other)
	case *streams.Table[string, int64]:
		return joinTables(o, t, other)
	case *streams.Table[string, *string]:
		return joinTables(o, t, other)
	}
	return pick(o.V, mapTable[V, string], mapTable[V, int64], mapTable[V, *string])(o, t)
}

func mapTable[V, U value](o Op, t *streams.Table[string, V]) any {
	opts := options[streams.TableOption](o)
	switch o.Op {
	case "table.mapValues":
		return t.MapValues(Mapper[V, U](o.F, o.N), opts...)
	case "table.mapValuesWithKey":
		return t.MapValuesWithKey(MapperWithKey[string, V, U](o.F, o.N), opts...)
	case "table.transformValues":
		return t.TransformValues(Transformer[V, U](o.F, o.N), nil, opts...)
	case "table.groupBy":
		return t.GroupBy(Both[string, V, U](o.KF, o.KN, o.F, o.N), options[streams.GroupOption](o)...)
	}
	panic(unknown(o))
}

func joinTables[V, W value](o Op, t *streams.Table[string, V], other *streams.Table[string, W]) any {
	opts, foreign := options[streams.TableOption](o), options[streams.ForeignKeyOption](o)
	switch o.Op {
	case "table.join":
		return t.Join(other, Joiner[V, W](o.F, o.N), opts...)
	case "table.leftJoin":
		return t.LeftJoin(other, LeftJoiner[V, W](o.F, o.N), opts...)
	case "table.outerJoin":
		return t.OuterJoin(other, OuterJoiner[V, W](o.F, o.N), opts...)
	case "table.joinForeign":
		return t.JoinForeign(other, ForeignKey[V](o.KF, o.KN), Joiner[V, W](o.F, o.N), foreign...)
	case "table.leftJoinForeign":
		return t.LeftJoinForeign(other, ForeignKey[V](o.KF, o.KN), LeftJoiner[V, W](o.F, o.N), foreign...)
	}
	panic(unknown(o))
}

func onGroupedTable[V value](o Op, g *streams.GroupedTable[string, V]) any {
	opts := options[streams.AggregateOption](o)
	switch o.Op {
	case "groupedTable.count":
		return g.Count(o.Store, opts...)
	case "groupedTable.reduce":
		return g.Reduce(o.Store, Reducer[V](o.F, o.N), Unreducer[V](o.F, o.N), opts...)
	case "groupedTable.aggregate":
		return pick(o.V, aggregateTable[V, string], aggregateTable[V, int64], aggregateTable[V, *string])(o, g)
	}
	panic(unknown(o))
}

func aggregateTable[V, A value](o Op, g *streams.GroupedTable[string, V]) any {
	return g.Aggregate(o.Store, Initial[A], Adder[V, A](o.F, o.N), Subtracter[V, A](o.F, o.N), options[streams.AggregateOption](o)...)
}

func onGrouped[V value](o Op, g *streams.Grouped[string, V]) any {
	opts := options[streams.AggregateOption](o)
	switch o.Op {
	case "count":
		return g.Count(o.Store, opts...)
	case "reduce":
		return g.Reduce(o.Store, Reducer[V](o.F, o.N), opts...)
	case "aggregate":
		return pick(o.V, aggregate[V, string], aggregate[V, int64], aggregate[V, *string])(o, g)
	case "cogroup":
		return pick(o.V, cogroup[V, string], cogroup[V, int64], cogroup[V, *string])(o, g)
	case "windowedBy":
		return g.WindowedBy(o.window())
	case "sessionsBy":
		return g.SessionsBy(window.Session(ms(o.Size)).Grace(ms(o.Grace)))
	}
	panic(unknown(o))
}

func aggregate[V, A value](o Op, g *streams.Grouped[string, V]) any {
	return g.Aggregate(o.Store, Initial[A], Adder[V, A](o.F, o.N), options[streams.AggregateOption](o)...)
}

func (o Op) window() window.Definition {
	switch o.F {
	case "sliding":
		return window.Sliding(ms(o.Size)).Grace(ms(o.Grace))
	case "custom":
		return window.Custom(Offset(ms(o.Size))).Grace(ms(o.Grace))
	case "unlimited":
		return window.Unlimited(time.UnixMilli(o.Advance))
	}
	return window.Hopping(ms(o.Size), ms(o.Advance)).Grace(ms(o.Grace))
}

func ms(n int64) time.Duration { return time.Duration(n) * time.Millisecond }

func onWindowedGrouped[V value](b *builder, o Op, g *streams.WindowedGrouped[string, V]) any {
	opts := options[streams.AggregateOption](o)
	switch o.Op {
	case "windowed.emit":
		return g.Emit(streams.OnWindowClose)
	case "windowed.count":
		return keepWindowed(b, g.Count(o.Store, opts...))
	case "windowed.reduce":
		return keepWindowed(b, g.Reduce(o.Store, Reducer[V](o.F, o.N), opts...))
	case "windowed.aggregate":
		return pick(o.V, aggregateWindows[V, string], aggregateWindows[V, int64], aggregateWindows[V, *string])(b, o, g)
	}
	panic(unknown(o))
}

func aggregateWindows[V, A value](b *builder, o Op, g *streams.WindowedGrouped[string, V]) any {
	return keepWindowed(b, g.Aggregate(o.Store, Initial[A], Adder[V, A](o.F, o.N), options[streams.AggregateOption](o)...))
}

func onSessionGrouped[V value](b *builder, o Op, g *streams.SessionGrouped[string, V]) any {
	opts := options[streams.AggregateOption](o)
	switch o.Op {
	case "session.emit":
		return g.Emit(streams.OnWindowClose)
	case "session.count":
		return keepSessions(b, g.Count(o.Store, opts...))
	case "session.reduce":
		return keepSessions(b, g.Reduce(o.Store, Reducer[V](o.F, o.N), opts...))
	case "session.aggregate":
		return pick(o.V, aggregateSessions[V, string], aggregateSessions[V, int64], aggregateSessions[V, *string])(b, o, g)
	}
	panic(unknown(o))
}

func aggregateSessions[V, A value](b *builder, o Op, g *streams.SessionGrouped[string, V]) any {
	return keepSessions(b, g.Aggregate(o.Store, Initial[A], Adder[V, A](o.F, o.N), Merger[A](o.F, o.N), options[streams.AggregateOption](o)...))
}

func cogroup[V, A value](o Op, g *streams.Grouped[string, V]) any {
	return g.Cogroup(Adder[V, A](o.F, o.N))
}

func onCogrouped[A value](o Op, g *streams.Cogrouped[string, A], second any) any {
	switch o.Op {
	case "cogroup.aggregate":
		return g.Aggregate(o.Store, Initial[A], options[streams.AggregateOption](o)...)
	case "cogroup.windowedBy":
		return g.WindowedBy(o.window())
	case "cogroup.sessionsBy":
		return g.SessionsBy(window.Session(ms(o.Size)).Grace(ms(o.Grace)))
	case "cogroup.add":
		switch other := second.(type) {
		case *streams.Grouped[string, string]:
			return g.Cogroup(other, Adder[string, A](o.F, o.N))
		case *streams.Grouped[string, int64]:
			return g.Cogroup(other, Adder[int64, A](o.F, o.N))
		case *streams.Grouped[string, *string]:
			return g.Cogroup(other, Adder[*string, A](o.F, o.N))
		}
	}
	panic(unknown(o))
}

func onWindowedCogrouped[A value](b *builder, o Op, g *streams.WindowedCogrouped[string, A]) any {
	return keepWindowed(b, g.Aggregate(o.Store, Initial[A], options[streams.AggregateOption](o)...))
}

func onSessionCogrouped[A value](b *builder, o Op, g *streams.SessionCogrouped[string, A]) any {
	return keepSessions(b, g.Aggregate(o.Store, Initial[A], Merger[A](o.F, o.N), options[streams.AggregateOption](o)...))
}

// limit is how long a suppression holds a row back, and how many.
func (o Op) limit() streams.TimeLimit {
	l := streams.UntilTimeLimit(ms(o.Size))
	switch o.F {
	case "few":
		return l.MaxRecords(int64(o.N)).EmitEarlyWhenFull()
	case "bytes":
		return l.MaxBytes(int64(60 * o.N)).EmitEarlyWhenFull()
	}
	return l
}

func onWindowedTable[V value](o Op, t *streams.WindowedTable[string, V]) any {
	step := options[streams.StepOption](o)
	switch o.Op {
	case "windowedTable.filter":
		return t.Filter(Predicate[window.Windowed[string], V](o.F, o.N), step...)
	case "windowedTable.filterNot":
		return t.FilterNot(Predicate[window.Windowed[string], V](o.F, o.N), step...)
	case "windowedTable.toStream":
		return t.ToStream(step...)
	case "windowedTable.suppress":
		if o.F == "close" {
			return t.Suppress(streams.UntilWindowCloses, options[streams.SuppressOption](o)...)
		}
		return t.Suppress(o.limit(), options[streams.SuppressOption](o)...)
	}
	return pick(o.V, mapWindowedTable[V, string], mapWindowedTable[V, int64], mapWindowedTable[V, *string])(o, t)
}

func mapWindowedTable[V, U value](o Op, t *streams.WindowedTable[string, V]) any {
	step := options[streams.StepOption](o)
	switch o.Op {
	case "windowedTable.mapValues":
		return t.MapValues(Mapper[V, U](o.F, o.N), step...)
	case "windowedTable.mapValuesWithKey":
		return t.MapValuesWithKey(MapperWithKey[window.Windowed[string], V, U](o.F, o.N), step...)
	}
	panic(unknown(o))
}

func onWindowedStream[V value](b *builder, o Op, s *streams.WindowedStream[string, V], second any) any {
	step, rekey := options[streams.StepOption](o), options[streams.RekeyOption](o)
	switch o.Op {
	case "windowedStream.filter":
		return s.Filter(Predicate[window.Windowed[string], V](o.F, o.N), step...)
	case "windowedStream.filterNot":
		return s.FilterNot(Predicate[window.Windowed[string], V](o.F, o.N), step...)
	case "windowedStream.filterRecords":
		return s.FilterRecords(Records[window.Windowed[string], V](o.F), step...)
	case "windowedStream.dropNulls":
		return s.DropNulls(step...)
	case "windowedStream.selectKey":
		return s.SelectKey(KeyMaker[window.Windowed[string], V](o.KF, o.KN), rekey...)
	case "windowedStream.mapRecords":
		return s.MapRecords(Nuller[window.Windowed[string], V](o.F, o.N), rekey...)
	case "windowedStream.groupBy":
		return s.GroupBy(KeyMaker[window.Windowed[string], V](o.KF, o.KN), options[streams.GroupOption](o)...)
	case "windowedStream.peek":
		return s.Peek(look[window.Windowed[string], V](b), step...)
	case "windowedStream.forEach":
		s.ForEach(look[window.Windowed[string], V](b), step...)
		return nil
	case "windowedStream.merge":
		return s.Merge(second.(*streams.WindowedStream[string, V]), step...)
	case "windowedStream.to":
		key := window.Serde(serde.String, time.Millisecond) // only a reader needs the size
		if b.types[o.In[0]].win == "session" {
			key = window.SessionSerde(serde.String)
		}
		s.To(streams.NewTopic(o.Topics[0], key, serdeOf[V]()), options[streams.SinkOption](o)...)
		return nil
	}
	return pick(o.V, mapWindowedStream[V, string], mapWindowedStream[V, int64], mapWindowedStream[V, *string])(o, s)
}

func mapWindowedStream[V, U value](o Op, s *streams.WindowedStream[string, V]) any {
	step, rekey := options[streams.StepOption](o), options[streams.RekeyOption](o)
	switch o.Op {
	case "windowedStream.mapValues":
		return s.MapValues(Mapper[V, U](o.F, o.N), step...)
	case "windowedStream.mapValuesWithKey":
		return s.MapValuesWithKey(MapperWithKey[window.Windowed[string], V, U](o.F, o.N), step...)
	case "windowedStream.tryMapValues":
		return s.TryMapValues(TryMapper[V, U](o.F, o.N), step...)
	case "windowedStream.flatMapValues":
		return s.FlatMapValues(Lister[V, U](o.F, o.N), step...)
	case "windowedStream.flatMapValuesSeq":
		return s.FlatMapValuesSeq(Sequence[V, U](o.F, o.N), step...)
	case "windowedStream.map":
		return s.Map(Both[window.Windowed[string], V, U](o.KF, o.KN, o.F, o.N), rekey...)
	case "windowedStream.flatMap":
		return s.FlatMap(Emitter[window.Windowed[string], V, U](o.KF, o.KN, o.F, o.N), rekey...)
	}
	panic(unknown(o))
}

func unknown(o Op) string { return "oracle: build.go has no operator " + o.Op }

func topic[V value](name string) streams.Topic[string, V] {
	return streams.NewTopic(name, serde.String, serdeOf[V]())
}

func serdeOf[V value]() serde.Serde[V] {
	for _, s := range []any{serde.String, serde.Int64, nullable} {
		if s, ok := s.(serde.Serde[V]); ok {
			return s
		}
	}
	panic("unreachable")
}

// options are those that a call has, of the operator's kind.
func options[O any](o Op) (list []O) {
	add := func(opt any) {
		if opt, ok := opt.(O); ok {
			list = append(list, opt)
		}
	}
	if o.Name != "" {
		add(streams.Named(o.Name))
	}
	if o.Store != "" && operators[o.Op].store == mayStore {
		add(streams.Materialized(o.Store))
	}
	if o.Store != "" && operators[o.Op].store == joinStore {
		add(streams.StoreName(o.Store))
	}
	if o.History > 0 {
		add(streams.Versioned(ms(o.History)))
	}
	if o.Retention > 0 {
		add(streams.Retention(ms(o.Retention)))
	}
	for _, k := range o.Knobs {
		switch k {
		case "memory":
			add(streams.InMemory)
		case "noCaching":
			add(streams.NoCaching)
		case "noLogging":
			add(streams.NoLogging)
		default:
			panic("oracle: no knob " + k)
		}
	}
	return list
}

// look notes the calls of peek and forEach.
func look[K keyType, V value](b *builder) func(K, V) {
	at := b.at
	return func(k K, v V) { b.calls = append(b.calls, fmt.Sprintf("%d %s=%s", at, text(k), text(v))) }
}

func tryLook[K keyType, V value](b *builder) func(K, V) error {
	f := look[K, V](b)
	return func(k K, v V) error { f(k, v); return nil }
}

// keep notes a store. Several handles may have the same.
func (b *builder) keep(r rows) {
	for _, s := range b.stores {
		if s.name == r.name {
			return
		}
	}
	b.stores = append(b.stores, r)
}

// tableRows reads the store of a table. It is asked for after Build, so that nothing is kept in a store only to be looked at.
func tableRows[V value](t *streams.Table[string, V]) rows { return storeRows(t.Store()) }

func storeRows[V value](h streams.KeyValueHandle[string, V]) rows {
	return rows{streams.StoreNameOf(h), false, false, func(d *streamstest.Driver) (all []Row) {
		s := d.StoreOf(h, 0)
		for k, v := range s.All() {
			r, _ := s.GetRecord(k)
			all = append(all, Row{Key: k, Value: text(v), Time: r.Timestamp.UnixMilli()})
		}
		return all
	}}
}

// keepWindowed notes the store of a windowed aggregation.
func keepWindowed[V value](b *builder, t *streams.WindowedTable[string, V]) any {
	h := t.WindowStore()
	b.keepRows(streams.StoreNameOf(h), func(d *streamstest.Driver) iter.Seq2[window.Windowed[string], any] {
		return untyped(d.StoreOf(h, 0).All())
	})
	return t
}

func keepSessions[V value](b *builder, t *streams.WindowedTable[string, V]) any {
	h := t.SessionStore()
	b.keepRows(streams.StoreNameOf(h), func(d *streamstest.Driver) iter.Seq2[window.Windowed[string], any] {
		return untyped(d.StoreOf(h, 0).All())
	})
	return t
}

func untyped[V any](rows iter.Seq2[window.Windowed[string], V]) iter.Seq2[window.Windowed[string], any] {
	return func(yield func(window.Windowed[string], any) bool) {
		for k, v := range rows {
			if !yield(k, v) {
				return
			}
		}
	}
}

func (b *builder) keepRows(name string, read func(d *streamstest.Driver) iter.Seq2[window.Windowed[string], any]) {
	b.keep(rows{name, true, b.types[b.at].onClose, func(d *streamstest.Driver) (all []Row) {
		for k, v := range read(d) {
			all = append(all, Row{Key: text(k), Value: text(v)})
		}
		slices.SortFunc(all, func(a, b Row) int { return strings.Compare(a.Key, b.Key) }) // the order depends on the kind of store
		return all
	}})
}
