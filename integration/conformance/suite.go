package conformance

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// Target is a cluster under test.
type Target struct {
	Seeds   []string // bootstrap servers
	Release string   // "4.2", "4.3" or "4.4": what the cases expect where releases differ

	// Dialer reaches the brokers; nil: TCP.
	Dialer func(ctx context.Context, network, addr string) (net.Conn, error)

	// SetGroupConfigs sets settings of a group. Nil: over the wire, with IncrementalAlterConfigs.
	SetGroupConfigs func(ctx context.Context, group string, configs map[string]string) error

	// MaxSize is the target's group.streams.max.size. Zero: too large to be reached, and the case that reaches it (C-15) is left out.
	MaxSize int

	// LoseCoordinator makes a group's coordinator lose its memory, by moving it or by restarting its broker, and returns when the change is under way. Nil:
	// the case that needs it (C-49) is left out.
	LoseCoordinator func(t *testing.T, group string)
}

// RunAll runs the whole suite against a target.
func RunAll(t *testing.T, target Target) { Run(t, target) }

// Run runs the whole suite against a target, the cases in parallel.
func Run(t *testing.T, target Target) {
	release := map[string]int{"4.2": 42, "4.3": 43, "4.4": 44}[target.Release]
	if release == 0 {
		t.Fatalf("conformance: unknown release %q, want 4.2, 4.3 or 4.4", target.Release)
	}
	if len(target.Seeds) == 0 {
		t.Fatal("conformance: a target without seeds")
	}
	run := fmt.Sprintf("%08x", rand.Uint32())
	for _, list := range [][]testCase{validationCases, membershipCases, staticCases, topologyCases, assignmentCases, offsetCases, groupCases} {
		for _, c := range list {
			if release < c.since || c.until != 0 && release > c.until || c.needs != nil && !c.needs(target) {
				continue
			}
			t.Run(c.name, func(t *testing.T) {
				if !c.alone {
					t.Parallel()
				}
				c.run(newScene(t, target, release, run))
			})
		}
	}
}

// testCase is one item of the checklist, or a part of one.
type testCase struct {
	name         string
	run          func(*scene)
	since, until int               // releases it holds for, as 44; zero: no bound
	needs        func(Target) bool // what else the target must offer
	alone        bool              // disturbs others, so it runs before or after them
}
