// Package demo is what the examples share: a broker inside the process or one that exists, topics, something to feed the program with, and the results on
// the terminal. A program of yours needs none of it: it makes a topology, an app, and calls Run.
package demo

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/millrace/millrace/integration/devbroker"
	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/serde"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Program is an example.
type Program struct {
	Name     string // and the application id
	Topology func() (*streams.Topology, error)
	Config   func(*streams.Config) // changes what the flags say; may be nil
	Inputs   []string              // topics that must exist; the first tells whether the program was fed before
	Outputs  []Output              // likewise; they are shown
	Sample   func() ([]*kgo.Record, error)
	Feed     func(ctx context.Context, cl *kgo.Client) error // after the sample, until its input ends; nil: nothing more
	Summary  func()                                          // at the end; may be nil
}

// Options are the flags of every example.
type Options struct {
	Brokers, AppID, StateDir string
	ExactlyOnce, Verbose     bool
	Partitions               int
}

// Output is a topic whose records are shown as they come.
type Output struct {
	topic string
	show  func(r *kgo.Record) error
}

// Print shows each record of a topic with f. What does not decode ends the program.
func Print[K, V any](topic streams.Topic[K, V], f func(r streams.Record[K, V]) string) Output {
	key, value := topic.Serdes()
	return Output{topic.Name(), func(raw *kgo.Record) (err error) {
		r := streams.Record[K, V]{NullKey: raw.Key == nil, NullValue: raw.Value == nil, Timestamp: raw.Timestamp.UTC()}
		for _, h := range raw.Headers {
			r.Headers = append(r.Headers, serde.Header{Key: h.Key, Value: h.Value})
		}
		if !r.NullKey {
			r.Key, err = key.Decode(serde.Place{Topic: raw.Topic, Key: true}, raw.Key)
		}
		if err == nil && !r.NullValue {
			r.Value, err = value.Decode(serde.Place{Topic: raw.Topic}, raw.Value)
		}
		if err != nil {
			return fmt.Errorf("%s partition %d offset %d: %w", raw.Topic, raw.Partition, raw.Offset, err)
		}
		if line := f(r); line != "" {
			fmt.Println(line)
		}
		return nil
	}}
}

// Records encodes records for a topic. One without a time gets the broker's.
func Records[K, V any](topic streams.Topic[K, V], records ...streams.Record[K, V]) ([]*kgo.Record, error) {
	key, value := topic.Serdes()
	var list []*kgo.Record
	for _, r := range records {
		out := &kgo.Record{Topic: topic.Name(), Timestamp: r.Timestamp}
		var keyErr, valueErr error
		if !r.NullKey {
			out.Key, keyErr = key.Append([]byte{}, serde.Place{Topic: topic.Name(), Key: true}, r.Key)
		}
		if !r.NullValue {
			out.Value, valueErr = value.Append([]byte{}, serde.Place{Topic: topic.Name()}, r.Value)
		}
		if err := cmp.Or(keyErr, valueErr); err != nil {
			return nil, err
		}
		list = append(list, out)
	}
	return list, nil
}

// At makes a record with a time.
func At[K, V any](at time.Time, key K, value V) streams.Record[K, V] {
	return streams.Record[K, V]{Key: key, Value: value, Timestamp: at}
}

// Main runs an example as its flags say, until its input has been processed or Ctrl-C. With -brokers it runs until Ctrl-C, unless it has a Feed that ends.
func Main(p Program) {
	var o Options
	flag.StringVar(&o.Brokers, "brokers", "", "host:port of a Kafka, several with commas; empty: a broker inside this process")
	flag.StringVar(&o.AppID, "app-id", p.Name, "application id; processes with the same one share the work")
	flag.StringVar(&o.StateDir, "state-dir", "", "where state is kept; one directory for each process (default: a new temporary one)")
	flag.BoolVar(&o.ExactlyOnce, "exactly-once", false, "commit results, offsets and state in one transaction")
	flag.IntVar(&o.Partitions, "partitions", 4, "partitions of the topics, if they have to be created")
	flag.BoolVar(&o.Verbose, "v", false, "log to standard error")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := Run(ctx, p, o); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", p.Name, err)
		os.Exit(1)
	}
}

