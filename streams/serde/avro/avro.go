// Package avro has serdes for Avro with a schema registry.
//
//	orders := streams.NewTopic("orders", serde.String, avro.Serde[Order](reg))
//
// The bytes are those of Confluent's KafkaAvroSerializer. What was written with another version of a schema is read as the serde's own one says: fields
// that are new have their defaults, fields that are gone are skipped, numbers widen. A record whose schema can't be read so is a decode error, which says
// what does not fit.
//
// Bytes of Avro do not keep the order of values, and a key with another schema id is another key.
package avro

import (
	"errors"
	"fmt"

	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/streams/serde/registry"
	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/sr"
)

// Serde returns a serde for a struct, or a pointer to one. Its schema is that of the struct's fields and their avro tags, a record without a namespace with
// the name of the type; see [avro.SchemaFor]. It panics if the struct has no Avro form, because it is meant for declarations of topics.
func Serde[T any](r *registry.Registry, opts ...registry.Option) serde.Serde[T] {
	schema, err := avro.SchemaFor[T]()
	if err != nil {
		panic(fmt.Sprintf("avro.Serde: %v", err))
	}
	return newSerde[T](r, schema, opts)
}

// SerdeOf returns a serde for a schema, as its JSON says it. T is a struct whose fields or avro tags have the names of the schema's fields, map[string]any,
// or the Go form of what else the schema describes. It panics if the schema is none, because it is meant for declarations of topics.
func SerdeOf[T any](r *registry.Registry, schema string, opts ...registry.Option) serde.Serde[T] {
	parsed, err := avro.Parse(schema)
	if err != nil {
		panic(fmt.Sprintf("avro.SerdeOf: %v", err))
	}
	return newSerde[T](r, parsed, opts)
}

func newSerde[T any](r *registry.Registry, schema *avro.Schema, opts []registry.Option) serde.Serde[T] {
	f := &format[T]{schema: schema}
	root := schema.Root()
	switch f.name = root.Name; {
	case f.name == "":
		f.name = root.Type
	case root.Namespace != "":
		f.name = root.Namespace + "." + root.Name
	}
	f.raw = root.Type == "bytes" && root.LogicalType == ""
	return registry.Serde(r, f, opts...)
}

type format[T any] struct {
	schema *avro.Schema
	name   string
	raw    bool // the schema is "bytes"
}

func (f *format[T]) Name() string { return f.name }

func (f *format[T]) Schema() registry.Schema {
	return registry.Schema{Type: sr.TypeAvro, Text: f.schema.String()}
}

func (f *format[T]) Indexes() []int { return nil }

// Append writes a value of the schema "bytes" as it is, without the length that Avro gives it: so do Java's serializers.
func (f *format[T]) Append(dst []byte, v T) ([]byte, error) {
	if b, ok := any(v).([]byte); ok && f.raw {
		return append(dst, b...), nil
	}
	dst, err := f.schema.AppendEncode(dst, v)
	if err != nil {
		return dst, fmt.Errorf("avro: %w", err)
	}
	return dst, nil
}

func (f *format[T]) Reader(written registry.Schema, _ []int) (func(data []byte) (T, error), error) {
	var cache avro.SchemaCache
	writer, err := parse(&cache, written)
	if err != nil {
		return nil, err
	}
	if root := writer.Root(); f.raw && root.Type == "bytes" {
		return func(data []byte) (v T, err error) {
			b, ok := any(&v).(*[]byte)
			if !ok {
				return v, errors.New("avro: a schema of bytes is read as []byte")
			}
			*b = append([]byte{}, data...)
			return v, nil
		}, nil
	}
	resolved, err := avro.Resolve(writer, f.schema)
	if err != nil {
		return nil, err
	}
	return func(data []byte) (v T, err error) {
		rest, err := resolved.Decode(data, &v)
		if err == nil && len(rest) > 0 {
			err = fmt.Errorf("%d bytes are left", len(rest))
		}
		return v, err
	}, nil
}

// parse reads a schema after those that it refers to.
func parse(cache *avro.SchemaCache, s registry.Schema) (*avro.Schema, error) {
	for _, ref := range s.References {
		if _, err := parse(cache, ref.Schema); err != nil {
			return nil, err
		}
	}
	return cache.Parse(s.Text)
}
