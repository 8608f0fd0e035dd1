// Package bridge lets the test driver of package streamstest reach what package streams does not promise to anybody else. Package streams fills the
// variables in when it is initialised.
package bridge

import (
	"log/slog"

	"github.com/millrace/millrace/tasks"
	"github.com/millrace/millrace/topology"
)

// Program makes the typed side of a task. config is a streams.Config with defaults filled in, and t a *streams.Topology.
var Program func(t, config any, naming topology.Naming, sub *topology.Subtopology, id topology.TaskID, log *slog.Logger, stateDir string) (tasks.Program, error)

// Store opens a typed store over the parts that several tasks have of it, for a test. handle is a streams.StoreHandle of any kind; the result is what it
// opens to. parts are the programs of the tasks at the moment, by partition. Each call of the result runs in guard, which gets what the store throws.
var Store func(handle any, parts func() []tasks.Program, guard func(func())) (store any, err error)

// Touch sets the time at which a test writes to a store.
var Touch func(p tasks.Program, ms int64)
