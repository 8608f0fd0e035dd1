package statetest

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/state"
	"github.com/millrace/millrace/topology"
)

func windowSpec() topology.Store {
	return topology.Store{Name: "s", Kind: topology.WindowStore, Retention: time.Hour}
}

// testBounds is B-021: all window stores give the same answers at the bounds.
func testBounds(t *testing.T, f Factory) {
	a := []byte("a")
	fill := func(s *state.Stores) {
		ws := get[*state.Window](t)(s.Window("s"))
		for _, start := range []int64{2000, 1000, 1999, 0} {
			must(t, ws.Put(a, fmt.Append(nil, start), start, start, nil))
		}
	}
	check := func(t *testing.T, s *state.Stores) {
		ws := get[*state.Window](t)(s.Window("s"))
		for _, c := range []struct {
			from, to int64
			want     []int64
		}{
			{1000, 2000, []int64{1000, 1999, 2000}}, {1001, 1999, []int64{1999}}, {2000, 2000, []int64{2000}}, {0, 999, []int64{0}}, {1, 999, nil},
			{2000, 1000, nil}, {-5, 1000, []int64{0, 1000}}, {-5, -1, nil}, {0, math.MaxInt64, []int64{0, 1000, 1999, 2000}}, {2000, math.MaxInt64, []int64{2000}},
			{math.MinInt64, math.MaxInt64, []int64{0, 1000, 1999, 2000}}, {math.MaxInt64, math.MaxInt64, nil},
		} {
			name := fmt.Sprintf("%d..%d", c.from, c.to)
			equal(t, name, starts(collect(t, ws.Fetch(a, c.from, c.to, false))), c.want)
			equal(t, name+" backward", starts(collect(t, ws.Fetch(a, c.from, c.to, true))), reversed(c.want))
			equal(t, name+" range", starts(collect(t, ws.FetchRange(a, a, c.from, c.to, false))), c.want)
			equal(t, name+" range backward", starts(collect(t, ws.FetchRange(nil, nil, c.from, c.to, true))), reversed(c.want))
		}
	}
	for _, spec := range []topology.Store{windowSpec(), {Name: "s", Kind: topology.WindowStore, Retention: time.Hour, InMemory: true, Caching: true}} {
		t.Run(describe(spec), func(t *testing.T) { steps(t, f, spec, fill, check) })
	}
	t.Run("segment roll", func(t *testing.T) {
		s := open(t, f, topology.Store{Name: "s2", Kind: topology.WindowStore, Retention: 10 * time.Minute})
		ws := get[*state.Window](t)(s.Window("s2"))
		var want []int64
		for _, start := range []int64{700_000, 299_999, 300_000, 300_001, 599_999, 600_000} { // segments are of 300 s
			must(t, ws.Put(a, a, start, start, nil))
			want = append(want, start)
		}
		slices.Sort(want)
		equal(t, "dirty", starts(collect(t, ws.Fetch(a, 0, math.MaxInt64, false))), want)
		commit(t, s, state.CommitPoint{StreamTime: -1})
		equal(t, "committed", starts(collect(t, ws.Fetch(a, 0, math.MaxInt64, false))), want)
		equal(t, "backward", starts(collect(t, ws.Fetch(a, 0, math.MaxInt64, true))), reversed(want))
		equal(t, "across", starts(collect(t, ws.Fetch(a, 299_999, 600_000, false))), want[:5])
	})
}

