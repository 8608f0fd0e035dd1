package main

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"
)

// The page is what the command writes. That the tests it names pass is shown by the run that this test is a part of.
func TestPageIsUpToDate(t *testing.T) {
	root := filepath.Join("..", "..")
	want, _, err := render(os.DirFS(root))
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(got, want) {
		return
	}
	g, w := strings.Split(string(got), "\n"), strings.Split(string(want), "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			t.Fatalf("%s is not what the code says; run make features. Line %d is\n%s\nand would be\n%s", page, i+1, g[i], w[i])
		}
	}
	t.Fatalf("%s is not what the code says; run make features. It has %d lines and would have %d", page, len(g), len(w))
}

func TestParse(t *testing.T) {
	rows, err := parse("# One\nF-001\ta\tX Y.Z\t\n# Two\nF-003\tb\t\tno\n")
	want := []row{{"One", "F-001", "a", []string{"X", "Y.Z"}, ""}, {"Two", "F-003", "b", []string{}, "no"}}
	if err != nil || !reflect.DeepEqual(rows, want) {
		t.Errorf("%+v, %v", rows, err)
	}
	for _, bad := range []string{
		"F-001\ta\tX\t", "# One\nF-1\ta\tX\t", "# One\nF-001\ta\tX", "# One\nF-001\t\tX\t", "# One\nF-001\ta\tX\tno",
		"# One\nF-002\ta\tX\t\nF-001\ta\tX\t", "# One\nF-001\ta\tX\t\nF-001\ta\tX\t",
	} {
		if rows, err := parse(bad); err == nil {
			t.Errorf("%q is %+v", bad, rows)
		}
	}
}

func TestScan(t *testing.T) {
	tree := fstest.MapFS{
		"a/a_test.go": {Data: []byte(`package a

// F-009 is a comment of nobody.

// Above, F-001.
func TestF002F003Names(t *testing.T) {
	// F-004 within; F-002 is in the name as well.
}

// F-005
func Testable() {}

// F-006
func (x T) TestMethod() {}

func FuzzF007(f *testing.F) {}

// XF-010 and F-0111
func ExampleX() {}
`)},
		"a/kafka_test.go":      {Data: []byte("//go:build kafka\n\npackage a\n\nfunc TestF001OnKafka(t *testing.T) {}\n")},
		"a/mutant_test.go":     {Data: []byte("//go:build mutant\n\npackage a\n\nfunc TestF001Mutant(t *testing.T) {}\n")},
		"a/plain_test.go":      {Data: []byte("//go:build !mutant\n\npackage a\n\nfunc TestF001Plain(t *testing.T) {}\n")},
		"a/a.go":               {Data: []byte("package a\n\n// F-012\nfunc TestNot() {}\n")},
		"a/testdata/b_test.go": {Data: []byte("package a\n\nfunc TestF013(t *testing.T) {}\n")},
	}
	got, err := scan(tree)
	want := map[string][]test{
		"F-001": {{"TestF002F003Names", "a/a_test.go", false, false}, {"TestF001OnKafka", "a/kafka_test.go", true, true}, {"TestF001Plain", "a/plain_test.go", false, true}},
		"F-002": {{"TestF002F003Names", "a/a_test.go", false, true}},
		"F-003": {{"TestF002F003Names", "a/a_test.go", false, true}},
		"F-004": {{"TestF002F003Names", "a/a_test.go", false, false}},
		"F-007": {{"FuzzF007", "a/a_test.go", false, true}},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v", got, err)
	}
	if s := show(got["F-001"]); s != "[TestF001Plain](../a/plain_test.go), [TestF002F003Names](../a/a_test.go), 1 more" {
		t.Errorf("shown as %s", s)
	}
}

func TestExported(t *testing.T) {
	tree := fstest.MapFS{
		"streams/a.go": {Data: []byte(`package streams

type S[K any] struct{ Field, hidden int }
type I interface{ Method() }
type private struct{ Field int }

func (s *S[K]) Do()          {}
func (s S[K]) hide()         {}
func F()                     {}
func g()                     {}

var V, w int

const C = 1
`)},
		"streams/serde/b.go":      {Data: []byte("package serde\n\nvar String int\n")},
		"streams/a_test.go":       {Data: []byte("package streams\n\nfunc Helper() {}\n")},
		"streams/internal/x/c.go": {Data: []byte("package x\n\nfunc X() {}\n")},
	}
	names, err := exported(tree)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		"S": true, "S.Field": true, "S.hidden": false, "I.Method": true, "S.Do": true, "S.hide": false, "F": true, "g": false, "V": true, "w": false, "C": true,
		"serde.String": true, "String": false, "Helper": false, "X": false,
	} {
		if names[name] != want {
			t.Errorf("%s: %t", name, names[name])
		}
	}
}

func TestStates(t *testing.T) {
	names := map[string]bool{"X": true, "Y": true}
	plain, kafka := test{name: "TestA"}, test{name: "TestB", kafka: true}
	for _, c := range []struct {
		r     row
		tests []test
		want  string
	}{
		{row{api: []string{"X", "Y"}}, []test{plain}, tested},
		{row{api: []string{"X"}}, []test{kafka, plain}, tested},
		{row{api: []string{"X"}}, []test{kafka}, onKafka},
		{row{api: []string{"X"}}, nil, untested},
		{row{api: []string{"X", "Z"}}, []test{plain}, notYet},
		{row{}, []test{plain}, notYet},
		{row{reason: "no"}, nil, leftOut},
	} {
		if got := c.r.state(names, c.tests); got != c.want {
			t.Errorf("%+v with %+v: %s, want %s", c.r, c.tests, got, c.want)
		}
	}
}

// A test that fails, is skipped or does not exist keeps the page from being written.
func TestResults(t *testing.T) {
	got, err := results(strings.NewReader(`{"Action":"start","Package":"github.com/millrace/millrace/a"}
{"Action":"run","Package":"github.com/millrace/millrace/a","Test":"TestX"}
{"Action":"fail","Package":"github.com/millrace/millrace/a","Test":"TestX/sub"}
{"Action":"pass","Package":"github.com/millrace/millrace/a","Test":"TestX"}
{"Action":"skip","Package":"github.com/millrace/millrace/a","Test":"TestY"}
{"Action":"fail","Package":"github.com/millrace/millrace/a"}
`))
	want := map[result]string{{"a", "TestX"}: "pass", {"a", "TestY"}: "skip"}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v, %v", got, err)
	}
}

func TestPass(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module github.com/millrace/millrace\n\ngo 1.27\n",
		"a/a_test.go": `package a

import "testing"

func TestGood(t *testing.T) {}
func TestBad(t *testing.T)  { t.Error("no") }
func TestSkip(t *testing.T) { t.Skip() }
`,
	} {
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	of := func(name string) test { return test{name: name, file: "a/a_test.go"} }
	if err := pass(root, []test{of("TestGood"), {name: "TestElsewhere", file: "b/b_test.go", kafka: true}}); err != nil {
		t.Error(err)
	}
	err := pass(root, []test{of("TestGood"), of("TestBad"), of("TestBad"), of("TestSkip"), of("TestGone")})
	want := "a/a_test.go: TestBad: fail\na/a_test.go: TestSkip: skip\na/a_test.go: TestGone did not run"
	if err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}
