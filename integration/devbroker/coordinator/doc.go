// Package coordinator is the pure core of the development broker: what a Kafka broker's group coordinator does for streams groups (KIP-1071).
//
// A [Coordinator] does no I/O, starts no goroutine and asks no clock. The caller hands in the time, the node a request arrived at and what is known
// about the client, and takes back a response and the topics to create:
//
//	c := coordinator.New(coordinator.QuickConfig(), cluster)
//	resp, create := c.Heartbeat(now, node, client, req)
//	// send resp, create the topics, report failures with c.CreationFailed
//	c.Expire(c.Deadline()) // no later than that: sessions, rebalance timeouts, initial delays
//
// The same calls in the same order give the same answers: maps are walked sorted and the assignor breaks ties by id. A Coordinator is not safe for
// concurrent use; the shell holds one lock around it. Requests are read, never kept nor changed; responses belong to the caller.
//
// The behaviour is that of the Apache Kafka releases named by [Release], as observed on running brokers. Comments such as "§15.2" cite the section of
// the project's description of that behaviour, and "C-34" its checklist of testable behaviours, which are also the names of the tests.
package coordinator
