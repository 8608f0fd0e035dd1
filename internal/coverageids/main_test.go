package main

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestScan(t *testing.T) {
	file := func(s string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(s)} }
	named, err := scan(fstest.MapFS{
		"a/a_test.go":                    file("// M-14, B-038: stuck\nfunc TestM19M20Fenced(t *testing.T) {\n\tt.Run(\"B013\", nil)\n}\n"),
		"a/a.go":                         file("// M-01 is no test\n"),
		"a/testdata/x.txt":               file("# M-02\njoin M-03\n"),
		"integration/conformance/all.go": file("\t{name: \"C12OldEpoch\"},\n"),
		"b_test.go":                      file("// M-99 and C-00 are not in the lists\n"),
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for id := range named {
		got = append(got, id)
	}
	slices.Sort(got)
	if want := []string{"B-013", "B-038", "C-12", "M-02", "M-14", "M-19", "M-20"}; !slices.Equal(got, want) {
		t.Errorf("named %q, want %q", got, want)
	}
	var out strings.Builder
	if err := report(&out, named); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "M (member of a streams group): covered 4 of 65; missing: M-01 M-03 ") {
		t.Errorf("report:\n%s", out.String())
	}
}
