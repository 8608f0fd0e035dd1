package streams

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
)

// Errors that callers branch on.
var (
	ErrClosed             = errors.New("streams: closed")
	ErrMissingSourceTopic = errors.New("streams: source topic does not exist")
	ErrNoBroker           = errors.New("streams: no broker answers")
	ErrNoStreamsGroups    = errors.New("streams: the brokers have no streams groups")
	ErrPartitionCount     = errors.New("streams: wrong number of partitions")
	ErrNoOffset           = errors.New("streams: no committed offset")
	ErrStopped            = errors.New("streams: the application was stopped")
	ErrTopologyDiffers    = errors.New("streams: the group runs another topology")
	ErrGroupType          = errors.New("streams: the application id is the id of another kind of group")
	ErrInternalTopic      = errors.New("streams: the brokers do not create an internal topic")
	ErrInstanceID         = errors.New("streams: the instance id is in use")

	// Causes of a [BuildError].
	ErrNoSerde         = errors.New("no serde for type")
	ErrSerdeType       = errors.New("serde is of another type")
	ErrDuplicateName   = errors.New("name is taken")
	ErrBadName         = errors.New("not a legal name")
	ErrNameRequired    = errors.New("name would be generated")
	ErrOtherBuilder    = errors.New("belongs to another builder")
	ErrCopartition     = errors.New("cannot be co-partitioned")
	ErrBadWindow       = errors.New("bad window")
	ErrBadOption       = errors.New("bad option")
	ErrNilFunction     = errors.New("function is nil")
	ErrTopicTaken      = errors.New("topic is read twice in two ways")
	ErrCycle           = errors.New("topics form a cycle that no source feeds")
	ErrStoreConflict   = errors.New("store is declared in two ways")
	ErrUnfinishedSplit = errors.New("branch after default")
	ErrNoSource        = errors.New("topology has no source")
)

// BuildError is one mistake in a topology.
type BuildError struct {
	Operator string // the node, such as KSTREAM-AGGREGATE-0000000003 or the name it was given
	At       string // file:line of the call that added it
	Err      error  // such as ErrNoSerde, with what to do about it in its text
}

func (e *BuildError) Error() string {
	if e.At == "" {
		return fmt.Sprintf("%s: %v", e.Operator, e.Err)
	}
	return fmt.Sprintf("%s (%s): %v", e.Operator, e.At, e.Err)
}

// Unwrap returns the cause.
func (e *BuildError) Unwrap() error { return e.Err }

// Stage is where a record failed.
type Stage uint8

// The stages. Config has a handler for each group of them.
const (
	DecodeKey Stage = iota
	DecodeValue
	ProcessRecord
	Punctuate
	EncodeKey
	EncodeValue
	Produce
)

// String returns the stage in lower case.
func (s Stage) String() string {
	return [...]string{"decode key", "decode value", "process record", "punctuate", "encode key", "encode value", "produce"}[s]
}

// Failure is a record that could not be handled, as a handler sees it.
type Failure struct {
	Err       error
	Stage     Stage
	Node      string // such as KSTREAM-MAPVALUES-0000000002
	Task      string // such as 0_1
	Origin    Origin // of the input record; in a punctuation it has no topic, and -1 as partition and offset
	Timestamp time.Time
	Headers   Headers
	RawKey    []byte // of the input record; nil in a punctuation
	RawValue  []byte
	OutTopic  string // for EncodeKey, EncodeValue and Produce
}

// RecordError is a failed record that its handler did not skip. The record's offset is not committed.
type RecordError struct{ Failure }

func (e *RecordError) Error() string {
	var b strings.Builder
	b.WriteString(e.Stage.String())
	if e.Origin.Topic != "" {
		fmt.Fprintf(&b, " of %s partition %d offset %d", e.Origin.Topic, e.Origin.Partition, e.Origin.Offset)
	}
	if e.Node != "" {
		fmt.Fprintf(&b, " at %s", e.Node)
	}
	if e.OutTopic != "" {
		fmt.Fprintf(&b, " for %s", e.OutTopic)
	}
	return fmt.Sprintf("%s: %v", b.String(), e.Err)
}

