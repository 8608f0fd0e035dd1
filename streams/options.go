package streams

import (
	"fmt"
	"reflect"
	"time"

	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/topology"
)

// Unnamed, in the place of a store name, asks for the name Kafka Streams would generate, such as
// KSTREAM-AGGREGATE-STATE-STORE-0000000003. Generated names shift when an operator is added or removed before, and with them the
// changelog topic: name what must survive a change of the program. [RequireNames] turns Unnamed into a Build error.
const Unnamed = ""

// The option interfaces below are closed. One option may be of several kinds, and the compiler refuses it elsewhere:
// [Named] fits every operator, [Partitions] only Repartition.
type (
	// BuilderOption configures [NewBuilder].
	BuilderOption interface{ builder(*builderOptions) }
	// SourceOption configures [Builder.Stream].
	SourceOption interface{ source(*options) }
	// TableOption configures operators that yield a table and may keep it in a store.
	TableOption interface{ table(*options) }
	// StepOption configures operators that keep the key and have no state.
	StepOption interface{ step(*options) }
	// RekeyOption configures operators that may change the key.
	RekeyOption interface{ rekey(*options) }
	// SinkOption configures To and Route.
	SinkOption interface{ sink(*options) }
	// GroupOption configures GroupBy and GroupByKey.
	GroupOption interface{ group(*options) }
	// RepartitionOption configures Repartition.
	RepartitionOption interface{ repartition(*options) }
	// AggregateOption configures Count, Reduce and Aggregate.
	AggregateOption interface{ aggregate(*options) }
	// JoinOption configures stream-stream joins.
	JoinOption interface{ join(*options) }
	// LookupOption configures stream-table joins.
	LookupOption interface{ lookup(*options) }
	// ForeignKeyOption configures foreign-key joins.
	ForeignKeyOption interface{ foreign(*options) }
	// ProcessOption configures Process and its kin.
	ProcessOption interface{ process(*options) }
	// StoreOption configures a store declared by itself, see [NewKeyValueStore].
	StoreOption interface{ store(*options) }
)

// options is what the options of one operator say.
type options struct {
	name         string
	serdes       []SerdeOption
	reset        *Reset
	timestamps   *TimestampPolicy
	materialized string // name of the store; see isMaterialized
	hasStore     bool
	inMemory     *bool
	caching      *bool
	noLogging    bool
	changelog    map[string]string
	retention    *time.Duration
	history      *time.Duration
	joinStores   string
	thisPlace    any // func(K, int) int
	otherPlace   any
	keepsPlaces  bool
	partitions   *int
	partitioner  any // func(Record[K, V], int) Placement
	stores       []StoreRef
}

func gather[O any](list []O, apply func(O, *options)) options {
	var o options
	for _, e := range list {
		if given(e) {
			apply(e, &o)
		}
	}
	return o
}

// given reports whether an option says something: one that is nil, or a zero value that no constructor made, does not.
func given(option any) bool {
	_, named := option.(MaterializedOption) // a store without a name is a mistake
	return named || option != nil && !reflect.ValueOf(option).IsZero()
}

// applyStore copies what the options say about a store.
func (o *options) applyStore(s *topology.Store) {
	if o.inMemory != nil {
		s.InMemory = *o.inMemory
	}
	if o.caching != nil {
		s.Caching = *o.caching
	}
	if o.noLogging {
		s.Logging = false
	}
	if o.retention != nil {
		s.Retention = *o.retention
	}
	if o.history != nil && s.Kind == topology.KeyValueStore {
		s.Kind, s.Timestamped, s.Caching, s.Retention = topology.VersionedStore, false, false, *o.history
	}
	s.ChangelogConfig = o.changelog
}

// NamedOption is the result of [Named].
type NamedOption struct{ name string }

// Named gives an operator its name in Describe, logs, metrics and error messages. Where the operator owns a repartition topic (GroupBy, a
// join), the topic is named after it. Letters, digits, '.', '_' and '-', at most 249.
func Named(name string) NamedOption { return NamedOption{name} }

func (n NamedOption) source(o *options)      { o.name = n.name }
func (n NamedOption) table(o *options)       { o.name = n.name }
func (n NamedOption) step(o *options)        { o.name = n.name }
func (n NamedOption) rekey(o *options)       { o.name = n.name }
func (n NamedOption) sink(o *options)        { o.name = n.name }
func (n NamedOption) group(o *options)       { o.name = n.name }
func (n NamedOption) repartition(o *options) { o.name = n.name }
func (n NamedOption) aggregate(o *options)   { o.name = n.name }
func (n NamedOption) join(o *options)        { o.name = n.name }
func (n NamedOption) lookup(o *options)      { o.name = n.name }
func (n NamedOption) foreign(o *options)     { o.name = n.name }
func (n NamedOption) process(o *options)     { o.name = n.name }

