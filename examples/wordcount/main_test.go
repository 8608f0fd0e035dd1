package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"
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
	stdin := os.Stdin
	os.Stdin = f
	defer func() { os.Stdin = stdin }()
	if err := run(context.Background(), "", "wordcount", t.TempDir(), true, 2, false); err != nil {
		t.Fatal(err)
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
