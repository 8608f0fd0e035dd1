package devbroker

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// groupsFile is where the data directory keeps streams groups, in the form of [coordinator.Coordinator.Snapshot]. It is replaced as a whole.
const groupsFile = "streams-groups.json"

// saveInterval is the longest time a change of a group stays unsaved. A process that is killed loses that much; members whose epoch is then unknown are
// fenced and join again.
const saveInterval = time.Second

// loadGroups reads the groups of an earlier run. It runs before anything else can see the broker.
func (b *Broker) loadGroups() error {
	if b.cfg.dataDir == "" {
		return nil
	}
	path := filepath.Join(b.cfg.dataDir, groupsFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = b.mu.coord.Restore(time.Now(), data)
	}
	if err != nil {
		return fmt.Errorf("devbroker: streams groups of %s: %w", b.cfg.dataDir, err)
	}
	b.saved = data
	return nil
}

// saveGroups writes the groups if they changed since the last time. Only the clock goroutine calls it, and Close after that has ended.
func (b *Broker) saveGroups() {
	if b.cfg.dataDir == "" {
		return
	}
	b.mu.Lock()
	data, err := b.mu.coord.Snapshot()
	b.mu.unsaved = false
	b.mu.Unlock()
	if err == nil && bytes.Equal(data, b.saved) {
		return
	}
	if err == nil {
		path := filepath.Join(b.cfg.dataDir, groupsFile)
		if err = os.WriteFile(path+".new", data, 0o644); err == nil {
			err = os.Rename(path+".new", path)
		}
	}
	if err != nil {
		b.cfg.logger.Error("streams groups not saved", "dir", b.cfg.dataDir, "error", err)
		return
	}
	b.saved = data
}
