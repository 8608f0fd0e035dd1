package streamstest_test

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/streams/streamstest"
	"github.com/millrace/millrace/streams/window"
)

var latest = streams.NewKeyValueStore("latest", serde.String, serde.String)

// remembering keeps the last value of each key in the store latest.
func remembering(t testing.TB) *streams.Topology {
	b := streams.NewBuilder()
	b.Stream(lines).ProcessFunc(func(ctx *streams.Context[string, string], r streams.Record[string, string]) error {
		ctx.Store(latest).PutRecord(r)
		ctx.Forward(r)
		return nil
	}, streams.WithStores(latest)).To(result)
	return build(t, b)
}

func keys[K, V any](rows iter.Seq2[K, V]) string {
	var list []K
	for k := range rows {
		list = append(list, k)
	}
	return fmt.Sprint(list)
}

// A store over several partitions is one store.
func TestStoreOverPartitions(t *testing.T) {
	d := streamstest.New(t, remembering(t), streamstest.Partitions("lines", 4), streamstest.StartAt(start))
	in := d.Input(lines)
	var all []string
	for c := 'a'; c <= 'j'; c++ {
		in.Pipe(string(c), string(c-'a'+'A'))
		all = append(all, string(c))
	}
	store := d.Store(latest)
	spread := 0
	for p := range 4 {
		if n := d.StoreOf(latest, p).ApproximateLen(); n > 0 {
			spread++
		}
	}
	if spread < 2 {
		t.Fatal("all keys are in one partition")
	}
	if v, ok := store.Get("c"); v != "C" || !ok {
		t.Errorf("c is %q, %t", v, ok)
	}
	if _, ok := store.Get("z"); ok {
		t.Error("z is there")
	}
	for name, c := range map[string]struct {
		rows iter.Seq2[string, string]
		want []string
	}{
		"all":      {store.All(), all},
		"range":    {store.Range(streams.Key("c"), streams.Key("f")), all[2:6]},
		"from":     {store.Range(streams.Key("h"), streams.Bound[string]{}), all[7:]},
		"backward": {store.Backward(streams.Bound[string]{}, streams.Key("b")), []string{"b", "a"}},
		"prefix":   {store.Prefix([]byte("d")), all[3:4]},
	} {
		if got := keys(c.rows); got != fmt.Sprint(c.want) {
			t.Errorf("%s: got %s, want %v", name, got, c.want)
		}
	}
	if n := store.ApproximateLen(); n != 10 {
		t.Errorf("there are %d rows", n)
	}
	for range store.All() {
		break // is allowed
	}

	d.AdvanceWallClock(time.Minute)
	store.Put("z", "Z")
	if r, ok := store.GetRecord("z"); !ok || !r.Timestamp.Equal(start.Add(time.Minute)) {
		t.Errorf("z is %v, %t: it should have the time of the wall clock", r, ok)
	}
	store.PutRecord(streams.Record[string, string]{Key: "y", Value: "Y", Timestamp: time.UnixMilli(5)})
	if r, ok := store.GetRecord("y"); !ok || r.Timestamp.UnixMilli() != 5 {
		t.Errorf("y is %v, %t", r, ok)
	}
	if old, ok := store.PutIfAbsent("z", "no"); old != "Z" || !ok {
		t.Errorf("the old z is %q, %t", old, ok)
	}
	if old, ok := store.PutIfAbsent("x", "X"); ok {
		t.Errorf("the old x is %q", old)
	}
	if old, ok := store.Delete("a"); old != "A" || !ok {
		t.Errorf("the deleted a is %q, %t", old, ok)
	}
	if got, want := keys(store.All()), "[b c d e f g h i j x y z]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	// What the test wrote is committed, also where it went by the key, and is there for processors.
	d.Restart(streamstest.StateLost)
	if got, want := keys(store.All()), "[b c d e f g h i j x y z]"; got != want {
		t.Errorf("after a restart: got %s, want %s", got, want)
	}
}

// A key is looked for where it is, also when that is not where its bytes say.
func TestStoreFindsStrayKeys(t *testing.T) {
	d := streamstest.New(t, remembering(t), streamstest.Partitions("lines", 3))
	in := d.Input(lines)
	for p := range 3 {
		in.To(p).Pipe(fmt.Sprintf("in-%d", p), "1")
	}
	store := d.Store(latest)
	for p := range 3 {
		key := fmt.Sprintf("in-%d", p)
		if v, _ := store.Get(key); v != "1" {
			t.Errorf("%s is not found", key)
		}
		store.Put(key, "2")
		if v, _ := d.StoreOf(latest, p).Get(key); v != "2" {
			t.Errorf("%s was put elsewhere", key)
		}
		if n := d.StoreOf(latest, p).ApproximateLen(); n != 1 {
			t.Errorf("partition %d has %d rows", p, n)
		}
	}
}

