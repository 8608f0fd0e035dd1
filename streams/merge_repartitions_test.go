package streams_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/streamstest"
	"github.com/millrace/millrace/streams/window"
)

func decimal(n int64) string { return strconv.FormatInt(n, 10) }

// F-052, F-053: with merged repartition topics a program gives the same results from fewer topics, also when the state is lost.
func TestF053MergedRepartitionTopics(t *testing.T) {
	long := func(_, v string) bool { return len(v) > 1 }
	programs := map[string]struct {
		build  func(b *streams.Builder)
		topics [2]int // without and with the option
	}{
		"two aggregations": {func(b *streams.Builder) {
			s := b.Stream(leftTopic).SelectKey(func(_, v string) string { return v[:1] })
			s.GroupByKey().Count("counts").ToStream().MapValues(decimal).To(outTopic)
			s.GroupByKey().Reduce("all", both).ToStream().To(outTopic)
		}, [2]int{2, 1}},
		"below filters": {func(b *streams.Builder) {
			s := b.Stream(leftTopic).SelectKey(func(_, v string) string { return v[:1] })
			s.Filter(long).GroupByKey().Count("counts").ToStream().MapValues(decimal).To(outTopic)
			s.FilterNot(long).Peek(func(string, string) {}).GroupByKey().Reduce("all", both).ToStream().To(outTopic)
		}, [2]int{2, 1}},
		"aggregation and join": {func(b *streams.Builder) {
			s := b.Stream(leftTopic).SelectKey(func(_, v string) string { return v[:1] })
			s.Join(b.Stream(rightTopic), both, window.Within(time.Hour)).To(outTopic)
			s.GroupByKey().Count("counts").ToStream().MapValues(decimal).To(outTopic)
		}, [2]int{2, 1}},
		"replaced values stay below": {func(b *streams.Builder) {
			s := b.Stream(leftTopic).SelectKey(func(_, v string) string { return v[:1] })
			s.MapValues(strings.ToUpper).GroupByKey().Reduce("upper", both).ToStream().To(outTopic)
			s.GroupByKey().Reduce("all", both).ToStream().To(outTopic)
		}, [2]int{2, 2}},
		"processors stay above": {func(b *streams.Builder) {
			s := b.Stream(leftTopic).SelectKey(func(_, v string) string { return v[:1] }).
				ProcessFunc(func(ctx *streams.Context[string, string], r streams.Record[string, string]) error {
					ctx.Forward(r)
					return nil
				})
			s.GroupByKey().Count("counts").ToStream().MapValues(decimal).To(outTopic)
			s.GroupByKey().Reduce("all", both).ToStream().To(outTopic)
		}, [2]int{2, 2}},
		"merged streams": {func(b *streams.Builder) {
			first := func(_, v string) string { return v[:1] }
			s := b.Stream(leftTopic).SelectKey(first).Merge(b.Stream(rightTopic).SelectKey(first))
			s.GroupByKey().Count("counts").ToStream().MapValues(decimal).To(outTopic)
			s.GroupByKey().Reduce("all", both).ToStream().To(outTopic)
		}, [2]int{2, 1}},
	}
	for name, p := range programs {
		t.Run(name, func(t *testing.T) {
			var results [2][]string
			for with := range 2 {
				var opts []streams.BuilderOption
				if with == 1 {
					opts = append(opts, streams.MergeRepartitionTopics)
				}
				b := streams.NewBuilder(opts...)
				p.build(b)
				topology, err := b.Build()
				if err != nil {
					t.Fatal(err)
				}
				d := streamstest.New(t, topology, streamstest.Partitions("left", 2), streamstest.Partitions("right", 2), streamstest.WithConfig(streams.Config{CacheBytes: -1}))
				feed := func(values ...string) {
					for _, v := range values {
						d.Input(leftTopic).Pipe("k", v)
						d.Input(rightTopic).Pipe(v[:1], v+"!")
					}
				}
				feed("a", "b", "ab", "bc", "a")
				d.Restart(streamstest.StateLost)
				feed("abc", "b", "c")
				for _, r := range d.Output(outTopic).ReadAll() {
					results[with] = append(results[with], r.Key+"="+r.Value)
				}
				repartitions := 0
				for _, topic := range d.Topics() {
					if strings.HasSuffix(topic, "-repartition") {
						repartitions++
					}
				}
				if repartitions != p.topics[with] {
					t.Errorf("there are %d repartition topics, want %d: %q", repartitions, p.topics[with], d.Topics())
				}
				slices.Sort(results[with]) // the order between two operators is not promised
			}
			if len(results[0]) == 0 || !slices.Equal(results[0], results[1]) {
				t.Errorf("without the option\n%q\nwith it\n%q", results[0], results[1])
			}
		})
	}
}