// testPrefixKeys is B-051: keys that are prefixes of other keys.
func testPrefixKeys(t *testing.T, f Factory) {
	keys := []string{"", "a", "aa", "a\x00", "a\x00\x00\x00\x00\x00\x00\x00\x01", "a\xff", "\xff\xff", "a\x00\x00\x00\x00\x00\x00\x03\xe8\x00\x00\x00\x00"}
	times := []int64{2000, 1000, 1999, 0}
	sorted := []int64{0, 1000, 1999, 2000}
	t.Run("window", func(t *testing.T) {
		fill := func(s *state.Stores) {
			ws := get[*state.Window](t)(s.Window("s"))
			for _, at := range times {
				for _, key := range keys {
					must(t, ws.Put([]byte(key), []byte(key), at, at, nil))
				}
			}
		}
		steps(t, f, windowSpec(), fill, func(t *testing.T, s *state.Stores) {
			ws := get[*state.Window](t)(s.Window("s"))
			for _, key := range keys {
				rows := collect(t, ws.Fetch([]byte(key), 0, math.MaxInt64, false))
				equal(t, fmt.Sprintf("%x", key), starts(rows), sorted)
				for _, r := range rows {
					if r.key != key || r.value != key {
						t.Fatalf("fetch of %x: %v", key, r)
					}
				}
				equal(t, fmt.Sprintf("%x backward", key), starts(collect(t, ws.Fetch([]byte(key), 0, math.MaxInt64, true))), reversed(sorted))
			}
			for _, lo := range keys {
				for _, hi := range keys {
					var want []row
					for _, key := range keys {
						for _, at := range sorted {
							if key >= lo && key <= hi {
								want = append(want, row{key: key, start: at, value: key, ts: -1})
							}
						}
					}
					got := collect(t, ws.FetchRange([]byte(lo), []byte(hi), 0, math.MaxInt64, false))
					equal(t, fmt.Sprintf("%x..%x", lo, hi), byKey(got), byKey(want))
					got = collect(t, ws.FetchRange([]byte(lo), []byte(hi), 0, math.MaxInt64, true))
					equal(t, fmt.Sprintf("%x..%x backward", lo, hi), byKey(reversed(got)), byKey(want))
				}
			}
		})
	})
	t.Run("session", func(t *testing.T) {
		spec := topology.Store{Name: "ss", Kind: topology.SessionStore, Retention: time.Hour}
		fill := func(s *state.Stores) {
			ss := get[*state.Session](t)(s.Session("ss"))
			for _, at := range times {
				for _, key := range keys {
					must(t, ss.Put([]byte(key), []byte(key), at, at+500, at, nil))
				}
			}
		}
		steps(t, f, spec, fill, func(t *testing.T, s *state.Stores) {
			ss := get[*state.Session](t)(s.Session("ss"))
			for _, key := range keys {
				rows := collect(t, ss.Fetch([]byte(key), false))
				equal(t, fmt.Sprintf("%x", key), starts(rows), sorted)
				for _, r := range rows {
					if r.key != key || r.end != r.start+500 {
						t.Fatalf("fetch of %x: %v", key, r)
					}
				}
			}
		})
	})
}

