package oracle

import (
	"encoding/json"
	"slices"
)

// Shrink makes a program smaller as long as differs says that it still shows what it should.
func Shrink(p *Program, differs func(*Program) bool) *Program {
	best := clone(p)
	for better := true; better; {
		better = false
		for _, next := range candidates {
			for i := 0; ; i++ {
				p := clone(best)
				if !next(p, i) {
					break
				}
				p.tidy()
				if _, err := p.Types(); err != nil || cost(p) >= cost(best) || !differs(p) {
					continue
				}
				best, better = p, true
				i--
			}
		}
	}
	return best
}

func clone(p *Program) *Program {
	data, err := json.Marshal(p)
	if err != nil {
		panic(err)
	}
	c := &Program{}
	if err := json.Unmarshal(data, c); err != nil {
		panic(err)
	}
	return c
}

// cost is what shrinking makes less.
func cost(p *Program) int {
	data, err := json.Marshal(p)
	if err != nil {
		panic(err)
	}
	return len(data) + 200*len(p.Ops) + 100*len(p.Input)
}

// candidates change a program in their i-th way; they return false when there are no more.
var candidates = []func(p *Program, i int) bool{
	func(p *Program, i int) bool { return dropEvents(p, i, 16) },
	func(p *Program, i int) bool { return dropEvents(p, i, 4) },
	dropOperator,
	bypassOperator,
	sourceInstead,
	func(p *Program, i int) bool { return dropEvents(p, i, 1) },
	plainOperator,
	plainEvent,
	func(p *Program, i int) bool {
		p.Seed, p.Caching = 0, false
		return i == 0
	},
	func(p *Program, i int) bool {
		p.Reuse = false
		return i == 0
	},
	func(p *Program, i int) bool {
		p.Selves = false
		return i == 0
	},
}

func dropEvents(p *Program, i, n int) bool {
	if i*n >= len(p.Input) {
		return false
	}
	p.Input = slices.Delete(p.Input, i*n, min(len(p.Input), i*n+n))
	return true
}

// dropOperator takes an operator away with all that is below it.
func dropOperator(p *Program, i int) bool {
	if i >= len(p.Ops) {
		return false
	}
	gone := make([]bool, len(p.Ops))
	gone[i] = true
	for j, o := range p.Ops {
		for _, in := range o.In {
			gone[j] = gone[j] || gone[in]
		}
	}
	p.keep(func(j int) bool { return !gone[j] })
	return true
}

// bypassOperator takes an operator away and hangs what is below it on one of its handles.
func bypassOperator(p *Program, i int) bool {
	if i >= 2*len(p.Ops) {
		return false
	}
	at, which := i/2, i%2
	if which >= len(p.Ops[at].In) {
		return true
	}
	to := p.Ops[at].In[which]
	for j := range p.Ops {
		for k, in := range p.Ops[j].In {
			if in == at {
				p.Ops[j].In[k] = to
			}
		}
	}
	p.keep(func(j int) bool { return j != at })
	return true
}

// sourceInstead puts a source in the place of an operator.
func sourceInstead(p *Program, i int) bool {
	if i >= len(p.Ops)*len(p.Topics) {
		return false
	}
	types, err := p.Types()
	if err != nil {
		return true
	}
	at, topic := i/len(p.Topics), p.Topics[i%len(p.Topics)]
	name := map[Kind]string{Stream: "stream", Table: "table"}[types[at].Kind]
	if name != "" && len(p.Ops[at].In) > 0 && types[at].V == topic.V {
		p.Ops[at] = Op{Op: name, Topics: []string{topic.Name}}
		for j := len(p.Ops) - 1; j >= 0; j-- {
			if j < at && !slices.ContainsFunc(p.Ops[j+1:], func(o Op) bool { return slices.Contains(o.In, j) }) && operators[p.Ops[j].Op].out != None {
				p.keep(func(k int) bool { return k != j })
				at--
			}
		}
	}
	return true
}

// keep keeps some operators and counts places anew.
func (p *Program) keep(kept func(int) bool) {
	place := map[int]int{}
	var ops []Op
	for i, o := range p.Ops {
		if kept(i) {
			place[i] = len(ops)
			ops = append(ops, o)
		}
	}
	for i := range ops {
		for k, in := range ops[i].In {
			ops[i].In[k] = place[in]
		}
	}
	p.Ops = ops
}

// plainOperator takes one thing away from an operator.
func plainOperator(p *Program, i int) bool {
	changes := []func(o *Op){
		func(o *Op) { o.Name = "" },
		func(o *Op) { o.Store = "" },
		func(o *Op) { o.Knobs = nil },
		func(o *Op) { o.Store, o.Knobs = "", nil },
		func(o *Op) {
			if len(o.Knobs) > 1 {
				o.Knobs = o.Knobs[1:]
			}
		},
		func(o *Op) { o.Topics = o.Topics[:min(1, len(o.Topics))] },
		func(o *Op) { o.Grace = 0 },
		func(o *Op) { o.History, o.Retention = 0, 0 },
		func(o *Op) { o.Advance = o.Size },
		func(o *Op) { o.Before, o.After = max(0, o.Before), max(0, o.After) },
		func(o *Op) {
			if f := operators[o.Op].f; f != nil {
				o.F = f[0]
			}
		},
		func(o *Op) {
			if o.V != "" {
				o.V = Text
			}
		},
		func(o *Op) {
			if o.KF != "" {
				o.KF = "same"
			}
		},
	}
	if i >= len(p.Ops)*len(changes) {
		return false
	}
	changes[i%len(changes)](&p.Ops[i/len(changes)])
	return true
}

// plainEvent takes one thing away from an event.
func plainEvent(p *Program, i int) bool {
	changes := []func(e *Event){
		func(e *Event) { e.Headers = nil },
		func(e *Event) {
			if len(e.Headers) > 1 {
				e.Headers = e.Headers[1:]
			}
		},
		func(e *Event) { e.Time = 0 },
		func(e *Event) { e.Time /= 10 },
	}
	if i >= len(p.Input)*len(changes) {
		return false
	}
	changes[i%len(changes)](&p.Input[i/len(changes)])
	return true
}

// tidy drops topics that nobody reads, with their records.
func (p *Program) tidy() {
	read := func(topic string) bool { return p.reads(topic, Stream, Table, Global) }
	p.Topics = slices.DeleteFunc(p.Topics, func(t Topic) bool { return !read(t.Name) })
	p.Input = slices.DeleteFunc(p.Input, func(e Event) bool { return e.Clock == 0 && !read(e.Topic) })
}
