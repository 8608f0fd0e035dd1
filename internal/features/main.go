// Command features writes docs/features.md: which features of Kafka Streams there are, and which test shows it.
//
//	go run ./internal/features           # runs the tests that the page names, and writes it if they pass
//	go run ./internal/features -norun    # writes it without running them
//
// features.tsv has the rows: id, what it is, our names for it, and for what is left out the reason. The rest of the page comes from the code. A feature is
// there if all its names are exported; it is tested if a test names its id, in the name of the function (TestF087Sessions) or in a comment above or within it
// ("// F-087: …"). A test that fails or is skipped shows nothing. Tests with the build tag kafka are not run here but by make test-kafka; a row that has
// no others says so.
package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/ast"
	"go/build/constraint"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"log"
	"os"
	"os/exec"
	"path"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

//go:embed features.tsv
var table string

const page = "docs/features.md"

func main() {
	log.SetFlags(0)
	norun := flag.Bool("norun", false, "write the page without running the tests")
	flag.Parse()
	if err := write(".", !*norun); err != nil {
		log.Fatal(err)
	}
}

func write(root string, run bool) error {
	text, tests, err := render(os.DirFS(root))
	if err != nil {
		return err
	}
	if run {
		if err := pass(root, tests); err != nil {
			return fmt.Errorf("%w\n%s is not written", err, page)
		}
	}
	return os.WriteFile(path.Join(root, page), text, 0o644)
}

// row is a feature.
type row struct {
	section string // its heading
	id      string
	what    string
	api     []string
	reason  string // why it is left out
}

// parse reads the table: a heading after "# ", or id, what, names, reason between tabs.
func parse(table string) (rows []row, err error) {
	section := ""
	for i, line := range strings.Split(strings.Trim(table, "\n"), "\n") {
		if heading, ok := strings.CutPrefix(line, "# "); ok {
			section = heading
			continue
		}
		f := strings.Split(line, "\t")
		switch {
		case len(f) != 4, section == "", !regexp.MustCompile(`^F-\d{3}$`).MatchString(f[0]), f[1] == "":
			return nil, fmt.Errorf("line %d is no row: %q", i+1, line)
		case f[2] != "" && f[3] != "":
			return nil, fmt.Errorf("line %d: %s is left out, and has names", i+1, f[0])
		case len(rows) > 0 && rows[len(rows)-1].id >= f[0]:
			return nil, fmt.Errorf("line %d: %s is out of order", i+1, f[0])
		}
		rows = append(rows, row{section, f[0], f[1], strings.Fields(f[2]), f[3]})
	}
	return rows, nil
}

// test is a function that names features.
type test struct {
	name, file string
	kafka      bool // has the build tag
	inName     bool // the id is in the function's name
}