// SerdeOption is the result of [KeySerde] and [ValueSerde].
type SerdeOption struct {
	serde any // serde.Serde[T]
	typ   reflect.Type
	key   bool
	other bool // of the other side of a join
}

// KeySerde gives the serde for the operator's result key. A serde of another type than that key is a Build error.
func KeySerde[T any](s serde.Serde[T]) SerdeOption {
	return SerdeOption{serde: s, typ: reflect.TypeFor[T](), key: true}
}

// ValueSerde gives the serde for the operator's result value: the aggregate of an aggregation, this side's value of a join.
func ValueSerde[T any](s serde.Serde[T]) SerdeOption {
	return SerdeOption{serde: s, typ: reflect.TypeFor[T]()}
}

// OtherValueSerde gives the serde for the value of a stream-stream join's other side.
func OtherValueSerde[T any](s serde.Serde[T]) JoinSerde {
	return JoinSerde{SerdeOption{serde: s, typ: reflect.TypeFor[T](), other: true}}
}

// JoinSerde is the result of [OtherValueSerde].
type JoinSerde struct{ s SerdeOption }

func (j JoinSerde) join(o *options) { j.s.add(o) }

func (s SerdeOption) add(o *options)         { o.serdes = append(o.serdes, s) }
func (s SerdeOption) table(o *options)       { s.add(o) }
func (s SerdeOption) step(o *options)        { s.add(o) }
func (s SerdeOption) rekey(o *options)       { s.add(o) }
func (s SerdeOption) sink(o *options)        { s.add(o) }
func (s SerdeOption) group(o *options)       { s.add(o) }
func (s SerdeOption) repartition(o *options) { s.add(o) }
func (s SerdeOption) aggregate(o *options)   { s.add(o) }
func (s SerdeOption) join(o *options)        { s.add(o) }
func (s SerdeOption) lookup(o *options)      { s.add(o) }
func (s SerdeOption) foreign(o *options)     { s.add(o) }
func (s SerdeOption) process(o *options)     { s.add(o) }

// SourceOnly is an option of sources: [ResetTo], [OnInvalidTimestamp].
type SourceOnly struct{ set func(*options) }

func (s SourceOnly) source(o *options) { s.set(o) }
func (s SourceOnly) table(o *options)  { s.set(o) }

// Reset says where to begin in a partition that has no committed offset.
type Reset struct {
	kind resetKind
	ago  time.Duration
}

type resetKind uint8

const (
	resetUnset resetKind = iota
	resetEarliest
	resetLatest
	resetFail
	resetAgo
)

// The reset policies.
var (
	Earliest  = Reset{kind: resetEarliest}
	Latest    = Reset{kind: resetLatest}
	FailUnset = Reset{kind: resetFail} // App.Run returns an error
)

// AgoAtStart begins with the first record that is not older than d when the partition is first read.
func AgoAtStart(d time.Duration) Reset { return Reset{resetAgo, d} }

// ResetTo overrides Config.Reset for one source.
func ResetTo(r Reset) SourceOnly { return SourceOnly{func(o *options) { o.reset = &r }} }

// TimestampPolicy is what to do with a record whose time is invalid.
type TimestampPolicy uint8

// The policies, Java's four extractors.
const (
	FailOnInvalidTime TimestampPolicy = iota // the default
	SkipOnInvalidTime                        // drop, log, and count
	PartitionTimeThen                        // use the highest time seen on the partition
	AlwaysWallClock                          // never look at the record's time; a replay then gives other results
)

// OnInvalidTimestamp overrides Config.Timestamps for one source.
func OnInvalidTimestamp(p TimestampPolicy) SourceOnly {
	return SourceOnly{func(o *options) { o.timestamps = &p }}
}

// MaterializedOption is the result of [Materialized].
type MaterializedOption struct{ name string }

// Materialized keeps the result of a table operator in a store of this name, where queries and processors can read it. Aggregations are
// always kept and take their store name as first argument instead.
func Materialized(store string) MaterializedOption { return MaterializedOption{store} }

func (m MaterializedOption) table(o *options)   { o.materialized, o.hasStore = m.name, true }
func (m MaterializedOption) foreign(o *options) { o.materialized, o.hasStore = m.name, true }

