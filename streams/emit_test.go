package streams_test

import (
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/streamstest"
	"github.com/millrace/millrace/streams/window"
)

func finalCount(w window.Definition, opts ...streams.AggregateOption) *streams.Builder {
	b := streams.NewBuilder()
	b.Stream(leftTopic).GroupByKey().WindowedBy(w).Emit(streams.OnWindowClose).Count("windows", opts...).ToStream().SelectKey(spelled).To(outCounts)
	return b
}

// F-092: final results of tumbling and hopping windows, in the order of windows and then of keys, once, at most once per second of the wall clock. The
// results are those of Kafka Streams 4.4.0.
func TestF092EmitOnWindowClose(t *testing.T) {
	caches(t, func(t *testing.T, opts ...streamstest.Option) {
		windowScript(t, finalCount(window.Tumbling(10*ms), streams.Retention(time.Hour)), `
			k@1
			b@2
			a@3
			k@9
			k@10
			tick 999ms
			k@20
			tick 1ms
			k@21 -> a[0,10]=1@3 b[0,10]=1@2 k[0,10]=2@9 k[10,20]=1@10
			tick 1s
			k@5 -> drops 1
			tick 1s
			k@30 -> k[20,30]=2@21 drops 1
			tick 1s
			k@30`, opts...)
		windowScript(t, finalCount(window.Hopping(10*ms, 5*ms).Grace(3*ms), streams.Retention(time.Hour)), `
			k@1
			b@7
			tick 1s
			k@12
			tick 1s
			k@13 -> b[0,10]=1@7 k[0,10]=1@1
			tick 1s
			k@14
			tick 1s
			k@18 -> b[5,15]=1@7 k[5,15]=3@14
			tick 1s
			x@40 -> k[10,20]=4@18 k[15,25]=1@18`, opts...)
	})
}

// F-092: the same of sliding windows, whose ends are inclusive. A record before the first whole window is no occasion to look.
func TestF092EmitOnCloseOfSlidingWindows(t *testing.T) {
	windowScript(t, finalCount(window.Sliding(10*ms), streams.Retention(time.Hour)), `
		k@12
		k@15
		tick 1s
		k@22 -> k[2,12]=1@12 k[5,15]=2@15
		tick 1s
		k@23 -> k[12,22]=3@22
		tick 1s
		k@26 -> k[13,23]=3@23
		tick 1s
		x@3 -> drops 1
		tick 1s
		k@13 -> drops 2
		tick 1s
		x@40 -> k[16,26]=3@26 k[23,33]=2@26 k[24,34]=1@26 drops 2`)
}

// B-001, F-092: a session closes one millisecond after gap and grace have passed since its end.
func TestB001EmitOnCloseOfSessions(t *testing.T) {
	windowScript(t, sessionCount(window.Session(10*ms), streams.OnWindowClose, streams.Retention(time.Hour)), `
		k@0
		k@10
		tick 2s
		x@20
		tick 2s
		x@21 -> k[0,10]=2@10
		tick 2s
		k@9 -> drops 1
		tick 2s
		m@11 -> drops 1
		tick 2s
		z@40 -> m[11,11]=1@11 x[20,21]=2@21 drops 1
		tick 2s
		z@100 -> z[40,40]=1@40 drops 1`)
	windowScript(t, sessionCount(window.Session(10*ms).Grace(5*ms), streams.OnWindowClose, streams.Retention(time.Hour)), `
		k@0
		tick 2s
		k@10
		tick 2s
		x@20
		tick 2s
		x@25
		tick 2s
		x@26 -> k[0,10]=2@10
		tick 2s
		x@30`)
}

// F-092: up to where results were sent is known after a restart, with its state and without, and after a crash what was not committed is sent again.
func TestF092EmitOnCloseOverRestarts(t *testing.T) {
	script := `
		k@1
		commit
		tick 1s
		k@10 -> k[0,10]=1@1
		crash -> k[0,10]=1@1
		commit
		restart
		k@11
		tick 1s
		k@20 -> k[10,20]=2@11
		commit
		lost
		k@21
		tick 1s
		k@30 -> k[20,30]=2@21`
	windowScript(t, finalCount(window.Tumbling(10*ms)), script, streamstest.CommitEvery(0))
	// Without a cache the changelog has k@10 before the crash, and at least once it is counted again.
	script = strings.Replace(script, "k[10,20]=2@11", "k[10,20]=3@11", 1)
	windowScript(t, finalCount(window.Tumbling(10*ms), streams.NoCaching, streams.Retention(time.Hour)), script, streamstest.CommitEvery(0))
}

// F-091, F-093: where stream time jumps over the retention, results without a cache are lost, as in Kafka Streams 4.4.0; with a cache, or a longer
// retention, they are not.
func TestF093ResultsThatExpire(t *testing.T) {
	begin := `
		k@1
		tick 1s
		k@10 -> k[0,10]=1@1
		tick 1s
		k@35`
	windowScript(t, finalCount(window.Tumbling(10*ms), streams.NoCaching), begin+`
		tick 1s
		k@50`)
	all := begin + ` -> k[10,20]=1@10
		tick 1s
		k@50 -> k[30,40]=1@35
		tick 1s
		k@300000 -> k[50,60]=1@50`
	windowScript(t, finalCount(window.Tumbling(10*ms), streams.NoCaching, streams.Retention(time.Hour)), all)
	windowScript(t, finalCount(window.Tumbling(10*ms)), all+`
		k@400000
		k@900000
		tick 1s
		k@900001 -> k[300000,300010]=1@300000 k[400000,400010]=1@400000`)
}

// F-092: a result has the headers of the record that made time pass, and no other.
func TestF092HeadersOfFinalResults(t *testing.T) {
	topology, err := finalCount(window.Tumbling(10 * ms)).Build()
	if err != nil {
		t.Fatal(err)
	}
	d := streamstest.New(t, topology)
	in, out := d.Input(leftTopic), d.Output(outCounts)
	in.PipeRecords(in.Record("k", "v").WithTimestamp(time.UnixMilli(1)).WithHeader("by", []byte("k")))
	d.AdvanceWallClock(time.Second)
	in.PipeRecords(in.Record("x", "v").WithTimestamp(time.UnixMilli(10)).WithHeader("by", []byte("x")))
	r := out.Read()
	if by, _ := r.Headers.Last("by"); string(by) != "x" || len(r.Headers) != 1 || r.Timestamp != time.UnixMilli(1).UTC() {
		t.Errorf("got %v", r)
	}
}

// Emit returns a copy: the grouping that it is called on keeps its own way.
func TestEmitIsACopy(t *testing.T) {
	b := streams.NewBuilder()
	g := b.Stream(leftTopic).GroupByKey().WindowedBy(window.Tumbling(10 * ms))
	final := g.Emit(streams.OnWindowClose)
	g.Count("updates").ToStream().SelectKey(spelled).To(outCounts)
	final.Count("finals")
	windowScript(t, b, "k@1 -> k[0,10]=1@1")
}
