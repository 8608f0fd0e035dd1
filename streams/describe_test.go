package streams_test

import (
	"strings"
	"testing"

	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/serde"
)

var (
	lines  = streams.NewTopic("lines", serde.String, serde.String)
	counts = streams.NewTopic("counts-out", serde.String, serde.Int64)
)

func wordCount(t testing.TB) *streams.Topology {
	b := streams.NewBuilder()
	b.Stream(lines).
		FlatMapValues(strings.Fields).
		GroupBy(func(_, word string) string { return word }).
		Count("counts").
		ToStream().
		To(counts)
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return topology
}

func TestDescribeWordCount(t *testing.T) {
	want := `Topologies:
   Sub-topology: 0
    Source: KSTREAM-SOURCE-0000000000 (topics: [lines])
      --> KSTREAM-FLATMAPVALUES-0000000001
    Processor: KSTREAM-FLATMAPVALUES-0000000001 (stores: [])
      --> KSTREAM-KEY-SELECT-0000000002
      <-- KSTREAM-SOURCE-0000000000
    Processor: KSTREAM-KEY-SELECT-0000000002 (stores: [])
      --> counts-repartition-filter
      <-- KSTREAM-FLATMAPVALUES-0000000001
    Processor: counts-repartition-filter (stores: [])
      --> counts-repartition-sink
      <-- KSTREAM-KEY-SELECT-0000000002
    Sink: counts-repartition-sink (topic: counts-repartition)
      <-- counts-repartition-filter

  Sub-topology: 1
    Source: counts-repartition-source (topics: [counts-repartition])
      --> KSTREAM-AGGREGATE-0000000003
    Processor: KSTREAM-AGGREGATE-0000000003 (stores: [counts])
      --> KTABLE-TOSTREAM-0000000007
      <-- counts-repartition-source
    Processor: KTABLE-TOSTREAM-0000000007 (stores: [])
      --> KSTREAM-SINK-0000000008
      <-- KSTREAM-AGGREGATE-0000000003
    Sink: KSTREAM-SINK-0000000008 (topic: counts-out)
      <-- KTABLE-TOSTREAM-0000000007

`
	if got := wordCount(t).Describe(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
