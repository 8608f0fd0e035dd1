package oracle

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
)

// generator makes a program, operator by operator.
type generator struct {
	r     *rand.Rand
	p     *Program
	types []Type
	uses  []int // of each handle
	rates []int // about how many records come of one, for each handle
	scale int64 // ms in a unit of time
	names int
}

// Generate makes the program of a seed. Every seed has an operator that its program tries to hold, in turn, so that rare ones are not forgotten.
func Generate(seed uint64) *Program {
	g := &generator{r: rand.New(rand.NewPCG(seed, 0x6d696c6c72616365)), p: &Program{Seed: seed}, scale: 1}
	g.p.Caching, g.p.Reuse, g.p.Selves = g.chance(3), g.chance(6), g.chance(4)
	if g.chance(10) {
		g.scale = 20_000 // so long that stores roll their segments
	}
	wanted := append(slices.Sorted(maps.Keys(operators)), "cogroup.add") // which finds its place seldom
	focus := wanted[seed%uint64(len(wanted))]
	g.topics()
	size := 2 + g.r.IntN(11)
	if g.chance(2) {
		g.aim(focus, size)
	}
	for len(g.p.Ops) < size {
		g.step(focus)
	}
	g.aim(focus, 22)
	for range 4 { // of what is rare, several
		if g.has(focus) && len(g.p.Ops) < 26 && !g.try(focus) {
			g.towards(focus)
		}
	}
	g.finish()
	g.events()
	return g.p
}

func (g *generator) chance(oneIn int) bool { return g.r.IntN(oneIn) == 0 }

func oneOf[T any](g *generator, list ...T) T { return list[g.r.IntN(len(list))] }

func (g *generator) has(op string) bool {
	return slices.ContainsFunc(g.p.Ops, func(o Op) bool { return o.Op == op })
}

func (g *generator) topics() {
	for range 2 + g.r.IntN(3) {
		g.topic()
	}
}

func (g *generator) topic() string {
	name := fmt.Sprintf("in-%d", len(g.p.Topics))
	g.p.Topics = append(g.p.Topics, Topic{name, oneOf(g, Text, Text, Text, Long, Nullable)})
	return name
}

// step adds an operator that fits, which is focus sooner than another.
func (g *generator) step(focus string) {
	names := slices.Sorted(maps.Keys(operators))
	if g.chance(3) && g.try(focus) {
		return
	}
	if unused := g.unused(); len(unused) > 0 && !g.chance(3) { // go on below what has nothing below it
		kind := g.types[oneOf(g, oneOf(g, unused...), unused[len(unused)-1])].Kind
		names = slices.DeleteFunc(names, func(name string) bool { return !slices.Contains(operators[name].in, kind) })
		for range 5 {
			if g.try(oneOf(g, names...)) {
				return
			}
		}
		names = slices.Sorted(maps.Keys(operators))
	}
	for {
		name := oneOf(g, names...)
		if operators[name].reads && len(g.p.Ops) > 2 && !g.chance(3) {
			continue
		}
		if g.try(name) {
			return
		}
	}
}

// aim adds operators until there is focus.
func (g *generator) aim(focus string, most int) {
	for !g.has(focus) && len(g.p.Ops) < most && g.towards(focus) {
	}
}

// unused are the handles that nothing was done with yet.
func (g *generator) unused() (list []int) {
	for i, n := range g.uses {
		if n == 0 && g.types[i].Kind != None {
			list = append(list, i)
		}
	}
	return list
}

// towards adds focus, or what it stands on. It reports whether there was a way.
func (g *generator) towards(focus string) bool {
	if g.try(focus) || operators[focus].reads { // a source finds other topics the next time
		return true
	}
	for _, kind := range operators[focus].in {
		if !slices.ContainsFunc(g.types, func(t Type) bool { return t.Kind == kind }) {
			return g.make(kind, 5)
		}
	}
	// The handles do not go together: more of them may.
	return g.make(oneOf(g, operators[focus].in...), 5)
}

