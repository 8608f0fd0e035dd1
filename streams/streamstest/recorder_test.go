package streamstest_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// recorder is a test inside a test, whose failures are what is tested.
type recorder struct {
	testing.TB
	messages []string
	cleanups []func()
}

func (r *recorder) Helper()          {}
func (r *recorder) Cleanup(f func()) { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Errorf(format string, args ...any) {
	r.messages = append(r.messages, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// record runs f as a test and returns what it reported.
func record(t *testing.T, f func(tb testing.TB)) []string {
	t.Helper()
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			for _, f := range slices.Backward(r.cleanups) {
				f()
			}
		}()
		f(r)
	}()
	<-done
	return r.messages
}

// fails checks that f, as a test, reports exactly one failure for each of the texts, in order, and that it has the text in it.
func fails(t *testing.T, f func(tb testing.TB), want ...string) {
	t.Helper()
	got := record(t, f)
	if !slices.EqualFunc(got, want, strings.Contains) {
		t.Errorf("it reports %q, want %q", got, want)
	}
}
