package tasks

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/topology"
)

// tape is a source that notes what passes. It skips records of negative time.
type tape struct {
	topic string
	notes *[]string
}

func (s tape) Time(r *Record, _ int64) (int64, bool) { return r.Timestamp, r.Timestamp >= 0 }
func (s tape) Process(r *Record, ms int64) {
	*s.notes = append(*s.notes, fmt.Sprintf("%s/%d@%d", s.topic, r.Offset, ms))
}

// quiet is a program that does nothing.
type quiet struct{}

func (quiet) Source(string) Source  { return nil }
func (quiet) Open(*Context) error   { return nil }
func (quiet) Close() error          { return nil }
func (quiet) Locate(p *Panic) error { return p }

// bench is a running task with a buffer for each topic, at position 0 of an empty partition.
func bench(idle time.Duration, topics ...string) (*Task, *[]string) {
	notes := &[]string{}
	t := &Task{id: topology.TaskID{}, state: Running, idle: idle, program: quiet{}, log: slog.New(slog.DiscardHandler)}
	t.ctx = Context{streamTime: -1, dropped: map[string]int64{}}
	t.committed = map[TopicPartition]int64{}
	for _, topic := range topics {
		p := TopicPartition{Topic: topic}
		t.buffers = append(t.buffers, &buffer{TopicPartition: p, source: tape{topic, notes}, time: -1})
		t.committed[p] = -1
	}
	t.sortBuffers()
	return t, notes
}

// feed adds a batch of records with the given times.
func feedTimes(b *buffer, times ...int64) {
	batch := Batch{TopicPartition: b.TopicPartition, Next: b.position, End: b.end}
	for _, ms := range times {
		batch.Records = append(batch.Records, Record{Offset: batch.Next, Timestamp: ms})
		batch.Next++
	}
	batch.End = max(b.end, batch.Next)
	b.add(batch)
}

func all(t *testing.T, task *Task, now time.Time) {
	t.Helper()
	if _, err := task.process(now, 1000); err != nil {
		t.Fatal(err)
	}
}

func wantNotes(t *testing.T, notes *[]string, want string) {
	t.Helper()
	if got := strings.Join(*notes, " "); got != want {
		t.Fatalf("processed %q, want %q", got, want)
	}
}

// F-210: the lowest head goes first; within a partition the order of offsets is kept, whatever the times say; F-215: stream time only rises.
func TestF210LowestTimeFirst(t *testing.T) {
	task, notes := bench(0, "b", "a")
	feedTimes(task.buffers[0], 10, 30, 5)
	feedTimes(task.buffers[1], 10, 20, 40)
	all(t, task, time.Time{})
	wantNotes(t, notes, "a/0@10 b/0@10 b/1@20 a/1@30 a/2@5 b/2@40")
	if task.ctx.StreamTime() != 40 || task.buffers[0].time != 30 {
		t.Errorf("stream time %d, time of a %d", task.ctx.StreamTime(), task.buffers[0].time)
	}
}

// F-211: with the default idle time a task waits for what the broker is known to have, or may have, and for nothing else.
func TestF211WaitsForWhatIsOnTheBroker(t *testing.T) {
	for name, c := range map[string]struct {
		position, end int64
		waits         bool
	}{
		"empty partition":     {0, 0, false},
		"at its end":          {7, 7, false},
		"after its end":       {8, 7, false}, // the end is that of an older answer
		"behind its end":      {6, 7, true},
		"nothing known yet":   {0, -1, true},
		"behind only markers": {6, 7, true},
	} {
		task, notes := bench(0, "a", "b")
		task.buffers[1].position, task.buffers[1].end = c.position, c.end
		feedTimes(task.buffers[0], 10)
		all(t, task, time.Time{})
		if waits := len(*notes) == 0; waits != c.waits {
			t.Errorf("%s: waits %v, want %v", name, waits, c.waits)
		}
		if c.end > c.position { // the markers are read: the position moves without a record
			task.buffers[1].add(Batch{TopicPartition: task.buffers[1].TopicPartition, Next: c.end, End: c.end})
			all(t, task, time.Time{})
			wantNotes(t, notes, "a/0@10")
		}
	}
}

// F-211: the first fetch brings a later end than was known: the task goes on waiting.
func TestF211EndMovesOn(t *testing.T) {
	task, notes := bench(0, "a", "b")
	a, b := task.buffers[0], task.buffers[1]
	b.end = 2
	feedTimes(a, 10, 20)
	b.add(Batch{TopicPartition: b.TopicPartition, Records: []Record{{Offset: 0, Timestamp: 1}, {Offset: 1, Timestamp: 15}}, Next: 2, End: 3})
	all(t, task, time.Time{})
	wantNotes(t, notes, "b/0@1 a/0@10 b/1@15")
	b.add(Batch{TopicPartition: b.TopicPartition, Records: []Record{{Offset: 2, Timestamp: 17}}, Next: 3, End: 3})
	all(t, task, time.Time{})
	wantNotes(t, notes, "b/0@1 a/0@10 b/1@15 b/2@17 a/1@20")
}

