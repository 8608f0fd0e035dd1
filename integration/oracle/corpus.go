package oracle

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Case is a program of the corpus: one that once differed, with what Java makes of it.
type Case struct {
	Name    string   `json:"-"`     // that of its file
	About   string   `json:"about"` // what it shows
	Program *Program `json:"program"`
	Java    *Result  `json:"java"`
}

// Corpus reads the cases of a folder.
func Corpus(dir string) ([]*Case, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	var all []*Case
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		c := &Case{Name: strings.TrimSuffix(filepath.Base(f), ".json")}
		if err := json.Unmarshal(data, c); err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// Write writes a case to its file in a folder.
func (c *Case) Write(dir string) error {
	program, err := json.Marshal(c.Program)
	if err != nil {
		return err
	}
	java, err := json.Marshal(c.Java)
	if err != nil {
		return err
	}
	text := fmt.Sprintf("{\n\"about\": %q,\n\"program\": %s,\n\"java\": %s\n}\n", c.About, program, java)
	return os.WriteFile(filepath.Join(dir, c.Name+".json"), []byte(text), 0o644)
}
