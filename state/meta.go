package state

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/millrace/millrace/topology"
)

// Metadata lies in the database under the prefix 00 00, before all rows, and is written in the batches of the rows that it describes:
//
//	00 00 'a'                         layout version (1) task id length (1) task id, application id
//	00 00 'i' topic 00 partition (4)  next offset (8)
//	00 00 's' store name              version (1) kind (1) flags (1) prefix id (2) segment interval (8) stream time (8)
//	                                  next changelog offset (8) sequence (4) first live segment (8) changelog topic id (16)
//	00 00 't'                         stream time (8)
const (
	layoutVersion = 1

	metaOwner      = 'a'
	metaInput      = 'i'
	metaStore      = 's'
	metaStreamTime = 't'

	storeMetaLen = 57
)

// TopicPartition names a partition of a topic.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// storeMeta is the metadata of a store.
type storeMeta struct {
	kind        topology.StoreKind
	timestamped bool
	duplicates  bool
	indexed     bool // the time index is complete
	id          uint16
	interval    int64
	observed    int64
	next        int64 // -1 for none
	seq         uint32
	floor       int64    // segments below are deleted
	topicID     [16]byte // zero for none
}

const (
	metaTimestamped = 1 << iota
	metaDuplicates
	metaIndexed
)

func (m *storeMeta) append(dst []byte) []byte {
	var flags byte
	if m.timestamped {
		flags |= metaTimestamped
	}
	if m.duplicates {
		flags |= metaDuplicates
	}
	if m.indexed {
		flags |= metaIndexed
	}
	dst = append(dst, layoutVersion, byte(m.kind), flags)
	dst = binary.BigEndian.AppendUint16(dst, m.id)
	dst = binary.BigEndian.AppendUint64(dst, uint64(m.interval))
	dst = binary.BigEndian.AppendUint64(dst, uint64(m.observed))
	dst = binary.BigEndian.AppendUint64(dst, uint64(m.next))
	dst = binary.BigEndian.AppendUint32(dst, m.seq)
	dst = binary.BigEndian.AppendUint64(dst, uint64(m.floor))
	return append(dst, m.topicID[:]...)
}

func (m *storeMeta) parse(b []byte) error {
	if len(b) != storeMetaLen {
		return fmt.Errorf("%d bytes instead of %d", len(b), storeMetaLen)
	}
	if b[0] != layoutVersion {
		return fmt.Errorf("version %d is unknown", b[0])
	}
	u64 := func(at int) int64 { return int64(binary.BigEndian.Uint64(b[at:])) }
	*m = storeMeta{
		kind: topology.StoreKind(b[1]), timestamped: b[2]&metaTimestamped != 0, duplicates: b[2]&metaDuplicates != 0,
		indexed: b[2]&metaIndexed != 0, id: binary.BigEndian.Uint16(b[3:]), interval: u64(5), observed: u64(13), next: u64(21),
		seq: binary.BigEndian.Uint32(b[29:]), floor: u64(33), topicID: [16]byte(b[41:]),
	}
	if m.id == 0 || m.interval <= 0 || m.observed < -1 || m.next < -1 || m.floor < 0 {
		return fmt.Errorf("impossible values %+v", *m)
	}
	return nil
}

// shape describes what must not change under a store's name.
func (m *storeMeta) shape() string {
	s := "a " + m.kind.String() + " store"
	if m.kind != topology.SessionStore {
		if m.timestamped {
			s += " with timestamps"
		} else {
			s += " without timestamps"
		}
	}
	if m.duplicates {
		s += " and duplicates"
	}
	return s
}

func newStoreMeta(spec topology.Store, id uint16) storeMeta {
	return storeMeta{
		kind: spec.Kind, timestamped: spec.Timestamped && spec.Kind != topology.SessionStore, duplicates: spec.Duplicates, id: id,
		indexed: spec.TimeIndex && spec.Kind != topology.KeyValueStore, interval: segmentInterval(spec.Retention.Milliseconds()), observed: -1, next: -1,
	}
}

func metaKey(kind byte, name string) []byte { return append([]byte{0, 0, kind}, name...) }

func inputKey(tp TopicPartition) []byte {
	return binary.BigEndian.AppendUint32(append(metaKey(metaInput, tp.Topic), 0), uint32(tp.Partition))
}

func parseInputKey(b []byte) (tp TopicPartition, ok bool) {
	n := len(b) - 5
	if n < 0 || b[n] != 0 {
		return tp, false
	}
	return TopicPartition{string(b[:n]), int32(binary.BigEndian.Uint32(b[n+1:]))}, true
}

