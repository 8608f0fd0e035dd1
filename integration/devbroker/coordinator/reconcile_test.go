package coordinator

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// parseTasks reads "a:0_0,0_1 s:0_2 w:0_3".
func parseTasks(s string, epoch int32) tasks {
	var ts tasks
	for f := range strings.FieldsSeq(s) {
		r := role(strings.Index("asw", f[:1]))
		for name := range strings.SplitSeq(f[2:], ",") {
			e := int32(0)
			if r == active {
				e = epoch
			}
			ts.add(r, parseTask(name), e)
		}
	}
	return ts
}

func showTasks(ts tasks) string {
	var parts []string
	for r, letter := range "asw" {
		if names := taskNames(ts[r]); len(names) > 0 {
			parts = append(parts, string(letter)+":"+strings.Join(names, ","))
		}
	}
	return strings.Join(parts, " ")
}

// One step of one member (§15): what it has, what it shall have, what it reports and what others hold, then where it stands.
func TestReconcile(t *testing.T) {
	const none = "-" // reports nothing
	for _, tt := range []struct {
		name             string
		releases         []Release // nil: all
		state            memberState
		epoch            int32
		assigned         string
		pending          string
		target           string // at epoch 10
		owned            string
		sibling, distant string // members of the same and of another process
		want             string // state epoch assigned / pending
	}{
		{name: "nothing to do", state: stable, epoch: 10, assigned: "a:0_0", target: "a:0_1", owned: "a:0_0", want: "stable 10 a:0_0 /"},
		{name: "new tasks that are free", state: stable, epoch: 5, target: "a:0_0 s:0_1", owned: none, want: "stable 10 a:0_0 s:0_1 /"},
		{name: "C-34: one is held elsewhere", state: stable, epoch: 5, target: "a:0_0,0_1", owned: none, distant: "a:0_1", want: "unreleased 10 a:0_0 /"},
		{name: "C-34: it is released", state: unreleased, epoch: 10, assigned: "a:0_0", target: "a:0_0,0_1", owned: none, want: "stable 10 a:0_0,0_1 /"},
		{name: "still held", state: unreleased, epoch: 10, assigned: "a:0_0", target: "a:0_0,0_1", owned: none, distant: "a:0_1", want: "unreleased 10 a:0_0 /"},
		{name: "C-34: a revocation holds the epoch, and adds nothing", state: stable, epoch: 5, assigned: "a:0_0,0_1", target: "a:0_0,0_2", owned: none,
			want: "unrevoked 5 a:0_0 / a:0_1"},
		{name: "a member that reports few enough skips it", state: stable, epoch: 5, assigned: "a:0_0,0_1", target: "a:0_0,0_2", owned: "a:0_0",
			want: "stable 10 a:0_0,0_2 /"},
		{name: "C-35: no report, no progress", state: unrevoked, epoch: 5, assigned: "a:0_0", pending: "a:0_1", target: "a:0_0", owned: none,
			want: "unrevoked 5 a:0_0 / a:0_1"},
		{name: "still owned", state: unrevoked, epoch: 5, assigned: "a:0_0", pending: "a:0_1", target: "a:0_0", owned: "a:0_0,0_1",
			want: "unrevoked 5 a:0_0 / a:0_1"},
		{name: "owned in another role is confirmed", state: unrevoked, epoch: 5, assigned: "a:0_0", pending: "a:0_1", target: "a:0_0", owned: "a:0_0 s:0_1",
			want: "stable 10 a:0_0 /"},
		{name: "confirmed, and there is more to revoke", state: unrevoked, epoch: 5, assigned: "a:0_0,0_2", pending: "a:0_1", target: "a:0_0", owned: "a:0_0,0_2",
			want: "unrevoked 6 a:0_0 / a:0_2"},
		{name: "C-61: a mere standby needs it too", state: stable, epoch: 5, assigned: "a:0_0 s:0_1", target: "a:0_0", owned: none, want: "unrevoked 5 a:0_0 / s:0_1"},
		{name: "C-32: a sibling's standby blocks an active", state: stable, epoch: 5, target: "a:0_0", owned: none, sibling: "s:0_0", want: "unreleased 10  /"},
		{name: "C-32: a sibling's active blocks a standby", state: stable, epoch: 5, target: "s:0_0", owned: none, sibling: "a:0_0", want: "unreleased 10  /"},
		{name: "another process blocks no standby", state: stable, epoch: 5, target: "s:0_0", owned: none, distant: "a:0_0", want: "stable 10 s:0_0 /"},

		{name: "C-37: promotion in place", releases: []Release{Kafka44}, state: stable, epoch: 5, assigned: "s:0_0", target: "a:0_0", owned: none,
			want: "stable 10 a:0_0 /"},
		{name: "C-37: the standby stays until the active is free", releases: []Release{Kafka44}, state: stable, epoch: 5, assigned: "s:0_0", target: "a:0_0",
			owned: none, distant: "a:0_0", want: "unreleased 10 s:0_0 /"},
		{name: "C-37: promotion as a full cycle", releases: []Release{Kafka42, Kafka43}, state: stable, epoch: 5, assigned: "s:0_0", target: "a:0_0", owned: none,
			want: "unrevoked 5  / s:0_0"},
		{name: "C-37: demotion is a standby at once", releases: []Release{Kafka44}, state: stable, epoch: 5, assigned: "a:0_0", target: "s:0_0", owned: none,
			want: "unrevoked 5 s:0_0 / a:0_0"},
		{name: "C-37: demotion as a full cycle", releases: []Release{Kafka42, Kafka43}, state: stable, epoch: 5, assigned: "a:0_0", target: "s:0_0", owned: none,
			want: "unrevoked 5  / a:0_0"},
		{name: "promotion beside a revocation waits", releases: []Release{Kafka44}, state: stable, epoch: 5, assigned: "a:0_1 s:0_0", target: "a:0_0", owned: none,
			want: "unrevoked 5 s:0_0 / a:0_1"},
		{name: "warm-up becomes standby in one step", releases: []Release{Kafka44}, state: stable, epoch: 5, assigned: "w:0_0", target: "s:0_0", owned: none,
			want: "stable 10 s:0_0 /"},
		{name: "standby becomes warm-up beside a revocation", releases: []Release{Kafka44}, state: stable, epoch: 5, assigned: "a:0_1 s:0_0", target: "w:0_0",
			owned: none, want: "unrevoked 5 w:0_0 / a:0_1"},
		{name: "warm-up becomes active", releases: []Release{Kafka44}, state: stable, epoch: 5, assigned: "w:0_0", target: "a:0_0", owned: none,
			want: "stable 10 a:0_0 /"},
		{name: "a sibling's active blocks a warm-up", releases: []Release{Kafka44}, state: stable, epoch: 5, target: "w:0_0", owned: none, sibling: "a:0_0",
			want: "unreleased 10  /"},
	} {
		releases := tt.releases
		if releases == nil {
			releases = []Release{Kafka42, Kafka43, Kafka44}
		}
		for _, release := range releases {
			t.Run(tt.name+"/"+release.String(), func(t *testing.T) {
				g := newGroup("app")
				g.assignmentEpoch = 10
				add := func(id, process, assigned string) *member {
					m := newMember(id)
					m.meta.processID = process
					m.assigned = parseTasks(assigned, 3)
					g.members[id] = m
					return m
				}
				m := add("m", "p", tt.assigned)
				m.state, m.epoch, m.prevEpoch, m.pending = tt.state, tt.epoch, tt.epoch, parseTasks(tt.pending, 3)
				add("sibling", "p", tt.sibling)
				add("distant", "q", tt.distant)
				var owned *tasks
				if tt.owned != none {
					o := parseTasks(tt.owned, 0)
					owned = &o
				}
				before := *m
				next := g.reconcile(release, m, parseTasks(tt.target, 0), 10, owned)
				got := strings.TrimSpace(fmt.Sprintf("%v %d %s / %s", next.state, next.epoch, showTasks(next.assigned), showTasks(next.pending)))
				if got != tt.want {
					t.Errorf("got  %s\nwant %s", got, tt.want)
				}
				if !m.assigned.equal(before.assigned) || m.epoch != before.epoch {
					t.Error("the member itself was changed")
				}
				for x, since := range next.assigned[active] {
					kept := slices.Contains(taskNames(before.assigned[active]), fmt.Sprintf("%s_%d", x.subtopology, x.partition))
					if want := map[bool]int32{true: 3, false: 10}[kept]; since != want {
						t.Errorf("task %v has assignment epoch %d, want %d", x, since, want)
					}
				}
				if next != m && next.prevEpoch != tt.epoch {
					t.Errorf("previous epoch %d, want %d", next.prevEpoch, tt.epoch)
				}
			})
		}
	}
}
