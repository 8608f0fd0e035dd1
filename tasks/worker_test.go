package tasks

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/millrace/millrace/state"
)

// M-26: under exactly once the commit before a revocation covers all tasks of the producer, otherwise only those that go. Fetching ends before the commit.
func TestM26RevokeCommitsAllTasksOfTheProducer(t *testing.T) {
	for _, eos := range []bool{true, false} {
		t.Run(fmt.Sprintf("exactly once %v", eos), func(t *testing.T) {
			play(t, func(c *Config) { c.ExactlyOnce = eos }, func(s *scene) {
				s.consumer.steps = &s.producer.steps
				s.assign(0, 1)
				s.input(0, 0, "a=1", "b=2")
				s.input(1, 0, "c=3")
				s.want("before", s.producer.history(), "")
				if err := s.command(Command{Kind: Revoke, Tasks: ids(0)}); err != nil {
					t.Fatal(err)
				}
				want := "stop in-0; flush; commit in-0=2,in-1=1; stop in-0"
				if !eos {
					want = "stop in-0; flush; commit in-0=2; stop in-0"
				}
				s.want("revoke", s.producer.history(), want)
				s.want("states", s.states(), "0_0 suspended, 0_1 running")
			})
		})
	}
}

// M-63: nothing is committed for a task that was given away, even if records of it still arrive.
func TestM63ReleasedTasksAreNotCommitted(t *testing.T) {
	play(t, exactlyOnce, func(s *scene) {
		s.assign(0, 1)
		s.input(0, 0, "a=1")
		if err := s.command(Command{Kind: Revoke, Tasks: ids(0)}); err != nil {
			t.Fatal(err)
		}
		s.producer.history()
		s.input(0, 1, "a=2", "a=3")
		s.input(1, 0, "b=1")
		s.assign(1)
		s.input(0, 3, "a=4")
		s.stop()
		<-s.done
		s.want("last commit", s.producer.history(), "flush; commit in-1=1")
		if n := s.consumer.waiting(); n != 0 {
			t.Errorf("the consumer still waits for %d records", n)
		}
	})
}

// M-31: after a loss nothing is committed, the transaction is aborted, the producer begins anew, and directories stay.
func TestM31Lost(t *testing.T) {
	play(t, exactlyOnce, func(s *scene) {
		s.assign(0, 1)
		s.input(0, 0, "a=1")
		if err := s.command(Command{Kind: Lose}); err != nil {
			t.Fatal(err)
		}
		s.want("loss", s.producer.history(), "reset")
		s.want("states", s.states(), "")
		if s.dir.held != 0 || len(s.dir.wiped) > 0 {
			t.Errorf("%d directories are held, wiped %q", s.dir.held, s.dir.wiped)
		}
		for i, p := range s.programs {
			if p.opens != 1 || p.close != 1 {
				t.Errorf("program %d was opened %d times and closed %d times", i, p.opens, p.close)
			}
		}
		s.assign(0)
		if from := s.consumer.from[in(0)]; from != 0 {
			t.Errorf("it goes on at %d, want 0: nothing was committed", from)
		}
	})
}

// M-52: a refused commit loses all tasks at once. Until the group says so there is no other commit and no processing.
func TestM52RefusedCommit(t *testing.T) {
	play(t, func(c *Config) { c.ExactlyOnce, c.CommitInterval = true, 100*time.Millisecond }, func(s *scene) {
		s.assign(0, 1)
		s.producer.refuse = []error{fmt.Errorf("%w: STALE_MEMBER_EPOCH", ErrMigrated)}
		s.input(0, 0, "a=1")
		<-time.After(time.Second)
		synctest.Wait()
		s.want("commit", s.producer.history(), "flush; refused in-0=1")
		s.want("states", s.states(), "")
		if s.group.migrated != 1 {
			t.Errorf("the group heard %d times of it", s.group.migrated)
		}
		s.input(0, 1, "a=2")
		<-time.After(time.Second)
		s.want("meanwhile", s.producer.history(), "")
		if err := s.command(Command{Kind: Lose}); err != nil {
			t.Fatal(err)
		}
		s.want("loss", s.producer.history(), "reset")
		s.assign(0)
		s.input(0, 0, "a=1", "a=2")
		<-time.After(time.Second)
		s.want("afterwards", s.producer.history(), "flush; commit in-0=2")
	})
}

