package apptest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/millrace/millrace/integration/devbroker"
	"github.com/millrace/millrace/state"
	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/serde"
	"github.com/twmb/franz-go/pkg/kgo"
)

// B-058: a real file system is full when an app writes what it kept in memory. Run returns an error that names the directory, and after space was made a restart is exact. Only root may
// mount the small file system; for others the tests of packages tasks and pebblestore stand in.
func TestB058DiskFull(t *testing.T) {
	if os.Getuid() != 0 {
		t.Log("not root: no small file system can be mounted")
		return
	}
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, "size=6m"); err != nil {
		t.Logf("no small file system can be mounted: %v", err)
		return
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	bubble(t, func(t *testing.T, b *devbroker.Broker) {
		ballast := dir + "/ballast"
		if err := os.WriteFile(ballast, make([]byte, 3<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		var records []*kgo.Record
		random := rand.NewChaCha8([32]byte{58})
		for range 400 {
			key := make([]byte, 12000)
			_, _ = random.Read(key)
			records = append(records, &kgo.Record{Topic: "lines", Key: fmt.Appendf(nil, "%x", key), Value: []byte("x")})
		}
		topology := build(t, countEach)
		change := func(c *streams.Config) { c.Guarantee, c.StateDir, c.Workers = streams.ExactlyOnce, dir, 1 }
		a, err := streams.New(config(t, b, change), topology)
		if err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- a.Run(context.Background()) }()
		await(t, a, streams.Running)
		produceAll(t, b, records)
		awaitCommitted(t, b, "app", "lines", int64(len(records))) // which is before the stores write to the disk
		if err := a.Close(context.Background()); err != nil {
			t.Error(err)
		}
		err = <-ended
		full, ok := errors.AsType[*state.FullError](err)
		if !ok || !strings.HasPrefix(full.Path, dir) {
			t.Errorf("the app ended with %v", err)
		}
		if err := syscall.Mount("none", dir, "tmpfs", syscall.MS_REMOUNT, "size=100m"); err != nil {
			t.Fatal(err)
		}
		_, stop := app(t, b, topology, change)
		wantCounts(t, b, len(records), 1)
		produceAll(t, b, records)
		awaitCommitted(t, b, "app", "lines", int64(2*len(records)))
		if err := stop(); err != nil {
			t.Error(err)
		}
		wantCounts(t, b, len(records), 2)
	})
}

// wantCounts checks that the output holds, of n keys, every count up to most exactly once and in order.
func wantCounts(t *testing.T, b *devbroker.Broker, n int, most int64) {
	t.Helper()
	cl := client(t, b, kgo.ConsumeTopics("counts"), kgo.FetchIsolationLevel(kgo.ReadCommitted()), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	defer cl.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	last := map[string]int64{}
	for left := int64(n) * most; left > 0; {
		fetches := cl.PollFetches(ctx)
		if err := fetches.Err(); err != nil {
			t.Fatalf("%d results are missing: %v", left, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			got, err := serde.Int64.Decode(serde.Place{}, r.Value)
			if key := string(r.Key); err != nil || got != last[key]+1 {
				t.Errorf("%s: %d follows %d (%v)", key[:8], got, last[key], err)
			}
			last[string(r.Key)] = got
			left--
		})
	}
}
