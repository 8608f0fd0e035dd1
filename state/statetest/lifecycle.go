package statetest

import (
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/state"
	"github.com/millrace/millrace/topology"
)

func testReopen(t *testing.T, f Factory) {
	specs := []topology.Store{{Name: "disk", Timestamped: true}, {Name: "memory", InMemory: true}}
	s := open(t, f, specs...)
	disk, memory := get[*state.KeyValue](t)(s.KeyValue("disk")), get[*state.KeyValue](t)(s.KeyValue("memory"))
	must(t, disk.Put([]byte("k"), []byte("v"), 5, nil))
	must(t, memory.Put([]byte("k"), []byte("v"), 5, nil))
	in, id := state.TopicPartition{Topic: "in", Partition: 2}, [16]byte{1, 2, 3}
	must(t, s.CheckTopicID("disk", id)) // nothing is known yet
	commit(t, s, state.CommitPoint{
		InputOffsets: map[state.TopicPartition]int64{in: 0}, StreamTime: 77, ChangelogOffsets: map[string]int64{"disk": 0, "memory": 9},
		TopicIDs: map[string][16]byte{"disk": id},
	})
	must(t, disk.Put([]byte("k"), []byte("not committed"), 6, nil))
	check := func() {
		t.Helper()
		if next, ok := s.InputOffset(in); next != 0 || !ok {
			t.Fatalf("input offset %d, %v", next, ok)
		}
		if next, ok := s.InputOffset(state.TopicPartition{Topic: "in"}); ok {
			t.Fatalf("another partition has input offset %d", next)
		}
		if next, ok := s.ChangelogOffset("disk"); next != 0 || !ok || s.StreamTime() != 77 {
			t.Fatalf("changelog offset %d, %v; stream time %d", next, ok, s.StreamTime())
		}
		must(t, s.CheckTopicID("disk", id))
		var foreign *state.ForeignError
		if err := s.CheckTopicID("disk", [16]byte{9}); !errors.As(err, &foreign) || foreign.Store != "disk" {
			t.Fatalf("another topic id is %v", err)
		}
	}
	check()
	must(t, s.Close())
	if err := s.Close(); !errors.Is(err, state.ErrClosed) {
		t.Fatalf("a second close says %v", err)
	}
	if !f.Durable {
		return
	}
	s = open(t, f, specs...)
	check()
	disk, memory = get[*state.KeyValue](t)(s.KeyValue("disk")), get[*state.KeyValue](t)(s.KeyValue("memory"))
	if v, ts, ok, err := disk.Get([]byte("k")); string(v) != "v" || ts != 5 || !ok || err != nil {
		t.Fatalf("found %q at %d, %v, %v", v, ts, ok, err)
	}
	if _, _, ok, _ := memory.Get([]byte("k")); ok {
		t.Fatal("a store in memory kept a row")
	}
	if _, ok := s.ChangelogOffset("memory"); ok {
		t.Fatal("a store in memory kept its offset")
	}
}

// testShapeChange is the part of B-050 that bytes show: a store changes its shape under its name, or is another task's.
func testShapeChange(t *testing.T, f Factory) {
	if !f.Durable {
		return
	}
	s := open(t, f, topology.Store{Name: "a"}, topology.Store{Name: "b", Kind: topology.WindowStore, Retention: time.Hour})
	must(t, get[*state.KeyValue](t)(s.KeyValue("a")).Put([]byte("k"), []byte("v"), 0, nil))
	commit(t, s, state.CommitPoint{})
	must(t, s.Close())
	for _, spec := range []topology.Store{
		{Name: "a", Kind: topology.WindowStore, Retention: time.Hour}, {Name: "a", Kind: topology.SessionStore, Retention: time.Hour}, {Name: "a", Timestamped: true},
		{Name: "b"}, {Name: "b", Kind: topology.WindowStore, Retention: time.Hour, Duplicates: true},
	} {
		_, err := state.Open(options(f, spec))
		var foreign *state.ForeignError
		if !errors.As(err, &foreign) || foreign.Store != spec.Name || !strings.Contains(err.Error(), f.Dir) {
			t.Fatalf("open with %+v says %v", spec, err)
		}
	}
	for _, change := range []func(*state.Options){
		func(o *state.Options) { o.ApplicationID = "other" }, func(o *state.Options) { o.Task.Partition++ },
	} {
		o := options(f, topology.Store{Name: "a"})
		change(&o)
		_, err := state.Open(o)
		var foreign *state.ForeignError
		if !errors.As(err, &foreign) || !strings.Contains(err.Error(), `"app"`) {
			t.Fatalf("open of another's state says %v", err)
		}
	}
	// Another retention is no change of shape.
	s = open(t, f, topology.Store{Name: "b", Kind: topology.WindowStore, Retention: 2 * time.Hour}, topology.Store{Name: "c"})
	equal(t, "orphans", s.Orphans(), []string{"a"})
	must(t, s.WipeStore("a", "it is gone from the topology"))
	equal(t, "orphans", s.Orphans(), nil)
	must(t, s.Close())
	s = open(t, f, topology.Store{Name: "c"}, topology.Store{Name: "a", Timestamped: true})
	if n, err := get[*state.KeyValue](t)(s.KeyValue("a")).ApproximateLen(); n != 0 || err != nil {
		t.Fatalf("a wiped store has %d rows (%v)", n, err)
	}
}

