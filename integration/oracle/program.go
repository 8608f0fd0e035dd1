package oracle

import (
	"fmt"
	"slices"
	"strings"
)

// Program is a topology and what is fed to it.
type Program struct {
	Seed    uint64  `json:"seed,omitempty"`    // that made it
	Caching bool    `json:"caching,omitempty"` // record caches are on; both drivers commit after each record
	Reuse   bool    `json:"reuse,omitempty"`   // [streams.ReuseSourceTopics]
	Selves  bool    `json:"selves,omitempty"`  // [streams.SingleStoreSelfJoin]
	Topics  []Topic `json:"topics"`            // of the input
	Ops     []Op    `json:"ops"`
	Input   []Event `json:"input"`
}

// Topic is a topic of the input. Its keys are strings.
type Topic struct {
	Name string `json:"name"`
	V    string `json:"v"` // type of the values: [Text], [Long] or [Nullable]
}

// The types of values.
const (
	Text     = "S" // string in Go, String in Java
	Long     = "L" // int64, Long
	Nullable = "P" // *string, String: functions see and make nulls
)

var valueTypes = []string{Text, Long, Nullable}

// Op is one call of the DSL. Which fields count is up to the operator; functions are those of functions.go.
type Op struct {
	Op     string   `json:"op"`
	In     []int    `json:"in,omitempty"` // the operators before it: their places in the program
	V      string   `json:"v,omitempty"`  // type of the result's values, where it is free
	F      string   `json:"f,omitempty"`  // function of values
	N      int      `json:"n,omitempty"`  // its parameter
	KF     string   `json:"kf,omitempty"` // function that makes keys
	KN     int      `json:"kn,omitempty"`
	Name   string   `json:"name,omitempty"`
	Store  string   `json:"store,omitempty"`
	Knobs  []string `json:"knobs,omitempty"`
	Topics []string `json:"topics,omitempty"`

	// Of windows, in ms.
	Size    int64 `json:"size,omitempty"`
	Advance int64 `json:"advance,omitempty"`
	Grace   int64 `json:"grace,omitempty"`
	Before  int64 `json:"before,omitempty"`
	After   int64 `json:"after,omitempty"`

	// Of stores, in ms.
	History   int64 `json:"history,omitempty"` // versioned
	Retention int64 `json:"retention,omitempty"`
}

// Event is a record of the input, or a step of the wall clock.
type Event struct {
	Clock   int64    `json:"clock,omitempty"` // ms to go on; nothing else is set then
	Topic   string   `json:"topic,omitempty"`
	Key     *string  `json:"key,omitempty"` // nil is null
	Value   *string  `json:"value,omitempty"`
	Time    int64    `json:"time,omitempty"` // ms since 1970
	Headers []Header `json:"headers,omitempty"`
}

// Header is a header of a record.
type Header struct {
	Key   string  `json:"key"`
	Value *string `json:"value,omitempty"`
}

// Kind is what an operator gives: a handle of the DSL.
type Kind string

// The kinds.
const (
	None              Kind = ""
	Stream            Kind = "stream"
	Table             Kind = "table"
	Global            Kind = "global"
	Branches          Kind = "branches"
	Grouped           Kind = "grouped"
	GroupedTable      Kind = "groupedTable"
	WindowedGrouped   Kind = "windowedGrouped"
	SessionGrouped    Kind = "sessionGrouped"
	Cogrouped         Kind = "cogrouped"
	WindowedCogrouped Kind = "windowedCogrouped"
	SessionCogrouped  Kind = "sessionCogrouped"
	WindowedTable     Kind = "windowedTable"
	WindowedStream    Kind = "windowedStream"
)

// Type is the kind of a handle and the type of its values.
type Type struct {
	Kind    Kind
	V       string
	bare    bool   // a table whose serde for values Java does not know
	history bool   // a table that is versioned, or made of one
	onClose bool   // results come when windows close
	win     string // the kind of windows of a windowed handle, as in [windows], or "session"
}

