package state

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// sortKey stands for a key while it is sorted: the 8 bytes after what all keys have in common, and which key it is.
type sortKey struct {
	head uint64
	i    uint32
}

// sortRows returns the numbers 0..n-1 in the order of their keys; equal keys stay in the order of the numbers. It uses and returns the buffers.
func sortRows(n int, key func(i uint32) []byte, keys, spare []sortKey) (sorted, other []sortKey) {
	keys = slices.Grow(keys[:0], n)[:n]
	if n == 0 {
		return keys, spare
	}
	common := key(0)
	for i := range n {
		common = common[:commonLen(common, key(uint32(i)))]
	}
	skip := len(common)
	for i := range n {
		keys[i] = sortKey{head8(key(uint32(i))[skip:]), uint32(i)}
	}
	if n < 128 {
		slices.SortFunc(keys, func(a, b sortKey) int {
			if a.head != b.head {
				if a.head < b.head {
					return -1
				}
				return 1
			}
			return compareKeys(key, a.i, b.i)
		})
		return keys, spare
	}
	keys, spare = radixSort(keys, spare)
	for lo := 0; lo < n; { // keys that agree in their heads
		hi := lo + 1
		for hi < n && keys[hi].head == keys[lo].head {
			hi++
		}
		if hi-lo > 1 {
			slices.SortFunc(keys[lo:hi], func(a, b sortKey) int { return compareKeys(key, a.i, b.i) })
		}
		lo = hi
	}
	return keys, spare
}

func compareKeys(key func(i uint32) []byte, a, b uint32) int {
	if c := bytes.Compare(key(a), key(b)); c != 0 {
		return c
	}
	return int(a) - int(b)
}

// commonLen returns the length of the common prefix.
func commonLen(a, b []byte) int {
	n := min(len(a), len(b))
	for i := range n {
		if a[i] != b[i] {
			return i
		}
	}
	return n
}

// head8 returns the first 8 bytes as a number, with zeros for those that are missing.
func head8(b []byte) uint64 {
	if len(b) >= 8 {
		return binary.BigEndian.Uint64(b)
	}
	var h uint64
	for i, c := range b {
		h |= uint64(c) << (56 - 8*i)
	}
	return h
}

// radixSort sorts by head, stable, least byte first. Bytes that are the same in all heads cost nothing.
func radixSort(keys, spare []sortKey) (sorted, other []sortKey) {
	spare = slices.Grow(spare[:0], len(keys))[:len(keys)]
	var counts [8][256]uint32
	for _, k := range keys {
		for b := range 8 {
			counts[b][byte(k.head>>(8*b))]++
		}
	}
	for b := range 8 {
		count, shift := &counts[b], 8*b
		if count[byte(keys[0].head>>shift)] == uint32(len(keys)) {
			continue
		}
		var sum uint32
		for i, c := range count {
			count[i] = sum
			sum += c
		}
		for _, k := range keys {
			d := byte(k.head >> shift)
			spare[count[d]] = k
			count[d]++
		}
		keys, spare = spare, keys
	}
	return keys, spare
}
