//go:build kafka

package golden_test

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/millrace/millrace/integration/kafka"
)

var rewrite = flag.Bool("rewrite", false, "write the files in testdata instead of comparing with them")

// The files in testdata are what Java Kafka Streams says today.
func TestJava(t *testing.T) {
	if err := kafka.Available(); err != nil {
		t.Fatal(err)
	}
	classpath, err := kafka.Java(t.Context(), os.DirFS("java"))
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir()
	java := exec.CommandContext(t.Context(), "java", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", classpath, "golden.Topologies", out)
	if said, err := java.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	written := read(t, out)
	if len(written) == 0 {
		t.Fatal("Java described nothing")
	}
	if *rewrite {
		for name, data := range written {
			if err := os.WriteFile(filepath.Join("testdata", name), data, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		return
	}
	committed := read(t, "testdata")
	for name, data := range written {
		if !bytes.Equal(data, committed[name]) {
			t.Errorf("%s: Java says\n%s\nthe file has\n%s", name, data, committed[name])
		}
		delete(committed, name)
	}
	for name := range committed {
		t.Errorf("%s: Java describes no such topology", name)
	}
}

// read returns the files of a folder by name.
func read(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][]byte{}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(f)] = data
	}
	return all
}
