package streamstest_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/streams/streamstest"
)

var exactlyOnce = streamstest.WithConfig(streams.Config{Guarantee: streams.ExactlyOnce})

func TestCommitEvery(t *testing.T) {
	for n, want := range map[int]string{
		0: "",
		1: "a=1 a=2 a=3 a=4 a=5",
		2: "a=2 a=4",
		5: "a=5",
		9: "",
	} {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			b := streams.NewBuilder()
			b.Stream(lines).GroupByKey().Count("counts").ToStream().To(counts)
			d := streamstest.New(t, build(t, b), streamstest.CommitEvery(n))
			in, out := d.Input(lines), d.Output(counts)
			for range 5 {
				in.Pipe("a", "")
			}
			var got []string
			for _, r := range out.ReadAll() {
				got = append(got, fmt.Sprintf("%s=%d", r.Key, r.Value))
			}
			if got := strings.Join(got, " "); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			d.Commit()
			if last, ok := d.Store(streams.NewKeyValueStore("counts", serde.String, serde.Int64)).Get("a"); last != 5 || !ok {
				t.Errorf("the count is %d, %t", last, ok)
			}
			if all := d.Output(counts).ReadAll(); all[len(all)-1].Value != 5 {
				t.Errorf("after a commit the last is %v", all[len(all)-1])
			}
		})
	}
}

// A processor that asks for a commit gets one after the record. F-148.
func TestRequestCommit(t *testing.T) {
	b := streams.NewBuilder()
	s := b.Stream(lines).ProcessValuesFunc(func(ctx *streams.FixedKeyContext[string, string], r streams.FixedKeyRecord[string, string]) error {
		if v, _ := r.Get(); v == "commit" {
			ctx.RequestCommit()
		}
		ctx.Forward(r)
		return nil
	})
	s.ToTable(streams.Materialized("table")).ToStream().To(result)
	d := streamstest.New(t, build(t, b), streamstest.CommitEvery(0))
	in, out := d.Input(lines), d.Output(result)
	in.Pipe("a", "1")
	in.Pipe("a", "2")
	out.Expect()
	in.Pipe("b", "commit")
	out.Expect(in.Record("a", "2"), in.Record("b", "commit"))
	in.Pipe("a", "3")
	out.Expect()
}

// What survives a restart: with the state directory, without it, and without a clean stop. F-191.
func TestRestartsAndStores(t *testing.T) {
	kinds := map[string][]streams.StoreOption{
		"disk": nil, "memory": {streams.InMemory}, "disk without a changelog": {streams.NoLogging}, "memory without a changelog": {streams.InMemory, streams.NoLogging},
	}
	for _, c := range []struct {
		name    string
		restart func(d *streamstest.Driver)
		want    map[string]string // keys by kind of store: a was committed, b was not
	}{
		{"restart", func(d *streamstest.Driver) { d.Restart() },
			map[string]string{"disk": "[a b]", "memory": "[a b]", "disk without a changelog": "[a b]", "memory without a changelog": "[]"}},
		{"restart without state", func(d *streamstest.Driver) { d.Restart(streamstest.StateLost) },
			map[string]string{"disk": "[a b]", "memory": "[a b]", "disk without a changelog": "[]", "memory without a changelog": "[]"}},
		{"crash", func(d *streamstest.Driver) { d.Crash() },
			map[string]string{"disk": "[a b]", "memory": "[a b]", "disk without a changelog": "[a b]", "memory without a changelog": "[b]"}},
		{"crash without state", func(d *streamstest.Driver) { d.Crash(streamstest.StateLost) },
			map[string]string{"disk": "[a b]", "memory": "[a b]", "disk without a changelog": "[b]", "memory without a changelog": "[b]"}},
	} {
		for kind, opts := range kinds {
			for _, guarantee := range []streams.Guarantee{streams.AtLeastOnce, streams.ExactlyOnce} {
				t.Run(strings.ReplaceAll(fmt.Sprintf("%s/%s/%d", c.name, kind, guarantee), " ", "-"), func(t *testing.T) {
					store := streams.NewKeyValueStore("store", serde.String, serde.String, opts...)
					b := streams.NewBuilder()
					b.Stream(lines).ProcessFunc(func(ctx *streams.Context[streams.None, streams.None], r streams.Record[string, string]) error {
						ctx.Store(store).Put(r.Key, r.Value)
						return nil
					}, streams.WithStores(store))
					d := streamstest.New(t, build(t, b), streamstest.CommitEvery(0), streamstest.WithConfig(streams.Config{Guarantee: guarantee}))
					in := d.Input(lines)
					in.Pipe("a", "1")
					d.Commit()
					in.Pipe("b", "1")
					c.restart(d)
					if got := keys(d.Store(store).All()); got != c.want[kind] {
						t.Errorf("got %s, want %s", got, c.want[kind])
					}
				})
			}
		}
	}
}

