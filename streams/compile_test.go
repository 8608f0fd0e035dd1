package streams_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/window"
)

// The longest way round: windows of windows, through every handle, back to where it began. It must stay free of instantiation cycles.
func TestChainsOfAllHandlesCompile(t *testing.T) {
	b := streams.NewBuilder()
	once := b.Stream(lines).GroupByKey().WindowedBy(window.Tumbling(1e6)).Count("1")
	twice := streams.Unwindowed(once.ToStream()).GroupByKey().WindowedBy(window.Tumbling(1e6)).Count("2")
	thrice := streams.Unwindowed(twice.ToStream()).ToTable().ToStream().GroupByKey().Reduce("3", func(a, n int64) int64 { return a + n })
	thrice.ToStream().
		SelectKey(func(k window.Windowed[window.Windowed[string]], _ int64) string { return k.Key.Key }).
		Print("deep")
	if _, err := b.Build(); err != nil {
		t.Error(err)
	}
}

// Programs with mistakes that the compiler finds, so that Build need not. Each file of testdata/nocompile is one; a comment "// error: text" ends the line
// of each mistake, with a part of what the compiler says there. They are compiled as if they lay in the module.
func TestProgramsThatDoNotCompile(t *testing.T) {
	files, err := filepath.Glob("testdata/nocompile/*.go.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d programs: %v", len(files), err)
	}
	type place struct {
		name string
		line int
	}
	want, got := map[place]string{}, map[place]string{}
	overlay := map[string]map[string]string{"Replace": {}}
	args := []string{"build", "-o", os.DevNull}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".go.txt")
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		path, err := filepath.Abs(file)
		if err != nil {
			t.Fatal(err)
		}
		marks := 0
		for i, line := range strings.Split(string(source), "\n") {
			if _, text, ok := strings.Cut(line, "// error: "); ok {
				want[place{name, i + 1}] = text
				marks++
			}
		}
		if marks == 0 {
			t.Errorf("%s says no error", file)
		}
		dir := filepath.Join(filepath.Dir(path), name)
		overlay["Replace"][filepath.Join(dir, "main.go")] = path
		args = append(args, "./testdata/nocompile/"+name)
	}
	data, err := json.Marshal(overlay)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "overlay.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	args = append(args[:1], append([]string{"-overlay", file}, args[1:]...)...)
	output, err := exec.Command("go", args...).CombinedOutput()
	if err == nil {
		t.Fatal("all of them compile")
	}
	var last place
	for line := range strings.Lines(string(output)) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "\t") { // goes on
			got[last] += " " + strings.TrimSpace(line)
			continue
		}
		_, at, ok := strings.Cut(line, "testdata/nocompile/")
		parts := strings.SplitN(at, ":", 4) // file, line, column, text
		if !ok || len(parts) < 4 {
			continue
		}
		n, err := strconv.Atoi(parts[1])
		if err != nil {
			t.Fatalf("%q", line)
		}
		last = place{strings.TrimSuffix(parts[0], ".go.txt"), n}
		got[last] += parts[3]
	}
	for p, text := range want {
		if !strings.Contains(got[p], text) {
			t.Errorf("%s.go.txt:%d: the compiler says %q, want %q", p.name, p.line, got[p], text)
		}
		delete(got, p)
	}
	for p, text := range got {
		t.Errorf("%s.go.txt:%d: the compiler says %q, and nothing is expected there", p.name, p.line, text)
	}
	if t.Failed() {
		t.Logf("%s", output)
	}
}
