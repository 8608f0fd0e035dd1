package registry

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"uuid"

	"github.com/millrace/millrace/streams/serde"
)

// Format is a kind of schema, such as Avro, for one Go type. Its methods may be called by several goroutines at once.
type Format[T any] interface {
	// Name is the full name of the record or message, for subjects.
	Name() string
	// Schema is what values are written with.
	Schema() Schema
	// Indexes is the path of the message in its file, for Protobuf. Others have none: nil.
	Indexes() []int
	// Append encodes a value, without anything about its schema.
	Append(dst []byte, v T) ([]byte, error)
	// Reader makes the decoder of what was written with a schema, for a message at indexes. It is called once for each.
	Reader(written Schema, indexes []int) (func(data []byte) (T, error), error)
}

// Serde makes a serde of a format. Those of the packages avro and protobuf are made by it; for a format of yours it is the way as well.
func Serde[T any](r *Registry, f Format[T], opts ...Option) serde.Serde[T] {
	s := &registered[T]{registry: r, settings: r.settings, format: f}
	s.settings.apply(opts)
	return s
}

// registered is a serde whose schema is in a registry. What it learns it keeps: schemas never change once they have an id.
type registered[T any] struct {
	registry *Registry
	settings settings
	format   Format[T]

	writers    sync.Map // of serde.Place: *writer
	readers    sync.Map // of key: *reader[T]
	lastWriter atomic.Pointer[writer]
	lastReader atomic.Pointer[reader[T]]
}

// writer is what a value of a place begins with.
type writer struct {
	at     serde.Place
	prefix []byte
	header []byte
}

// key names what a value was written with.
type key struct {
	id      int
	guid    string
	indexes string // as they are on the wire
}

func (k key) String() string {
	if k.guid != "" {
		return k.guid
	}
	return strconv.Itoa(k.id)
}

type reader[T any] struct {
	key    key
	decode func(data []byte) (T, error)
}

// The first byte says what follows: an id of 4 bytes, or a GUID of 16.
const (
	magicID   = 0
	magicGUID = 1
)

// Headers with the schema of a record's key and value.
const (
	keyHeader   = "__key_schema_id"
	valueHeader = "__value_schema_id"
)

func headerOf(at serde.Place) string {
	if at.Key {
		return keyHeader
	}
	return valueHeader
}

func part(at serde.Place) string {
	if at.Key {
		return "key"
	}
	return "value"
}

func (s *registered[T]) Append(dst []byte, at serde.Place, v T) ([]byte, error) {
	w, err := s.writer(at)
	if err != nil {
		return dst, err
	}
	return s.format.Append(append(dst, w.prefix...), v)
}

// AppendWithHeaders takes away what the headers say of another schema: a record that is passed on has the headers it was read with, and a reader believes
// them first.
func (s *registered[T]) AppendWithHeaders(dst []byte, at serde.Place, headers *[]serde.Header, v T) ([]byte, error) {
	name := headerOf(at)
	named := func(h serde.Header) bool { return h.Key == name }
	if slices.ContainsFunc(*headers, named) {
		*headers = slices.DeleteFunc(slices.Clone(*headers), named) // others may have the same slice
	}
	if !s.settings.headers {
		return s.Append(dst, at, v)
	}
	w, err := s.writer(at)
	if err != nil {
		return dst, err
	}
	if w.header == nil {
		return dst, fmt.Errorf("registry: subject %s: the schema registry gives no GUID, which the option registry.InHeaders needs", s.subject(at))
	}
	*headers = append(*headers, serde.Header{Key: name, Value: w.header})
	return s.format.Append(dst, v)
}

func (s *registered[T]) subject(at serde.Place) string { return s.settings.naming(at, s.format.Name()) }

func (s *registered[T]) writer(at serde.Place) (*writer, error) {
	if w := s.lastWriter.Load(); w != nil && w.at == at {
		return w, nil
	}
	if known, ok := s.writers.Load(at); ok {
		w := known.(*writer)
		s.lastWriter.Store(w)
		return w, nil
	}
	found, err := s.registry.register(s.settings, s.subject(at), s.format.Schema())
	if err != nil {
		return nil, err
	}
	indexes := appendIndexes(nil, s.format.Indexes())
	w := &writer{at: at, prefix: append(binary.BigEndian.AppendUint32([]byte{magicID}, uint32(found.id)), indexes...)}
	if found.guid != "" {
		guid, err := uuid.Parse(found.guid)
		if err != nil {
			return nil, fmt.Errorf("registry: subject %s: %w", s.subject(at), err)
		}
		w.header = append(append([]byte{magicGUID}, guid[:]...), indexes...)
	}
	s.writers.Store(at, w)
	s.lastWriter.Store(w)
	return w, nil
}

