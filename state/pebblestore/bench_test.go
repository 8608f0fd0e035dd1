package pebblestore_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/millrace/millrace/state"
	"github.com/millrace/millrace/state/pebblestore"
	"github.com/millrace/millrace/topology"
)

var benchStore = topology.Store{Name: "counts", Timestamped: true, Caching: true}

func openBench(b *testing.B, engine state.Engine, specs ...topology.Store) *state.Stores {
	b.Helper()
	s, err := state.Open(state.Options{ApplicationID: "bench", Dir: b.TempDir(), Engine: engine, Stores: specs})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := s.Close(); err != nil {
			b.Error(err)
		}
	})
	return s
}

func newEngine(tb testing.TB) *pebblestore.Engine {
	e := pebblestore.New(pebblestore.Options{})
	tb.Cleanup(func() { _ = e.Close() })
	return e
}

// benchKey writes the i-th key, of 16 bytes, at a random place in the order.
func benchKey(key []byte, i int) {
	h := uint64(i) * 0x9e3779b97f4a7c15
	copy(key, "key-")
	const digits = "0123456789abcdef"
	for j := range 12 {
		key[4+j] = digits[h>>(60-4*j)&15]
	}
}

func count(b *testing.B, kv *state.KeyValue, key []byte, value *[8]byte) {
	v, _, ok, err := kv.Get(key)
	if err != nil {
		b.Fatal(err)
	}
	var n uint64
	if ok {
		n = binary.BigEndian.Uint64(v)
	}
	binary.BigEndian.PutUint64(value[:], n+1)
	if err := kv.Put(key, value[:], int64(n), nil); err != nil {
		b.Fatal(err)
	}
}

func mustStore(b *testing.B, s *state.Stores) *state.KeyValue {
	kv, err := s.KeyValue("counts")
	if err != nil {
		b.Fatal(err)
	}
	return kv
}

func commit(b *testing.B, s *state.Stores, offset int64) {
	if err := s.Flush(); err != nil {
		b.Fatal(err)
	}
	err := s.Commit(state.CommitPoint{
		InputOffsets:     map[state.TopicPartition]int64{{Topic: "in"}: offset},
		ChangelogOffsets: map[string]int64{"counts": offset}, StreamTime: offset,
	})
	if err != nil {
		b.Fatal(err)
	}
}

// BenchmarkCountHit updates counters of 10 000 keys that are all in the write set.
func BenchmarkCountHit(b *testing.B) {
	s := openBench(b, newEngine(b), benchStore)
	kv := mustStore(b, s)
	key, value := make([]byte, 16), new([8]byte)
	for i := range 10_000 {
		benchKey(key, i)
		count(b, kv, key, value)
	}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		benchKey(key, i%10_000)
		count(b, kv, key, value)
		i += 7
	}
}

// BenchmarkCountMiss updates counters of random keys of 1 M in the database, and commits every 10 000.
func BenchmarkCountMiss(b *testing.B) {
	engine := newEngine(b)
	s := openBench(b, engine, benchStore)
	kv := mustStore(b, s)
	restoreKeys(b, s, 1_000_000)
	key, value := make([]byte, 16), new([8]byte)
	rng := rand.New(rand.NewPCG(1, 2))
	b.ReportAllocs()
	i := 0
	before := cpuTime()
	for b.Loop() {
		benchKey(key, rng.IntN(1_000_000))
		count(b, kv, key, value)
		if i++; i%10_000 == 0 {
			commit(b, s, int64(i))
		}
	}
	b.ReportMetric(float64((cpuTime()-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
}

func restoreKeys(b *testing.B, s *state.Stores, n int) {
	records := make([]state.RestoreRecord, 0, 5000)
	key, value := make([]byte, 16*5000), make([]byte, 8*5000)
	for i := range n {
		j := len(records)
		k, v := key[16*j:16*j+16], value[8*j:8*j+8]
		benchKey(k, i)
		binary.BigEndian.PutUint64(v, uint64(i))
		records = append(records, state.RestoreRecord{Key: k, Value: v, Timestamp: int64(i)})
		if len(records) == cap(records) || i == n-1 {
			if err := s.Restore("counts", records, int64(i+1)); err != nil {
				b.Fatal(err)
			}
			records = records[:0]
		}
	}
	if err := s.FinishRestore("counts"); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkCommit commits 100 000 updated rows of 1 M.
func BenchmarkCommit(b *testing.B) {
	for _, n := range []int{1000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s := openBench(b, newEngine(b), benchStore)
			kv := mustStore(b, s)
			restoreKeys(b, s, 1_000_000)
			key, value := make([]byte, 16), new([8]byte)
			rng := rand.New(rand.NewPCG(1, 2))
			b.ReportAllocs()
			var i int64
			var commits time.Duration
			before := cpuTime()
			for b.Loop() {
				b.StopTimer()
				for range n {
					benchKey(key, rng.IntN(1_000_000))
					if err := kv.Put(key, value[:], i, nil); err != nil {
						b.Fatal(err)
					}
				}
				i++
				b.StartTimer()
				start := time.Now()
				commit(b, s, i)
				commits += time.Since(start)
			}
			b.ReportMetric(float64(commits.Nanoseconds())/float64(b.N*n), "ns/row")
			b.ReportMetric(float64((cpuTime()-before).Nanoseconds())/float64(b.N*n), "cpu-ns/row")
		})
	}
}

// BenchmarkRestore restores 1 M records of 24 bytes.
func BenchmarkRestore(b *testing.B) {
	engine := newEngine(b)
	b.ReportAllocs()
	before := cpuTime()
	for b.Loop() {
		s := openBench(b, engine, benchStore)
		restoreKeys(b, s, 1_000_000)
	}
	b.ReportMetric(1e6*float64(b.N)/(cpuTime()-before).Seconds(), "records/cpu-s")
}
