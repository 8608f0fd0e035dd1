// Package streams is a Kafka Streams-style runtime for Go: describe what happens to records with a [Builder], and run it in as many
// processes as you like with an [App].
//
// # Names
//
// Words are Kafka Streams' without the K. A [Topic] is typed and declared once; every other type is inferred from it. The methods of
// [Stream], [Table] and their kin form one chain, and no call in it needs a type argument.
//
// # Nulls
//
// Kafka has null keys and values; Go's string and int64 have not. A null travels beside the value, as a flag of the record, so that a
// Stream[string, int64] may carry one at no cost. Four rules:
//
//  1. Null in, null out. A function that makes a value from values (MapValues, a joiner, an aggregator, everything on a table) is
//     not called for a null; MapValues passes it on, FlatMapValues drops it, joins and aggregations treat it as Kafka Streams does.
//  2. A null reads as zero. A function that looks at key and value (Filter, Peek, SelectKey, GroupBy, Map, a branch) is called, and sees the
//     zero K or V, as if it had read a missing key of a map. A *User is nil then: guard it, or call DropNulls before.
//  3. Maybe missing, then comma ok. Where a value may be absent, a bool follows it: the joiner of a left join, func(V, W, bool) R, a store's Get.
//  4. nil is null. A nil pointer or nil interface that a function returns is a Kafka null: it deletes the row of an aggregation or join and
//     is a tombstone in a stream. A nil slice or map is empty and not null, as elsewhere in Go: bytes.TrimSpace must not delete rows.
//
// What must see or set nulls one by one uses whole records: FilterRecords, MapRecords, [Record.Null], or a [Processor]. DropNulls removes them.
//
// # Three steps of power
//
// Plain functions take keys and values and cannot fail. Their Try forms may: an error goes to [Config.OnProcessError]. MapRecords adds
// time, headers and nulls. A [Processor], or ProcessFunc, adds stores, punctuation, any number of outputs and a context.
//
// # Mistakes
//
// Operators do not return errors. [Builder.Build] returns every mistake at once, each a *[BuildError] that names the operator and the line.
//
// # Where things are
//
// The surface: topic.go, record.go, builder.go, stream.go, grouped.go, table.go, windowed.go, processor.go, store.go, options.go, errors.go, config.go,
// app.go. Inside, graph.go collects what the operators say and writes it to a topology.Graph; node*.go are the typed nodes that run; task.go makes
// them for a task. internal/client connects package tasks to Kafka.
package streams
