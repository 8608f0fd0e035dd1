package streams_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/streams/streamstest"
	"github.com/millrace/millrace/streams/window"
)

var (
	leftTopic  = streams.NewTopic("left", serde.String, serde.String)
	rightTopic = streams.NewTopic("right", serde.String, serde.String)
	outTopic   = streams.NewTopic("out", serde.String, serde.String)
	outCounts  = streams.NewTopic("out", serde.String, serde.Int64)
)

func both(v, w string) string { return v + "+" + w }

func side(v string, ok bool) string {
	if !ok {
		return "-"
	}
	return v
}

func leftOf(v, w string, ok bool) string                  { return v + "+" + side(w, ok) }
func outerOf(v string, ok bool, w string, wk bool) string { return side(v, ok) + "+" + side(w, wk) }

// joinScript feeds lines such as "L a=1@10", "R a@20" (a null value), "L =1@5" (a null key) or "tick 1s", and returns after each what came out.
func joinScript(t *testing.T, b *streams.Builder, script string, opts ...streamstest.Option) {
	t.Helper()
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	d := streamstest.New(t, topology, opts...)
	left, right, out := d.Input(leftTopic), d.Input(rightTopic), d.Output(outTopic)
	for line := range strings.Lines(script) {
		line, want, _ := strings.Cut(strings.TrimSpace(line), "->")
		line, want = strings.TrimSpace(line), strings.TrimSpace(want)
		if line == "" {
			continue
		}
		var got []string
		if by, ok := strings.CutPrefix(line, "tick "); ok {
			wait, err := time.ParseDuration(by)
			if err != nil {
				t.Fatal(err)
			}
			d.AdvanceWallClock(wait)
		} else {
			in := left
			if line[0] == 'R' {
				in = right
			}
			record, at, _ := strings.Cut(line[2:], "@")
			var ms int64
			if _, err := fmt.Sscan(at, &ms); err != nil {
				t.Fatal(err)
			}
			key, value, ok := strings.Cut(record, "=")
			r := streams.Record[string, string]{Key: key, Value: value, Timestamp: time.UnixMilli(ms).UTC(), NullKey: key == "", NullValue: !ok}
			in.PipeRecords(r)
		}
		for _, r := range out.ReadAll() {
			v := "=" + r.Value
			if r.NullValue {
				v = ""
			}
			got = append(got, fmt.Sprintf("%s%s@%d", r.Key, v, r.Timestamp.UnixMilli()))
		}
		if g := strings.Join(got, " "); g != want {
			t.Errorf("%s -> %s\n\twant %s", line, g, want)
		}
	}
}

func TestF110JoinOfTables(t *testing.T) {
	b := streams.NewBuilder()
	b.Table(leftTopic).Join(b.Table(rightTopic), both).ToStream().To(outTopic)
	joinScript(t, b, `
		L a=1@10 ->
		R a=x@5 -> a=1+x@10
		R a=y@20 -> a=1+y@20
		L a@15 -> a@20
		L a=2@30 -> a=2+y@30
		R a@40 -> a@40
		L a=3@50 ->
		L =4@50 ->
		R b=z@60 ->
		R b@61 ->`)
}

func TestF111LeftJoinOfTables(t *testing.T) {
	b := streams.NewBuilder()
	b.Table(leftTopic).LeftJoin(b.Table(rightTopic), leftOf).ToStream().To(outTopic)
	joinScript(t, b, `
		R a=x@5 ->
		L a=1@10 -> a=1+x@10
		R a@7 -> a=1+-@10
		L a=2@20 -> a=2+-@20
		L a@30 -> a@30
		L a@31 ->
		L b@32 ->`)
}

func TestF111OuterJoinOfTables(t *testing.T) {
	b := streams.NewBuilder()
	b.Table(leftTopic).OuterJoin(b.Table(rightTopic), outerOf).ToStream().To(outTopic)
	joinScript(t, b, `
		R a=x@5 -> a=-+x@5
		L a=1@10 -> a=1+x@10
		L a@11 -> a=-+x@11
		R a@12 -> a@12
		R a@13 ->
		L b@14 ->`)
}

