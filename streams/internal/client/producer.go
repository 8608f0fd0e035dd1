package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/millrace/millrace/tasks"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// ProducerConfig is what is special about a worker's producer.
type ProducerConfig struct {
	TransactionalID    string // under exactly once
	TransactionTimeout time.Duration
	Linger             time.Duration // negative: none
	// Identity is the member id and epoch of the worker's member, as one pair. Commits carry it, which is what fences a worker that has lost its tasks
	// (member spec §11.1).
	Identity func() (memberID string, epoch int32)
	// InstanceID is that of a static member; empty for others.
	InstanceID string
	// Context ends the wait for room when the brokers take no more records.
	Context context.Context
}

// Producer is a worker's producer. It implements [tasks.Producer].
type Producer struct {
	cfg   Config
	own   ProducerConfig
	log   *Log
	cl    *kgo.Client
	arena tasks.Arena

	inTxn   bool
	fresh   bool // the open transaction wrote to a topic for the first time since the client was opened, see settleFresh
	outputs map[string]*output
	failure atomic.Pointer[error]
	records sync.Pool // of *kgo.Record
}

// NewProducer opens a producer. Under exactly once it settles what an earlier one of the same transactional id left open.
func NewProducer(ctx context.Context, cfg Config, own ProducerConfig, log *Log) (*Producer, error) {
	p := &Producer{cfg: cfg, own: own, log: log, outputs: map[string]*output{}}
	p.records.New = func() any { return new(kgo.Record) }
	return p, p.open(ctx)
}

func (p *Producer) open(ctx context.Context) error {
	opts := []kgo.Opt{
		kgo.RecordPartitioner(partitioner{}),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
		kgo.MaxBufferedRecords(1 << 15),
		kgo.UnknownTopicRetries(10),
	}
	if p.own.Linger > 0 {
		opts = append(opts, kgo.ProducerLinger(p.own.Linger))
	}
	if p.own.TransactionalID != "" {
		opts = append(opts, kgo.TransactionalID(p.own.TransactionalID), kgo.TransactionTimeout(p.own.TransactionTimeout))
	}
	cl, err := p.cfg.open("producer", opts...)
	if err != nil {
		return err
	}
	p.cl = cl
	for _, o := range p.outputs {
		o.used = false
	}
	if p.own.TransactionalID == "" {
		return nil
	}
	// Initialising now, and not with the first record, ends the open transaction of a process that died, so that nobody waits for its timeout (B-030).
	if err := retry(ctx, func() error { _, _, err := cl.ProducerID(ctx); return err }); err != nil {
		cl.Close()
		return fmt.Errorf("client: initialise producer %s: %w", p.own.TransactionalID, err)
	}
	return nil
}

// Close ends the producer without waiting for records.
func (p *Producer) Close() { p.cl.Close() }

// Arena implements [tasks.Producer].
func (p *Producer) Arena() *tasks.Arena { return &p.arena }

// Err implements [tasks.Producer].
func (p *Producer) Err() error {
	if e := p.failure.Load(); e != nil {
		return *e
	}
	return nil
}

func (p *Producer) fail(err error) { p.failure.CompareAndSwap(nil, &err) }

// output is a topic opened for writing. It implements [tasks.Output].
type output struct {
	p       *Producer
	topic   string
	used    bool           // the client has written to it
	next    []atomic.Int64 // after the last acknowledged record, by partition
	promise func(*kgo.Record, error)
}

