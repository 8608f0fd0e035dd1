package tasks

import (
	"encoding/base64"
	"encoding/binary"
	"maps"
	"slices"
)

// Kafka Streams writes the highest time of a partition into the metadata of its committed offset, so that stream time does not run backwards after
// a restart (F-156): base64 of a version byte, the time in 8 bytes big-endian and, from version 2 on, metadata of processors, which may be missing. Those
// are numbers by name: their count in 4 bytes, then for each the length of the name in 4 bytes, the name, and the number in 8 bytes.

const timeVersion = 2

// encodeMetadata has the metadata of processors in the order of names; Java's has none, as it is that of a hash map.
func encodeMetadata(t int64, processors map[string]int64) string {
	b := binary.BigEndian.AppendUint64([]byte{timeVersion}, uint64(t))
	if len(processors) > 0 {
		b = binary.BigEndian.AppendUint32(b, uint32(len(processors)))
	}
	for _, name := range slices.Sorted(maps.Keys(processors)) {
		b = binary.BigEndian.AppendUint32(b, uint32(len(name)))
		b = append(b, name...)
		b = binary.BigEndian.AppendUint64(b, uint64(processors[name]))
	}
	return base64.StdEncoding.EncodeToString(b)
}

// decodeMetadata returns -1 and nothing for metadata that somebody else wrote. Of metadata that ends early the time counts.
func decodeMetadata(s string) (t int64, processors map[string]int64) {
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil || len(b) < 9 || b[0] < 1 || b[0] > timeVersion {
		return -1, nil
	}
	t, b = int64(binary.BigEndian.Uint64(b[1:])), b[9:]
	if len(b) < 4 {
		return t, nil
	}
	n := binary.BigEndian.Uint32(b)
	b = b[4:]
	found := map[string]int64{}
	for range n {
		if len(b) < 4 {
			return t, nil
		}
		length := int64(binary.BigEndian.Uint32(b))
		if b = b[4:]; int64(len(b)) < length+8 {
			return t, nil
		}
		found[string(b[:length])] = int64(binary.BigEndian.Uint64(b[length:]))
		b = b[length+8:]
	}
	return t, found
}

// mergeMetadata adds the metadata of processors that was found with one partition's offset to that of others: the greatest number of a name counts.
func mergeMetadata(all, found map[string]int64) map[string]int64 {
	for name, n := range found {
		if old, ok := all[name]; !ok || n > old {
			if all == nil {
				all = map[string]int64{}
			}
			all[name] = n
		}
	}
	return all
}
