package apptest

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/millrace/millrace/integration/devbroker"
	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/tasks"
	"github.com/twmb/franz-go/pkg/kgo"
)

func partitionOf(key string) int32 { return tasks.PartitionFor([]byte(key), 4) }

// journal keeps what an app logs.
type journal struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.b.Write(p)
}

func (j *journal) logger() *slog.Logger { return slog.New(slog.NewTextHandler(j, nil)) }

// times is how often a text was logged.
func (j *journal) times(text string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return strings.Count(j.b.String(), text)
}

// countOnce runs the counting app on a directory, over n more records, and stops it.
func countOnce(t *testing.T, b *devbroker.Broker, dir string, n int, want int64) {
	t.Helper()
	a, stop := app(t, b, build(t, countEach), func(c *streams.Config) { c.Guarantee, c.StateDir = streams.ExactlyOnce, dir })
	await(t, a, streams.Running)
	for i := range n {
		produceTo(t, b, "lines", fmt.Sprint(i))
	}
	latest(t, b, "counts", map[string]int64{"key-0001": want})
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

// B-014: all records of the changelog are gone, and so is the local state: the app runs at once, with an empty store.
func TestB014ChangelogEmptied(t *testing.T) {
	bubble(t, func(t *testing.T, b *devbroker.Broker) {
		countOnce(t, b, t.TempDir(), 5, 5)
		deleteRecords(t, b, "app-counts-changelog", 0)
		restored := &restores{}
		began := time.Now()
		a, _ := app(t, b, build(t, countEach), func(c *streams.Config) { c.Guarantee, c.Hooks = streams.ExactlyOnce, []any{restored} })
		await(t, a, streams.Running)
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("it took %v until the app ran", took)
		}
		told := false
		for _, e := range restored.done {
			told = told || e.From > 0
			if e.From != e.To || e.Restored != 0 {
				t.Errorf("%s of task %s was restored from %d to %d", e.Store, e.Task, e.From, e.To)
			}
		}
		if !told {
			t.Errorf("the emptied changelog is missing: %+v", restored.done)
		}
		produceTo(t, b, "lines", "x")
		latest(t, b, "counts", map[string]int64{"key-0001": 1})
	})
}

// B-015: the changelog begins after what the local state holds: that store is emptied, once, and restored from what is left.
func TestB015StateIsOlderThanChangelog(t *testing.T) {
	bubble(t, func(t *testing.T, b *devbroker.Broker) {
		dir, old := t.TempDir(), t.TempDir()
		countOnce(t, b, dir, 3, 3)
		if err := os.CopyFS(old, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		countOnce(t, b, dir, 10, 13)
		deleteRecords(t, b, "app-counts-changelog", 2) // the last record and its marker
		log := &journal{}
		a, _ := app(t, b, build(t, countEach), func(c *streams.Config) {
			c.Guarantee, c.StateDir, c.Logger = streams.ExactlyOnce, old, log.logger()
		})
		await(t, a, streams.Running)
		produceTo(t, b, "lines", "x")
		latest(t, b, "counts", map[string]int64{"key-0001": 14})
		if n := log.times("wiped a store"); n != 1 {
			t.Errorf("%d stores were wiped, want 1:\n%s", n, log.b.String())
		}
	})
}

// B-016: the changelog was deleted and made again with other records. The local state is of another topic, and gives way to the new one.
func TestB016ChangelogIsAnotherOne(t *testing.T) {
	bubble(t, func(t *testing.T, b *devbroker.Broker) {
		dir := t.TempDir()
		countOnce(t, b, dir, 8, 8)
		if err := b.DeleteTopic("app-counts-changelog"); err != nil {
			t.Fatal(err)
		}
		if err := b.CreateTopic("app-counts-changelog", 4, map[string]string{"cleanup.policy": "compact"}); err != nil {
			t.Fatal(err)
		}
		cl := client(t, b, kgo.RecordPartitioner(kgo.ManualPartitioner()))
		for i := range 3 {
			value := make([]byte, 16) // time and count, as a timestamped store writes them
			value[15] = byte(100 + i)
			r := &kgo.Record{Topic: "app-counts-changelog", Partition: partitionOf("key-0001"), Key: []byte("key-0001"), Value: value[8:], Timestamp: time.UnixMilli(5)}
			if err := cl.ProduceSync(context.Background(), r).FirstErr(); err != nil {
				t.Fatal(err)
			}
		}
		cl.Close()
		log := &journal{}
		a, _ := app(t, b, build(t, countEach), func(c *streams.Config) {
			c.Guarantee, c.StateDir, c.Logger = streams.ExactlyOnce, dir, log.logger()
		})
		await(t, a, streams.Running)
		produceTo(t, b, "lines", "x")
		latest(t, b, "counts", map[string]int64{"key-0001": 103})
		if n := log.times("is another topic than the one its state came from"); n == 0 {
			t.Errorf("nothing is said of it:\n%s", log.b.String())
		}
	})
}

// B-025: offsets are committed, changelog and local state are gone. Nobody can tell whether the store ever had a row, so the app runs, and says so loudly.
func TestB025StateIsGone(t *testing.T) {
	bubble(t, func(t *testing.T, b *devbroker.Broker) {
		countOnce(t, b, t.TempDir(), 3, 3)
		if err := b.DeleteTopic("app-counts-changelog"); err != nil {
			t.Fatal(err)
		}
		log := &journal{}
		a, _ := app(t, b, build(t, countEach), func(c *streams.Config) { c.Guarantee, c.Logger = streams.ExactlyOnce, log.logger() })
		await(t, a, streams.Running)
		if n := log.times("store is empty, but its input has been processed"); n != 1 {
			t.Errorf("said %d times, want once:\n%s", n, log.b.String())
		}
		if log.times("store=counts changelog=app-counts-changelog") != 1 {
			t.Errorf("store and topic are not named:\n%s", log.b.String())
		}
	})
}

// B-024: a damaged store is wiped, which is counted, and restored.
func TestB024DamagedStoreIsRestored(t *testing.T) {
	bubble(t, func(t *testing.T, b *devbroker.Broker) {
		dir := t.TempDir()
		countOnce(t, b, dir, 3, 3)
		task := fmt.Sprintf("%s/app/0_%d", dir, partitionOf("key-0001"))
		files, err := os.ReadDir(task)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if strings.HasPrefix(f.Name(), "MANIFEST") {
				if err := os.WriteFile(task+"/"+f.Name(), make([]byte, 4096), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		log := &journal{}
		a, _ := app(t, b, build(t, countEach), func(c *streams.Config) {
			c.Guarantee, c.StateDir, c.Logger = streams.ExactlyOnce, dir, log.logger()
		})
		await(t, a, streams.Running)
		produceTo(t, b, "lines", "x")
		latest(t, b, "counts", map[string]int64{"key-0001": 4})
		if n := log.times("wiped"); n != 1 || log.times(task) == 0 {
			t.Errorf("said %d times, want once with the directory:\n%s", n, log.b.String())
		}
	})
}