// Types finds the type of every operator's result, or says why the program is none.
func (p *Program) Types() ([]Type, error) {
	types := make([]Type, len(p.Ops))
	topics := map[string]string{}
	for _, t := range p.Topics {
		topics[t.Name] = t.V
	}
	sources := map[string][]string{} // by topic: all topics of the source that reads it
	tables := map[string]bool{}
	used := map[string]bool{}
	unique := func(name string) bool {
		taken := used[name]
		used[name] = used[name] || name != ""
		return !taken
	}
	closed := map[int]bool{}
	stores := map[string]string{} // of processors
	for i, o := range p.Ops {
		fail := func(format string, args ...any) ([]Type, error) {
			return nil, fmt.Errorf("operator %d, %s: %s", i, o.Op, fmt.Sprintf(format, args...))
		}
		def := operators[o.Op]
		if def == nil {
			return fail("there is no such operator")
		}
		if len(o.In) != len(def.in) {
			return fail("it takes %d handles", len(def.in))
		}
		for j, in := range o.In {
			if in < 0 || in >= i || types[in].Kind != def.in[j] {
				return fail("handle %d is no %s above it", in, def.in[j])
			}
		}
		types[i] = Type{Kind: def.out}
		switch def.v {
		case sameV:
			types[i].V = types[o.In[0]].V
		case longV:
			types[i].V = Long
		case freeV:
			types[i].V = o.V
		case topicV:
			if len(o.Topics) == 0 {
				return fail("it reads no topic")
			}
			types[i].V = topics[o.Topics[0]]
		}
		switch {
		case def.out != Table && def.out != WindowedTable || def.store == needsStore || o.Store != "" || o.In == nil || types[o.In[0]].Kind != def.out || def.serdes:
		case strings.Contains(o.Op, "able.filter"), strings.HasSuffix(o.Op, ".suppress"):
			types[i].bare = types[o.In[0]].bare
		default:
			types[i].bare = true
		}
		if len(o.In) > 0 {
			types[i].onClose = types[o.In[0]].onClose || strings.HasSuffix(o.Op, "emit")
		}
		types[i].history = o.History > 0 || def.out == Table && o.Store == "" && def.store != needsStore && len(o.In) == 1 && types[o.In[0]].history
		switch {
		case (def.out == WindowedGrouped || def.out == WindowedCogrouped) && o.F != "":
			types[i].win = o.F
		case def.out == SessionGrouped, def.out == SessionCogrouped:
			types[i].win = "session"
		case len(o.In) > 0:
			types[i].win = types[o.In[0]].win
		}
		if (strings.HasSuffix(o.Op, "emit") || o.F == "close") && types[i].win == "unlimited" {
			return fail("unlimited windows do not close")
		}
		if strings.HasSuffix(o.Op, ".suppress") && (types[o.In[0]].bare || types[o.In[0]].history) {
			return fail("its table is versioned, or Java does not know a serde for its values")
		}
		if def.serdes && (types[o.In[0]].bare || types[o.In[1]].bare) {
			return fail("Java does not know a serde for its values")
		}
		if def.out != None && !slices.Contains(valueTypes, types[i].V) {
			return fail("there is no type %q", types[i].V)
		}
		if p.Selves && (o.Before < 0 || o.After < 0) {
			return fail("from one store, Kafka Streams pairs a record with itself that is not in its own window")
		}
		if !unique(o.Name) {
			return fail("its name is taken")
		}
		if def.store == ownStore {
			form := fmt.Sprint(o.F == "count", types[i].V, o.Knobs)
			if own, ok := stores[o.Store]; o.Store == "" || ok && own != form || !ok && used[o.Store] {
				return fail("its store is taken, or another")
			}
			stores[o.Store], used[o.Store] = form, true
		} else if !unique(o.Store) {
			return fail("its store is taken")
		}
		if o.History > 0 && (o.Store == "" || def.out != Table || slices.Contains(o.Knobs, "memory")) {
			return fail("it can't be versioned")
		}
		if o.Op == "processTable" && (p.Ops[o.In[1]].Store == "" || p.Ops[o.In[1]].History > 0) {
			return fail("the table has no store of a name")
		}
		switch {
		case def.reads:
			all := slices.Sorted(slices.Values(o.Topics))
			for _, t := range all {
				was, read := sources[t]
				if topics[t] != types[i].V || tables[t] || read && (def.out != Stream || !slices.Equal(was, all)) {
					return fail("topic %s can't be read so", t)
				}
				sources[t], tables[t] = all, def.out != Stream
			}
		case def.writes:
			if len(o.Topics) != 1 {
				return fail("it writes one topic")
			}
			t, v := o.Topics[0], types[o.In[0]].V
			if def.in[0] == WindowedStream {
				v = "windowed " + v // nobody reads it
			}
			if topics[t] != "" && topics[t] != v || sources[t] != nil || p.isInput(t) {
				return fail("topic %s can't be written so", t)
			}
			topics[t] = v
		}
		if strings.HasSuffix(o.Op, "merge") {
			if types[o.In[1]].V != types[i].V || types[o.In[1]].win != types[i].win {
				return fail("the streams have different values")
			}
		}
		if g := len(o.In) - 1; strings.HasPrefix(o.Op, "cogroup") && types[o.In[g]].Kind == Grouped && p.Ops[o.In[g]].Name != "" && !p.alone(o.In[g]) {
			return fail("something else is done with its stream")
		}
		if strings.HasPrefix(o.Op, "cogroup") && p.hasHistory(i) {
			return fail("Kafka Streams takes the result for versioned, as a table far above is")
		}
		if o.Op == "cogroup.add" && !p.cogroups(i) {
			return fail("its topics would have one name, or it stands in the place of another")
		}
		if def.in != nil && def.in[0] == Branches {
			if closed[o.In[0]] {
				return fail("the split has its default")
			}
			closed[o.In[0]] = o.Op == "default"
		}
	}
	return types, nil
}

