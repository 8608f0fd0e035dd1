package streams_test

import (
	"os"
	"strings"
	"testing"
)

// The code in the README is that of the examples, which are compiled and run: each block is found in one of their files, line by line.
func TestReadmeQuotesExamples(t *testing.T) {
	trimmed := func(file string) []string {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for line := range strings.Lines(string(text)) {
			lines = append(lines, strings.TrimSpace(line))
		}
		return lines
	}
	var sources []string
	for _, file := range []string{"example_test.go", "streamstest/example_test.go"} {
		sources = append(sources, strings.Join(trimmed(file), "\n"))
	}
	var block []string
	inside, blocks := false, 0
	for _, line := range trimmed("../README.md") {
		switch {
		case line == "```go":
			inside, block = true, nil
		case line == "```" && inside:
			inside = false
			blocks++
			quoted := strings.Join(block, "\n")
			// The first part of word count declares topics, which the examples share; its main is the first example.
			if _, body, ok := strings.Cut(quoted, "func main() {\n"); ok {
				quoted = strings.TrimSuffix(body, "\n}")
			}
			found := false
			for _, source := range sources {
				found = found || strings.Contains(source, quoted)
			}
			if !found {
				t.Errorf("no example has this block of the README:\n%s", quoted)
			}
		case inside:
			block = append(block, line)
		}
	}
	if blocks < 5 {
		t.Errorf("the README has %d blocks of code", blocks)
	}
}
