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
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/millrace/millrace/integration/devbroker"
	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/serde"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
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

func main() {
	brokers := flag.String("brokers", "", "host:port of a Kafka, several with commas; empty: a broker inside this process")
	appID := flag.String("app-id", "wordcount", "application id; processes with the same one share the work")
	stateDir := flag.String("state-dir", "", "where the counts are kept; one directory for each process (default: a new temporary one)")
	exactly := flag.Bool("exactly-once", false, "commit results, offsets and state in one transaction")
	partitions := flag.Int("partitions", 4, "partitions of the topics, if they have to be created")
	verbose := flag.Bool("v", false, "log to standard error")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *brokers, *appID, *stateDir, *exactly, *partitions, *verbose); err != nil {
		fmt.Fprintln(os.Stderr, "wordcount:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, brokers, appID, stateDir string, exactly bool, partitions int, verbose bool) error {
	began := time.Now()
	addresses := strings.Split(brokers, ",")
	if brokers == "" {
		b, err := devbroker.Start()
		if err != nil {
			return err
		}
		defer b.Close()
		addresses = b.Addrs()
		fmt.Printf("a broker runs inside this process, at %s\n", strings.Join(addresses, ","))
	}
	if stateDir == "" {
		dir, err := os.MkdirTemp("", "wordcount-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		stateDir = filepath.Join(dir, "state")
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(addresses...), kgo.ClientID("wordcount-input"))
	if err != nil {
		return err
	}
	defer cl.Close()

	topology, err := wordCount()
	if err != nil {
		return err
	}
	cfg := streams.Config{
		ApplicationID: appID, Brokers: addresses, StateDir: stateDir, CommitInterval: 200 * time.Millisecond, ConnectTimeout: 10 * time.Second,
	}
	if exactly {
		cfg.Guarantee = streams.ExactlyOnce
	}
	if verbose {
		cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	app, err := streams.New(cfg, topology)
	if err != nil {
		return err
	}
	if err := prepare(ctx, cl, partitions); err != nil {
		return err
	}
	runCtx, stopApp := context.WithCancel(context.Background())
	defer stopApp()
	ended := make(chan error, 1)
	go func() { ended <- app.Run(runCtx) }()
	if err := whileRunning(ctx, ended, func(ctx context.Context) error { return app.Wait(ctx, streams.Running) }); err != nil {
		return err
	}

	w, err := newWatch(addresses, began)
	if err != nil {
		return err
	}
	watching, stopWatch := context.WithCancel(context.Background())
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		w.run(watching)
	}()
	err = whileRunning(ctx, ended, func(ctx context.Context) error { return feed(ctx, cl, os.Stdin) })
	if err == nil {
		err = whileRunning(ctx, ended, func(ctx context.Context) error { return caughtUp(ctx, cl, appID) })
	}
	if err == nil || errors.Is(err, context.Canceled) {
		stopApp() // commits, closes the state and leaves the group
		err = <-ended
	}
	if err == nil {
		w.drain(cl)
	}
	stopWatch()
	<-watched
	w.close()
	if err == nil {
		w.summary()
	}
	return err
}

// whileRunning calls f and ends it if the app ends before. Ctrl-C is context.Canceled.
func whileRunning(ctx context.Context, ended chan error, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	select {
	case err := <-done:
		return err
	case err := <-ended:
		if err == nil {
			err = errors.New("the application ended by itself")
		}
		return err
	}
}

// prepare creates the topics where they are missing, and sends the text if the input is empty.
func prepare(ctx context.Context, cl *kgo.Client, partitions int) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	adm := kadm.NewClient(cl)
	created, err := adm.CreateTopics(ctx, int32(partitions), -1, nil, lines.Name(), counts.Name())
	if err != nil {
		return fmt.Errorf("no broker answers at %v: %w", cl.OptValue(kgo.SeedBrokers), err)
	}
	for _, t := range created {
		if t.Err != nil && !errors.Is(t.Err, kerr.TopicAlreadyExists) {
			return fmt.Errorf("create topic %s: %w", t.Topic, t.Err)
		}
	}
	ends, err := adm.ListEndOffsets(ctx, lines.Name())
	if err = cmp.Or(err, ends.Error()); err != nil {
		return err
	}
	var n int64
	ends.Each(func(o kadm.ListedOffset) { n += o.Offset })
	if n > 0 {
		return nil
	}
	var records []*kgo.Record
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			records = append(records, record(line))
		}
	}
	return cl.ProduceSync(ctx, records...).FirstErr()
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

