package oracle

import (
	"slices"
	"strings"
)

// rule says where the type of a result's values comes from.
type rule int

const (
	sameV  rule = iota // of the first handle
	longV              // [Long]
	freeV              // Op.V
	topicV             // of the topic that is read
)

// family is a set of functions; see functions.go.
type family []string

var (
	predicates = family{"hash", "hash", "hash", "even", "short", "all", "none"}
	records    = family{"value", "key", "both", "either"}
	mappers    = family{"same", "upper", "append", "head", "len", "plus", "half"}
	lists      = family{"each", "twice", "some"}
	keys       = family{"first", "first", "same", "both", "mod", "mod", "const"}
	windows    = family{"fixed", "fixed", "fixed", "sliding", "sliding", "custom", "unlimited"}
	holds      = family{"limit", "limit", "few", "bytes"}
	closings   = family{"close", "close", "close", "limit", "few", "bytes"}
	nulls      = family{"key", "value", "both"}
	joiners    = family{"concat", "concat", "plus", "left", "right", "half"}
	procs      = family{"stamp", "last", "count", "tick"}
	fixedProcs = family{"stamp", "last", "count"}
	adders     = family{"concat", "concat", "plus", "last", "half"}
	keyAdders  = family{"concat", "concat", "plus", "last", "keyed", "half"}
)

// store says how an operator is kept.
type store int

const (
	noStore    store = iota
	mayStore         // only if Op.Store names it
	joinStore        // two or three, which Op.Store may name
	heldStore        // a buffer
	ownStore         // that of a processor, which others may have as well
	needsStore       // always; Op.Store may name it
)

// operator describes an operator of the DSL: its types, which fields of an [Op] it reads, and how a program has it.
type operator struct {
	in  []Kind
	out Kind
	v   rule

	f       family // of Op.F and Op.N
	kf      bool   // it has Op.KF and Op.KN
	store   store
	windows bool // it has Op.Size, Op.Advance and Op.Grace
	waits   bool // it has Op.Size
	joins   bool // it has Op.Before, Op.After and Op.Grace
	serdes  bool // Java must know the serdes of both tables
	reads   bool // topics
	writes  bool // a topic

	// What a program in Go or Java says. $0 and $1 are the handles; $A, $B and $V the types of the values of $0, of $1, and of the result; $K that of the keys
	// of $0; $f and $k the functions; $s the store, $t the topic, $w the window, $h how long rows are held, $i the operator's place. In Go $o are the options. In Java $n is the name and
	// $m how it is materialised; what takes two of them is called with both, like the twins of the DSL's methods in Build.java.
	golang, java string
}

func unary(in, out Kind, o operator) *operator {
	o.in, o.out = []Kind{in}, out
	return &o
}

func pair(a, b, out Kind, o operator) *operator {
	o.in, o.out = []Kind{a, b}, out
	return &o
}