func testWipeStore(t *testing.T, f Factory) {
	s := open(t, f, topology.Store{Name: "a"}, topology.Store{Name: "b"})
	for _, name := range []string{"a", "b"} {
		must(t, get[*state.KeyValue](t)(s.KeyValue(name)).Put([]byte("k"), []byte("v"), 0, nil))
	}
	commit(t, s, state.CommitPoint{ChangelogOffsets: map[string]int64{"a": 100, "b": 7}})
	must(t, s.WipeStore("a", "its changelog starts at 600"))
	if _, ok := s.ChangelogOffset("a"); ok || s.Wipes() != 1 {
		t.Fatalf("a wiped store has an offset; %d wipes", s.Wipes())
	}
	if next, ok := s.ChangelogOffset("b"); next != 7 || !ok {
		t.Fatalf("its neighbour has offset %d, %v", next, ok)
	}
	must(t, s.Restore("a", []state.RestoreRecord{{Key: []byte("k2"), Value: []byte("v2")}}, 601))
	equal(t, "a", collect(t, get[*state.KeyValue](t)(s.KeyValue("a")).All(false)), []row{{key: "k2", value: "v2", ts: -1}})
	equal(t, "b", collect(t, get[*state.KeyValue](t)(s.KeyValue("b")).All(false)), []row{{key: "k", value: "v", ts: -1}})
}

// testReadersAtClose is B-062: iterators still open when the store closes.
func testReadersAtClose(t *testing.T, f Factory) {
	s := open(t, f, topology.Store{Name: "s"})
	kv := get[*state.KeyValue](t)(s.KeyValue("s"))
	for i := range 100 {
		must(t, kv.Put(fmt.Append(nil, i), []byte("v"), 0, nil))
	}
	commit(t, s, state.CommitPoint{})
	polite, stuck := get[*state.Snapshot](t)(s.Snapshot()), get[*state.Snapshot](t)(s.Snapshot())
	if s.Readers() != 2 {
		t.Fatalf("%d readers", s.Readers())
	}
	view := get[*state.KeyValueView](t)(stuck.KeyValue("s"))
	it := view.All(false)
	if !it.Next() {
		t.Fatal("no rows")
	}
	done := make(chan int)
	go func() {
		n := 0
		if v, err := polite.KeyValue("s"); err == nil {
			for it := v.All(false); it.Next(); {
				n++
			}
		}
		_ = polite.Close()
		done <- n
	}()
	start := time.Now()
	must(t, s.Close())
	if took := time.Since(start); took > 5*time.Second {
		t.Fatalf("close took %v", took)
	}
	if n := <-done; n != 100 {
		t.Fatalf("a reader that was still busy saw %d rows", n)
	}
	if string(it.Value()) != "v" {
		t.Fatal("the current row changed")
	}
	if it.Next() || !errors.Is(it.Err(), state.ErrClosed) {
		t.Fatalf("an iterator that was cut off says %v", it.Err())
	}
	if _, _, _, err := view.Get([]byte("1")); !errors.Is(err, state.ErrClosed) {
		t.Fatalf("a snapshot that was cut off says %v", err)
	}
	if s.Readers() != 1 {
		t.Fatalf("%d forgotten readers", s.Readers())
	}
	_ = it.Close()
	must(t, stuck.Close())
	if _, err := s.Snapshot(); !errors.Is(err, state.ErrClosed) {
		t.Fatalf("a new snapshot of closed stores: %v", err)
	}
}

// content returns all rows of a key-value store.
func content(t testing.TB, s *state.Stores, name string) map[string]string {
	t.Helper()
	m := map[string]string{}
	for _, r := range collect(t, get[*state.KeyValue](t)(s.KeyValue(name)).All(false)) {
		m[r.key] = r.value
	}
	return m
}