// StoreKnob is an option of everything that keeps a store.
type StoreKnob struct{ set func(*options) }

func (k StoreKnob) table(o *options)     { k.set(o) }
func (k StoreKnob) aggregate(o *options) { k.set(o) }
func (k StoreKnob) join(o *options)      { k.set(o) }
func (k StoreKnob) foreign(o *options)   { k.set(o) }
func (k StoreKnob) store(o *options)     { k.set(o) }

var (
	yes, no = true, false

	// Persistent keeps the store on disk, the default.
	Persistent = StoreKnob{func(o *options) { o.inMemory = &no }}
	// InMemory keeps the store in memory and restores it in full at every start.
	InMemory = StoreKnob{func(o *options) { o.inMemory = &yes }}
	// Caching sends only the last update per key and commit interval downstream and to the changelog. It is the default of the DSL's stores; stores
	// declared by [NewKeyValueStore] and its kin have none (F-176).
	Caching = StoreKnob{func(o *options) { o.caching = &yes }}
	// NoCaching sends every update downstream instead of the last one per key and commit interval.
	NoCaching = StoreKnob{func(o *options) { o.caching = &no }}
	// NoLogging keeps no changelog: the store is lost when its task moves.
	NoLogging = StoreKnob{func(o *options) { o.noLogging = true }}
)

// Changelog overrides topic settings of the store's changelog, such as "min.insync.replicas".
func Changelog(config map[string]string) StoreKnob {
	return StoreKnob{func(o *options) { o.changelog = config }}
}

// Retention keeps the rows of a window store for d. Less than the windows need (size and grace) is a Build error.
func Retention(d time.Duration) StoreKnob { return StoreKnob{func(o *options) { o.retention = &d }} }

// Versioned keeps the history of every key for so long, counted back from the table's own stream time (KIP-914): records older than that are dropped, a
// stream that is joined with the table looks it up as of the record's time, and out-of-order updates reach nothing that must only see the latest. A
// versioned store has no cache. It is for tables; window stores and global tables refuse it.
func Versioned(history time.Duration) StoreKnob {
	return StoreKnob{func(o *options) { o.history = &history }}
}

// StoreName names the stores of a stream-stream join, which otherwise have generated names, whatever [Named] says.
func StoreName(name string) JoinOnly { return JoinOnly{func(o *options) { o.joinStores = name }} }

// JoinOnly is an option of stream-stream joins.
type JoinOnly struct{ set func(*options) }

func (j JoinOnly) join(o *options) { j.set(o) }

// RekeyOnly is an option of key-changing operators.
type RekeyOnly struct{ set func(*options) }

func (r RekeyOnly) rekey(o *options) { r.set(o) }

// KeepsPartitioning promises that the new key goes to the partition the record is already in, so that no repartition topic is needed.
// Nobody checks the promise.
var KeepsPartitioning = RekeyOnly{func(o *options) { o.keepsPlaces = true }}

// RepartitionOnly is an option of Repartition.
type RepartitionOnly struct{ set func(*options) }

func (r RepartitionOnly) repartition(o *options) { r.set(o) }

// Partitions fixes the number of partitions; without it the number follows from what is upstream.
func Partitions(n int) RepartitionOnly {
	return RepartitionOnly{func(o *options) { o.partitions = &n }}
}

// PartitionerOption is the result of [PartitionBy].
type PartitionerOption struct{ f any }

func (p PartitionerOption) repartition(o *options) { o.partitioner = p.f }
func (p PartitionerOption) sink(o *options)        { o.partitioner = p.f }

// PartitionBy places records by f, on an internal topic or, for one sink only, instead of the topic's own partitioner. Types that differ
// from the stream's are a Build error.
func PartitionBy[K, V any](f func(r Record[K, V], partitions int) Placement) PartitionerOption {
	return PartitionerOption{f}
}

// StoresOption is the result of [WithStores].
type StoresOption struct{ stores []StoreRef }

func (s StoresOption) process(o *options) { o.stores = append(o.stores, s.stores...) }

// WithStores lets a processor use stores. A store nobody added yet is added; processors that share one are in one sub-topology.
func WithStores(stores ...StoreRef) StoresOption { return StoresOption{stores} }

// BuilderOnly is an option of [NewBuilder].
type BuilderOnly struct{ set func(*builderOptions) }

func (b BuilderOnly) builder(o *builderOptions) { b.set(o) }

type builderOptions struct {
	serdes            map[reflect.Type]any
	json              bool
	requireNames      bool
	reuseSources      bool
	selfJoins         bool
	mergeRepartitions bool
	wrap              func(node string, next ProcessFunc) ProcessFunc
	errs              []error
}

