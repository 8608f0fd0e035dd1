package state

import (
	"bytes"
	"encoding/binary"

	"github.com/millrace/millrace/topology"
)

// Keys of rows in the database are a store's prefix (2 bytes) and a suffix:
//
//	key-value   key
//	window      segment (8) escaped key, start (8) sequence (4)
//	session     segment (8) escaped key, end (8) start (8)
//
// A store with a time index has a second row without a value for each, after all segments, as the first bit of its suffix is set:
//
//	window      start (8, first bit set) key sequence (4)
//	session     end (8, first bit set) start (8) key
//
// The segment is the start, or end, divided by the length of a segment, so that old rows are deleted as one range. The key is escaped so that its end is
// known and the order of the bytes is that of the tuple: 00 becomes 00 ff, and 00 01 ends it. In a write set rows go by the changelog's form of the key,
// which is shorter and needs no escaping.
const (
	prefixLen     = 2
	segmentLen    = 8
	terminatorLen = 2
)

// layout knows how the rows of a store lie in the database.
type layout struct {
	prefix      [prefixLen]byte
	timestamped bool
	tail        int   // bytes after the key in a changelog key; 0 for key-value stores
	retention   int64 // ms
	interval    int64 // ms, length of a segment
	indexed     bool  // there are index rows
}

// segmentInterval is Kafka Streams' length of a segment.
func segmentInterval(retention int64) int64 { return max(retention/2, 60_000) }

func newLayout(spec topology.Store, id uint16, interval int64) layout {
	l := layout{prefix: prefixOf(id), timestamped: spec.Timestamped, retention: spec.Retention.Milliseconds(), interval: interval}
	l.indexed = spec.TimeIndex && spec.Kind != topology.KeyValueStore
	switch spec.Kind {
	case topology.WindowStore:
		l.tail = windowTailLen
	case topology.SessionStore:
		l.tail, l.timestamped = sessionTailLen, false
	}
	return l
}

func prefixOf(id uint16) (p [prefixLen]byte) {
	binary.BigEndian.PutUint16(p[:], id)
	return p
}

// segment returns the segment of a time. Times before the epoch have none of their own.
func (l *layout) segment(t int64) int64 { return max(t, 0) / l.interval }

// time returns the time in a changelog key by which rows expire.
func (l *layout) time(key []byte) int64 {
	return int64(binary.BigEndian.Uint64(key[len(key)-l.tail:]))
}

// userKey returns the user's part of a changelog key.
func (l *layout) userKey(key []byte) []byte {
	n := len(key) - l.tail
	return key[:n:n]
}

// appendSuffix appends the suffix of the row with a changelog key.
func (l *layout) appendSuffix(dst, key []byte) []byte {
	if l.tail == 0 {
		return append(dst, key...)
	}
	n := len(key) - l.tail
	dst = binary.BigEndian.AppendUint64(dst, uint64(l.segment(l.time(key))))
	return append(appendEscaped(dst, key[:n]), key[n:]...)
}

// indexBit is set in the first byte of a suffix in the time index.
const indexBit = 1 << 63

// appendIndex appends the suffix of the index row of the row with a changelog key.
func (l *layout) appendIndex(dst, key []byte) []byte {
	n := len(key) - l.tail
	dst = binary.BigEndian.AppendUint64(dst, uint64(l.time(key))|indexBit)
	if l.tail == sessionTailLen {
		return append(append(dst, key[n+8:]...), key[:n]...)
	}
	return append(append(dst, key[:n]...), key[n+8:]...)
}

// appendIndexed appends the changelog key of the row with an index suffix. It is not ok if that is too short.
func (l *layout) appendIndexed(dst, index []byte) (key []byte, ok bool) {
	if len(index) < l.tail {
		return dst, false
	}
	t := binary.BigEndian.Uint64(index) &^ indexBit
	if l.tail == sessionTailLen {
		dst = append(dst, index[16:]...)
		return append(binary.BigEndian.AppendUint64(dst, t), index[8:16]...), true
	}
	n := len(index) - 4
	dst = append(dst, index[8:n]...)
	return append(binary.BigEndian.AppendUint64(dst, t), index[n:]...), true
}

// appendKey appends the changelog key of the row with a suffix. It is not ok if that has not the form of the store.
func (l *layout) appendKey(dst, suffix []byte) (key []byte, ok bool) {
	n := len(suffix) - l.tail
	if n < segmentLen+terminatorLen {
		return dst, false
	}
	user, _ := unescape(nil, suffix[segmentLen:n-terminatorLen])
	return append(append(dst, user...), suffix[n:]...), true
}

// appendEscaped appends a key with its terminator.
func appendEscaped(dst, key []byte) []byte {
	for {
		i := bytes.IndexByte(key, 0)
		if i < 0 {
			return append(append(dst, key...), 0, 1)
		}
		dst = append(append(dst, key[:i]...), 0, 0xff)
		key = key[i+1:]
	}
}

// unescape returns the key whose escaped form without terminator is b, in b itself if nothing was escaped and else in buf.
func unescape(buf, b []byte) (key, newBuf []byte) {
	i := bytes.IndexByte(b, 0)
	if i < 0 {
		return b, buf
	}
	buf = buf[:0]
	for i >= 0 {
		buf = append(append(buf, b[:i]...), 0)
		b = b[min(i+2, len(b)):]
		i = bytes.IndexByte(b, 0)
	}
	buf = append(buf, b...)
	return buf, buf
}

// appendValue appends a value's form in the database.
func (l *layout) appendValue(dst, value []byte, ts int64) []byte {
	if l.timestamped {
		return AppendTimestamped(dst, value, ts)
	}
	return append(dst, value...)
}

// splitValue takes a value's form in the database apart.
func (l *layout) splitValue(raw []byte) (value []byte, ts int64, ok bool) {
	if l.timestamped {
		return SplitTimestamped(raw)
	}
	return raw, -1, true
}
