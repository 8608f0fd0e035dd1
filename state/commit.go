package state

import (
	"fmt"
	"maps"
	"slices"
)

// Commit applies the updates since the last commit and the offsets as one batch. Stores with caching must have been flushed. Iterators expire.
//
// After an error nothing was applied, and the stores can only be closed: a *[FullError] if there was no space.
func (s *Stores) Commit(p CommitPoint) error {
	if err := s.usable(); err != nil {
		return err
	}
	for name := range p.ChangelogOffsets {
		if s.byName[name] == nil {
			return fmt.Errorf("%w: commit of a changelog offset of %q", ErrNoStore, name)
		}
	}
	for _, st := range s.list {
		r := st.rows()
		if r.set.live > 0 {
			return fmt.Errorf("state: commit of store %q with %d updates that were not flushed", r.spec.Name, r.set.live)
		}
		if err := r.settle(); err != nil {
			return s.fail(err)
		}
	}
	for i, h := range s.homes {
		if err := s.commitHome(h, p, i == 0); err != nil {
			return s.fail(fmt.Errorf("state: commit of task %s: %w", s.opts.Task, err))
		}
	}
	for _, st := range s.list {
		st.rows().forget(false)
	}
	return s.releaseCursors()
}

// commitHome applies one database's part. The first database has the task's metadata.
func (s *Stores) commitHome(h *home, p CommitPoint, first bool) error {
	next := meta{owned: true, stores: maps.Clone(h.meta.stores), inputs: h.meta.inputs, streamTime: h.meta.streamTime}
	if first {
		next.streamTime = max(next.streamTime, p.StreamTime)
		if len(p.InputOffsets) > 0 {
			next.inputs = maps.Clone(next.inputs)
			maps.Copy(next.inputs, p.InputOffsets)
		}
	}
	size := 256
	var stores []*rowStore
	for _, st := range s.list {
		r := st.rows()
		if r.home != h {
			continue
		}
		stores = append(stores, r)
		size += int(r.set.dirtyBytes) - len(r.set.dirty)*(entrySize-24)
		m := r.nextMeta()
		if offset, ok := p.ChangelogOffsets[r.spec.Name]; ok {
			m.next = offset
		}
		if id, ok := p.TopicIDs[r.spec.Name]; ok {
			m.topicID = id
		}
		next.stores[r.spec.Name] = m
	}
	slices.SortFunc(stores, func(a, b *rowStore) int { return int(a.meta.id) - int(b.meta.id) })
	b := h.db.NewBatch(size)
	for _, row := range s.metaRows(h, next) {
		key, value := b.Set(len(row.key), len(row.value))
		copy(key, row.key)
		copy(value, row.value)
	}
	for _, r := range stores {
		r.writeRows(b, next.stores[r.spec.Name].floor)
	}
	return s.apply(h, b, next)
}

// apply commits a batch and makes its metadata the current one.
func (s *Stores) apply(h *home, b interface{ Commit() error }, next meta) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := b.Commit(); err != nil {
		return err
	}
	h.meta = next
	for _, st := range s.list {
		if r := st.rows(); r.home == h {
			r.meta = next.stores[r.spec.Name]
		}
	}
	s.publish()
	return nil
}

// publish makes the current metadata that of new snapshots. Unless called by Open the caller holds s.mu.
func (s *Stores) publish() {
	c := committed{inputs: s.homes[0].meta.inputs, streamTime: s.homes[0].meta.streamTime, stores: s.homes[0].meta.stores}
	if len(s.homes) > 1 {
		c.stores = maps.Clone(c.stores)
		maps.Copy(c.stores, s.homes[1].meta.stores)
	}
	s.mu.committed = c
}

// nextMeta returns the store's metadata with what its updates changed.
func (s *rowStore) nextMeta() storeMeta {
	m := s.meta
	m.observed, m.seq = s.observed, s.seq
	if s.layout.tail > 0 {
		m.floor = max(m.floor, s.layout.segment(min(s.observed-s.layout.retention, s.keepFrom)))
	}
	return m
}