// M-52: the epoch is looked at before the commit, so a worker that is no member does not even try.
func TestM52NoMemberNoCommit(t *testing.T) {
	play(t, func(c *Config) { c.ExactlyOnce, c.CommitInterval = true, 100*time.Millisecond }, func(s *scene) {
		s.assign(0)
		s.group.mu.Lock()
		s.group.epoch = 0
		s.group.mu.Unlock()
		s.input(0, 0, "a=1")
		<-time.After(time.Second)
		s.want("commit", s.producer.history(), "flush")
		s.want("states", s.states(), "")
	})
}

// B-028: a transaction that failed, or of which nobody knows, is no failure of the worker: all its tasks start again from their last commit.
func TestB028FailedTransactionStartsAgain(t *testing.T) {
	for _, cause := range []error{ErrAborted, ErrUnknownOutcome} {
		play(t, func(c *Config) { c.ExactlyOnce, c.CommitInterval = true, 100*time.Millisecond }, func(s *scene) {
			s.assign(0, 1)
			s.input(0, 0, "a=1")
			<-time.After(time.Second)
			s.want("first commit", s.producer.history(), "flush; commit in-0=1")
			s.log.setCommitted(in(0), 1)
			s.log.setBounds(in(0), Bounds{0, 2})
			s.log.setBounds(changelogOf(0), Bounds{0, 1})
			s.producer.refuse = []error{cause}
			s.input(0, 1, "a=2")
			<-time.After(time.Second)
			s.want("second commit", s.producer.history(), "flush; refused in-0=2; reset")
			s.want("states", s.states(), "0_0 running, 0_1 running")
			if from := s.consumer.from[in(0)]; from != 1 {
				t.Errorf("it goes on at %d, want 1", from)
			}
			last, ok, err := s.lookUp("a")
			if err != nil || !ok || last != "1" {
				t.Errorf("the store holds %q (%v, %v), want the value of the last commit", last, ok, err)
			}
			s.input(0, 1, "a=2")
			<-time.After(time.Second)
			s.want("third commit", s.producer.history(), "flush; commit in-0=2")
			if n := s.consumer.waiting(); n != 0 {
				t.Errorf("the consumer still waits for %d records", n)
			}
		})
	}
}

// M-42: new tasks wait until the group is ready, tasks that run go on; M-62: an unchanged assignment changes nothing.
func TestM42NotReady(t *testing.T) {
	play(t, func(c *Config) { c.CommitInterval = 100 * time.Millisecond }, func(s *scene) {
		s.assign(0)
		if err := s.command(Command{Kind: Assign, Active: ids(0, 1)}); err != nil {
			t.Fatal(err)
		}
		s.want("states", s.states(), "0_0 running, 0_1 restoring")
		s.input(0, 0, "a=1")
		<-time.After(time.Second)
		s.want("commit", s.producer.history(), "flush; commit in-0=1")
		s.assign(0, 1)
		s.want("states when ready", s.states(), "0_0 running, 0_1 running")
		if len(s.programs) != 2 {
			t.Errorf("%d programs were made for two tasks", len(s.programs))
		}
	})
}

