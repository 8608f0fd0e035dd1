package state

import (
	"fmt"
	"log/slog"
	"math"
	"slices"
	"sync"

	"github.com/millrace/millrace/topology"
)

// Options say whose state [Open] opens, and what it is made of.
type Options struct {
	ApplicationID string
	Task          topology.TaskID
	Dir           string           // the task's directory, see [Dir]; not used if all stores are in memory
	Engine        Engine           // of stores that are not in memory; nil keeps all in memory
	Stores        []topology.Store // in topological order, which is the order of [Stores.Flush]

	// CacheBytes bounds the memory for rows that are kept for reading, over all stores of the task. The default, at 0, is 4 MiB; negative keeps as few as possible.
	CacheBytes int64
	// RestoreBytes bounds the memory of restored rows that wait to be sorted and written, per store. The default, at 0, is 16 MiB.
	RestoreBytes int64
	// Logger takes what an operator should know; nil is silence.
	Logger *slog.Logger
}

// Defaults of [Options].
const (
	DefaultCacheBytes   = 4 << 20
	DefaultRestoreBytes = 16 << 20
)

// Stores is everything that a task keeps: its stores and their metadata. It belongs to one goroutine; only Snapshot, Readers and Metrics may be called by others.
type Stores struct {
	opts   Options
	log    *slog.Logger
	list   []Store
	byName map[string]Store
	homes  []*home // disk first; the first one holds the task's metadata
	wipes  int
	failed error // of a write; nothing is written afterwards

	sources []string // topics of input records, the first of which is none
	source  uint16   // of the record at hand
	offset  int64    // of the record at hand

	mu struct {
		sync.Mutex // held while a commit is applied
		committed  committed
		snapshots  map[*Snapshot]struct{}
		closed     bool
	}
}

// committed is what snapshots need to know of the last commit. Its maps are replaced, never changed.
type committed struct {
	inputs     map[TopicPartition]int64
	streamTime int64
	stores     map[string]storeMeta
}

// CommitPoint is what a commit records beside the rows. What is not named stays as it was.
type CommitPoint struct {
	InputOffsets     map[TopicPartition]int64 // next offset to read
	StreamTime       int64                    // of the task; -1 is unknown; a lower one than before does not count
	ChangelogOffsets map[string]int64         // by store: the next offset to read to restore what comes after this commit
	TopicIDs         map[string][16]byte      // by store: the id of its changelog topic
}

