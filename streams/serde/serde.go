// Package serde turns keys and values into the bytes Kafka stores, and back.
//
// A [Serde] is an interface value, and every constructor returns one, so that the compiler can infer K and V of a topic from it, also in
// package-level declarations. The scalar serdes write Java's bytes: big-endian numbers and UTF-8 strings; a Java application reads what they wrote.
//
// A serde never sees a null. Kafka's null has no bytes and no Go value: the runtime carries it beside the value (see the package comment of streams).
package serde

// A Serde encodes and decodes one Go type. It is called by many workers at once and must be safe for that.
type Serde[T any] interface {
	// Append encodes v at the end of dst and returns the extended slice, as [strconv.AppendInt] does.
	Append(dst []byte, at Place, v T) ([]byte, error)

	// Decode reads one value. data belongs to the runtime, which keeps it unchanged until the record at hand has been processed: a value that
	// lives longer must have a copy. Every serde of this package copies.
	Decode(at Place, data []byte) (T, error)
}

// Place says what is being encoded. Schema registries derive a subject from it. For a store the topic is its changelog (or the source topic that serves
// as one), for a foreign-key join one of Kafka Streams' pseudo topics (F-035).
type Place struct {
	Topic string
	Key   bool
}

// HeaderSerde is implemented by serdes that also write or read record headers, such as a schema id or an encryption key id. The runtime finds it by
// assertion.
type HeaderSerde[T any] interface {
	Serde[T]
	AppendWithHeaders(dst []byte, at Place, headers *[]Header, v T) ([]byte, error)
	DecodeWithHeaders(at Place, headers []Header, data []byte) (T, error)
}

// Header is one header of a record. Keys may repeat; order is kept.
type Header = struct {
	Key   string
	Value []byte
}

// Func makes a serde of two functions: anything with an Append method and a parser, a protobuf type, a codec of yours.
func Func[T any](appendTo func(dst []byte, v T) ([]byte, error), decode func(data []byte) (T, error)) Serde[T] {
	return funcs[T]{appendTo, decode}
}

type funcs[T any] struct {
	append func(dst []byte, v T) ([]byte, error)
	decode func(data []byte) (T, error)
}

func (f funcs[T]) Append(dst []byte, _ Place, v T) ([]byte, error) { return f.append(dst, v) }
func (f funcs[T]) Decode(_ Place, data []byte) (T, error)          { return f.decode(data) }
