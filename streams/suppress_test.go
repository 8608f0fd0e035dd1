package streams_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/streams/streamstest"
	"github.com/millrace/millrace/streams/window"
)

// suppressed is the table "left", suppressed.
func suppressed(s streams.TimeLimit, opts ...streams.SuppressOption) *streams.Builder {
	b := streams.NewBuilder()
	b.Table(leftTopic).Suppress(s, opts...).ToStream().To(outTopic)
	return b
}

// F-124, F-125: the first change of a key sets the time, the last one is let through, deletions included; only records make time pass. The results of all
// scripts here are those of Kafka Streams 4.4.0.
func TestF124SuppressUntilTimeLimit(t *testing.T) {
	caches(t, func(t *testing.T, opts ...streamstest.Option) {
		windowScript(t, suppressed(streams.UntilTimeLimit(10*ms)), `
			k=a@0
			k=b@5
			a=x@6
			k=null@7
			tick 1h
			z=q@9
			z=q@10 -> k=null@7
			z=r@30 -> a=x@6 z=r@30
			a=y@16 -> a=y@16
			a=z@40`, opts...)
		windowScript(t, suppressed(streams.UntilTimeLimit(0)), `
			k=a@10 -> k=a@10
			k=b@5  -> k=b@5
			k=null@7 -> k=null@7
			k=c@20 -> k=c@20`, opts...)
	})
}

// F-124, F-129: a full buffer lets the oldest changes through, by time and then by key, which may be the newest.
func TestF129EmitEarlyWhenFull(t *testing.T) {
	windowScript(t, suppressed(streams.UntilTimeLimit(100*ms).MaxRecords(2).EmitEarlyWhenFull()), `
		k=a@10
		b=b@10
		a=c@10 -> a=c@10
		d=d@5  -> d=d@5
		e=e@200 -> b=b@10 k=a@10`)
	// A row of these takes 8 + 1 + 1 bytes, and 24 for its record.
	windowScript(t, suppressed(streams.UntilTimeLimit(100*ms).MaxBytes(67).EmitEarlyWhenFull()), `
		k=a@10
		b=b@10 -> b=b@10
		k=c@11
		k=longer@12`)
	windowScript(t, suppressed(streams.UntilTimeLimit(100*ms).MaxBytes(68).EmitEarlyWhenFull()), `
		k=a@10
		b=b@10`)
}

// F-124, F-127: a buffer that is full and may not let anything through early stops the task, with an error that names the operator and what it holds.
func TestF124ShutDownWhenFull(t *testing.T) {
	for name, b := range map[string]*streams.Builder{
		"records": suppressed(streams.UntilTimeLimit(100*ms).MaxRecords(2), streams.Named("thin")),
		"bytes":   suppressed(streams.UntilTimeLimit(100*ms).MaxBytes(100), streams.Named("thin")),
	} {
		t.Run(name, func(t *testing.T) {
			topology, err := b.Build()
			if err != nil {
				t.Fatal(err)
			}
			d := streamstest.New(t, topology)
			in := d.Input(leftTopic)
			for _, k := range []string{"a", "b", "c"} {
				if err := d.Err(); err != nil {
					t.Fatalf("before %s: %v", k, err)
				}
				in.PipeAt(time.UnixMilli(10), k, "v")
			}
			err = d.Err()
			if !errors.Is(err, streams.ErrBufferFull) || !strings.Contains(err.Error(), "thin holds 3 records of at most") {
				t.Errorf("got %v", err)
			}
		})
	}
}

// B-001, F-123: final results of windows and sessions. A session leaves one millisecond before the aggregation closes it, so it may be extended afterwards.
func TestB001SuppressUntilWindowCloses(t *testing.T) {
	sessions := func(grace time.Duration) *streams.Builder {
		b := streams.NewBuilder()
		b.Stream(leftTopic).GroupByKey().SessionsBy(window.Session(10*ms).Grace(grace)).Count("sessions", streams.Retention(time.Hour)).
			Suppress(streams.UntilWindowCloses).ToStream().SelectKey(spelled).To(outCounts)
		return b
	}
	windows := func(w window.Definition) *streams.Builder {
		b := streams.NewBuilder()
		b.Stream(leftTopic).GroupByKey().WindowedBy(w).Count("windows").
			Suppress(streams.UntilWindowCloses).ToStream().SelectKey(spelled).To(outCounts)
		return b
	}
	caches(t, func(t *testing.T, opts ...streamstest.Option) {
		windowScript(t, sessions(0), `
			k@0
			k@10
			x@20 -> k[0,10]=2@10
			k@20
			z@40 -> k[0,20]=3@20 x[20,20]=1@20
			z@41
			z@60 -> z[40,41]=2@41`, opts...)
		windowScript(t, sessions(5*ms), `
			k@0
			k@10
			x@20
			k@20
			z@40 -> k[0,20]=3@20 x[20,20]=1@20`, opts...)
		windowScript(t, windows(window.Hopping(10*ms, 5*ms).Grace(3*ms)), `
			k@1
			b@7
			k@12
			k@13 -> b[0,10]=1@7 k[0,10]=1@1
			k@8
			k@18 -> b[5,15]=1@7 k[5,15]=3@13
			x@40 -> k[10,20]=3@18 k[15,25]=1@18`, opts...)
		windowScript(t, windows(window.Sliding(10*ms).Grace(ms)), `
			k@12
			k@13 -> k[2,12]=1@12
			k@22 -> k[3,13]=2@13
			k@33 -> k[12,22]=3@22 k[13,23]=2@22 k[14,24]=1@22`, opts...)
	})
}