// operators are all that the oracle knows.
var operators = map[string]*operator{
	"stream": {out: Stream, v: topicV, reads: true, golang: `b.Stream($t$o)`, java: `stream($t, $n)`},
	"table":  {out: Table, v: topicV, reads: true, store: mayStore, golang: `b.Table($t$o)`, java: `table($t, $n, $m)`},

	"filter":               unary(Stream, Stream, operator{f: predicates, golang: `$0.Filter(Predicate[$K, $A]($f)$o)`, java: `$0.filter(predicate($f, $A), $n)`}),
	"filterNot":            unary(Stream, Stream, operator{f: predicates, golang: `$0.FilterNot(Predicate[$K, $A]($f)$o)`, java: `$0.filterNot(predicate($f, $A), $n)`}),
	"filterRecords":        unary(Stream, Stream, operator{f: records, golang: `$0.FilterRecords(Records[$K, $A]($f)$o)`, java: `$0.filter(records($f), $n)`}),
	"dropNulls":            unary(Stream, Stream, operator{golang: `$0.DropNulls($o)`, java: `$0.filter(records("value"), $n)`}),
	"mapValues":            unary(Stream, Stream, operator{v: freeV, f: mappers, golang: `$0.MapValues(Mapper[$A, $V]($f)$o)`, java: `$0.mapValues(mapper($f, $A, $V), $n)`}),
	"mapValuesWithKey":     unary(Stream, Stream, operator{v: freeV, f: mappers, golang: `$0.MapValuesWithKey(MapperWithKey[$K, $A, $V]($f)$o)`, java: `$0.mapValues(mapperWithKey($f, $A, $V), $n)`}),
	"tryMapValues":         unary(Stream, Stream, operator{v: freeV, f: mappers, golang: `$0.TryMapValues(TryMapper[$A, $V]($f)$o)`, java: `$0.mapValues(mapper($f, $A, $V), $n)`}),
	"flatMapValues":        unary(Stream, Stream, operator{v: freeV, f: lists, golang: `$0.FlatMapValues(Lister[$A, $V]($f)$o)`, java: `$0.flatMapValues(lister($f, $A, $V), $n)`}),
	"flatMapValuesSeq":     unary(Stream, Stream, operator{v: freeV, f: lists, golang: `$0.FlatMapValuesSeq(Sequence[$A, $V]($f)$o)`, java: `$0.flatMapValues(lister($f, $A, $V), $n)`}),
	"flatMapValuesWithKey": unary(Stream, Stream, operator{v: freeV, f: lists, golang: `$0.FlatMapValuesWithKey(ListerWithKey[$K, $A, $V]($f)$o)`, java: `$0.flatMapValues(listerWithKey($f, $A, $V), $n)`}),
	"map":                  unary(Stream, Stream, operator{v: freeV, f: mappers, kf: true, golang: `$0.Map(Both[$K, $A, $V]($k, $f)$o)`, java: `$0.map(both($k, $f, $A, $V), $n)`}),
	"tryMap":               unary(Stream, Stream, operator{v: freeV, f: mappers, kf: true, golang: `$0.TryMap(TryBoth[$K, $A, $V]($k, $f)$o)`, java: `$0.map(both($k, $f, $A, $V), $n)`}),
	"flatMap":              unary(Stream, Stream, operator{v: freeV, f: lists, kf: true, golang: `$0.FlatMap(Emitter[$K, $A, $V]($k, $f)$o)`, java: `$0.flatMap(emitter($k, $f, $A, $V), $n)`}),
	"mapRecords":           unary(Stream, Stream, operator{f: nulls, golang: `$0.MapRecords(Nuller[$K, $A]($f)$o)`, java: `$0.map(nuller($f, $A), $n)`}),
	"selectKey":            unary(Stream, Stream, operator{kf: true, golang: `$0.SelectKey(KeyMaker[$K, $A]($k)$o)`, java: `$0.selectKey(keyMaker($k, $A), $n)`}),
	"peek":                 unary(Stream, Stream, operator{golang: `$0.Peek(Look[$K, $A]($i)$o)`, java: `$0.peek(look($i, $A), $n)`}),
	"forEach":              unary(Stream, None, operator{golang: `$0.ForEach(Look[$K, $A]($i)$o)`, java: `$0.foreach(look($i, $A), $n)`}),
	"tryForEach":           unary(Stream, None, operator{golang: `$0.TryForEach(TryLook[$K, $A]($i)$o)`, java: `$0.foreach(look($i, $A), $n)`}),
	"merge":                pair(Stream, Stream, Stream, operator{golang: `$0.Merge($1$o)`, java: `$0.merge($1, $n)`}),
	"split":                unary(Stream, Branches, operator{golang: `$0.Split($o)`, java: `$0.split($n)`}),
	"branch":               unary(Branches, Stream, operator{f: predicates, golang: `$0.Branch(Predicate[$K, $A]($f)$o)`, java: `branch($0, predicate($f, $A), $n)`}),
	"default":              unary(Branches, Stream, operator{golang: `$0.Default($o)`, java: `otherwise($0, $n)`}),
	"repartition":          unary(Stream, Stream, operator{golang: `$0.Repartition(streams.Unnamed$o)`, java: `$0.repartition(repartitioned($n, $A))`}),
	"to":                   unary(Stream, None, operator{writes: true, golang: `$0.To($t$o)`, java: `$0.to($t, produced($n, $A))`}),
	"route":                unary(Stream, None, operator{f: predicates, writes: true, golang: `$0.Route(Router[$K, $A]($f, $t)$o)`, java: `$0.to(router($f, $t, $A), produced($n, $A))`}),
	"toTable":              unary(Stream, Table, operator{store: mayStore, golang: `$0.ToTable($o)`, java: `$0.toTable($n, $m)`}),
	"groupByKey":           unary(Stream, Grouped, operator{golang: `$0.GroupByKey($o)`, java: `$0.groupByKey(grouped($n, $A))`}),
	"groupBy":              unary(Stream, Grouped, operator{kf: true, golang: `$0.GroupBy(KeyMaker[$K, $A]($k)$o)`, java: `$0.groupBy(keyMaker($k, $A), grouped($n, $A))`}),
	"process":              unary(Stream, Stream, operator{f: procs, store: ownStore, golang: `process($0, $f, $s$o)`, java: `process($0, $f, $s, $n)`}),
	"processValues":        unary(Stream, Stream, operator{f: fixedProcs, store: ownStore, golang: `processValues($0, $f, $s$o)`, java: `processValues($0, $f, $s, $n)`}),
	"processTable":         pair(Stream, Table, Stream, operator{golang: `processTable($0, $1$o)`, java: `processTable($0, $1, $n)`}),
	"joinTable":            pair(Stream, Table, Stream, operator{f: joiners, golang: `$0.JoinTable($1, Joiner[$A, $B]($f)$o)`, java: `$0.join($1, joiner($f, $A, $B), joined($n, $A, $B))`}),
	"joinTableWithKey":     pair(Stream, Table, Stream, operator{f: joiners, golang: `$0.JoinTableWithKey($1, JoinerWithKey[$A, $B]($f)$o)`, java: `$0.join($1, joinerWithKey($f, $A, $B), joined($n, $A, $B))`}),
	"leftJoinTable":        pair(Stream, Table, Stream, operator{f: joiners, golang: `$0.LeftJoinTable($1, LeftJoiner[$A, $B]($f)$o)`, java: `$0.leftJoin($1, joiner($f, $A, $B), joined($n, $A, $B))`}),
	"leftJoinTableWithKey": pair(Stream, Table, Stream, operator{f: joiners, golang: `$0.LeftJoinTableWithKey($1, LeftJoinerWithKey[$A, $B]($f)$o)`, java: `$0.leftJoin($1, joinerWithKey($f, $A, $B), joined($n, $A, $B))`}),

	"join":             pair(Stream, Stream, Stream, operator{f: joiners, joins: true, store: joinStore, golang: `$0.Join($1, Joiner[$A, $B]($f), $w$o)`, java: `$0.join($1, joiner($f, $A, $B), $w, $j)`}),
	"joinWithKey":      pair(Stream, Stream, Stream, operator{f: joiners, joins: true, store: joinStore, golang: `$0.JoinWithKey($1, JoinerWithKey[$A, $B]($f), $w$o)`, java: `$0.join($1, joinerWithKey($f, $A, $B), $w, $j)`}),
	"leftJoin":         pair(Stream, Stream, Stream, operator{f: joiners, joins: true, store: joinStore, golang: `$0.LeftJoin($1, LeftJoiner[$A, $B]($f), $w$o)`, java: `$0.leftJoin($1, joiner($f, $A, $B), $w, $j)`}),
	"leftJoinWithKey":  pair(Stream, Stream, Stream, operator{f: joiners, joins: true, store: joinStore, golang: `$0.LeftJoinWithKey($1, LeftJoinerWithKey[$A, $B]($f), $w$o)`, java: `$0.leftJoin($1, joinerWithKey($f, $A, $B), $w, $j)`}),
	"outerJoin":        pair(Stream, Stream, Stream, operator{f: joiners, joins: true, store: joinStore, golang: `$0.OuterJoin($1, OuterJoiner[$A, $B]($f), $w$o)`, java: `$0.outerJoin($1, joiner($f, $A, $B), $w, $j)`}),
	"outerJoinWithKey": pair(Stream, Stream, Stream, operator{f: joiners, joins: true, store: joinStore, golang: `$0.OuterJoinWithKey($1, OuterJoinerWithKey[$A, $B]($f), $w$o)`, java: `$0.outerJoin($1, joinerWithKey($f, $A, $B), $w, $j)`}),

	"globalTable":           {out: Global, v: topicV, reads: true, store: mayStore, golang: `b.GlobalTable($t$o)`, java: `globalTable($t, $n, $m)`},
	"joinGlobal":            pair(Stream, Global, Stream, operator{f: joiners, kf: true, golang: `$0.JoinGlobal($1, KeyMaker[$K, $A]($k), Joiner[$A, $B]($f)$o)`, java: `$0.join($1, keyMaker($k, $A), joiner($f, $A, $B), $n)`}),
	"joinGlobalWithKey":     pair(Stream, Global, Stream, operator{f: joiners, kf: true, golang: `$0.JoinGlobalWithKey($1, KeyMaker[$K, $A]($k), JoinerWithKeys[$A, $B]($f)$o)`, java: `$0.join($1, keyMaker($k, $A), joinerWithKeys($f, $A, $B), $n)`}),
	"leftJoinGlobal":        pair(Stream, Global, Stream, operator{f: joiners, kf: true, golang: `$0.LeftJoinGlobal($1, KeyMaker[$K, $A]($k), LeftJoiner[$A, $B]($f)$o)`, java: `$0.leftJoin($1, keyMaker($k, $A), joiner($f, $A, $B), $n)`}),
	"leftJoinGlobalWithKey": pair(Stream, Global, Stream, operator{f: joiners, kf: true, golang: `$0.LeftJoinGlobalWithKey($1, KeyMaker[$K, $A]($k), LeftJoinerWithKeys[$A, $B]($f)$o)`, java: `$0.leftJoin($1, keyMaker($k, $A), joinerWithKeys($f, $A, $B), $n)`}),

	"table.join":             pair(Table, Table, Table, operator{f: joiners, store: mayStore, golang: `$0.Join($1, Joiner[$A, $B]($f)$o)`, java: `$0.join($1, joiner($f, $A, $B), $n, $m)`}),
	"table.leftJoin":         pair(Table, Table, Table, operator{f: joiners, store: mayStore, golang: `$0.LeftJoin($1, LeftJoiner[$A, $B]($f)$o)`, java: `$0.leftJoin($1, joiner($f, $A, $B), $n, $m)`}),
	"table.outerJoin":        pair(Table, Table, Table, operator{f: joiners, store: mayStore, golang: `$0.OuterJoin($1, OuterJoiner[$A, $B]($f)$o)`, java: `$0.outerJoin($1, joiner($f, $A, $B), $n, $m)`}),
	"table.joinForeign":      pair(Table, Table, Table, operator{f: joiners, kf: true, store: mayStore, serdes: true, golang: `$0.JoinForeign($1, ForeignKey[$A]($k), Joiner[$A, $B]($f)$o)`, java: `$0.join($1, foreignKey($k, $A), joiner($f, $A, $B), tableJoined($n), $m)`}),
	"table.leftJoinForeign":  pair(Table, Table, Table, operator{f: joiners, kf: true, store: mayStore, serdes: true, golang: `$0.LeftJoinForeign($1, ForeignKey[$A]($k), LeftJoiner[$A, $B]($f)$o)`, java: `$0.leftJoin($1, foreignKey($k, $A), joiner($f, $A, $B), tableJoined($n), $m)`}),
	"table.groupBy":          unary(Table, GroupedTable, operator{v: freeV, f: mappers, kf: true, golang: `$0.GroupBy(Both[$K, $A, $V]($k, $f)$o)`, java: `$0.groupBy(both($k, $f, $A, $V), grouped($n, $V))`}),
	"groupedTable.count":     unary(GroupedTable, Table, operator{v: longV, store: needsStore, golang: `$0.Count($s$o)`, java: `$0.count($n, $m)`}),
	"groupedTable.reduce":    unary(GroupedTable, Table, operator{f: adders, store: needsStore, golang: `$0.Reduce($s, Reducer[$A]($f), Unreducer[$A]($f)$o)`, java: `$0.reduce(reducer($f, $A), unreducer($f, $A), $n, $m)`}),
	"groupedTable.aggregate": unary(GroupedTable, Table, operator{v: freeV, f: keyAdders, store: needsStore, golang: `$0.Aggregate($s, Initial[$V], Adder[$A, $V]($f), Subtracter[$A, $V]($f)$o)`, java: `$0.aggregate(initial($V), adder($f, $A, $V), subtracter($f, $A, $V), $n, $m)`}),

	"table.filter":           unary(Table, Table, operator{f: predicates, store: mayStore, golang: `$0.Filter(Predicate[$K, $A]($f)$o)`, java: `$0.filter(predicate($f, $A), $n, $m)`}),
	"table.filterNot":        unary(Table, Table, operator{f: predicates, store: mayStore, golang: `$0.FilterNot(Predicate[$K, $A]($f)$o)`, java: `$0.filterNot(predicate($f, $A), $n, $m)`}),
	"table.mapValues":        unary(Table, Table, operator{v: freeV, f: mappers, store: mayStore, golang: `$0.MapValues(Mapper[$A, $V]($f)$o)`, java: `$0.mapValues(mapper($f, $A, $V), $n, $m)`}),
	"table.mapValuesWithKey": unary(Table, Table, operator{v: freeV, f: mappers, store: mayStore, golang: `$0.MapValuesWithKey(MapperWithKey[$K, $A, $V]($f)$o)`, java: `$0.mapValues(mapperWithKey($f, $A, $V), $n, $m)`}),
	"table.transformValues":  unary(Table, Table, operator{v: freeV, f: mappers, store: mayStore, golang: `$0.TransformValues(Transformer[$A, $V]($f), nil$o)`, java: `$0.transformValues(transformer($f, $A, $V), $m, $n)`}),
	"toStream":               unary(Table, Stream, operator{golang: `$0.ToStream($o)`, java: `$0.toStream($n)`}),

	"count":     unary(Grouped, Table, operator{v: longV, store: needsStore, golang: `$0.Count($s$o)`, java: `$0.count($n, $m)`}),
	"reduce":    unary(Grouped, Table, operator{f: adders, store: needsStore, golang: `$0.Reduce($s, Reducer[$A]($f)$o)`, java: `$0.reduce(reducer($f, $A), $n, $m)`}),
	"aggregate": unary(Grouped, Table, operator{v: freeV, f: keyAdders, store: needsStore, golang: `$0.Aggregate($s, Initial[$V], Adder[$A, $V]($f)$o)`, java: `$0.aggregate(initial($V), adder($f, $A, $V), $n, $m)`}),

	"windowed.emit":              unary(WindowedGrouped, WindowedGrouped, operator{golang: `$0.Emit(streams.OnWindowClose)`, java: `$0.emitStrategy(EmitStrategy.onWindowClose())`}),
	"session.emit":               unary(SessionGrouped, SessionGrouped, operator{golang: `$0.Emit(streams.OnWindowClose)`, java: `$0.emitStrategy(EmitStrategy.onWindowClose())`}),
	"sessionsBy":                 unary(Grouped, SessionGrouped, operator{windows: true, golang: `$0.SessionsBy($w)`, java: `$0.windowedBy($w)`}),
	"session.count":              unary(SessionGrouped, WindowedTable, operator{v: longV, store: needsStore, golang: `$0.Count($s$o)`, java: `$0.count($n, $m)`}),
	"session.reduce":             unary(SessionGrouped, WindowedTable, operator{f: adders, store: needsStore, golang: `$0.Reduce($s, Reducer[$A]($f)$o)`, java: `$0.reduce(reducer($f, $A), $n, $m)`}),
	"session.aggregate":          unary(SessionGrouped, WindowedTable, operator{v: freeV, f: keyAdders, store: needsStore, golang: `$0.Aggregate($s, Initial[$V], Adder[$A, $V]($f), Merger[$V]($f)$o)`, java: `$0.aggregate(initial($V), adder($f, $A, $V), merger($f, $V), $n, $m)`}),
	"cogroup":                    unary(Grouped, Cogrouped, operator{v: freeV, f: keyAdders, golang: `$0.Cogroup(Adder[$A, $V]($f))`, java: `$0.cogroup(adder($f, $A, $V))`}),
	"cogroup.add":                pair(Cogrouped, Grouped, Cogrouped, operator{f: keyAdders, golang: `$0.Cogroup($1, Adder[$B, $V]($f))`, java: `$0.cogroup($1, adder($f, $B, $V))`}),
	"cogroup.aggregate":          unary(Cogrouped, Table, operator{store: needsStore, golang: `$0.Aggregate($s, Initial[$V]$o)`, java: `$0.aggregate(initial($V), $n, $m)`}),
	"cogroup.windowedBy":         unary(Cogrouped, WindowedCogrouped, operator{f: windows, windows: true, golang: `$0.WindowedBy($w)`, java: `$0.windowedBy($w)`}),
	"cogroup.sessionsBy":         unary(Cogrouped, SessionCogrouped, operator{windows: true, golang: `$0.SessionsBy($w)`, java: `$0.windowedBy($w)`}),
	"cogroup.windowed.aggregate": unary(WindowedCogrouped, WindowedTable, operator{store: needsStore, golang: `$0.Aggregate($s, Initial[$V]$o)`, java: `$0.aggregate(initial($V), $n, $m)`}),
	"cogroup.session.aggregate":  unary(SessionCogrouped, WindowedTable, operator{f: keyAdders, store: needsStore, golang: `$0.Aggregate($s, Initial[$V], Merger[$V]($f)$o)`, java: `$0.aggregate(initial($V), merger($f, $V), $n, $m)`}),

	"table.suppress":         unary(Table, Table, operator{f: holds, waits: true, store: heldStore, golang: `$0.Suppress($h$o)`, java: `$0.suppress($h)`}),
	"windowedTable.suppress": unary(WindowedTable, WindowedTable, operator{f: closings, waits: true, store: heldStore, golang: `$0.Suppress($h$o)`, java: `$0.suppress($h)`}),

	"windowedBy": unary(Grouped, WindowedGrouped, operator{f: windows, windows: true, golang: `$0.WindowedBy($w)`, java: `$0.windowedBy($w)`}),
}

