package streams

import (
	"time"

	"github.com/millrace/millrace/tasks"
)

// Hooks are values in [Config.Hooks] with any of the methods below. They are called on the goroutine where the thing happens, in order, and should return
// soon.
type (
	// HookAppState is told when the app changes its state.
	HookAppState interface{ OnAppState(AppStateChange) }
	// HookTaskState is told when a task does.
	HookTaskState interface{ OnTaskState(TaskStateChange) }
	// HookRestore is told of the restoration of stores: when it begins, as it goes on, and when it is done. Tasks restore at the same time, each on a
	// goroutine of its own, so it is called by several at once.
	HookRestore interface{ OnRestore(RestoreEvent) }
	// HookCommit is told after every commit of a worker.
	HookCommit interface{ OnCommit(CommitEvent) }
)

// AppStateChange is a step in the life of an app.
type AppStateChange struct {
	From, To State
	Err      error // why, for Failed
}

// TaskStateChange is a step in the life of a task: created, restoring, running, suspended, closed.
type TaskStateChange struct {
	Worker, Task string
	From, To     string
	Reason       string
}

// RestoreEvent describes how far a store has been restored.
type RestoreEvent struct {
	Task, Store, Topic string
	From, To           int64 // offsets of the changelog
	Restored           int64 // records so far
	Done               bool
}

// CommitEvent describes a commit.
type CommitEvent struct {
	Worker  string
	Tasks   int
	Records int64 // processed since the commit before
	Took    time.Duration
}

func each[H any](hooks []any, f func(H)) {
	for _, h := range hooks {
		if h, ok := h.(H); ok {
			f(h)
		}
	}
}

func (a *App) restoreHook(p tasks.RestoreProgress) {
	each(a.cfg.Hooks, func(h HookRestore) {
		h.OnRestore(RestoreEvent{p.Task.String(), p.Store, p.Topic, p.From, p.To, p.Restored, p.Done})
	})
}

func (a *App) commitHook(c tasks.CommitInfo) {
	a.notePurge(c.Offsets)
	each(a.cfg.Hooks, func(h HookCommit) { h.OnCommit(CommitEvent{c.Worker, c.Tasks, c.Records, c.Took}) })
}