// writeRows adds the dirty rows to a batch, sorted, and drops the segments below floor.
func (s *rowStore) writeRows(b Batch, floor int64) {
	if floor > s.meta.floor {
		s.dropSegments(b, floor)
	}
	w := s.set
	n := len(w.dirty)
	if n == 0 {
		return
	}
	suffix := func(i uint32) []byte { return w.at(w.dirty[i]).key }
	if s.layout.tail > 0 {
		suffixes := make([][]byte, n)
		var buf []byte
		for i, row := range w.dirty {
			at := len(buf)
			buf = s.layout.appendSuffix(buf, w.at(row).key)
			suffixes[i] = buf[at:len(buf):len(buf)] // stays right when buf moves
		}
		suffix = func(i uint32) []byte { return suffixes[i] }
	}
	order, _ := sortRows(n, suffix, nil, nil)
	var index []byte
	for i, o := range order {
		if i%gather == 0 {
			w.touchRows(order[i:min(i+gather, n)])
		}
		e, suffix := w.at(w.dirty[o.i]), suffix(o.i)
		switch {
		case s.layout.tail > 0 && s.layout.segment(s.layout.time(e.key)) < floor:
		case e.flags&absent != 0:
			key := b.Delete(prefixLen + len(suffix))
			copy(key[copy(key, s.layout.prefix[:]):], suffix)
			if s.layout.indexed {
				index = s.layout.appendIndex(index[:0], e.key)
				key := b.Delete(prefixLen + len(index))
				copy(key[copy(key, s.layout.prefix[:]):], index)
			}
		default:
			n := len(e.value)
			if s.layout.timestamped {
				n += timestampLen
			}
			key, value := b.Set(prefixLen+len(suffix), n)
			copy(key[copy(key, s.layout.prefix[:]):], suffix)
			s.layout.appendValue(value[:0], e.value, e.ts)
			if s.layout.indexed {
				index = s.layout.appendIndex(index[:0], e.key)
				key, _ := b.Set(prefixLen+len(index), 0)
				copy(key[copy(key, s.layout.prefix[:]):], index)
			}
		}
	}
}

// touchRows reads dirty rows' first bytes, see [restoreBuffer.touch].
func (w *writeSet) touchRows(rows []sortKey) {
	var sum byte
	for _, o := range rows {
		e := w.at(w.dirty[o.i])
		if len(e.key) > 0 && len(e.value) > 0 {
			sum += e.key[0] + e.value[0]
		}
	}
	w.touched += sum
}

// dropSegments deletes the segments from the one that was the first so far up to floor.
func (s *rowStore) dropSegments(b Batch, floor int64) {
	lower := appendInt64(append([]byte(nil), s.layout.prefix[:]...), s.meta.floor)
	upper := appendInt64(append([]byte(nil), s.layout.prefix[:]...), floor)
	b.DeleteRange(lower, upper)
	if s.layout.indexed {
		b.DeleteRange(s.layout.indexBound(s.meta.floor*s.layout.interval), s.layout.indexBound(floor*s.layout.interval))
	}
}

// Discard throws away the updates since the last commit, those of stores in memory too. Iterators expire.
func (s *Stores) Discard() error {
	if err := s.usable(); err != nil {
		return err
	}
	for _, st := range s.list {
		r := st.rows()
		r.forget(true)
		r.observed, r.flushed, r.seq = r.meta.observed, r.meta.observed, r.meta.seq
	}
	return s.releaseCursors()
}

// usable returns why the stores are not.
func (s *Stores) usable() error {
	return s.failed
}

// fail makes the stores unusable for writing.
func (s *Stores) fail(err error) error {
	s.failed = err
	return err
}

func (s *Stores) releaseCursors() error {
	for _, h := range s.homes {
		if err := h.releaseCursors(); err != nil {
			return err
		}
	}
	return nil
}

// Sync makes the last commit durable, which otherwise happens now and then and at Close.
func (s *Stores) Sync() error {
	if err := s.usable(); err != nil {
		return err
	}
	for _, h := range s.homes {
		if err := h.db.Flush(); err != nil {
			return s.fail(fmt.Errorf("state: sync of task %s: %w", s.opts.Task, err))
		}
	}
	return nil
}
