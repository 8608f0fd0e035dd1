package tasks

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// What was handed out never changes afterwards, whatever follows and whatever is appended to it.
func TestArenaKeepsWhatItGaveOut(t *testing.T) {
	var a Arena
	random := rand.New(rand.NewPCG(1, 2))
	type piece struct{ got, want []byte }
	var pieces []piece
	for range 5000 {
		size := random.IntN(200)
		if random.IntN(200) == 0 {
			size = random.IntN(3 * arenaBlock)
		}
		want := make([]byte, size)
		for i := range want {
			want[i] = byte(random.Uint32())
		}
		var got []byte
		if random.IntN(2) == 0 {
			got = a.Copy(want)
		} else {
			b := a.Begin()
			for _, x := range want { //nolint:staticcheck // byte by byte, so that it grows on the way
				b = append(b, x)
			}
			got = a.End(b)
		}
		if cap(got) != len(got) {
			t.Fatalf("%d bytes with room for %d: an append would write over what follows", len(got), cap(got))
		}
		pieces = append(pieces, piece{got, want})
		_ = append(got, 0xaa)
	}
	for i, p := range pieces {
		if !bytes.Equal(p.got, p.want) {
			t.Fatalf("piece %d of %d bytes has changed", i, len(p.want))
		}
	}
}

func TestArenaCopyOfNothing(t *testing.T) {
	var a Arena
	if got := a.Copy(nil); got != nil {
		t.Errorf("a copy of nil is %v", got)
	}
	if got := a.Copy([]byte{}); got == nil || len(got) != 0 {
		t.Errorf("a copy of an empty slice is %v", got)
	}
}

func TestArenaAllocatesPerBlock(t *testing.T) {
	var a Arena
	key := []byte("sixteen bytes ok")
	if n := testing.AllocsPerRun(10000, func() { a.Copy(key) }); n > 0.1 {
		t.Errorf("%v allocations per copy", n)
	}
}
