package streams_test

import (
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/streams/streamstest"
	"github.com/millrace/millrace/streams/window"
)

// inProcessor is a processor with some stores that runs whatever a test gives it.
type inProcessor struct {
	t    *testing.T
	d    *streamstest.Driver
	in   *streamstest.Input[string, string]
	step func(ctx *streams.Context[string, string])
}

func newInProcessor(t *testing.T, stores ...streams.StoreRef) *inProcessor {
	p := &inProcessor{t: t}
	topic := streams.NewTopic("in", serde.String, serde.String)
	b := streams.NewBuilder()
	b.Stream(topic).ProcessFunc(func(ctx *streams.Context[string, string], r streams.Record[string, string]) error {
		p.step(ctx)
		return nil
	}, streams.WithStores(stores...))
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	p.d = streamstest.New(t, topology, streamstest.CommitEvery(0))
	p.in = p.d.Input(topic)
	return p
}

// at runs a step as the processing of a record of a time.
func (p *inProcessor) at(ms int64, headers streams.Headers, step func(ctx *streams.Context[string, string])) {
	p.t.Helper()
	p.step = step
	p.in.PipeRecords(streams.Record[string, string]{Key: "k", Value: "v", Timestamp: time.UnixMilli(ms), Headers: headers})
}

// storeKinds are the ways in which a store may be kept.
var storeKinds = map[string][]streams.StoreOption{
	"disk": nil, "memory": {streams.InMemory}, "cache": {streams.Caching}, "memory and cache": {streams.InMemory, streams.Caching}, "no changelog": {streams.NoLogging},
}

// eachKind runs a test for every kind of store, with rows that are committed where they are read, and with rows that are not.
func eachKind(t *testing.T, f func(t *testing.T, opts []streams.StoreOption, settle func(p *inProcessor))) {
	for kind, opts := range storeKinds {
		for name, settle := range map[string]func(p *inProcessor){
			"uncommitted": func(*inProcessor) {}, "committed": func(p *inProcessor) { p.d.Commit() }, "restarted": func(p *inProcessor) { p.d.Restart() },
		} {
			t.Run(strings.ReplaceAll(kind+"/"+name, " ", "-"), func(t *testing.T) { f(t, opts, settle) })
		}
	}
}

func pairsText[K, V any](rows iter.Seq2[K, V]) string {
	var s []string
	for k, v := range rows {
		s = append(s, fmt.Sprintf("%v=%v", k, v))
	}
	return strings.Join(s, " ")
}

