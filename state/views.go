package state

import (
	"math"

	"github.com/millrace/millrace/topology"
)

// KeyValueView is a key-value store in a snapshot, see [KeyValue]. Values are the caller's to keep.
type KeyValueView struct{ view }

// KeyValue returns the key-value store of a name.
func (sn *Snapshot) KeyValue(name string) (*KeyValueView, error) {
	v, err := sn.view(name, topology.KeyValueStore)
	return &KeyValueView{v}, err
}

// Get returns the value of a key and its time.
func (v *KeyValueView) Get(key []byte) (value []byte, ts int64, ok bool, err error) {
	return v.get(key)
}

// Range walks the keys from..to, both inclusive; nil is open.
func (v *KeyValueView) Range(from, to []byte, reverse bool) Iterator {
	return v.iterate(allTime(from, to), reverse)
}

// All walks all keys.
func (v *KeyValueView) All(reverse bool) Iterator { return v.iterate(allTime(nil, nil), reverse) }

// Prefix walks the keys that start with prefix.
func (v *KeyValueView) Prefix(prefix []byte, reverse bool) Iterator {
	return v.iterate(prefixScan(prefix), reverse)
}

// WindowView is a window store in a snapshot, see [Window]. Values are the caller's to keep.
type WindowView struct{ view }

// Window returns the window store of a name.
func (sn *Snapshot) Window(name string) (*WindowView, error) {
	v, err := sn.view(name, topology.WindowStore)
	return &WindowView{v}, err
}

// Get returns the value of a key and window start. In a store with duplicates use Fetch.
func (v *WindowView) Get(key []byte, start int64) (value []byte, ts int64, ok bool, err error) {
	if start < oldest(v.observed, v.store.layout.retention) || start > v.observed || start < 0 {
		return nil, -1, false, nil
	}
	return v.get(AppendWindowKey(nil, key, start, 0))
}

// Fetch walks the windows of a key that start in from..to, both inclusive, by start.
func (v *WindowView) Fetch(key []byte, from, to int64, reverse bool) Iterator {
	return v.iterate(windowScan(notNil(key), notNil(key), from, to), reverse)
}

// FetchRange walks the windows of the keys first..last that start in from..to.
func (v *WindowView) FetchRange(first, last []byte, from, to int64, reverse bool) Iterator {
	return v.iterate(windowScan(first, last, from, to), reverse)
}

// All walks all windows.
func (v *WindowView) All(reverse bool) Iterator { return v.iterate(allTime(nil, nil), reverse) }

// SessionView is a session store in a snapshot, see [Session]. Values are the caller's to keep.
type SessionView struct{ view }

// Session returns the session store of a name.
func (sn *Snapshot) Session(name string) (*SessionView, error) {
	v, err := sn.view(name, topology.SessionStore)
	return &SessionView{v}, err
}

// Get returns the value of a session.
func (v *SessionView) Get(key []byte, start, end int64) (value []byte, ok bool, err error) {
	if end < oldest(v.observed, v.store.layout.retention) || end > v.observed || start < 0 {
		return nil, false, nil
	}
	value, _, ok, err = v.get(AppendSessionKey(nil, key, start, end))
	return value, ok, err
}

// Find walks the sessions of a key that end at earliestEnd or later and start at latestStart or earlier.
func (v *SessionView) Find(key []byte, earliestEnd, latestStart int64, reverse bool) Iterator {
	return v.iterate(sessionScan(notNil(key), notNil(key), earliestEnd, math.MaxInt64, latestStart), reverse)
}

// FindRange walks such sessions of the keys first..last.
func (v *SessionView) FindRange(first, last []byte, earliestEnd, latestStart int64, reverse bool) Iterator {
	return v.iterate(sessionScan(first, last, earliestEnd, math.MaxInt64, latestStart), reverse)
}

// Fetch walks all sessions of a key.
func (v *SessionView) Fetch(key []byte, reverse bool) Iterator {
	return v.Find(key, 0, math.MaxInt64, reverse)
}

// All walks all sessions.
func (v *SessionView) All(reverse bool) Iterator { return v.iterate(allTime(nil, nil), reverse) }
