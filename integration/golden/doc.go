// Package golden compares what Millrace builds with what Java Kafka Streams builds of the same program: generated names, sub-topologies, the order of
// nodes in the description. The files in testdata were written by the Java program in the folder java; with the build tag kafka a test writes them again
// and compares. To add a topology, write it in both languages under one name and run
//
//	go test -tags kafka -run TestJava ./integration/golden -rewrite
package golden
