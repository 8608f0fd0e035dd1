package state

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
)

// processMetadata is the content of the process file, in Kafka Streams' form.
type processMetadata struct {
	ProcessID string `json:"processId"`
}

var uuidForm = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

// readProcessID returns the id in the process file. A file that is not readable as one counts as none, and is written anew.
func (d *Dir) readProcessID() (string, error) {
	path := filepath.Join(d.path, processFile)
	b, err := os.ReadFile(path)
	switch {
	case err == nil:
		var m processMetadata
		if err = json.Unmarshal(b, &m); err == nil && uuidForm.MatchString(m.ProcessID) {
			return m.ProcessID, nil
		}
		d.log.Warn("the process id is not readable and is made anew", "path", path)
	case errors.Is(err, fs.ErrPermission):
		return "", fmt.Errorf("state: read process id: %w", err)
	case !errors.Is(err, fs.ErrNotExist):
		d.log.Warn("the process id is not readable and is made anew", "path", path, "error", err)
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("state: replace process id: %w", err)
		}
	}
	id := newUUID()
	b, err = json.Marshal(processMetadata{id})
	if err != nil {
		return "", fmt.Errorf("state: write process id: %w", err)
	}
	if err := writeFile(path, b); err != nil {
		return "", fmt.Errorf("state: write process id: %w", err)
	}
	return id, nil
}

func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// writeFile replaces a file as a whole: after a crash it has the old content or the new one.
func writeFile(path string, content []byte) (err error) {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.Write(content)
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return err
	}
	return syncDir(dir)
}