// F-158, F-160.
func TestKeyValueStoreInAProcessor(t *testing.T) {
	eachKind(t, func(t *testing.T, opts []streams.StoreOption, settle func(p *inProcessor)) {
		h := streams.NewKeyValueStore("kv", serde.String, serde.Int64, opts...)
		p := newInProcessor(t, h)
		p.at(1000, nil, func(ctx *streams.Context[string, string]) {
			s := ctx.Store(h)
			if _, ok := s.Get("a"); ok {
				t.Error("a is there before anything was put")
			}
			if s.ApproximateLen() != 0 || pairsText(s.All()) != "" {
				t.Error("the store is not empty")
			}
			for i, k := range []string{"a", "ab", "abc", "b", "c"} {
				s.Put(k, int64(i))
			}
			s.Put("a", 10) // overwrites
			s.PutRecord(streams.Record[string, int64]{Key: "d", Value: 4, Timestamp: time.UnixMilli(50)})
			s.Put("zero", 0)
		})
		settle(p)
		p.at(2000, nil, func(ctx *streams.Context[string, string]) {
			s := ctx.Store(h)
			if v, ok := s.Get("a"); v != 10 || !ok {
				t.Errorf("a is %d, %t", v, ok)
			}
			if v, ok := s.Get("zero"); v != 0 || !ok {
				t.Errorf("zero is %d, %t", v, ok)
			}
			if r, ok := s.GetRecord("a"); !ok || r.Key != "a" || r.Value != 10 || r.Timestamp != time.UnixMilli(1000).UTC() || r.NullKey || r.NullValue {
				t.Errorf("the record of a is %v, %t: a put has the time of the record at hand", r, ok)
			}
			if r, ok := s.GetRecord("d"); !ok || r.Timestamp.UnixMilli() != 50 {
				t.Errorf("the record of d is %v, %t: it has a time of its own", r, ok)
			}
			if r, ok := s.GetRecord("nobody"); ok || r.Key != "" {
				t.Errorf("nobody is %v", r)
			}

			none := streams.Bound[string]{}
			for name, c := range map[string]struct{ got, want string }{
				"all":              {pairsText(s.All()), "a=10 ab=1 abc=2 b=3 c=4 d=4 zero=0"},
				"range":            {pairsText(s.Range(streams.Key("ab"), streams.Key("c"))), "ab=1 abc=2 b=3 c=4"},
				"range of one":     {pairsText(s.Range(streams.Key("b"), streams.Key("b"))), "b=3"},
				"range up":         {pairsText(s.Range(streams.Key("c"), none)), "c=4 d=4 zero=0"},
				"range down":       {pairsText(s.Range(none, streams.Key("ab"))), "a=10 ab=1"},
				"range of all":     {pairsText(s.Range(none, none)), "a=10 ab=1 abc=2 b=3 c=4 d=4 zero=0"},
				"range between":    {pairsText(s.Range(streams.Key("aa"), streams.Key("abb"))), "ab=1"},
				"range reversed":   {pairsText(s.Range(streams.Key("c"), streams.Key("a"))), ""},
				"backward":         {pairsText(s.Backward(none, none)), "zero=0 d=4 c=4 b=3 abc=2 ab=1 a=10"},
				"backward, bounds": {pairsText(s.Backward(streams.Key("ab"), streams.Key("b"))), "b=3 abc=2 ab=1"},
				"prefix":           {pairsText(s.Prefix([]byte("ab"))), "ab=1 abc=2"},
				"prefix of all":    {pairsText(s.Prefix(nil)), "a=10 ab=1 abc=2 b=3 c=4 d=4 zero=0"},
				"prefix of none":   {pairsText(s.Prefix([]byte("x"))), ""},
			} {
				if c.got != c.want {
					t.Errorf("%s: got %q, want %q", name, c.got, c.want)
				}
			}
			if n := s.ApproximateLen(); n != 7 {
				t.Errorf("there are %d rows, want 7", n)
			}

			if old, ok := s.PutIfAbsent("b", 30); old != 3 || !ok {
				t.Errorf("b was %d, %t", old, ok)
			}
			if old, ok := s.PutIfAbsent("new", 7); old != 0 || ok {
				t.Errorf("new was %d, %t", old, ok)
			}
			if old, ok := s.Delete("ab"); old != 1 || !ok {
				t.Errorf("ab was %d, %t", old, ok)
			}
			if old, ok := s.Delete("ab"); old != 0 || ok {
				t.Errorf("ab was %d, %t, after it was deleted", old, ok)
			}
			s.PutRecord(streams.Record[string, int64]{Key: "abc", NullValue: true, Timestamp: time.UnixMilli(3)})
			if got, want := pairsText(s.All()), "a=10 b=3 c=4 d=4 new=7 zero=0"; got != want {
				t.Errorf("after deletions: got %q, want %q", got, want)
			}
			if r, _ := s.GetRecord("new"); r.Timestamp.UnixMilli() != 2000 {
				t.Errorf("new is of %v", r.Timestamp)
			}
		})
		settle(p)
		p.at(3000, nil, func(ctx *streams.Context[string, string]) {
			s := ctx.Store(h)
			if got, want := pairsText(s.All()), "a=10 b=3 c=4 d=4 new=7 zero=0"; got != want {
				t.Errorf("later: got %q, want %q", got, want)
			}
			for k := range s.All() { // a loop may end early, and may write
				s.Put(k, 99)
				break
			}
			for k := range s.All() {
				s.Delete(k)
			}
			if got := pairsText(s.All()); got != "" {
				t.Errorf("after deleting all: got %q", got)
			}
		})
	})
}