// testCrash is B-031: after a crash, rows and offsets are those of one commit.
func testCrash(t *testing.T, f Factory) {
	if f.Crash == nil {
		return
	}
	rng := random(t)
	specs := []topology.Store{{Name: "s", Caching: true}, {Name: "w", Kind: topology.WindowStore, Retention: 5 * time.Minute}}
	s := open(t, f, specs...)
	kv, ws := get[*state.KeyValue](t)(s.KeyValue("s")), get[*state.Window](t)(s.Window("w"))
	in := state.TopicPartition{Topic: "in"}
	now := map[string]string{}
	history := []map[string]string{{}}
	synced := 0
	for i := 1; i <= 60; i++ {
		for range rng.IntN(400) {
			key, value := fmt.Sprint("k", rng.IntN(2000)), fmt.Sprint(i)+strings.Repeat("x", rng.IntN(300))
			if rng.IntN(5) == 0 {
				must(t, kv.Delete([]byte(key), 0))
				delete(now, key)
			} else {
				must(t, kv.Put([]byte(key), []byte(value), 0, nil))
				now[key] = value
			}
		}
		must(t, ws.Put([]byte("i"), fmt.Append(nil, i), int64(i)*20_000, 0, nil))
		commit(t, s, state.CommitPoint{
			InputOffsets: map[state.TopicPartition]int64{in: int64(i)}, StreamTime: int64(i), ChangelogOffsets: map[string]int64{"s": int64(i), "w": int64(i)},
		})
		history = append(history, maps.Clone(now))
		if rng.IntN(15) == 0 {
			must(t, s.Sync())
			synced = i
		}
		if rng.IntN(3) != 0 {
			continue
		}
		o := options(f, specs...)
		o.Engine = f.Crash(rng)
		after, err := state.Open(o)
		must(t, err)
		next, ok := after.ChangelogOffset("s")
		if ok != (next > 0) || next < int64(synced) || next > int64(i) {
			t.Fatalf("after commit %d and sync %d a crash leaves offset %d, %v", i, synced, next, ok)
		}
		equalMaps(t, fmt.Sprintf("rows at offset %d", next), content(t, after, "s"), history[next])
		if input, _ := after.InputOffset(in); input != next || (ok && after.StreamTime() != next) {
			t.Fatalf("changelog offset %d with input offset %d, stream time %d", next, input, after.StreamTime())
		}
		if w, _ := after.ChangelogOffset("w"); w != next {
			t.Fatalf("one store has offset %d, another %d", next, w)
		}
		rows := collect(t, get[*state.Window](t)(after.Window("w")).All(true))
		if len(rows) != min(int(next), 15) || (len(rows) > 0 && rows[0].value != fmt.Sprint(next)) {
			t.Fatalf("at offset %d there are windows %v", next, rows)
		}
		must(t, after.Close())
	}
}

func testCrashWhileRestoring(t *testing.T, f Factory) {
	if f.Crash == nil {
		return
	}
	rng := random(t)
	specs := []topology.Store{{Name: "a"}, {Name: "b"}}
	s := open(t, f, specs...)
	history := map[string][]map[string]string{"a": {{}}, "b": {{}}}
	next := map[string]int64{}
	for range 200 {
		name := specs[rng.IntN(2)].Name
		var records []state.RestoreRecord
		for range rng.IntN(100) {
			now := maps.Clone(history[name][next[name]])
			key, value := fmt.Sprint(rng.IntN(300)), fmt.Sprint(next[name])
			r := state.RestoreRecord{Key: []byte(key), Value: []byte(value)}
			if rng.IntN(4) == 0 {
				r.Value = nil
				delete(now, key)
			} else {
				now[key] = value
			}
			records = append(records, r)
			history[name] = append(history[name], now)
			next[name]++
		}
		must(t, s.Restore(name, records, next[name]))
		switch rng.IntN(8) {
		case 0:
			must(t, s.FinishRestore(name))
		case 1:
			commit(t, s, state.CommitPoint{})
		case 2:
			o := options(f, specs...)
			o.Engine = f.Crash(rng)
			after, err := state.Open(o)
			must(t, err)
			for _, name := range []string{"a", "b"} {
				at, _ := after.ChangelogOffset(name)
				equalMaps(t, fmt.Sprintf("%s at offset %d", name, at), content(t, after, name), history[name][at])
			}
			must(t, after.Close())
		}
	}
	for name, n := range next {
		must(t, s.FinishRestore(name))
		equalMaps(t, name, content(t, s, name), history[name][n])
	}
}

