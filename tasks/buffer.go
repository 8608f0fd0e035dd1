package tasks

import "time"

// buffer holds the fetched records of one partition of a task, in batches as they came.
type buffer struct {
	TopicPartition
	source Source

	batches []Batch // the first is being processed
	next    int     // its next record
	records int     // all that wait

	position int64 // after the last record that was buffered
	end      int64 // the partition's end as last heard; -1 unknown
	time     int64 // highest time seen; -1 before the first
	full     bool  // the consumer was told
	hungry   bool  // the consumer was told

	headTime int64 // time of the head, if known
	headOK   bool

	idleUntil time.Time // when an empty buffer stops holding the task back; zero: not waiting
}

func (b *buffer) empty() bool { return b.records == 0 }

// caughtUp reports whether the partition is known to hold nothing that is not buffered (F-211).
func (b *buffer) caughtUp() bool { return b.end >= 0 && b.position >= b.end }

func (b *buffer) add(batch Batch) {
	b.position = max(b.position, batch.Next)
	b.end = max(b.end, batch.End)
	b.hungry = false
	if len(batch.Records) == 0 {
		if batch.Release != nil {
			batch.Release()
		}
		return
	}
	b.batches = append(b.batches, batch)
	b.records += len(batch.Records)
	b.idleUntil = time.Time{}
}

// head is the record that is next; there must be one.
func (b *buffer) head() *Record { return &b.batches[0].Records[b.next] }

// drop takes the head away.
func (b *buffer) drop() {
	b.headOK = false
	b.records--
	b.next++
	if b.next < len(b.batches[0].Records) {
		return
	}
	if release := b.batches[0].Release; release != nil {
		release()
	}
	b.batches[0] = Batch{}
	b.batches, b.next = b.batches[1:], 0
	if len(b.batches) == 0 {
		b.batches = nil
	}
}

// clear forgets everything that waits.
func (b *buffer) clear() {
	for i := range b.batches {
		if release := b.batches[i].Release; release != nil {
			release()
		}
	}
	b.batches, b.next, b.records, b.headOK = nil, 0, 0, false
}

// offset is what may be committed: everything before it is processed (F-218).
func (b *buffer) offset() int64 {
	if b.records > 0 {
		return b.head().Offset
	}
	return b.position
}
