package topology

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestTaskID(t *testing.T) {
	for _, s := range []string{"0_0", "12_345"} {
		if id, err := ParseTaskID(s); err != nil || id.String() != s {
			t.Errorf("%s: %v, %v", s, id, err)
		}
	}
	for _, s := range []string{"", "0", "0_", "_0", "-1_0", "0_-1", "01_0", "0_0_0", "a_b", "0_99999999999"} {
		if id, err := ParseTaskID(s); err == nil {
			t.Errorf("%q is read as %v", s, id)
		}
	}
	ids := []TaskID{{1, 0}, {0, 10}, {0, 2}}
	slices.SortFunc(ids, TaskID.Compare)
	if want := []TaskID{{0, 2}, {0, 10}, {1, 0}}; !slices.Equal(ids, want) {
		t.Errorf("order %v", ids)
	}
}

// join is a graph like that of a stream, repartitioned, that looks up a table, whose sources come in the given order.
func join(t *testing.T, fixed int32) *Topology {
	t.Helper()
	g := NewGraph()
	g.Add(Node{Name: "in", Kind: Source, Topics: []string{"orders", "more-orders"}})
	g.Add(Node{Name: "rekey", Kind: Processor}, "in")
	g.Add(Node{Name: "r-sink", Kind: Sink, Topic: "by-user-repartition"}, "rekey")
	g.AddRepartition("by-user-repartition", Repartition{Partitions: fixed})
	g.Add(Node{Name: "r-source", Kind: Source, Topics: []string{"by-user-repartition"}})
	g.Add(Node{Name: "users", Kind: Source, Topics: []string{"users"}})
	g.Add(Node{Name: "table", Kind: Processor, Stores: []string{"users-store"}}, "users")
	g.AddStore(Store{Name: "users-store", Logging: true, ChangelogConfig: map[string]string{"min.insync.replicas": "2"}}, "")
	g.AddStore(Store{Name: "hourly", Kind: WindowStore, Logging: true, Retention: time.Hour}, "")
	g.Add(Node{Name: "lookup", Kind: Processor, Stores: []string{"users-store", "hourly"}}, "r-source")
	g.Add(Node{Name: "out", Kind: Sink, Topic: "out"}, "lookup")
	g.Copartition("r-source", "users")
	topo, err := g.Build()
	if err != nil {
		t.Fatal(err)
	}
	return topo
}

// M-37, M-38, T-2: full names, sorted lists, indexes that point to the right topics, changelogs without a partition count. F-180, F-183.
func TestM37M38Metadata(t *testing.T) {
	m := join(t, 7).Metadata(Naming{ApplicationID: "app", ReplicationFactor: -1, InternalConfigs: map[string]string{"retention.ms": "1"}, WindowExtra: 24 * time.Hour})
	if len(m.Subtopologies) != 2 {
		t.Fatalf("%d sub-topologies", len(m.Subtopologies))
	}
	first, second := m.Subtopologies[0], m.Subtopologies[1]
	if first.ID != 0 || !slices.Equal(first.SourceTopics, []string{"more-orders", "orders"}) ||
		!slices.Equal(first.RepartitionSinkTopics, []string{"app-by-user-repartition"}) {
		t.Errorf("first: %+v", first)
	}
	wantRepartition := []InternalTopic{{"app-by-user-repartition", 7, -1, []TopicConfig{
		{"cleanup.policy", "delete"}, {"message.timestamp.type", "CreateTime"}, {"retention.ms", "1"}, {"segment.bytes", "52428800"},
	}}}
	if !reflect.DeepEqual(second.RepartitionSourceTopics, wantRepartition) {
		t.Errorf("repartition: %+v", second.RepartitionSourceTopics)
	}
	wantChangelogs := []InternalTopic{
		{"app-hourly-changelog", 0, -1, []TopicConfig{{"cleanup.policy", "compact,delete"}, {"message.timestamp.type", "CreateTime"}, {"retention.ms", "1"}}},
		{"app-users-store-changelog", 0, -1, []TopicConfig{
			{"cleanup.policy", "compact"}, {"message.timestamp.type", "CreateTime"}, {"min.insync.replicas", "2"}, {"retention.ms", "1"},
		}},
	}
	if !reflect.DeepEqual(second.ChangelogTopics, wantChangelogs) {
		t.Errorf("changelogs: %+v", second.ChangelogTopics)
	}
	if !reflect.DeepEqual(second.CopartitionGroups, []CopartitionGroup{{SourceTopics: []int16{0}, RepartitionSourceTopics: []int16{0}}}) {
		t.Errorf("co-partitions: %+v", second.CopartitionGroups)
	}
}

// F-181: the retention of a window changelog is the store's and the extra, and never overflows.
func TestWindowChangelogRetention(t *testing.T) {
	s := Store{Kind: WindowStore, Retention: time.Hour}
	if got := s.changelogConfigs(24 * time.Hour)["retention.ms"]; got != "90000000" {
		t.Errorf("retention.ms %s", got)
	}
	s.Duplicates = true
	if got := s.changelogConfigs(0)["cleanup.policy"]; got != "delete" {
		t.Errorf("cleanup.policy %s", got)
	}
}

// M-36: the metadata does not depend on chance.
func TestM36MetadataIsTheSameEachTime(t *testing.T) {
	n := Naming{ApplicationID: "app", InternalConfigs: map[string]string{"a": "1", "b": "2", "c": "3"}}
	want := join(t, 0).Metadata(n)
	for range 100 {
		if got := join(t, 0).Metadata(n); !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	}
}

