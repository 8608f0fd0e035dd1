// Command coverageids lists the items of the specifications that no test names: M (member), C (coordinator) and B (bugs seen elsewhere).
//
// A test names an item by its name (TestM19Fenced, a case "C12OldEpochNeedsOwnedLists" of package conformance, a subtest "B013"), by a comment in a
// test file ("// M-14, B-038: …"), or by a comment in a script below testdata ("# M-19"). The command only reports; it never fails for a missing item.
package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"log"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// family is one list of items, numbered from 1.
type family struct {
	letter, what string
	last, digits int
}

var families = []family{
	{"M", "member of a streams group", 65, 2},
	{"C", "coordinator of a streams group", 64, 2},
	{"B", "bugs seen elsewhere", 62, 3},
}

func (f family) id(n int) string { return fmt.Sprintf("%s-%0*d", f.letter, f.digits, n) }

var (
	inComment = regexp.MustCompile(`\b([MCB])-(\d{2,3})\b`)
	inFunc    = regexp.MustCompile(`^func (?:Test|Fuzz|Example)((?:[MCB]\d{2,3})+)`)
	inString  = regexp.MustCompile(`"((?:[MCB]\d{2,3})+)`)
	inName    = regexp.MustCompile(`([MCB])(\d{2,3})`)
)

func main() {
	log.SetFlags(0)
	root := "."
	if len(os.Args) > 1 {
		root = os.Args[1]
	}
	named, err := scan(os.DirFS(root))
	if err != nil {
		log.Fatal(err)
	}
	if err := report(os.Stdout, named); err != nil {
		log.Fatal(err)
	}
}

// scan returns the ids that tests name, and how many lines do.
func scan(tree fs.FS) (map[string]int, error) {
	named := map[string]int{}
	err := fs.WalkDir(tree, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); name != "." && strings.HasPrefix(name, ".") || path == "internal/coverageids" {
				return fs.SkipDir
			}
			return nil
		}
		dir := filepath.ToSlash(filepath.Dir(path))
		test := strings.HasSuffix(path, "_test.go") || dir == "integration/conformance" && strings.HasSuffix(path, ".go")
		script := strings.Contains("/"+dir+"/", "/testdata/")
		if !test && !script {
			return nil
		}
		data, err := fs.ReadFile(tree, path)
		if err != nil {
			return err
		}
		lines := bufio.NewScanner(bytes.NewReader(data))
		lines.Buffer(nil, len(data)+1)
		for lines.Scan() {
			for _, id := range ids(lines.Text(), test) {
				named[id]++
			}
		}
		return lines.Err()
	})
	return named, err
}

// ids are the items that a line names.
func ids(line string, goCode bool) []string {
	mark := "#"
	if goCode {
		mark = "//"
	}
	var list []string
	add := func(letter, number string) {
		n, err := strconv.Atoi(number)
		for _, f := range families {
			if err == nil && f.letter == letter && n >= 1 && n <= f.last {
				list = append(list, f.id(n))
			}
		}
	}
	code, comment, commented := strings.Cut(line, mark)
	if commented {
		for _, m := range inComment.FindAllStringSubmatch(comment, -1) {
			add(m[1], m[2])
		}
	}
	if goCode {
		for _, pattern := range []*regexp.Regexp{inFunc, inString} {
			for _, m := range pattern.FindAllStringSubmatch(code, -1) {
				for _, n := range inName.FindAllStringSubmatch(m[1], -1) {
					add(n[1], n[2])
				}
			}
		}
	}
	return list
}

// report prints each family: how much of it is covered, and what is not.
func report(w io.Writer, named map[string]int) error {
	for _, f := range families {
		var missing []string
		for n := 1; n <= f.last; n++ {
			if named[f.id(n)] == 0 {
				missing = append(missing, f.id(n))
			}
		}
		line := fmt.Sprintf("%s (%s): covered %d of %d", f.letter, f.what, f.last-len(missing), f.last)
		if len(missing) > 0 {
			line += "; missing: " + strings.Join(missing, " ")
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}
