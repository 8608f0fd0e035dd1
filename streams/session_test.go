package streams_test

import (
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

const ms = time.Millisecond

// spelled is a windowed key as text: k[0,10].
func spelled[V any](k window.Windowed[string], _ V) string {
	return fmt.Sprintf("%s[%d,%d]", k.Key, k.Start.UnixMilli(), k.End.UnixMilli())
}

// caches runs a test with caches and without.
func caches(t *testing.T, f func(t *testing.T, opts ...streamstest.Option)) {
	t.Run("cached", func(t *testing.T) { f(t) })
	t.Run("uncached", func(t *testing.T) { f(t, streamstest.WithConfig(streams.Config{CacheBytes: -1})) })
}

// windowScript runs a topology that reads the topic "left" and writes counts to "out". Lines are such as "k=v@10", "k@10" (the value is "v"), "k=null@10",
// "null=v@10", "tick 2s", "commit", "restart" and "crash"; after an arrow follows what comes out, and "drops 2" if that many were dropped so far.
func windowScript(t *testing.T, b *streams.Builder, script string, opts ...streamstest.Option) *streamstest.Driver {
	t.Helper()
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	d := streamstest.New(t, topology, opts...)
	in, out := d.Input(leftTopic), d.Output(streams.NewTopic("out", serde.String, serde.Bytes))
	for line := range strings.Lines(script) {
		line, want, _ := strings.Cut(strings.TrimSpace(line), "->")
		line, want = strings.TrimSpace(line), strings.TrimSpace(want)
		command, argument, _ := strings.Cut(line, " ")
		switch command {
		case "":
			continue
		case "tick":
			wait, err := time.ParseDuration(argument)
			if err != nil {
				t.Fatal(err)
			}
			d.AdvanceWallClock(wait)
		case "commit":
			d.Commit()
		case "restart":
			d.Restart()
		case "crash":
			d.Crash()
		case "lost":
			d.Restart(streamstest.StateLost)
		default:
			record, at, _ := strings.Cut(line, "@")
			var n int64
			if _, err := fmt.Sscan(at, &n); err != nil {
				t.Fatal(err)
			}
			key, value, ok := strings.Cut(record, "=")
			if !ok {
				value = "v"
			}
			in.PipeRecords(streams.Record[string, string]{
				Key: key, Value: value, Timestamp: time.UnixMilli(n).UTC(), NullKey: key == "null", NullValue: value == "null",
			})
		}
		var got []string
		for _, r := range out.ReadAll() {
			v := string(r.Value)
			if r.NullValue {
				v = "null"
			} else if len(r.Value) == 8 && r.Value[0] == 0 {
				v = fmt.Sprint(r.Value[7])
			}
			got = append(got, fmt.Sprintf("%s=%s@%d", r.Key, v, r.Timestamp.UnixMilli()))
		}
		if drops := total(d.Dropped()); drops > 0 && strings.Contains(want, "drops") {
			got = append(got, fmt.Sprint("drops ", drops))
		}
		if g := strings.Join(got, " "); g != want {
			t.Errorf("%s -> %s\n\twant %s", line, g, want)
		}
	}
	return d
}

// sessionCount counts the sessions of the topic "left".
func sessionCount(w window.SessionWindows, emit streams.Emit, opts ...streams.AggregateOption) *streams.Builder {
	b := streams.NewBuilder()
	b.Stream(leftTopic).GroupByKey().SessionsBy(w).Emit(emit).Count("sessions", opts...).ToStream().SelectKey(spelled).To(outCounts)
	return b
}

// B-001, F-087: a session closes one gap after its end, not at its end. The results are those of Kafka Streams 4.4.0.
func TestB001SessionClosesOneGapAfterItsEnd(t *testing.T) {
	hour := streams.Retention(time.Hour)
	for _, grace := range []time.Duration{0, 5 * ms} {
		w := window.Session(10 * ms).Grace(grace)
		caches(t, func(t *testing.T, opts ...streamstest.Option) {
			windowScript(t, sessionCount(w, streams.OnWindowUpdate, hour), `
				k@0  -> k[0,0]=1@0
				k@10 -> k[0,0]=null@0 k[0,10]=2@10
				x@20 -> x[20,20]=1@20
				k@20 -> k[0,10]=null@10 k[0,20]=3@20
				z@40 -> z[40,40]=1@40
				z@41 -> z[40,40]=null@40 z[40,41]=2@41
				z@60 -> z[60,60]=1@60`, opts...)
		})
	}
	begin := `
		k@0  -> k[0,0]=1@0
		k@10 -> k[0,0]=null@0 k[0,10]=2@10
		x@20 -> x[20,20]=1@20
		x@21 -> x[20,20]=null@20 x[20,21]=2@21`
	caches(t, func(t *testing.T, opts ...streamstest.Option) {
		windowScript(t, sessionCount(window.Session(10*ms), streams.OnWindowUpdate, hour), begin+`
			m@9  -> drops 1
			m@10 -> drops 2
			m@11 -> m[11,11]=1@11 drops 2`, opts...)
		windowScript(t, sessionCount(window.Session(10*ms).Grace(5*ms), streams.OnWindowUpdate, hour), begin+`
			m@9  -> m[9,9]=1@9
			m@10 -> m[9,9]=null@9 m[9,10]=2@10
			m@11 -> m[9,10]=null@10 m[9,11]=3@11`, opts...)
	})
	// The lateness test looks at the merged session.
	windowScript(t, sessionCount(window.Session(10*ms), streams.OnWindowUpdate, hour), `
		k@0  -> k[0,0]=1@0
		k@10 -> k[0,0]=null@0 k[0,10]=2@10
		x@26 -> x[26,26]=1@26
		k@20 -> k[0,10]=null@10 k[0,20]=3@20`)
}

// F-087, F-088: what a record takes over, at the bounds, out of order and between two sessions.
func TestF087Sessions(t *testing.T) {
	w := window.Session(10 * ms).Grace(100 * ms)
	caches(t, func(t *testing.T, opts ...streamstest.Option) {
		windowScript(t, sessionCount(w, streams.OnWindowUpdate), `
			k@100 -> k[100,100]=1@100
			k@111 -> k[111,111]=1@111
			a@100 -> a[100,100]=1@100
			k@101 -> k[100,100]=null@100 k[111,111]=null@111 k[100,111]=3@111
			k@80  -> k[80,80]=1@80
			k@89  -> k[80,80]=null@80 k[80,89]=2@89
			k@90  -> k[80,89]=null@89 k[100,111]=null@111 k[80,111]=6@111
			k=null@122 -> k[122,122]=1@122
			null=v@122 -> drops 1
			k@12  -> k[12,12]=1@12 drops 1
			k@1   -> drops 2
			b@200 -> b[200,200]=1@200 drops 2
			a@89  -> drops 3
			a@90  -> a[100,100]=null@100 a[90,100]=2@100 drops 3`, opts...)
	})
}

// F-088: a record inside a session changes neither of its ends. Without a cache the session is withdrawn and sent again; a cache has one update of it.
func TestF088RecordInsideASession(t *testing.T) {
	begin := `
		k@0  -> k[0,0]=1@0
		k@10 -> k[0,0]=null@0 k[0,10]=2@10`
	windowScript(t, sessionCount(window.Session(10*ms), streams.OnWindowUpdate), begin+"\nk@5 -> k[0,10]=3@10")
	windowScript(t, sessionCount(window.Session(10*ms), streams.OnWindowUpdate, streams.NoCaching), begin+"\nk@5 -> k[0,10]=null@10 k[0,10]=3@10")
	// A record of the very time of a session of one point removes nothing.
	windowScript(t, sessionCount(window.Session(10*ms), streams.OnWindowUpdate, streams.NoCaching), "k@5 -> k[5,5]=1@5\nk@5 -> k[5,5]=2@5")
}

// F-076, F-087: a cache collapses the updates of a commit interval; a session that came and went in it never was.
func TestF076CacheOfSessions(t *testing.T) {
	windowScript(t, sessionCount(window.Session(10*ms), streams.OnWindowUpdate), `
		k@0
		k@5
		k@30
		commit -> k[0,5]=2@5 k[30,30]=1@30
		k@35
		k@36
		commit -> k[30,30]=null@30 k[30,36]=3@36`, streamstest.CommitEvery(0))
}

// F-087: reduce takes the first value as it is and merges with the reducer; aggregate merges with its merger, oldest session first; nil deletes.
func TestF087ReduceAndAggregateOfSessions(t *testing.T) {
	w := window.Session(10 * ms).Grace(100 * ms)
	caches(t, func(t *testing.T, opts ...streamstest.Option) {
		b := streams.NewBuilder()
		b.Stream(leftTopic).GroupByKey().SessionsBy(w).Reduce("sessions", func(a, v string) string { return a + v }).ToStream().SelectKey(spelled).To(outTopic)
		windowScript(t, b, `
			k=a@20 -> k[20,20]=a@20
			k=b@0  -> k[0,0]=b@0
			k=c@10 -> k[0,0]=null@0 k[20,20]=null@20 k[0,20]=bac@20
			k=null@50 -> k[50,50]=null@50
			k=d@51 -> k[51,51]=d@51`, append(slices.Clone(opts), streamstest.WithConfig(streams.Config{CacheBytes: -1}))...)
		b = streams.NewBuilder()
		add := func(a *string, k, v string) *string {
			if v == "delete" {
				return nil
			}
			sum := *a + k + v
			return &sum
		}
		merge := func(k string, a, b *string) *string { sum := *a + "(" + k + *b + ")"; return &sum }
		b.Stream(leftTopic).GroupByKey().SessionsBy(w).
			Aggregate("sessions", func() *string { return new(string) }, add, merge, streams.ValueSerde(serde.Pointer(serde.String))).
			ToStream().SelectKey(spelled).To(streams.NewTopic("out", serde.String, serde.Pointer(serde.String)))
		windowScript(t, b, `
			k=a@20 -> k[20,20]=ka@20
			k=b@0  -> k[0,0]=kb@0
			k=c@10 -> k[0,0]=null@0 k[20,20]=null@20 k[0,20]=(kkb)(kka)kc@20`, opts...)
	})
	b := streams.NewBuilder()
	gone := func(a *string, _, v string) *string {
		if v == "delete" {
			return nil
		}
		return &v
	}
	b.Stream(leftTopic).GroupByKey().SessionsBy(w).
		Aggregate("sessions", func() *string { return new(string) }, gone, func(_ string, _, b *string) *string { return b }, streams.ValueSerde(serde.Pointer(serde.String))).
		ToStream().SelectKey(spelled).To(streams.NewTopic("out", serde.String, serde.Pointer(serde.String)))
	windowScript(t, b, `
		k=a@20 -> k[20,20]=a@20
		k=delete@25 -> k[20,20]=null@20
		k=b@30 -> k[30,30]=b@30`)
}

// B-005: the time of a session is its end. With a cache it has the headers of the record that changed it, without one it has none, as in Kafka Streams.
func TestB005TimeAndHeadersOfSessions(t *testing.T) {
	caches(t, func(t *testing.T, opts ...streamstest.Option) {
		b := sessionCount(window.Session(time.Second).Grace(time.Second), streams.OnWindowUpdate)
		topology, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		d := streamstest.New(t, topology, opts...)
		in, out := d.Input(leftTopic), d.Output(outCounts)
		in.PipeRecords(in.Record("k", "A").WithTimestamp(time.UnixMilli(1000)).WithHeader("trace", []byte("abc")))
		in.PipeRecords(in.Record("k", "B").WithTimestamp(time.UnixMilli(400)).WithHeader("trace", []byte("g")))
		var got []string
		for _, r := range out.ReadAll() {
			trace, _ := r.Headers.Last("trace")
			got = append(got, fmt.Sprintf("%s@%d %s", r.Key, r.Timestamp.UnixMilli(), trace))
		}
		want := []string{"k[1000,1000]@1000 abc", "k[1000,1000]@1000 g", "k[400,1000]@1000 g"}
		if len(opts) > 0 {
			want = []string{"k[1000,1000]@1000 ", "k[1000,1000]@1000 ", "k[400,1000]@1000 "}
		}
		if !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	})
}

// The changelog of sessions has the bytes, times and order of Kafka Streams 4.4.0: key, end, start; the time is that of the record.
func TestF078ChangelogOfSessions(t *testing.T) {
	d := windowScript(t, sessionCount(window.Session(10*ms).Grace(time.Second), streams.OnWindowUpdate, streams.NoCaching), `
		k@1000 -> k[1000,1000]=1@1000
		k@995  -> k[1000,1000]=null@1000 k[995,1000]=2@1000`)
	var got []string
	for _, r := range d.Output(streams.NewTopic("test-sessions-changelog", serde.Bytes, serde.Bytes)).ReadAll() {
		got = append(got, fmt.Sprintf("%x=%x@%d", r.Key, r.Value, r.Timestamp.UnixMilli()))
	}
	want := []string{"6b00000000000003e800000000000003e8=0000000000000001@1000", "6b00000000000003e800000000000003e8=@995", "6b00000000000003e800000000000003e3=0000000000000002@995"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A windowed stream of sessions goes to a topic in Java's form, and all sessions of a key go to one partition (F-033, F-078).
func TestF078SessionsInATopic(t *testing.T) {
	b := streams.NewBuilder()
	sessions := streams.NewTopic("sessions-out", window.SessionSerde(serde.String), serde.Int64)
	b.Stream(leftTopic).GroupByKey().SessionsBy(window.Session(10 * ms)).Count("sessions").ToStream().To(sessions)
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	d := streamstest.New(t, topology, streamstest.Partitions("sessions-out", 7))
	in, raw, out := d.Input(leftTopic), d.Output(streams.NewTopic("sessions-out", serde.Bytes, serde.Int64)), d.Output(sessions)
	in.PipeAt(time.UnixMilli(5), "k", "v")
	in.PipeAt(time.UnixMilli(6), "k", "v")
	if got := fmt.Sprintf("%x", raw.Read().Key); got != "6b00000000000000050000000000000005" {
		t.Errorf("the key is %s", got)
	}
	all := out.ReadAll()
	if len(all) != 3 || all[2].Key != window.At("k", time.UnixMilli(5), time.UnixMilli(6)) || all[2].Value != 2 {
		t.Errorf("got %v", all)
	}
	used := map[string]bool{}
	for p := range 7 {
		for range d.Output(sessions).ReadPartition(p) {
			used[fmt.Sprint(p)] = true
		}
	}
	if len(used) != 1 {
		t.Errorf("sessions of one key are in partitions %v", used)
	}
}

// Sessions come back from their store and from their changelog, and a crash loses none.
func TestF087SessionsSurvive(t *testing.T) {
	windowScript(t, sessionCount(window.Session(10*ms), streams.OnWindowUpdate, streams.Retention(time.Hour)), `
		k@0  -> k[0,0]=1@0
		k@10 -> k[0,0]=null@0 k[0,10]=2@10
		restart
		k@20 -> k[0,10]=null@10 k[0,20]=3@20
		lost
		k@30 -> k[0,20]=null@20 k[0,30]=4@30
		crash
		k@40 -> k[0,30]=null@30 k[0,40]=5@40`)
}

// The store of a table of sessions, in a processor and in a test, over several partitions. F-167.
func TestSessionStoreOfATable(t *testing.T) {
	b := streams.NewBuilder()
	table := b.Stream(leftTopic).GroupByKey().SessionsBy(window.Session(10*ms)).Count("sessions", streams.Retention(time.Hour))
	table.ToStream().ProcessFunc(func(ctx *streams.Context[string, int64], r streams.Record[window.Windowed[string], int64]) error {
		var n int64
		for _, v := range ctx.Store(table.SessionStore()).Fetch(r.Key.Key) {
			n += v
		}
		ctx.Forward(ctx.Record(spelled(r.Key, n), n))
		return nil
	}, streams.WithStores(table.SessionStore())).To(outCounts)
	d := windowScript(t, b, `
		k@0  -> k[0,0]=1@0
		k@50 -> k[50,50]=2@50
		a@50 -> a[50,50]=1@50`, streamstest.Partitions("left", 3))
	s := d.Store(table.SessionStore())
	at := func(n int64) time.Time { return time.UnixMilli(n) }
	if n, ok := s.Get("k", at(50), at(50)); n != 1 || !ok {
		t.Errorf("got %d, %v", n, ok)
	}
	s.Put(window.At("k", at(60), at(70)), 9)
	s.Delete(window.At("k", at(0), at(0)))
	if got, want := sessionsText(s.Fetch("k")), "k[50,50]=1 k[60,70]=9"; got != want {
		t.Errorf("fetch: got %s, want %s", got, want)
	}
	if got, want := sessionsText(s.Find("k", at(60), at(60))), "k[60,70]=9"; got != want {
		t.Errorf("find: got %s, want %s", got, want)
	}
	if got := len(strings.Fields(sessionsText(s.All()))); got != 3 {
		t.Errorf("all: %d rows", got)
	}
}

func sessionsText(rows func(func(window.Windowed[string], int64) bool)) string {
	var s []string
	for k, v := range rows {
		s = append(s, fmt.Sprintf("%s=%d", spelled(k, v), v))
	}
	return strings.Join(s, " ")
}

// F-167.
func TestSessionStoreInAProcessor(t *testing.T) {
	eachKind(t, func(t *testing.T, opts []streams.StoreOption, settle func(p *inProcessor)) {
		h := streams.NewSessionStore("s", serde.String, serde.Int64, append([]streams.StoreOption{streams.Retention(time.Hour)}, opts...)...)
		p := newInProcessor(t, h)
		at := func(n int64) time.Time { return time.UnixMilli(n) }
		p.at(1000, nil, func(ctx *streams.Context[string, string]) {
			s := ctx.Store(h)
			for i, k := range []string{"a", "ab", "b"} {
				s.Put(window.At(k, at(0), at(10)), int64(i))
				s.Put(window.At(k, at(20), at(30)), int64(i+10))
				s.Put(window.At(k, at(40), at(40)), int64(i+20))
			}
			s.Put(window.At("a", at(50), at(60)), 99)
			s.Delete(window.At("a", at(50), at(60)))
			s.Delete(window.At("nobody", at(0), at(0)))
		})
		settle(p)
		p.at(1001, nil, func(ctx *streams.Context[string, string]) {
			s := ctx.Store(h)
			for name, c := range map[string]struct{ got, want string }{
				"fetch":      {sessionsText(s.Fetch("a")), "a[0,10]=0 a[20,30]=10 a[40,40]=20"},
				"backward":   {sessionsText(s.Backward("ab")), "ab[40,40]=21 ab[20,30]=11 ab[0,10]=1"},
				"find":       {sessionsText(s.Find("a", at(10), at(20))), "a[0,10]=0 a[20,30]=10"},
				"no end":     {sessionsText(s.Find("a", at(11), at(19))), ""},
				"find range": {sessionsText(s.FindRange(streams.Key("ab"), streams.Bound[string]{}, at(30), at(30))), "ab[20,30]=11 b[20,30]=12"},
				"all": {sessionsText(s.All()), "a[0,10]=0 a[20,30]=10 a[40,40]=20 ab[0,10]=1 ab[20,30]=11 ab[40,40]=21 " +
					"b[0,10]=2 b[20,30]=12 b[40,40]=22"},
			} {
				if c.got != c.want {
					t.Errorf("%s: got %s, want %s", name, c.got, c.want)
				}
			}
			if n, ok := s.Get("b", at(20), at(30)); n != 12 || !ok {
				t.Errorf("get: %d, %v", n, ok)
			}
			for _, end := range []int64{29, 31} {
				if n, ok := s.Get("b", at(20), at(end)); ok {
					t.Errorf("get of a session that ends at %d: %d", end, n)
				}
			}
		})
	})
}
