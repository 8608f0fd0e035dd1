// Package topology holds the untyped graph of a stream program: what the DSL in package streams builds and what the runtime executes.
//
// A [Graph] collects nodes and stores. [Graph.Build] checks it, cuts it into sub-topologies and names internal topics; the result describes itself
// in Kafka Streams' text and as the [Metadata] that a member of a streams group sends. [TaskID] is the vocabulary shared by all packages.
package topology
