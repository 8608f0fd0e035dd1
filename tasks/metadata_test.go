package tasks

import (
	"encoding/base64"
	"maps"
	"testing"
)

// F-156: the time of a partition survives in the metadata of its offset, and what somebody else wrote there is no time.
func TestF156PartitionTime(t *testing.T) {
	for _, ms := range []int64{-1, 0, 1, 1700000000000, 1<<63 - 1} {
		if got, _ := decodeMetadata(encodeMetadata(ms, nil)); got != ms {
			t.Errorf("%d became %d", ms, got)
		}
	}
	if got := encodeMetadata(1, nil); got != "AgAAAAAAAAAB" {
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
		if got, processors := decodeMetadata(c.metadata); got != c.want || len(processors) > 0 {
			t.Errorf("%s: got %d and %v, want %d", name, got, processors, c.want)
		}
	}
}

// F-092, F-156: numbers that processors keep with the offsets, in Java's bytes. Those of several partitions are joined.
func TestF092ProcessorMetadata(t *testing.T) {
	// What TopicPartitionMetadata of Kafka Streams 4.4.0 writes for time 5 and store=7.
	const java = "AgAAAAAAAAAFAAAAAQAAAAVzdG9yZQAAAAAAAAAH"
	if got := encodeMetadata(5, map[string]int64{"store": 7}); got != java {
		t.Errorf("got %s, Java writes %s", got, java)
	}
	ms, found := decodeMetadata(java)
	if ms != 5 || !maps.Equal(found, map[string]int64{"store": 7}) {
		t.Errorf("Java's bytes are read as %d and %v", ms, found)
	}
	_, others := decodeMetadata(encodeMetadata(1, map[string]int64{"store": 3, "other": -1, "": 1 << 62}))
	if got, want := mergeMetadata(found, others), map[string]int64{"store": 7, "other": -1, "": 1 << 62}; !maps.Equal(got, want) {
		t.Errorf("joined: got %v, want %v", got, want)
	}
	raw, _ := base64.StdEncoding.DecodeString(java)
	for n := 9; n < len(raw); n++ {
		if ms, found := decodeMetadata(base64.StdEncoding.EncodeToString(raw[:n])); ms != 5 || len(found) > 0 {
			t.Errorf("%d of %d bytes are read as %d and %v", n, len(raw), ms, found)
		}
	}
}