// A join that is not kept is looked up through both tables, and its changes carry old values where somebody below needs them.
func TestF069ViewsAndOldValuesOfAJoin(t *testing.T) {
	b := streams.NewBuilder()
	joined := b.Table(leftTopic).OuterJoin(b.Table(rightTopic), outerOf)
	b.Stream(streams.NewTopic("probe", serde.String, serde.String)).JoinTable(joined, both).To(streams.NewTopic("found", serde.String, serde.String))
	joined.GroupBy(func(k, v string) (string, string) { return "all", v }).
		Aggregate("all", func() string { return "" },
			func(a, _, v string) string { return a + " +" + v },
			func(a, _, v string) string { return a + " -" + v }, streams.ValueSerde(serde.String)).
		ToStream().To(outTopic)
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	d := streamstest.New(t, topology)
	left, right := d.Input(leftTopic), d.Input(rightTopic)
	probe, found := d.Input(streams.NewTopic("probe", serde.String, serde.String)), d.Output(streams.NewTopic("found", serde.String, serde.String))
	left.Pipe("a", "1")
	right.Pipe("a", "x")
	probe.Pipe("a", "?")
	left.PipeNull("a")
	probe.Pipe("a", "?")
	right.PipeNull("a")
	probe.Pipe("a", "?")
	var got []string
	for _, r := range found.ReadAll() {
		got = append(got, r.Value)
	}
	if g := strings.Join(got, " "); g != "?+1+x ?+-+x" {
		t.Errorf("looked up %s", g)
	}
	// The first change of a right side has as old value what the join of a missing row is, as in Kafka Streams.
	var last string
	for _, r := range d.Output(outTopic).ReadAll() {
		last = r.Value
	}
	if want := " +1+- -1+- +1+x -1+x +-+x --+x"; last != want {
		t.Errorf("aggregate %q, want %q", last, want)
	}
}

func TestF066FilterOfATableKnowsWhatItSent(t *testing.T) {
	keep := func(_, v string) bool { return v > "5" }
	for _, materialized := range []bool{false, true} {
		b := streams.NewBuilder()
		var opts []streams.TableOption
		if materialized {
			opts = append(opts, streams.Materialized("kept"))
		}
		b.Table(leftTopic, streams.Materialized("rows")).Filter(keep, opts...).ToStream().To(outTopic)
		joinScript(t, b, `
			L a=1@1 ->
			L a=7@2 -> a=7@2
			L a=2@3 -> a@3
			L a=3@4 ->
			L a@5 ->
			L b@6 ->`)
	}
	b := streams.NewBuilder() // without a store above, nobody knows the old value
	b.Table(leftTopic).Filter(keep).ToStream().To(outTopic)
	joinScript(t, b, `
		L a=1@1 -> a@1
		L a=7@2 -> a=7@2
		L a=2@3 -> a@3
		L a=3@4 -> a@4`)
}

func TestF061GroupedTable(t *testing.T) {
	group := func(k, v string) (string, string) { return v[:1], v[1:] }
	b := streams.NewBuilder()
	b.Table(leftTopic).GroupBy(group).Aggregate("sums", func() string { return "" },
		func(a, k, v string) string { return a + "+" + k + v },
		func(a, k, v string) string { return a + "-" + k + v }, streams.ValueSerde(serde.String)).ToStream().To(outTopic)
	joinScript(t, b, `
		L a=x1@10 -> x=+x1@10
		L b=x2@5 -> x=+x1+x2@10
		L a=x3@20 -> x=+x1+x2-x1+x3@20
		L a=y3@15 -> x=+x1+x2-x1+x3-x3@20 y=+y3@15
		L b@30 -> x=+x1+x2-x1+x3-x3-x2@30
		L b@31 ->`)
	b = streams.NewBuilder()
	b.Table(leftTopic).GroupBy(group).Count("counts").MapValues(func(n int64) string { return fmt.Sprint(n) }).ToStream().To(outTopic)
	joinScript(t, b, `
		L a=x1@10 -> x=1@10
		L b=x1@11 -> x=2@11
		L a=x2@12 -> x=2@12
		L a@13 -> x=1@13
		L b=y1@14 -> x=0@14 y=1@14`)
	b = streams.NewBuilder()
	b.Table(leftTopic).GroupBy(group).Reduce("reduced",
		func(a, v string) string { return a + "+" + v }, func(a, v string) string { return a + "-" + v }).ToStream().To(outTopic)
	joinScript(t, b, `
		L a=x1@10 -> x=1@10
		L a=x2@5 -> x=1-1+2@10
		L a=y2@20 -> x=1-1+2-2@20 y=2@20`)
}