// The directory is really gone, files of processors included.
func TestStateLostRemovesTheDirectory(t *testing.T) {
	var found []bool
	b := streams.NewBuilder()
	b.Stream(lines).ProcessFunc(func(ctx *streams.Context[streams.None, streams.None], r streams.Record[string, string]) error {
		file := filepath.Join(ctx.StateDir(), "note")
		_, err := os.Stat(file)
		found = append(found, err == nil)
		ctx.Store(latest).Put(r.Key, r.Value)
		return os.WriteFile(file, []byte(r.Value), 0o600)
	}, streams.WithStores(latest))
	d := streamstest.New(t, build(t, b))
	in := d.Input(lines)
	in.Pipe("k", "1")
	d.Restart()
	in.Pipe("k", "2")
	d.Restart(streamstest.StateLost)
	in.Pipe("k", "3")
	if want := []bool{false, true, false}; !slices.Equal(found, want) {
		t.Errorf("got %v, want %v", found, want)
	}
}

// Under at least once a crash repeats results; under exactly once nobody sees those of the transaction that it ended.
func TestCrash(t *testing.T) {
	count := func() *streams.Topology {
		b := streams.NewBuilder()
		b.Stream(lines).GroupBy(func(_, w string) string { return w }).Count("counts", streams.NoCaching).ToStream().To(counts)
		return build(t, b)
	}
	feed := func(d *streamstest.Driver) string {
		in, out := d.Input(lines), d.Output(counts)
		in.PipeValues("a")
		d.Commit()
		in.PipeValues("a", "b")
		d.Crash()
		in.PipeValues("a")
		d.Commit()
		var got []string
		for _, r := range out.ReadAll() {
			got = append(got, fmt.Sprintf("%s=%d", r.Key, r.Value))
		}
		return strings.Join(got, " ")
	}
	// The counts of the aborted records were in the changelog: 2 for a and 1 for b are found again, and counted once more.
	if got, want := feed(streamstest.New(t, count(), streamstest.CommitEvery(0))), "a=1 a=2 b=1 a=3 b=2 a=4 b=3 a=5"; got != want {
		t.Errorf("at least once: got %q, want %q", got, want)
	}
	d := streamstest.New(t, count(), streamstest.CommitEvery(0), exactlyOnce)
	if got, want := feed(d), "a=1 a=2 b=1 a=3"; got != want {
		t.Errorf("exactly once: got %q, want %q", got, want)
	}
	if got := d.Output(streams.NewTopic("test-counts-changelog", serde.String, serde.Int64)).ReadAll(); len(got) != 4 {
		t.Errorf("the changelog has %v", got)
	}
}

// Outputs under exactly once are those of committed transactions, and nothing overtakes an open one.
func TestExactlyOnceHidesWhatIsNotCommitted(t *testing.T) {
	d := streamstest.New(t, passing(t), streamstest.CommitEvery(0), exactlyOnce)
	in, out := d.Input(lines), d.Output(result)
	in.Pipe("a", "1")
	d.Input(result).Pipe("x", "written by the test")
	out.Expect()
	d.Commit()
	out.Expect(in.Record("a", "1"), in.Record("x", "written by the test"))
	in.Pipe("b", "1")
	d.Crash()
	out.Expect() // b was aborted, and is done again in a transaction that is open
	d.Commit()
	out.Expect(in.Record("b", "1"))
}

var errBoom = errors.New("boom")

