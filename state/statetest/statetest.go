// Package statetest is the suite that every database of package state passes, with stores of all kinds on top.
package statetest

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/state"
	"github.com/millrace/millrace/topology"
)

var seed = flag.Uint64("statetest.seed", 0, "seed of the random tests of package statetest; 0 takes one from the clock")

// Factory gives a test its own databases.
type Factory struct {
	Engine state.Engine
	Dir    string
	// Durable tells that what was committed is there after Close and Open.
	Durable bool
	// Crash, if not nil, returns an engine over what would be there if the machine had lost its power now.
	Crash func(rng *rand.Rand) state.Engine
}

// Run runs the suite. The function is called once for each test.
func Run(t *testing.T, factory func(t testing.TB) Factory) {
	for name, test := range map[string]func(*testing.T, Factory){
		"Bounds": testBounds, "PrefixKeys": testPrefixKeys, "OffsetMatrix": testOffsetMatrix, "CachingTable": testCachingTable, "Retention": testRetention,
		"Duplicates": testDuplicates, "IteratorsAndWrites": testIteratorsAndWrites, "FlushDirtiesLaterStores": testFlushDirtiesLaterStores,
		"Reopen": testReopen, "ShapeChange": testShapeChange, "WipeStore": testWipeStore, "ReadersAtClose": testReadersAtClose, "Crash": testCrash,
		"CrashWhileRestoring": testCrashWhileRestoring, "Versioned": testVersioned, "TimeIndex": testTimeIndex,
	} {
		t.Run(name, func(t *testing.T) { test(t, factory(t)) })
	}
	t.Run("Model", func(t *testing.T) {
		for _, spec := range specs() {
			if f := factory(t); f.Durable && spec.InMemory {
				continue // the memory engine's run has it
			}
			t.Run(describe(spec), func(t *testing.T) { testModel(t, factory(t), spec) })
		}
	})
}

// specs returns a store of every kind, with caching and without.
func specs() []topology.Store {
	var list []topology.Store
	for _, caching := range []bool{false, true} {
		for _, inMemory := range []bool{false, true} {
			list = append(list,
				topology.Store{Kind: topology.KeyValueStore}, topology.Store{Kind: topology.KeyValueStore, Timestamped: true},
				topology.Store{Kind: topology.WindowStore, Timestamped: true, Retention: 5 * time.Minute},
				topology.Store{Kind: topology.WindowStore, Retention: 3 * time.Minute},
				topology.Store{Kind: topology.SessionStore, Retention: 5 * time.Minute},
				topology.Store{Kind: topology.WindowStore, Timestamped: true, Retention: 3 * time.Minute, TimeIndex: true},
				topology.Store{Kind: topology.SessionStore, Retention: 5 * time.Minute, TimeIndex: true},
			)
			for i := len(list) - 7; i < len(list); i++ {
				list[i].Name, list[i].Caching, list[i].InMemory = "s", caching, inMemory
			}
		}
	}
	return list
}

func describe(spec topology.Store) string {
	s := spec.Kind.String()
	if spec.Timestamped {
		s += "+timestamps"
	}
	if spec.TimeIndex {
		s += "+index"
	}
	if spec.Caching {
		s += "+caching"
	}
	if spec.InMemory {
		s += "+memory"
	}
	return s
}

// random returns a source of random numbers whose seed is in the test's log.
func random(t testing.TB) *rand.Rand {
	n := *seed
	if n == 0 {
		n = uint64(time.Now().UnixNano())
	}
	t.Logf("-statetest.seed=%d", n)
	return rand.New(rand.NewPCG(n, 0))
}

// open opens stores, which are closed with the test.
func open(t testing.TB, f Factory, specs ...topology.Store) *state.Stores {
	t.Helper()
	s, err := state.Open(options(f, specs...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil && !errors.Is(err, state.ErrClosed) {
			t.Error(err)
		}
	})
	return s
}

