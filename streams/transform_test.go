package streams_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/streams/streamstest"
)

// numbering numbers the values of each key, deletions included.
type numbering struct {
	store streams.KeyValueHandle[string, int64]
	log   *[]string
}

func (n numbering) Init(*streams.FixedKeyContext[string, string]) error {
	*n.log = append(*n.log, "init")
	return nil
}
func (n numbering) Close() error { *n.log = append(*n.log, "close"); return nil }

func (n numbering) Transform(ctx *streams.FixedKeyContext[string, string], key, value string, ok bool) (string, bool, error) {
	s := ctx.Store(n.store)
	count, _ := s.Get(key)
	s.Put(key, count+1)
	if value == "bad" {
		return "", false, errors.New("bad value")
	}
	return fmt.Sprint(value, count+1), ok, nil
}

func TestF068TransformValues(t *testing.T) {
	for _, materialized := range []bool{false, true} {
		var log []string
		store := streams.NewKeyValueStore("numbers", serde.String, serde.Int64)
		var opts []streams.TableOption
		if materialized {
			opts = append(opts, streams.Materialized("rows"))
		}
		b := streams.NewBuilder()
		table := b.Table(leftTopic).TransformValues(func() numbering { return numbering{store, &log} }, []streams.StoreRef{store}, opts...)
		table.ToStream().To(outTopic)
		b.Stream(rightTopic).JoinTable(table, both).To(outTopic)
		want := `
			L a=x@1 -> a=x1@1
			L a=y@2 -> a=y2@2
			R a=?@3 -> a=?+y2@3
			L a@4 -> a@4
			R a=?@5 ->
			L a=z@6 -> a=z4@6`
		if !materialized { // then it is run again for lookups
			want = `
			L a=x@1 -> a=x1@1
			L a=y@2 -> a=y2@2
			R a=?@3 -> a=?+y3@3
			L a@4 -> a@4
			R a=?@5 ->
			L a=z@6 -> a=z6@6`
		}
		t.Run(fmt.Sprint(materialized), func(t *testing.T) { joinScript(t, b, want) })
		if inits := map[bool]int{false: 2, true: 1}[materialized]; len(log) != 2*inits || log[0] != "init" || log[len(log)-1] != "close" {
			t.Errorf("life cycle %v", log)
		}
	}
}

// The old value of a row is what it was transformed to: from a store, or by running the transformer again.
func TestF068OldValuesOfTransformedTables(t *testing.T) {
	upper := func() upperCase { return upperCase{} }
	for _, opts := range [][]streams.TableOption{nil, {streams.Materialized("rows")}} {
		b := streams.NewBuilder()
		b.Table(leftTopic).TransformValues(upper, nil, opts...).GroupBy(func(k, v string) (string, string) { return "all", v }).
			Aggregate("all", func() string { return "" },
				func(a, _, v string) string { return a + "+" + v }, func(a, _, v string) string { return a + "-" + v }, streams.ValueSerde(serde.String)).
			ToStream().To(outTopic)
		joinScript(t, b, `
			L a=x@1 -> all=+X@1
			L a=y@2 -> all=+X-X+Y@2
			L a@3 -> all=+X-X+Y-Y@3`)
	}
}

type upperCase struct{}

func (upperCase) Transform(_ *streams.FixedKeyContext[string, string], _, v string, ok bool) (string, bool, error) {
	return strings.ToUpper(v), ok, nil
}

type forwarding struct{}

func (forwarding) Transform(ctx *streams.FixedKeyContext[string, string], _, v string, ok bool) (string, bool, error) {
	ctx.Forward(streams.FixedKeyRecord[string, string]{})
	return v, ok, nil
}

func TestF068TransformersFail(t *testing.T) {
	for name, table := range map[string]func(*streams.Table[string, string]){
		"an error": func(t *streams.Table[string, string]) {
			store := streams.NewKeyValueStore("numbers", serde.String, serde.Int64)
			t.TransformValues(func() numbering { return numbering{store, new([]string)} }, []streams.StoreRef{store})
		},
		"a forward": func(t *streams.Table[string, string]) {
			t.TransformValues(func() forwarding { return forwarding{} }, nil)
		},
	} {
		b := streams.NewBuilder()
		table(b.Table(leftTopic))
		topology, err := b.Build()
		if err != nil {
			t.Fatal(err)
		}
		d := streamstest.New(t, topology)
		d.Input(leftTopic).Pipe("a", "bad")
		if err := d.Err(); err == nil {
			t.Errorf("%s was no error", name)
		}
	}
}