func TestWindowStoreOverPartitions(t *testing.T) {
	b := streams.NewBuilder()
	perMinute := b.Stream(lines).GroupByKey().WindowedBy(window.Tumbling(time.Minute)).Count("per-minute", streams.Retention(time.Hour))
	d := streamstest.New(t, build(t, b), streamstest.Partitions("lines", 3), streamstest.StartAt(start))
	in := d.Input(lines)
	for i := range 3 {
		for _, k := range []string{"a", "b", "c", "d"} {
			in.PipeAt(start.Add(time.Duration(i)*time.Minute), k, "")
		}
	}
	store, minute := d.Store(perMinute.WindowStore()), func(i int) time.Time { return start.Add(time.Duration(i) * time.Minute) }
	if n, ok := store.Get("c", minute(1)); n != 1 || !ok {
		t.Errorf("c has %d, %t", n, ok)
	}
	if got, want := starts(store.Fetch("b", minute(0), minute(1))), "b0 b1"; got != want {
		t.Errorf("fetch: got %s, want %s", got, want)
	}
	if got, want := starts(store.Backward("b", minute(0), minute(2))), "b2 b1 b0"; got != want {
		t.Errorf("backward: got %s, want %s", got, want)
	}
	sorted := func(rows iter.Seq2[window.Windowed[string], int64]) int {
		n := 0
		for range rows {
			n++
		}
		return n
	}
	if n := sorted(store.All()); n != 12 {
		t.Errorf("there are %d rows", n)
	}
	if n := sorted(store.FetchRange(streams.Key("b"), streams.Key("c"), minute(1), minute(2))); n != 4 {
		t.Errorf("the range has %d rows", n)
	}
	store.Put("new", 7, minute(2))
	store.Delete("a", minute(0))
	if n, _ := store.Get("new", minute(2)); n != 7 {
		t.Errorf("new has %d", n)
	}
	if got, want := starts(store.Fetch("a", minute(0), minute(5))), "a1 a2"; got != want {
		t.Errorf("after a delete: got %s, want %s", got, want)
	}
}

// starts shows windowed keys as key and minute.
func starts[V any](rows iter.Seq2[window.Windowed[string], V]) string {
	var s []string
	for k := range rows {
		s = append(s, fmt.Sprintf("%s%d", k.Key, k.Start.Minute()))
	}
	return fmt.Sprint(s)[1 : len(fmt.Sprint(s))-1]
}

// Mistakes with stores fail the test, and say what is there.
func TestStoreMistakes(t *testing.T) {
	topology := remembering(t)
	open := func(tb testing.TB) *streamstest.Driver { return streamstest.New(tb, topology) }
	fails(t, func(tb testing.TB) { open(tb).Store(streams.NewKeyValueStore("latets", serde.String, serde.String)) }, `no task has the store "latets"; there are ["latest"]`)
	fails(t, func(tb testing.TB) { open(tb).StoreOf(latest, 1) }, `no task has the store "latest"`)
	fails(t, func(tb testing.TB) { open(tb).Store(streams.NewKeyValueStore("latest", serde.String, serde.Int64)) }, `the store "latest" has other types`)
	fails(t, func(tb testing.TB) {
		open(tb).Store(streams.NewWindowStore("latest", serde.String, serde.String, time.Hour))
	}, `the store "latest" has other types`)
	fails(t, func(tb testing.TB) {
		open(tb).FailStore(streams.NewKeyValueStore("latets", serde.String, serde.String), errors.New("broken"))
	}, `no task has the store "latets"`)

	refuse := serde.Func(func(dst []byte, v string) ([]byte, error) { return nil, errors.New("no bytes for " + v) }, func(data []byte) (string, error) { return string(data), nil })
	picky := streams.NewKeyValueStore("picky", serde.String, refuse)
	b := streams.NewBuilder()
	b.Stream(lines).ProcessFunc(func(*streams.Context[string, string], streams.Record[string, string]) error { return nil }, streams.WithStores(picky))
	topology = build(t, b)
	fails(t, func(tb testing.TB) { open(tb).Store(picky).Put("k", "v") }, "store picky: encode value: no bytes for v")
}

// An iterator that a processor leaves open fails the test, once per commit.
func TestIteratorLeak(t *testing.T) {
	b := streams.NewBuilder()
	var stop func()
	b.Stream(lines).ProcessFunc(func(ctx *streams.Context[string, string], r streams.Record[string, string]) error {
		ctx.Store(latest).Put(r.Key, r.Value)
		var next func() (string, string, bool)
		next, stop = iter.Pull2(ctx.Store(latest).All())
		if _, _, ok := next(); !ok {
			return errors.New("nothing to iterate")
		}
		if r.Value == "closed" {
			stop()
		}
		return nil
	}, streams.WithStores(latest))
	topology := build(t, b)
	fails(t, func(tb testing.TB) {
		in := streamstest.New(tb, topology).Input(lines)
		in.Pipe("k", "closed")
		in.Pipe("k", "open")
	}, `task 0_0 has left 1 iterators of the store "latest" open`)
	stop()
	fails(t, func(tb testing.TB) {
		streamstest.New(tb, topology, streamstest.CommitEvery(0)).Input(lines).Pipe("k", "open")
	},
		`task 0_0 has left 1 iterators of the store "latest" open`)
	stop()
}

// A test may write while it reads.
func TestStoreReadsBeforeItYields(t *testing.T) {
	d := streamstest.New(t, remembering(t), streamstest.Partitions("lines", 2))
	in, store := d.Input(lines), d.Store(latest)
	for _, k := range []string{"a", "b", "c"} {
		in.Pipe(k, "1")
	}
	var seen []string
	for k := range store.All() {
		seen = append(seen, k)
		store.Delete(k)
		in.Pipe(k+k, "2")
	}
	if want := []string{"a", "b", "c"}; !slices.Equal(seen, want) {
		t.Errorf("got %q, want %q", seen, want)
	}
	if got, want := keys(store.All()), "[aa bb cc]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