// cogroups reports whether a stream may be added to a cogroup. Kafka Streams changes the object that it is added to, so nothing else may be done with that;
// and of the topics of its streams only one may be named after the store.
func (p *Program) cogroups(at int) bool {
	for i, o := range p.Ops {
		if i != at && len(o.In) > 0 && o.In[0] == p.Ops[at].In[0] && operators[o.Op].in[0] == Cogrouped {
			return false
		}
	}
	groupings := []int{p.Ops[at].In[1]}
	for at = p.Ops[at].In[0]; len(p.Ops[at].In) == 2; at = p.Ops[at].In[0] {
		groupings = append(groupings, p.Ops[at].In[1])
	}
	groupings = append(groupings, p.Ops[at].In[0])
	unnamed := 0
	for i, g := range groupings {
		if slices.Contains(groupings[:i], g) {
			return false
		}
		if p.Ops[g].Name == "" && p.rekeyed(g) {
			unnamed++
		}
	}
	return unnamed <= 1
}

// hasHistory reports whether an operator stands anywhere below a versioned table.
func (p *Program) hasHistory(i int) bool {
	return p.Ops[i].History > 0 || slices.ContainsFunc(p.Ops[i].In, p.hasHistory)
}

// rekeyed reports whether the keys of a stream or a grouping may be new, so that it needs a topic.
func (p *Program) rekeyed(i int) bool {
	o := p.Ops[i]
	if o.KF != "" || o.Op == "process" || strings.HasSuffix(o.Op, "mapRecords") {
		return true
	}
	return len(o.In) > 0 && operators[o.Op].in[0] != Table && slices.ContainsFunc(o.In, p.rekeyed)
}

// alone reports whether nothing else is done with what a cogroup is made of. Two topics for one named grouping are an error of Kafka Streams.
func (p *Program) alone(handle int) bool {
	uses := 0
	for _, o := range p.Ops {
		for _, in := range o.In {
			if in == handle {
				uses++
			}
		}
	}
	return uses == 1
}

func (p *Program) isInput(topic string) bool {
	return slices.ContainsFunc(p.Topics, func(t Topic) bool { return t.Name == topic })
}

func (e Event) String() string {
	if e.Clock != 0 {
		return fmt.Sprintf("clock + %d ms", e.Clock)
	}
	quote := func(s *string) string {
		if s == nil {
			return "null"
		}
		return fmt.Sprintf("%q", *s)
	}
	text := fmt.Sprintf("%s: %s=%s@%d", e.Topic, quote(e.Key), quote(e.Value), e.Time)
	for _, h := range e.Headers {
		text += fmt.Sprintf(" [%s=%s]", h.Key, quote(h.Value))
	}
	return text
}
