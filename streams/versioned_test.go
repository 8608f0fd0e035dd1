package streams_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/streams/streamstest"
	"github.com/millrace/millrace/streams/window"
)

// history is the option of the tests' versioned tables: 20 ms of it.
func history(store string) []streams.TableOption {
	return []streams.TableOption{streams.Materialized(store), streams.Versioned(20 * time.Millisecond)}
}

func TestF106LookupsInAVersionedTableAreAsOfTheRecord(t *testing.T) {
	b := streams.NewBuilder()
	table := b.Table(rightTopic, history("rows")...)
	b.Stream(leftTopic).LeftJoinTable(table.MapValues(strings.ToUpper).Filter(func(_, v string) bool { return v != "NO" }), leftOf).To(outTopic)
	joinScript(t, b, `
		R a=x@10 ->
		R a=y@20 ->
		L a=1@9 -> a=1+-@9
		L a=2@10 -> a=2+X@10
		L a=3@19 -> a=3+X@19
		L a=4@25 -> a=4+Y@25
		R a=no@15 ->
		L a=5@16 -> a=5+-@16
		L a=6@20 -> a=6+Y@20
		R a@30 ->
		L a=7@29 -> a=7+Y@29
		L a=8@31 -> a=8+-@31
		R b=z@45 ->
		L a=9@24 -> a=9+-@24
		L a=9@25 -> a=9+Y@25
		R a=late@24 ->
		L a=10@26 -> a=10+Y@26
		R a=w@26 ->
		L a=11@26 -> a=11+W@26
		L b=12@90 -> b=12+Z@90`)
}

// F-113: updates of a versioned table that are not the latest change nothing in a join of tables.
func TestF113OutOfOrderUpdatesAndJoinsOfTables(t *testing.T) {
	b := streams.NewBuilder()
	b.Table(leftTopic, history("left-rows")...).Join(b.Table(rightTopic), both).ToStream().To(outTopic)
	joinScript(t, b, `
		R a=x@10 ->
		L a=2@20 -> a=2+x@20
		L a=1@15 ->
		R a=y@12 -> a=2+y@20
		L a=3@25 -> a=3+y@25`)
}

// F-065: nor in an aggregation of one; a plain table downstream of it sees all of them.
func TestF065OutOfOrderUpdatesAndGroupedTables(t *testing.T) {
	b := streams.NewBuilder()
	table := b.Table(leftTopic, history("rows")...)
	table.GroupBy(func(k, v string) (string, string) { return "all", v }).Count("counts").
		MapValues(func(n int64) string { return fmt.Sprint(n) }).ToStream().To(outTopic)
	table.ToStream().To(outTopic)
	joinScript(t, b, `
		L a=2@20 -> a=2@20 all=1@20
		L a=1@15 -> a=1@15
		L b=1@21 -> b=1@21 all=2@21
		L c@21 -> c@21
		L c=9@1 -> c=9@1
		L c=9@0 ->`)
}

// F-121: nor in a foreign-key join, on either side.
func TestF121OutOfOrderUpdatesAndForeignKeys(t *testing.T) {
	b := streams.NewBuilder()
	b.Table(leftTopic, history("left-rows")...).JoinForeign(b.Table(rightTopic, history("right-rows")...), reference, both).ToStream().To(outTopic)
	joinScript(t, b, `
		R x=X@20 ->
		L a=x:1@20 -> a=x:1+X@20
		L a=y:0@15 ->
		R x=W@15 ->
		R x=Y@25 -> a=x:1+Y@25`)
}

// A filter of a versioned table hears of every deletion, since what is below may need it at its time.
func TestF066FilterOfAVersionedTable(t *testing.T) {
	b := streams.NewBuilder()
	b.Table(leftTopic, history("rows")...).Filter(func(_, v string) bool { return v > "5" }).ToStream().To(outTopic)
	joinScript(t, b, `
		L a=1@20 -> a@20
		L a=7@30 -> a=7@30
		L a=2@25 -> a@25`)
}

// F-169.
func TestVersionedStoresInProcessorsAndTests(t *testing.T) {
	store := streams.NewVersionedStore("prices", serde.String, serde.String, 20*time.Millisecond)
	b := streams.NewBuilder()
	table := b.Table(rightTopic, history("rows")...)
	at := func(ms int64) time.Time { return time.UnixMilli(ms).UTC() }
	var seen []string
	b.Stream(leftTopic).ProcessFunc(func(ctx *streams.Context[string, string], r streams.Record[string, string]) error {
		s := ctx.Store(store)
		note := func(v ...any) { seen = append(seen, fmt.Sprint(v...)) }
		note(s.Put("a", "1", at(10)), s.Put("a", "2", at(30)), s.Put("a", "0", at(9)))
		v, ok := s.GetAsOf("a", at(29))
		note(v.Value, " ", v.From.UnixMilli(), v.To.UnixMilli(), ok)
		old, ok := s.Delete("a", at(20))
		note(old, " ", ok)
		v, ok = s.GetAsOf("a", at(29))
		note(v.Value, ok)
		v, ok = s.Get("a")
		note(v.Value, " ", v.From.UnixMilli(), v.To.IsZero(), ok)
		v, ok = ctx.Store(table.VersionedStore()).Get("x")
		note(v.Value, ok)
		return nil
	}, streams.WithStores(store, table.VersionedStore()))
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	d := streamstest.New(t, topology)
	d.Input(rightTopic).Pipe("x", "y")
	d.Input(leftTopic).Pipe("a", "")
	if got, want := strings.Join(seen, "|"), "true true false|1 10 30 true|1 true|false|2 30 true true|ytrue"; got != want {
		t.Errorf("seen %s, want %s", got, want)
	}
	d.Restart(streamstest.StateLost)
	if v, ok := d.Store(store).GetAsOf("a", at(15)); !ok || v.Value != "1" || !v.To.Equal(at(20)) {
		t.Errorf("after restoration it was %+v, %v", v, ok)
	}
	if _, ok := d.Store(store).GetAsOf("a", at(25)); ok {
		t.Error("the deletion was not restored")
	}
}

// F-171.
func TestVersionedMisuse(t *testing.T) {
	for name, build := range map[string]func(b *streams.Builder){
		"no store":     func(b *streams.Builder) { b.Table(leftTopic, streams.Versioned(time.Hour)) },
		"negative":     func(b *streams.Builder) { b.Table(leftTopic, streams.Materialized("t"), streams.Versioned(-1)) },
		"global":       func(b *streams.Builder) { b.GlobalTable(leftTopic, history("t")...) },
		"plain handle": func(b *streams.Builder) { processWith(b, b.Table(rightTopic, history("t")...).Store()) },
		"no history": func(b *streams.Builder) {
			processWith(b, b.Table(rightTopic, streams.Materialized("t")).VersionedStore())
		},
		"windows": func(b *streams.Builder) {
			b.Stream(leftTopic).GroupByKey().WindowedBy(window.Tumbling(time.Second)).Count("t", streams.Versioned(time.Hour))
		},
	} {
		b := streams.NewBuilder()
		b.Stream(streams.NewTopic("more", serde.String, serde.String)).ForEach(func(string, string) {})
		build(b)
		if _, err := b.Build(); !errors.Is(err, streams.ErrBadOption) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func processWith(b *streams.Builder, store streams.StoreRef) {
	b.Stream(leftTopic).ProcessFunc(func(*streams.Context[string, string], streams.Record[string, string]) error { return nil }, streams.WithStores(store))
}