// F-164.
func TestWindowStoreInAProcessor(t *testing.T) {
	eachKind(t, func(t *testing.T, opts []streams.StoreOption, settle func(p *inProcessor)) {
		h := streams.NewWindowStore("w", serde.String, serde.String, 10*time.Millisecond, append([]streams.StoreOption{streams.Retention(time.Hour)}, opts...)...)
		p := newInProcessor(t, h)
		ms := func(n int64) time.Time { return time.UnixMilli(n).UTC() }
		rows := func(rows iter.Seq2[window.Windowed[string], string]) string {
			var s []string
			for k, v := range rows {
				if k.End.Sub(k.Start) != 10*time.Millisecond {
					t.Errorf("%v has another size than the store", k)
				}
				s = append(s, fmt.Sprintf("%s@%d=%s", k.Key, k.Start.UnixMilli(), v))
			}
			return strings.Join(s, " ")
		}
		p.at(1000, nil, func(ctx *streams.Context[string, string]) {
			s := ctx.Store(h)
			if _, ok := s.Get("a", ms(0)); ok || rows(s.All()) != "" {
				t.Error("the store is not empty")
			}
			for _, k := range []string{"a", "ab", "b"} {
				for start := int64(0); start < 40; start += 10 {
					s.Put(k, fmt.Sprint(start), ms(start))
				}
			}
			s.Put("a", "again", ms(10))
			s.Put("", "", ms(20)) // an empty key and an empty value
		})
		settle(p)
		p.at(1000, nil, func(ctx *streams.Context[string, string]) {
			s := ctx.Store(h)
			if v, ok := s.Get("a", ms(10)); v != "again" || !ok {
				t.Errorf("a at 10 is %q, %t", v, ok)
			}
			if v, ok := s.Get("", ms(20)); v != "" || !ok {
				t.Errorf("the empty key at 20 is %q, %t", v, ok)
			}
			if _, ok := s.Get("a", ms(5)); ok {
				t.Error("a has a window that starts at 5")
			}
			none := streams.Bound[string]{}
			for name, c := range map[string]struct{ got, want string }{
				"fetch":               {rows(s.Fetch("a", ms(10), ms(20))), "a@10=again a@20=20"},
				"fetch all of a key":  {rows(s.Fetch("a", ms(0), ms(1000))), "a@0=0 a@10=again a@20=20 a@30=30"},
				"fetch between":       {rows(s.Fetch("a", ms(11), ms(19))), ""},
				"fetch reversed":      {rows(s.Fetch("a", ms(20), ms(10))), ""},
				"fetch of nobody":     {rows(s.Fetch("nobody", ms(0), ms(1000))), ""},
				"backward":            {rows(s.Backward("a", ms(0), ms(20))), "a@20=20 a@10=again a@0=0"},
				"range of keys":       {rows(s.FetchRange(streams.Key("a"), streams.Key("ab"), ms(10), ms(10))), "a@10=again ab@10=10"},
				"range of times":      {rows(s.FetchRange(none, none, ms(30), ms(30))), "a@30=30 ab@30=30 b@30=30"},
				"range with one end":  {rows(s.FetchRange(streams.Key("b"), none, ms(0), ms(9))), "b@0=0"},
				"range of no keys":    {rows(s.FetchRange(streams.Key("x"), none, ms(0), ms(9))), ""},
				"the empty key":       {rows(s.Fetch("", ms(0), ms(1000))), "@20="},
				"all of the last one": {rows(s.FetchRange(streams.Key("b"), streams.Key("b"), ms(0), ms(1000))), "b@0=0 b@10=10 b@20=20 b@30=30"},
			} {
				if c.got != c.want {
					t.Errorf("%s: got %q, want %q", name, c.got, c.want)
				}
			}
			if n := len(strings.Fields(rows(s.All()))); n != 13 {
				t.Errorf("there are %d rows, want 13: %s", n, rows(s.All()))
			}
			s.Delete("a", ms(10))
			s.Delete("nobody", ms(10))
			if got, want := rows(s.Fetch("a", ms(0), ms(1000))), "a@0=0 a@20=20 a@30=30"; got != want {
				t.Errorf("after a deletion: got %q, want %q", got, want)
			}
		})
		settle(p)
		p.at(1000, nil, func(ctx *streams.Context[string, string]) {
			if got, want := rows(ctx.Store(h).Fetch("a", ms(0), ms(1000))), "a@0=0 a@20=20 a@30=30"; got != want {
				t.Errorf("later: got %q, want %q", got, want)
			}
		})
	})
}