// B-041: a record without a time is skipped, and the consumer learns of it: otherwise it would think that the record still waits, and stop fetching at last.
func TestB041SkippedRecordsMakeRoom(t *testing.T) {
	play(t, func(c *Config) { c.CommitInterval = 100 * time.Millisecond }, func(s *scene) {
		s.assign(0)
		s.input(0, 0, "a=untimely", "a=1", "a=untimely", "a=untimely")
		if n := s.consumer.waiting(); n != 0 {
			t.Errorf("the consumer still waits for %d records", n)
		}
		<-time.After(time.Second)
		s.want("commit", s.producer.history(), "flush; commit in-0=4")
	})
}

// B-043: a panic ends the worker with an error that says where. Nothing is committed, the transaction is aborted, everything is given back.
func TestB043PanicOfAProgram(t *testing.T) {
	for value, want := range map[string]string{
		"panic": "tasks: process 0_0: boom while processing offset 1",
		"fail":  "tasks: process 0_0: a bad record",
	} {
		play(t, exactlyOnce, func(s *scene) {
			s.assign(0, 1)
			s.input(0, 0, "a=1", "a="+value, "a=3")
			<-s.done
			if s.err == nil || s.err.Error() != want {
				t.Errorf("got %v, want %s", s.err, want)
			}
			if e, ok := errors.AsType[*Error](s.err); !ok || e.Task != id(0) || e.Op != "process" {
				t.Errorf("%#v is no error of task 0_0", s.err)
			}
			s.want("producer", s.producer.history(), "abort")
			if n := s.consumer.waiting(); n != 0 {
				t.Errorf("the consumer still waits for %d records", n)
			}
			if s.dir.held != 0 {
				t.Errorf("%d directories are held", s.dir.held)
			}
		})
	}
}

// A worker that fails is not settled, although it has no task left that does not run.
func TestB059EndIsNotSettled(t *testing.T) {
	var told []bool
	play(t, func(c *Config) { c.OnSettled = func(settled bool) { told = append(told, settled) } }, func(s *scene) {
		s.log.setBounds(changelogOf(0), Bounds{0, 3})
		s.assign(0)
		if err := s.command(Command{Kind: Fail, Err: errors.New("over")}); err != nil {
			t.Fatal(err)
		}
		<-s.done
		if s.err == nil || len(told) > 0 {
			t.Errorf("ended with %v, settled %v", s.err, told)
		}
	})
}

// B-061: what goes wrong while a worker ends does not hide why it ended, and keeps nothing else from being closed.
func TestB061FirstErrorIsTheCause(t *testing.T) {
	play(t, exactlyOnce, func(s *scene) {
		s.assign(0, 1, 2)
		s.input(1, 0, "a=1")
		worst := errors.New("the disk is gone")
		s.worker.cfg.NewProgram = nil
		for _, task := range s.worker.order {
			task.program = badEnd{task.program, worst}
		}
		s.input(1, 1, "a=fail")
		<-s.done
		lines := strings.Split(s.err.Error(), "\n")
		if lines[0] != "tasks: process 0_1: a bad record" || len(lines) != 4 || !errors.Is(s.err, worst) {
			t.Errorf("got %q", lines)
		}
		if s.dir.held != 0 {
			t.Errorf("%d directories are held", s.dir.held)
		}
		if err := s.worker.shutDown(s.t.Context(), nil); err != nil {
			t.Errorf("a second end: %v", err)
		}
	})
}

type badEnd struct {
	Program
	err error
}

func (b badEnd) Close() error { return b.err }

// B-017: a fetch may bring something for one partition and nothing for another one. That says nothing about where the other one is read.
func TestB017EmptyBatchOfAChangelog(t *testing.T) {
	play(t, nil, func(s *scene) {
		s.log.setBounds(changelogOf(0), Bounds{0, 3})
		empty := Batch{TopicPartition: changelogOf(0), Next: -1, End: 3}
		s.changes.batches = func(int) []Batch { return []Batch{update(0, 0, 3, "a", "0"), empty, update(0, 1, 3, "a", "1"), empty} }
		s.assign(0)
		list, _ := s.worker.Status()
		if len(list) != 1 || list[0].WaitsFor != "changelog app-last-changelog at 2 of 3" {
			t.Errorf("status: %+v", list)
		}
		task := s.worker.order[0]
		task.restore.stop()
		if err := task.stores.FinishRestore("last"); err != nil {
			t.Fatal(err)
		}
		if next, ok := task.stores.ChangelogOffset("last"); !ok || next != 2 {
			t.Errorf("the store is at offset %d (%v), want 2", next, ok)
		}
	})
}