// Output implements [tasks.Producer].
func (p *Producer) Output(topic string) (tasks.Output, error) {
	if o := p.outputs[topic]; o != nil {
		return o, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	infos, err := p.log.Known(ctx, []string{topic})
	if err != nil {
		return nil, err
	}
	info, ok := infos[topic]
	if !ok {
		return nil, fmt.Errorf("topic %q does not exist; create it, output topics are not created by the application", topic)
	}
	o := &output{p: p, topic: topic, next: make([]atomic.Int64, info.Partitions)}
	for i := range o.next {
		o.next[i].Store(-1)
	}
	o.promise = func(r *kgo.Record, err error) {
		if err != nil {
			p.fail(produceError(topic, r, err))
		} else if int(r.Partition) < len(o.next) {
			o.next[r.Partition].Store(r.Offset + 1)
		}
		*r = kgo.Record{}
		p.records.Put(r)
	}
	p.outputs[topic] = o
	return o, nil
}

// Partitions implements [tasks.Output].
func (o *output) Partitions() (int, error) { return len(o.next), nil }

// Next implements [tasks.Output].
func (o *output) Next(partition int32) int64 {
	if int(partition) >= len(o.next) {
		return -1
	}
	return o.next[partition].Load()
}

// Send implements [tasks.Output].
func (o *output) Send(partition int32, key, value []byte, timestamp int64, headers []tasks.Header) {
	p := o.p
	if p.own.TransactionalID != "" && !p.inTxn {
		if err := p.cl.BeginTransaction(); err != nil {
			p.fail(fmt.Errorf("%w: begin: %w", tasks.ErrAborted, err))
			return
		}
		p.inTxn = true
	}
	if !o.used {
		o.used, p.fresh = true, true
	}
	r := p.records.Get().(*kgo.Record)
	r.Topic, r.Partition, r.Key, r.Value, r.Timestamp = o.topic, partition, key, value, time.UnixMilli(timestamp)
	if len(headers) > 0 {
		r.Headers = make([]kgo.RecordHeader, len(headers))
		for i, h := range headers {
			r.Headers[i] = kgo.RecordHeader{Key: h.Key, Value: h.Value}
		}
	}
	p.cl.Produce(p.own.Context, r, o.promise)
}

// SendError is a record that the broker did not take.
type SendError struct {
	Topic     string
	Partition int32
	KeyPrefix []byte
	Size      int // bytes of key and value
	Err       error
}

func (e *SendError) Error() string {
	return fmt.Sprintf("write to %s partition %d: %v (record of %d bytes, key begins %q)", e.Topic, e.Partition, e.Err, e.Size, e.KeyPrefix)
}

// Unwrap returns the cause.
func (e *SendError) Unwrap() error { return e.Err }

func produceError(topic string, r *kgo.Record, err error) error {
	if fenced(err) {
		return fmt.Errorf("%w: %w", tasks.ErrMigrated, err)
	}
	if errors.Is(err, kerr.TransactionAbortable) || errors.Is(err, kgo.ErrAborting) {
		return fmt.Errorf("%w: %w", tasks.ErrAborted, err)
	}
	return &SendError{topic, r.Partition, r.Key[:min(len(r.Key), 32)], len(r.Key) + len(r.Value), err}
}

// fenced reports whether another producer has taken the transactional id over.
func fenced(err error) bool {
	return errors.Is(err, kerr.ProducerFenced) || errors.Is(err, kerr.InvalidProducerEpoch) || errors.Is(err, kerr.InvalidProducerIDMapping)
}

// Flush implements [tasks.Producer].
func (p *Producer) Flush(ctx context.Context) error {
	if err := p.cl.Flush(ctx); err != nil {
		return err
	}
	return p.Err()
}

// Commit implements [tasks.Producer]. A transaction that wrote nothing does not exist for franz-go, so its offsets go by an ordinary commit, which is
// fenced in the same way (M-64).
func (p *Producer) Commit(ctx context.Context, offsets map[tasks.TopicPartition]tasks.Committed) error {
	if !p.inTxn {
		if len(offsets) == 0 {
			return nil
		}
		return p.commitOffsets(ctx, offsets)
	}
	if len(offsets) > 0 {
		if err := p.commitInTransaction(ctx, offsets); err != nil {
			return err
		}
	}
	if err := p.settleFresh(ctx); err != nil {
		return err
	}
	err := p.cl.EndTransaction(ctx, kgo.TryCommit)
	switch {
	case err == nil:
		p.inTxn = false
		return nil
	case fenced(err):
		return fmt.Errorf("%w: %w", tasks.ErrMigrated, err)
	case errors.Is(err, kerr.TransactionAbortable), errors.Is(err, kerr.OperationNotAttempted):
		return fmt.Errorf("%w: %w", tasks.ErrAborted, err)
	}
	return fmt.Errorf("%w: %w", tasks.ErrUnknownOutcome, err)
}

// settleFresh waits until the client has stored the partitions of the topics that the transaction was the first to write to. franz-go (1.22.3) sends the
// records that waited for a topic's partitions before it stores them; where it ends the transaction in between, it finds no partition that was written to,
// aborts, and returns no error. Both steps are under one lock of its, which this call takes; there is no record left that it could abort.
func (p *Producer) settleFresh(ctx context.Context) error {
	if !p.fresh {
		return nil
	}
	if err := p.cl.AbortBufferedRecords(ctx); err != nil {
		return err
	}
	p.fresh = false
	return nil
}

// Abort implements [tasks.Producer].
func (p *Producer) Abort(ctx context.Context) error {
	if p.inTxn {
		if err := p.cl.AbortBufferedRecords(ctx); err != nil {
			return err
		}
		if err := p.cl.EndTransaction(ctx, kgo.TryAbort); err != nil {
			return err
		}
		p.inTxn, p.fresh = false, false
	}
	p.failure.Store(nil)
	return nil
}

// Reset implements [tasks.Producer]: it aborts and, where that does not heal the producer, opens another under the same transactional id, which settles
// whatever the old one left.
func (p *Producer) Reset(ctx context.Context) error {
	if p.own.TransactionalID == "" {
		p.failure.Store(nil)
		return nil
	}
	abort, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := p.Abort(abort); err == nil {
		if _, _, err := p.cl.ProducerID(abort); err == nil {
			return nil
		}
	}
	p.cl.UnsafeAbortBufferedRecords()
	p.cl.Close()
	p.inTxn, p.fresh = false, false
	if err := p.open(ctx); err != nil {
		return err
	}
	p.failure.Store(nil)
	return nil
}

// partitioner puts a record where it says, and one that says nothing where Java's producer would: by murmur2 of its key, or on a sticky partition.
type partitioner struct{}

// ForTopic implements [kgo.Partitioner].
func (partitioner) ForTopic(topic string) kgo.TopicPartitioner {
	return &topicPartitioner{keyed: kgo.StickyKeyPartitioner(nil).ForTopic(topic)}
}

type topicPartitioner struct{ keyed kgo.TopicPartitioner }

// RequiresConsistency implements [kgo.TopicPartitioner].
func (t *topicPartitioner) RequiresConsistency(r *kgo.Record) bool {
	return r.Partition >= 0 || t.keyed.RequiresConsistency(r)
}

// Partition implements [kgo.TopicPartitioner].
func (t *topicPartitioner) Partition(r *kgo.Record, n int) int {
	if r.Partition >= 0 {
		return int(r.Partition)
	}
	return t.keyed.Partition(r, n)
}

// OnNewBatch implements [kgo.TopicPartitionerOnNewBatch]: records without a key go to another partition with the next batch.
func (t *topicPartitioner) OnNewBatch() {
	if o, ok := t.keyed.(kgo.TopicPartitionerOnNewBatch); ok {
		o.OnNewBatch()
	}
}