// testOffsetMatrix is B-017: off by one, in both directions.
func testOffsetMatrix(t *testing.T, f Factory) {
	records := []state.RestoreRecord{{Key: []byte("k0"), Value: []byte("v0"), Timestamp: 1}, {Key: []byte("k1"), Value: []byte("v1"), Timestamp: 2}}
	for n := range 3 {
		for stored := -1; stored <= n; stored++ { // -1 is none
			name := fmt.Sprintf("n=%d stored=%d", n, stored)
			spec := topology.Store{Name: name, Timestamped: true}
			s := open(t, f, spec)
			if next, ok := s.ChangelogOffset(name); ok || next != 0 {
				t.Fatalf("%s: a new store has offset %d", name, next)
			}
			from := max(stored, 0)
			if stored >= 0 {
				must(t, s.Restore(name, records[:stored], int64(stored)))
				must(t, s.FinishRestore(name))
			}
			if f.Durable {
				must(t, s.Close())
				s = open(t, f, spec)
			}
			if next, ok := s.ChangelogOffset(name); ok != (stored >= 0) || next != int64(from) {
				t.Fatalf("%s: offset %d, %v", name, next, ok)
			}
			must(t, s.Restore(name, records[from:n], int64(n)))
			must(t, s.FinishRestore(name))
			if next, ok := s.ChangelogOffset(name); !ok || next != int64(n) {
				t.Fatalf("%s: after restoring: offset %d, %v", name, next, ok)
			}
			kv := get[*state.KeyValue](t)(s.KeyValue(name))
			for i, r := range records {
				value, ts, ok, err := kv.Get(r.Key)
				must(t, err)
				if ok != (i < n) || (ok && (string(value) != string(r.Value) || ts != r.Timestamp)) {
					t.Fatalf("%s: row %d is %q at %d, %v", name, i, value, ts, ok)
				}
			}
			must(t, s.Close())
		}
	}
	t.Run("read in between", func(t *testing.T) {
		s := open(t, f, topology.Store{Name: "standby"})
		kv := get[*state.KeyValue](t)(s.KeyValue("standby"))
		for i := range int64(5) {
			want := fmt.Sprint(i)
			must(t, s.Restore("standby", []state.RestoreRecord{{Key: []byte("k"), Value: []byte(want)}}, i+1))
			if v, _, ok, err := kv.Get([]byte("k")); string(v) != want || !ok || err != nil {
				t.Fatalf("record %d: got %q, %v, %v", i, v, ok, err)
			}
			equal(t, "all", collect(t, kv.All(false)), []row{{key: "k", value: want, ts: -1}})
		}
	})
	t.Run("put and delete", func(t *testing.T) {
		s := open(t, f, topology.Store{Name: "gone"})
		must(t, s.Restore("gone", []state.RestoreRecord{{Key: []byte("k"), Value: []byte("v")}, {Key: []byte("k")}}, 2))
		kv := get[*state.KeyValue](t)(s.KeyValue("gone"))
		if _, _, ok, err := kv.Get([]byte("k")); ok || err != nil {
			t.Fatalf("a deleted key is there (%v)", err)
		}
		must(t, s.Restore("gone", []state.RestoreRecord{{Key: []byte("k"), Value: []byte("v")}}, 3))
		must(t, s.FinishRestore("gone"))
		must(t, s.Restore("gone", []state.RestoreRecord{{Key: []byte("k")}}, 4))
		if _, _, ok, err := kv.Get([]byte("k")); ok || err != nil {
			t.Fatalf("a key that was deleted in a later batch is there (%v)", err)
		}
	})
}