// Open opens the stores of a task. Errors are a *[ForeignError] or *[CorruptError] if the directory holds something else, and a *[FullError] if there is no space.
func Open(opts Options) (*Stores, error) {
	if opts.CacheBytes == 0 {
		opts.CacheBytes = DefaultCacheBytes
	}
	if opts.RestoreBytes == 0 {
		opts.RestoreBytes = DefaultRestoreBytes
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Stores{opts: opts, sources: []string{""}, offset: -1, byName: map[string]Store{}, log: opts.Logger.With("task", opts.Task.String())}
	s.mu.snapshots = map[*Snapshot]struct{}{}
	if err := s.open(); err != nil {
		for _, h := range s.homes {
			_ = h.db.Close() // err says more
		}
		return nil, err
	}
	return s, nil
}

func (s *Stores) open() error {
	var disk, memory *home
	for _, spec := range s.opts.Stores {
		if _, ok := s.byName[spec.Name]; ok {
			return fmt.Errorf("state: store %q is declared twice", spec.Name)
		}
		at := &disk
		engine := s.opts.Engine
		if spec.InMemory || spec.Kind == topology.BufferStore || engine == nil {
			at, engine = &memory, MemoryEngine{}
		}
		if *at == nil {
			h, err := s.openHome(engine)
			if err != nil {
				return err
			}
			*at = h
		}
		st, err := s.newStore(spec, *at)
		if err != nil {
			return err
		}
		s.list = append(s.list, st)
		s.byName[spec.Name] = st
	}
	if disk != nil && s.homes[0] != disk {
		s.homes[0], s.homes[1] = s.homes[1], s.homes[0]
	}
	if len(s.homes) == 0 { // a task without stores keeps its offsets
		if _, err := s.openHome(MemoryEngine{}); err != nil {
			return err
		}
	}
	s.publish()
	return nil
}

func (s *Stores) openHome(engine Engine) (*home, error) {
	db, err := engine.Open(s.opts.Dir)
	if err != nil {
		return nil, fmt.Errorf("state: open %s of task %s: %w", s.opts.Dir, s.opts.Task, err)
	}
	h := &home{db: db, path: s.opts.Dir}
	s.homes = append(s.homes, h)
	h.meta, err = h.readMeta(s.opts.ApplicationID, s.opts.Task)
	return h, err
}

func (s *Stores) newStore(spec topology.Store, h *home) (Store, error) {
	found, ok := h.meta.stores[spec.Name]
	if !ok {
		id := 1
		for _, m := range h.meta.stores {
			id = max(id, int(m.id)+1)
		}
		if id > math.MaxUint16 {
			return nil, h.corrupt("it has had too many stores", nil)
		}
		found = newStoreMeta(spec, uint16(id))
		h.meta.stores[spec.Name] = found
	}
	want := newStoreMeta(spec, found.id)
	if want.shape() != found.shape() {
		return nil, &ForeignError{Path: h.path, Store: spec.Name, Found: found.shape(), Want: want.shape()}
	}
	if want.indexed != found.indexed {
		l := newLayout(spec, found.id, found.interval)
		found.indexed = want.indexed
		if err := h.reindex(spec.Name, &l, found); err != nil {
			return nil, fmt.Errorf("state: time index of store %q of task %s: %w", spec.Name, s.opts.Task, err)
		}
	}
	if spec.Kind == topology.BufferStore { // its changelog is told at a flush, whatever the configuration of caches
		spec.Caching, spec.InMemory = true, true
	}
	limit := max(s.opts.CacheBytes/int64(len(s.opts.Stores)), 4<<10)
	base := rowStore{
		owner: s, spec: spec, layout: newLayout(spec, found.id, found.interval), home: h, set: newWriteSet(), limit: limit,
		keepFrom: math.MaxInt64, observed: found.observed, flushed: found.observed, seq: found.seq, meta: found,
	}
	switch spec.Kind {
	case topology.KeyValueStore, topology.BufferStore:
		return &KeyValue{rowStore: base}, nil
	case topology.WindowStore:
		return &Window{timedStore: timedStore{rowStore: base}}, nil
	case topology.SessionStore:
		return &Session{timedStore: timedStore{rowStore: base}}, nil
	case topology.VersionedStore:
		return &Versioned{rowStore: base}, nil
	}
	return nil, fmt.Errorf("state: store %q is of unknown kind %d", spec.Name, spec.Kind)
}

// From says which input record the updates to come are made for; "" and -1 are none. A flush tells it with an update, since what is handed on later is still
// that record's.
func (s *Stores) From(topic string, offset int64) {
	if s.sources[s.source] != topic {
		i := slices.Index(s.sources, topic)
		if i < 0 {
			i = len(s.sources)
			s.sources = append(s.sources, topic)
		}
		s.source = uint16(i)
	}
	s.offset = offset
}

// All returns the stores in the order in which they were declared. The slice must not be changed.
func (s *Stores) All() []Store { return s.list }

// Store returns the store of a name.
func (s *Stores) Store(name string) (Store, error) {
	if st, ok := s.byName[name]; ok {
		return st, nil
	}
	return nil, fmt.Errorf("%w: %q in task %s", ErrNoStore, name, s.opts.Task)
}

// KeyValue returns the key-value store of a name.
func (s *Stores) KeyValue(name string) (*KeyValue, error) { return find[*KeyValue](s, name) }

// Window returns the window store of a name.
func (s *Stores) Window(name string) (*Window, error) { return find[*Window](s, name) }

// Versioned returns the versioned store of a name.
func (s *Stores) Versioned(name string) (*Versioned, error) { return find[*Versioned](s, name) }

// Session returns the session store of a name.
func (s *Stores) Session(name string) (*Session, error) { return find[*Session](s, name) }

func find[T Store](s *Stores, name string) (t T, err error) {
	st, err := s.Store(name)
	if err != nil {
		return t, err
	}
	t, ok := st.(T)
	if !ok {
		return t, fmt.Errorf("%w: %q in task %s is a %s store", ErrNoStore, name, s.opts.Task, st.Spec().Kind)
	}
	return t, nil
}

// ChangelogOffset returns the next offset to read of a store's changelog. It is not ok if nothing was ever committed or restored; that is not the same as 0.
func (s *Stores) ChangelogOffset(store string) (next int64, ok bool) {
	st := s.byName[store]
	if st == nil {
		return 0, false
	}
	r := st.rows()
	next = r.meta.next
	if r.restore != nil {
		next = r.restore.next
	}
	return max(next, 0), next >= 0
}

// TopicID returns the id of the topic that a store's changelog offset belongs to.
func (s *Stores) TopicID(store string) (id [16]byte, ok bool) {
	if st := s.byName[store]; st != nil {
		id = st.rows().meta.topicID
	}
	return id, id != [16]byte{}
}

// CheckTopicID returns a *[ForeignError] if a store's offset belongs to another topic than id.
func (s *Stores) CheckTopicID(store string, id [16]byte) error {
	if found, ok := s.TopicID(store); ok && found != id {
		return &ForeignError{
			Path: s.byName[store].rows().home.path, Store: store,
			Found: fmt.Sprintf("changelog topic id %x", found), Want: fmt.Sprintf("topic id %x", id),
		}
	}
	return nil
}

// InputOffset returns the next offset to read of an input as of the last commit. It is not ok if there is none.
func (s *Stores) InputOffset(tp TopicPartition) (next int64, ok bool) {
	next, ok = s.homes[0].meta.inputs[tp]
	return next, ok
}

// InputOffsets returns the next offsets to read as of the last commit. The map must not be changed.
func (s *Stores) InputOffsets() map[TopicPartition]int64 { return s.homes[0].meta.inputs }

// StreamTime returns the task's stream time as of the last commit, -1 if unknown.
func (s *Stores) StreamTime() int64 { return s.homes[0].meta.streamTime }

// Orphans returns the names of stores that the directory has and the topology does not, by name. They stay until [Stores.WipeStore].
func (s *Stores) Orphans() []string {
	var names []string
	for _, h := range s.homes {
		for name := range h.meta.stores {
			if s.byName[name] == nil {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// DirtyBytes returns about how much memory the updates since the last commit take.
func (s *Stores) DirtyBytes() int64 {
	var n int64
	for _, st := range s.list {
		n += st.DirtyBytes()
	}
	return n
}

// OpenIterators counts the iterators over a store that are neither closed nor expired.
func (s *Stores) OpenIterators(store string) int {
	if st := s.byName[store]; st != nil {
		return len(st.rows().open)
	}
	return 0
}

// BreakForTest makes every use of a store fail with err until its task is closed, as a broken disk would. Its updates since the last commit are lost.
func (s *Stores) BreakForTest(store string, err error) error {
	st, e := s.Store(store)
	if e != nil {
		return e
	}
	r := st.rows()
	r.forget(true)
	r.err = err
	return nil
}

// Flush flushes the stores in the order in which they were declared, so that what one store's listener writes into a later store is flushed as well.
func (s *Stores) Flush() error {
	for _, st := range s.list {
		if err := st.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// Metrics are sizes of a task's state. They may be asked for by any goroutine.
func (s *Stores) Metrics() DBMetrics {
	s.mu.Lock()
	defer s.mu.Unlock()
	var m DBMetrics
	if s.mu.closed {
		return m
	}
	for _, h := range s.homes {
		hm := h.db.Metrics()
		m.DiskBytes += hm.DiskBytes
		m.MemoryBytes += hm.MemoryBytes
	}
	return m
}
