package apptest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/millrace/millrace/integration/devbroker"
	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/serde"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// produceAll writes many records at once.
func produceAll(t *testing.T, b *devbroker.Broker, records []*kgo.Record) {
	t.Helper()
	cl := client(t, b)
	defer cl.Close()
	if err := cl.ProduceSync(context.Background(), records...).FirstErr(); err != nil {
		t.Fatal(err)
	}
}

// B-009: there is a backlog on both inputs of a join, and all rows of the table are older. Every record finds its row, whatever the sizes of fetches and
// buffers, also when fetches fail or another input is empty.
func TestB009BacklogOnBothInputs(t *testing.T) {
	const n = 2000
	users := streams.NewTopic("users", serde.String, serde.String)
	joined := streams.NewTopic("joined", serde.String, serde.String)
	for seed := range uint64(6) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 9))
			bubble(t, func(t *testing.T, b *devbroker.Broker) {
				var records []*kgo.Record
				for i := range n {
					key := fmt.Appendf(nil, "user-%d", i)
					records = append(records, &kgo.Record{Topic: "users", Key: key, Value: []byte("name"), Timestamp: time.UnixMilli(int64(i % 10000))},
						&kgo.Record{Topic: "lines", Key: key, Value: []byte("line"), Timestamp: time.UnixMilli(int64(20000 + i))})
				}
				produceAll(t, b, records)
				if seed%2 == 0 { // fetches fail, from time to time
					breaks := rand.New(rand.NewPCG(seed, 10))
					b.Cluster().ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
						b.Cluster().KeepControl()
						if breaks.IntN(4) == 0 {
							return nil, errors.New("the connection breaks"), true
						}
						return nil, nil, false
					})
				}
				misses := atomic.Int64{}
				topology := build(t, func(sb *streams.Builder) {
					var source streams.Source[string, string] = lines
					if seed >= 3 {
						source = lines.And("empty")
					}
					sb.Stream(source).LeftJoinTable(sb.Table(users), func(l string, u string, ok bool) string {
						if !ok {
							misses.Add(1)
						}
						return l + u
					}).To(joined)
				})
				a, stop := app(t, b, topology, func(c *streams.Config) {
					c.BufferRecords = 1 + random.IntN(300)
					c.Kafka = func(role streams.ClientRole) []kgo.Opt {
						if role != streams.MainConsumer {
							return nil
						}
						return []kgo.Opt{kgo.FetchMaxPartitionBytes(int32(500 + random.IntN(20000)))}
					}
				})
				waitProcessed(t, a, 2*n)
				if m := misses.Load(); m != 0 {
					t.Errorf("%d of %d records found no row", m, n)
				}
				if err := stop(); err != nil {
					t.Error(err)
				}
			}, devbroker.Topic("users", 4), devbroker.Topic("joined", 4), devbroker.Topic("empty", 4))
		})
	}
}

// B-039: more members than tasks: all of them run, and a death among the idle ones disturbs nobody.
func TestB039MoreMembersThanTasks(t *testing.T) {
	bubble(t, func(t *testing.T, b *devbroker.Broker) {
		topology := build(t, countEach)
		var apps []*streams.App
		var stops []func() error
		for range 5 {
			a, stop := app(t, b, topology, nil)
			apps, stops = append(apps, a), append(stops, stop)
		}
		for _, a := range apps {
			await(t, a, streams.Running)
		}
		produceTo(t, b, "lines", "x")
		latest(t, b, "counts", map[string]int64{"key-0001": 1})
		for i, a := range apps {
			tasks := 0
			for _, w := range a.Status().Workers {
				tasks += len(w.Active)
			}
			if tasks == 0 {
				if err := stops[i](); err != nil {
					t.Error(err)
				}
				break
			}
		}
		produceTo(t, b, "lines", "x")
		latest(t, b, "counts", map[string]int64{"key-0001": 2})
	})
}