// ownerValue is the value under metaOwner.
func ownerValue(app string, task topology.TaskID) []byte {
	id := task.String()
	return append(append([]byte{layoutVersion, byte(len(id))}, id...), app...)
}

// meta is the metadata of a database.
type meta struct {
	owned      bool // metaOwner is there
	stores     map[string]storeMeta
	inputs     map[TopicPartition]int64 // replaced, never changed
	streamTime int64
}

// readMeta reads the metadata of a database and checks whose it is.
func (h *home) readMeta(app string, task topology.TaskID) (meta, error) {
	m := meta{stores: map[string]storeMeta{}, inputs: map[TopicPartition]int64{}, streamTime: -1}
	cur, err := h.db.NewCursor()
	if err != nil {
		return m, err
	}
	defer cur.Close()
	cur.SetBounds([]byte{0, 0}, nil)
	for ok := cur.First(); ok; ok = cur.Next() {
		key, value := cur.Key(), cur.Value()
		if len(key) < 3 || key[0] != 0 || key[1] != 0 {
			break
		}
		if err := h.readMetaRow(&m, key[2], key[3:], value, app, task); err != nil {
			return m, err
		}
	}
	if err := cur.Err(); err != nil {
		return m, err
	}
	if !m.owned && cur.First() {
		return m, h.corrupt("it has rows but no owner", nil)
	}
	return m, cur.Err()
}

func (h *home) readMetaRow(m *meta, kind byte, name, value []byte, app string, task topology.TaskID) error {
	switch kind {
	case metaOwner:
		m.owned = true
		return h.checkOwner(value, app, task)
	case metaInput:
		tp, ok := parseInputKey(name)
		if !ok || len(value) != 8 || value[0]&0x80 != 0 {
			return h.corrupt("an input offset is not readable", nil)
		}
		m.inputs[tp] = int64(binary.BigEndian.Uint64(value))
	case metaStore:
		var sm storeMeta
		if err := sm.parse(value); err != nil {
			return h.corrupt(fmt.Sprintf("the description of store %q is not readable", name), err)
		}
		m.stores[string(name)] = sm
	case metaStreamTime:
		if len(value) != 8 {
			return h.corrupt("the stream time is not readable", nil)
		}
		m.streamTime = int64(binary.BigEndian.Uint64(value))
	default:
		return h.corrupt(fmt.Sprintf("metadata of kind %q is unknown", kind), nil)
	}
	return nil
}

func (h *home) checkOwner(value []byte, app string, task topology.TaskID) error {
	if len(value) < 2 || len(value) < 2+int(value[1]) {
		return h.corrupt("its owner is not readable", nil)
	}
	if value[0] != layoutVersion {
		return h.corrupt(fmt.Sprintf("layout version %d is unknown", value[0]), nil)
	}
	n := 2 + int(value[1])
	if foundTask, foundApp := string(value[2:n]), string(value[n:]); foundApp != app || foundTask != task.String() {
		return &ForeignError{
			Path: h.path, Found: fmt.Sprintf("task %s of application %q", foundTask, foundApp),
			Want: fmt.Sprintf("task %s of application %q", task, app),
		}
	}
	return nil
}

// metaRow is a row of metadata.
type metaRow struct{ key, value []byte }

// metaRows returns the rows of metadata that change from h's to next, in the order of keys.
func (s *Stores) metaRows(h *home, next meta) []metaRow {
	var rows []metaRow
	add := func(key, value []byte) { rows = append(rows, metaRow{key, value}) }
	if !h.meta.owned {
		add(metaKey(metaOwner, ""), ownerValue(s.opts.ApplicationID, s.opts.Task))
	}
	for tp, offset := range next.inputs {
		if old, ok := h.meta.inputs[tp]; !ok || old != offset {
			add(inputKey(tp), appendInt64(nil, offset))
		}
	}
	for name, m := range next.stores {
		if !h.meta.owned || m != h.meta.stores[name] {
			add(metaKey(metaStore, name), m.append(nil))
		}
	}
	if next.streamTime != h.meta.streamTime {
		add(metaKey(metaStreamTime, ""), appendInt64(nil, next.streamTime))
	}
	slices.SortFunc(rows, func(a, b metaRow) int { return bytes.Compare(a.key, b.key) })
	return rows
}

func appendInt64(dst []byte, n int64) []byte { return binary.BigEndian.AppendUint64(dst, uint64(n)) }
