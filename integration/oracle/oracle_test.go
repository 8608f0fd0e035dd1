package oracle_test

import (
	"reflect"
	"testing"

	"github.com/millrace/millrace/integration/oracle"
)

// Every program that once differed gives what Java gave.
func TestCorpus(t *testing.T) {
	cases, err := oracle.Corpus("corpus")
	if err != nil {
		t.Fatal(err)
	}
	if len(cases) == 0 {
		t.Fatal("the corpus is empty")
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			if c.Java.Error != "" {
				t.Fatalf("Java failed: %s", c.Java.Error)
			}
			if d := oracle.Compare(c.Java, oracle.Run(c.Program)); d != nil {
				t.Errorf("%s\n%v\n--- Go\n%s", c.About, d, oracle.GoSource(c.Program))
			}
		})
	}
}

// A seed makes one program, and each operator comes in its turn.
func TestGenerate(t *testing.T) {
	cover := &oracle.Coverage{}
	for seed := range uint64(300) {
		p := oracle.Generate(seed)
		if again := oracle.Generate(seed); !reflect.DeepEqual(p, again) {
			t.Fatalf("seed %d makes two programs", seed)
		}
		if _, err := p.Types(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		cover.Add(p)
	}
	if op, n := cover.Least(); n < 3 {
		t.Errorf("300 programs have %s %d times", op, n)
	}
}

// What is compared is seen: a result that differs in one thing is told from another.
func TestCompare(t *testing.T) {
	base := func() *oracle.Result {
		return &oracle.Result{
			Describe: "Topologies:\n",
			Steps: []oracle.Step{{
				Topics: []oracle.TopicRecords{{Name: "out", Records: []oracle.Record{
					{Key: []byte("k"), Value: []byte("v"), Time: 1, Headers: []oracle.RecordHeader{{Key: "h", Value: []byte{}}}}, {Key: []byte("l")},
				}}, {Name: "test-s-changelog", Records: []oracle.Record{{Key: []byte("k")}}}, {Name: "test-g-repartition", Records: []oracle.Record{{}}}},
				Calls: []string{"1 k=v"},
			}},
			Stores: []oracle.Store{{Name: "s", Rows: []oracle.Row{{Key: "k", Value: "v", Time: 1}}}},
		}
	}
	out := func(r *oracle.Result) []oracle.Record { return r.Steps[0].Topics[0].Records }
	for name, test := range map[string]struct {
		what   string
		change func(r *oracle.Result)
	}{
		"nothing":         {"", func(*oracle.Result) {}},
		"describe":        {"describe", func(r *oracle.Result) { r.Describe += "\n" }},
		"key":             {"output", func(r *oracle.Result) { out(r)[0].Key = []byte("K") }},
		"null key":        {"output", func(r *oracle.Result) { out(r)[0].Key = nil }},
		"null for empty":  {"output", func(r *oracle.Result) { out(r)[0].Headers[0].Value = nil }},
		"time":            {"output", func(r *oracle.Result) { out(r)[1].Time++ }},
		"header":          {"output", func(r *oracle.Result) { out(r)[0].Headers = nil }},
		"order":           {"output", func(r *oracle.Result) { out(r)[0], out(r)[1] = out(r)[1], out(r)[0] }},
		"missing record":  {"output", func(r *oracle.Result) { r.Steps[0].Topics[0].Records = out(r)[:1] }},
		"missing topic":   {"output", func(r *oracle.Result) { r.Steps[0].Topics = r.Steps[0].Topics[1:] }},
		"changelog":       {"changelog", func(r *oracle.Result) { r.Steps[0].Topics[1].Records[0].Value = []byte("x") }},
		"repartition":     {"repartition", func(r *oracle.Result) { r.Steps[0].Topics[2].Records = nil }},
		"missing step":    {"calls", func(r *oracle.Result) { r.Steps = nil }},
		"call":            {"calls", func(r *oracle.Result) { r.Steps[0].Calls[0] = "1 k=" }},
		"row":             {"store", func(r *oracle.Result) { r.Stores[0].Rows[0].Value = "x" }},
		"time of a row":   {"store", func(r *oracle.Result) { r.Stores[0].Rows[0].Time = 0 }},
		"one more row":    {"store", func(r *oracle.Result) { r.Stores[0].Rows = append(r.Stores[0].Rows, oracle.Row{Key: "l"}) }},
		"one more store":  {"store", func(r *oracle.Result) { r.Stores = append(r.Stores, oracle.Store{Name: "x"}) }},
		"one side failed": {"error", func(r *oracle.Result) { r.Error = "no" }},
	} {
		t.Run(name, func(t *testing.T) {
			ours := base()
			test.change(ours)
			d := oracle.Compare(base(), ours)
			if got := what(d); got != test.what {
				t.Errorf("the difference is in %q, want %q", got, test.what)
			}
		})
	}
}

func what(d *oracle.Difference) string {
	if d == nil {
		return ""
	}
	return d.What
}

// Shrinking keeps what it is told to keep, and little else.
func TestShrink(t *testing.T) {
	has := func(p *oracle.Program) bool {
		for _, o := range p.Ops {
			if o.Op == "selectKey" && len(p.Input) > 0 {
				return true
			}
		}
		return false
	}
	tried := 0
	for seed := range uint64(200) {
		p := oracle.Generate(seed)
		if !has(p) {
			continue
		}
		tried++
		small := oracle.Shrink(p, has)
		if _, err := small.Types(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if !has(small) || len(small.Ops) > 5 || len(small.Input) > 1 {
			t.Errorf("seed %d: %d operators and %d events are left\n%s", seed, len(small.Ops), len(small.Input), oracle.GoSource(small))
		}
	}
	if tried == 0 {
		t.Error("no program had the operator")
	}
}