func (s *registered[T]) Decode(at serde.Place, data []byte) (v T, err error) {
	k, indexes, data, err := s.split(at, data)
	if err != nil {
		return v, err
	}
	return s.decode(at, k, indexes, data)
}

// DecodeWithHeaders reads both forms: a schema in the headers goes before one in the value.
func (s *registered[T]) DecodeWithHeaders(at serde.Place, headers []serde.Header, data []byte) (v T, err error) {
	name := headerOf(at)
	for _, h := range slices.Backward(headers) {
		if h.Key != name {
			continue
		}
		k, indexes, rest, err := s.split(at, h.Value)
		if err == nil && len(rest) > 0 {
			err = fmt.Errorf("%w: %d bytes after it in the header %s", ErrForm, len(rest), name)
		}
		if err != nil {
			return v, err
		}
		return s.decode(at, k, indexes, data)
	}
	return s.Decode(at, data)
}

func (s *registered[T]) decode(at serde.Place, k key, indexes []int, data []byte) (v T, err error) {
	r := s.lastReader.Load()
	if r == nil || r.key != k {
		if r, err = s.reader(k, indexes); err != nil {
			return v, err
		}
		s.lastReader.Store(r)
	}
	if v, err = r.decode(data); err != nil {
		return v, fmt.Errorf("registry: %s of topic %s, written with schema %v: %w", part(at), at.Topic, k, err)
	}
	return v, nil
}

func (s *registered[T]) reader(k key, indexes []int) (*reader[T], error) {
	if known, ok := s.readers.Load(k); ok {
		return known.(*reader[T]), nil
	}
	written, err := s.registry.byID(s.settings, k, s.format.Schema().Type)
	if err != nil {
		return nil, err
	}
	decode, err := s.format.Reader(written, indexes)
	if err != nil {
		return nil, fmt.Errorf("registry: schema %v does not fit what is read: %w", k, err)
	}
	r := &reader[T]{k, decode}
	s.readers.Store(k, r)
	return r, nil
}

// split takes the names of a schema from the begin of a value or a header.
func (s *registered[T]) split(at serde.Place, data []byte) (k key, indexes []int, rest []byte, err error) {
	switch {
	case len(data) >= 5 && data[0] == magicID:
		k.id, rest = int(binary.BigEndian.Uint32(data[1:])), data[5:]
	case len(data) >= 17 && data[0] == magicGUID:
		k.guid, rest = uuid.UUID(data[1:17]).String(), data[17:]
	case len(data) == 0:
		return k, nil, nil, fmt.Errorf("registry: %s of topic %s: %w: there are none", part(at), at.Topic, ErrForm)
	default:
		return k, nil, nil, fmt.Errorf("registry: %s of topic %s: %w, but with %#x; was it written without a schema registry?",
			part(at), at.Topic, ErrForm, data[:min(5, len(data))])
	}
	if s.format.Indexes() == nil {
		return k, nil, rest, nil
	}
	indexes, after, err := takeIndexes(rest)
	if err != nil {
		return k, nil, nil, fmt.Errorf("registry: %s of topic %s: %w: %w", part(at), at.Topic, ErrForm, err)
	}
	k.indexes = string(rest[:len(rest)-len(after)])
	return k, indexes, after, nil
}

// appendIndexes writes the path of a message: how many numbers, and the numbers, as signed varints. The first message of a file, by far the most frequent,
// has the short form 0.
func appendIndexes(dst []byte, indexes []int) []byte {
	if indexes == nil {
		return dst
	}
	if len(indexes) == 1 && indexes[0] == 0 {
		return append(dst, 0)
	}
	dst = binary.AppendVarint(dst, int64(len(indexes)))
	for _, i := range indexes {
		dst = binary.AppendVarint(dst, int64(i))
	}
	return dst
}

func takeIndexes(data []byte) (indexes []int, rest []byte, err error) {
	next := func() int64 {
		v, n := binary.Varint(data)
		if n <= 0 || v < 0 || v > int64(1<<31-1) {
			err = fmt.Errorf("bad path of a message")
			return 0
		}
		data = data[n:]
		return v
	}
	n := next()
	if err == nil && n > int64(len(data)) {
		err = fmt.Errorf("path of a message with %d steps in %d bytes", n, len(data))
	}
	if err != nil {
		return nil, nil, err
	}
	if n == 0 {
		return []int{0}, data, nil
	}
	for range n {
		indexes = append(indexes, int(next()))
		if err != nil {
			return nil, nil, err
		}
	}
	return indexes, data, nil
}
