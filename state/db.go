package state

// Engine opens databases. Package pebblestore has the one for disks, [MemoryEngine] is the one for memory.
type Engine interface {
	// Open opens the database in dir, and makes it if there is none.
	Open(dir string) (DB, error)
}

// DB is an ordered space of byte keys. One goroutine owns it; Snapshot and Metrics may be called by anyone until Close.
type DB interface {
	Reader
	// NewBatch returns an empty batch; size is a guess of its length in bytes.
	NewBatch(size int) Batch
	// NewBulk returns a loader of sorted rows for restoring.
	NewBulk() (Bulk, error)
	// Snapshot returns a view of what is committed now.
	Snapshot() (Snapshotter, error)
	// ApproximateCount returns about how many rows there are with lower ≤ key < upper.
	ApproximateCount(lower, upper []byte) (int64, error)
	// Flush makes every committed batch durable.
	Flush() error
	// Close flushes and releases the database. Snapshots and cursors must have been closed.
	Close() error
	// Metrics tells sizes.
	Metrics() DBMetrics
}

// Reader reads committed rows.
type Reader interface {
	// Get appends the value of key to dst.
	Get(dst, key []byte) (value []byte, ok bool, err error)
	// NewCursor returns a cursor over what is committed now; batches committed later don't show.
	NewCursor() (Cursor, error)
}

// Snapshotter is a view of a database at one moment. It may be used by one goroutine at a time, not necessarily the owner of the database.
type Snapshotter interface {
	Reader
	Close() error
}

// Cursor walks rows in key order. Keys and values are valid until the next call.
type Cursor interface {
	// SetBounds confines the cursor to lower ≤ key < upper and leaves it unpositioned. Both slices must stay as they are until the next SetBounds.
	SetBounds(lower, upper []byte)
	First() bool
	Last() bool
	Next() bool
	Prev() bool
	Key() []byte
	Value() []byte
	Err() error
	Close() error
}

// Batch collects writes that are applied as one atom. It is used once.
type Batch interface {
	// Set makes room for a row, to be filled before the next call.
	Set(keyLen, valueLen int) (key, value []byte)
	// Delete makes room for the key of a row to delete, to be filled before the next call.
	Delete(keyLen int) (key []byte)
	// DeleteRange deletes lower ≤ key < upper of what was committed before.
	DeleteRange(lower, upper []byte)
	// Commit applies the batch and releases it. After an error nothing was applied.
	Commit() error
	// Abandon releases a batch that is not to be committed.
	Abandon()
}

// Bulk collects rows in ascending order of keys, each key once, and adds them as one atom.
type Bulk interface {
	Set(key, value []byte) error
	Delete(key []byte) error
	// Commit applies the rows and releases the loader. After an error nothing was applied.
	Commit() error
	// Abandon releases a loader that is not to be committed.
	Abandon()
}

// DBMetrics are sizes of a database.
type DBMetrics struct {
	DiskBytes   int64 // on disk
	MemoryBytes int64 // rows held in memory and not yet flushed
}
