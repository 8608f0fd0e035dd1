package state

import (
	"testing"

	"github.com/millrace/millrace/topology"
)

func openMemory(t testing.TB, specs ...topology.Store) *Stores {
	t.Helper()
	s, err := Open(Options{ApplicationID: "app", Task: topology.TaskID{Subtopology: 0, Partition: 1}, Stores: specs})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestKeyValueReadsItsWrites(t *testing.T) {
	s := openMemory(t, topology.Store{Name: "kv", Timestamped: true, Caching: true})
	kv, err := s.KeyValue("kv")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, ok, _ := kv.Get([]byte("a")); ok {
		t.Fatal("found a row in an empty store")
	}
	for i, put := range []string{"1", "22", ""} {
		if err := kv.Put([]byte("a"), []byte(put), int64(i), nil); err != nil {
			t.Fatal(err)
		}
		v, ts, ok, err := kv.Get([]byte("a"))
		if err != nil || !ok || v == nil || string(v) != put || ts != int64(i) {
			t.Fatalf("got %q at %d, %v, %v", v, ts, ok, err)
		}
	}
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := s.Commit(CommitPoint{StreamTime: 7}); err != nil {
		t.Fatal(err)
	}
	sn, err := s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	defer sn.Close()
	view, err := sn.KeyValue("kv")
	if err != nil {
		t.Fatal(err)
	}
	if v, ts, ok, err := view.Get([]byte("a")); err != nil || !ok || len(v) != 0 || ts != 2 {
		t.Fatalf("snapshot: got %q at %d, %v, %v", v, ts, ok, err)
	}
}