// Rows of a window store live as long as its retention, in stream time. F-091.
func TestWindowStoreForgets(t *testing.T) {
	h := streams.NewWindowStore("w", serde.String, serde.String, time.Minute, streams.Retention(time.Hour))
	p := newInProcessor(t, h)
	start := time.UnixMilli(0).UTC()
	p.at(0, nil, func(ctx *streams.Context[string, string]) { ctx.Store(h).Put("k", "old", start) })
	p.at(0, nil, func(ctx *streams.Context[string, string]) {
		ctx.Store(h).Put("k", "new", start.Add(2*time.Hour))
		if v, ok := ctx.Store(h).Get("k", start); ok {
			t.Errorf("two hours later the row is %q", v)
		}
		ctx.Store(h).Put("k", "too late", start) // is dropped
		if got := pairsText(ctx.Store(h).Fetch("k", start, start.Add(3*time.Hour))); strings.Contains(got, "late") || !strings.Contains(got, "new") {
			t.Errorf("there is %s", got)
		}
	})
}

// What a nil means: nothing for Put and PutRecord but a deletion.
func TestNilInStores(t *testing.T) {
	h := streams.NewKeyValueStore("kv", serde.String, serde.Pointer(serde.String))
	w := streams.NewWindowStore("w", serde.String, serde.Pointer(serde.String), time.Minute)
	p := newInProcessor(t, h, w)
	v, start := "v", time.UnixMilli(0)
	p.at(1, nil, func(ctx *streams.Context[string, string]) {
		ctx.Store(h).Put("put", &v)
		ctx.Store(h).Put("record", &v)
		ctx.Store(h).Put("absent", nil)
		ctx.Store(w).Put("put", &v, start)
	})
	p.at(2, nil, func(ctx *streams.Context[string, string]) {
		s := ctx.Store(h)
		s.Put("put", nil)
		s.PutRecord(streams.Record[string, *string]{Key: "record", Timestamp: time.UnixMilli(2)})
		if old, ok := s.PutIfAbsent("absent", nil); old != nil || ok {
			t.Errorf("absent was %v, %t", old, ok)
		}
		for k := range s.All() {
			t.Errorf("%s is there", k)
		}
		ctx.Store(w).Put("put", nil, start)
		for k := range ctx.Store(w).All() {
			t.Errorf("%v is there", k)
		}
	})
	// B-056: a record with a null key has no place in a store; it must not go to the zero key.
	p.at(3, nil, func(ctx *streams.Context[string, string]) {
		ctx.Store(h).PutRecord(streams.Record[string, *string]{NullKey: true, Value: &v})
	})
	if e, ok := errors.AsType[*streams.StoreError](p.d.Err()); !ok || e.Store != "kv" || !strings.Contains(e.Error(), "key is null") {
		t.Errorf("a null key: %v", p.d.Err())
	}
}

