package tasks

import (
	"encoding/base64"
	"encoding/binary"
)

// Kafka Streams writes the highest time of a partition into the metadata of its committed offset, so that stream time does not run backwards after
// a restart (F-156): base64 of a version byte, the time in 8 bytes big-endian and, from version 2 on, metadata of processors, which may be empty.

const timeVersion = 2

func encodePartitionTime(t int64) string {
	b := make([]byte, 9)
	b[0] = timeVersion
	binary.BigEndian.PutUint64(b[1:], uint64(t))
	return base64.StdEncoding.EncodeToString(b)
}

// decodePartitionTime returns -1 for metadata that somebody else wrote.
func decodePartitionTime(s string) int64 {
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil || len(b) < 9 || b[0] < 1 || b[0] > timeVersion {
		return -1
	}
	return int64(binary.BigEndian.Uint64(b[1:]))
}
