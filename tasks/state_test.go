package tasks

import (
	"errors"
	"fmt"
	"log/slog"
	"testing"

	"github.com/millrace/millrace/topology"
)

// F-201: a walk over all pairs of states.
func TestF201LifeCycle(t *testing.T) {
	want := map[[2]State]bool{
		{Created, Restoring}: true, {Created, Suspended}: true,
		{Restoring, Running}: true, {Restoring, Suspended}: true,
		{Running, Suspended}:   true,
		{Suspended, Restoring}: true, {Suspended, Closed}: true,
	}
	for from := Created; from <= Closed; from++ {
		for to := Created; to <= Closed; to++ {
			t.Run(fmt.Sprintf("%s to %s", from, to), func(t *testing.T) {
				var told []string
				task := &Task{id: topology.TaskID{Partition: 1}, state: from, log: slog.New(slog.DiscardHandler)}
				task.onState = func(id topology.TaskID, from, to State, why string) {
					told = append(told, fmt.Sprintf("%s %s %s %s", id, from, to, why))
				}
				err := task.move(to, "test")
				if want[[2]State{from, to}] {
					if err != nil || task.state != to || len(told) != 1 || told[0] != fmt.Sprintf("0_1 %s %s test", from, to) {
						t.Fatalf("state %s, told %q, error %v", task.state, told, err)
					}
					return
				}
				wrong, ok := errors.AsType[*TransitionError](err)
				if !ok || *wrong != (TransitionError{task.id, from, to}) || task.state != from || told != nil {
					t.Fatalf("state %s, told %q, error %v", task.state, told, err)
				}
				if text := fmt.Sprintf("tasks: 0_1 cannot go from %s to %s", from, to); err.Error() != text {
					t.Errorf("got %q, want %q", err, text)
				}
			})
		}
	}
}