// render returns the page, and the tests that it names.
func render(tree fs.FS) (text []byte, named []test, err error) {
	rows, err := parse(table)
	if err != nil {
		return nil, nil, err
	}
	names, err := exported(tree)
	if err != nil {
		return nil, nil, err
	}
	tests, err := scan(tree)
	if err != nil {
		return nil, nil, err
	}
	var out bytes.Buffer
	var b bytes.Buffer
	counts := map[string]int{}
	section := ""
	for _, r := range rows {
		if r.section != section {
			section = r.section
			fmt.Fprintf(&b, "\n## %s\n\n| id | what | names | state | test |\n|---|---|---|---|---|\n", section)
		}
		state := r.state(names, tests[r.id])
		counts[state]++
		var shown string
		switch state {
		case tested, onKafka:
			shown = show(tests[r.id])
			named = append(named, tests[r.id]...)
		case leftOut:
			shown = r.reason
		}
		var api []string
		for _, n := range r.api {
			api = append(api, "`"+n+"`")
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", r.id, r.what, strings.Join(api, ", "), state, shown)
	}
	fmt.Fprintf(&out, `# Features

The features of Kafka Streams 4.4 that concern the DSL, processors and stores, and where they are here. This page is written by `+"`make features`"+` from the
code and its tests; to change it, change internal/features/features.tsv or name the id of a feature in a test. A feature is *tested* if all its names are
there and a test names it and passes, %s if those tests need a real Kafka or Java.

`, onKafka)
	for _, s := range states {
		if counts[s] > 0 {
			fmt.Fprintf(&out, "- %s: %d\n", s, counts[s])
		}
	}
	out.Write(b.Bytes())
	return out.Bytes(), named, nil
}

// The states of a feature.
const (
	tested   = "tested"
	onKafka  = "*tested with Kafka*"
	untested = "**no test**"
	notYet   = "**not yet**"
	leftOut  = "left out"
)

var states = []string{tested, onKafka, untested, notYet, leftOut}

func (r row) state(names map[string]bool, tests []test) string {
	switch {
	case r.reason != "":
		return leftOut
	case len(r.api) == 0, slices.ContainsFunc(r.api, func(n string) bool { return !names[n] }):
		return notYet
	case len(tests) == 0:
		return untested
	case !slices.ContainsFunc(tests, func(t test) bool { return !t.kafka }):
		return onKafka
	}
	return tested
}

// mostShown is how many tests a row shows.
const mostShown = 2

// show links the tests, first those that say the id in their names.
func show(tests []test) string {
	tests = slices.Clone(tests)
	rank := func(t test) int {
		switch {
		case t.kafka:
			return 2
		case t.inName:
			return 0
		}
		return 1
	}
	slices.SortStableFunc(tests, func(a, b test) int { return rank(a) - rank(b) })
	var list []string
	for _, t := range tests[:min(mostShown, len(tests))] {
		list = append(list, fmt.Sprintf("[%s](../%s)", t.name, t.file))
	}
	if n := len(tests) - mostShown; n > 0 {
		list = append(list, fmt.Sprintf("%d more", n))
	}
	return strings.Join(list, ", ")
}

var (
	testName  = regexp.MustCompile(`^(Test|Fuzz|Example)([^a-z]|$)`)
	inName    = regexp.MustCompile(`F(\d{3})`)
	inComment = regexp.MustCompile(`\bF-(\d{3})\b`)
)

// scan returns the tests by the features they name, in the order of their files and in that of their lines.
func scan(tree fs.FS) (map[string][]test, error) {
	tests := map[string][]test{}
	err := files(tree, func(name string, data []byte) error {
		if !strings.HasSuffix(name, "_test.go") {
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, data, parser.ParseComments)
		if err != nil {
			return err
		}
		plain, kafka := tags(file)
		if !plain && !kafka {
			return nil // behind another tag, which nobody runs as a matter of course
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv != nil || !testName.MatchString(f.Name.Name) {
				continue
			}
			named := map[string]bool{}
			for _, m := range inName.FindAllStringSubmatch(f.Name.Name, -1) {
				named["F-"+m[1]] = true
			}
			from := f.Pos()
			if f.Doc != nil {
				from = f.Doc.Pos()
			}
			for _, c := range file.Comments {
				if c.Pos() < from || c.End() > f.End() {
					continue
				}
				for _, m := range inComment.FindAllStringSubmatch(c.Text(), -1) {
					if id := "F-" + m[1]; !named[id] {
						named[id] = false
					}
				}
			}
			for id, said := range named {
				tests[id] = append(tests[id], test{f.Name.Name, name, !plain, said})
			}
		}
		return nil
	})
	return tests, err
}

// tags reports whether a file is built without tags, and with the tag kafka.
func tags(file *ast.File) (plain, kafka bool) {
	for _, group := range file.Comments {
		if group.Pos() > file.Package {
			break
		}
		for _, c := range group.List {
			if !constraint.IsGoBuild(c.Text) {
				continue
			}
			e, err := constraint.Parse(c.Text)
			if err != nil {
				return false, false
			}
			with := func(more string) bool {
				return e.Eval(func(tag string) bool {
					return tag == more || tag == runtime.GOOS || tag == runtime.GOARCH || tag == "unix" || tag == "race" || strings.HasPrefix(tag, "go1.")
				})
			}
			return with(""), with("kafka")
		}
	}
	return true, true
}

// packages are those whose names features.tsv may have, by the word before the name. Names of streams need none.
var packages = map[string]string{
	"streams": "", "streams/serde": "serde.", "streams/window": "window.", "state": "state.",
}

// exported returns what is exported, as features.tsv writes it: Name, Type.Method, Type.Field, each after the package's word.
func exported(tree fs.FS) (map[string]bool, error) {
	names := map[string]bool{}
	err := files(tree, func(name string, data []byte) error {
		word, ok := packages[path.Dir(name)]
		if !ok || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, data, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil {
					names[word+d.Name.Name] = true
				} else {
					names[word+receiver(d.Recv.List[0].Type)+"."+d.Name.Name] = true
				}
			case *ast.GenDecl:
				for _, s := range d.Specs {
					switch s := s.(type) {
					case *ast.ValueSpec:
						for _, n := range s.Names {
							names[word+n.Name] = true
						}
					case *ast.TypeSpec:
						names[word+s.Name.Name] = true
						for _, member := range members(s.Type) {
							names[word+s.Name.Name+"."+member] = true
						}
					}
				}
			}
		}
		return nil
	})
	for n := range names {
		if i := strings.LastIndex(n, "."); !ast.IsExported(n[i+1:]) {
			delete(names, n)
		}
	}
	return names, err
}

