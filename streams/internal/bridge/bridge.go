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

// Open opens a typed store of a program that runs; handle is a streams.StoreHandle.
var Open func(p tasks.Program, handle any) any

// Touch sets the time at which a test writes to a store.
var Touch func(p tasks.Program, ms int64)
