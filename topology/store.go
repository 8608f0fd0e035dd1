package topology

import "time"

// StoreKind is the shape of a store: how its keys are laid out and what its changelog looks like.
type StoreKind uint8

// The kinds of stores.
const (
	KeyValueStore  StoreKind = iota // one value per key
	WindowStore                     // one value (or, with Duplicates, many) per key and window start
	SessionStore                    // one value per key and session
	VersionedStore                  // the history of each key
	BufferStore                     // what a suppression holds back, by key; always in memory
)

// String returns the kind in lower case.
func (k StoreKind) String() string {
	switch k {
	case KeyValueStore:
		return "key-value"
	case WindowStore:
		return "window"
	case SessionStore:
		return "session"
	case VersionedStore:
		return "versioned"
	case BufferStore:
		return "buffer"
	}
	return "unknown"
}

// Store declares a state store. It is data only: package state makes the store of a task from it.
type Store struct {
	Name string
	Kind StoreKind

	Timestamped bool // values carry the time of their last update, as Kafka Streams' timestamped stores do
	InMemory    bool // kept in memory and restored whole at each start
	Caching     bool // updates of one key within a commit interval reach changelog and downstream once
	Logging     bool // has a changelog
	Headers     bool // its changelog carries the headers of records

	ChangelogConfig map[string]string // overrides of changelog topic settings
	SourceTopic     string            // a source topic that serves as the changelog; empty: a changelog of its own

	WindowSize time.Duration // WindowStore
	Retention  time.Duration // how long rows (WindowStore, SessionStore) or history (VersionedStore) are kept, counted back from the store's stream time
	Duplicates bool          // WindowStore: rows of one key and start do not replace each other
	TimeIndex  bool          // WindowStore, SessionStore: rows can be walked in the order of time over all keys
}