// receiver is the name of a method's type, without star and type parameters.
func receiver(e ast.Expr) string {
	for {
		switch t := e.(type) {
		case *ast.StarExpr:
			e = t.X
		case *ast.IndexExpr:
			e = t.X
		case *ast.IndexListExpr:
			e = t.X
		case *ast.Ident:
			return t.Name
		default:
			return ""
		}
	}
}

func members(e ast.Expr) (names []string) {
	var list *ast.FieldList
	switch t := e.(type) {
	case *ast.StructType:
		list = t.Fields
	case *ast.InterfaceType:
		list = t.Methods
	default:
		return nil
	}
	for _, f := range list.List {
		for _, n := range f.Names {
			names = append(names, n.Name)
		}
	}
	return names
}

// files calls f for each Go file that is part of the module, in order.
func files(tree fs.FS, f func(name string, data []byte) error) error {
	return fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := d.Name()
		if d.IsDir() {
			if name != "." && (strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_") || base == "testdata" || base == "tmp" || base == "bin") || name == "internal/features" {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(base, ".go") {
			return nil
		}
		data, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		return f(name, data)
	})
}

// pass runs tests, and returns an error that names those that do not pass.
func pass(root string, tests []test) error {
	var dirs, names []string
	for _, t := range tests {
		if !t.kafka {
			dirs = append(dirs, "./"+path.Dir(t.file))
			names = append(names, t.name)
		}
	}
	slices.Sort(dirs)
	slices.Sort(names)
	args := append([]string{"test", "-json", "-run", "^(" + strings.Join(slices.Compact(names), "|") + ")$"}, slices.Compact(dirs)...)
	cmd := exec.Command("go", args...)
	cmd.Dir = root
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
		return err
	}
	results, err := results(bytes.NewReader(out))
	if err != nil {
		return err
	}
	var bad []error
	for _, t := range tests {
		if t.kafka {
			continue
		}
		switch got := results[result{path.Dir(t.file), t.name}]; got {
		case "pass":
		case "":
			bad = append(bad, fmt.Errorf("%s: %s did not run", t.file, t.name))
		default:
			bad = append(bad, fmt.Errorf("%s: %s: %s", t.file, t.name, got))
		}
	}
	return errors.Join(slices.CompactFunc(bad, func(a, b error) bool { return a.Error() == b.Error() })...)
}

// result names a test function.
type result struct{ dir, test string }

const module = "github.com/millrace/millrace/"

// results reads what became of each test from the output of go test -json.
func results(r io.Reader) (map[result]string, error) {
	got := map[result]string{}
	for d := json.NewDecoder(r); ; {
		var e struct{ Action, Package, Test string }
		switch err := d.Decode(&e); {
		case err == io.EOF:
			return got, nil
		case err != nil:
			return nil, err
		}
		if e.Test != "" && !strings.Contains(e.Test, "/") && (e.Action == "pass" || e.Action == "fail" || e.Action == "skip") {
			got[result{strings.TrimPrefix(e.Package, module), e.Test}] = e.Action
		}
	}
}
