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
	nullIn  = streams.NewTopic("in", serde.String, serde.String)
	nullRow = streams.NewTopic("row", serde.String, serde.String)
	nullOut = streams.NewTopic("out", serde.String, serde.String)
)

// dropped, as an outcome, is a record that takes no further part and is counted.
const dropped = "D"

// nullCase is an operator and what it makes of the records (null, null), (null, v), (k, null) and (k, v), in this order. An outcome is what arrives in
// the topic "out", dropped, or "" where a record leads to nothing. A row R of the key k is there for those that look one up.
type nullCase struct {
	operator string
	build    func(b *streams.Builder)
	want     [4]string
	cached   [4]string // with caches, where that differs; zero if it does not
}

// The rows of the table in the documentation of B-056, and beside them the operators that Kafka Streams does not have. What is new goes to the end of
// its section.
func nullCases() []nullCase {
	upper := strings.ToUpper
	exclaim := func(k, _ string) string { return k + "!" }
	last := func(_, v string) string { return v }
	passes := [4]string{"null=null", "null=v", "k=null", "k=v"}
	from := func(use func(s *streams.Stream[string, string])) func(b *streams.Builder) {
		return func(b *streams.Builder) { use(b.Stream(nullIn)) }
	}
	through := func(use func(s *streams.Stream[string, string]) *streams.Stream[string, string]) func(b *streams.Builder) {
		return from(func(s *streams.Stream[string, string]) { use(s).To(nullOut) })
	}
	type stream = *streams.Stream[string, string]
	number := func(n int64) string { return fmt.Sprint(n) }
	minute := window.Tumbling(time.Minute)
	inner := func(k window.Windowed[string], _ string) string { return k.Key }
	plus := func(v, w string) string { return v + "+" + w }
	leftText := func(v, w string, ok bool) string { return fmt.Sprint(v, w, ok) }
	outerText := func(v string, ok bool, w string, wk bool) string { return fmt.Sprint(v, ok, w, wk) }
	within := window.Within(time.Minute)
	rowOfPointer := streams.NewTopic("row", serde.Pointer(serde.String), serde.String)
	toK := func(_, _ string) string { return "k" }
	toKey := func(_, _ string) (string, bool) { return "k", true }
	keyOrNil := func(k, _ string) *string {
		if k == "" {
			return nil
		}
		return &k
	}

	return []nullCase{
		// Stateless operators. A function that makes a value from values is not called for a null, one that looks at key and value sees zero.
		{"to", from(func(s stream) { s.To(nullOut) }), passes, [4]string{}},
		{"route", from(func(s stream) {
			s.Route(func(streams.Record[string, string], streams.Origin) string { return "out" })
		}), passes, [4]string{}},
		{"filter of everything", through(func(s stream) stream { return s.Filter(func(_, _ string) bool { return true }) }), passes, [4]string{}},
		{"filter sees zero", through(func(s stream) stream { return s.Filter(func(k, v string) bool { return k == "" || v == "" }) }),
			[4]string{"null=null", "null=v", "k=null", ""}, [4]string{}},
		{"filterNot", through(func(s stream) stream { return s.FilterNot(func(_, v string) bool { return v == "" }) }),
			[4]string{"", "null=v", "", "k=v"}, [4]string{}},
		{"filterRecords", through(func(s stream) stream {
			return s.FilterRecords(func(r streams.Record[string, string]) bool { return !r.NullKey })
		}), [4]string{"", "", "k=null", "k=v"}, [4]string{}},
		{"dropNulls", through(func(s stream) stream { return s.DropNulls() }), [4]string{"", "null=v", "", "k=v"}, [4]string{}},
		{"mapValues", through(func(s stream) stream { return s.MapValues(upper) }), [4]string{"null=null", "null=V", "k=null", "k=V"}, [4]string{}},
		{"mapValuesWithKey", through(func(s stream) stream { return s.MapValuesWithKey(func(k, v string) string { return k + v }) }),
			[4]string{"null=null", "null=v", "k=null", "k=kv"}, [4]string{}},
		{"tryMapValues", through(func(s stream) stream {
			return s.TryMapValues(func(v string) (string, error) { return upper(v), nil })
		}), [4]string{"null=null", "null=V", "k=null", "k=V"}, [4]string{}},
		{"flatMapValues", through(func(s stream) stream { return s.FlatMapValues(func(v string) []string { return []string{v, "+"} }) }),
			[4]string{"", "null=v null=+", "", "k=v k=+"}, [4]string{}},
		{"flatMapValuesSeq", through(func(s stream) stream { return s.FlatMapValuesSeq(strings.FieldsSeq) }), [4]string{"", "null=v", "", "k=v"}, [4]string{}},
		{"flatMapValuesWithKey", through(func(s stream) stream {
			return s.FlatMapValuesWithKey(func(k, v string) []string { return []string{k + v} })
		}), [4]string{"", "null=v", "", "k=kv"}, [4]string{}},
		{"selectKey", through(func(s stream) stream { return s.SelectKey(exclaim) }), [4]string{"!=null", "!=v", "k!=null", "k!=v"}, [4]string{}},
		{"map", through(func(s stream) stream { return s.Map(func(k, v string) (string, string) { return k + "!", v + "!" }) }),
			[4]string{"!=null", "!=v!", "k!=null", "k!=v!"}, [4]string{}},
		{"tryMap", through(func(s stream) stream {
			return s.TryMap(func(k, v string) (string, string, error) { return k + "!", v + "!", nil })
		}), [4]string{"!=null", "!=v!", "k!=null", "k!=v!"}, [4]string{}},
		{"mapRecords", through(func(s stream) stream {
			return s.MapRecords(func(r streams.Record[string, string]) streams.Record[string, string] { return r })
		}), passes, [4]string{}},
		{"flatMap", through(func(s stream) stream {
			return s.FlatMap(func(k, v string, emit func(string, string)) { emit(k+"!", v) })
		}),
			[4]string{"", "!=v", "", "k!=v"}, [4]string{}},
		{"peek", through(func(s stream) stream { return s.Peek(func(_, _ string) {}) }), passes, [4]string{}},
		{"merge", through(func(s stream) stream { return s.Merge(s.Filter(func(_, _ string) bool { return false })) }), passes, [4]string{}},
		{"branch", from(func(s stream) {
			sp := s.Split()
			sp.Branch(func(_, v string) bool { return v == "" }).To(nullOut)
			sp.Default().MapValues(upper).To(nullOut)
		}), [4]string{"null=null", "null=V", "k=null", "k=V"}, [4]string{}},
		{"no branch", from(func(s stream) { s.Split().Branch(func(_, v string) bool { return v == "" }).To(nullOut) }),
			[4]string{"null=null", dropped, "k=null", dropped}, [4]string{}},
		{"processor", through(func(s stream) stream {
			return s.ProcessFunc(func(ctx *streams.Context[string, string], r streams.Record[string, string]) error {
				ctx.Forward(r)
				return nil
			})
		}), passes, [4]string{}},
		{"processor of values", through(func(s stream) stream {
			return s.ProcessValuesFunc(func(ctx *streams.FixedKeyContext[string, string], r streams.FixedKeyRecord[string, string]) error {
				if _, ok := r.Get(); !ok {
					r = r.WithValue("none")
				}
				ctx.Forward(r)
				return nil
			})
		}), [4]string{"null=none", "null=v", "k=none", "k=v"}, [4]string{}},

		// Repartition topics take no null keys.
		{"repartition", through(func(s stream) stream { return s.Repartition("r") }), [4]string{dropped, dropped, "k=null", "k=v"}, [4]string{}},

		// Aggregations without windows take neither.
		{"groupByKey, count", through(func(s stream) stream { return s.GroupByKey().Count("c").ToStream().MapValues(number) }),
			[4]string{dropped, dropped, dropped, "k=1"}, [4]string{}},
		{"groupByKey, reduce", through(func(s stream) stream { return s.GroupByKey().Reduce("c", last).ToStream() }),
			[4]string{dropped, dropped, dropped, "k=v"}, [4]string{}},
		{"groupByKey, aggregate", through(func(s stream) stream {
			return s.GroupByKey().Aggregate("c", func() string { return "0" }, func(a, _, v string) string { return a + v }).ToStream()
		}), [4]string{dropped, dropped, dropped, "k=0v"}, [4]string{}},
		{"groupBy, count", through(func(s stream) stream { return s.GroupBy(exclaim).Count("c").ToStream().MapValues(number) }),
			[4]string{dropped, "!=1", dropped, "k!=1"}, [4]string{}},
		{"groupBy with a null key", through(func(s stream) stream {
			none := s.GroupBy(func(k, _ string) *string { return nil }, streams.KeySerde(serde.Pointer(serde.String)))
			return none.Count("c").ToStream().Map(func(*string, int64) (string, string) { return "", "" })
		}), [4]string{dropped, dropped, dropped, dropped}, [4]string{}},

		// Those with windows take a null as a value: a count counts it, a reduction has it as its first value or sees zero.
		{"tumbling, count", through(func(s stream) stream {
			return s.GroupByKey().WindowedBy(minute).Count("c").ToStream().MapValues(number).SelectKey(inner)
		}), [4]string{dropped, dropped, "k=1", "k=2"}, [4]string{}},
		{"tumbling, reduce", through(func(s stream) stream {
			return s.GroupByKey().WindowedBy(minute).Reduce("c", last).ToStream().SelectKey(inner)
		}),
			[4]string{dropped, dropped, "k=null", "k=v"}, [4]string{dropped, dropped, "", "k=v"}},
		{"tumbling, aggregate", through(func(s stream) stream {
			return s.GroupByKey().WindowedBy(minute).Aggregate("c", func() string { return "0" }, func(a, _, v string) string { return a + "+" + v }).
				ToStream().SelectKey(inner)
		}), [4]string{dropped, dropped, "k=0+", "k=0++v"}, [4]string{}},
		{"hopping, count", through(func(s stream) stream {
			return s.GroupByKey().WindowedBy(window.Hopping(2*time.Minute, time.Minute).Grace(time.Hour)).Count("c").ToStream().MapValues(number).SelectKey(inner)
		}), [4]string{dropped, dropped, "k=1 k=1", "k=2 k=2"}, [4]string{}},

		// Tables.
		{"table", func(b *streams.Builder) { b.Table(nullIn).ToStream().To(nullOut) }, [4]string{dropped, dropped, "k=null", "k=v"}, [4]string{}},
		{"table in a store", func(b *streams.Builder) { b.Table(nullIn, streams.Materialized("t")).ToStream().To(nullOut) },
			[4]string{dropped, dropped, "k=null", "k=v"}, [4]string{dropped, dropped, "", "k=v"}},
		{"table in a store without a cache", func(b *streams.Builder) {
			b.Table(nullIn, streams.Materialized("t"), streams.NoCaching).ToStream().To(nullOut)
		}, [4]string{dropped, dropped, "k=null", "k=v"}, [4]string{}},
		{"toTable", through(func(s stream) stream { return s.ToTable().ToStream() }), [4]string{dropped, dropped, "k=null", "k=v"}, [4]string{}},
		{"toTable in a store", through(func(s stream) stream { return s.ToTable(streams.Materialized("t")).ToStream() }),
			[4]string{dropped, dropped, "k=null", "k=v"}, [4]string{dropped, dropped, "", "k=v"}},
		{"key change, toTable", through(func(s stream) stream { return s.SelectKey(exclaim).ToTable().ToStream() }),
			[4]string{"!=null", "!=v", "k!=null", "k!=v"}, [4]string{}},
		{"table filter", func(b *streams.Builder) {
			b.Table(nullIn).Filter(func(_, v string) bool { return v != "" }).ToStream().To(nullOut)
		}, [4]string{dropped, dropped, "k=null", "k=v"}, [4]string{}},
		{"table filter that refuses", func(b *streams.Builder) {
			b.Table(nullIn).FilterNot(func(_, _ string) bool { return true }).ToStream().To(nullOut)
		}, [4]string{dropped, dropped, "k=null", "k=null"}, [4]string{}},
		{"table mapValues", func(b *streams.Builder) { b.Table(nullIn).MapValues(upper).ToStream().To(nullOut) },
			[4]string{dropped, dropped, "k=null", "k=V"}, [4]string{}},
		{"table mapValuesWithKey in a store", func(b *streams.Builder) {
			b.Table(nullIn).MapValuesWithKey(func(k, v string) string { return k + v }, streams.Materialized("t")).ToStream().To(nullOut)
		}, [4]string{dropped, dropped, "k=null", "k=kv"}, [4]string{dropped, dropped, "", "k=kv"}},

		// Joins.
		{"join", func(b *streams.Builder) {
			t := b.Table(nullRow)
			b.Stream(nullIn).JoinTable(t, func(v, w string) string { return v + w }).To(nullOut)
		}, [4]string{dropped, dropped, dropped, "k=vR"}, [4]string{}},
		{"leftJoin", func(b *streams.Builder) {
			t := b.Table(nullRow)
			b.Stream(nullIn).LeftJoinTable(t, func(v, w string, ok bool) string { return fmt.Sprint(v, w, ok) }).To(nullOut)
		}, [4]string{dropped, "null=vfalse", dropped, "k=vRtrue"}, [4]string{}},
		{"join with keys", func(b *streams.Builder) {
			t := b.Table(nullRow)
			b.Stream(nullIn).JoinTableWithKey(t, func(k, v, w string) string { return k + v + w }).To(nullOut)
		}, [4]string{dropped, dropped, dropped, "k=kvR"}, [4]string{}},
		{"leftJoin with keys", func(b *streams.Builder) {
			t := b.Table(nullRow)
			b.Stream(nullIn).LeftJoinTableWithKey(t, func(k, v, w string, ok bool) string { return fmt.Sprint(k, v, w, ok) }).To(nullOut)
		}, [4]string{dropped, "null=vfalse", dropped, "k=kvRtrue"}, [4]string{}},
		{"key change, join", func(b *streams.Builder) {
			t := b.Table(nullRow)
			b.Stream(nullIn).MapRecords(func(r streams.Record[string, string]) streams.Record[string, string] { return r }).
				Repartition("r").JoinTable(t, func(v, w string) string { return v + w }).To(nullOut)
		}, [4]string{dropped, dropped, dropped, "k=vR"}, [4]string{}},
		{"key change, leftJoin", func(b *streams.Builder) {
			t := b.Table(nullRow)
			b.Stream(nullIn).
				MapRecords(func(r streams.Record[string, string]) streams.Record[string, string] { return r }, streams.KeySerde(serde.String), streams.ValueSerde(serde.String)).
				LeftJoinTable(t, func(v, w string, ok bool) string { return fmt.Sprint(v, w, ok) }).To(nullOut)
		}, [4]string{dropped, "null=vfalse", dropped, "k=vRtrue"}, [4]string{}},

		// Joins with a global table. A key that is null is looked up as the zero key, like everywhere; a null is what the function makes of it.
		{"global join by key", func(b *streams.Builder) {
			b.Stream(nullIn).JoinGlobal(b.GlobalTable(rowOfPointer), keyOrNil, func(v, w string) string { return v + w }).To(nullOut)
		}, [4]string{dropped, dropped, dropped, "k=vR"}, [4]string{}},
		{"global join by a constant", func(b *streams.Builder) {
			b.Stream(nullIn).JoinGlobal(b.GlobalTable(nullRow), toK, func(v, w string) string { return v + w }).To(nullOut)
		}, [4]string{dropped, "null=vR", dropped, "k=vR"}, [4]string{}},
		{"global left join by null", func(b *streams.Builder) {
			b.Stream(nullIn).LeftJoinGlobal(b.GlobalTable(rowOfPointer), func(_, _ string) *string { return nil }, leftText).To(nullOut)
		}, [4]string{dropped, "null=vfalse", dropped, "k=vfalse"}, [4]string{}},
		{"global left join by key", func(b *streams.Builder) {
			b.Stream(nullIn).LeftJoinGlobal(b.GlobalTable(rowOfPointer), keyOrNil, leftText).To(nullOut)
		}, [4]string{dropped, "null=vfalse", dropped, "k=vRtrue"}, [4]string{}},

		// Joins of streams: a null key has no partner and is given at once where its side may be alone; a null value takes no part.
		{"stream join, left side", func(b *streams.Builder) {
			b.Stream(nullIn).Join(b.Stream(nullRow), plus, within).To(nullOut)
		}, [4]string{dropped, dropped, dropped, "k=v+R"}, [4]string{}},
		{"stream join, right side", func(b *streams.Builder) {
			b.Stream(nullRow).Join(b.Stream(nullIn), plus, within).To(nullOut)
		}, [4]string{dropped, dropped, dropped, "k=R+v"}, [4]string{}},
		{"stream left join, left side", func(b *streams.Builder) {
			b.Stream(nullIn).LeftJoin(b.Stream(nullRow), leftText, within).To(nullOut)
		}, [4]string{dropped, "null=vfalse", dropped, "k=vRtrue"}, [4]string{}},
		{"stream left join, right side", func(b *streams.Builder) {
			b.Stream(nullRow).LeftJoin(b.Stream(nullIn), leftText, within).To(nullOut)
		}, [4]string{dropped, dropped, dropped, "k=Rvtrue"}, [4]string{}},
		{"stream outer join, left side", func(b *streams.Builder) {
			b.Stream(nullIn).OuterJoin(b.Stream(nullRow), outerText, within).To(nullOut)
		}, [4]string{dropped, "null=vtruefalse", dropped, "k=vtrueRtrue"}, [4]string{}},
		{"stream outer join, right side", func(b *streams.Builder) {
			b.Stream(nullRow).OuterJoin(b.Stream(nullIn), outerText, within).To(nullOut)
		}, [4]string{dropped, "null=falsevtrue", dropped, "k=Rtruevtrue"}, [4]string{}},

		// Joins of tables, the row R of k in the right one.
		{"table join", func(b *streams.Builder) { b.Table(nullIn).Join(b.Table(nullRow), plus).ToStream().To(nullOut) },
			[4]string{dropped, dropped, "k=null", "k=v+R"}, [4]string{dropped, dropped, "", "k=v+R"}},
		{"table left join", func(b *streams.Builder) { b.Table(nullIn).LeftJoin(b.Table(nullRow), leftText).ToStream().To(nullOut) },
			[4]string{dropped, dropped, "k=null", "k=vRtrue"}, [4]string{dropped, dropped, "", "k=vRtrue"}},
		{"table outer join", func(b *streams.Builder) {
			b.Table(nullIn).OuterJoin(b.Table(nullRow), outerText).ToStream().To(nullOut)
		},
			[4]string{dropped, dropped, "k=falseRtrue", "k=vtrueRtrue"}, [4]string{dropped, dropped, "", "k=vtrueRtrue"}},
		{"foreign-key join", func(b *streams.Builder) {
			b.Table(nullIn).JoinForeign(b.Table(nullRow), toKey, plus).ToStream().To(nullOut)
		}, [4]string{dropped, dropped, "", "k=v+R"}, [4]string{}},
		{"foreign-key left join", func(b *streams.Builder) {
			b.Table(nullIn).LeftJoinForeign(b.Table(nullRow), toKey, leftText).ToStream().To(nullOut)
		}, [4]string{dropped, dropped, "", "k=vRtrue"}, [4]string{}},

		// Grouped tables.
		{"table groupBy, count", func(b *streams.Builder) {
			b.Table(nullIn).GroupBy(func(k, v string) (string, string) { return k, v }).Count("c").ToStream().MapValues(number).To(nullOut)
		}, [4]string{dropped, dropped, "", "k=1"}, [4]string{}},
		{"table groupBy with a null key", func(b *streams.Builder) {
			b.Table(nullIn).GroupBy(func(_, v string) (*string, string) { return nil, v }, streams.KeySerde(serde.Pointer(serde.String))).
				Count("c").ToStream().Map(func(*string, int64) (string, string) { return "", "" }).To(nullOut)
		}, [4]string{dropped, dropped, "", ""}, [4]string{}},
	}
}

