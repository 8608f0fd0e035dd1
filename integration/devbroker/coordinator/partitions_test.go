package coordinator

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

type subSpec = kmsg.StreamsGroupHeartbeatRequestTopologySubtopology

func sinks(s subSpec, names ...string) subSpec { s.RepartitionSinkTopics = names; return s }

func repartition(s subSpec, specs ...string) subSpec {
	for _, spec := range specs {
		name, count, _ := strings.Cut(spec, ":")
		ti := kmsg.NewTopicInfo()
		ti.Topic = name
		fmt.Sscan(count, &ti.NumPartitions)
		s.RepartitionSourceTopics = append(s.RepartitionSourceTopics, ti)
	}
	return s
}

func copart(s subSpec, sources, repartitions []int16) subSpec {
	cg := kmsg.NewStreamsGroupHeartbeatRequestTopologySubtopologyCopartitionGroup()
	cg.SourceTopics, cg.RepartitionSourceTopics = sources, repartitions
	s.CopartitionGroups = append(s.CopartitionGroups, cg)
	return s
}

// Partition counts (C-20 to C-25, §9.2): topics that exist and a topology in, what becomes of it out.
func TestConfigure(t *testing.T) {
	for _, tt := range []struct {
		name   string
		topics map[string]int32
		subs   []subSpec
		want   string
	}{
		{"ready", map[string]int32{"a": 2, "b": 3, "log": 3}, []subSpec{sub("0", []string{"a", "b"}, "log")}, "tasks 0:3"},
		{"missing sources, at most three named", map[string]int32{"c": 1}, []subSpec{sub("0", []string{"e", "d", "c"}), sub("1", []string{"b", "a"})},
			"status 1: Source topics a, b, d and 1 additional topics are missing."},
		{"changelogs take the maximum of the inputs", map[string]int32{"a": 2, "b": 5}, []subSpec{sub("0", []string{"a", "b"}, "log")},
			"status 3: Internal topics are missing: log; create log:5; tasks 0:5"},
		{"existing changelog of another size", map[string]int32{"a": 2, "log": 3}, []subSpec{sub("0", []string{"a"}, "log")},
			"status 2: Existing topic log has different number of partitions: expected 2, found 3"},
		{"repartition chain", map[string]int32{"a": 4}, []subSpec{
			sinks(sub("0", []string{"a"}), "r1"), sinks(repartition(sub("1", nil), "r1"), "r2"), repartition(sub("2", nil), "r2"),
		}, "status 3: Internal topics are missing: r1, r2; create r1:4 r2:4; tasks 0:4 1:4 2:4"},
		{"chain listed backwards", map[string]int32{"a": 4}, []subSpec{
			repartition(sub("0", nil), "r2"), sinks(repartition(sub("1", nil), "r1"), "r2"), sinks(sub("2", []string{"a"}), "r1"),
		}, "status 3: Internal topics are missing: r2, r1; create r2:4 r1:4; tasks 0:4 1:4 2:4"},
		{"explicit count", map[string]int32{"a": 4}, []subSpec{sinks(sub("0", []string{"a"}), "r"), repartition(sub("1", nil), "r:7")},
			"status 3: Internal topics are missing: r; create r:7; tasks 0:4 1:7"},
		{"loop", map[string]int32{"a": 4}, []subSpec{
			sub("0", []string{"a"}), sinks(repartition(sub("1", nil), "r1"), "r2"), sinks(repartition(sub("2", nil), "r2"), "r1"),
		}, "error 130: Failed to compute number of partitions for all repartition topics. There may be loops in the topology that cannot be resolved."},
		{"nobody writes it", map[string]int32{"a": 4}, []subSpec{sub("0", []string{"a"}), repartition(sub("1", nil), "r")},
			"error 130: Failed to compute number of partitions for all repartition topics, because a repartition source topic is never used as a sink topic."},
		{"no input", map[string]int32{"a": 4}, []subSpec{sub("0", []string{"a"}), sub("1", nil, "log")}, "error 130: No source topics found for subtopology 1"},
		{"copartitioned sources", map[string]int32{"a": 3, "b": 4}, []subSpec{copart(sub("0", []string{"a", "b"}), []int16{0, 1}, nil)},
			"status 2: Following topics do not have the same number of partitions: [{a=3, b=4}]"},
		{"a flexible repartition topic adopts the source's count", map[string]int32{"a": 8, "b": 3}, []subSpec{
			sinks(sub("0", []string{"a"}), "r"), copart(repartition(sub("1", []string{"b"}), "r"), []int16{0}, []int16{0}),
		}, "status 3: Internal topics are missing: r; create r:3; tasks 0:8 1:3"},
		{"a fixed one cannot", map[string]int32{"a": 8, "b": 3}, []subSpec{
			sinks(sub("0", []string{"a"}), "r"), copart(repartition(sub("1", []string{"b"}), "r:4"), []int16{0}, []int16{0}),
		}, "status 2: Number of partitions [4] of repartition topic [r] doesn't match number of partitions [3] of the source topic."},
		{"repartition topics among themselves take the maximum", map[string]int32{"a": 2, "b": 6}, []subSpec{
			sinks(sub("0", []string{"a"}), "r1"), sinks(sub("1", []string{"b"}), "r2"),
			copart(repartition(sub("2", nil), "r1", "r2"), nil, []int16{0, 1}),
		}, "status 3: Internal topics are missing: r1, r2; create r1:6 r2:6; tasks 0:2 1:6 2:6"},
		{"or the one fixed count of the topology", map[string]int32{"a": 2}, []subSpec{
			sinks(sub("0", []string{"a"}), "r1", "r2"), copart(repartition(sub("1", nil), "r1:5", "r2"), nil, []int16{0, 1}),
		}, "status 3: Internal topics are missing: r1, r2; create r1:5 r2:5; tasks 0:2 1:5"},
		{"which must be one, even where it is none of the group's business", map[string]int32{"a": 2}, []subSpec{
			sinks(sub("0", []string{"a"}), "ra", "rb", "far"), copart(repartition(sub("1", nil), "ra:4", "rb"), nil, []int16{0, 1}),
			repartition(sub("2", nil), "far:7"),
		}, "status 2: Following topics do not have the same number of partitions: [{ra=4, rb=2}]"},
		{"nothing at all", nil, nil, "tasks"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, nil)
			for name, n := range tt.topics {
				b.cluster.create(name, n)
			}
			tp := topo(tt.subs...)
			cfg, f := configure(tp, b.c.readMetadata(tp))
			if got := show(cfg, f); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func show(cfg *configured, f *failure) string {
	if f != nil {
		return fmt.Sprintf("error %d: %s", f.code, *f.message)
	}
	var parts []string
	if !cfg.ready() {
		parts = append(parts, fmt.Sprintf("status %d: %s", cfg.status, cfg.detail))
	}
	if len(cfg.create) > 0 {
		s := "create"
		for _, nt := range cfg.create {
			s += fmt.Sprintf(" %s:%d", nt.Name, nt.Partitions)
		}
		parts = append(parts, s)
	}
	if cfg.subtopologies != nil {
		s := "tasks"
		for _, id := range slices.Sorted(maps.Keys(cfg.subtopologies)) {
			s += fmt.Sprintf(" %s:%d", id, cfg.subtopologies[id].tasks)
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, "; ")
}

// The metadata hash follows what a group depends on and nothing else.
func TestMetadataHash(t *testing.T) {
	b := newBench(t, nil)
	tp := topo(sub("0", []string{"a"}, "log"))
	hash := func() uint64 { return b.c.readMetadata(tp).hash }
	if hash() != 0 {
		t.Error("a hash over nothing")
	}
	b.cluster.create("a", 2)
	first := hash()
	b.cluster.create("unrelated", 2)
	if hash() != first {
		t.Error("an unrelated topic changes the hash")
	}
	grown := b.cluster.topics["a"]
	grown.Partitions = 3
	b.cluster.topics["a"] = grown
	second := hash()
	b.cluster.create("a", 3) // deleted and made again: another id
	b.cluster.create("log", 3)
	if third := hash(); first == second || second == third {
		t.Errorf("hashes %d, %d, %d", first, second, third)
	}
}
