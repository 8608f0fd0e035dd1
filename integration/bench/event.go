package main

import (
	"encoding/binary"
	"errors"

	"github.com/millrace/millrace/streams/serde"
)

// event is the value of every input record, big endian: id 8, amount 8, region 4, alternative key 16 (ASCII), event time 8, filler. It refers to the bytes
// it came from, so that the filler is not copied before it is written again.
type event struct {
	amount int64
	region int32
	raw    []byte
}

const amountAt, regionAt, altAt, timeAt, fillerAt = 8, 16, 20, 36, 44

func (e event) alt() string { return string(e.raw[altAt:timeAt]) }

func (e event) with(amount int64, region int32) event { return event{amount, region, e.raw} }

var events = serde.Func(
	func(dst []byte, e event) ([]byte, error) {
		start := len(dst)
		dst = append(dst, e.raw...)
		binary.BigEndian.PutUint64(dst[start+amountAt:], uint64(e.amount))
		binary.BigEndian.PutUint32(dst[start+regionAt:], uint32(e.region))
		return dst, nil
	},
	func(data []byte) (event, error) {
		if len(data) < fillerAt {
			return event{}, errors.New("an event is cut off")
		}
		return event{int64(binary.BigEndian.Uint64(data[amountAt:])), int32(binary.BigEndian.Uint32(data[regionAt:])), data}, nil
	},
)
