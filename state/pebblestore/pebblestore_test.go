package pebblestore_test

import (
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.uber.org/goleak"

	"github.com/millrace/millrace/state"
	"github.com/millrace/millrace/state/pebblestore"
	"github.com/millrace/millrace/state/statetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func engineOn(t testing.TB, fs vfs.FS, memTable int) *pebblestore.Engine {
	e := pebblestore.New(pebblestore.Options{FS: fs, CacheBytes: 1 << 20, MemTableBytes: memTable})
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// TestConformance runs the suite on disk and on file systems that crash, with memtables so small that commits bypass them and with larger ones.
// F-158, F-161, F-164, F-166, F-167, F-186, F-188, F-191. F-162.
func TestConformance(t *testing.T) {
	t.Run("disk", func(t *testing.T) {
		statetest.Run(t, func(t testing.TB) statetest.Factory {
			return statetest.Factory{Engine: engineOn(t, vfs.Default, 0), Dir: t.TempDir(), Durable: true}
		})
	})
	for name, memTable := range map[string]int{"small memtables": 32 << 10, "large memtables": 1 << 20} {
		t.Run(name, func(t *testing.T) {
			statetest.Run(t, func(t testing.TB) statetest.Factory {
				fs := vfs.NewCrashableMem()
				return statetest.Factory{
					Engine: engineOn(t, fs, memTable), Dir: "/state/0_1", Durable: true,
					Crash: func(rng *rand.Rand) state.Engine {
						clone := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
						return engineOn(t, clone, memTable)
					},
				}
			})
		})
	}
}
