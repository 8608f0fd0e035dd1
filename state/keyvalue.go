package state

// KeyValue is a store of one value per key, in the order of unsigned bytes.
type KeyValue struct{ rowStore }

// Get returns the value of a key and the time it was put at, -1 if the store keeps no times. The value is valid until the next write; it must not be changed.
func (s *KeyValue) Get(key []byte) (value []byte, ts int64, ok bool, err error) {
	return s.get(key)
}

// Put sets the value of a key; nil deletes it. It copies what it keeps.
func (s *KeyValue) Put(key, value []byte, ts int64, headers []Header) error {
	return s.put(key, value, ts, headers)
}

// Delete deletes a key at a time, which is that of the tombstone in the changelog.
func (s *KeyValue) Delete(key []byte, ts int64) error { return s.put(key, nil, ts, nil) }

// Range walks the keys from..to, both inclusive; nil is open. A range whose end is before its start is empty.
func (s *KeyValue) Range(from, to []byte, reverse bool) Iterator {
	return s.iterate(allTime(from, to), reverse)
}

// All walks all keys.
func (s *KeyValue) All(reverse bool) Iterator { return s.iterate(allTime(nil, nil), reverse) }

// Prefix walks the keys that start with prefix.
func (s *KeyValue) Prefix(prefix []byte, reverse bool) Iterator {
	return s.iterate(prefixScan(prefix), reverse)
}

func prefixScan(prefix []byte) scan {
	sc := allTime(prefix, nil)
	sc.upper = successor(append([]byte(nil), prefix...))
	return sc
}