// DefaultSerde is used for T wherever no other serde is given.
func DefaultSerde[T any](s serde.Serde[T]) BuilderOnly {
	return BuilderOnly{func(o *builderOptions) {
		t := reflect.TypeFor[T]()
		if o.serdes[t] = s; s == nil {
			o.errs = append(o.errs, fmt.Errorf("%w %v: the one given to streams.DefaultSerde is nil", ErrNoSerde, t))
		}
	}}
}

var (
	// DefaultJSON encodes every type that has no other serde as JSON.
	DefaultJSON = BuilderOnly{func(o *builderOptions) { o.json = true }}
	// RequireNames makes a generated store or internal topic name a Build error (KIP-1111).
	RequireNames = BuilderOnly{func(o *builderOptions) { o.requireNames = true }}
	// ReuseSourceTopics restores source tables from their topic, which must be compacted, instead of from a changelog: half the storage (KIP-295). Such a
	// store is not kept warm on standbys. Turning it on or off changes the topics of an application.
	ReuseSourceTopics = BuilderOnly{func(o *builderOptions) { o.reuseSources = true }}
	// MergeRepartitionTopics lets the aggregations, joins and tables below one change of key share a repartition topic, which is placed right behind the
	// change and named after the first of those it stands for; a merge of several streams with changed keys counts as such a change. One behind an operator
	// that replaces values or behind a processor, and one made by [Stream.Repartition], stays where it is. Results stay the same. Turning it on or off changes
	// the topics of an application (F-053).
	MergeRepartitionTopics = BuilderOnly{func(o *builderOptions) { o.mergeRepartitions = true }}
	// SingleStoreSelfJoin keeps one store instead of two where a stream is joined with itself (KIP-862). Results and their order stay the same, but for what
	// follows from that no record is without a partner: left and outer joins give no record alone, be it late or without a key. Turning it on or off changes
	// the topics of an application.
	SingleStoreSelfJoin = BuilderOnly{func(o *builderOptions) { o.selfJoins = true }}
)

// serdeFor finds the serde of an operator's key or value: the one given to it, the one that came down the stream, the builder's own, the one that the
// Go type has anyway. None is a mistake.
func serdeFor[T any](b *Builder, op, at string, key bool, given []SerdeOption, inherited serde.Serde[T]) serde.Serde[T] {
	t := reflect.TypeFor[T]()
	for _, g := range given {
		if g.key != key || g.other {
			continue
		}
		if s, ok := g.serde.(serde.Serde[T]); ok {
			return s
		}
		b.mistake(op, at, wrongSerde(g, t))
		return nil
	}
	if inherited != nil {
		return inherited
	}
	if s := defaultSerde[T](b); s != nil {
		return s
	}
	b.mistake(op, at, fmt.Errorf("%w %v of the %s; give one with streams.%sSerde, or a default with streams.DefaultSerde or streams.DefaultJSON",
		ErrNoSerde, t, what(key), map[bool]string{true: "Key", false: "Value"}[key]))
	return nil
}

// defaultSerde is the serde that a Go type has without being given one: the builder's or our own. It is nil if there is none.
func defaultSerde[T any](b *Builder) serde.Serde[T] {
	t := reflect.TypeFor[T]()
	if s, ok := b.opts.serdes[t].(serde.Serde[T]); ok {
		return s
	}
	if s, ok := builtin[t].(serde.Serde[T]); ok {
		return s
	}
	if b.opts.json {
		return serde.JSON[T]()
	}
	return nil
}

// wrongSerde says why a serde that an option gives does not serve for t.
func wrongSerde(g SerdeOption, t reflect.Type) error {
	if g.serde == nil {
		return fmt.Errorf("%w %v of the %s: the one given is nil", ErrNoSerde, g.typ, what(g.key))
	}
	return fmt.Errorf("%w: %s serde for %v, where the operator has %v", ErrSerdeType, what(g.key), g.typ, t)
}

func what(key bool) string {
	if key {
		return "key"
	}
	return "value"
}

// builtin has the serdes of Go types with one obvious, Java-compatible form.
var builtin = map[reflect.Type]any{}

func init() {
	register(serde.String)
	register(serde.Bytes)
	register(serde.Int16)
	register(serde.Int32)
	register(serde.Int64)
	register(serde.Float32)
	register(serde.Float64)
	register(serde.Bool)
	register(serde.UUID)
}

func register[T any](s serde.Serde[T]) { builtin[reflect.TypeFor[T]()] = s }
