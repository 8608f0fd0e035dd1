package streams

import "time"

// ProcessFunc is the step of a node, as [Wrap] sees it.
type ProcessFunc func(info StepInfo) error

// StepInfo is what a wrapper may know about a step.
type StepInfo struct {
	Task      string
	Timestamp time.Time // of the record
	Headers   Headers   // of the record
}

// Wrap puts wrap around every processor of the topology, the DSL's own ones included: for tracing, fault injection, measuring (KIP-1112). It is called once
// per node and task, with the node's name and its step, and returns the step to take instead; sources and sinks are not wrapped. A step of next takes the
// record through the node and all that is below it. An error of the wrapper goes to [Config.OnProcessError], as one of the node would. What a cache holds back
// passes the nodes below when it is flushed.
func Wrap(wrap func(node string, next ProcessFunc) ProcessFunc) BuilderOnly {
	return BuilderOnly{func(o *builderOptions) { o.wrap = wrap }}
}

// wrapped is a node with a wrapper around it, as its parents see it.
type wrapped[K, V any] struct {
	base
	next sink[K, V]
	step ProcessFunc
	r    rec[K, V]
}

func wrapNode[K, V any](b base, next sink[K, V], wrap func(string, ProcessFunc) ProcessFunc) *wrapped[K, V] {
	w := &wrapped[K, V]{base: b, next: next}
	w.step = wrap(b.info.name, func(StepInfo) error {
		w.next.process(w.r)
		return nil
	})
	return w
}

func (w *wrapped[K, V]) process(r rec[K, V]) {
	w.enter()
	w.r = r
	if err := w.step(StepInfo{Task: w.t.id.String(), Timestamp: time.UnixMilli(r.ts).UTC(), Headers: r.headers}); err != nil {
		w.failed(ProcessRecord, err)
	}
}
