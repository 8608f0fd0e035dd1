package tasks

import "testing"

// F-033: the vectors of Kafka's own test of murmur2.
func TestF033Murmur2(t *testing.T) {
	for key, want := range map[string]int32{
		"21":                         -973932308,
		"foobar":                     -790332482,
		"a-little-bit-long-string":   -985981536,
		"a-little-bit-longer-string": -1486304829,
		"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
		"abc": 479470107,
	} {
		if got := int32(murmur2([]byte(key))); got != want {
			t.Errorf("murmur2(%q) = %d, want %d", key, got, want)
		}
		for _, n := range []int{1, 2, 3, 4, 7, 100} {
			if got, want := PartitionFor([]byte(key), n), (want&0x7fffffff)%int32(n); got != want {
				t.Errorf("PartitionFor(%q, %d) = %d, want %d", key, n, got, want)
			}
		}
	}
}

func TestPartitionOfAnyKey(t *testing.T) {
	for length := range 20 {
		key := make([]byte, length)
		for i := range key {
			key[i] = byte(0xff - i)
		}
		for n := 1; n < 9; n++ {
			if p := PartitionFor(key, n); p < 0 || int(p) >= n {
				t.Errorf("a key of %d bytes goes to partition %d of %d", length, p, n)
			}
		}
	}
}