// B-056: nulls at every operator, with and without caches. F-029, F-058, F-062, F-066, F-105, F-108, F-110, F-111.
// F-010, F-011, F-012, F-014, F-023, F-024, F-067, F-083, F-100. F-005, F-016.
func TestB056Nulls(t *testing.T) {
	inputs := [4]streams.Record[string, string]{
		{NullKey: true, NullValue: true}, {NullKey: true, Value: "v"}, {Key: "k", NullValue: true}, {Key: "k", Value: "v"},
	}
	for _, c := range nullCases() {
		for _, caches := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/caches=%t", strings.ReplaceAll(c.operator, " ", "-"), caches), func(t *testing.T) {
				b := streams.NewBuilder()
				c.build(b)
				topology, err := b.Build()
				if err != nil {
					t.Fatal(err)
				}
				want, cfg := c.want, streams.Config{CacheBytes: -1}
				if caches {
					cfg.CacheBytes = 0
					if c.cached != [4]string{} {
						want = c.cached
					}
				}
				d := streamstest.New(t, topology, streamstest.WithConfig(cfg))
				in, out := d.Input(nullIn), d.Output(nullOut)
				d.Input(nullRow).Pipe("k", "R")
				out.ReadAll()
				for i, r := range inputs {
					before := total(d.Dropped())
					in.PipeRecords(r)
					got := recordText(out.ReadAll())
					if n := total(d.Dropped()) - before; n == 1 && got == "" {
						got = dropped
					} else if n != 0 {
						got += fmt.Sprintf(" and %d drops", n)
					}
					if got != want[i] {
						t.Errorf("%s: got %q, want %q", recordText(inputs[i:i+1]), got, want[i])
					}
				}
			})
		}
	}
}