// A time index has the rows that were there before it was asked for, those that were restored and none that are gone.
func testTimeIndex(t *testing.T, f Factory) {
	for _, kind := range []topology.StoreKind{topology.WindowStore, topology.SessionStore} {
		spec := topology.Store{Name: "s", Kind: kind, Retention: time.Hour}
		indexed := spec
		indexed.TimeIndex = true
		put := func(s *state.Stores, key string, at int64, value []byte) {
			if kind == topology.WindowStore {
				must(t, get[*state.Window](t)(s.Window("s")).Put([]byte(key), value, at, at, nil))
			} else {
				must(t, get[*state.Session](t)(s.Session("s")).Put([]byte(key), value, at, at, at, nil))
			}
		}
		walk := func(s *state.Stores, from, to int64) string {
			rows := sessionsByTime
			if kind == topology.WindowStore {
				rows = windowsByTime
			}
			var text []string
			for _, r := range rows(t, s, from, to) {
				text = append(text, fmt.Sprintf("%q@%d=%s", r.key, max(r.start, r.end), r.value))
			}
			return strings.Join(text, " ")
		}
		expect := func(s *state.Stores, from, to int64, want string) {
			t.Helper()
			if got := walk(s, from, to); got != want {
				t.Fatalf("%v: got %s, want %s", kind, got, want)
			}
		}
		if f.Durable {
			s := open(t, f, spec)
			put(s, "b", 10, []byte("1"))
			put(s, "a\x00", 20, []byte("2"))
			put(s, "gone", 15, []byte("3"))
			commit(t, s, state.CommitPoint{})
			put(s, "gone", 15, nil)
			commit(t, s, state.CommitPoint{})
			must(t, s.Close())
			s = open(t, f, indexed)
			expect(s, 0, 100, `"b"@10=1 "a\x00"@20=2`)
			put(s, "b", 10, nil)
			put(s, "c", 20, []byte("4"))
			expect(s, 0, 100, `"a\x00"@20=2 "c"@20=4`)
			commit(t, s, state.CommitPoint{})
			must(t, s.Close())
			s = open(t, f, spec) // an index that nobody keeps up is dropped
			put(s, "d", 5, []byte("5"))
			commit(t, s, state.CommitPoint{})
			must(t, s.Close())
			s = open(t, f, indexed)
			expect(s, 0, 100, `"d"@5=5 "a\x00"@20=2 "c"@20=4`)
			must(t, s.WipeStore("s", "test"))
			expect(s, 0, 100, ``)
			must(t, s.Close())
		}
		s := open(t, f, indexed)
		record := func(key string, at int64, value []byte) state.RestoreRecord {
			if kind == topology.WindowStore {
				return state.RestoreRecord{Key: state.AppendWindowKey(nil, []byte(key), at, 0), Value: value, Timestamp: at}
			}
			return state.RestoreRecord{Key: state.AppendSessionKey(nil, []byte(key), at, at), Value: value, Timestamp: at}
		}
		must(t, s.Restore("s", []state.RestoreRecord{
			record("z", 30, []byte("1")), record("k\x00k", 10, []byte("2")), record("x", 20, []byte("3")), record("x", 20, []byte("4")), record("y", 25, []byte("5")),
			record("y", 25, nil),
		}, 6))
		expect(s, 0, 100, `"k\x00k"@10=2 "x"@20=4 "z"@30=1`)
		must(t, s.Restore("s", []state.RestoreRecord{record("x", 20, nil), record("w", 20, []byte("6"))}, 8))
		must(t, s.FinishRestore("s"))
		expect(s, 10, 29, `"k\x00k"@10=2 "w"@20=6`)
		put(s, "late", 2*3600_000, []byte("7")) // the segments of the others go
		commit(t, s, state.CommitPoint{})
		expect(s, 0, 3*3600_000, `"late"@7200000=7`)
		put(s, "next", 2*3600_000+5, []byte("8"))
		n := 0
		stop := errors.New("stop")
		if kind == topology.WindowStore {
			if err := get[*state.Window](t)(s.Window("s")).ByTime(0, 3*3600_000, func([]byte, int64, []byte, int64) error { n++; return stop }); !errors.Is(err, stop) || n != 1 {
				t.Fatalf("an error ends the walk: got %v after %d rows", err, n)
			}
		}
		must(t, s.Close())
		if f.Durable {
			s = open(t, f, topology.Store{Name: "other"})
			must(t, s.WipeStore("s", "the next one is of another kind"))
			must(t, s.Close())
		}
	}
}
