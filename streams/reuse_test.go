package streams_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/streamstest"
	topo "github.com/millrace/millrace/topology"
)

// F-054: with the source topic as changelog there is no copy of it, and a store that was lost comes back as far as the input was processed, not further.
func TestF054SourceTopicAsChangelog(t *testing.T) {
	b := streams.NewBuilder(streams.ReuseSourceTopics)
	table := b.Table(rightTopic, streams.Materialized("rows"))
	b.Stream(leftTopic).LeftJoinTable(table, leftOf).To(outTopic)
	table.GroupBy(func(_, v string) (string, string) { return v, v }).Count("counts").MapValues(func(n int64) string { return fmt.Sprint(n) }).ToStream().To(outTopic)
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	d := streamstest.New(t, topology, streamstest.CommitEvery(0))
	left, right, out := d.Input(leftTopic), d.Input(rightTopic), d.Output(outTopic)
	at := func(ms int64) time.Time { return time.UnixMilli(ms) }
	read := func() string {
		var got []string
		for _, r := range out.ReadAll() {
			got = append(got, r.Key+"="+r.Value)
		}
		return strings.Join(got, " ")
	}
	right.PipeAt(at(1), "a", "x")
	right.PipeAt(at(2), "b", "y")
	right.PipeNull("b")
	right.PipeRecords(streams.Record[string, string]{Value: "nobody", NullKey: true, Timestamp: at(3)})
	d.Commit()
	if got := read(); got != "x=1" { // what the caches collapsed
		t.Errorf("at first %s", got)
	}
	right.PipeAt(at(5), "a", "z") // not committed
	d.Crash(streamstest.StateLost)
	left.PipeAt(at(9), "a", "1")
	d.Commit()
	if got := read(); got != "a=1+z x=0 z=1" {
		t.Errorf("after the crash %s", got)
	}
	for _, topic := range d.Topics() {
		if strings.Contains(topic, "rows-changelog") {
			t.Errorf("there is a topic %s", topic)
		}
	}
	d.Restart(streamstest.StateLost)
	if v, ok := d.Store(table.Store()).Get("a"); !ok || v != "z" {
		t.Errorf("restored %q, %v", v, ok)
	}
	if m := topology.Metadata(topo.Naming{ApplicationID: "app"}); m.Subtopologies[0].ChangelogTopics[0].Name != "right" {
		t.Errorf("metadata %+v", m.Subtopologies[0])
	}
}
