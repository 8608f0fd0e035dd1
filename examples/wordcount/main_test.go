package main

import (
	"maps"
	"os"
	"path/filepath"
	"testing"

	"github.com/millrace/millrace/examples/internal/demo"
)

// The program as a newcomer starts it: a broker inside, the text, lines from standard input, a clean end.
func TestRunsToTheEndOfItsInput(t *testing.T) {
	in := filepath.Join(t.TempDir(), "in")
	if err := os.WriteFile(in, []byte("to be or not to be\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(in)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c := newCounted()
	if err := demo.Run(t.Context(), program(c, f), demo.Options{AppID: "wordcount", StateDir: t.TempDir(), ExactlyOnce: true, Partitions: 2}); err != nil {
		t.Fatal(err)
	}
	want := map[string]int64{}
	for _, word := range words(text + " to be or not to be") {
		want[word]++
	}
	if !maps.Equal(c.latest, want) {
		t.Errorf("counted %v, want %v", c.latest, want)
	}
}

func TestWords(t *testing.T) {
	got := words("Don't stop - the Whale's here!")
	want := []string{"don't", "stop", "the", "whale's", "here"}
	if len(got) != len(want) {
		t.Fatalf("got %q", got)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got %q, want %q", got[i], want[i])
		}
	}
}