// Unwrap returns the cause.
func (e *RecordError) Unwrap() error { return e.Err }

// ErrorHandler decides about a failed record. It is called on the task's goroutine and may block it.
type ErrorHandler func(ctx context.Context, f Failure) Response

// Response is what becomes of a failed record.
type Response struct {
	verdict verdict
	dead    []RawRecord
}

type verdict uint8

const (
	verdictFail verdict = iota
	verdictResume
)

var (
	// Fail stops the task and with it, by default, the app. The record's offset is not committed.
	Fail = Response{verdict: verdictFail}
	// Resume skips the record: what it would have forwarded after the failure is lost, what it did before stays. It is counted in dropped-records.
	Resume = Response{verdict: verdictResume}
)

// DeadLetter adds records to write, in the task's transaction.
func (r Response) DeadLetter(records ...RawRecord) Response {
	r.dead = append(r.dead[:len(r.dead):len(r.dead)], records...)
	return r
}

// RawRecord is an encoded record for a topic.
type RawRecord struct {
	Topic      string
	Key, Value []byte // nil is null
	Timestamp  time.Time
	Headers    Headers
}

// DeadLetterFrom is the record that the built-in handlers write: the raw input with __streams.errors.* headers (KIP-1034).
func DeadLetterFrom(topic string, f Failure) RawRecord {
	text := func(key, value string) { f.Headers = f.Headers.With("__streams.errors."+key, []byte(value)) }
	text("exception", fmt.Sprintf("%T", f.Err))
	text("message", f.Err.Error())
	text("stacktrace", string(debug.Stack()))
	text("topic", f.Origin.Topic)
	text("partition", strconv.Itoa(int(f.Origin.Partition)))
	text("offset", strconv.FormatInt(f.Origin.Offset, 10))
	return RawRecord{Topic: topic, Key: f.RawKey, Value: f.RawValue, Timestamp: f.Timestamp, Headers: f.Headers}
}

// LogAndFail logs the failure and answers [Fail]. It is the default of all handlers. With [Config.DeadLetterTopic] the record is written there as well;
// as the task then fails, the letter is part of no commit, and under exactly once of none at all.
func LogAndFail(ctx context.Context, f Failure) Response { return logged(ctx, f, Fail) }

// LogAndResume logs the failure and answers [Resume]. With [Config.DeadLetterTopic] the record is written there.
func LogAndResume(ctx context.Context, f Failure) Response { return logged(ctx, f, Resume) }

func logged(ctx context.Context, f Failure, r Response) Response {
	t, ok := ctx.Value(taskKey{}).(*task)
	if !ok {
		return r
	}
	t.log.Warn("record failed", "node", f.Node, "stage", f.Stage.String(), "topic", f.Origin.Topic, "partition", f.Origin.Partition,
		"offset", f.Origin.Offset, "skipped", r.verdict == verdictResume, "err", f.Err)
	if t.cfg.deadLetters != "" {
		r = r.DeadLetter(DeadLetterFrom(t.cfg.deadLetters, f))
	}
	return r
}

// PanicError is a panic of a user function. It never reaches a handler: a bug is not a bad record. The task closes without a commit, and
// App.Run returns the error.
type PanicError struct {
	Value  any
	Stack  []byte
	Node   string
	Task   string
	Origin Origin // of the input record; without a topic in a punctuation
}

func (e *PanicError) Error() string {
	where := ""
	if e.Origin.Topic != "" {
		where = fmt.Sprintf(" while processing %s partition %d offset %d", e.Origin.Topic, e.Origin.Partition, e.Origin.Offset)
	}
	return fmt.Sprintf("streams: task %s: panic in %s%s: %v\n%s", e.Task, e.Node, where, e.Value, e.Stack)
}

// Unwrap returns the value of the panic if it was an error.
func (e *PanicError) Unwrap() error { err, _ := e.Value.(error); return err }

// Uncaught says what to do when a worker fails.
type Uncaught uint8

// The answers to a failed worker.
const (
	StopApp       Uncaught = iota // App.Run returns the error, the default
	ReplaceWorker                 // start another worker; a poisonous record will stop that one too
	StopGroup                     // ask every process of the application to stop
)
