package streams_test

import (
	"iter"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/streamstest"
	"github.com/millrace/millrace/streams/window"
)

func windowCount(w window.Definition, opts ...streams.AggregateOption) *streams.Builder {
	b := streams.NewBuilder()
	b.Stream(leftTopic).GroupByKey().WindowedBy(w).Count("windows", opts...).ToStream().SelectKey(spelled).To(outCounts)
	return b
}

// F-089: one window that never ends. Records before it are in none, and that is no loss.
func TestF089UnlimitedWindow(t *testing.T) {
	caches(t, func(t *testing.T, opts ...streamstest.Option) {
		windowScript(t, windowCount(window.Unlimited(time.UnixMilli(100))), `
			k@100 -> k[100,9223372036854775807]=1@100
			k@99
			k@1000000000000 -> k[100,9223372036854775807]=2@1000000000000
			null=v@100 -> drops 1
			k@101 -> k[100,9223372036854775807]=3@1000000000000 drops 1
			restart
			k@102 -> k[100,9223372036854775807]=4@1000000000000 drops 1
			lost
			k@103 -> k[100,9223372036854775807]=5@1000000000000 drops 1`, opts...)
	})
}

// shifts are windows of unequal length, some of which overlap: [0,10), [5,25), [30,31), ...
type shifts []window.Window

func (s shifts) Windows(t time.Time) iter.Seq[window.Window] {
	return func(yield func(window.Window) bool) {
		for _, w := range s {
			if !t.Before(w.Start) && t.Before(w.End) && !yield(w) {
				return
			}
		}
	}
}

func (s shifts) MaxSize() time.Duration { return 20 * ms }

func between(start, end int64) window.Window {
	return window.Window{Start: time.UnixMilli(start), End: time.UnixMilli(end)}
}

// F-094: windows of one's own, of any lengths. Where a window ends is known again when its row comes from a cache or from the store.
func TestF094CustomWindows(t *testing.T) {
	plan := shifts{between(-5, 10), between(5, 25), between(30, 31)}
	caches(t, func(t *testing.T, opts ...streamstest.Option) {
		windowScript(t, windowCount(window.Custom(plan).Grace(3*ms)), `
			k@0  -> k[0,10]=1@0
			k@7  -> k[0,10]=2@7 k[5,25]=1@7
			k@12 -> k[5,25]=2@12
			k@9  -> k[0,10]=3@9 k[5,25]=3@12
			k@13 -> k[5,25]=4@13
			k@9  -> k[5,25]=5@13 drops 1
			k@26 -> drops 1
			restart
			k@30 -> k[30,31]=1@30 drops 1`, opts...)
	})
	b := streams.NewBuilder()
	table := b.Stream(leftTopic).GroupByKey().WindowedBy(window.Custom(plan)).Count("windows", streams.Retention(time.Hour))
	d := windowScript(t, b, "k@7\nk@30")
	var got []string
	for k, n := range d.Store(table.WindowStore()).All() {
		got = append(got, spelled(k, n))
	}
	if s := strings.Join(got, " "); s != "k[0,10] k[5,25] k[30,31]" {
		t.Errorf("the store has %s", s)
	}
}

// F-094: an assigner that yields a window which can't be stops the task, and the error says which.
func TestF094BadAssigner(t *testing.T) {
	for name, c := range map[string]struct {
		plan shifts
		says string
	}{
		"too long":   {shifts{between(0, 21)}, "is longer than 20ms"},
		"descending": {shifts{between(5, 10), between(0, 10)}, "does not come after the one before it"},
	} {
		t.Run(name, func(t *testing.T) {
			topology, err := windowCount(window.Custom(c.plan)).Build()
			if err != nil {
				t.Fatal(err)
			}
			d := streamstest.New(t, topology)
			d.Input(leftTopic).PipeAt(time.UnixMilli(7), "k", "v")
			if err := d.Err(); err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "KSTREAM-AGGREGATE-0000000001") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// F-094: days in a time zone are 23 and 25 hours long where clocks change.
func TestF094Days(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	b := streams.NewBuilder()
	b.Stream(leftTopic).GroupByKey().WindowedBy(window.Days(berlin).Grace(time.Hour)).Count("days").ToStream().
		SelectKey(func(k window.Windowed[string], _ int64) string {
			return k.Start.In(berlin).Format(time.DateOnly) + "+" + k.End.Sub(k.Start).String()
		}).To(outCounts)
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	d := streamstest.New(t, topology)
	in, out := d.Input(leftTopic), d.Output(outCounts)
	for _, at := range []string{"2026-03-29T00:00:00+01:00", "2026-03-29T23:59:59+02:00", "2026-03-30T00:00:00+02:00", "2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00"} {
		when, err := time.Parse(time.RFC3339, at)
		if err != nil {
			t.Fatal(err)
		}
		in.PipeAt(when, "k", at)
	}
	var got []string
	for _, r := range out.ReadAll() {
		got = append(got, r.Key)
	}
	want := "2026-03-29+23h0m0s 2026-03-29+23h0m0s 2026-03-30+24h0m0s 2026-10-25+25h0m0s 2026-10-25+25h0m0s"
	if s := strings.Join(got, " "); s != want {
		t.Errorf("got %s, want %s", s, want)
	}
}

// A child that reads the store of the aggregation with other keys does not disturb the windows that are still to come of the record at hand.
func TestF081ChildrenMayReadTheStore(t *testing.T) {
	b := streams.NewBuilder()
	table := b.Stream(leftTopic).GroupByKey().WindowedBy(window.Hopping(10*ms, 5*ms)).Count("windows", streams.NoCaching)
	table.ToStream().ProcessFunc(func(ctx *streams.Context[string, int64], r streams.Record[window.Windowed[string], int64]) error {
		ctx.Store(table.WindowStore()).Get("another key, and a longer one", r.Key.Start)
		ctx.Forward(ctx.Record(spelled(r.Key, r.Value), r.Value))
		return nil
	}, streams.WithStores(table.WindowStore())).To(outCounts)
	windowScript(t, b, `
		k@7 -> k[0,10]=1@7 k[5,15]=1@7
		k@8 -> k[0,10]=2@8 k[5,15]=2@8`)
}
