// Package state keeps the local state of tasks: key-value, window and session stores, and the offsets that say how much of the input and of the
// changelogs they hold.
//
// # One task, one database
//
// [Open] gives the [Stores] of a task. All its persistent stores share one [DB] under key prefixes; stores that are declared in memory share a second
// one that lives in memory. Data and offsets are written in one batch, so that they are one atom at every crash point.
//
// # Write set and commit
//
// A store is a [DB] below and a write set above it: a hash table of the rows that were written since the last commit, and of rows read lately. Reads
// see the write set first. [Stores.Commit] applies the write sets of all stores and the offsets as one batch, [Stores.Discard] throws the write sets
// away, which leaves every store, also one in memory, as the last commit left it.
//
// A store with caching tells its changelog and its flush listener about each updated row once, at [Stores.Flush], in the order of the last updates. A
// store without caching tells its changelog at each update.
//
//	            Put                  Flush                        Commit
//	record ──▶ write set ──▶ changelog, flush listener ──▶ one batch: rows, offsets
//	                └──────────────────── Discard ◀── an aborted transaction
//
// # Who may call
//
// Stores and everything reached through them belong to one goroutine at a time; handing them on needs a happens-before edge, such as a channel.
// [Stores.Snapshot] is the exception: it may be called by anyone at any time and gives a read-only view of the last commit.
//
// # Times and offsets
//
// Times are milliseconds since the epoch; -1 means unknown. An offset is always the next offset to read, and "none" is told apart from 0 by a second
// result.
package state
