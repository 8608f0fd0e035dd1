package oracle

import (
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/streams/window"
)

// The functions that programs name. All of them work on text, whatever the types of keys and values are, so that each is written once; a result becomes a
// value of the type that is wanted. Their twins are in java/src/main/java/oracle/Functions.java.

// value is a Go type of values: of [Text], [Long] and [Nullable].
type value interface{ string | int64 | *string }

// keyType is a Go type of keys.
type keyType interface {
	string | window.Windowed[string]
}

// nullable is the serde of [Nullable]. It never meets a nil, which is a null.
var nullable = serde.Func(
	func(dst []byte, v *string) ([]byte, error) { return append(dst, *v...), nil },
	func(data []byte) (*string, error) { s := string(data); return &s, nil },
)

// text is a key or value as functions see it.
func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	case *string:
		if v == nil {
			return "null"
		}
		return *v
	case window.Windowed[string]:
		return fmt.Sprintf("%s@%d-%d", v.Key, v.Start.UnixMilli(), v.End.UnixMilli())
	}
	panic(fmt.Sprintf("oracle: %T is neither key nor value", v))
}

// result is what a function computes: text, or a null, which only [Nullable] can be.
type result struct {
	text string
	null bool
}

// as makes a value of a result.
func as[U value](r result) U {
	var u any
	switch any(*new(U)).(type) {
	case string:
		u = r.text
	case int64:
		u = number(r.text)
	default:
		u = &r.text
	}
	if r.null {
		return *new(U)
	}
	return u.(U)
}

// hash is FNV-1a, in 32 bits.
func hash(s string) uint32 {
	h := uint32(2166136261)
	for i := range len(s) {
		h = (h ^ uint32(s[i])) * 16777619
	}
	return h
}

// number reads text as a number; what is none has one of its own, and empty text is 0.
func number(s string) int64 {
	if s == "" {
		return 0
	}
	digits := strings.TrimPrefix(s, "-")
	if len(digits) == 0 || len(digits) > 18 || strings.Trim(digits, "0123456789") != "" {
		return int64(hash(s) % 1000)
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		panic(err) // the digits were looked at
	}
	return n
}

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// cut keeps text from growing.
func cut(s string) string {
	if len(s) <= 24 {
		return s
	}
	return fmt.Sprintf("%s~%08x", s[:12], hash(s))
}

func predicate(f string, n int, key, s string) bool {
	switch f {
	case "hash":
		return hash(key+"|"+s)%uint32(n) != 0
	case "even":
		return number(s)%2 == 0
	case "short":
		return len(s) < n
	case "all":
		return true
	case "none":
		return false
	}
	panic("oracle: no predicate " + f)
}

func mapper(f string, n int, s string) result {
	switch f {
	case "same":
		return result{text: s}
	case "upper":
		return result{text: strings.ToUpper(s)}
	case "append":
		return result{text: cut(s + string(rune('a'+n)))}
	case "head":
		return result{text: s[:min(n, len(s))]}
	case "len":
		return result{text: decimal(int64(len(s)))}
	case "plus":
		return result{text: decimal(number(s) + int64(n))}
	case "half":
		if (hash(s)+uint32(n))%2 == 0 {
			return result{null: true}
		}
		return result{text: s}
	}
	panic("oracle: no mapper " + f)
}

func list(f string, n int, s string) (all []result) {
	switch f {
	case "each":
		for i := range min(3, len(s)) {
			all = append(all, result{text: s[i : i+1]})
		}
	case "twice":
		all = []result{{text: s}, {text: cut(s + s)}}
	case "some":
		for i := range hash(s) % 3 {
			all = append(all, mapper("half", n, cut(s+decimal(int64(i)))))
		}
	default:
		panic("oracle: no list " + f)
	}
	return all
}

func makeKey(f string, n int, key, s string) string {
	switch f {
	case "first":
		return s[:min(1, len(s))]
	case "same":
		return key
	case "both":
		return cut(key + s[:min(1, len(s))])
	case "mod":
		return "k" + decimal(int64(hash(s)%uint32(n)))
	case "const":
		return "c"
	}
	panic("oracle: no key function " + f)
}

// side is one side of a join: text, or nothing.
func side[V any](v V, ok bool) string {
	if !ok {
		return "-"
	}
	return text(v)
}

func join(f string, n int, a, b string) result {
	switch f {
	case "concat":
		return result{text: cut(a + "+" + b)}
	case "plus":
		return result{text: decimal(number(a) + number(b))}
	case "left":
		return result{text: a}
	case "right":
		return result{text: b}
	case "half":
		return mapper("half", n, cut(a+"+"+b))
	}
	panic("oracle: no joiner " + f)
}

