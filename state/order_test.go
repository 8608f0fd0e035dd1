package state

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

var orderSeed = flag.Uint64("seed", 0, "seed of random tests; 0 takes one from the clock")

func random(t testing.TB) *rand.Rand {
	n := *orderSeed
	if n == 0 {
		n = uint64(time.Now().UnixNano())
	}
	t.Logf("-seed=%d", n)
	return rand.New(rand.NewPCG(n, 0))
}

// TestTree compares a tree and its clones with maps.
func TestTree(t *testing.T) {
	rng := random(t)
	tr, model := newTree[int](), map[string]int{}
	type copied struct {
		t     *tree[int]
		model map[string]int
	}
	var clones []copied
	check := func(tr *tree[int], model map[string]int) {
		t.Helper()
		want := slices.Sorted(maps.Keys(model))
		if tr.n != len(want) {
			t.Fatalf("%d items, want %d", tr.n, len(want))
		}
		cur := treeCursor[int]{t: tr}
		i := 0
		for ok := cur.seek(nil); ok; ok = cur.next() {
			if i >= len(want) || string(cur.key) != want[i] || cur.val != model[want[i]] {
				t.Fatalf("item %d is %q", i, cur.key)
			}
			i++
		}
		if i != len(want) || cur.next() || cur.prev() {
			t.Fatalf("%d items forward, want %d", i, len(want))
		}
		for ok := cur.seekBefore(nil); ok; ok = cur.prev() {
			if i--; i < 0 || string(cur.key) != want[i] {
				t.Fatalf("item %d is %q backward", i, cur.key)
			}
		}
		if i != 0 {
			t.Fatalf("%d items missing backward", i)
		}
		for range 20 {
			key := fmt.Appendf(nil, "%d", rng.IntN(3000))
			at, _ := slices.BinarySearch(want, string(key))
			if ok := cur.seek(key); ok != (at < len(want)) || (ok && string(cur.key) != want[at]) {
				t.Fatalf("seek %q: %v, %q", key, ok, cur.key)
			}
			if ok := cur.seekBefore(key); ok != (at > 0) || (ok && string(cur.key) != want[at-1]) {
				t.Fatalf("seek before %q: %v, %q", key, ok, cur.key)
			}
		}
	}
	for round := range 60 {
		growing := round%20 < 12
		for range rng.IntN(1000) {
			key := fmt.Sprint(rng.IntN(3000))
			if (rng.IntN(4) == 0) == growing {
				_, had := model[key]
				if tr.delete([]byte(key)) != had {
					t.Fatalf("delete %q", key)
				}
				delete(model, key)
			} else {
				_, had := model[key]
				if tr.set([]byte(key), round) == had {
					t.Fatalf("set %q", key)
				}
				model[key] = round
			}
			if v, ok := tr.get([]byte(key)); ok != (model[key] == v && func() bool { _, ok := model[key]; return ok }()) {
				t.Fatalf("get %q: %d, %v", key, v, ok)
			}
		}
		check(tr, model)
		if rng.IntN(3) == 0 {
			clones = append(clones, copied{tr.clone(), maps.Clone(model)})
		}
		if len(clones) > 0 { // clones may be written to as well
			c := clones[rng.IntN(len(clones))]
			key := fmt.Sprint(rng.IntN(3000))
			c.t.set([]byte(key), -1)
			c.model[key] = -1
		}
	}
	for _, c := range clones {
		check(c.t, c.model)
	}
	tr.clear()
	check(tr, nil)
}

// TestTreeCursorFollowsChanges changes a tree under a cursor: items that stay are seen once.
func TestTreeCursorFollowsChanges(t *testing.T) {
	rng := random(t)
	for _, reverse := range []bool{false, true} {
		tr := newTree[bool]()
		for i := range 1000 {
			tr.set(fmt.Appendf(nil, "%04d", i), i%3 == 0) // the values of those that stay
		}
		cur := treeCursor[bool]{t: tr}
		seen := 0
		var last []byte
		step, ok := cur.next, cur.seek(nil)
		if reverse {
			step, ok = cur.prev, cur.seekBefore(nil)
		}
		for ; ok; ok = step() {
			if cur.val {
				seen++
			}
			if last != nil && (bytes.Compare(cur.key, last) > 0) == reverse {
				t.Fatalf("%q after %q", cur.key, last)
			}
			last = cur.key
			if key := fmt.Appendf(nil, "%04d", rng.IntN(1000)); rng.IntN(2) == 0 {
				if v, ok := tr.get(key); ok && !v {
					tr.delete(key)
				}
			} else {
				tr.set(append(key, '+'), false)
			}
		}
		if seen != 334 {
			t.Fatalf("saw %d of 334 items that stayed", seen)
		}
	}
}

// TestSortRows compares with a plain sort, over keys that have much in common.
func TestSortRows(t *testing.T) {
	rng := random(t)
	var order, spare []sortKey
	for round := range 200 {
		n := rng.IntN(600)
		keys := make([][]byte, n)
		common := bytes.Repeat([]byte("c"), rng.IntN(12))
		for i := range keys {
			keys[i] = append(slices.Clone(common), make([]byte, rng.IntN(12))...)
			for j := len(common); j < len(keys[i]); j++ {
				keys[i][j] = byte(rng.IntN(1 + round%4))
			}
		}
		order, spare = sortRows(n, func(i uint32) []byte { return keys[i] }, order, spare)
		for i := 1; i < n; i++ {
			a, b := order[i-1].i, order[i].i
			if c := bytes.Compare(keys[a], keys[b]); c > 0 || (c == 0 && a > b) {
				t.Fatalf("%x (%d) before %x (%d)", keys[a], a, keys[b], b)
			}
		}
	}
}