// make adds an operator that gives a kind, below others if it has to.
func (g *generator) make(kind Kind, depth int) bool {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(operators)) {
		if operators[name].out == kind {
			names = append(names, name)
		}
	}
	g.r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	for _, name := range names {
		if g.try(name) {
			return true
		}
	}
	if depth == 0 {
		return false
	}
	for _, name := range names {
		for _, in := range operators[name].in {
			if in != kind && g.make(in, depth-1) && g.try(name) {
				return true
			}
		}
	}
	return false
}

// try adds an operator, if there is a place for it.
func (g *generator) try(name string) bool {
	for range 4 * len(operators[name].in) {
		if g.place(name) {
			return true
		}
	}
	return operators[name].in == nil && g.place(name)
}

// place adds an operator below handles of the right kinds, if they go together.
func (g *generator) place(name string) bool {
	def := operators[name]
	o := Op{Op: name}
	for _, kind := range def.in {
		var fit []int
		for i, t := range g.types {
			if t.Kind == kind {
				fit = append(fit, i)
				if g.uses[i] == 0 {
					fit = append(fit, i, i, i)
				}
			}
		}
		if len(fit) == 0 {
			return false
		}
		o.In = append(o.In, oneOf(g, fit...))
	}
	if def.joins && g.chance(4) { // with itself
		o.In[1] = o.In[0]
	}
	if def.f != nil {
		o.F = oneOf(g, def.f...)
		o.N = 2 + g.r.IntN(3)
	}
	if def.kf {
		o.KF = oneOf(g, keys...)
		o.KN = 2 + g.r.IntN(3)
	}
	if def.v == freeV {
		o.V = oneOf(g, Text, Text, Text, Long, Nullable)
	}
	if g.chance(4) && def.hasName() {
		o.Name = g.name("n")
	}
	if def.store == needsStore && g.chance(2) || def.store == mayStore && g.chance(3) || def.store == joinStore && g.chance(4) {
		o.Store = g.name("s")
	}
	if def.store == needsStore || def.store == joinStore || o.Store != "" {
		for _, k := range []string{"memory", "noCaching", "noLogging"} {
			if (g.chance(6) || k == "memory" && len(o.In) > 0 && g.types[o.In[0]].onClose && g.chance(2)) && (k == "memory" || def.out != Global) && (k != "noCaching" || def.store != joinStore) {
				o.Knobs = append(o.Knobs, k)
			}
		}
	}
	if def.store == heldStore && g.chance(6) {
		o.Knobs = []string{"noLogging"}
	}
	if def.store == ownStore {
		o.Store = g.name("s")
		if own := g.processorStores(); len(own) > 0 && g.chance(2) {
			other := oneOf(g, own...)
			o.Store, o.Knobs = other.Store, other.Knobs
		} else if g.chance(3) {
			o.Knobs = []string{"memory"}
		}
	}
	if o.Store != "" && def.out == Table && g.chance(6) && g.versions(o) {
		o.Knobs = slices.DeleteFunc(o.Knobs, func(k string) bool { return k == "memory" })
		o.History = g.scale * int64(1+g.r.IntN(60))
	}
	if def.out == WindowedTable && def.store == needsStore && g.chance(6) {
		w := g.p.Ops[o.In[0]]
		for !operators[w.Op].windows { // an emit
			w = g.p.Ops[w.In[0]]
		}
		o.Retention = 2*w.Size + w.Grace + g.scale*int64(1+g.r.IntN(50))
	}
	if def.windows {
		o.Size = g.scale * int64(2+g.r.IntN(20))
		o.Advance = o.Size
		if g.chance(2) {
			o.Advance = max(1, o.Size/int64(1+g.r.IntN(4)))
		}
		o.Grace = g.scale * oneOf(g, int64(0), 0, int64(g.r.IntN(10)), int64(g.r.IntN(40)))
	}
	if def.waits && o.F != "close" {
		o.Size = g.scale * int64(g.r.IntN(30))
	}
	if def.joins {
		o.Before, o.After = g.scale*int64(g.r.IntN(15)), g.scale*int64(g.r.IntN(15))
		switch g.r.IntN(6) {
		case 0:
			o.After = -g.scale * int64(g.r.IntN(int(o.Before/g.scale)+1))
		case 1:
			o.Before = -g.scale * int64(g.r.IntN(int(o.After/g.scale)+1))
		case 2:
			o.After = o.Before
		}
		o.Grace = g.scale * oneOf(g, int64(0), 0, int64(g.r.IntN(10)), int64(g.r.IntN(40)))
	}
	switch {
	case def.reads:
		o.Topics = g.sources(def.out)
		if o.Topics == nil {
			return false
		}
	case def.writes:
		o.Topics = []string{g.name("out-")}
	}
	rate := g.rate(o)
	if rate > 200 {
		return false
	}
	g.p.Ops = append(g.p.Ops, o)
	types, err := g.p.Types()
	if err != nil {
		g.p.Ops = g.p.Ops[:len(g.p.Ops)-1]
		return false
	}
	g.types, g.uses, g.rates = types, append(g.uses, 0), append(g.rates, rate)
	for _, in := range o.In {
		g.uses[in]++
	}
	return true
}