func add(f string, n int, a, key, s string) result {
	switch f {
	case "concat":
		return result{text: cut(a + s)}
	case "plus":
		return result{text: decimal(number(a) + number(s))}
	case "last":
		return result{text: s}
	case "keyed":
		return result{text: cut(a + key + s)}
	case "half":
		return mapper("half", n, cut(a+s))
	}
	panic("oracle: no adder " + f)
}

// subtract takes back what add has done, as far as text has a trace of it.
func subtract(f string, n int, a, key, s string) result {
	if f == "plus" {
		return result{text: decimal(number(a) - number(s))}
	}
	return add(f, n, a, key, "-"+s)
}

// withKey puts a key before a result.
func withKey(key string, r result) result {
	r.text = cut(key + ":" + r.text)
	return r
}

// Predicate looks at key and value.
func Predicate[K keyType, V value](f string, n int) func(K, V) bool {
	return func(k K, v V) bool { return predicate(f, n, text(k), text(v)) }
}

// Records looks at what is null in a record.
func Records[K keyType, V value](f string) func(streams.Record[K, V]) bool {
	return func(r streams.Record[K, V]) bool {
		switch f {
		case "value":
			return !r.NullValue
		case "key":
			return !r.NullKey
		case "both":
			return !r.NullKey && !r.NullValue
		case "either":
			return !r.NullKey || !r.NullValue
		}
		panic("oracle: no predicate of records " + f)
	}
}

// Mapper makes a value of a value.
func Mapper[V, U value](f string, n int) func(V) U {
	return func(v V) U { return as[U](mapper(f, n, text(v))) }
}

// TryMapper is a [Mapper] that might have failed.
func TryMapper[V, U value](f string, n int) func(V) (U, error) {
	return func(v V) (U, error) { return as[U](mapper(f, n, text(v))), nil }
}

// MapperWithKey makes a value of key and value.
func MapperWithKey[K keyType, V, U value](f string, n int) func(K, V) U {
	return func(k K, v V) U { return as[U](withKey(text(k), mapper(f, n, text(v)))) }
}

// Lister makes values of a value.
func Lister[V, U value](f string, n int) func(V) []U {
	return func(v V) (all []U) {
		for _, r := range list(f, n, text(v)) {
			all = append(all, as[U](r))
		}
		return all
	}
}

// ListerWithKey makes values of key and value.
func ListerWithKey[K keyType, V, U value](f string, n int) func(K, V) []U {
	return func(k K, v V) (all []U) {
		for _, r := range list(f, n, text(v)) {
			all = append(all, as[U](withKey(text(k), r)))
		}
		return all
	}
}

// KeyMaker makes a key of key and value.
func KeyMaker[K keyType, V value](f string, n int) func(K, V) string {
	return func(k K, v V) string { return makeKey(f, n, text(k), text(v)) }
}

// Both makes a key and a value.
func Both[K keyType, V, U value](kf string, kn int, f string, n int) func(K, V) (string, U) {
	return func(k K, v V) (string, U) { return makeKey(kf, kn, text(k), text(v)), as[U](mapper(f, n, text(v))) }
}

// TryBoth is [Both] that might have failed.
func TryBoth[K keyType, V, U value](kf string, kn int, f string, n int) func(K, V) (string, U, error) {
	return func(k K, v V) (string, U, error) {
		return makeKey(kf, kn, text(k), text(v)), as[U](mapper(f, n, text(v))), nil
	}
}

// Emitter makes records of a record, each with a key made of its own value.
func Emitter[K keyType, V, U value](kf string, kn int, f string, n int) func(K, V, func(string, U)) {
	return func(k K, v V, emit func(string, U)) {
		for _, r := range list(f, n, text(v)) {
			emit(makeKey(kf, kn, text(k), r.text), as[U](r))
		}
	}
}

// Nuller makes nulls of some keys or values.
func Nuller[K keyType, V value](f string, n int) func(streams.Record[K, V]) streams.Record[string, V] {
	return func(r streams.Record[K, V]) streams.Record[string, V] {
		out := r.WithKey(text(r.Key))
		out.NullKey = r.NullKey
		if hash(text(r.Key)+"|"+text(r.Value))%uint32(n) != 0 {
			return out
		}
		if f == "key" || f == "both" {
			out.Key, out.NullKey = "", true
		}
		if f == "value" || f == "both" {
			out = out.Null()
		}
		return out
	}
}

// Joiner makes a value of two.
func Joiner[V, W value](f string, n int) func(V, W) V {
	return func(v V, w W) V { return as[V](join(f, n, text(v), text(w))) }
}

