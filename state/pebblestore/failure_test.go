package pebblestore_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/millrace/millrace/state"
	"github.com/millrace/millrace/state/pebblestore"
	"github.com/millrace/millrace/topology"
)

const dir = "/state/0_1"

func openOn(t *testing.T, engine state.Engine, dir string) *state.Stores {
	t.Helper()
	s, err := state.Open(state.Options{
		ApplicationID: "app", Dir: dir, Engine: engine, Stores: []topology.Store{{Name: "s"}}, RestoreBytes: 64 << 10,
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func put(t *testing.T, s *state.Stores, key, value string) {
	t.Helper()
	kv, err := s.KeyValue("s")
	if err != nil {
		t.Fatal(err)
	}
	if err := kv.Put([]byte(key), []byte(value), 0, nil); err != nil {
		t.Fatal(err)
	}
}

func commitAt(s *state.Stores, offset int64) error {
	if err := s.Flush(); err != nil {
		return err
	}
	return s.Commit(state.CommitPoint{ChangelogOffsets: map[string]int64{"s": offset}, StreamTime: -1})
}

// offsetIn returns the number that the rows of commitRound say, and checks that all say the same.
func offsetIn(t *testing.T, s *state.Stores) int64 {
	t.Helper()
	kv, err := s.KeyValue("s")
	if err != nil {
		t.Fatal(err)
	}
	it := kv.All(false)
	defer it.Close()
	round, n := int64(0), 0
	for it.Next() {
		v := int64(binary.BigEndian.Uint64(it.Value()))
		if n > 0 && v != round {
			t.Fatalf("rows of rounds %d and %d are together", round, v)
		}
		round = v
		n++
	}
	if err := it.Err(); err != nil {
		t.Fatal(err)
	}
	if n != 0 && n != roundRows {
		t.Fatalf("%d rows, want %d", n, roundRows)
	}
	return round
}

const roundRows = 500

// commitRound writes all rows with the number of the round.
func commitRound(t *testing.T, s *state.Stores, round int64) error {
	for i := range roundRows {
		put(t, s, fmt.Sprintf("key %d", i), string(binary.BigEndian.AppendUint64(nil, uint64(round))))
	}
	return commitAt(s, round)
}

// TestDiskFull is B-058: wherever the file system runs full, the process lives, the error is typed and names the path, and what is found afterwards is some
// commit with its offset.
func TestDiskFull(t *testing.T) {
	for name, hit := range map[string]func(op errorfs.Op) bool{
		"everything": func(op errorfs.Op) bool { return op.Kind.ReadOrWrite() == errorfs.OpIsWrite },
		"manifest": func(op errorfs.Op) bool {
			return op.Kind == errorfs.OpFileWrite && strings.Contains(op.Path, "MANIFEST")
		},
		"sync":   func(op errorfs.Op) bool { return op.Kind == errorfs.OpFileSync || op.Kind == errorfs.OpFileSyncData },
		"create": func(op errorfs.Op) bool { return op.Kind == errorfs.OpCreate },
		"link":   func(op errorfs.Op) bool { return op.Kind == errorfs.OpLink || strings.Contains(op.Path, "bulk") },
	} {
		for _, restoring := range []bool{false, true} {
			if name == "link" && !restoring {
				continue
			}
			t.Run(fmt.Sprintf("%s/restoring=%v", name, restoring), func(t *testing.T) {
				var full atomic.Bool
				mem := vfs.NewMem()
				failing := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
					if full.Load() && hit(op) {
						return &fs.PathError{Op: "write", Path: op.Path, Err: syscall.ENOSPC}
					}
					return nil
				}))
				engine := engineOn(t, failing, 64<<10)
				s := openOn(t, engine, dir)
				round := int64(0)
				for range 5 {
					round++
					if err := commitRound(t, s, round); err != nil {
						t.Fatal(err)
					}
				}
				if err := s.Sync(); err != nil {
					t.Fatal(err)
				}
				full.Store(true)
				var err error
				for err == nil {
					round++
					if restoring {
						err = restoreRound(s, round)
					} else if err = commitRound(t, s, round); err == nil && round%10 == 0 {
						err = s.Sync()
					}
				}
				var fullErr *state.FullError
				if !errors.As(err, &fullErr) || fullErr.Path != dir || !strings.Contains(err.Error(), "full") || !errors.Is(err, syscall.ENOSPC) {
					t.Fatalf("a full disk is %v", err)
				}
				if again := commitAt(s, round+1); again == nil {
					t.Fatal("a commit after a failed one went well")
				}
				if err := s.Close(); err != nil {
					t.Fatalf("close: %v", err) // the failure was told already
				}
				full.Store(false)
				s = openOn(t, engine, dir)
				next, _ := s.ChangelogOffset("s")
				if rows := offsetIn(t, s); rows != next || next < 5 || next > round {
					t.Fatalf("after round %d there are rows of round %d with offset %d", round, rows, next)
				}
				if err := commitRound(t, s, round+1); err != nil {
					t.Fatal(err)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

func restoreRound(s *state.Stores, round int64) error {
	records := make([]state.RestoreRecord, roundRows)
	for i := range records {
		records[i] = state.RestoreRecord{Key: fmt.Appendf(nil, "key %d", i), Value: binary.BigEndian.AppendUint64(nil, uint64(round))}
	}
	if err := s.Restore("s", records, round); err != nil {
		return err
	}
	return s.FinishRestore("s")
}

// TestDamagedFiles is B-024 for the files of the database: each is emptied, halved, overwritten or removed. It opens as of some commit, or says that it
// is damaged and where; it never shows rows that are not those of the offset.
func TestDamagedFiles(t *testing.T) {
	build := func(t *testing.T) string {
		path := filepath.Join(t.TempDir(), "0_1")
		s := openOn(t, engineOn(t, vfs.Default, 64<<10), path)
		for round := int64(1); round <= 3; round++ {
			if err := commitRound(t, s, round); err != nil {
				t.Fatal(err)
			}
			if err := s.Sync(); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		return path
	}
	entries, err := os.ReadDir(build(t))
	if err != nil {
		t.Fatal(err)
	}
	for i, entry := range entries {
		for name, damage := range map[string]func(path string) error{
			"empty": func(path string) error { return os.Truncate(path, 0) },
			"half": func(path string) error {
				info, err := os.Stat(path)
				if err != nil {
					return err
				}
				return os.Truncate(path, info.Size()/2)
			},
			"zeros": func(path string) error { return os.WriteFile(path, make([]byte, 4096), 0o640) },
			"gone":  os.Remove,
			"directory": func(path string) error {
				if err := os.Remove(path); err != nil {
					return err
				}
				return os.Mkdir(path, 0o750)
			},
		} {
			t.Run(entry.Name()+"/"+name, func(t *testing.T) {
				path := build(t)
				again, err := os.ReadDir(path)
				if err != nil || len(again) != len(entries) {
					t.Fatalf("%d files instead of %d (%v)", len(again), len(entries), err)
				}
				if err := damage(filepath.Join(path, again[i].Name())); err != nil {
					t.Fatal(err)
				}
				engine := engineOn(t, vfs.Default, 64<<10)
				s, err := state.Open(state.Options{ApplicationID: "app", Dir: path, Engine: engine, Stores: []topology.Store{{Name: "s"}}})
				if err == nil {
					defer s.Close()
					next, _ := s.ChangelogOffset("s")
					kv, _ := s.KeyValue("s")
					it := kv.All(false)
					n := 0
					for it.Next() {
						if v := int64(binary.BigEndian.Uint64(it.Value())); v != next {
							t.Fatalf("offset %d with a row of round %d", next, v)
						}
						n++
					}
					err = it.Close()
					if err == nil && ((next > 0 && n != roundRows) || (next == 0 && n != 0)) {
						t.Fatalf("offset %d with %d rows", next, n)
					}
				}
				var corrupt *state.CorruptError
				if err != nil && (!errors.As(err, &corrupt) || corrupt.Path != path) {
					t.Fatalf("damage is %v", err)
				}
			})
		}
	}
}

// TestNoPermission checks that a directory that may not be read is no damage, which would be wiped.
func TestNoPermission(t *testing.T) {
	failing := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		return &fs.PathError{Op: "open", Path: op.Path, Err: syscall.EACCES}
	}))
	_, err := engineOn(t, failing, 0).Open(dir)
	var corrupt *state.CorruptError
	if err == nil || errors.As(err, &corrupt) || !errors.Is(err, fs.ErrPermission) || !strings.Contains(err.Error(), dir) {
		t.Fatalf("open says %v", err)
	}
}

// TestRemovedWhileRunning is B-060: the directory goes away under a running task.
func TestRemovedWhileRunning(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0_1")
	engine := engineOn(t, vfs.Default, 64<<10)
	s := openOn(t, engine, path)
	if err := commitRound(t, s, 1); err != nil {
		t.Fatal(err)
	}
	for os.RemoveAll(path) != nil { // a flush may add a file meanwhile
	}
	var err error
	for round := int64(2); err == nil; round++ {
		if err = commitRound(t, s, round); err == nil && round%10 == 0 {
			err = s.Sync()
		}
	}
	if !strings.Contains(err.Error(), path) {
		t.Fatalf("the error does not name the directory: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("there is a directory in place of the removed one (%v)", err)
	}
}

// TestOpenTwice opens a database that is open.
func TestOpenTwice(t *testing.T) {
	path := t.TempDir()
	engine := pebblestore.New(pebblestore.Options{})
	defer engine.Close()
	db, err := engine.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	_, err = engine.Open(path)
	var corrupt *state.CorruptError
	if err == nil || errors.As(err, &corrupt) || !strings.Contains(err.Error(), path) {
		t.Fatalf("a second open says %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if db, err = engine.Open(path); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestApproximateCount checks the estimate of a large store.
func TestApproximateCount(t *testing.T) {
	s := openOn(t, engineOn(t, vfs.NewMem(), 0), dir)
	defer s.Close()
	kv, _ := s.KeyValue("s")
	rng := rand.New(rand.NewPCG(1, 1))
	const n = 50_000
	for i := range n {
		if err := kv.Put(fmt.Appendf(nil, "%d %d", rng.IntN(1000), i), make([]byte, rng.IntN(100)), 0, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := commitAt(s, 1); err != nil {
		t.Fatal(err)
	}
	if err := s.Sync(); err != nil {
		t.Fatal(err)
	}
	if got, err := kv.ApproximateLen(); err != nil || got < n/2 || got > 2*n {
		t.Fatalf("about %d rows, want %d (%v)", got, n, err)
	}
}