func total(counts map[string]int64) (n int64) {
	for _, c := range counts {
		n += c
	}
	return n
}

// recordText shows records as key=value, null as null.
func recordText[K, V any](records []streams.Record[K, V]) string {
	var s []string
	for _, r := range records {
		k, v := fmt.Sprint(r.Key), fmt.Sprint(r.Value)
		if r.NullKey {
			k = "null"
		}
		if r.NullValue {
			v = "null"
		}
		s = append(s, k+"="+v)
	}
	return strings.Join(s, " ")
}

// Rule 4: a nil pointer or interface that a function returns is a null; a nil slice or map, an empty string, zero and false are values. Each function
// gets the value of the input.
func TestNilAndZeroOfFunctions(t *testing.T) {
	pointer := func(v string) *string {
		if v == "nil" {
			return nil
		}
		return &v
	}
	text := func(p *string) string { return "*" + *p }
	slice := func(v string) []byte {
		if v == "nil" {
			return nil
		}
		return []byte(v)
	}
	anything := func(v string) any {
		if v == "nil" {
			return nil
		}
		return v
	}
	pointers, anys := streams.ValueSerde(serde.Pointer(serde.String)), streams.ValueSerde(serde.JSON[any]())
	length := func(b []byte) string { return fmt.Sprint(len(b)) }
	type stream = *streams.Stream[string, string]
	for _, c := range []struct {
		name  string
		build func(s stream) stream
		want  string // of the values "v", "nil", "v"
	}{
		{"mapValues to a pointer", func(s stream) stream { return s.MapValues(pointer).MapValues(text) }, "k=*v k=null k=*v"},
		{"mapValues to an interface", func(s stream) stream {
			return s.MapValues(anything).MapValues(func(v any) string { return v.(string) })
		}, "k=v k=null k=v"},
		{"mapValues to a slice", func(s stream) stream { return s.MapValues(slice).MapValues(length) }, "k=1 k=0 k=1"},
		{"a nil slice through a topic", func(s stream) stream { return s.MapValues(slice).Repartition("r").MapValues(length) },
			"k=1 k=0 k=1"},
		{"a nil slice through a store", func(s stream) stream {
			return s.MapValues(slice).ToTable(streams.Materialized("t")).ToStream().MapValues(length)
		},
			"k=1 k=0 k=1"},
		{"a nil map through a topic", func(s stream) stream {
			return s.MapValues(func(string) map[string]int { return nil }, streams.ValueSerde(serde.JSON[map[string]int]())).Repartition("r").
				MapValues(func(m map[string]int) string { return fmt.Sprint(m != nil, len(m)) })
		}, "k=true 0 k=true 0 k=true 0"},
		{"mapValues to zero", func(s stream) stream {
			return s.MapValues(func(string) int64 { return 0 }).Repartition("r").MapValues(func(n int64) string { return fmt.Sprint(n) })
		}, "k=0 k=0 k=0"},
		{"mapValues to an empty string", func(s stream) stream {
			return s.MapValues(func(string) string { return "" }).ToTable(streams.Materialized("t")).ToStream()
		}, "k= k= k="},
		{"mapValuesWithKey", func(s stream) stream {
			return s.MapValuesWithKey(func(_, v string) *string { return pointer(v) }).MapValues(text)
		}, "k=*v k=null k=*v"},
		{"tryMapValues", func(s stream) stream {
			return s.TryMapValues(func(v string) (*string, error) { return pointer(v), nil }).MapValues(text)
		}, "k=*v k=null k=*v"},
		{"flatMapValues", func(s stream) stream {
			return s.FlatMapValues(func(v string) []*string { return []*string{pointer(v), nil} }).MapValues(text)
		}, "k=*v k=null k=null k=null k=*v k=null"},
		{"map", func(s stream) stream {
			return s.Map(func(k, v string) (*string, *string) { return pointer(v), pointer(v) }).
				MapRecords(func(r streams.Record[*string, *string]) streams.Record[string, string] {
					return r.WithKey(fmt.Sprint(r.NullKey)).WithValue(fmt.Sprint(r.NullValue))
				})
		}, "false=false true=true false=false"},
		{"tryMap", func(s stream) stream {
			return s.TryMap(func(k, v string) (string, *string, error) { return k, pointer(v), nil }).MapValues(text)
		}, "k=*v k=null k=*v"},
		{"flatMap", func(s stream) stream {
			return s.FlatMap(func(k, v string, emit func(string, *string)) { emit(k, pointer(v)) }).MapValues(text)
		}, "k=*v k=null k=*v"},
		{"selectKey", func(s stream) stream {
			return s.SelectKey(func(_, v string) *string { return pointer(v) }).
				MapRecords(func(r streams.Record[*string, string]) streams.Record[string, string] {
					return r.WithKey(fmt.Sprint(r.NullKey))
				})
		}, "false=v true=nil false=v"},
		{"mapRecords", func(s stream) stream {
			return s.MapRecords(func(r streams.Record[string, string]) streams.Record[string, *string] {
				return r.WithValue(pointer(r.Value))
			}).MapValues(text)
		}, "k=*v k=null k=*v"},
		{"processor", func(s stream) stream {
			return s.ProcessFunc(func(ctx *streams.Context[string, *string], r streams.Record[string, string]) error {
				ctx.Forward(ctx.Record(r.Key, pointer(r.Value)))
				return nil
			}).MapValues(text)
		}, "k=*v k=null k=*v"},
		{"reduce", func(s stream) stream {
			return s.MapValues(pointer, pointers).GroupByKey(pointers).Reduce("c", func(a, v *string) *string { return nil }).ToStream().MapValues(text)
		}, "k=*v k=null"}, // the second value is a null and is dropped; the third deletes
		{"aggregate", func(s stream) stream {
			return s.GroupByKey().Aggregate("c", func() *string { return pointer("0") }, func(a *string, _, v string) *string {
				if v == "nil" {
					return nil
				}
				return pointer(*a + v)
			}, pointers).ToStream().MapValues(text)
		}, "k=*0v k=null k=*0v"},
		{"windowed aggregate", func(s stream) stream {
			return s.GroupByKey().WindowedBy(window.Tumbling(time.Hour)).Aggregate("c", func() *string { return pointer("0") }, func(a *string, _, v string) *string {
				if v == "nil" {
					return nil
				}
				return pointer(*a + v)
			}, pointers).ToStream().MapValues(text).SelectKey(func(k window.Windowed[string], _ string) string { return k.Key })
		}, "k=*0v k=null k=*0v"},
		{"table mapValues", func(s stream) stream { return s.ToTable().MapValues(pointer).ToStream().MapValues(text) }, "k=*v k=null k=*v"},
		{"table mapValues in a store", func(s stream) stream {
			return s.ToTable().MapValues(anything, anys, streams.Materialized("t")).ToStream().MapValues(func(v any) string { return v.(string) })
		}, "k=v k=null k=v"},
		{"join", func(s stream) stream {
			return s.JoinTable(s.ToTable(), func(_, w string) *string { return pointer(w) }).MapValues(text)
		}, "k=*v k=null k=*v"},
		{"lookup in a mapped table", func(s stream) stream {
			t := s.ToTable(streams.Materialized("t")).MapValues(pointer)
			return s.LeftJoinTable(t, func(v string, w *string, ok bool) string { return fmt.Sprint(w == nil, ok) })
		}, "k=false true k=true false k=false true"},
	} {
		for _, caches := range []int64{-1, 0} {
			t.Run(fmt.Sprintf("%s/cache=%d", strings.ReplaceAll(c.name, " ", "-"), caches), func(t *testing.T) {
				b := streams.NewBuilder()
				c.build(b.Stream(nullIn)).To(nullOut)
				topology, err := b.Build()
				if err != nil {
					t.Fatal(err)
				}
				d := streamstest.New(t, topology, streamstest.WithConfig(streams.Config{CacheBytes: caches}))
				in := d.Input(nullIn)
				for _, v := range []string{"v", "nil", "v"} {
					in.Pipe("k", v)
				}
				if got := recordText(d.Output(nullOut).ReadAll()); got != c.want {
					t.Errorf("got %q, want %q", got, c.want)
				}
			})
		}
	}
}

