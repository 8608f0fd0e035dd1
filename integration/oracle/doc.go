// Package oracle proves that Millrace means the same as Java Kafka Streams: random programs are built through both DSLs, fed the same records, and everything
// that comes out is compared byte by byte.
//
//   - [Program] is a topology and its input, as plain data. [Generate] makes one of a seed.
//   - [Run] builds it through package streams and runs it on streamstest. The program in the folder java builds it through StreamsBuilder and runs it on
//     TopologyTestDriver; [Java] talks to it, and one JVM serves many programs.
//   - [Compare] looks at the description, at the records of all topics (repartition topics and changelogs included) after each input, at the calls of peek and
//     foreach, and at the stores.
//   - [Shrink] makes a program that differs small, and [GoSource] and [JavaSource] print it.
//
// What once differed is kept in the folder corpus, with Java's results, so that it is checked where there is no Java. The command is
//
//	go run ./integration/oracle/cmd -n 10000 -seed 1
//
// That the oracle sees is shown by mutants (make mutants): each rule is made wrong in turn, and some program must notice. Java's answers are recorded once for
// all of them.
//
// A new operator takes three entries: in the table of operators.go, in build.go, and in java/src/main/java/oracle/Build.java.
package oracle