// F-062: a nil key or value takes no part.
func TestF062GroupedTableSkipsNulls(t *testing.T) {
	type row = *string
	rows := streams.NewTopic("left", serde.String, serde.Pointer(serde.String))
	b := streams.NewBuilder()
	b.Table(rows).GroupBy(func(_ string, v row) (string, row) {
		if *v == "none" {
			return "all", nil
		}
		return "all", v
	}, streams.ValueSerde(serde.Pointer(serde.String))).Count("counts").ToStream().To(outCounts)
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	d := streamstest.New(t, topology)
	in, out := d.Input(leftTopic), d.Output(outCounts)
	var got []int64
	for _, v := range []string{"1", "none", "none", "2"} {
		in.Pipe("a", v)
		for _, r := range out.ReadAll() {
			got = append(got, r.Value)
		}
	}
	if fmt.Sprint(got) != "[1 0 1]" {
		t.Errorf("counts %v, want 1 0 1", got)
	}
}

func TestF096JoinOfStreams(t *testing.T) {
	b := streams.NewBuilder()
	b.Stream(leftTopic).Join(b.Stream(rightTopic), both, window.Within(10*time.Millisecond).Grace(20*time.Millisecond)).To(outTopic)
	joinScript(t, b, `
		L a=1@100 ->
		R a=x@110 -> a=1+x@110
		R a=y@111 ->
		L a=2@101 -> a=2+x@110 a=2+y@111
		R a=z@90 -> a=1+z@100
		R a@100 ->
		R =z@100 ->
		L b=3@100 ->
		R a=w@100 -> a=1+w@100 a=2+w@101`)
}

// F-090: before and after are what they say, from this side and from the other; a negative one asks for order.
func TestF090AsymmetricJoinWindows(t *testing.T) {
	b := streams.NewBuilder()
	w := window.Within(0).Before(-5 * time.Millisecond).After(10 * time.Millisecond).Grace(time.Second) // the right record is 5 to 10 ms newer
	b.Stream(leftTopic).Join(b.Stream(rightTopic), both, w).To(outTopic)
	joinScript(t, b, `
		L a=1@100 ->
		R a=p@104 ->
		R a=q@105 -> a=1+q@105
		R a=r@110 -> a=1+r@110
		R a=s@111 ->
		L a=2@101 -> a=2+r@110 a=2+s@111`)
}

// F-099, F-100.
func TestF097LeftJoinOfStreams(t *testing.T) {
	b := streams.NewBuilder()
	b.Stream(leftTopic).LeftJoin(b.Stream(rightTopic), leftOf, window.Within(10*time.Millisecond).Grace(5*time.Millisecond)).To(outTopic)
	joinScript(t, b, `
		L a=1@100 ->
		L b=2@101 ->
		R b=x@102 -> b=2+x@102
		R c=y@115 ->
		tick 2s ->
		R c=y@116 -> a=1+-@100
		L =3@120 -> =3+-@120
		R =4@120 ->
		L d=5@105 -> d=5+-@105
		L d=6@90 -> d=6+-@90`)
}

// F-098: looks for unmatched records are a second apart on the wall clock, and only a record that advances the time looks.
func TestF098UnmatchedRecordsWaitForTheClock(t *testing.T) {
	b := streams.NewBuilder()
	b.Stream(leftTopic).LeftJoin(b.Stream(rightTopic), leftOf, window.Within(10*time.Millisecond)).To(outTopic)
	joinScript(t, b, `
		L a=1@100 ->
		L b=2@111 ->
		tick 999ms ->
		L c=3@300 ->
		tick 1ms ->
		L d=4@299 ->
		L d=4@300 -> a=1+-@100 b=2+-@111`)
}

// F-100.
func TestF097OuterJoinOfStreams(t *testing.T) {
	b := streams.NewBuilder()
	b.Stream(leftTopic).OuterJoin(b.Stream(rightTopic), outerOf, window.Within(10*time.Millisecond)).To(outTopic)
	joinScript(t, b, `
		L a=1@100 ->
		R b=x@100 ->
		R b=y@100 ->
		L a=2@100 ->
		tick 2s ->
		R c=z@111 -> b=-+x@100 b=-+y@100 a=1+-@100 a=2+-@100
		R =w@111 -> =-+w@111
		L c=3@112 -> c=3+z@112`)
}

// F-101: one partner takes all waiting values of a key and time at once.
func TestF101OnePartnerTakesAllWaitingValues(t *testing.T) {
	b := streams.NewBuilder()
	b.Stream(leftTopic).LeftJoin(b.Stream(rightTopic), leftOf, window.Within(10*time.Millisecond)).To(outTopic)
	joinScript(t, b, `
		L a=1@100 ->
		L a=2@100 ->
		R a=x@105 -> a=1+x@105 a=2+x@105
		tick 2s ->
		R z=z@500 ->
		tick 2s ->
		R z=z@600 ->`)
}