// Empty bytes are a key and a value, on every way through topics, stores and a restart.
func TestEmptyIsNotNull(t *testing.T) {
	b := streams.NewBuilder()
	b.Stream(nullIn).Repartition("r").ToTable(streams.Materialized("t")).ToStream().To(nullOut)
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	d := streamstest.New(t, topology)
	in, out := d.Input(nullIn), d.Output(nullOut)
	in.PipeRaw([]byte{}, []byte{})
	if got := recordText(out.ReadAll()); got != "=" {
		t.Errorf("got %q", got)
	}
	for _, topic := range []string{"test-r-repartition", "test-t-changelog"} {
		if r := d.Output(streams.NewTopic(topic, serde.String, serde.String)).Read(); r.NullKey || r.NullValue {
			t.Errorf("%s has %v", topic, r)
		}
	}
	d.Restart(streamstest.StateLost)
	store := d.Store(streams.NewKeyValueStore("t", serde.String, serde.String))
	if v, ok := store.Get(""); v != "" || !ok {
		t.Errorf("the store has %q, %t", v, ok)
	}
	in.PipeRaw([]byte{}, nil)
	if got := recordText(out.ReadAll()); got != "=null" {
		t.Errorf("a null deletes: got %q", got)
	}
	if _, ok := store.Get(""); ok {
		t.Error("the row is still there")
	}
}