// testCachingTable checks what changelog and listener are told.
func testCachingTable(t *testing.T, f Factory) {
	type op struct {
		key, value string // "-" deletes; "flush", "commit" and "discard" as keys
	}
	for i, c := range []struct {
		name     string
		caching  bool
		listener bool
		ops      []op
		logged   []string
		told     []string
	}{
		{"no caching tells each update", false, false, []op{{"a", "1"}, {"a", "2"}, {"a", "-"}, {"flush", ""}}, []string{"a=1", "a=2", "a=-"}, nil},
		{"one update per key, in the order of the last", true, true, []op{{"a", "1"}, {"b", "1"}, {"a", "2"}, {"flush", ""}}, []string{"b=1", "a=2"}, []string{"b:-→1", "a:-→2"}},
		{"old is what was last flushed", true, true, []op{{"a", "1"}, {"flush", ""}, {"a", "2"}, {"a", "3"}, {"flush", ""}}, []string{"a=1", "a=3"}, []string{"a:-→1", "a:1→3"}},
		{"old is found in the database", true, true, []op{{"a", "1"}, {"flush", ""}, {"commit", ""}, {"reload", ""}, {"a", "2"}, {"flush", ""}}, []string{"a=1", "a=2"}, []string{"a:-→1", "a:1→2"}},
		{"what came and went never was", true, true, []op{{"a", "1"}, {"a", "-"}, {"b", "-"}, {"flush", ""}}, nil, nil},
		{"without listener the changelog gets the tombstone", true, false, []op{{"a", "1"}, {"a", "-"}, {"flush", ""}}, []string{"a=-"}, nil},
		{"a deletion of what was flushed is told", true, true, []op{{"a", "1"}, {"flush", ""}, {"a", "2"}, {"a", "-"}, {"flush", ""}}, []string{"a=1", "a=-"}, []string{"a:-→1", "a:1→-"}},
		{"a second flush tells nothing", true, true, []op{{"a", "1"}, {"flush", ""}, {"flush", ""}}, []string{"a=1"}, []string{"a:-→1"}},
		{"discarded updates are not told", true, true, []op{{"a", "1"}, {"discard", ""}, {"flush", ""}}, nil, nil},
		{"deleted and put again", true, true, []op{{"a", "1"}, {"flush", ""}, {"a", "-"}, {"a", "1"}, {"flush", ""}}, []string{"a=1", "a=1"}, []string{"a:-→1", "a:1→1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec := topology.Store{Name: fmt.Sprint("s", i), Caching: c.caching, Timestamped: true}
			s := open(t, f, spec)
			kv := get[*state.KeyValue](t)(s.KeyValue(spec.Name))
			var logged, told []string
			show := func(b []byte) string {
				if b == nil {
					return "-"
				}
				return string(b)
			}
			listen := func() {
				kv.SetChangelog(func(key, value []byte, ts int64, headers []state.Header) error {
					if len(headers) != 1 || headers[0].Key != "h" || string(headers[0].Value) != fmt.Sprint(ts) {
						t.Errorf("headers of the update at %d are %v", ts, headers)
					}
					logged = append(logged, string(key)+"="+show(value))
					return nil
				})
				if c.listener {
					kv.SetFlushListener(func(u *state.Update) error {
						if (u.Old == nil) != (u.OldTimestamp == -1) || u.OldTimestamp >= u.Timestamp {
							t.Errorf("update of %s at %d has an old value of %d", u.Key, u.Timestamp, u.OldTimestamp)
						}
						told = append(told, fmt.Sprintf("%s:%s→%s", u.Key, show(u.Old), show(u.New)))
						return nil
					}, true)
				}
			}
			listen()
			for at, op := range c.ops {
				switch op.key {
				case "flush":
					must(t, s.Flush())
				case "commit":
					must(t, s.Commit(state.CommitPoint{}))
				case "discard":
					must(t, s.Discard())
				case "reload":
					if !f.Durable {
						must(t, s.Discard()) // which forgets what was cached
						continue
					}
					must(t, s.Close())
					s = open(t, f, spec)
					kv = get[*state.KeyValue](t)(s.KeyValue(spec.Name))
					listen()
				default:
					header := []state.Header{{Key: "h", Value: fmt.Append(nil, at)}}
					value := []byte(op.value)
					if op.value == "-" {
						value = nil
					}
					must(t, kv.Put([]byte(op.key), value, int64(at), header))
					header[0].Value[0] = 'x' // it must have been copied
				}
			}
			equal(t, "changelog", logged, c.logged)
			equal(t, "listener", told, c.told)
			must(t, s.Close())
		})
	}
}