// B-017: a task that comes back to a worker was written to elsewhere. What the worker's producer knew of the changelog is no longer its position.
func TestB017PositionOfATaskThatCameBack(t *testing.T) {
	play(t, func(c *Config) { c.CommitInterval = 100 * time.Millisecond }, func(s *scene) {
		position := func() int64 {
			synctest.Wait()
			next, _ := s.worker.order[0].stores.ChangelogOffset("last")
			return next
		}
		s.assign(0)
		s.input(0, 0, "a=1")
		<-time.After(time.Second)
		if next := position(); next != 1 {
			t.Fatalf("the store is at %d, want 1", next)
		}
		if err := s.command(Command{Kind: Revoke, Tasks: ids(0)}); err != nil {
			t.Fatal(err)
		}
		s.assign()
		s.log.setBounds(changelogOf(0), Bounds{0, 50})
		s.log.setBounds(in(0), Bounds{0, 50})
		s.log.setCommitted(in(0), 50)
		s.changes.batches = func(int) []Batch { return []Batch{update(0, 49, 50, "a", "49")} }
		s.assign(0)
		s.want("states", s.states(), "0_0 running")
		s.input(0, 50, "a=pass")
		<-time.After(time.Second)
		if next := position(); next != 50 {
			t.Errorf("the store is at %d, want 50", next)
		}
	})
}

// B-047: records are deleted that a running task has not read yet. The reset policy decides where to go on, as it does at a start.
func TestB047PositionFallsOutOfTheLog(t *testing.T) {
	play(t, func(c *Config) { c.CommitInterval = 100 * time.Millisecond }, func(s *scene) {
		s.log.setBounds(in(0), Bounds{0, 1000})
		s.assign(0)
		s.input(0, 0, "a=1")
		<-time.After(time.Second)
		s.log.setCommitted(in(0), 1)
		s.log.setBounds(in(0), Bounds{500, 1000})
		s.arrive(Batch{TopicPartition: in(0), Next: -1, End: -1, Err: fmt.Errorf("%w: position 1", ErrOutOfRange)})
		s.want("states", s.states(), "0_0 running")
		if from := s.consumer.from[in(0)]; from != 500 {
			t.Errorf("it goes on at %d, want 500", from)
		}
		s.input(0, 500, "a=2")
		<-time.After(time.Second)
		s.want("commits", s.producer.history(), "flush; commit in-0=1; flush; commit in-0=501")
	})
}

// B-015: the changelog loses its beginning while it is read: the store is emptied, and restored from where the changelog begins now.
func TestB015ChangelogIsCutWhileItIsRead(t *testing.T) {
	play(t, nil, func(s *scene) {
		s.log.setBounds(changelogOf(0), Bounds{0, 3})
		s.changes.batches = func(n int) []Batch {
			if n > 0 {
				return []Batch{update(0, 2, 3, "new", "2")}
			}
			s.log.setBounds(changelogOf(0), Bounds{2, 3})
			lost := Batch{TopicPartition: changelogOf(0), Next: -1, End: -1, Err: fmt.Errorf("%w: position 1", ErrOutOfRange)}
			return []Batch{update(0, 0, 3, "old", "1"), lost}
		}
		s.assign(0)
		<-time.After(time.Second)
		s.want("states", s.states(), "0_0 running")
		if _, ok, err := s.lookUp("old"); ok || err != nil {
			t.Errorf("a row of the lost part is there: %v, %v", ok, err)
		}
		if last, ok, err := s.lookUp("new"); !ok || err != nil || last != "2" {
			t.Errorf("the new row is %q (%v, %v)", last, ok, err)
		}
	})
}

