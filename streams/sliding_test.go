package streams_test

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/streams/streamstest"
	"github.com/millrace/millrace/streams/window"
)

func slidingCount(w window.SlidingWindows, opts ...streams.AggregateOption) *streams.Builder {
	b := streams.NewBuilder()
	b.Stream(leftTopic).GroupByKey().WindowedBy(w).Count("windows", opts...).ToStream().SelectKey(spelled).To(outCounts)
	return b
}

// F-085, F-086: what each record makes and changes, and in which order, as Kafka Streams 4.4.0 does it.
func TestF085SlidingWindows(t *testing.T) {
	w := window.Sliding(10 * ms).Grace(50 * ms)
	for name, script := range map[string]string{
		"in order": `
			k@100 -> k[90,100]=1@100
			k@105 -> k[101,111]=1@105 k[95,105]=2@105
			k@110 -> k[101,111]=2@110 k[106,116]=1@110 k[100,110]=3@110
			k@111 -> k[106,116]=2@111 k[101,111]=3@111 k[111,121]=1@111
			k@121 -> k[111,121]=2@121 k[112,122]=1@121
			k@132 -> k[122,132]=1@132`,
		"out of order": `
			k@100 -> k[90,100]=1@100
			k@100 -> k[90,100]=2@100
			k@110 -> k[101,111]=1@110 k[100,110]=3@110
			k@105 -> k[101,111]=2@110 k[100,110]=4@110 k[95,105]=3@105 k[106,116]=1@110
			k@95  -> k[95,105]=4@105 k[90,100]=3@100 k[85,95]=1@95 k[96,106]=3@105
			k@89  -> k[85,95]=2@95 k[79,89]=1@89
			k@110 -> k[106,116]=2@110 k[101,111]=3@110 k[100,110]=5@110
			k@106 -> k[106,116]=3@110 k[101,111]=4@110 k[100,110]=6@110 k[96,106]=4@106 k[107,117]=2@110`,
		"before the first whole window": `
			k@4  -> k[0,10]=1@4
			k@0  -> k[1,11]=1@4 k[0,10]=2@4
			k@9  -> k[1,11]=2@9 k[5,15]=1@9 k[0,10]=3@9
			k@10 -> k[5,15]=2@10 k[1,11]=3@10 k[0,10]=4@10 k[10,20]=1@10
			k@2  -> k[1,11]=4@10 k[3,13]=3@10 k[0,10]=5@10
			k@20 -> k[10,20]=2@20 k[11,21]=1@20
			k@21 -> k[11,21]=2@21 k[21,31]=1@21
			k@4  -> k[1,11]=5@10 k[3,13]=4@10 k[0,10]=6@10`,
	} {
		t.Run(name, func(t *testing.T) { windowScript(t, slidingCount(w), script) })
	}
}

// F-085: a record is late when the last window that it would be in has closed; a window that has closed does not change any more. Each is a drop.
func TestF085LateRecordsOfSlidingWindows(t *testing.T) {
	windowScript(t, slidingCount(window.Sliding(10*ms).Grace(5*ms), streams.Retention(time.Hour)), `
		k@100 -> k[90,100]=1@100
		x@120 -> x[110,120]=1@120
		k@104 -> drops 1
		k@105 -> drops 3
		k@110 -> drops 5
		k@115 -> k[105,115]=1@115 drops 5
		x@130 -> x[121,131]=1@130 x[120,130]=2@130 drops 5
		k@115 -> drops 6
		k@114 -> drops 7`)
}

