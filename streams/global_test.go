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
)

// byValue is the key of a global row that a record refers to: its value up to a colon, or nil.
func byValue(_, v string) *string {
	fk, _, ok := strings.Cut(v, ":")
	if !ok {
		return nil
	}
	return &fk
}

var rightRows = streams.NewTopic("right", serde.Pointer(serde.String), serde.String)

func TestF108JoinGlobal(t *testing.T) {
	b := streams.NewBuilder()
	b.Stream(leftTopic).JoinGlobal(b.GlobalTable(rightRows), byValue, both).To(outTopic)
	joinScript(t, b, `
		L a=x:1@10 ->
		R x=X@50 ->
		L a=x:2@20 -> a=x:2+X@20
		L =x:3@5 -> =x:3+X@5
		L a=none@30 ->
		L a@31 ->
		R x=Y@1 ->
		L a=x:4@40 -> a=x:4+Y@40
		R x@2 ->
		L a=x:5@50 ->`)
}

func TestF108LeftJoinGlobal(t *testing.T) {
	b := streams.NewBuilder()
	b.Stream(leftTopic).LeftJoinGlobal(b.GlobalTable(rightRows, streams.Materialized("rows")), byValue, leftOf).To(outTopic)
	joinScript(t, b, `
		L a=x:1@10 -> a=x:1+-@10
		R x=X@50 ->
		L a=x:2@20 -> a=x:2+X@20
		L a=none@30 -> a=none+-@30
		L =none@31 -> =none+-@31
		L a@32 ->`)
}

// F-109: the joiner may read both keys.
func TestF109JoinGlobalWithKeys(t *testing.T) {
	b := streams.NewBuilder()
	table := b.GlobalTable(rightTopic)
	b.Stream(leftTopic).JoinGlobalWithKey(table, func(_, v string) string { return v }, func(k, g, v, w string) string { return k + g + v + w }).To(outTopic)
	b.Stream(leftTopic).LeftJoinGlobalWithKey(table, func(_, v string) string { return v }, func(k, g, v, w string, ok bool) string {
		return fmt.Sprint(k, g, v, w, ok)
	}).To(outTopic)
	joinScript(t, b, `
		R x=X@50 ->
		L a=x@20 -> a=axxX@20 a=axxXtrue@20
		L a=y@21 -> a=ayyfalse@21`)
}

// F-007: a global table has all partitions, is read from any task, and survives a restart and the loss of its state.
func TestF007GlobalTableOverPartitions(t *testing.T) {
	b := streams.NewBuilder()
	table := b.GlobalTable(rightTopic)
	var seen []string
	b.Stream(leftTopic).ProcessFunc(func(ctx *streams.Context[string, string], r streams.Record[string, string]) error {
		rows := ctx.Store(table.Store())
		for k, v := range rows.Range(streams.Key("k1"), streams.Key("k3")) {
			seen = append(seen, k+v)
		}
		for k := range rows.Backward(streams.Key("k1"), streams.Bound[string]{}) {
			seen = append(seen, k)
		}
		for k := range rows.Prefix([]byte("k4")) {
			seen = append(seen, k)
		}
		row, ok := rows.GetRecord("k2")
		seen = append(seen, fmt.Sprint(row.Value, ok, row.Timestamp.UnixMilli(), rows.ApproximateLen()))
		return nil
	})
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	d := streamstest.New(t, topology, streamstest.Partitions("*", 3))
	left, right := d.Input(leftTopic), d.Input(rightTopic)
	for i := range 5 {
		right.PipeAt(time.UnixMilli(int64(10+i)), fmt.Sprint("k", i), fmt.Sprint("v", i))
	}
	want := []string{"k1v1", "k2v2", "k3v3", "k4", "k3", "k2", "k1", "k4", "v2true 12 5"}
	check := func(when string) {
		t.Helper()
		seen = nil
		left.Pipe("a", "?")
		if got := strings.Join(seen, " "); got != strings.Join(want, " ") {
			t.Errorf("%s the processor saw %s", when, got)
		}
		var rows []string
		for k := range d.Store(table.Store()).All() {
			rows = append(rows, k)
		}
		if !slices.Equal(rows, []string{"k0", "k1", "k2", "k3", "k4"}) {
			t.Errorf("%s the test sees %q", when, rows)
		}
	}
	check("at first")
	d.Restart()
	check("after a restart")
	d.Crash(streamstest.StateLost)
	check("after the state was lost")
}

type countingUpdater struct {
	store streams.KeyValueHandle[string, string]
}

func (u countingUpdater) Process(ctx *streams.Context[streams.None, streams.None], r streams.Record[string, string]) error {
	store := ctx.Store(u.store)
	old, _ := store.Get(r.Key)
	store.Put(r.Key, old+r.Value)
	return nil
}

// F-008: a global store is filled by its own processor, and all others may read it. F-135.
func TestF008GlobalStore(t *testing.T) {
	b := streams.NewBuilder()
	store := streams.NewKeyValueStore("joined", serde.String, serde.String, streams.InMemory)
	b.GlobalStore(store, rightTopic, func() countingUpdater { return countingUpdater{store} }, streams.Named("updater"))
	b.Stream(leftTopic).ProcessValuesFunc(func(ctx *streams.FixedKeyContext[string, string], r streams.FixedKeyRecord[string, string]) error {
		key, _ := r.Get()
		v, _ := ctx.Store(store).Get(key)
		ctx.Forward(r.WithValue(v))
		return nil
	}, streams.WithStores(store)).To(outTopic)
	joinScript(t, b, `
		R x=1@50 ->
		R x=2@50 ->
		L a=x@20 -> a=12@20`)
}

func TestF008GlobalStoresAreReadOnlyElsewhere(t *testing.T) {
	b := streams.NewBuilder()
	table := b.GlobalTable(rightTopic)
	b.Stream(leftTopic).ForEach(func(string, string) {})
	b.Stream(leftTopic).ProcessFunc(func(ctx *streams.Context[string, string], r streams.Record[string, string]) error {
		ctx.Store(table.Store()).Put("x", "y")
		return nil
	})
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	d := streamstest.New(t, topology)
	d.Input(leftTopic).Pipe("a", "b")
	if err := d.Err(); err == nil || !strings.Contains(err.Error(), "Builder.GlobalStore") {
		t.Errorf("error %v", err)
	}
}