// testRetention checks F-091 and F-164: what is expired is not seen and not taken.
func testRetention(t *testing.T, f Factory) {
	spec := topology.Store{Name: "s", Kind: topology.WindowStore, Retention: 2 * time.Minute}
	s := open(t, f, spec)
	ws := get[*state.Window](t)(s.Window("s"))
	type drop struct{ time, earliest int64 }
	var drops []drop
	ws.SetDropListener(func(time, earliest int64) { drops = append(drops, drop{time, earliest}) })
	k := []byte("k")
	for at := int64(0); at <= 600_000; at += 30_000 {
		must(t, ws.Put(k, fmt.Append(nil, at), at, at, nil))
		if at%90_000 == 0 {
			commit(t, s, state.CommitPoint{StreamTime: at})
		}
	}
	want := []int64{510_000, 540_000, 570_000, 600_000}
	equal(t, "fetch", starts(collect(t, ws.Fetch(k, 0, math.MaxInt64, false))), want)
	equal(t, "all", starts(collect(t, ws.All(false))), want)
	for _, at := range []int64{480_000, 0} {
		if _, _, ok, err := ws.Get(k, at); ok || err != nil {
			t.Fatalf("the window at %d is visible (%v)", at, err)
		}
		must(t, ws.Put(k, k, at, at, nil))
	}
	must(t, ws.Put(k, k, 480_001, 1, nil)) // the earliest that is kept
	equal(t, "drops", drops, []drop{{480_000, 480_001}, {0, 480_001}})
	if ws.Dropped() != 2 || ws.StreamTime() != 600_000 {
		t.Fatalf("dropped %d, stream time %d", ws.Dropped(), ws.StreamTime())
	}
	commit(t, s, state.CommitPoint{})
	if f.Durable {
		must(t, s.Close())
		s = open(t, f, spec)
		ws = get[*state.Window](t)(s.Window("s"))
		equal(t, "reopened", starts(collect(t, ws.Fetch(k, 0, math.MaxInt64, false))), append([]int64{480_001}, want...))
	}
	t.Run("restored", func(t *testing.T) {
		spec.Name = "restored"
		must(t, s.Close())
		s := open(t, f, spec)
		var records []state.RestoreRecord
		for at := int64(0); at <= 600_000; at += 30_000 {
			records = append(records, state.RestoreRecord{Key: state.AppendWindowKey(nil, k, at, 0), Value: k})
		}
		must(t, s.Restore("restored", records, 21))
		ws := get[*state.Window](t)(s.Window("restored"))
		equal(t, "fetch", starts(collect(t, ws.Fetch(k, 0, math.MaxInt64, false))), want)
	})
}

func testDuplicates(t *testing.T, f Factory) {
	spec := topology.Store{Name: "s", Kind: topology.WindowStore, Retention: time.Hour, Duplicates: true}
	s := open(t, f, spec)
	ws := get[*state.Window](t)(s.Window("s"))
	k := []byte("k")
	for i := range 3 {
		must(t, ws.Put(k, fmt.Append(nil, i), 5, 5, nil))
	}
	must(t, ws.Put(k, nil, 5, 5, nil)) // changes nothing
	commit(t, s, state.CommitPoint{})
	if f.Durable {
		must(t, s.Close())
		s = open(t, f, spec)
		ws = get[*state.Window](t)(s.Window("s"))
	}
	must(t, ws.Put(k, []byte("3"), 5, 5, nil)) // must not replace an earlier one
	var want []row
	for i, seq := range []uint32{1, 2, 3, 5} { // the nil took a number as well
		want = append(want, row{key: "k", start: 5, seq: seq, value: fmt.Sprint(i), ts: -1})
	}
	equal(t, "fetch", collect(t, ws.Fetch(k, 0, 10, false)), want)
	equal(t, "backward", collect(t, ws.Fetch(k, 0, 10, true)), reversed(want))
}

