package streams

import (
	"cmp"
	"container/heap"
	"fmt"

	"github.com/millrace/millrace/state"
	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/tasks"
	"github.com/millrace/millrace/topology"
)

// suppressor holds the changes of a table back until their time has come, or the buffer is full (F-123…F-129). Its time is the greatest of the records that
// have reached it, so nothing is let through while none comes.
type suppressor[K, V any] struct {
	base
	children[K, change[V]]
	held       *heldChanges[K, V]
	end        func(K) int64 // of the key's window, by which final results leave; nil: by the time of a key's first change
	limit      int64         // ms that have to pass after that
	maxRecords int64
	maxBytes   int64
	early      bool
	observed   int64
}

func (n *suppressor[K, V]) process(r rec[K, change[V]]) {
	n.enter()
	n.observed = max(n.observed, r.ts)
	at := r.ts
	if n.end != nil {
		at = n.end(r.key)
	}
	n.held.put(at, r, n.t.origin())
	for len(n.held.order) > 0 && n.held.order[0].time <= n.observed-n.limit {
		n.give()
	}
	if !n.full() {
		return
	}
	if !n.early {
		tasks.Throw(fmt.Errorf("%w: %s holds %d records of at most %d, and %d bytes of at most %d",
			ErrBufferFull, n.info.name, len(n.held.order), n.maxRecords, n.held.bytes, n.maxBytes))
	}
	for len(n.held.order) > 0 && n.full() {
		n.give()
	}
}

func (n *suppressor[K, V]) full() bool {
	return int64(len(n.held.order)) > n.maxRecords || n.held.bytes > n.maxBytes
}

// give lets the first change through, on behalf of the record that it came with. A deletion of what was never given is none.
func (n *suppressor[K, V]) give() {
	key, row := n.held.first()
	if row.New != nil || n.end == nil {
		r := rec[K, change[V]]{key: n.held.decodeKey(key), ts: row.Timestamp, headers: row.Headers}
		r.value.newNull = row.New == nil
		if row.New != nil {
			r.value.new = n.held.decodeValue(row.New)
		}
		if row.Old != nil {
			r.value.old, r.value.hasOld = n.held.decodeValue(row.Old), true
		}
		c := n.t.ctx
		topic, partition, offset := c.Topic, c.Partition, c.Offset
		c.From(row.Topic, row.Offset)
		n.forward(r)
		n.enter()
		c.From(topic, offset)
		c.Partition = partition
	}
	n.held.remove()
}

// heldChanges is the buffer of a suppression in a task: rows in a store, whose changelog has them, and the order in which they leave. A row stays where its
// first change has put it.
type heldChanges[K, V any] struct {
	*keyValue[K, V]
	order heldOrder
	sizes map[string]int64 // by encoded key
	bytes int64
	raw   []byte
	old   []byte
}

// heldKey is the place of a row: its time, and then its encoded key.
type heldKey struct {
	time int64
	key  string
}

type heldOrder []heldKey

func (h heldOrder) Len() int { return len(h) }
func (h heldOrder) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(h[i].time, h[j].time), cmp.Compare(h[i].key, h[j].key)) < 0
}
func (h heldOrder) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *heldOrder) Push(x any)   { *h = append(*h, x.(heldKey)) }

func (h *heldOrder) Pop() any {
	last := len(*h) - 1
	x := (*h)[last]
	(*h)[last] = heldKey{}
	*h = (*h)[:last]
	return x
}

// openBuffer opens the buffer of a suppression; all nodes that use it share what it returns.
func openBuffer[K, V any](t *task, spec topology.Store, key serde.Serde[K], value serde.Serde[V]) *heldChanges[K, V] {
	if t.cfg == nil { // wired only to be checked
		return &heldChanges[K, V]{keyValue: &keyValue[K, V]{t: t, spec: spec, key: key, value: value}}
	}
	if s, ok := t.stores[spec.Name].(*heldChanges[K, V]); ok {
		return s
	}
	s := &heldChanges[K, V]{keyValue: new(newTyped(t, spec, key, value)), sizes: map[string]int64{}}
	t.openLater(spec.Name, s, func() (err error) {
		if s.store, err = t.ctx.Stores.KeyValue(spec.Name); err != nil {
			return err
		}
		return s.load()
	})
	return s
}

