// Package pebblestore keeps databases of package state in Pebble, one per task. It is the only package that imports Pebble.
//
// # Durability
//
// There is no write-ahead log: what is lost with a process is read again from the changelog, from the offset that lies in the same batch as the rows. A
// batch becomes durable as a whole, and never before the batches committed earlier:
//
//   - A batch goes into one memtable, or is a flushable of its own, and a flush makes everything up to some point of the queue part of the database in one
//     edit of the manifest.
//   - Bulk rows are one table that is added by one edit of the manifest, after everything that was committed earlier and overlaps it. The metadata in front
//     of the rows overlaps that of every earlier batch.
//
// # Failures
//
// Pebble ends the process when it can't write its manifest, and repeats a failed flush for ever. Here the first failed write to a database's files makes
// the database failed: later writes return that error, files are no longer changed, and reads still work. Close and a new Open bring it back, as of the
// last batch that became durable.
package pebblestore
