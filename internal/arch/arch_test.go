package arch_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/millrace/millrace/"

// allowed has, for each package, the packages of the module that it may import. "…" at the end of a name stands for the package and all below it.
// A package that is missing here is given by the longest entry that ends in "…" and covers it; one that no entry covers fails the test.
var allowed = map[string][]string{
	"topology":             nil,
	"state":                {"topology"}, // ids and the description of stores
	"state/pebblestore":    {"state", "topology"},
	"state/statetest":      {"state", "topology"},
	"tasks":                {"topology", "state"},
	"rebalance":            {"rebalance/member", "topology"},
	"rebalance/member":     {"topology"}, // ids
	"rebalance/classic":    {"topology"},
	"iq…":                  {"iq…", "state", "topology"},
	"streams":              {"streams/serde", "streams/window", "streams/internal/…", "iq…", "rebalance…", "state", "state/pebblestore", "tasks", "topology"},
	"streams/serde":        nil,
	"streams/serde/…":      {"streams/serde", "streams/serde/registry"}, // serdes with a schema
	"streams/window":       {"streams/serde"},                           // windowed keys have a serde
	"streams/internal/…":   {"streams/internal/…", "state", "tasks", "topology"},
	"streams/streamstest…": {"streams", "streams/internal/bridge", "streams/serde", "streams/window", "state", "state/pebblestore", "tasks", "topology"},

	// Development and test brokers know nothing of the library: they must be right by themselves.
	"integration/devbroker":             {"integration/devbroker/coordinator"},
	"integration/devbroker/coordinator": nil,
	"integration/kafka":                 nil,
	"integration/kafka/cmd":             {"integration/kafka"},
	"integration/conformance":           nil,

	// What a user may import, and the brokers. Whatever is below internal is closed to them by the compiler.
	"integration/…": {"streams…", "state…", "tasks", "topology", "rebalance…", "iq…", "integration/…"},
	"examples/…":    {"streams…", "iq…", "integration/devbroker", "examples/internal/…"},
	"cmd/…":         {"…"},
	"internal/…":    nil,
}

// libraries are the dependencies that only some packages may import.
var libraries = []struct {
	prefix string
	users  []string
	why    string
}{
	{"github.com/cockroachdb/pebble", []string{"state/pebblestore"}, "state is the contract, and its one engine can be replaced"},
	{"github.com/twmb/franz-go", []string{"rebalance", "streams", "streams/internal/client", "streams/serde/…", "integration/…", "cmd/…", "examples/…"},
		"tasks and everything below sees small interfaces that it declares itself"},
	{"github.com/twmb/franz-go/pkg/sr", []string{"streams/serde/registry", "streams/serde/avro", "streams/serde/protobuf"}, noSchemas},
	{"github.com/twmb/avro", []string{"streams/serde/avro"}, noSchemas},
	{"google.golang.org/protobuf", []string{"streams/serde/protobuf/…", "streams/serde/protobuf"}, noSchemas},
	{"testing", []string{"state/statetest", "streams/streamstest", "integration/…"}, "a program must not carry the flags of go test"},
}

const noSchemas = "a program carries these only if it imports a serde with a schema"

// covers reports whether pattern, which may end in "…", has pkg.
func covers(pattern, pkg string) bool {
	prefix, open := strings.CutSuffix(pattern, "…")
	if !open {
		return pattern == pkg
	}
	return strings.HasPrefix(pkg, prefix) && (prefix == "" || strings.HasSuffix(prefix, "/") || len(pkg) == len(prefix) || pkg[len(prefix)] == '/')
}

// entry is the key of allowed that pkg goes by.
func entry(pkg string) (key string, ok bool) {
	if _, exact := allowed[pkg]; exact {
		return pkg, true
	}
	for k := range allowed {
		if covers(k, pkg) && len(k) > len(key) {
			key, ok = k, true
		}
	}
	return key, ok
}

// edge is one import.
type edge struct {
	from, to string // to without the module's path, if it is ours
	ours     bool
	pos      token.Position
}

// edges reads the imports of all files that a program can be made of.
func edges(t *testing.T, root string) []edge {
	t.Helper()
	var list []edge
	set := token.NewFileSet()
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); file != root && (strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") || name == "testdata" || name == "tmp" || name == "bin") {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(set, file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		for _, i := range f.Imports {
			to, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				return err
			}
			to, ours := strings.CutPrefix(to, module)
			list = append(list, edge{filepath.ToSlash(rel), to, ours, set.Position(i.Pos())})
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// Every import of the module is in the tables above.
func TestImports(t *testing.T) {
	list := edges(t, filepath.Join("..", ".."))
	if len(list) == 0 {
		t.Fatal("no imports found")
	}
	for _, e := range list {
		if e.ours {
			key, ok := entry(e.from)
			if !ok {
				t.Errorf("%s: package %s is not in the table of allowed imports", e.pos, e.from)
				continue
			}
			if !slices.ContainsFunc(allowed[key], func(p string) bool { return covers(p, e.to) }) {
				t.Errorf("%s: %s must not import %s; it may import of ours: %q", e.pos, e.from, e.to, allowed[key])
			}
			continue
		}
		for _, l := range libraries {
			if covers(l.prefix+"…", e.to) && !slices.ContainsFunc(l.users, func(p string) bool { return covers(p, e.from) }) {
				t.Errorf("%s: %s must not import %s, only %q may: %s", e.pos, e.from, e.to, l.users, l.why)
			}
		}
	}
}

func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		pattern, pkg string
		want         bool
	}{
		{"state", "state", true},
		{"state", "state/pebblestore", false},
		{"state…", "state/pebblestore", true},
		{"state…", "statement", false},
		{"streams/…", "streams", false},
		{"streams/…", "streams/serde", true},
		{"…", "anything", true},
	} {
		if got := covers(c.pattern, c.pkg); got != c.want {
			t.Errorf("covers(%q, %q) = %v, want %v", c.pattern, c.pkg, got, c.want)
		}
	}
}