// F-123: with a bound, a buffer of final results stops the task: nothing else would be final.
func TestF123FinalResultsShutDownWhenFull(t *testing.T) {
	b := streams.NewBuilder()
	b.Stream(leftTopic).GroupByKey().WindowedBy(window.Tumbling(10 * ms)).Count("windows").Suppress(streams.UntilWindowCloses.MaxRecords(1)).
		ToStream().SelectKey(spelled).To(outCounts)
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	d := streamstest.New(t, topology)
	in := d.Input(leftTopic)
	in.PipeAt(time.UnixMilli(1), "a", "v")
	in.PipeAt(time.UnixMilli(11), "a", "v")
	if err := d.Err(); err != nil {
		t.Errorf("one window at a time: %v", err)
	}
	in.PipeAt(time.UnixMilli(12), "b", "v")
	if err := d.Err(); !errors.Is(err, streams.ErrBufferFull) || !strings.Contains(err.Error(), "KTABLE-SUPPRESS-0000000002") {
		t.Errorf("got %v", err)
	}
}

// F-127: the changelog has the bytes of Kafka Streams 4.4.0, written at the commit, with the version in a header; what has left is deleted.
func TestF127ChangelogOfASuppression(t *testing.T) {
	topology, err := suppressed(streams.UntilTimeLimit(10*ms), streams.Named("sup")).Build()
	if err != nil {
		t.Fatal(err)
	}
	caches(t, func(t *testing.T, opts ...streamstest.Option) {
		d := streamstest.New(t, topology, opts...)
		in, log := d.Input(streams.NewTopic("left", serde.String, serde.String)), d.Output(streams.NewTopic("test-sup-store-changelog", serde.String, serde.Bytes))
		pipe := func(key, value string, at int64, header string) {
			r := in.Record(key, value).WithTimestamp(time.UnixMilli(at))
			if header != "" {
				r = r.WithHeader("h", []byte(header))
			}
			if value == "" {
				r = r.Null()
			}
			in.PipeRecords(r)
		}
		pipe("k", "a", 0, "1")
		pipe("k", "b", 5, "2")
		pipe("a", "x", 6, "")
		pipe("k", "", 7, "")
		pipe("z", "q", 9, "")
		pipe("z", "q", 10, "")
		var got []string
		for _, r := range log.ReadAll() {
			version, _ := r.Headers.Last("v")
			got = append(got, fmt.Sprintf("%s=%x v%x", r.Key, r.Value, version))
		}
		want := []string{
			"k=00000000000000000000000000000000000000046c656674000000000000000100000001680000000131ffffffffffffffff00000001610000000000000000 v03",
			"k=00000000000000050000000000000001000000046c656674000000000000000100000001680000000132ffffffff000000016100000001620000000000000000 v03",
			"a=00000000000000060000000000000002000000046c6566740000000000000000ffffffffffffffff00000001780000000000000006 v03",
			"k=00000000000000070000000000000003000000046c6566740000000000000000ffffffff0000000162ffffffff0000000000000000 v03",
			"z=00000000000000090000000000000004000000046c6566740000000000000000ffffffffffffffff00000001710000000000000009 v03",
			"k= v",
			"z=000000000000000a0000000000000005000000046c6566740000000000000000ffffffff000000017100000001710000000000000009 v03",
		}
		slices.Sort(got[5:])
		if !slices.Equal(got, want) {
			t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// F-127: what is held back survives: a restart, the loss of the directory, and a crash, after which the buffer is as it was committed.
func TestF127SuppressionSurvives(t *testing.T) {
	script := `
		k=a@0
		b=b@3
		k=c@4
		commit
		b=d@5
		%s
		x=x@9
		x=y@10 -> k=c@4
		x=y@13 -> b=d@5
		commit
		crash
		x=z@19 -> x=z@19
		commit
		restart`
	opts := []streamstest.Option{streamstest.CommitEvery(0), streamstest.WithConfig(streams.Config{CacheBytes: -1})}
	for _, event := range []string{
		"restart", "lost", "commit\ncrash",
		"crash", // the change of b is taken back, and processed again
	} {
		windowScript(t, suppressed(streams.UntilTimeLimit(10*ms)), fmt.Sprintf(script, event), opts...)
	}
	// Without a changelog the buffer is lost with the task.
	windowScript(t, suppressed(streams.UntilTimeLimit(10*ms), streams.NoLogging), `
		k=a@0
		lost
		x=x@10`)
}

// F-127: the form of Kafka Streams before 2.6 is refused, and not taken for something else.
func TestF127OldChangelogOfASuppression(t *testing.T) {
	topology, err := suppressed(streams.UntilTimeLimit(10*ms), streams.Named("sup")).Build()
	if err != nil {
		t.Fatal(err)
	}
	err = streamstest.Run(topology, func(d *streamstest.Driver) {
		d.Input(streams.NewTopic("test-sup-store-changelog", serde.String, serde.String)).Pipe("k", "whatever an old version wrote")
		d.Restart(streamstest.StateLost)
	})
	if err == nil || !strings.Contains(err.Error(), "before 2.6") || !strings.Contains(err.Error(), "sup-store") {
		t.Errorf("got %v", err)
	}
}

// F-126: what is let through has time, headers and origin of the last change that was held, and the old value that came with it.
func TestF126WhatIsLetThrough(t *testing.T) {
	caches(t, func(t *testing.T, opts ...streamstest.Option) {
		b := streams.NewBuilder()
		b.Table(leftTopic).Suppress(streams.UntilTimeLimit(10 * ms)).ToStream().
			ProcessFunc(func(ctx *streams.Context[string, string], r streams.Record[string, string]) error {
				from, ok := ctx.Origin()
				h, _ := r.Headers.Last("h")
				ctx.Forward(r.WithValue(fmt.Sprintf("%s h=%s from %s %d/%d %v", r.Value, h, from.Topic, from.Partition, from.Offset, ok)))
				return nil
			}).To(outTopic)
		topology, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		d := streamstest.New(t, topology, opts...)
		in, out := d.Input(leftTopic), d.Output(outTopic)
		for i, at := range []int64{0, 4} {
			in.PipeRecords(in.Record("k", fmt.Sprint("v", i)).WithTimestamp(time.UnixMilli(at)).WithHeader("h", fmt.Append(nil, i)))
		}
		in.PipeAt(time.UnixMilli(10), "x", "v")
		if r := out.Read(); r.Value != "v1 h=1 from left 0/1 true" || r.Timestamp != time.UnixMilli(4).UTC() {
			t.Errorf("got %v", r)
		}
	})
	b := streams.NewBuilder()
	group := func(_, v string) (string, string) { return "g", v }
	add := func(a, _, v string) string { return a + "+" + v }
	subtract := func(a, _, v string) string { return a + "-" + v }
	b.Table(leftTopic).Suppress(streams.UntilTimeLimit(10*ms)).GroupBy(group).Aggregate("sums", func() string { return "" }, add, subtract).ToStream().To(outTopic)
	windowScript(t, b, `
		k=a@0
		k=b@1
		z=z@10 -> g=+b@1
		k=c@11
		k=d@12
		z=z@30 -> g=+b-z+z@30 g=+b-z+z-c+d@30`)
}

// F-126: a lookup in a suppressed table finds the row as it was before it was held back.
func TestF126LookupInASuppressedTable(t *testing.T) {
	caches(t, func(t *testing.T, opts ...streamstest.Option) {
		b := streams.NewBuilder()
		b.Table(leftTopic).Suppress(streams.UntilTimeLimit(10*ms)).Join(b.Table(rightTopic), both).ToStream().To(outTopic)
		joinScript(t, b, `
			L k=a@0
			R k=1@1
			L z=z@10 -> k=a+1@1
			L k=b@11
			R k=2@12 -> k=a+2@12
			L z=z@30 -> k=b+2@12
			R k=3@13 -> k=b+3@13`, opts...)
	})
}

// What comes out of a cache comes from the record that made the last update, for processors below and for what they write to another cache.
func TestOriginBehindACache(t *testing.T) {
	b := streams.NewBuilder()
	origin := func(ctx *streams.Context[string, string], r streams.Record[string, int64]) error {
		from, ok := ctx.Origin()
		ctx.Forward(ctx.Record(r.Key, fmt.Sprintf("%d from %s %d/%d %v", r.Value, from.Topic, from.Partition, from.Offset, ok)))
		return nil
	}
	b.Stream(leftTopic).GroupByKey().Count("first").ToStream().ProcessFunc(origin).To(outTopic)
	b.Stream(rightTopic).ToTable(streams.Materialized("a")).MapValues(func(string) int64 { return 7 }, streams.Materialized("b")).ToStream().ProcessFunc(origin).To(outTopic)
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	d := streamstest.New(t, topology, streamstest.CommitEvery(0))
	left, right, out := d.Input(leftTopic), d.Input(rightTopic), d.Output(outTopic)
	left.Pipe("k", "v")
	left.Pipe("j", "v")
	left.Pipe("k", "v")
	right.Pipe("r", "v")
	right.Pipe("r", "v")
	d.Commit()
	var got []string
	for _, r := range out.ReadAll() {
		got = append(got, r.Key+"="+r.Value)
	}
	slices.Sort(got)
	if want := []string{"j=1 from left 0/1 true", "k=2 from left 0/2 true", "r=7 from right 0/1 true"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// F-044, F-123, F-127: names, and mistakes.
func TestSuppressMistakes(t *testing.T) {
	count := func(b *streams.Builder, w window.Definition) *streams.WindowedTable[string, int64] {
		return b.Stream(leftTopic).GroupByKey().WindowedBy(w).Count("windows")
	}
	for name, c := range map[string]struct {
		build func(b *streams.Builder)
		cause error
		says  string
	}{
		"unlimited": {func(b *streams.Builder) {
			count(b, window.Unlimited(time.UnixMilli(0))).Suppress(streams.UntilWindowCloses)
		}, streams.ErrBadWindow, "never closes"},
		"nil": {func(b *streams.Builder) { count(b, window.Tumbling(time.Second)).Suppress(nil) }, streams.ErrBadOption, "is nil"},
		"negative": {func(b *streams.Builder) {
			b.Table(leftTopic).Suppress(streams.UntilTimeLimit(-1))
		}, streams.ErrBadOption, "the time limit -1ns is negative"},
		"no records": {func(b *streams.Builder) {
			count(b, window.Tumbling(time.Second)).Suppress(streams.UntilWindowCloses.MaxRecords(0))
		}, streams.ErrBadOption, "may hold nothing"},
		"no bytes": {func(b *streams.Builder) {
			b.Table(leftTopic).Suppress(streams.UntilTimeLimit(time.Second).MaxBytes(-5))
		}, streams.ErrBadOption, "may hold nothing"},
		"versioned F-128": {func(b *streams.Builder) {
			b.Table(leftTopic, streams.Materialized("rows"), streams.Versioned(time.Hour)).Filter(func(string, string) bool { return true }).Suppress(streams.UntilTimeLimit(time.Second))
		}, streams.ErrBadOption, "the table is versioned"},
		"cache": {func(b *streams.Builder) {
			b.Table(leftTopic).Suppress(streams.UntilTimeLimit(time.Second), streams.NoCaching)
		}, streams.ErrBadOption, "without a cache"},
		"serde": {func(b *streams.Builder) {
			b.Table(leftTopic).MapValues(func(string) pair { return pair{} }).Suppress(streams.UntilTimeLimit(time.Second))
		}, streams.ErrNoSerde, "pair of the value"},
		"bad name": {func(b *streams.Builder) {
			b.Table(leftTopic).Suppress(streams.UntilTimeLimit(time.Second), streams.Named("a b"))
		}, streams.ErrBadName, "a b"},
		"taken": {func(b *streams.Builder) {
			t := b.Table(leftTopic)
			t.Suppress(streams.UntilTimeLimit(time.Second), streams.Named("sup"))
			t.Filter(func(_, _ string) bool { return true }, streams.Materialized("sup-store"))
		}, streams.ErrDuplicateName, "sup-store"},
	} {
		t.Run(name, func(t *testing.T) {
			b := streams.NewBuilder()
			c.build(b)
			_, err := b.Build()
			mistake, ok := errors.AsType[*streams.BuildError](err)
			if !ok || !errors.Is(err, c.cause) || !strings.Contains(err.Error(), c.says) || !strings.HasPrefix(mistake.At, "streams/suppress_test.go:") {
				t.Errorf("got %v", err)
			}
		})
	}
	b := streams.NewBuilder(streams.RequireNames)
	b.Table(leftTopic, streams.Materialized("rows")).Suppress(streams.UntilTimeLimit(time.Second))
	if _, err := b.Build(); !errors.Is(err, streams.ErrNameRequired) {
		t.Errorf("a generated name: %v", err)
	}
}
