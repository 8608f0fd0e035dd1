package tasks

import (
	"encoding/base64"
	"testing"
)

// F-156: the time of a partition survives in the metadata of its offset, and what somebody else wrote there is no time.
func TestF156PartitionTime(t *testing.T) {
	for _, ms := range []int64{-1, 0, 1, 1700000000000, 1<<63 - 1} {
		if got := decodePartitionTime(encodePartitionTime(ms)); got != ms {
			t.Errorf("%d became %d", ms, got)
		}
	}
	if got := encodePartitionTime(1); got != "AgAAAAAAAAAB" {
		t.Errorf("time 1 is written as %q", got)
	}
	text := func(b ...byte) string { return base64.StdEncoding.EncodeToString(b) }
	for name, c := range map[string]struct {
		metadata string
		want     int64
	}{
		"empty":                           {"", -1},
		"no base64":                       {"committed by hand!", -1},
		"too short":                       {text(2, 0, 0, 1), -1},
		"version 0":                       {text(0, 0, 0, 0, 0, 0, 0, 0, 5), -1},
		"version 1, of Java before 3.3":   {text(1, 0, 0, 0, 0, 0, 0, 0, 5), 5},
		"version 2":                       {text(2, 0, 0, 0, 0, 0, 0, 0, 5), 5},
		"version 2 with a processor's":    {text(2, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 1, 'k'), 5},
		"a version that is not known yet": {text(3, 0, 0, 0, 0, 0, 0, 0, 5), -1},
	} {
		if got := decodePartitionTime(c.metadata); got != c.want {
			t.Errorf("%s: got %d, want %d", name, got, c.want)
		}
	}
}
