package streamstest

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/millrace/millrace/streams"
)

// Run runs a topology outside of a test, for examples and for trying things out. f runs on a goroutine of its own, as Read and its like end it when
// they fail; what failed is the error that Run returns.
func Run(topology *streams.Topology, f func(d *Driver), opts ...Option) (err error) {
	t := &standalone{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer t.cleanUp()
		f(New(t, topology, opts...))
	}()
	<-done
	if t.panicked != nil {
		panic(t.panicked)
	}
	return errors.Join(t.errs...)
}

// standalone is the part of a testing.TB that a driver uses. Its other methods are those of a nil interface.
type standalone struct {
	testing.TB
	cleanups []func()
	errs     []error
	panicked any
}

func (t *standalone) Helper()          {}
func (t *standalone) Cleanup(f func()) { t.cleanups = append(t.cleanups, f) }
func (t *standalone) Errorf(format string, args ...any) {
	t.errs = append(t.errs, fmt.Errorf(format, args...))
}

func (t *standalone) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	runtime.Goexit()
}

func (t *standalone) TempDir() string {
	dir, err := os.MkdirTemp("", "streamstest")
	if err != nil {
		t.Fatalf("streamstest: %v", err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Errorf("streamstest: %v", err)
		}
	})
	return dir
}

// cleanUp runs what Cleanup was given, last first, also when f panics or ends the goroutine.
func (t *standalone) cleanUp() {
	t.panicked = recover()
	for i := len(t.cleanups) - 1; i >= 0; i-- {
		t.cleanups[i]()
	}
}