// F-056: a wrapper is around every processor, and what it says is an error is one of the node.
func TestF056Wrap(t *testing.T) {
	var steps []string
	fail := false
	b := streams.NewBuilder(streams.Wrap(func(node string, next streams.ProcessFunc) streams.ProcessFunc {
		return func(info streams.StepInfo) error {
			steps = append(steps, fmt.Sprint(node, "@", info.Timestamp.UnixMilli()))
			if fail && node == "upper" {
				return errors.New("injected")
			}
			err := next(info)
			steps = append(steps, node+" done")
			return err
		}
	}))
	b.Stream(leftTopic).MapValues(strings.ToUpper, streams.Named("upper")).GroupByKey().Count("counts", streams.Named("count")).
		ToStream(streams.Named("changes")).To(outCounts)
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	d := streamstest.New(t, topology, streamstest.WithConfig(streams.Config{OnProcessError: streams.LogAndResume}))
	in, out := d.Input(leftTopic), d.Output(outCounts)
	in.PipeRecords(streams.Record[string, string]{Key: "a", Value: "x", Timestamp: d.Now()})
	at := fmt.Sprint("@", d.Now().UnixMilli())
	if want := []string{"upper" + at, "count" + at, "count done", "upper done", "changes" + at, "changes done"}; !slices.Equal(steps, want) {
		t.Errorf("steps %q, want %q", steps, want)
	}
	fail = true
	in.Pipe("a", "y")
	if got := out.ReadAll(); len(got) != 1 || got[0].Value != 1 {
		t.Errorf("output %v", got)
	}
	if d.Dropped()["error handler"] != 1 {
		t.Errorf("dropped %v", d.Dropped())
	}
}

type putter struct {
	store streams.KeyValueHandle[string, string]
}

func (p putter) Process(ctx *streams.Context[streams.None, streams.None], r streams.Record[string, string]) error {
	ctx.Store(p.store).PutRecord(r)
	return nil
}

// F-136, F-197: a read-only store comes back from its topic, and only its updater may write.
func TestF136ReadOnlyStore(t *testing.T) {
	store := streams.NewKeyValueStore("facts", serde.String, serde.String)
	b := streams.NewBuilder()
	b.ReadOnlyStore(store, rightTopic, func() putter { return putter{store} }, streams.Named("updater"))
	b.Stream(leftTopic).ProcessFunc(func(ctx *streams.Context[string, string], r streams.Record[string, string]) error {
		s := ctx.Store(store)
		if r.Value == "write" {
			s.Put(r.Key, "?")
		}
		v, _ := s.Get(r.Value)
		ctx.Forward(r.WithValue(v))
		return nil
	}, streams.WithStores(store)).To(outTopic)
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	d := streamstest.New(t, topology)
	left, right, out := d.Input(leftTopic), d.Input(rightTopic), d.Output(outTopic)
	right.Pipe("x", "1")
	right.Pipe("y", "2")
	right.PipeNull("y")
	look := func() string {
		left.Pipe("a", "x")
		left.Pipe("b", "y")
		return out.ReadValue() + "," + out.ReadValue()
	}
	if got := look(); got != "1," {
		t.Errorf("seen %q", got)
	}
	d.Restart(streamstest.StateLost)
	if got := look(); got != "1," {
		t.Errorf("seen after the state was lost: %q", got)
	}
	if slices.ContainsFunc(d.Topics(), func(t string) bool { return strings.HasSuffix(t, "-changelog") }) {
		t.Errorf("topics %q", d.Topics())
	}
	left.Pipe("a", "write")
	if err := d.Err(); err == nil || !strings.Contains(err.Error(), "Builder.ReadOnlyStore") {
		t.Errorf("error %v", err)
	}
}
