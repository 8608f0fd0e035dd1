package streams

import (
	"context"
	"log/slog"

	"github.com/millrace/millrace/streams/internal/bridge"
	"github.com/millrace/millrace/tasks"
	"github.com/millrace/millrace/topology"
)

func init() {
	bridge.Program = func(t, config any, naming topology.Naming, sub *topology.Subtopology, id topology.TaskID, log *slog.Logger, stateDir string) (tasks.Program, error) {
		cfg := config.(Config).withDefaults()
		return newTask(&taskConfig{
			ctx: context.Background(), naming: naming, topology: t.(*Topology).t, timestamps: cfg.Timestamps, log: log, print: cfg.Print,
			onDecodeError: cfg.OnDecodeError, onProcessError: cfg.OnProcessError, onProduceError: cfg.OnProduceError,
			deadLetters: cfg.DeadLetterTopic, stateDir: func(topology.TaskID) string { return stateDir }, caching: cfg.CacheBytes >= 0,
		}, sub, id)
	}
	bridge.Open = func(p tasks.Program, handle any) any {
		return handle.(interface{ openAny(*task) any }).openAny(p.(*task))
	}
	bridge.Touch = func(p tasks.Program, ms int64) {
		t := p.(*task)
		t.now, t.headers = ms, nil
	}
}

func (h KeyValueHandle[K, V]) openAny(t *task) any { return h.open(t) }
func (h WindowHandle[K, V]) openAny(t *task) any   { return h.open(t) }
