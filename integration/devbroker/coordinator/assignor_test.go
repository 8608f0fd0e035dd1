package coordinator

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

func taskSet(names ...string) map[task]int32 {
	m := map[task]int32{}
	for _, n := range names {
		m[parseTask(n)] = 0
	}
	return m
}

// allTasks lists n tasks of each subtopology in the assignor's order.
func allTasks(n int, subs ...string) []task {
	var out []task
	for p := range n {
		for _, s := range subs {
			out = append(out, task{s, int32(p)})
		}
	}
	return out
}

func TestAssignor(t *testing.T) {
	member := func(id, process string, active, standby []string) assignorMember {
		return assignorMember{id: id, process: process, previous: tasks{taskSet(active...), taskSet(standby...), nil}}
	}
	for _, tt := range []struct {
		name     string
		members  []assignorMember
		all      []task
		stateful []string
		standbys int
		active   map[string][]string
		standby  map[string][]string
	}{
		{
			name:    "C-29: fresh members share evenly, early ones get the larger share",
			members: []assignorMember{member("a", "1", nil, nil), member("b", "2", nil, nil), member("c", "3", nil, nil)},
			all:     allTasks(7, "0"),
			active:  map[string][]string{"a": {"0_0", "0_3", "0_6"}, "b": {"0_1", "0_4"}, "c": {"0_2", "0_5"}},
		},
		{
			name:    "C-30: a new member takes only the excess",
			members: []assignorMember{member("a", "1", []string{"0_0", "0_1", "0_2", "0_3"}, nil), member("b", "2", nil, nil)},
			all:     allTasks(4, "0"),
			active:  map[string][]string{"a": {"0_0", "0_1"}, "b": {"0_2", "0_3"}},
		},
		{
			name:     "C-31: a standby on the other process, none for stateless tasks",
			members:  []assignorMember{member("a", "1", nil, nil), member("b", "2", nil, nil)},
			all:      allTasks(1, "0", "1"),
			stateful: []string{"0_0"}, standbys: 1,
			active:  map[string][]string{"a": {"0_0"}, "b": {"1_0"}},
			standby: map[string][]string{"b": {"0_0"}},
		},
		{
			name:     "C-31: one process has nowhere to put a standby",
			members:  []assignorMember{member("a", "1", nil, nil), member("b", "1", nil, nil)},
			all:      allTasks(2, "0"),
			stateful: []string{"0_0", "0_1"}, standbys: 1,
			active: map[string][]string{"a": {"0_0"}, "b": {"0_1"}},
		},
		{
			name: "C-33: the task of a lost owner goes to its standby",
			members: []assignorMember{
				member("b", "2", nil, []string{"0_0"}), member("c", "3", nil, nil),
			},
			all: allTasks(1, "0"), stateful: []string{"0_0"}, standbys: 1,
			active:  map[string][]string{"b": {"0_0"}},
			standby: map[string][]string{"c": {"0_0"}},
		},
		{
			name: "C-33: but only within its quota",
			members: []assignorMember{
				member("b", "2", []string{"0_1"}, []string{"0_0"}), member("c", "3", nil, nil),
			},
			all: allTasks(2, "0"), stateful: []string{"0_0", "0_1"},
			active: map[string][]string{"b": {"0_1"}, "c": {"0_0"}},
		},
		{
			name: "state left on disk attracts a task, a real standby more",
			members: []assignorMember{
				{id: "a", process: "1", offsets: map[task]int64{{"0", 0}: 100, {"0", 1}: 7}},
				{id: "b", process: "2", previous: tasks{nil, taskSet("0_0"), nil}, offsets: map[task]int64{{"0", 0}: 10}},
			},
			all: allTasks(2, "0"), stateful: []string{"0_0", "0_1"},
			active: map[string][]string{"a": {"0_1"}, "b": {"0_0"}},
		},
		{
			name: "processes weigh by their members",
			members: []assignorMember{
				member("a", "1", nil, nil), member("b", "1", nil, nil), member("c", "1", nil, nil), member("d", "2", nil, nil),
			},
			all:    allTasks(4, "0"),
			active: map[string][]string{"a": {"0_0"}, "b": {"0_2"}, "c": {"0_3"}, "d": {"0_1"}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			stateful := map[task]bool{}
			for _, s := range tt.stateful {
				stateful[parseTask(s)] = true
			}
			got := assign(tt.members, tt.all, stateful, tt.standbys)
			for _, m := range tt.members {
				if a := taskNames(got[m.id][active]); !slices.Equal(a, append([]string{}, tt.active[m.id]...)) {
					t.Errorf("%s: active %v, want %v", m.id, a, tt.active[m.id])
				}
				if s := taskNames(got[m.id][standby]); !slices.Equal(s, append([]string{}, tt.standby[m.id]...)) {
					t.Errorf("%s: standby %v, want %v", m.id, s, tt.standby[m.id])
				}
			}
		})
	}
}

// Whatever the past: every task has one owner, no process holds a task twice (C-32), stateless tasks have no standby (C-31), shares are even to within
// one (C-29), and the same input gives the same result.
func TestAssignorProperties(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for round := range 500 {
		nm, np, nt := 1+r.IntN(8), 1+r.IntN(4), r.IntN(20)
		standbys := r.IntN(3)
		all := allTasks(nt, "0", "1")
		stateful := map[task]bool{}
		for _, x := range all {
			if x.subtopology == "0" {
				stateful[x] = true
			}
		}
		past := func() []assignorMember {
			r := rand.New(rand.NewPCG(uint64(round), 3))
			var ms []assignorMember
			free := slices.Clone(all)
			for i := range nm {
				m := assignorMember{id: fmt.Sprintf("m%d", i), process: fmt.Sprintf("p%d", r.IntN(np)), offsets: map[task]int64{}}
				for range r.IntN(6) {
					if len(free) == 0 {
						break
					}
					k := r.IntN(len(free))
					m.previous.add(role(r.IntN(2)), free[k], 0)
					free = slices.Delete(free, k, k+1)
				}
				for range r.IntN(3) {
					if len(all) > 0 {
						m.offsets[all[r.IntN(len(all))]] = r.Int64N(100)
					}
				}
				ms = append(ms, m)
			}
			return ms
		}
		members := past()
		got := assign(members, slices.Clone(all), stateful, standbys)
		again := assign(past(), slices.Clone(all), stateful, standbys)

		owners := map[task]int{}
		held := map[string]bool{}
		most, least := 0, 1<<30
		for _, m := range members {
			if !got[m.id].equal(again[m.id]) {
				t.Fatalf("round %d: two runs differ for %s", round, m.id)
			}
			for x := range got[m.id][active] {
				owners[x]++
			}
			for _, rl := range []role{active, standby} {
				for x := range got[m.id][rl] {
					key := m.process + x.subtopology + fmt.Sprint(x.partition)
					if held[key] {
						t.Fatalf("round %d: process %s holds %v twice", round, m.process, x)
					}
					held[key] = true
					if rl == standby && !stateful[x] {
						t.Fatalf("round %d: stateless task %v has a standby", round, x)
					}
				}
			}
			a := len(got[m.id][active])
			most, least = max(most, a), min(least, a)
		}
		for _, x := range all {
			if owners[x] != 1 {
				t.Fatalf("round %d: task %v has %d owners", round, x, owners[x])
			}
		}
		if np == 1 && most-least > 1 {
			t.Fatalf("round %d: shares from %d to %d", round, least, most)
		}
	}
}