// load brings the rows of the store into their order.
func (s *heldChanges[K, V]) load() error {
	it := s.store.All(false)
	defer it.Close()
	for it.Next() {
		row, err := state.ParseBuffered(it.Value())
		if err != nil {
			return err
		}
		s.place(string(it.Key()), &row)
	}
	heap.Init(&s.order)
	return it.Err()
}

func (s *heldChanges[K, V]) place(key string, row *state.Buffered) {
	size := row.Size([]byte(key))
	s.bytes += size - s.sizes[key]
	if _, ok := s.sizes[key]; !ok {
		s.order = append(s.order, heldKey{row.Time, key})
	}
	s.sizes[key] = size
}

// put holds a change back, in place of the one that is held of its key.
func (s *heldChanges[K, V]) put(at int64, r rec[K, change[V]], from Origin) {
	key := s.encodeKey(r.key)
	row := state.Buffered{Timestamp: r.ts, Offset: from.Offset, Topic: from.Topic, Partition: from.Partition, Headers: r.headers, Time: at}
	if r.value.hasOld {
		row.Old = s.encodeOld(r.value.old)
	}
	row.New = s.encodeValue(r.value.new, r.value.newNull)
	held, ok := s.row(key)
	if ok {
		row.Prior, row.Time = held.Prior, held.Time
	} else {
		row.Prior = row.Old
	}
	s.raw = row.Append(s.raw[:0])
	if err := s.store.Put(key, s.raw, r.ts, nil); err != nil {
		s.t.storeFailed(s.spec.Name, "put", err)
	}
	n := len(s.order)
	if s.place(string(key), &row); len(s.order) > n {
		heap.Fix(&s.order, n)
	}
}

// encodeOld is encodeValue with a buffer of its own, as a row has both values.
func (s *heldChanges[K, V]) encodeOld(value V) []byte {
	s.valueBuf, s.old = s.old, s.valueBuf
	b := s.encodeValue(value, false)
	s.valueBuf, s.old = s.old, s.valueBuf
	return b
}

// row returns what is held of a key. It is valid until the next put.
func (s *heldChanges[K, V]) row(key []byte) (row state.Buffered, ok bool) {
	raw, _, ok, err := s.store.Get(key)
	if err == nil && ok {
		row, err = state.ParseBuffered(raw)
	}
	if err != nil {
		s.t.storeFailed(s.spec.Name, "get", err)
	}
	return row, ok
}

// first returns what is to leave first. The slices of the row are its own.
func (s *heldChanges[K, V]) first() (key []byte, row state.Buffered) {
	key = []byte(s.order[0].key)
	raw, _, _, err := s.store.Get(key)
	if err == nil {
		row, err = state.ParseBuffered(append([]byte(nil), raw...))
	}
	if err != nil {
		s.t.storeFailed(s.spec.Name, "get", err)
	}
	return key, row
}

// remove takes away what first has returned.
func (s *heldChanges[K, V]) remove() {
	k := heap.Pop(&s.order).(heldKey)
	s.bytes -= s.sizes[k.key]
	delete(s.sizes, k.key)
	if err := s.store.Delete([]byte(k.key), k.time); err != nil {
		s.t.storeFailed(s.spec.Name, "delete", err)
	}
}

// prior is the value of a row before it was held back; ok tells that it is held. Its time is not known.
func (s *heldChanges[K, V]) prior(key K) (v found[V], ok bool) {
	row, ok := s.row(s.encodeKey(key))
	if !ok {
		return v, false
	}
	v.ts = -1
	if row.Prior != nil {
		v.value, v.ok = s.decodeValue(row.Prior), true
	}
	return v, true
}