// rate is about how many records an operator makes of one that comes in: programs that make too many prove no more.
func (g *generator) rate(o Op) int {
	def := operators[o.Op]
	rate := 1
	switch {
	case def.joins:
		rate = 4 * g.rates[o.In[0]] * g.rates[o.In[1]]
	case strings.HasSuffix(o.Op, "merge"), def.out == Table && len(o.In) == 2:
		rate = g.rates[o.In[0]] + g.rates[o.In[1]]
	case len(o.In) > 0:
		rate = g.rates[o.In[0]]
	}
	if def.f.is(lists) {
		rate *= 2
	}
	if o.Op == "process" || o.Op == "processValues" {
		rate *= 2
	}
	switch {
	case def.f.is(windows) && o.F == "fixed":
		rate *= int(o.Size / o.Advance)
	case def.f.is(windows) && o.F == "sliding":
		rate *= 4
	}
	if def.out == GroupedTable {
		rate *= 2
	}
	return rate
}

// versions reports whether an operator may be kept with its history. A deletion of a version at its very time is forgotten by Kafka Streams, if nothing was
// before, so that an older record that comes later is the latest row again; Millrace remembers it. Rows with such deletions are kept apart from versions: only
// operators have them that give each key a time once, and events sees to it that times differ.
func (g *generator) versions(o Op) bool {
	switch o.Op {
	case "table", "count", "groupedTable.count":
		return true
	case "reduce", "aggregate":
		return o.F != "half"
	}
	return len(o.In) == 1 && g.p.Ops[o.In[0]].Op == "table"
}

// processorStores are the operators that have stores of processors.
func (g *generator) processorStores() (all []Op) {
	for _, o := range g.p.Ops {
		if operators[o.Op].store == ownStore {
			all = append(all, o)
		}
	}
	return all
}

func (g *generator) name(prefix string) string {
	g.names++
	return prefix + strconv.Itoa(g.names)
}

// sources chooses topics to read: of the input, or what the program itself writes.
func (g *generator) sources(kind Kind) []string {
	var all []string
	for _, t := range g.p.Topics {
		if kind == Stream && !g.p.reads(t.Name, Table, Global) || !g.p.reads(t.Name, Stream, Table, Global) {
			all = append(all, t.Name)
		}
	}
	if len(all) == 0 {
		all = []string{g.topic()}
	}
	if g.chance(8) {
		for i, o := range g.p.Ops {
			if o.Op == "to" && g.uses[i] == 0 {
				all = []string{o.Topics[0]}
			}
		}
	}
	one := oneOf(g, all...)
	if kind == Stream && g.chance(8) {
		if other := oneOf(g, all...); other != one {
			return []string{one, other}
		}
	}
	return []string{one}
}