// testIteratorsAndWrites writes while iterating.
func testIteratorsAndWrites(t *testing.T, f Factory) {
	s := open(t, f, topology.Store{Name: "s", Caching: true})
	kv := get[*state.KeyValue](t)(s.KeyValue("s"))
	for i := range 200 {
		must(t, kv.Put(fmt.Appendf(nil, "k%03d", i), []byte("old"), 0, nil))
		if i == 99 {
			commit(t, s, state.CommitPoint{})
		}
	}
	for _, reverse := range []bool{false, true} {
		it := kv.All(reverse)
		var seen []string
		for it.Next() {
			key := string(it.Key())
			seen = append(seen, key)
			must(t, kv.Put([]byte(key), []byte("new value"), 1, nil))   // the row itself
			must(t, kv.Put([]byte("a"+key), []byte("behind"), 1, nil))  // behind or ahead, by direction
			must(t, kv.Delete([]byte("a"+key), 1))                      // gone again
			inner := kv.Range([]byte("k010"), []byte("k020"), !reverse) // nested
			n := 0
			for inner.Next() {
				n++
			}
			must(t, inner.Close())
			if n != 11 {
				t.Fatalf("a nested iterator saw %d rows", n)
			}
		}
		must(t, it.Close())
		if !slices.IsSorted(seen) != reverse || len(slices.Compact(slices.Clone(seen))) != len(seen) || len(seen) != 200 {
			t.Fatalf("saw %d rows: %v", len(seen), seen)
		}
	}
	it := kv.All(false)
	if !it.Next() {
		t.Fatal("no rows")
	}
	commit(t, s, state.CommitPoint{})
	if it.Next() || !errors.Is(it.Err(), state.ErrIteratorExpired) {
		t.Fatalf("after a commit an iterator says %v", it.Err())
	}
	if err := it.Close(); !errors.Is(err, state.ErrIteratorExpired) {
		t.Fatalf("close says %v", err)
	}
	left := kv.All(false)
	must(t, s.Close())
	if left.Next() || !errors.Is(left.Err(), state.ErrClosed) {
		t.Fatalf("after close an iterator says %v", left.Err())
	}
	if _, _, _, err := kv.Get([]byte("k000")); !errors.Is(err, state.ErrClosed) {
		t.Fatalf("after close a store says %v", err)
	}
	if err := kv.Put([]byte("k"), nil, 0, nil); !errors.Is(err, state.ErrClosed) {
		t.Fatalf("after close a store says %v", err)
	}
}

// testFlushDirtiesLaterStores is F-179.
func testFlushDirtiesLaterStores(t *testing.T, f Factory) {
	s := open(t, f, topology.Store{Name: "one", Caching: true}, topology.Store{Name: "two", Caching: true, InMemory: true})
	one, two := get[*state.KeyValue](t)(s.KeyValue("one")), get[*state.KeyValue](t)(s.KeyValue("two"))
	one.SetFlushListener(func(u *state.Update) error { return two.Put(u.New, u.Key, u.Timestamp, nil) }, false)
	var told []string
	two.SetFlushListener(func(u *state.Update) error {
		told = append(told, string(u.Key)+string(u.New))
		return nil
	}, false)
	must(t, one.Put([]byte("a"), []byte("x"), 1, nil))
	must(t, one.Put([]byte("b"), []byte("y"), 1, nil))
	if err := s.Commit(state.CommitPoint{}); err == nil {
		t.Fatal("committed what was not flushed")
	}
	commit(t, s, state.CommitPoint{})
	equal(t, "told", told, []string{"xa", "yb"})
	must(t, one.Put([]byte("c"), []byte("z"), 1, nil))
	must(t, s.Flush())
	must(t, s.Discard())
	if _, _, ok, err := two.Get([]byte("z")); ok || err != nil {
		t.Fatalf("a store in memory kept what was discarded (%v)", err)
	}
	if v, _, ok, err := two.Get([]byte("x")); !ok || string(v) != "a" || err != nil {
		t.Fatalf("a store in memory lost what was committed: %q, %v, %v", v, ok, err)
	}
}

