package oracle

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/streams/streamstest"
	"github.com/millrace/millrace/topology"
)

// limit is how many records a step may give. Programs that give more prove no more.
const limit = 20_000

// Run builds a program through package streams and runs it on streamstest.
func Run(p *Program) *Result {
	b, t, err := build(p)
	if err != nil {
		return &Result{Error: err.Error()}
	}
	r := &Result{Describe: t.Describe()}
	tb := &table{}
	err = tb.run(func() { drive(tb, b, t, p, r) })
	if err != nil {
		r.Error = err.Error()
	}
	return r
}

func drive(tb *table, b *builder, t *streams.Topology, p *Program, r *Result) {
	cfg := streams.Config{CacheBytes: -1}
	if p.Caching {
		cfg.CacheBytes = 0
	}
	d := streamstest.New(tb, t, streamstest.WithConfig(cfg))
	types := map[string]string{}
	inputs := map[string]*streamstest.Input[[]byte, []byte]{}
	outputs := map[string]*streamstest.Output[[]byte, []byte]{}
	bytesOf := func(name string) streams.Topic[[]byte, []byte] {
		return streams.NewTopic(name, serde.Bytes, serde.Bytes)
	}
	buffers := map[string]bool{} // changelogs
	var kept []string
	for _, s := range t.Graph().Subtopologies {
		for _, st := range s.Stores {
			kept = append(kept, st.Name)
			buffers["test-"+st.Name+"-changelog"] = st.Kind == topology.BufferStore
		}
	}
	for _, t := range p.Topics {
		types[t.Name] = t.V
		inputs[t.Name] = d.Input(bytesOf(t.Name))
		outputs[t.Name] = nil // what comes in is no result
	}
	for _, e := range p.Input {
		if e.Clock != 0 {
			d.AdvanceWallClock(ms(e.Clock))
		} else {
			inputs[e.Topic].PipeRecords(record(e, types[e.Topic]))
		}
		if err := d.Err(); err != nil {
			tb.Fatalf("%v", err)
		}
		step := Step{Calls: b.calls}
		b.calls = nil
		n := 0
		for _, name := range slices.Sorted(slices.Values(d.Topics())) {
			out, known := outputs[name]
			if !known {
				out = d.Output(bytesOf(name))
				outputs[name] = out
			}
			if out == nil || out.Empty() {
				continue
			}
			list := TopicRecords{Name: name, buffer: buffers[name]}
			for _, r := range out.ReadAll() {
				list.Records = append(list.Records, recordOf(r))
			}
			step.Topics = append(step.Topics, list)
			n += len(list.Records)
		}
		r.Steps = append(r.Steps, step)
		if n > limit {
			tb.Fatalf("a step gives more than %d records", limit)
		}
	}
	slices.SortFunc(b.stores, func(x, y rows) int { return strings.Compare(x.name, y.name) })
	for _, s := range b.stores {
		if slices.Contains(kept, s.name) {
			r.Stores = append(r.Stores, Store{s.name, s.read(d), s.windowed && (p.Caching || s.onClose)})
		}
	}
}

// record is an event as it is piped.
func record(e Event, v string) streams.Record[[]byte, []byte] {
	r := streams.Record[[]byte, []byte]{Timestamp: time.UnixMilli(e.Time).UTC(), NullKey: e.Key == nil, NullValue: e.Value == nil}
	if e.Key != nil {
		r.Key = []byte(*e.Key)
	}
	if e.Value != nil {
		r.Value = []byte(*e.Value)
		if v == Long {
			n, err := strconv.ParseInt(*e.Value, 10, 64)
			if err != nil {
				panic(fmt.Sprintf("oracle: the input has %q for a number", *e.Value))
			}
			r.Value = binary.BigEndian.AppendUint64(nil, uint64(n))
		}
	}
	for _, h := range e.Headers {
		var value []byte
		if h.Value != nil {
			value = []byte(*h.Value)
		}
		r = r.WithHeader(h.Key, value)
	}
	return r
}

func recordOf(r streams.Record[[]byte, []byte]) Record {
	out := Record{Key: r.Key, Value: r.Value, Time: r.Timestamp.UnixMilli()}
	for _, h := range r.Headers {
		out.Headers = append(out.Headers, RecordHeader{h.Key, h.Value})
	}
	return out
}

// table stands where streamstest wants a test: the oracle is also a command.
type table struct {
	testing.TB
	err     error
	cleanup []func()
}

// stopped is what Fatalf panics with.
type stopped struct{}

// run calls f and what it left to be cleaned up.
func (t *table) run(f func()) error {
	t.guard(f)
	for _, c := range slices.Backward(t.cleanup) {
		t.guard(c)
	}
	return t.err
}

func (t *table) guard(f func()) {
	defer func() {
		if r := recover(); r != nil {
			if _, ok := r.(stopped); !ok {
				panic(r)
			}
		}
	}()
	f()
}

func (t *table) Helper()                  {}
func (t *table) Cleanup(f func())         { t.cleanup = append(t.cleanup, f) }
func (t *table) Context() context.Context { return context.Background() }

func (t *table) Errorf(format string, args ...any) {
	if t.err == nil {
		t.err = fmt.Errorf(format, args...)
	}
}

func (t *table) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	panic(stopped{})
}

func (t *table) TempDir() string {
	dir, err := tempDir()
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// tempDir makes a folder for state, in memory where the system has such a place: databases that live for a moment spend it on waiting for the disk.
func tempDir() (string, error) {
	if dir, err := os.MkdirTemp("/dev/shm", "oracle"); err == nil {
		return dir, nil
	}
	return os.MkdirTemp("", "oracle")
}
