package streamstest

import (
	"context"
	"fmt"
	"time"

	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/tasks"
)

// topicLog is a topic: its records by partition, and over all partitions in the order they were written.
type topicLog struct {
	partitions [][]record
	order      []place
	open       []place // records of the transaction that is open
}

type record struct {
	tasks.Record
	state recordState
}

// recordState is what a reader of committed records makes of one.
type recordState uint8

const (
	committed recordState = iota
	pending               // in the transaction that is open: tasks read it, which commit with it, and nobody else does
	aborted
)

type place struct {
	partition int32
	index     int
}

func (l *topicLog) at(p place) *record { return &l.partitions[p.partition][p.index] }

// end ends the open transaction.
func (l *topicLog) end(s recordState) {
	for _, p := range l.open {
		l.at(p).state = s
	}
	l.open = l.open[:0]
}

// topic returns a topic's log.
func (d *Driver) topic(name string) *topicLog {
	l := d.topics[name]
	if l == nil {
		l = &topicLog{partitions: make([][]record, d.partitions(name))}
		d.topics[name] = l
	}
	return l
}

// write appends a record to a topic.
func (d *Driver) write(topic string, partition int32, r tasks.Record, state recordState) {
	l := d.topic(topic)
	if partition < 0 {
		partition = 0
		if r.Key != nil {
			partition = tasks.PartitionFor(r.Key, len(l.partitions))
		}
	}
	if len(l.order) == 0 {
		d.written = append(d.written, topic)
	}
	p := place{partition, len(l.partitions[partition])}
	r.Offset = int64(p.index)
	l.order = append(l.order, p)
	l.partitions[partition] = append(l.partitions[partition], record{r, state})
	if state == pending {
		l.open = append(l.open, p)
	}
	if tp := (tasks.TopicPartition{Topic: topic, Partition: partition}); d.readers[tp] != nil {
		d.arrived = append(d.arrived, tp)
	}
}

// failures are what is to go wrong.
type failures struct {
	produce  map[string]error // by topic
	commit   error
	produced error // a record that was not taken
}

// FailProduce makes the next record that the topology writes to a topic fail with err, as if the broker refused it. Internal topics have their full
// names. The topology stops, see [Driver.Err], before it commits what the record was derived from.
func (d *Driver) FailProduce(topic string, err error) {
	if d.fail.produce == nil {
		d.fail.produce = map[string]error{}
	}
	d.fail.produce[topic] = err
}

// FailCommit makes the next commit fail with err. Caches have been flushed by then and output is written; nothing is committed, and the topology stops.
func (d *Driver) FailCommit(err error) { d.fail.commit = err }

// FailStore makes every use of a store fail with err, as a broken disk would, until [Driver.Restart] or [Driver.Crash]. Its updates since the last
// commit are lost.
func (d *Driver) FailStore(store streams.StoreRef, err error) {
	d.t.Helper()
	name, found := streams.StoreNameOf(store), false
	for _, id := range d.order {
		if r := d.tasks[id]; r.stores != nil && r.stores.BreakForTest(name, err) == nil {
			found = true
		}
	}
	if !found {
		d.t.Fatalf("streamstest: no task has the store %q; there are %q", name, d.storeNames())
	}
}

// producer writes to the driver's topics.
type producer struct{ d *Driver }

func (p producer) Output(topic string) (tasks.Output, error) { return output{p.d, topic}, nil }
func (p producer) Arena() *tasks.Arena                       { return &p.d.arena }
func (p producer) Flush(context.Context) error               { return nil }
func (p producer) Err() error                                { return nil }
func (p producer) Abort(context.Context) error               { return nil }
func (p producer) Reset(context.Context) error               { return nil }
func (p producer) Commit(context.Context, map[tasks.TopicPartition]tasks.Committed) error {
	return nil
}

type output struct {
	d     *Driver
	topic string
}

func (o output) Send(partition int32, key, value []byte, timestamp int64, headers []tasks.Header) {
	if err := o.d.fail.produce[o.topic]; err != nil {
		delete(o.d.fail.produce, o.topic)
		o.d.fail.produced = fmt.Errorf("write to %s: %w", o.topic, err)
		return
	}
	state := committed
	if o.d.cfg.Guarantee == streams.ExactlyOnce {
		state = pending
	}
	o.d.write(o.topic, partition, tasks.Record{Key: key, Value: value, Timestamp: timestamp, Headers: headers}, state)
}

func (o output) Partitions() (int, error) { return len(o.d.topic(o.topic).partitions), nil }

func (o output) Next(partition int32) int64 {
	n := len(o.d.topic(o.topic).partitions[partition])
	if n == 0 {
		return -1
	}
	return int64(n)
}

type clock struct{ d *Driver }

func (c clock) Now() time.Time { return c.d.now }
func (c clock) After(time.Duration) <-chan time.Time {
	panic(fmt.Sprintf("streamstest: nothing waits at %v", c.d.now))
}
