package streamstest_test

import (
	"errors"
	"fmt"
	"log"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/streams/streamstest"
)

// counting is the word count of these examples.
func counting() *streams.Topology {
	b := streams.NewBuilder()
	b.Stream(lines).
		FlatMapValues(strings.Fields).
		GroupBy(func(_, word string) string { return word }).
		Count("counts").
		ToStream().
		To(counts)
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	return topology
}

// Words meet in the partition that their bytes say, so the order of results over partitions is not that of the words.
func ExampleRun() {
	err := streamstest.Run(counting(), func(d *streamstest.Driver) {
		in, out := d.Input(lines), d.Output(counts)
		in.PipeValues("to be or not to be")
		for _, r := range out.ReadAll() {
			fmt.Println(r.Key, r.Value)
		}
	}, streamstest.Partitions("lines", 3))
	fmt.Println(err)
	// Output:
	// to 1
	// or 1
	// to 2
	// be 1
	// not 1
	// be 2
	// <nil>
}

// Without a commit in between, a cache sends the last of several updates.
func ExampleCommitEvery() {
	err := streamstest.Run(counting(), func(d *streamstest.Driver) {
		out := d.Output(counts)
		d.Input(lines).PipeValues("to be or not to be")
		fmt.Println(out.Empty())
		d.Commit()
		fmt.Println(streamstest.Latest(out), len(d.Output(counts).ReadAll()))
	}, streamstest.CommitEvery(0))
	fmt.Println(err)
	// Output:
	// true
	// map[be:2 not:1 or:1 to:2] 4
	// <nil>
}

// Inputs keep time: the first record is at noon, each further one a minute later.
func ExampleInput_AutoAdvance() {
	b := streams.NewBuilder()
	b.Stream(lines).To(result)
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	err = streamstest.Run(topology, func(d *streamstest.Driver) {
		in := d.Input(lines).At(time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)).AutoAdvance(time.Minute)
		in.Pipe("hamlet", "to be")
		in.PipeNull("hamlet")
		in.PipeRecords(in.Record("hamlet", "or not").WithHeader("act", []byte("3")))
		for _, r := range d.Output(result).ReadAll() {
			act, _ := r.Headers.Last("act")
			fmt.Printf("%s %q %t %q\n", r.Timestamp.Format("15:04"), r.Value, r.NullValue, act)
		}
	})
	fmt.Println(err)
	// Output:
	// 12:00 "to be" false ""
	// 12:01 "" true ""
	// 12:02 "or not" false "3"
	// <nil>
}

// Stores come back from their changelogs when the state directory is lost.
func ExampleDriver_Restart() {
	err := streamstest.Run(counting(), func(d *streamstest.Driver) {
		in, out := d.Input(lines), d.Output(counts)
		in.PipeValues("to be")
		d.Restart(streamstest.StateLost)
		in.PipeValues("be")
		fmt.Println(streamstest.Latest(out))
	})
	fmt.Println(err)
	// Output:
	// map[be:2 to:1]
	// <nil>
}

// Exactly once: what was not committed when the process died is as if it had never been, and is done again.
func ExampleDriver_Crash() {
	err := streamstest.Run(counting(), func(d *streamstest.Driver) {
		in, out := d.Input(lines), d.Output(counts)
		in.PipeValues("be")
		d.Commit()
		in.PipeValues("be")
		d.Crash()
		d.Commit()
		for _, r := range out.ReadAll() {
			fmt.Println(r.Key, r.Value)
		}
	}, streamstest.CommitEvery(0), streamstest.WithConfig(streams.Config{Guarantee: streams.ExactlyOnce}))
	fmt.Println(err)
	// Output:
	// be 1
	// be 2
	// <nil>
}

// A commit that fails stops the topology; started again, it goes on from the last commit.
func ExampleDriver_FailCommit() {
	err := streamstest.Run(counting(), func(d *streamstest.Driver) {
		in := d.Input(lines)
		d.FailCommit(errors.New("the broker is gone"))
		in.PipeValues("be")
		fmt.Println(d.Err())
		d.Restart()
		fmt.Println(d.Err(), streamstest.Latest(d.Output(counts)))
	}, streamstest.WithConfig(streams.Config{Guarantee: streams.ExactlyOnce}))
	fmt.Println(err)
	// Output:
	// commit: the broker is gone
	// <nil> map[be:1]
	// <nil>
}

// A store is one, over however many partitions.
func ExampleDriver_Store() {
	err := streamstest.Run(counting(), func(d *streamstest.Driver) {
		d.Input(lines).PipeValues("to be or not to be")
		store := d.Store(streams.NewKeyValueStore("counts", serde.String, serde.Int64))
		for word, n := range store.Range(streams.Key("n"), streams.Key("to")) {
			fmt.Println(word, n)
		}
	}, streamstest.Partitions("lines", 4))
	fmt.Println(err)
	// Output:
	// not 1
	// or 1
	// to 2
	// <nil>
}

// What a failed Expect shows.
func ExampleDiff() {
	rec := func(word string, n int64) streams.Record[string, int64] {
		return streams.Record[string, int64]{Key: word, Value: n}
	}
	want := []streams.Record[string, int64]{rec("to", 1), rec("be", 1), rec("to", 2)}
	got := []streams.Record[string, int64]{rec("to", 1), rec("be", 2), rec("or", 1), rec("to", 2)}
	fmt.Print(streamstest.Diff(want, got))
	// Output:
	//   expected  got
	//   "to" 1    "to" 1
	// ! "be" 1    "be" 2
	// +           "or" 1
	//   "to" 2    "to" 2
}

// The test that the README shows.
func TestCounting(t *testing.T) {
	d := streamstest.New(t, counting(), streamstest.Partitions("lines", 3))
	in, out := d.Input(lines), d.Output(counts)
	in.PipeValues("to be or not to be")
	if got := streamstest.Latest(out)["be"]; got != 2 {
		t.Errorf("be: %d", got)
	}
	d.Restart(streamstest.StateLost) // as on another machine: stores come back from their changelogs
	in.PipeValues("be")
	out.Expect(streams.Record[string, int64]{Key: "be", Value: 3})
}