func TestFailProduce(t *testing.T) {
	d := streamstest.New(t, passing(t), streamstest.CommitEvery(2))
	in, out := d.Input(lines), d.Output(result)
	in.Pipe("a", "1")
	d.FailProduce("result", errBoom)
	in.Pipe("a", "2")
	if err := d.Err(); !errors.Is(err, errBoom) || !strings.Contains(err.Error(), "result") {
		t.Fatalf("got %v", err)
	}
	in.Pipe("a", "3") // waits
	out.Expect(in.Record("a", "1"))
	d.Crash()
	if err := d.Err(); err != nil {
		t.Errorf("after a crash: %v", err)
	}
	out.Expect(in.Record("a", "1"), in.Record("a", "2"), in.Record("a", "3"))
}

func TestFailProduceToInternalTopics(t *testing.T) {
	for _, topic := range []string{"test-counts-repartition", "test-counts-changelog"} {
		d := streamstest.New(t, wordCount(t), exactlyOnce)
		in := d.Input(lines)
		in.PipeValues("a")
		d.FailProduce(topic, errBoom)
		in.PipeValues("a")
		if err := d.Err(); !errors.Is(err, errBoom) {
			t.Errorf("%s: got %v", topic, err)
		}
		d.Restart()
		in.PipeValues("a")
		if got := streamstest.Latest(d.Output(counts))["a"]; got != 3 {
			t.Errorf("%s: the count is %d", topic, got)
		}
	}
}

func TestFailCommit(t *testing.T) {
	d := streamstest.New(t, wordCount(t), streamstest.CommitEvery(0), exactlyOnce)
	in, out := d.Input(lines), d.Output(counts)
	in.PipeValues("a")
	d.FailCommit(errBoom)
	d.Commit()
	if err := d.Err(); !errors.Is(err, errBoom) {
		t.Fatalf("got %v", err)
	}
	if !out.Empty() {
		t.Errorf("got %v", out.ReadAll())
	}
	d.Restart()
	d.Commit()
	if r := out.Read(); r.Value != 1 || !out.Empty() {
		t.Errorf("got %v", r)
	}
}

func TestFailStore(t *testing.T) {
	for _, opts := range [][]streams.StoreOption{nil, {streams.InMemory}, {streams.Caching}} {
		store := streams.NewKeyValueStore("store", serde.String, serde.String, opts...)
		b := streams.NewBuilder()
		b.Stream(lines).ProcessFunc(func(ctx *streams.Context[string, string], r streams.Record[string, string]) error {
			switch r.Key {
			case "get":
				ctx.Store(store).Get("x")
			case "put":
				ctx.Store(store).Put("x", r.Value)
			case "range":
				for range ctx.Store(store).All() {
				}
			}
			ctx.Forward(r)
			return nil
		}, streams.WithStores(store)).To(result)
		topology := build(t, b)
		for _, op := range []string{"get", "put", "range"} {
			d := streamstest.New(t, topology)
			in, out := d.Input(lines), d.Output(result)
			d.FailStore(store, errBoom)
			in.Pipe(op, "v")
			e, ok := errors.AsType[*streams.StoreError](d.Err())
			if !ok || e.Store != "store" || !errors.Is(e, errBoom) {
				t.Errorf("%v %s: got %v", opts, op, d.Err())
			}
			out.Expect() // nothing that was derived from the failure is sent
			d.Crash()
			out.Expect(in.Record(op, "v"))
		}
	}
}

// A failure that nobody asks about fails the test, at its end or at the restart that hides it.
func TestErrMustBeAsked(t *testing.T) {
	topology := passing(t)
	fail := func(tb testing.TB) *streamstest.Driver {
		d := streamstest.New(tb, topology)
		d.FailProduce("result", errBoom)
		d.Input(lines).Pipe("k", "v")
		return d
	}
	fails(t, func(tb testing.TB) { fail(tb) }, "the topology stopped: write to result: boom")
	fails(t, func(tb testing.TB) { fail(tb).Crash() }, "the topology stopped: write to result: boom")
	fails(t, func(tb testing.TB) { fail(tb).Output(result).Read() }, "nothing is left in result, and the topology stopped: write to result: boom")
	fails(t, func(tb testing.TB) {
		d := fail(tb)
		d.Output(result).Expect(d.Input(lines).Record("k", "v"))
	}, "the topology stopped: write to result: boom")
	fails(t, func(tb testing.TB) {
		d := fail(tb)
		for range 2 { // it stays
			if d.Err() == nil {
				tb.Errorf("no error")
			}
		}
		d.AdvanceWallClock(time.Hour)
		d.Commit()
	})
}