// Run is Main without flags and signals.
func Run(ctx context.Context, p Program, o Options) error {
	addresses := strings.Split(o.Brokers, ",")
	if o.Brokers == "" {
		b, err := devbroker.Start()
		if err != nil {
			return err
		}
		defer b.Close()
		addresses = b.Addrs()
		fmt.Printf("a broker runs inside this process, at %s\n", strings.Join(addresses, ","))
	}
	if o.StateDir == "" {
		dir, err := os.MkdirTemp("", p.Name+"-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		o.StateDir = filepath.Join(dir, "state")
	}
	cl, err := kgo.NewClient(kgo.SeedBrokers(addresses...), kgo.ClientID(p.Name+"-input"))
	if err != nil {
		return err
	}
	defer cl.Close()

	topology, err := p.Topology()
	if err != nil {
		return err
	}
	cfg := streams.Config{
		ApplicationID: o.AppID, Brokers: addresses, StateDir: o.StateDir, CommitInterval: 200 * time.Millisecond, ConnectTimeout: 10 * time.Second,
	}
	if o.ExactlyOnce {
		cfg.Guarantee = streams.ExactlyOnce
	}
	if o.Verbose {
		cfg.Logger = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	if p.Config != nil {
		p.Config(&cfg)
	}
	app, err := streams.New(cfg, topology)
	if err != nil {
		return err
	}
	if err := prepare(ctx, cl, p, o.Partitions); err != nil {
		return err
	}
	runCtx, stopApp := context.WithCancel(context.Background())
	defer stopApp()
	ended := make(chan error, 1)
	go func() { ended <- app.Run(runCtx) }()
	if err := whileRunning(ctx, ended, func(ctx context.Context) error { return app.Wait(ctx, streams.Running) }); err != nil {
		return err
	}

	w, err := newWatch(addresses, p)
	if err != nil {
		return err
	}
	watching, stopWatch := context.WithCancel(context.Background())
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		w.run(watching)
	}()
	err = whileRunning(ctx, ended, func(ctx context.Context) error {
		switch {
		case p.Feed != nil:
			return p.Feed(ctx, cl)
		case o.Brokers != "":
			<-ctx.Done() // records of others
			return ctx.Err()
		}
		return nil
	})
	if err == nil {
		err = whileRunning(ctx, ended, func(ctx context.Context) error { return caughtUp(ctx, cl, o.AppID, p.Inputs) })
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
	w.cl.Close()
	if err == nil {
		err = w.err
	}
	if err == nil && p.Summary != nil {
		p.Summary()
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

func (p Program) outputs() (names []string) {
	for _, o := range p.Outputs {
		names = append(names, o.topic)
	}
	return names
}

// prepare creates the topics where they are missing, and sends the sample if the first input is empty, so that a second process does not send it again.
func prepare(ctx context.Context, cl *kgo.Client, p Program, partitions int) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	adm := kadm.NewClient(cl)
	created, err := adm.CreateTopics(ctx, int32(partitions), -1, nil, append(p.outputs(), p.Inputs...)...)
	if err != nil {
		return fmt.Errorf("no broker answers at %v: %w", cl.OptValue(kgo.SeedBrokers), err)
	}
	for _, t := range created {
		if t.Err != nil && !errors.Is(t.Err, kerr.TopicAlreadyExists) {
			return fmt.Errorf("create topic %s: %w", t.Topic, t.Err)
		}
	}
	ends, err := adm.ListEndOffsets(ctx, p.Inputs[0])
	if err = cmp.Or(err, ends.Error()); err != nil {
		return err
	}
	if total(ends) > 0 {
		return nil
	}
	records, err := p.Sample()
	if err != nil {
		return err
	}
	for _, r := range records { // one after the other, so that each is later than what it follows from
		if err := cl.ProduceSync(ctx, r).FirstErr(); err != nil {
			return err
		}
	}
	return nil
}

func total(offsets kadm.ListedOffsets) (n int64) {
	offsets.Each(func(o kadm.ListedOffset) { n += o.Offset })
	return n
}

// caughtUp waits until the group has committed the end of its inputs and of the topics between its steps. As a commit of one topic can be an end of the
// next, all must be committed twice in a row, with the same ends.
func caughtUp(ctx context.Context, cl *kgo.Client, group string, inputs []string) error {
	adm := kadm.NewClient(cl)
	last := int64(-1)
	for {
		end, behind, err := lag(ctx, adm, group, inputs)
		switch {
		case err != nil:
			return err
		case behind > 0:
			last = -1
		case last == end:
			return nil
		default:
			last = end
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// lag is how many records were written to what the group reads, and how many of them it has not committed yet.
func lag(ctx context.Context, adm *kadm.Client, group string, inputs []string) (end, behind int64, err error) {
	topics, err := adm.ListTopics(ctx)
	if err != nil {
		return 0, 0, err
	}
	read := append([]string{}, inputs...)
	for _, name := range topics.Names() {
		if strings.HasPrefix(name, group+"-") && (strings.HasSuffix(name, "-repartition") || strings.HasSuffix(name, "-topic")) {
			read = append(read, name)
		}
	}
	ends, err := adm.ListEndOffsets(ctx, read...)
	if err = cmp.Or(err, ends.Error()); err != nil {
		return 0, 0, err
	}
	committed, err := adm.FetchOffsets(ctx, group)
	if err != nil {
		return 0, 0, err
	}
	ends.Each(func(o kadm.ListedOffset) {
		end, behind = end+o.Offset, behind+o.Offset
		if c, ok := committed.Lookup(o.Topic, o.Partition); ok && c.At > 0 {
			behind -= c.At
		}
	})
	return end, behind, nil
}

// watch reads the outputs as they grow, and shows them.
type watch struct {
	cl   *kgo.Client
	show map[string]func(*kgo.Record) error
	ask  chan drain
	err  error // the first record that could not be shown
}

// drain asks the watch to read on until it has seen the ends of the partitions.
type drain struct {
	ends map[at]int64
	done chan struct{}
}

type at struct {
	topic     string
	partition int32
}

func newWatch(addresses []string, p Program) (*watch, error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addresses...), kgo.ConsumeTopics(p.outputs()...), kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.KeepControlRecords(), kgo.ClientID(p.Name+"-watch"))
	if err != nil {
		return nil, err
	}
	w := &watch{cl: cl, show: map[string]func(*kgo.Record) error{}, ask: make(chan drain)}
	for _, o := range p.Outputs {
		w.show[o.topic] = o.show
	}
	return w, nil
}

func (w *watch) run(ctx context.Context) {
	position := map[at]int64{}
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
				position[at{r.Topic, r.Partition}] = r.Offset + 1
				if !r.Attrs.IsControl() {
					w.err = cmp.Or(w.err, w.show[r.Topic](r))
				}
			})
		case d := <-w.ask:
			waiting = &d
		case <-ctx.Done():
			return
		}
	}
}

func reached(position, ends map[at]int64) bool {
	for p, end := range ends {
		if position[p] < end {
			return false
		}
	}
	return true
}

// drain waits until everything that was written has been shown.
func (w *watch) drain(cl *kgo.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	var topics []string
	for topic := range w.show {
		topics = append(topics, topic)
	}
	listed, err := kadm.NewClient(cl).ListCommittedOffsets(ctx, topics...)
	if err != nil {
		return
	}
	d := drain{map[at]int64{}, make(chan struct{})}
	listed.Each(func(o kadm.ListedOffset) { d.ends[at{o.Topic, o.Partition}] = o.Offset })
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
