// Command wordcount counts words, the program every stream processor begins with.
//
//	go run ./examples/wordcount                            # a broker inside the process, nothing to install
//	go run ./examples/wordcount -brokers localhost:9092    # any Kafka with streams groups; start it twice to share the work
//
// It reads the text that ships with it, and then lines from standard input, until that ends or Ctrl-C. Against a Kafka of yours the text is only sent when
// the input topic is empty, so that a second process does not count it again.
package main

import (
	"bufio"
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/millrace/millrace/examples/internal/demo"
	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/serde"
	"github.com/twmb/franz-go/pkg/kgo"
)

//go:embed text.txt
var text string

var (
	lines  = streams.NewTopic("wordcount-lines", serde.String, serde.String)
	counts = streams.NewTopic("wordcount-counts", serde.String, serde.Int64)
)

// wordCount is the whole topology.
func wordCount() (*streams.Topology, error) {
	b := streams.NewBuilder()
	b.Stream(lines).
		FlatMapValues(words).
		GroupBy(func(_, word string) string { return word }).
		Count("counts").
		ToStream().
		To(counts)
	return b.Build()
}

func words(line string) []string {
	return strings.FieldsFunc(strings.ToLower(line), func(r rune) bool { return !unicode.IsLetter(r) && r != '\'' })
}

func main() { demo.Main(program(newCounted(), os.Stdin)) }

// program shows the counts as they change, and at the end the most frequent words.
func program(c *counted, in *os.File) demo.Program {
	return demo.Program{
		Name:     "wordcount",
		Topology: wordCount,
		Inputs:   []string{lines.Name()},
		Outputs:  []demo.Output{demo.Print(counts, c.line)},
		Sample: func() (records []*kgo.Record, err error) {
			for line := range strings.Lines(text) {
				if line = strings.TrimSpace(line); line != "" {
					records = append(records, record(line))
				}
			}
			return records, nil
		},
		Feed:    func(ctx context.Context, cl *kgo.Client) error { return feed(ctx, cl, in) },
		Summary: c.summary,
	}
}

func record(line string) *kgo.Record {
	return &kgo.Record{Topic: lines.Name(), Value: []byte(line)}
}

// feed sends the lines of standard input until it ends.
func feed(ctx context.Context, cl *kgo.Client, in *os.File) error {
	if info, err := in.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 && info.Mode()&os.ModeDevice != 0 && in.Name() != os.DevNull {
		fmt.Println("type lines to count; Ctrl-D or Ctrl-C ends")
	}
	typed := make(chan string)
	go func() { // reading a terminal can't be interrupted, so this goroutine may outlive the program's interest in it
		defer close(typed)
		for s := bufio.NewScanner(in); s.Scan(); {
			select {
			case typed <- s.Text():
			case <-ctx.Done():
				return
			}
		}
	}()
	for {
		select {
		case line, ok := <-typed:
			if !ok {
				return nil
			}
			if err := cl.ProduceSync(ctx, record(line)).FirstErr(); err != nil {
				return err
			}
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// counted is what was counted so far.
type counted struct {
	began   time.Time
	first   time.Duration
	latest  map[string]int64
	updates int
}

func newCounted() *counted { return &counted{began: time.Now(), latest: map[string]int64{}} }

func (c *counted) line(r streams.Record[string, int64]) string {
	if c.updates == 0 {
		c.first = time.Since(c.began)
	}
	c.updates++
	c.latest[r.Key] = r.Value
	return fmt.Sprintf("%-20s %6d", r.Key, r.Value)
}

// summary shows the most frequent words.
func (c *counted) summary() {
	type entry struct {
		word string
		n    int64
	}
	var list []entry
	total := int64(0)
	for word, n := range c.latest {
		list = append(list, entry{word, n})
		total += n
	}
	slices.SortFunc(list, func(a, b entry) int { return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.word, b.word)) })
	fmt.Printf("\n%d words, %d different, %d updates, first result after %.1f s\n\nmost frequent:\n", total, len(list), c.updates, c.first.Seconds())
	for _, e := range list[:min(10, len(list))] {
		fmt.Printf("%6d  %s\n", e.n, e.word)
	}
}
