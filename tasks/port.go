package tasks

import (
	"context"
	"time"

	"github.com/millrace/millrace/topology"
)

// Header is a header of a record.
type Header = struct {
	Key   string
	Value []byte
}

// Record is one record as it comes from a topic. Key and Value are never written again, so they may be kept; nil is null.
type Record struct {
	Key, Value []byte
	Headers    []Header
	Offset     int64
	Timestamp  int64 // ms since 1970
}

// TopicPartition is one partition of a topic.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// Batch is what one fetch brought for a partition.
type Batch struct {
	TopicPartition
	Records []Record
	Next    int64  // offset after the last record, control records included
	End     int64  // end of the partition as far as a reader may go now: the stable offset under exactly once; -1 unknown
	Release func() // gives Records back when all have been processed; may be nil
	Err     error  // the partition can't be read on; Records is empty then
}

// Consumer is a worker's share in the consumer of the process. Its methods do not block, and all but Wake belong to the worker's goroutine.
type Consumer interface {
	// Start fetches partitions from the given offsets on.
	Start(from map[TopicPartition]int64)
	// Stop ends that. Batches that were taken before stay valid; none comes afterwards.
	Stop(partitions ...TopicPartition)
	// Take returns what has arrived for the worker since the last call.
	Take() []Batch
	// Arrived fires when there may be something to take.
	Arrived() <-chan struct{}
	// Processed tells that n buffered records are done, which lets the consumer fetch on.
	Processed(n int)
	// Full, Room and Hungry tell about one partition: its buffer is over the limit, it is so no more, or a task waits for it while others are full.
	Full(p TopicPartition)
	Room(p TopicPartition)
	Hungry(p TopicPartition)
}

// Log reads positions and bounds of topics. Its calls block; a worker makes them from the goroutines that prepare tasks.
type Log interface {
	// Committed returns the group's offsets for partitions. Without one, a partition is missing in the result. Under exactly once it waits until
	// no transaction holds them open.
	Committed(ctx context.Context, partitions []TopicPartition) (map[TopicPartition]Committed, error)
	// Start resolves where a partition without a committed offset begins, by the policy of its source.
	Start(ctx context.Context, partitions []TopicPartition) (map[TopicPartition]int64, error)
	// Bounds returns the first offset of partitions and the offset after the last one that a reader may see.
	Bounds(ctx context.Context, partitions []TopicPartition) (map[TopicPartition]Bounds, error)
	// Topics returns ids and partition counts of topics. A topic that does not exist is missing in the result.
	Topics(ctx context.Context, names []string) (map[string]TopicInfo, error)
}

// Committed is a committed offset and what was written with it.
type Committed struct {
	Offset   int64
	Metadata string
}

// Bounds are the ends of a partition.
type Bounds struct{ Start, End int64 }

// TopicInfo is what the cluster says of a topic.
type TopicInfo struct {
	ID         [16]byte
	Partitions int32
}

// Changelogs reads changelogs for restoring: a client of its own, apart from the consumer.
type Changelogs interface {
	// Read calls apply with what follows offset from, in order, until ctx ends or apply returns an error, which Read returns. Fetching and
	// apply overlap.
	Read(ctx context.Context, from map[TopicPartition]int64, apply func(Batch) error) error
}

// Producer is a worker's producer. It belongs to the worker's goroutine.
type Producer interface {
	// Output opens a topic for writing.
	Output(topic string) (Output, error)
	// Arena is memory for the keys and values of records.
	Arena() *Arena
	// Flush waits until all records are acknowledged. The error is the first that any record met.
	Flush(ctx context.Context) error
	// Err is that error, if there is one by now.
	Err() error
	// Commit makes offsets part of the group's progress. Under exactly once it ends the transaction, and whether it ended is known: an error that
	// leaves that open is [ErrUnknownOutcome].
	Commit(ctx context.Context, offsets map[TopicPartition]Committed) error
	// Abort drops what was written since the last commit, under exactly once; otherwise it only forgets the failure.
	Abort(ctx context.Context) error
	// Reset makes a producer that was fenced usable again.
	Reset(ctx context.Context) error
}

// Output is a topic opened for writing.
type Output interface {
	// Send hands a record over. Key and value must not change afterwards; nil is null. AnyPartition leaves the partition to the key.
	Send(partition int32, key, value []byte, timestamp int64, headers []Header)
	// Partitions is the number of partitions of the topic.
	Partitions() (int, error)
	// Next is the offset after the last acknowledged record of a partition, -1 if none was written yet.
	Next(partition int32) int64
}

// AnyPartition leaves the choice of a partition to the record's key, as Java's producer does it.
const AnyPartition int32 = -1

// Group is the membership of a worker.
type Group interface {
	// Commands come in order. Each is answered by Done, with the error that kept the worker from carrying it out.
	Commands() <-chan Command
	// Epoch is the epoch of the member now; 0 or less: it is no member, and nothing may be committed.
	Epoch() int32
	// Poll tells that the worker is alive.
	Poll()
	// Migrated tells that the broker refused a commit as that of a past member.
	Migrated()
	// Report gives the positions of the tasks that restore, for the broker's placement.
	Report(offsets, ends map[topology.TaskID]int64)
	// Leave begins to leave the group. Closed is closed when that is done.
	Leave()
	Closed() <-chan struct{}
}

// Directory is the place of the tasks' persistent state. It is shared by the workers of the process.
type Directory interface {
	// Acquire takes a task's directory for one worker, waiting until a sibling has given it back.
	Acquire(ctx context.Context, id topology.TaskID) (Claim, error)
	// TaskPath is where it is.
	TaskPath(id topology.TaskID) string
}

// Claim is a task's directory in the hands of one worker.
type Claim interface {
	Release()
	// Wipe removes what is in the directory, and counts and logs that with the reason.
	Wipe(reason string) error
}

// CommandKind is what a group asks of a worker.
type CommandKind uint8

// The kinds of commands.
const (
	Revoke CommandKind = iota // commit Tasks and stop them; they move elsewhere
	Assign                    // Active and Standby are what the worker has from now on
	Lose                      // drop everything at once, without a commit: somebody else may have it already
	Fail                      // the membership is over, with Err
	Stop                      // the whole application is asked to stop
)

// Command is one thing that a group asks of a worker.
type Command struct {
	Kind    CommandKind
	Tasks   []topology.TaskID // of Revoke
	Active  []topology.TaskID // of Assign
	Standby []topology.TaskID // of Assign; warm-ups are among them
	Ready   bool              // of Assign: new tasks may start
	Err     error             // of Fail
	Done    func(err error)
}

// Clock is the wall clock.
type Clock interface {
	Now() time.Time
	After(d time.Duration) <-chan time.Time
}