// finish makes everything end in a topic.
func (g *generator) finish() {
	for i := 0; i < len(g.p.Ops); i++ {
		if g.uses[i] > 0 {
			continue
		}
		end := map[Kind]string{
			Cogrouped: "cogroup.aggregate", WindowedCogrouped: "cogroup.windowed.aggregate", SessionCogrouped: "cogroup.session.aggregate",
			Stream: "to", Table: "toStream", Grouped: "count", WindowedGrouped: "windowed.count", SessionGrouped: "session.count",
			WindowedTable:  "windowedTable.toStream",
			WindowedStream: "windowedStream.to", Branches: "default", GroupedTable: "groupedTable.count",
		}[g.types[i].Kind]
		if end == "" {
			continue
		}
		o := Op{Op: end, In: []int{i}}
		if def := operators[end]; def.f != nil {
			o.F, o.N = def.f[0], 2
		}
		if operators[end].writes {
			o.Topics = []string{g.name("out-")}
		}
		g.p.Ops = append(g.p.Ops, o)
		types, err := g.p.Types()
		if err != nil {
			panic(err)
		}
		g.types, g.uses, g.rates = types, append(g.uses, 0), append(g.rates, g.rates[i])
		g.uses[i]++
	}
}

// events makes the input: few keys, nulls, and times that are equal, late, or far ahead.
func (g *generator) events() {
	types := map[string]string{}
	var read []string
	for _, t := range g.p.Topics {
		if g.p.reads(t.Name, Stream, Table, Global) {
			types[t.Name] = t.V
			read = append(read, t.Name)
		}
	}
	history := slices.ContainsFunc(g.p.Ops, func(o Op) bool { return o.History > 0 })
	taken := map[string]bool{}
	var now int64
	for range 5 + g.r.IntN(35) {
		if g.chance(15) {
			g.p.Input = append(g.p.Input, Event{Clock: int64(1 + g.r.IntN(2500))})
			continue
		}
		switch g.r.IntN(10) {
		case 0, 1:
			now += int64(g.r.IntN(12))
		case 2:
			now += int64(g.r.IntN(60))
		case 3, 4, 5:
			now++
		}
		e := Event{Topic: oneOf(g, read...), Time: now * g.scale}
		if g.chance(4) {
			e.Time = max(0, e.Time-int64(g.r.IntN(30))*g.scale)
		}
		if g.scale > 1 && g.chance(3) {
			e.Time += int64(g.r.IntN(3)) - 1
			e.Time = max(0, e.Time)
		}
		if !g.chance(16) {
			key := oneOf(g, "a", "a", "b", "c", "")
			e.Key = &key
			for history && taken[key+" "+strconv.FormatInt(e.Time, 10)] {
				e.Time++
			}
			taken[key+" "+strconv.FormatInt(e.Time, 10)] = true
		}
		if !g.chance(8) {
			value := oneOf(g, "x", "y", "zz", "abc", "b", "a", "", "12", "-3", "hello world")
			if types[e.Topic] == Long {
				value = strconv.Itoa(g.r.IntN(40) - 5)
			}
			e.Value = &value
		}
		for g.chance(4) {
			h := Header{Key: oneOf(g, "h", "t")}
			if !g.chance(5) {
				value := strconv.Itoa(len(g.p.Input))
				h.Value = &value
			}
			e.Headers = append(e.Headers, h)
		}
		g.p.Input = append(g.p.Input, e)
	}
}

// reads reports whether a source of one of the kinds reads a topic.
func (p *Program) reads(topic string, kinds ...Kind) bool {
	return slices.ContainsFunc(p.Ops, func(o Op) bool {
		def := operators[o.Op]
		return def.reads && slices.Contains(kinds, def.out) && slices.Contains(o.Topics, topic)
	})
}

// hasName reports whether the operator takes [streams.Named].
func (def *operator) hasName() bool {
	return !slices.Contains([]Kind{WindowedGrouped, SessionGrouped, Cogrouped, WindowedCogrouped, SessionCogrouped}, def.out)
}