// The changelog has what was put, in order, with the time it was put at; a deletion is a tombstone also where there was nothing, as in Kafka Streams. Headers
// are not written, F-157.
func TestChangelogOfAProcessorsStore(t *testing.T) {
	h := streams.NewKeyValueStore("kv", serde.String, serde.String)
	p := newInProcessor(t, h)
	header := streams.Headers{{Key: "h", Value: []byte("x")}}
	p.at(100, header, func(ctx *streams.Context[string, string]) {
		s := ctx.Store(h)
		s.Put("a", "1")
		s.Put("a", "2")
		s.PutRecord(streams.Record[string, string]{Key: "b", Value: "3", Timestamp: time.UnixMilli(7), Headers: header})
		s.PutIfAbsent("b", "4")
		s.Delete("a")
		s.Delete("nobody")
	})
	var got []string
	for _, r := range p.d.Output(streams.NewTopic("test-kv-changelog", serde.String, serde.String)).ReadAll() {
		v := r.Value
		if r.NullValue {
			v = "null"
		}
		if len(r.Headers) > 0 {
			t.Errorf("%s has headers %v", r.Key, r.Headers)
		}
		got = append(got, fmt.Sprintf("%s=%s@%d", r.Key, v, r.Timestamp.UnixMilli()))
	}
	if got, want := strings.Join(got, " "), "a=1@100 a=2@100 b=3@7 a=null@100 nobody=null@100"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// What a processor puts into the store of a table goes downstream when the cache is flushed, with time and headers.
func TestPutsReachTheTableBelowACache(t *testing.T) {
	in, out := streams.NewTopic("in", serde.String, serde.String), streams.NewTopic("out", serde.String, serde.String)
	b := streams.NewBuilder()
	table := b.Table(streams.NewTopic("rows", serde.String, serde.String), streams.Materialized("t"))
	table.ToStream().To(out)
	b.Stream(in).ProcessFunc(func(ctx *streams.Context[streams.None, streams.None], r streams.Record[string, string]) error {
		ctx.Store(table.Store()).PutRecord(r)
		return nil
	}, streams.WithStores(table.Store()))
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	d := streamstest.New(t, topology)
	r := streams.Record[string, string]{Key: "k", Value: "v", Timestamp: time.UnixMilli(5), Headers: streams.Headers{{Key: "h", Value: []byte("x")}}}
	d.Input(in).PipeRecords(r)
	d.Output(out).Expect(r)
}

// A value that does not decode any more ends the task with the name of the store, and nothing derived from it is sent.
func TestStoreWithBytesOfAnotherType(t *testing.T) {
	h := streams.NewKeyValueStore("kv", serde.String, serde.Func(
		func(dst []byte, v string) ([]byte, error) { return append(dst, v...), nil },
		func(data []byte) (string, error) {
			if string(data) == "bad" {
				return "", errors.New("bad bytes")
			}
			return string(data), nil
		}))
	for name, use := range map[string]func(s streams.KeyValueStore[string, string]){
		"get": func(s streams.KeyValueStore[string, string]) { s.Get("k") },
		"all": func(s streams.KeyValueStore[string, string]) { pairsText(s.All()) },
		"range": func(s streams.KeyValueStore[string, string]) {
			pairsText(s.Backward(streams.Key("a"), streams.Key("z")))
		},
	} {
		p := newInProcessor(t, h)
		p.at(1, nil, func(ctx *streams.Context[string, string]) { ctx.Store(h).Put("k", "bad") })
		p.at(2, nil, func(ctx *streams.Context[string, string]) {
			use(ctx.Store(h))
			t.Errorf("%s: it goes on", name)
		})
		e, ok := errors.AsType[*streams.StoreError](p.d.Err())
		if !ok || e.Store != "kv" || !strings.Contains(e.Error(), "bad bytes") {
			t.Errorf("%s: got %v", name, p.d.Err())
		}
	}
}

// A store that was not given to the operator is a bug of the program. F-133, F-149.
func TestStoreThatWasNotGiven(t *testing.T) {
	h := streams.NewKeyValueStore("kv", serde.String, serde.String)
	p := newInProcessor(t)
	p.at(1, nil, func(ctx *streams.Context[string, string]) { ctx.Store(h) })
	if e, ok := errors.AsType[*streams.PanicError](p.d.Err()); !ok || !strings.Contains(fmt.Sprint(e.Value), `store "kv" was not given`) {
		t.Errorf("got %v", p.d.Err())
	}
}