// M-37: sets that share a topic become one, whatever their order.
func TestM37CopartitionSetsMerge(t *testing.T) {
	sets := [][]string{{"a", "b"}, {"c", "d"}, {"b", "c"}, {"e"}, {"e", "e"}}
	for range 50 {
		rand.Shuffle(len(sets), func(i, j int) { sets[i], sets[j] = sets[j], sets[i] })
		g := NewGraph()
		for _, s := range []string{"a", "b", "c", "d", "e"} {
			g.Add(Node{Name: s, Kind: Source, Topics: []string{"topic-" + s}})
		}
		g.Add(Node{Name: "all", Kind: Processor}, "a", "b", "c", "d", "e")
		for _, s := range sets {
			g.Copartition(s...)
		}
		topo, err := g.Build()
		if err != nil {
			t.Fatal(err)
		}
		if want := [][]string{{"topic-a", "topic-b", "topic-c", "topic-d"}}; !reflect.DeepEqual(topo.Subtopologies[0].Copartitioned, want) {
			t.Fatalf("%v gives %v", sets, topo.Subtopologies[0].Copartitioned)
		}
	}
}

// Every mistake is reported, with the node it is in.
func TestMistakes(t *testing.T) {
	for name, c := range map[string]struct {
		build func(g *Graph)
		want  []error
		text  string
	}{
		"two sources of a topic": {func(g *Graph) {
			g.Add(Node{Name: "a", Kind: Source, Topics: []string{"t"}, At: "x.go:1"})
			g.Add(Node{Name: "b", Kind: Source, Topics: []string{"t"}, At: "x.go:2"})
		}, []error{ErrTopicTaken}, "b (x.go:2)"},
		"names": {func(g *Graph) {
			g.Add(Node{Name: "a", Kind: Source, Topics: []string{"t"}})
			g.Add(Node{Name: "a", Kind: Processor}, "a")
			g.Add(Node{Name: "b c", Kind: Processor}, "a")
			g.Add(Node{Name: strings.Repeat("x", 250), Kind: Processor}, "a")
		}, []error{ErrDuplicateName, ErrBadName, ErrBadName}, "b c"},
		"no parent, no store": {func(g *Graph) {
			g.Add(Node{Name: "a", Kind: Source, Topics: []string{"t"}})
			g.Add(Node{Name: "p", Kind: Processor, Stores: []string{"s"}}, "nobody")
		}, []error{ErrUnknownNode, ErrNoSource, ErrUnknownStore}, `"nobody"`},
		"store twice": {func(g *Graph) {
			g.Add(Node{Name: "a", Kind: Source, Topics: []string{"t"}})
			g.AddStore(Store{Name: "s"}, "x.go:1")
			g.AddStore(Store{Name: "s"}, "x.go:2")
		}, []error{ErrDuplicateName}, "x.go:2"},
		"repartition topics in a ring": {func(g *Graph) {
			g.AddRepartition("r1", Repartition{})
			g.AddRepartition("r2", Repartition{})
			g.Add(Node{Name: "a", Kind: Source, Topics: []string{"r1"}})
			g.Add(Node{Name: "as", Kind: Sink, Topic: "r2"}, "a")
			g.Add(Node{Name: "b", Kind: Source, Topics: []string{"r2"}})
			g.Add(Node{Name: "bs", Kind: Sink, Topic: "r1"}, "b")
		}, []error{ErrCycle, ErrCycle}, "r1"},
		"co-partitions apart": {func(g *Graph) {
			g.Add(Node{Name: "a", Kind: Source, Topics: []string{"t"}})
			g.Add(Node{Name: "b", Kind: Source, Topics: []string{"u"}})
			g.Copartition("a", "b")
		}, []error{ErrCopartition}, "u"},
	} {
		t.Run(name, func(t *testing.T) {
			g := NewGraph()
			c.build(g)
			_, err := g.Build()
			joined, ok := err.(interface{ Unwrap() []error })
			if !ok {
				t.Fatalf("got %v", err)
			}
			got := joined.Unwrap()
			if len(got) != len(c.want) {
				t.Fatalf("got %v, want %v", got, c.want)
			}
			for i := range got {
				if !errors.Is(got[i], c.want[i]) {
					t.Errorf("mistake %d: got %v, want %v", i, got[i], c.want[i])
				}
			}
			if !strings.Contains(err.Error(), c.text) {
				t.Errorf("%q does not say %q", err, c.text)
			}
		})
	}
}

// Nodes that share a store are one sub-topology; numbers follow the names of the sources (F-202, F-204). F-133.
func TestGrouping(t *testing.T) {
	g := NewGraph()
	g.Add(Node{Name: "z", Kind: Source, Topics: []string{"1"}})
	g.Add(Node{Name: "b", Kind: Source, Topics: []string{"2"}})
	g.Add(Node{Name: "a", Kind: Source, Topics: []string{"3"}})
	g.Add(Node{Name: "pz", Kind: Processor, Stores: []string{"s"}}, "z")
	g.Add(Node{Name: "pa", Kind: Processor, Stores: []string{"s"}}, "a")
	g.AddStore(Store{Name: "s"}, "")
	topo, err := g.Build()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range topo.Subtopologies {
		var names []string
		for _, n := range s.Nodes {
			names = append(names, n.Name)
		}
		got = append(got, strings.Join(names, " "))
	}
	if want := []string{"z a pz pa", "b"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if topo.Subtopology(1) == nil || topo.Subtopology(2) != nil {
		t.Error("look-up by id")
	}
}

// The order of java.util.HashSet, for names whose order was seen in Java.
func TestHashOrder(t *testing.T) {
	if got := hashOrder([]string{"b", "a", "c", "a"}); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("got %q", got)
	}
}
