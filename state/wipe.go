package state

import (
	"fmt"
	"maps"
)

// WipeStore empties one store and forgets its changelog offset, so that it will be restored from the start: the remedy for a *[ForeignError] about its
// topic, and for an offset that its changelog no longer reaches. Of an orphan nothing stays. The reason goes to the log.
func (s *Stores) WipeStore(store, reason string) error {
	if err := s.usable(); err != nil {
		return err
	}
	for _, h := range s.homes {
		m, ok := h.meta.stores[store]
		if !ok {
			continue
		}
		if err := s.wipeStore(h, store, m); err != nil {
			return s.fail(fmt.Errorf("state: wipe of store %q of task %s: %w", store, s.opts.Task, err))
		}
		s.wipes++
		s.log.Warn("wiped a store", "store", store, "reason", reason)
		return nil
	}
	return fmt.Errorf("%w: wipe of %q", ErrNoStore, store)
}

// Wipes returns how many stores were wiped since the task was opened.
func (s *Stores) Wipes() int { return s.wipes }

func (s *Stores) wipeStore(h *home, store string, m storeMeta) error {
	next := h.meta
	next.owned = true
	next.stores = maps.Clone(h.meta.stores)
	l := layout{}
	b := h.db.NewBatch(256)
	if st := s.byName[store]; st != nil {
		r := st.rows()
		l = r.layout
		fresh := newStoreMeta(r.spec, m.id)
		fresh.interval = m.interval
		next.stores[store] = fresh
		r.forget(true)
		r.restore, r.observed, r.flushed, r.seq = nil, -1, -1, 0
	} else {
		l.prefix = prefixOf(m.id)
		delete(next.stores, store)
		key := metaKey(metaStore, store)
		copy(b.Delete(len(key)), key)
	}
	if err := h.releaseCursors(); err != nil {
		b.Abandon()
		return err
	}
	b.DeleteRange(l.prefix[:], successor(append([]byte(nil), l.prefix[:]...)))
	for _, row := range s.metaRows(h, next) {
		key, value := b.Set(len(row.key), len(row.value))
		copy(key, row.key)
		copy(value, row.value)
	}
	return s.apply(h, b, next)
}
