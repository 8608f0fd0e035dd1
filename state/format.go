package state

import "encoding/binary"

// The byte formats below are Kafka Streams' own. They appear in changelogs, and so can't change.
//
//	timestamped value   time (8) value
//	window key          key start (8) sequence (4)
//	session key         key end (8) start (8)
//
// All numbers are big endian.
const (
	timestampLen   = 8
	windowTailLen  = 12
	sessionTailLen = 16
)

// AppendTimestamped appends a value with its time in front, the form of the rows of timestamped stores on disk. In changelogs the time is the record's.
func AppendTimestamped(dst, value []byte, ts int64) []byte {
	return append(binary.BigEndian.AppendUint64(dst, uint64(ts)), value...)
}

// SplitTimestamped takes apart what [AppendTimestamped] wrote. The value aliases b. It is not ok if b is too short.
func SplitTimestamped(b []byte) (value []byte, ts int64, ok bool) {
	if len(b) < timestampLen {
		return nil, -1, false
	}
	return b[timestampLen:], int64(binary.BigEndian.Uint64(b)), true
}

// AppendWindowKey appends the changelog key of a row of a window store. The sequence is 0 unless the store keeps duplicates.
func AppendWindowKey(dst, key []byte, start int64, seq uint32) []byte {
	dst = append(dst, key...)
	dst = binary.BigEndian.AppendUint64(dst, uint64(start))
	return binary.BigEndian.AppendUint32(dst, seq)
}

// SplitWindowKey takes apart what [AppendWindowKey] wrote. The key aliases b. It is not ok if b is too short.
func SplitWindowKey(b []byte) (key []byte, start int64, seq uint32, ok bool) {
	n := len(b) - windowTailLen
	if n < 0 {
		return nil, 0, 0, false
	}
	return b[:n:n], int64(binary.BigEndian.Uint64(b[n:])), binary.BigEndian.Uint32(b[n+8:]), true
}

// AppendSessionKey appends the changelog key of a row of a session store.
func AppendSessionKey(dst, key []byte, start, end int64) []byte {
	dst = append(dst, key...)
	dst = binary.BigEndian.AppendUint64(dst, uint64(end))
	return binary.BigEndian.AppendUint64(dst, uint64(start))
}

// SplitSessionKey takes apart what [AppendSessionKey] wrote. The key aliases b. It is not ok if b is too short.
func SplitSessionKey(b []byte) (key []byte, start, end int64, ok bool) {
	n := len(b) - sessionTailLen
	if n < 0 {
		return nil, 0, 0, false
	}
	return b[:n:n], int64(binary.BigEndian.Uint64(b[n+8:])), int64(binary.BigEndian.Uint64(b[n:])), true
}
