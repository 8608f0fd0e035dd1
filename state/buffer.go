package state

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf16"
)

// Buffered is what a suppression holds back of one key. Its form is that of the changelogs of Kafka Streams since 2.6, their third version. All numbers are
// big endian; a length of -1 is a null, and of -2, before the old value, one that equals the prior value:
//
//	time of the record (8) offset (8) length (4) topic, partition (4)
//	number of headers (4), and for each: length (4) key, length (4) value
//	length (4) prior value, length (4) old value, length (4) new value
//	time in the buffer (8)
type Buffered struct {
	Timestamp int64 // of the record that changed it last, like what follows
	Offset    int64
	Topic     string
	Partition int32
	Headers   []Header

	Prior []byte // the value before anything was held back
	Old   []byte // the value before the last change
	New   []byte

	Time int64 // by which rows leave the buffer
}

// BufferHeaders are the headers of [Buffered] rows in changelogs: they tell the version.
var BufferHeaders = []Header{{Key: "v", Value: []byte{3}}}

const (
	nullLen = -1
	sameLen = -2
)

// Append appends the form of a row.
func (b *Buffered) Append(dst []byte) []byte {
	dst = appendInt64(dst, b.Timestamp)
	dst = appendInt64(dst, b.Offset)
	dst = appendInt32(dst, len(b.Topic))
	dst = append(dst, b.Topic...)
	dst = appendInt32(dst, int(b.Partition))
	dst = appendInt32(dst, len(b.Headers))
	for _, h := range b.Headers {
		dst = appendInt32(dst, len(h.Key))
		dst = append(dst, h.Key...)
		dst = appendSized(dst, h.Value)
	}
	dst = appendSized(dst, b.Prior)
	if b.Old != nil && b.samePrior() {
		dst = appendInt32(dst, sameLen)
	} else {
		dst = appendSized(dst, b.Old)
	}
	dst = appendSized(dst, b.New)
	return appendInt64(dst, b.Time)
}

func (b *Buffered) samePrior() bool {
	return (b.Prior == nil) == (b.Old == nil) && bytes.Equal(b.Prior, b.Old)
}

// Size is what a row counts against the limits of its buffer, in bytes, as Kafka Streams counts it.
func (b *Buffered) Size(key []byte) int64 {
	n := 8 + len(key) + len(b.Prior) + len(b.New) + 8 + 8 + utf16Len(b.Topic) + 4
	if !b.samePrior() {
		n += len(b.Old)
	}
	for _, h := range b.Headers {
		n += utf16Len(h.Key) + len(h.Value)
	}
	return int64(n)
}

// utf16Len is the length of a Java string.
func utf16Len(s string) (n int) {
	for _, r := range s {
		n += max(1, utf16.RuneLen(r))
	}
	return n
}

// ParseBuffered takes apart what [Buffered.Append] wrote. The row's slices alias data.
func ParseBuffered(data []byte) (b Buffered, err error) {
	r := sizedReader{data: data}
	b.Timestamp, b.Offset = r.int64(), r.int64()
	b.Topic = string(r.sized())
	b.Partition = r.int32()
	for n := r.int32(); n > 0 && !r.short; n-- {
		h := Header{Key: string(r.sized())}
		h.Value = r.sized()
		b.Headers = append(b.Headers, h)
	}
	b.Prior = r.sized()
	if b.Old = r.sized(); r.same {
		b.Old = b.Prior
	}
	b.New = r.sized()
	b.Time = r.int64()
	if r.short || len(r.data) > 0 {
		return Buffered{}, fmt.Errorf("state: %d bytes are no row of a suppression buffer", len(data))
	}
	return b, nil
}

// sizedReader reads numbers and values with their length in front, until there are too few bytes.
type sizedReader struct {
	data  []byte
	short bool
	same  bool // the last length was that of a value which equals another
}

func (r *sizedReader) take(n int) []byte {
	if n > len(r.data) {
		r.short, r.data = true, nil
		return make([]byte, min(n, 8))
	}
	b := r.data[:n:n]
	r.data = r.data[n:]
	return b
}

func (r *sizedReader) int64() int64 { return int64(binary.BigEndian.Uint64(r.take(8))) }
func (r *sizedReader) int32() int32 { return int32(binary.BigEndian.Uint32(r.take(4))) }

// sized reads a value, nil for a null.
func (r *sizedReader) sized() []byte {
	n := r.int32()
	r.same = n == sameLen
	if n < 0 {
		return nil
	}
	return r.take(int(n))
}

func appendInt32(dst []byte, n int) []byte {
	return binary.BigEndian.AppendUint32(dst, uint32(int32(n)))
}

func appendSized(dst, value []byte) []byte {
	if value == nil {
		return appendInt32(dst, nullLen)
	}
	return append(appendInt32(dst, len(value)), value...)
}

// checkBuffered refuses a restored row of a buffer that has another version.
func checkBuffered(rec *RestoreRecord) error {
	if rec.Value == nil {
		return nil
	}
	var version []byte
	for _, h := range rec.Headers {
		if h.Key == "v" {
			version = h.Value
		}
	}
	if !bytes.Equal(version, BufferHeaders[0].Value) {
		return errors.New("the changelog of a suppression has rows in the form of Kafka Streams before 2.6; let a newer one run until they are gone")
	}
	_, err := ParseBuffered(rec.Value)
	return err
}
