// Package protobuf has serdes for Protocol Buffers with a schema registry.
//
//	orders := streams.NewTopic("orders", serde.String, protobuf.Serde[*pb.Order](reg))
//
// The bytes are those of Confluent's KafkaProtobufSerializer: the id of the schema, the path of the message in its file, the message. The schema that is
// registered is the descriptor of the message's file, in base64, as the registry takes it beside the text of a .proto file; imported files are registered
// under their paths, those of google/protobuf, google/type and confluent excepted, which every registry has.
//
// A message of another type than the serde's is a decode error. To see that, the registry is asked for descriptors; one that answers with text, because it
// is too old to know the format "serialized", leaves it unseen.
//
// Messages are written in the same bytes each time, so they may be keys as long as all processes have the same version of the schema. They keep no order.
package protobuf

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"

	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/streams/serde/registry"
	"github.com/twmb/franz-go/pkg/sr"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
)

// Serde returns a serde for a generated message, such as *pb.Order. It panics if T is no such type, because it is meant for declarations of topics.
func Serde[T proto.Message](r *registry.Registry, opts ...registry.Option) serde.Serde[T] {
	var none T
	if any(none) == nil {
		panic("protobuf.Serde: the type must be a generated message, such as *pb.Order")
	}
	message := none.ProtoReflect().Type()
	f := &format[T]{message: message, schema: schemaOf(message.Descriptor().ParentFile()), indexes: path(message.Descriptor())}
	return registry.Serde(r, f, opts...)
}

type format[T proto.Message] struct {
	message protoreflect.MessageType
	schema  registry.Schema
	indexes []int
}

func (f *format[T]) Name() string            { return string(f.message.Descriptor().FullName()) }
func (f *format[T]) Schema() registry.Schema { return f.schema }
func (f *format[T]) Indexes() []int          { return f.indexes }

// Append writes maps in the order of their keys, so that equal messages have equal bytes.
func (f *format[T]) Append(dst []byte, v T) ([]byte, error) {
	dst, err := proto.MarshalOptions{Deterministic: true}.MarshalAppend(dst, v)
	if err != nil {
		return dst, fmt.Errorf("protobuf: %w", err)
	}
	return dst, nil
}

func (f *format[T]) Reader(written registry.Schema, indexes []int) (func(data []byte) (T, error), error) {
	if file := descriptor(written.Text); file != nil {
		// The entries of map fields are messages of a file as well. Most writers count them; Java's do not if they normalize schemas (normalize.schemas).
		name, plain := messageAt(file, indexes, true), messageAt(file, indexes, false)
		switch {
		case name == f.Name(), plain == f.Name():
		case name == "" && plain == "":
			return nil, fmt.Errorf("protobuf: there is no message at %v in %s", indexes, file.GetName())
		default:
			return nil, fmt.Errorf("protobuf: the message is a %s, and the serde reads %s", cmp.Or(name, plain), f.Name())
		}
	}
	return func(data []byte) (T, error) {
		v := f.message.New().Interface().(T)
		return v, proto.Unmarshal(data, v)
	}, nil
}

// descriptor reads a schema, or returns nil if it is not there as a descriptor.
func descriptor(text string) *descriptorpb.FileDescriptorProto {
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil
	}
	file := new(descriptorpb.FileDescriptorProto)
	if proto.Unmarshal(data, file) != nil {
		return nil
	}
	return file
}

// messageAt is the full name of the message with a path in a file, or empty if there is none.
func messageAt(file *descriptorpb.FileDescriptorProto, indexes []int, mapEntries bool) string {
	var names []string
	if file.GetPackage() != "" {
		names = append(names, file.GetPackage())
	}
	messages := file.GetMessageType()
	for _, i := range indexes {
		if !mapEntries {
			messages = slices.DeleteFunc(slices.Clone(messages), func(m *descriptorpb.DescriptorProto) bool { return m.GetOptions().GetMapEntry() })
		}
		if i >= len(messages) {
			return ""
		}
		names = append(names, messages[i].GetName())
		messages = messages[i].GetNestedType()
	}
	return strings.Join(names, ".")
}

// schemaOf is a file as the registry takes it.
func schemaOf(file protoreflect.FileDescriptor) registry.Schema {
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(protodesc.ToFileDescriptorProto(file))
	if err != nil {
		panic(fmt.Sprintf("protobuf.Serde: %v", err)) // a descriptor that was read from generated code
	}
	s := registry.Schema{Type: sr.TypeProtobuf, Text: base64.StdEncoding.EncodeToString(data)}
	for i := range file.Imports().Len() {
		imported := file.Imports().Get(i).FileDescriptor
		if !known(imported.Path()) {
			s.References = append(s.References, registry.Reference{Name: imported.Path(), Subject: imported.Path(), Schema: schemaOf(imported)})
		}
	}
	return s
}

// known are the files that a registry has by itself.
func known(path string) bool {
	return slices.ContainsFunc([]string{"google/protobuf/", "google/type/", "confluent/"}, func(dir string) bool { return strings.HasPrefix(path, dir) })
}

// path is where a message is in its file: the index of the outermost one first.
func path(m protoreflect.MessageDescriptor) []int {
	list := []int{m.Index()}
	for parent, ok := m.Parent().(protoreflect.MessageDescriptor); ok; parent, ok = parent.Parent().(protoreflect.MessageDescriptor) {
		list = append(list, parent.Index())
	}
	slices.Reverse(list)
	return list
}