// Windowed handles have the operators of the others, under names of their own.
func init() {
	variant := func(prefix string, names []string, in, out Kind) {
		for _, name := range names {
			o := *operators[name]
			kind := o.in[0]
			o.in = slices.Clone(o.in)
			for i, k := range o.in {
				if k == kind {
					o.in[i] = in
				}
			}
			if o.out != None {
				o.out = out
			}
			if in == WindowedTable {
				o.store = noStore
			}
			operators[prefix+strings.TrimPrefix(name, "table.")] = &o
		}
	}
	variant("windowed.", []string{"count", "reduce", "aggregate"}, WindowedGrouped, WindowedTable)
	variant("windowedTable.", []string{"table.filter", "table.filterNot", "table.mapValues", "table.mapValuesWithKey"}, WindowedTable, WindowedTable)
	variant("windowedTable.", []string{"toStream"}, WindowedTable, WindowedStream)
	variant("windowedStream.", []string{
		"filter", "filterNot", "filterRecords", "dropNulls", "mapValues", "mapValuesWithKey", "tryMapValues", "flatMapValues", "flatMapValuesSeq",
		"peek", "forEach", "merge", "to",
	}, WindowedStream, WindowedStream)
	variant("windowedStream.", []string{"map", "mapRecords", "flatMap", "selectKey"}, WindowedStream, Stream)
	variant("windowedStream.", []string{"groupBy"}, WindowedStream, Grouped)
}
