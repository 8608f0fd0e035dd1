// Package bridge lets the test driver of package streamstest reach what package streams does not promise to anybody else. Package streams fills the
// variables in when it is initialised.
package bridge

import (
	"log/slog"

	"github.com/millrace/millrace/tasks"
	"github.com/millrace/millrace/topology"
)

// Task says what the typed side of a task is made of.
type Task struct {
	Topology any // *streams.Topology
	Config   any // streams.Config
	Naming   topology.Naming
	Sub      *topology.Subtopology
	ID       topology.TaskID
	Globals  *tasks.Global // nil if there are none, or for what fills them
	Logger   *slog.Logger
	StateDir string
}

// Program makes the typed side of a task.
var Program func(Task) (tasks.Program, error)

// Store opens a typed store over the parts that several tasks have of it, for a test. handle is a streams.StoreHandle of any kind; the result is what it
// opens to. parts are the programs of the tasks at the moment, by partition. Each call of the result runs in guard, which gets what the store throws.
var Store func(handle any, parts func() []tasks.Program, guard func(func())) (store any, err error)

// Touch sets the time at which a test writes to a store.
var Touch func(p tasks.Program, ms int64)
