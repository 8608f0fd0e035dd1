package state

import (
	"math"
	"testing"
	"time"

	"github.com/millrace/millrace/topology"
)

// TestHitsAllocateNothing is the allocation budget of the record path.
func TestHitsAllocateNothing(t *testing.T) {
	for _, caching := range []bool{false, true} {
		s := openMemory(t,
			topology.Store{Name: "kv", Timestamped: true, Caching: caching},
			topology.Store{Name: "w", Kind: topology.WindowStore, Retention: time.Hour, Caching: caching},
			topology.Store{Name: "ss", Kind: topology.SessionStore, Retention: time.Hour, Caching: caching})
		kv, _ := s.KeyValue("kv")
		ws, _ := s.Window("w")
		ss, _ := s.Session("ss")
		key, value := []byte("the key"), []byte("12345678")
		for what, op := range map[string]func() error{
			"key-value": func() error {
				if _, _, _, err := kv.Get(key); err != nil {
					return err
				}
				return kv.Put(key, value, 1, nil)
			},
			"window": func() error {
				if _, _, _, err := ws.Get(key, 5000); err != nil {
					return err
				}
				return ws.Put(key, value, 5000, 1, nil)
			},
			"fetch": func() error {
				it := ws.Fetch(key, 0, math.MaxInt64, false)
				for it.Next() {
					value[0]++
				}
				return it.Close()
			},
			"session": func() error {
				it := ss.Find(key, 0, 9000, false)
				for it.Next() {
					value[0]++
				}
				if err := it.Close(); err != nil {
					return err
				}
				return ss.Put(key, value, 1, 9000, 1, nil)
			},
		} {
			for range 10 {
				if err := op(); err != nil {
					t.Fatal(err)
				}
			}
			if n := testing.AllocsPerRun(1000, func() {
				if err := op(); err != nil {
					t.Error(err)
				}
			}); n != 0 {
				t.Errorf("%s, caching %v: %v allocations", what, caching, n)
			}
		}
	}
}
