package apptest

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/integration/devbroker"
	"github.com/millrace/millrace/state"
	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/streams/window"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

var rewrite = flag.Bool("rewrite", false, "write testdata/messages.txt anew")

// message is a failure that a newcomer meets.
type message struct {
	title string
	opts  []devbroker.Option
	// run makes it happen and returns what App.Run returned.
	run func(t *testing.T, b *devbroker.Broker) error
	is  error            // the error that a program looks for
	as  func(error) bool // or what it looks like
	in  time.Duration    // bounds it
}

// Every failure that a newcomer meets ends in an error of App.Run that says what to do, and never in silence. The texts are in testdata/messages.txt, to be
// read there. B-022 (a directory in use), B-049 (partitions of an internal topic), B-050 (a store of another shape) are among them. F-184.
func TestMessages(t *testing.T) {
	numbers := streams.NewTopic("lines", serde.Int64, serde.Int64)
	table := []message{
		{
			title: "an empty configuration",
			run: func(t *testing.T, _ *devbroker.Broker) error {
				_, err := streams.New(streams.Config{}, wordCount(t))
				return err
			},
		},
		{
			title: "no broker at the address",
			run: func(t *testing.T, b *devbroker.Broker) error {
				return run(t, b, wordCount(t), func(c *streams.Config) {
					c.Brokers, c.ConnectTimeout = []string{"localhost:9092"}, 5*time.Second
					c.Dial = func(_ context.Context, network, address string) (net.Conn, error) {
						return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("connect: connection refused")}
					}
				})
			},
			is: streams.ErrNoBroker, in: 6 * time.Second,
		},
		{
			title: "a broker that takes connections and never answers",
			run: func(t *testing.T, b *devbroker.Broker) error {
				return run(t, b, wordCount(t), func(c *streams.Config) {
					c.Brokers, c.ConnectTimeout = []string{"localhost:9092"}, 5*time.Second
					c.Dial = func(context.Context, string, string) (net.Conn, error) {
						ours, theirs := net.Pipe()
						t.Cleanup(func() { theirs.Close() })
						return ours, nil
					}
				})
			},
			is: streams.ErrNoBroker, in: 6 * time.Second,
		},
		{
			title: "brokers that do not know streams groups",
			opts:  []devbroker.Option{devbroker.WithoutStreamsGroups()},
			run:   func(t *testing.T, b *devbroker.Broker) error { return run(t, b, wordCount(t), nil) },
			is:    streams.ErrNoStreamsGroups, in: time.Second,
		},
		{
			title: "brokers that know streams groups and have them switched off",
			run: func(t *testing.T, b *devbroker.Broker) error {
				b.FailHeartbeats("app", 1000, kerr.UnsupportedVersion)
				return run(t, b, wordCount(t), nil)
			},
			is: streams.ErrNoStreamsGroups, in: time.Minute,
		},
		{
			title: "a source topic that does not exist",
			run: func(t *testing.T, b *devbroker.Broker) error {
				return run(t, b, build(t, func(sb *streams.Builder) {
					sb.Stream(streams.NewTopic("liens", serde.String, serde.String)).To(streams.NewTopic("out", serde.String, serde.String))
				}), nil)
			},
			is: streams.ErrMissingSourceTopic, in: time.Minute,
		},
		{
			title: "an output topic that does not exist",
			run: func(t *testing.T, b *devbroker.Broker) error {
				produceTo(t, b, "lines", "a line")
				return run(t, b, build(t, func(sb *streams.Builder) {
					sb.Stream(lines).To(streams.NewTopic("lnies", serde.String, serde.String))
				}), nil)
			},
			in: time.Minute,
		},
		{
			title: "a changelog that exists with another number of partitions",
			run: func(t *testing.T, b *devbroker.Broker) error {
				if err := b.CreateTopic("app-counts-changelog", 3, nil); err != nil {
					t.Fatal(err)
				}
				return run(t, b, build(t, countLines), nil)
			},
			is: streams.ErrPartitionCount, in: time.Minute,
		},
		{
			title: "inputs of a join with different numbers of partitions",
			run: func(t *testing.T, b *devbroker.Broker) error {
				if err := b.CreateTopic("users", 3, nil); err != nil {
					t.Fatal(err)
				}
				return run(t, b, build(t, func(sb *streams.Builder) {
					users := sb.Table(streams.NewTopic("users", serde.String, serde.String))
					sb.Stream(lines).JoinTable(users, func(l, u string) string { return l + u }).To(streams.NewTopic("counts", serde.String, serde.String))
				}), nil)
			},
			is: streams.ErrPartitionCount, in: time.Minute,
		},
		{
			title: "more replicas of internal topics than brokers",
			run: func(t *testing.T, b *devbroker.Broker) error {
				return run(t, b, wordCount(t), func(c *streams.Config) { c.ReplicationFactor = 3 })
			},
			is: streams.ErrInternalTopic, in: 2 * time.Minute,
		},
		{
			title: "a group that runs another topology",
			run: func(t *testing.T, b *devbroker.Broker) error {
				a, _ := app(t, b, wordCount(t), nil)
				await(t, a, streams.Running)
				return run(t, b, build(t, func(sb *streams.Builder) { sb.Stream(lines).GroupByKey().Count("other") }), nil)
			},
			is: streams.ErrTopologyDiffers, in: time.Minute,
		},
		{
			title: "an application id that is the id of a consumer group",
			run: func(t *testing.T, b *devbroker.Broker) error {
				consumer := client(t, b, kgo.ConsumerGroup("app"), kgo.ConsumeTopics("lines"))
				defer consumer.Close()
				ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
				consumer.PollFetches(ctx)
				cancel()
				return run(t, b, wordCount(t), nil)
			},
			is: streams.ErrGroupType, in: 2 * time.Minute,
		},
		{
			title: "an instance id that another process has",
			run: func(t *testing.T, b *devbroker.Broker) error {
				a, _ := app(t, b, wordCount(t), func(c *streams.Config) { c.InstanceID = "shop-1" })
				await(t, a, streams.Running)
				return run(t, b, wordCount(t), func(c *streams.Config) { c.InstanceID = "shop-1" })
			},
			is: streams.ErrInstanceID, in: 2 * time.Minute,
		},
		{
			title: "a record that cannot be decoded",
			run: func(t *testing.T, b *devbroker.Broker) error {
				produceTo(t, b, "lines", "12345678", "no number")
				err := run(t, b, build(t, func(sb *streams.Builder) { sb.Stream(numbers).GroupByKey().Count("counts", streams.InMemory) }), nil)
				if at := committed(t, b, "app")["lines"]; at > 1 {
					t.Errorf("offset %d is committed, which is after the record that failed", at)
				}
				return err
			},
			as: func(err error) bool {
				e, ok := errors.AsType[*streams.RecordError](err)
				return ok && e.Stage == streams.DecodeValue && e.Origin.Topic == "lines" && e.Origin.Offset == 1
			},
			in: time.Minute,
		},
		{
			title: "a record from before 1970",
			run: func(t *testing.T, b *devbroker.Broker) error {
				produceTo(t, b, "lines", "a line")
				never := lines.TimestampFrom(func(string, string) time.Time { return time.Time{} })
				return run(t, b, build(t, func(sb *streams.Builder) { sb.Stream(never).GroupByKey().Count("counts") }), nil)
			},
			as: func(err error) bool { _, ok := errors.AsType[*streams.RecordError](err); return ok }, in: time.Minute,
		},
		{
			title: "a panic",
			run: func(t *testing.T, b *devbroker.Broker) error {
				produceTo(t, b, "lines", "a line")
				return run(t, b, build(t, func(sb *streams.Builder) {
					sb.Stream(lines).MapValues(func(v string) string { return v[:100] }, streams.Named("shorten")).To(streams.NewTopic("counts", serde.String, serde.String))
				}), nil)
			},
			as: func(err error) bool {
				e, ok := errors.AsType[*streams.PanicError](err)
				return ok && e.Node == "shorten" && e.Origin.Topic == "lines" && bytes.Contains(e.Stack, []byte("messages_test.go"))
			},
			in: time.Minute,
		},
		{
			title: "no committed offset where one is demanded",
			run: func(t *testing.T, b *devbroker.Broker) error {
				return run(t, b, wordCount(t), func(c *streams.Config) { c.Reset = streams.FailUnset })
			},
			is: streams.ErrNoOffset, in: time.Minute,
		},
		{
			title: "a state directory that another process uses",
			run: func(t *testing.T, b *devbroker.Broker) error {
				dir := t.TempDir()
				a, _ := app(t, b, wordCount(t), func(c *streams.Config) { c.StateDir = dir })
				await(t, a, streams.Running)
				err := run(t, b, wordCount(t), func(c *streams.Config) { c.StateDir = dir })
				if a.State() != streams.Running {
					t.Errorf("the first app is %s", a.State())
				}
				return err
			},
			as: func(err error) bool {
				e, ok := errors.AsType[*state.LockedError](err)
				return ok && e.PID == os.Getpid()
			}, in: time.Second,
		},
		{
			title: "a state directory that cannot be made",
			run: func(t *testing.T, b *devbroker.Broker) error {
				file := filepath.Join(t.TempDir(), "file")
				if err := os.WriteFile(file, []byte("not a directory"), 0o600); err != nil {
					t.Fatal(err)
				}
				return run(t, b, wordCount(t), func(c *streams.Config) { c.StateDir = filepath.Join(file, "state") })
			},
			in: time.Second,
		},
		{
			title: "a state directory that another application wrote",
			run: func(t *testing.T, b *devbroker.Broker) error {
				dir := t.TempDir()
				stateOf(t, b, dir, build(t, countLines))
				if err := os.Rename(filepath.Join(dir, "app"), filepath.Join(dir, "other")); err != nil {
					t.Fatal(err)
				}
				return run(t, b, build(t, countLines), func(c *streams.Config) { c.ApplicationID, c.StateDir = "other", dir })
			},
			as: func(err error) bool { _, ok := errors.AsType[*state.ForeignError](err); return ok }, in: time.Minute,
		},
		{
			title: "a store that had another shape in the last version",
			run: func(t *testing.T, b *devbroker.Broker) error {
				dir := t.TempDir()
				stateOf(t, b, dir, build(t, countLines))
				adm := kadm.NewClient(client(t, b))
				defer adm.Close()
				if _, err := adm.DeleteGroup(context.Background(), "app"); err != nil {
					t.Fatal(err)
				}
				return run(t, b, build(t, func(sb *streams.Builder) {
					sb.Stream(lines).GroupByKey().WindowedBy(window.Tumbling(time.Minute)).Count("counts")
				}), func(c *streams.Config) { c.StateDir = dir })
			},
			as: func(err error) bool { _, ok := errors.AsType[*state.ForeignError](err); return ok }, in: time.Minute,
		},
	}
	var text strings.Builder
	seen := 0
	for _, m := range table {
		var err error
		t.Run(m.title, func(t *testing.T) {
			seen++
			bubble(t, func(t *testing.T, b *devbroker.Broker) {
				began := time.Now()
				err = m.run(t, b)
				if took := time.Since(began); m.in > 0 && took > m.in {
					t.Errorf("it took %v", took)
				}
			}, m.opts...)
			switch {
			case err == nil:
				t.Error("no error")
			case m.is != nil && !errors.Is(err, m.is):
				t.Errorf("%v is not in %v", m.is, err)
			case m.as != nil && !m.as(err):
				t.Errorf("not the error it should be: %#v: %v", err, err)
			}
		})
		if err != nil {
			fmt.Fprintf(&text, "# %s\n%s\n\n", m.title, cleaned(err))
		}
	}
	if seen < len(table) { // only some of the cases were asked for
		return
	}
	if t.Failed() {
		t.Logf("the texts so far:\n%s", text.String())
		return
	}
	const golden = "testdata/messages.txt"
	if *rewrite {
		if err := os.WriteFile(golden, []byte(text.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if got := text.String(); got != string(want) {
		t.Errorf("the messages have changed; read them, and run the test with -rewrite:\n%s", got)
	}
}

var volatile = []struct {
	form *regexp.Regexp
	text string
}{
	{regexp.MustCompile(`(?s)\ngoroutine .*`), "\n(stack)"},
	{regexp.MustCompile(`/\S*/TestMessages\w*/\d+/`), "/dir/"},
	{regexp.MustCompile(`pid \d+`), "pid 1234"},
	{regexp.MustCompile(`\b(\d)_\d\b`), "${1}_0"}, // whichever task was first
	{regexp.MustCompile(`partitions \[\d\]`), "partitions [0]"},
	{regexp.MustCompile(`at epoch \d+`), "at epoch 1"},
	{regexp.MustCompile(`member [-_A-Za-z0-9]{22}`), "member ID"},
}

// cleaned takes what differs from run to run out of a message.
func cleaned(err error) string {
	text := err.Error()
	for _, v := range volatile {
		text = v.form.ReplaceAllString(text, v.text)
	}
	return text
}

func build(t testing.TB, define func(*streams.Builder)) *streams.Topology {
	t.Helper()
	b := streams.NewBuilder()
	define(b)
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return topology
}

func countLines(b *streams.Builder) { b.Stream(lines).GroupByKey().Count("counts") }

// run runs an application until it ends by itself.
func run(t *testing.T, b *devbroker.Broker, topology *streams.Topology, change func(*streams.Config)) error {
	t.Helper()
	cfg := config(t, b, func(c *streams.Config) {
		c.Workers, c.Logger = 1, slog.New(slog.NewTextHandler(t.Output(), nil))
		if change != nil {
			change(c)
		}
	})
	a, err := streams.New(cfg, topology)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	err = a.Run(ctx)
	if ctx.Err() != nil {
		t.Errorf("after ten minutes the app is %s", a.State())
	}
	synctest.Wait()
	return err
}

func await(t *testing.T, a *streams.App, s streams.State) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	if err := a.Wait(ctx, s); err != nil {
		t.Fatalf("the app is %s, not %s: %v\n%+v", a.State(), s, err, a.Status())
	}
}

// stateOf runs an application for as long as it takes to have state, on a directory.
func stateOf(t *testing.T, b *devbroker.Broker, dir string, topology *streams.Topology) {
	t.Helper()
	a, stop := app(t, b, topology, func(c *streams.Config) { c.StateDir = dir })
	await(t, a, streams.Running)
	produceTo(t, b, "lines", "a line")
	waitProcessed(t, a, 1)
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

func produceTo(t *testing.T, b *devbroker.Broker, topic string, values ...string) {
	t.Helper()
	cl := client(t, b)
	defer cl.Close()
	for _, v := range values {
		r := &kgo.Record{Topic: topic, Key: []byte("key-0001"), Value: []byte(v)}
		if err := cl.ProduceSync(context.Background(), r).FirstErr(); err != nil {
			t.Fatal(err)
		}
	}
}

// committed returns the sum of the group's committed offsets by topic.
func committed(t *testing.T, b *devbroker.Broker, group string) map[string]int64 {
	t.Helper()
	adm := kadm.NewClient(client(t, b))
	defer adm.Close()
	offsets, err := adm.FetchOffsets(context.Background(), group)
	if err != nil {
		t.Fatal(err)
	}
	sums := map[string]int64{}
	offsets.Each(func(o kadm.OffsetResponse) { sums[o.Topic] += max(o.At, 0) })
	return sums
}