// JoinerWithKey makes a value of a key and two values.
func JoinerWithKey[V, W value](f string, n int) func(string, V, W) V {
	return func(k string, v V, w W) V { return as[V](withKey(k, join(f, n, text(v), text(w)))) }
}

// LeftJoiner makes a value of one or two.
func LeftJoiner[V, W value](f string, n int) func(V, W, bool) V {
	return func(v V, w W, ok bool) V { return as[V](join(f, n, text(v), side(w, ok))) }
}

// LeftJoinerWithKey makes a value of a key and one or two values.
func LeftJoinerWithKey[V, W value](f string, n int) func(string, V, W, bool) V {
	return func(k string, v V, w W, ok bool) V { return as[V](withKey(k, join(f, n, text(v), side(w, ok)))) }
}

// OuterJoiner makes a value of two, of which one may be missing.
func OuterJoiner[V, W value](f string, n int) func(V, bool, W, bool) V {
	return func(v V, vok bool, w W, wok bool) V { return as[V](join(f, n, side(v, vok), side(w, wok))) }
}

// OuterJoinerWithKey makes a value of a key and two values, of which one may be missing.
func OuterJoinerWithKey[V, W value](f string, n int) func(string, V, bool, W, bool) V {
	return func(k string, v V, vok bool, w W, wok bool) V {
		return as[V](withKey(k, join(f, n, side(v, vok), side(w, wok))))
	}
}

// JoinerWithKeys makes a value of two keys and two values.
func JoinerWithKeys[V, W value](f string, n int) func(string, string, V, W) V {
	return func(k, l string, v V, w W) V { return as[V](withKey(k+"/"+l, join(f, n, text(v), text(w)))) }
}

// LeftJoinerWithKeys makes a value of two keys and one or two values.
func LeftJoinerWithKeys[V, W value](f string, n int) func(string, string, V, W, bool) V {
	return func(k, l string, v V, w W, ok bool) V {
		return as[V](withKey(k+"/"+l, join(f, n, text(v), side(w, ok))))
	}
}

// ForeignKey makes a key of another table; some rows have none.
func ForeignKey[V value](f string, n int) func(string, V) (string, bool) {
	return func(k string, v V) (string, bool) { return makeKey(f, n, k, text(v)), hash(text(v))%4 != 0 }
}

// Initial makes the aggregate of nothing.
func Initial[A value]() A { return as[A](result{}) }

// Adder folds a value into an aggregate.
func Adder[V, A value](f string, n int) func(A, string, V) A {
	return func(a A, k string, v V) A { return as[A](add(f, n, text(a), k, text(v))) }
}

// Reducer folds a value into another.
func Reducer[V value](f string, n int) func(V, V) V {
	return func(a, v V) V { return as[V](add(f, n, text(a), "", text(v))) }
}

// Sequence is [Lister] as an iterator.
func Sequence[V, U value](f string, n int) func(V) iter.Seq[U] {
	return func(v V) iter.Seq[U] { return slices.Values(Lister[V, U](f, n)(v)) }
}

// Router sends records to a topic, or to another beside it.
func Router[K keyType, V value](f string, n int, topic string) func(streams.Record[K, V], streams.Origin) string {
	return func(r streams.Record[K, V], _ streams.Origin) string {
		if predicate(f, n, text(r.Key), text(r.Value)) {
			return topic
		}
		return topic + "-else"
	}
}

// Subtracter takes a value back from an aggregate.
func Subtracter[V, A value](f string, n int) func(A, string, V) A {
	return func(a A, k string, v V) A { return as[A](subtract(f, n, text(a), k, text(v))) }
}

// Unreducer takes a value back from another.
func Unreducer[V value](f string, n int) func(V, V) V {
	return func(a, v V) V { return as[V](subtract(f, n, text(a), "", text(v))) }
}

// Merger makes one aggregate of two, of sessions that grow together.
func Merger[A value](f string, n int) func(string, A, A) A {
	return func(k string, a, b A) A { return as[A](add(f, n, text(a), k, text(b))) }
}

// Offset windows follow each other as tumbling windows do, from a time that is not the epoch.
func Offset(size time.Duration) window.Assigner { return offset(size.Milliseconds()) }

type offset int64

func (o offset) MaxSize() time.Duration { return time.Duration(o) * time.Millisecond }

func (o offset) Windows(t time.Time) iter.Seq[window.Window] {
	size := int64(o)
	start := max(0, (t.UnixMilli()+size/3)/size*size-size/3)
	return func(yield func(window.Window) bool) {
		yield(window.Window{Start: time.UnixMilli(start).UTC(), End: time.UnixMilli(start + size).UTC()})
	}
}
