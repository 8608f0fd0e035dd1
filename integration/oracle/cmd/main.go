// Command cmd runs random programs on Millrace and on Java Kafka Streams, and prints what differs: as the smallest program that shows it, in Go and in Java.
//
//	go run ./integration/oracle/cmd -n 10000            many programs
//	go run ./integration/oracle/cmd -seed 7 -show       one, in full
//	go run ./integration/oracle/cmd -case f.json -show  a program or a case of the corpus
//	go run ./integration/oracle/cmd -seed 7 -keep name -about "what it shows"
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"time"

	"github.com/millrace/millrace/integration/oracle"
)

var (
	count   = flag.Int("n", 1000, "number of programs")
	seed    = flag.Uint64("seed", uint64(time.Now().UnixNano()), "seed of the first program; the others follow")
	threads = flag.Int("threads", runtime.NumCPU(), "programs at once")
	most    = flag.Int("most", 10, "stop after so many differences")
	show    = flag.Bool("show", false, "print the one program, and what comes out if it differs")
	file    = flag.String("case", "", "run a program or a case of the corpus from a file")
	keep    = flag.String("keep", "", "shrink the one program and write it to the corpus under this name; without a difference as it is")
	about   = flag.String("about", "", "what the kept case shows")
	record  = flag.String("record", "", "write the programs and what Java makes of them to a file instead of comparing")
	against = flag.String("against", "", "compare with a file that -record has written; needs no Java")
	corpus  = flag.String("corpus", "integration/oracle/corpus", "folder of the corpus")
)

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) (err error) {
	if *against != "" {
		return compare(ctx)
	}
	java, err := oracle.StartJava(ctx, *threads)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, java.Close()) }()
	if *show || *keep != "" || *file != "" {
		return one(java)
	}
	if *record != "" {
		f, err := os.Create(*record)
		if err != nil {
			return err
		}
		var programs []*oracle.Program
		for i := range *count {
			programs = append(programs, oracle.Generate(*seed+uint64(i)))
		}
		return errors.Join(oracle.WriteRecording(ctx, java, programs, *threads, f), f.Close())
	}
	begin := time.Now()
	fmt.Printf("seeds %d to %d\n", *seed, *seed+uint64(*count)-1)
	found := 0
	cover := oracle.Coverage{}
	err = oracle.Check(ctx, java, *seed, *count, *threads, func(p *oracle.Program, d *oracle.Difference) bool {
		cover.Add(p)
		if d != nil {
			found++
			fmt.Printf("\nseed %d: %s\n", p.Seed, d.Short())
		}
		return found < *most
	})
	cover.Print(os.Stdout)
	fmt.Printf("%d programs, %d differences, %v\n", cover.Programs, found, time.Since(begin).Round(time.Millisecond))
	if err == nil && found > 0 {
		err = fmt.Errorf("oracle: %d programs differ", found)
	}
	return err
}

// compare runs the programs of a recording.
func compare(ctx context.Context) error {
	f, err := os.Open(*against)
	if err != nil {
		return err
	}
	defer f.Close()
	all, err := oracle.ReadRecording(f)
	if err != nil {
		return err
	}
	programs, found := 0, 0
	err = oracle.Against(ctx, all, *threads, func(p *oracle.Program, d *oracle.Difference) bool {
		programs++
		if d != nil {
			found++
			fmt.Printf("seed %d: %s\n", p.Seed, d.Short())
		}
		return found < *most
	})
	fmt.Printf("%d programs, %d differences\n", programs, found)
	if err == nil && found > 0 {
		err = fmt.Errorf("oracle: %d programs differ", found)
	}
	return err
}

// one runs one program, and shrinks it if it differs.
func one(java *oracle.Java) error {
	p := oracle.Generate(*seed)
	if *file != "" {
		data, err := os.ReadFile(*file)
		if err != nil {
			return err
		}
		c := &oracle.Case{}
		if err := json.Unmarshal(data, c); err != nil {
			return err
		}
		if p = c.Program; p == nil {
			p = &oracle.Program{}
			if err := json.Unmarshal(data, p); err != nil {
				return err
			}
		}
	}
	result, d, err := oracle.Differ(java, p)
	if err != nil {
		return err
	}
	if d != nil && !*show {
		p = oracle.Shrink(p, func(p *oracle.Program) bool {
			_, small, err := oracle.Differ(java, p)
			return err == nil && small != nil && small.What == d.What
		})
		if result, d, err = oracle.Differ(java, p); err != nil {
			return err
		}
	}
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	fmt.Printf("%s\n\n--- Go\n%s\n--- Java\n%s\n", text, oracle.GoSource(p), oracle.JavaSource(p))
	for i, e := range p.Input {
		fmt.Println(i, e)
	}
	if d == nil {
		fmt.Println("no difference")
	} else {
		fmt.Println(d)
	}
	if *keep == "" {
		return nil
	}
	return (&oracle.Case{Name: *keep, About: *about, Program: p, Java: result}).Write(*corpus)
}