func options(f Factory, specs ...topology.Store) state.Options {
	return state.Options{
		ApplicationID: "app", Task: topology.TaskID{Subtopology: 1, Partition: 2}, Dir: f.Dir, Engine: f.Engine, Stores: specs,
		CacheBytes: 16 << 10, RestoreBytes: 4 << 10, // small, so that limits are met
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func get[T any](t testing.TB) func(T, error) T {
	return func(v T, err error) T {
		t.Helper()
		must(t, err)
		return v
	}
}

// row is a row as iterators show it.
type row struct {
	key        string
	start, end int64
	seq        uint32
	value      string
	ts         int64
}

func (r row) String() string {
	return fmt.Sprintf("%x[%d,%d]#%d=%q@%d", r.key, r.start, r.end, r.seq, r.value, r.ts)
}

func collect(t testing.TB, it state.Iterator) []row {
	t.Helper()
	var rows []row
	for it.Next() {
		rows = append(rows, row{string(it.Key()), it.Start(), it.End(), it.Sequence(), string(it.Value()), it.Timestamp()})
	}
	must(t, it.Err())
	must(t, it.Close())
	must(t, it.Close()) // again is harmless
	return rows
}

func starts(rows []row) []int64 {
	list := []int64{}
	for _, r := range rows {
		list = append(list, r.start)
	}
	return list
}

func reversed[T any](s []T) []T {
	s = slices.Clone(s)
	slices.Reverse(s)
	return s
}

// byKey sorts rows by user key and leaves those of a key as they are.
func byKey(rows []row) []row {
	rows = slices.Clone(rows)
	slices.SortStableFunc(rows, func(a, b row) int { return bytes.Compare([]byte(a.key), []byte(b.key)) })
	return rows
}

func equal[T comparable](t testing.TB, what string, got, want []T) {
	t.Helper()
	for i := range max(len(got), len(want)) {
		if i >= len(got) || i >= len(want) || got[i] != want[i] {
			t.Fatalf("%s: from item %d of %d on\n got %v\nwant %v", what, i, len(want), got[min(i, len(got)):min(i+8, len(got))], want[min(i, len(want)):min(i+8, len(want))])
		}
	}
}

func equalMaps(t testing.TB, what string, got, want map[string]string) {
	t.Helper()
	var diff []string
	for key, v := range got {
		if w, ok := want[key]; !ok || v != w {
			diff = append(diff, fmt.Sprintf("%x is %q, want %q (%v)", key, v, w, ok))
		}
	}
	for key, w := range want {
		if _, ok := got[key]; !ok {
			diff = append(diff, fmt.Sprintf("%x is missing, want %q", key, w))
		}
	}
	if len(diff) > 0 {
		slices.Sort(diff)
		t.Fatalf("%s: %d differences, such as\n%s", what, len(diff), strings.Join(diff[:min(10, len(diff))], "\n"))
	}
}

// commit flushes and commits.
func commit(t testing.TB, s *state.Stores, p state.CommitPoint) {
	t.Helper()
	must(t, s.Flush())
	must(t, s.Commit(p))
}

// steps calls check with a store in the write set, committed and, if it is durable, opened again.
func steps(t *testing.T, f Factory, spec topology.Store, fill func(s *state.Stores), check func(t *testing.T, s *state.Stores)) {
	s := open(t, f, spec)
	fill(s)
	t.Run("dirty", func(t *testing.T) { check(t, s) })
	must(t, s.Flush())
	t.Run("flushed", func(t *testing.T) { check(t, s) })
	commit(t, s, state.CommitPoint{StreamTime: -1})
	t.Run("committed", func(t *testing.T) { check(t, s) })
	if f.Durable && !spec.InMemory {
		must(t, s.Close())
		s := open(t, f, spec)
		t.Run("reopened", func(t *testing.T) { check(t, s) })
		must(t, s.Close())
	}
}