// F-083, F-085: null keys and values take no part. The first value is taken as it is, also in a window that is made of two others.
func TestF085ReduceOfSlidingWindows(t *testing.T) {
	caches(t, func(t *testing.T, opts ...streamstest.Option) {
		b := streams.NewBuilder()
		b.Stream(leftTopic).GroupByKey().WindowedBy(window.Sliding(10*ms).Grace(50*ms)).
			Reduce("windows", func(a, v string) string { return a + v }).ToStream().SelectKey(spelled).To(outTopic)
		windowScript(t, b, `
			k=a@100 -> k[90,100]=a@100
			k=b@105 -> k[101,111]=b@105 k[95,105]=ab@105
			k=c@102 -> k[101,111]=bc@105 k[95,105]=abc@105 k[92,102]=ac@102 k[103,113]=b@105
			k=d@112 -> k[103,113]=bd@112 k[106,116]=d@112 k[102,112]=bcd@112
			k=null@110 -> drops 1
			null=e@110 -> drops 2
			k=f@96  -> k[95,105]=abcf@105 k[92,102]=acf@102 k[90,100]=af@100 k[86,96]=f@96 k[97,107]=abc@105 drops 2
			k=g@122 -> k[113,123]=g@122 k[112,122]=dg@122 drops 2`, opts...)
	})
}

// An aggregate that is changed in place does not leak from one window into another.
func TestF086AggregatesChangedInPlace(t *testing.T) {
	b := streams.NewBuilder()
	add := func(a *pair, _, _ string) *pair { a.A++; return a }
	text := func(p *pair) string { return fmt.Sprint(p.A) }
	b.Stream(leftTopic).GroupByKey().WindowedBy(window.Sliding(10*ms).Grace(time.Second)).
		Aggregate("windows", func() *pair { return new(pair) }, add, streams.ValueSerde(serde.Pointer(serde.JSON[pair]()))).
		MapValues(text).ToStream().SelectKey(spelled).To(outTopic)
	windowScript(t, b, `
		k@105 -> k[95,105]=1@105
		k@100 -> k[95,105]=2@105 k[90,100]=1@100 k[101,111]=1@105
		k@5   -> k[0,10]=1@5
		k@3   -> k[4,14]=1@5 k[0,10]=2@5`, streamstest.WithConfig(streams.Config{CacheBytes: -1}))
}

var slidingSeed = flag.Uint64("sliding.seed", 0, "seed of the random test of sliding windows; 0 takes one from the clock")

// F-086: whatever the order of records, there is a window for each content that differs, and it holds the records between its ends.
func TestF086SlidingWindowsAgainstAModel(t *testing.T) {
	seed := *slidingSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("-sliding.seed=%d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 20 {
		difference := 1 + rng.Int64N(12)
		b := streams.NewBuilder()
		table := b.Stream(leftTopic).GroupByKey().WindowedBy(window.Sliding(time.Duration(difference) * ms).Grace(time.Hour)).Count("windows")
		topology, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		d := streamstest.New(t, topology, streamstest.CommitEvery(rng.IntN(3)))
		in := d.Input(leftTopic)
		var times []int64
		for range 1 + rng.IntN(30) {
			at := rng.Int64N(40)
			times = append(times, at)
			in.PipeAt(time.UnixMilli(at), "k", "v")
		}
		want := map[string]int64{}
		within := func(start int64) (n int64) {
			for _, at := range times {
				if at >= start && at <= start+difference {
					n++
				}
			}
			return n
		}
		for _, at := range times {
			left := max(0, at-difference)
			want[fmt.Sprintf("k[%d,%d]", left, left+difference)] = within(left)
			if right := within(at + 1); right > 0 {
				want[fmt.Sprintf("k[%d,%d]", at+1, at+1+difference)] = right
			}
		}
		got := map[string]int64{}
		for k, n := range d.Store(table.WindowStore()).All() {
			got[spelled(k, n)] = n
		}
		if !maps.Equal(got, want) {
			t.Fatalf("difference %d, records at %v: got %v, want %v", difference, times, sortedText(got), sortedText(want))
		}
	}
}

func sortedText(m map[string]int64) (s []string) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		s = append(s, fmt.Sprintf("%s=%d", k, m[k]))
	}
	return s
}