// M-26: a task that is taken away without having been revoked leaves its part of the transaction uncommitted, which takes the parts of the others with it.
func TestM26TakenAwayWithoutRevoke(t *testing.T) {
	play(t, exactlyOnce, func(s *scene) {
		s.assign(0, 1)
		s.input(0, 0, "a=1")
		s.input(1, 0, "b=1")
		s.assign(1)
		s.want("producer", s.producer.history(), "reset")
		s.want("states", s.states(), "0_1 running")
		if from := s.consumer.from[in(1)]; from != 0 {
			t.Errorf("the other task goes on at %d, want 0", from)
		}
		s.input(1, 0, "b=1")
		s.stop()
		<-s.done
		s.want("last commit", s.producer.history(), "flush; commit in-1=1")
	})
}

// B-058: the disk is full when the stores apply a commit that the group already has. The worker ends with an error that names the path, commits nothing after
// it, and gives everything back. A restart restores what the stores did not take.
func TestB058DiskFull(t *testing.T) {
	disk := &smallDisk{}
	play(t, func(c *Config) { c.CommitInterval, c.Engine = 100*time.Millisecond, disk }, func(s *scene) {
		s.assign(0, 1)
		s.input(0, 0, "a=1")
		<-time.After(time.Second)
		s.want("first commit", s.producer.history(), "flush; commit in-0=1")
		disk.full.Store(true)
		s.input(0, 1, "a=2")
		<-s.done
		full, ok := errors.AsType[*state.FullError](s.err)
		if !ok || full.Path != "/state/0_0" || !strings.HasPrefix(s.err.Error(), "tasks: commit 0_0: ") || !strings.Contains(s.err.Error(), full.Error()) {
			t.Errorf("the worker ended with %v", s.err)
		}
		s.want("end", s.producer.history(), "flush; commit in-0=2; abort")
		if s.dir.held != 0 || len(s.dir.wiped) > 0 {
			t.Errorf("%d directories are held, wiped %q", s.dir.held, s.dir.wiped)
		}
	})
}

// smallDisk is an engine whose disk can run full.
type smallDisk struct{ full atomic.Bool }

func (d *smallDisk) Open(dir string) (state.DB, error) {
	return smallDB{state.NewMemoryDB(), d, dir}, nil
}

type smallDB struct {
	state.DB
	disk *smallDisk
	dir  string
}

func (d smallDB) NewBatch(size int) state.Batch { return smallBatch{d.DB.NewBatch(size), d} }

type smallBatch struct {
	state.Batch
	db smallDB
}

func (b smallBatch) Commit() error {
	if b.db.disk.full.Load() {
		b.Abandon()
		return &state.FullError{Path: b.db.dir, Err: syscall.ENOSPC}
	}
	return b.Batch.Commit()
}

// B-062: readers of a store do not keep a task from being closed.
func TestB062OpenSnapshotDoesNotHoldTheTask(t *testing.T) {
	play(t, nil, func(s *scene) {
		s.assign(0)
		s.input(0, 0, "a=1")
		snapshot, err := s.worker.order[0].stores.Snapshot()
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if err := s.command(Command{Kind: Revoke, Tasks: ids(0)}); err != nil {
			t.Fatal(err)
		}
		s.assign()
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("the task was closed after %v", took)
		}
		view, err := snapshot.KeyValue("last")
		if err == nil {
			_, _, _, err = view.Get([]byte("a"))
		}
		if !errors.Is(err, state.ErrClosed) {
			t.Errorf("a reader that was cut off gets %v", err)
		}
		if err := snapshot.Close(); err != nil {
			t.Error(err)
		}
	})
}