// B-041: nothing but records that cannot be decoded, all of them skipped, and many more than are fetched at once: all are committed and counted.
func TestB041NothingButPoison(t *testing.T) {
	const n = 6000
	for name, topic := range map[string]streams.Topic[string, int64]{
		"value": streams.NewTopic("lines", serde.String, serde.Int64),
		"time": streams.NewTopic("lines", serde.String, serde.Int64).TimestampFrom(func(string, int64) time.Time {
			return time.UnixMilli(1)
		}),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T, b *devbroker.Broker) {
				var records []*kgo.Record
				for range n {
					records = append(records, &kgo.Record{Topic: "lines", Key: []byte("key"), Value: []byte("no number")})
				}
				produceAll(t, b, records)
				a, stop := app(t, b, build(t, func(sb *streams.Builder) { sb.Stream(topic).GroupByKey().Count("counts") }), func(c *streams.Config) {
					c.OnDecodeError, c.BufferRecords = streams.LogAndResume, 100
				})
				awaitCommitted(t, b, "app", "lines", n)
				var dropped int64
				for _, w := range a.Status().Workers {
					for _, task := range w.Active {
						for _, d := range task.Dropped {
							dropped += d
						}
					}
				}
				if dropped != n {
					t.Errorf("%d records are counted as dropped, want %d", dropped, n)
				}
				produceTo(t, b, "lines", "12345678")
				awaitCommitted(t, b, "app", "lines", n+1)
				if err := stop(); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// B-043: a panic in one instance ends it within seconds, with an error that says where. Another one takes over, and nothing is counted twice.
func TestB043PanicAndTakeOver(t *testing.T) {
	bubble(t, func(t *testing.T, b *devbroker.Broker) {
		var poisonous atomic.Bool
		topology := build(t, func(sb *streams.Builder) {
			sb.Stream(lines).Peek(func(_, v string) {
				if v == "bad" && poisonous.Load() {
					panic("boom")
				}
			}, streams.Named("taste")).GroupByKey().Count("counts", streams.NoCaching).ToStream().To(counts)
		})
		poisonous.Store(true)
		first, err := streams.New(config(t, b, exactlyOnce), topology)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- first.Run(context.Background()) }()
		await(t, first, streams.Running)
		produceTo(t, b, "lines", "good", "good", "bad", "good")
		began := time.Now()
		err = <-ended
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("it took %v until Run returned", took)
		}
		e, ok := errors.AsType[*streams.PanicError](err)
		if !ok || e.Node != "taste" || e.Origin.Topic != "lines" || e.Origin.Offset != 2 || !strings.Contains(string(e.Stack), "input_test.go") {
			t.Errorf("the error is %v", err)
		}
		poisonous.Store(false)
		second, stop := app(t, b, topology, exactlyOnce)
		await(t, second, streams.Running)
		wantEach(t, b, map[string]int64{"key-0001": 4})
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// B-047: the committed offset is no longer in the log. The reset policy of the source decides, and the new place is committed at once. F-004.
func TestB047CommittedOffsetIsGone(t *testing.T) {
	for _, c := range []struct {
		reset streams.Reset
		count int64 // in the end, with one more record; 0: an error
		at    int64 // committed before that record
	}{
		{streams.Earliest, 3 + 2 + 1, 10}, {streams.Latest, 3 + 1, 10}, {streams.FailUnset, 0, 3},
	} {
		bubble(t, func(t *testing.T, b *devbroker.Broker) {
			topology := build(t, countEach)
			dir := t.TempDir()
			a, stop := app(t, b, topology, func(cfg *streams.Config) { cfg.StateDir = dir })
			await(t, a, streams.Running)
			produceTo(t, b, "lines", "1", "2", "3")
			awaitCommitted(t, b, "app", "lines", 3)
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			produceTo(t, b, "lines", "4", "5", "6", "7", "8", "9", "10")
			deleteRecords(t, b, "lines", 2)
			log := &journal{}
			change := func(cfg *streams.Config) { cfg.Reset, cfg.StateDir, cfg.Logger = c.reset, dir, log.logger() }
			if c.count == 0 {
				err := run(t, b, topology, func(cfg *streams.Config) {
					change(cfg)
				})
				if !errors.Is(err, streams.ErrNoOffset) || !strings.Contains(err.Error(), "lines") {
					t.Errorf("the error is %v", err)
				}
				return
			}
			a, _ = app(t, b, topology, change)
			await(t, a, streams.Running)
			awaitCommitted(t, b, "app", "lines", c.at)
			produceTo(t, b, "lines", "11")
			latest(t, b, "counts", map[string]int64{"key-0001": c.count})
			if n := log.times("committed=3 start=8 end=10"); n != 1 {
				t.Errorf("said %d times, want once:\n%s", n, log.b.String())
			}
		})
	}
}

// B-047: records are deleted under a running app before it has read them. It goes on with those that are left, and never stands still.
func TestB047RecordsAreDeletedUnderTheApp(t *testing.T) {
	bubble(t, func(t *testing.T, b *devbroker.Broker) {
		var records []*kgo.Record
		for i := range 300 {
			records = append(records, &kgo.Record{Topic: "lines", Key: []byte("key-0001"), Value: fmt.Appendf(nil, "%d %s", i, strings.Repeat("x", 20000))})
		}
		for _, r := range records { // each in a batch of its own
			produceAll(t, b, []*kgo.Record{r})
		}
		entered, open := make(chan struct{}), make(chan struct{})
		enter := sync.OnceFunc(func() { close(entered) })
		var last atomic.Value
		topology := build(t, func(sb *streams.Builder) {
			sb.Stream(lines).ForEach(func(_, v string) {
				enter()
				<-open
				last.Store(v[:strings.IndexByte(v, ' ')])
			})
		})
		log := &journal{}
		_, stop := app(t, b, topology, func(c *streams.Config) {
			c.BufferRecords, c.Logger = 1, log.logger()
			c.Kafka = func(streams.ClientRole) []kgo.Opt { return []kgo.Opt{kgo.FetchMaxPartitionBytes(50000)} }
		})
		<-entered
		<-time.After(time.Second)
		deleteRecords(t, b, "lines", 5)
		close(open)
		awaitCommitted(t, b, "app", "lines", 300)
		if last.Load() != "299" {
			t.Errorf("the last record was %v", last.Load())
		}
		if log.times("records were deleted before they were read") == 0 {
			t.Errorf("nothing is said of it:\n%s", log.b.String())
		}
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
}

// An app can be stopped at any moment, closed twice and before it runs, and runs only once. No goroutine stays; see TestMain.
func TestStartAndStop(t *testing.T) {
	bubble(t, func(t *testing.T, b *devbroker.Broker) {
		topology := build(t, countEach)
		input := startTraffic(t, b, 5*time.Millisecond)
		random := rand.New(rand.NewPCG(7, 7))
		dir := t.TempDir()
		for i := range 40 {
			a, err := streams.New(config(t, b, func(c *streams.Config) {
				c.StateDir = dir
				if i%2 == 0 {
					c.Guarantee = streams.ExactlyOnce
				}
			}), topology)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(context.Background())
			ended := make(chan error, 1)
			go func() { ended <- a.Run(ctx) }()
			<-time.After(time.Duration(random.IntN(1<<uint(random.IntN(11)))) * time.Millisecond)
			began := time.Now()
			if i%3 == 0 {
				cancel()
			} else if err := a.Close(context.Background()); err != nil {
				t.Error(err)
			}
			if err := <-ended; err != nil && !errors.Is(err, streams.ErrClosed) {
				t.Errorf("round %d: %v", i, err)
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("round %d: the stop took %v", i, took)
			}
			cancel()
			if err := a.Close(context.Background()); err != nil {
				t.Errorf("round %d: second Close: %v", i, err)
			}
			if err := a.Run(context.Background()); !errors.Is(err, streams.ErrClosed) {
				t.Errorf("round %d: second Run: %v", i, err)
			}
			if s := a.State(); s != streams.Closed && s != streams.Created {
				t.Errorf("round %d: the app is %s", i, s)
			}
		}
		input.stop()
	})
}