// testVersioned compares a versioned store with a list of everything that was put (KIP-889), over commits, discards, restarts and restoration.
func testVersioned(t *testing.T, f Factory) {
	rng := random(t)
	const history = 50
	spec := topology.Store{Name: "v", Kind: topology.VersionedStore, Retention: history * time.Millisecond}
	s := open(t, f, spec)
	type version struct {
		at    int64
		value string // "" is a deletion
	}
	type world struct {
		rows     map[string][]version // ascending by time
		observed int64
	}
	clone := func(w world) world {
		c := world{map[string][]version{}, w.observed}
		for k, v := range w.rows {
			c.rows[k] = slices.Clone(v)
		}
		return c
	}
	now := world{map[string][]version{}, -1}
	committed := clone(now)
	var told, log []state.RestoreRecord // since the last commit, and before
	var store *state.Versioned
	attach := func() {
		store = get[*state.Versioned](t)(s.Versioned("v"))
		store.SetChangelog(func(key, value []byte, ts int64, _ []state.Header) error {
			told = append(told, state.RestoreRecord{Key: key, Value: bytes.Clone(value), Timestamp: ts})
			return nil
		})
	}
	attach()
	asOf := func(w world, key string, at int64) (v version, to int64, ok bool) {
		list := w.rows[key]
		to = -1
		for i := len(list) - 1; i >= 0; i-- {
			if list[i].at > at {
				to = list[i].at
				continue
			}
			return list[i], to, list[i].value != "" && (to < 0 || at >= w.observed-history)
		}
		return v, to, false
	}
	keys := []string{"a", "a\x00", "a\x00\x01", "b", ""}
	check := func(s *state.Versioned, w world) {
		t.Helper()
		for _, key := range keys {
			for at := max(0, w.observed-history-5); at <= w.observed+1; at++ {
				want, to, ok := asOf(w, key, at)
				got, found, err := s.GetAsOf([]byte(key), at)
				must(t, err)
				if found != ok || ok && (string(got.Value) != want.value || got.From != want.at || got.To != to) {
					t.Fatalf("%q as of %d is %+v %v, want %+v to %d %v; stream time %d", key, at, got, found, want, to, ok, w.observed)
				}
			}
			want, _, ok := asOf(w, key, 1<<60)
			got, found, err := s.Get([]byte(key))
			must(t, err)
			if found != ok || ok && string(got.Value) != want.value {
				t.Fatalf("%q is %+v %v, want %+v %v", key, got, found, want, ok)
			}
		}
	}
	for step := range 1500 {
		switch n := rng.IntN(100); {
		case n < 85:
			key, at := keys[rng.IntN(len(keys))], max(0, now.observed-60+rng.Int64N(70))
			value, raw := "", []byte(nil)
			if rng.IntN(4) > 0 {
				value = fmt.Sprint("v", step)
				raw = []byte(value)
			}
			to, stored, err := store.Put([]byte(key), raw, at, nil)
			must(t, err)
			if want := at >= now.observed-history; stored != want {
				t.Fatalf("put at %d with stream time %d: stored is %v", at, now.observed, stored)
			}
			if !stored {
				continue
			}
			now.observed = max(now.observed, at)
			list := now.rows[key]
			i, found := slices.BinarySearchFunc(list, at, func(v version, at int64) int { return int(v.at - at) })
			if found {
				list[i].value = value
			} else {
				list = slices.Insert(list, i, version{at, value})
			}
			now.rows[key] = list
			want := int64(-1)
			if i+1 < len(list) {
				want = list[i+1].at
			}
			// A deletion that history no longer reaches is gone, so it does not end anything any more; nor could anybody ask.
			if to != want && !(to == -1 && want <= now.observed-history) {
				t.Fatalf("put of %q at %d is valid to %d, want %d", key, at, to, want)
			}
		case n < 92:
			must(t, s.Commit(state.CommitPoint{StreamTime: -1}))
			committed, log, told = clone(now), append(log, told...), nil
		case n < 95:
			must(t, s.Discard())
			now, told = clone(committed), nil
		case n < 97 && f.Durable:
			must(t, s.Close())
			s = open(t, f, spec)
			attach()
			now, told = clone(committed), nil
		default:
			check(store, now)
		}
	}
	must(t, s.Commit(state.CommitPoint{StreamTime: -1}))
	log = append(log, told...)
	check(store, now)
	other, err := state.Open(state.Options{ApplicationID: "app", Task: topology.TaskID{}, Stores: []topology.Store{spec}})
	must(t, err)
	must(t, other.Restore("v", log, int64(len(log))))
	must(t, other.FinishRestore("v"))
	check(get[*state.Versioned](t)(other.Versioned("v")), now)
	must(t, other.Close())
}
