// Package tasks runs the sub-topologies of a stream program: the life cycle of a task, its record buffers, stream time, punctuation, commit and
// restore, and the loop of the worker that owns tasks.
//
// A [Worker] is one goroutine. It is one member of the group and, under exactly once, one transactional producer; it owns its tasks and nothing else
// touches them, so there is no lock on the way of a record. Others speak to it by channel. The package knows nothing of Kafka's client: what it needs of
// the outside it declares as the small interfaces of port.go, which package streams implements.
//
// task.go holds the life cycle, buffer.go the record buffers and the choice of the next record, schedule.go punctuation, worker.go the loop, assign.go what
// the group says, commit.go the commit in its order, restore.go the way of a task's stores from disk and changelog to running.
package tasks
