// Package devbroker runs an Apache Kafka look-alike inside the process: franz-go's kfake plus a coordinator of streams groups (KIP-1071), which
// kfake does not have. It is meant for tests and for work on one machine; the command "millrace dev" runs it as a process of its own.
//
//	b, err := devbroker.Start(devbroker.Topic("clicks", 4))
//	if err != nil { … }
//	defer b.Close()
//	client, err := kgo.NewClient(b.ClientOpts()...)
//
// It speaks over TCP on 127.0.0.1 by default. With [VirtualNetwork] connections stay inside the process, so that a test can run in a bubble of
// testing/synctest, where hours pass in milliseconds.
//
// # Two sets of timings
//
// The default is [coordinator.QuickConfig]: heartbeats every 100 ms, sessions of 3 s, assignments at once. [KafkaTimings] selects what a broker ships
// with ([coordinator.KafkaConfig]): heartbeats every 5 s, sessions of 45 s, an initial delay of 3 s, and assignments at least 1 s apart. [Settings]
// changes single values. [PlayRelease] chooses the Kafka release whose coordinator is played, 4.4 by default.
//
// # What it does and does not
//
// Streams groups: heartbeats (key 88), descriptions (89), fencing of offset commits (8, 28) and fetches (9), offset deletion (47), lists (16), deletion
// (42), group configs (44, 32), exclusion of other group types under the same id (11, 68, 76), creation of internal topics. Everything else is kfake:
// produce, fetch, transactions with KIP-890, topic administration, consumer groups, share groups.
//
// The description plugin (key 93) is answered as by a broker that has none. There are no ACLs for streams groups, and warm-up tasks are never
// assigned, as in every released broker. With [DataDir] everything survives a restart: topics, records, offsets, transactions, groups.
//
// # Concurrency
//
// All methods of [Broker] may be called from any goroutine until Close.
package devbroker