// caughtUp waits until the group has committed the end of the input and of the topic between the two steps of the program.
func caughtUp(ctx context.Context, cl *kgo.Client, group string) error {
	adm := kadm.NewClient(cl)
	for _, topic := range []string{lines.Name(), group + "-counts-repartition"} {
		for {
			behind, err := lag(ctx, adm, group, topic)
			if err != nil {
				return err
			}
			if behind == 0 {
				break
			}
			select {
			case <-time.After(50 * time.Millisecond):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	}
	return nil
}

// lag is how many records of a topic the group has not committed yet.
func lag(ctx context.Context, adm *kadm.Client, group, topic string) (n int64, err error) {
	ends, err := adm.ListEndOffsets(ctx, topic)
	if err = cmp.Or(err, ends.Error()); err != nil {
		return 0, err
	}
	if len(ends[topic]) == 0 {
		return 1, nil // not known to this client yet
	}
	committed, err := adm.FetchOffsets(ctx, group)
	if err != nil {
		return 0, err
	}
	ends.Each(func(o kadm.ListedOffset) {
		n += o.Offset
		if c, ok := committed.Lookup(o.Topic, o.Partition); ok && c.At > 0 {
			n -= c.At
		}
	})
	return n, nil
}

// watch reads the counts as they change, and shows them.
type watch struct {
	cl      *kgo.Client
	began   time.Time
	first   time.Duration
	latest  map[string]int64
	updates int
	ask     chan drain
}

// drain asks the watch to read on until it has seen the ends of the partitions.
type drain struct {
	ends map[int32]int64
	done chan struct{}
}

func newWatch(addresses []string, began time.Time) (*watch, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addresses...), kgo.ConsumeTopics(counts.Name()), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.KeepControlRecords(), kgo.ClientID("wordcount-watch"))
	if err != nil {
		return nil, err
	}
	return &watch{cl: cl, began: began, latest: map[string]int64{}, ask: make(chan drain)}, nil
}

func (w *watch) close() { w.cl.Close() }

func (w *watch) run(ctx context.Context) {
	position := map[int32]int64{}
	var waiting *drain
	fetched := make(chan kgo.Fetches)
	go func() {
		defer close(fetched)
		for ctx.Err() == nil {
			f := w.cl.PollFetches(ctx)
			select {
			case fetched <- f:
			case <-ctx.Done():
			}
		}
	}()
	for {
		if waiting != nil && reached(position, waiting.ends) {
			close(waiting.done)
			waiting = nil
		}
		select {
		case f := <-fetched:
			f.EachRecord(func(r *kgo.Record) {
				position[r.Partition] = r.Offset + 1
				if !r.Attrs.IsControl() {
					w.show(r)
				}
			})
		case d := <-w.ask:
			waiting = &d
		case <-ctx.Done():
			return
		}
	}
}

func reached(position, ends map[int32]int64) bool {
	for p, end := range ends {
		if position[p] < end {
			return false
		}
	}
	return true
}

func (w *watch) show(r *kgo.Record) {
	n, err := serde.Int64.Decode(serde.Place{Topic: r.Topic}, r.Value)
	if err != nil {
		return
	}
	if w.updates == 0 {
		w.first = time.Since(w.began)
	}
	w.updates++
	w.latest[string(r.Key)] = n
	fmt.Printf("%-20s %6d\n", r.Key, n)
}

// drain waits until everything that was written has been shown.
func (w *watch) drain(cl *kgo.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	listed, err := kadm.NewClient(cl).ListCommittedOffsets(ctx, counts.Name())
	if err != nil {
		return
	}
	d := drain{map[int32]int64{}, make(chan struct{})}
	listed.Each(func(o kadm.ListedOffset) { d.ends[o.Partition] = o.Offset })
	select {
	case w.ask <- d:
	case <-ctx.Done():
		return
	}
	select {
	case <-d.done:
	case <-ctx.Done():
	}
}

// summary shows the most frequent words.
func (w *watch) summary() {
	type entry struct {
		word string
		n    int64
	}
	var list []entry
	total := int64(0)
	for word, n := range w.latest {
		list = append(list, entry{word, n})
		total += n
	}
	slices.SortFunc(list, func(a, b entry) int { return cmp.Or(cmp.Compare(b.n, a.n), cmp.Compare(a.word, b.word)) })
	fmt.Printf("\n%d words, %d different, %d updates, first result after %.1f s\n\nmost frequent:\n", total, len(list), w.updates, w.first.Seconds())
	for _, e := range list[:min(10, len(list))] {
		fmt.Printf("%6d  %s\n", e.n, e.word)
	}
}
