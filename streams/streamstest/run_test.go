package streamstest_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/millrace/millrace/streams/streamstest"
)

func TestRun(t *testing.T) {
	topology := wordCount(t)
	var got map[string]int64
	err := streamstest.Run(topology, func(d *streamstest.Driver) {
		d.Input(lines).PipeValues("a b a")
		got = streamstest.Latest(d.Output(counts))
	}, streamstest.Partitions("lines", 2))
	if err != nil || got["a"] != 2 || got["b"] != 1 {
		t.Errorf("got %v, %v", got, err)
	}
	after := false
	err = streamstest.Run(topology, func(d *streamstest.Driver) {
		d.Output(counts).Read()
		after = true
	})
	if err == nil || !strings.Contains(err.Error(), "nothing is left in counts") || after {
		t.Errorf("a failure: %v, went on %t", err, after)
	}
	err = streamstest.Run(topology, func(d *streamstest.Driver) {
		d.FailCommit(errBoom)
		d.Input(lines).PipeValues("a")
	})
	if err == nil || !strings.Contains(err.Error(), "boom") {
		t.Errorf("a topology that stops: %v", err)
	}
	err = streamstest.Run(topology, func(*streamstest.Driver) {}, streamstest.Partitions("lines", -1))
	if err == nil || !strings.Contains(err.Error(), "at least 1 partition") {
		t.Errorf("a bad option: %v", err)
	}
	defer func() {
		if err, ok := recover().(error); !ok || !errors.Is(err, errBoom) {
			t.Errorf("a panic: %v", err)
		}
	}()
	_ = streamstest.Run(topology, func(*streamstest.Driver) { panic(errBoom) })
}
