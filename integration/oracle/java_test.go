//go:build kafka

package oracle_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"testing"

	"github.com/millrace/millrace/integration/kafka"
	"github.com/millrace/millrace/integration/oracle"
)

var (
	seed    = flag.Uint64("seed", 0, "first seed of TestFresh; 0 is a new one")
	rewrite = flag.Bool("rewrite", false, "write Java's results into the corpus instead of comparing with them")
)

// java is one JVM for all tests.
var java *oracle.Java

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	err := kafka.Available()
	if err == nil {
		java, err = oracle.StartJava(context.Background(), runtime.NumCPU())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer java.Close()
	return m.Run()
}

// What the corpus says of Java is what Java says today.
func TestJavaCorpus(t *testing.T) {
	cases, err := oracle.Corpus("corpus")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		r, err := java.Run(c.Program)
		if err != nil {
			t.Fatal(err)
		}
		if *rewrite {
			c.Java = r
			if err := c.Write("corpus"); err != nil {
				t.Fatal(err)
			}
		}
		if d := oracle.Compare(r, c.Java); d != nil {
			t.Errorf("%s: %v", c.Name, d)
		}
	}
}

// Programs that never change: a difference among them is new.
func TestFixed(t *testing.T) { check(t, 1, 500) }

// Programs that nobody has seen.
func TestFresh(t *testing.T) {
	first := *seed
	if first == 0 {
		first = rand.Uint64() >> 1
	}
	t.Logf("run again with -run TestFresh -seed %d", first)
	check(t, first, 200)
}

func check(t *testing.T, first uint64, n int) {
	found := 0
	err := oracle.Check(t.Context(), java, first, n, runtime.NumCPU(), func(p *oracle.Program, d *oracle.Difference) bool {
		if d != nil {
			found++
			t.Errorf("seed %d: %v\ngo run ./integration/oracle/cmd -seed %d -keep NAME makes it small", p.Seed, d, p.Seed)
		}
		return found < 3
	})
	if err != nil {
		t.Fatal(err)
	}
}