// F-212: a partition at its end holds the task back for the idle time, counted from when the task was first ready but for it; news end the wait.
func TestF212IdleTime(t *testing.T) {
	began := time.Unix(1000, 0)
	task, notes := bench(time.Second, "a", "b")
	feedTimes(task.buffers[0], 10, 20)
	all(t, task, began)
	all(t, task, began.Add(999*time.Millisecond))
	wantNotes(t, notes, "")
	if at, ok := task.idleDeadline(); !ok || !at.Equal(began.Add(time.Second)) {
		t.Fatalf("the wait ends at %v (%v)", at, ok)
	}
	all(t, task, began.Add(time.Second))
	wantNotes(t, notes, "a/0@10 a/1@20")

	task, notes = bench(time.Second, "a", "b")
	feedTimes(task.buffers[0], 10, 20)
	all(t, task, began)
	feedTimes(task.buffers[1], 15)
	all(t, task, began.Add(10*time.Millisecond))
	wantNotes(t, notes, "a/0@10 b/0@15") // and now it waits for b once more, from now on
	all(t, task, began.Add(1009*time.Millisecond))
	wantNotes(t, notes, "a/0@10 b/0@15")
	all(t, task, began.Add(1010*time.Millisecond))
	wantNotes(t, notes, "a/0@10 b/0@15 a/1@20")

	task, notes = bench(time.Second, "a", "b")
	feedTimes(task.buffers[0], 10)
	all(t, task, began)
	task.buffers[1].end = 1 // the broker has more: it is waited for, however long it takes
	all(t, task, began.Add(time.Hour))
	wantNotes(t, notes, "")
}

// F-213: a negative idle time never waits.
func TestF213NeverWaits(t *testing.T) {
	task, notes := bench(-1, "a", "b")
	task.buffers[1].end = 5
	feedTimes(task.buffers[0], 10)
	all(t, task, time.Time{})
	wantNotes(t, notes, "a/0@10")
}

// F-214: a task without any record has nothing to wait for.
func TestF214NoRecordsNoDeadline(t *testing.T) {
	task, notes := bench(time.Second, "a", "b")
	all(t, task, time.Unix(1, 0))
	wantNotes(t, notes, "")
	if at, ok := task.idleDeadline(); ok {
		t.Errorf("it waits until %v", at)
	}
}

// F-218: what may be committed is the next record that waits, or the position behind records, markers and skipped records alike.
func TestF218CommittedOffset(t *testing.T) {
	task, _ := bench(0, "a")
	b := task.buffers[0]
	p := b.TopicPartition
	offsets := func() string {
		var list []string
		for _, c := range task.offsets() {
			ms, _ := decodeMetadata(c.Metadata)
			list = append(list, fmt.Sprintf("%d@%d", c.Offset, ms))
		}
		return strings.Join(list, " ")
	}
	b.add(Batch{TopicPartition: p, Records: []Record{{Offset: 3, Timestamp: 7}, {Offset: 5, Timestamp: 9}}, Next: 7, End: 9})
	if got := offsets(); got != "3@-1" {
		t.Errorf("before the first record: %s", got)
	}
	if _, err := task.process(time.Time{}, 1); err != nil {
		t.Fatal(err)
	}
	if got := offsets(); got != "5@7" {
		t.Errorf("after one record: %s", got)
	}
	all(t, task, time.Time{})
	if got := offsets(); got != "7@9" {
		t.Errorf("after both, and a marker: %s", got)
	}
	b.add(Batch{TopicPartition: p, Records: []Record{{Offset: 7, Timestamp: -1}}, Next: 8, End: 9})
	task.dirty = false
	all(t, task, time.Time{})
	if got := offsets(); got != "8@9" || !task.dirty {
		t.Errorf("after a skipped record: %s, dirty %v", got, task.dirty)
	}
	task.committed[p] = 8
	if got := offsets(); got != "" {
		t.Errorf("when nothing moved: %s", got)
	}
}

// Batches are given back when their last record is done, and all of them when the buffer is cleared.
func TestBatchesAreReleased(t *testing.T) {
	task, _ := bench(0, "a")
	b := task.buffers[0]
	var released []int64
	add := func(first int64, n int) {
		batch := Batch{TopicPartition: b.TopicPartition, Next: first + int64(n), End: 100, Release: func() { released = append(released, first) }}
		for i := range n {
			batch.Records = append(batch.Records, Record{Offset: first + int64(i)})
		}
		b.add(batch)
	}
	add(0, 2)
	add(2, 0)
	add(2, 2)
	add(4, 2)
	if !slices.Equal(released, []int64{2}) {
		t.Errorf("at first %v is released", released)
	}
	if _, err := task.process(time.Time{}, 3); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(released, []int64{2, 0}) || b.records != 3 || b.offset() != 3 {
		t.Errorf("after three records %v is released, %d wait, the next is %d", released, b.records, b.offset())
	}
	b.clear()
	if !slices.Equal(released, []int64{2, 0, 2, 4}) || !b.empty() {
		t.Errorf("in the end %v is released, %d wait", released, b.records)
	}
}
