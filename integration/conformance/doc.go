// Package conformance says what a client can see of a streams group coordinator, as raw requests and the answers they must get. The same suite runs
// against the development broker, whatever release it plays, and against real Apache Kafka; a difference fails.
//
// [Run] runs all cases against one [Target]. A case is named for the checklist item it covers, as in C12OldEpochNeedsOwnedLists for C-12.
//
// A target needs small bounds, because the cases make heartbeats and sessions short through group configs: group.streams.min.heartbeat.interval.ms=100,
// group.streams.min.session.timeout.ms=1000, group.streams.initial.rebalance.delay.ms=0, group.streams.assignment.interval.ms=0 (4.3 and later).
// On a 4.2 broker, where a group with any setting of its own loses the broker's, the cases set all they need.
//
// The tests of the package run the suite against development brokers, and against a real one if MILLRACE_BROKERS has its address and
// MILLRACE_BROKERS_RELEASE its release ("4.4" if unset).
package conformance
