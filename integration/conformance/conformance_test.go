package conformance_test

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/integration/conformance"
	"github.com/millrace/millrace/integration/devbroker"
	"github.com/millrace/millrace/integration/devbroker/coordinator"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// maxSize is the most members a group of the development brokers has. No case but C-15 has that many.
const maxSize = 4

// start starts a development broker with the small bounds the cases need and the defects of a real one.
func start(t *testing.T, release coordinator.Release, opts ...devbroker.Option) *devbroker.Broker {
	t.Helper()
	b, err := devbroker.Start(append([]devbroker.Option{
		devbroker.PlayRelease(release),
		devbroker.Settings(func(c *coordinator.Config) {
			c.HeartbeatInterval, c.SessionTimeout = 500*time.Millisecond, 6*time.Second
			c.EndpointDefect = true
			c.MaxSize = maxSize
		}),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

func target(t *testing.T, release coordinator.Release, opts ...devbroker.Option) conformance.Target {
	b := start(t, release, opts...)
	return conformance.Target{
		Seeds: b.Addrs(), Release: release.String(), MaxSize: maxSize,
		LoseCoordinator: func(t *testing.T, group string) {
			t.Helper()
			if err := b.MoveCoordinator(group); err != nil {
				t.Fatal(err)
			}
		},
	}
}

// The development broker in all its releases; in short mode only as the newest.
func TestDevelopmentBroker(t *testing.T) {
	releases := []coordinator.Release{coordinator.Kafka44, coordinator.Kafka43, coordinator.Kafka42}
	if testing.Short() {
		releases = releases[:1]
	}
	for _, r := range releases {
		t.Run(r.String(), func(t *testing.T) { conformance.Run(t, target(t, r)) })
	}
}

// Three nodes, so that most groups have a coordinator that is not the node asked first, and really move.
func TestDevelopmentBrokerOfThreeNodes(t *testing.T) {
	conformance.Run(t, target(t, coordinator.Kafka44, devbroker.Nodes(3)))
}

// A real broker, if one is given. It needs the settings named in the package documentation. MILLRACE_BROKERS_MAX_SIZE tells its
// group.streams.max.size, for C-15, and MILLRACE_BROKERS_RESTART is a shell command that restarts it, for C-49.
func TestRealBroker(t *testing.T) {
	seeds := os.Getenv("MILLRACE_BROKERS")
	if seeds == "" {
		t.Log("MILLRACE_BROKERS is not set: nothing to compare with")
		return
	}
	tg := conformance.Target{Seeds: strings.Split(seeds, ","), Release: "4.4"}
	if r := os.Getenv("MILLRACE_BROKERS_RELEASE"); r != "" {
		tg.Release = r
	}
	if n := os.Getenv("MILLRACE_BROKERS_MAX_SIZE"); n != "" {
		size, err := strconv.Atoi(n)
		if err != nil {
			t.Fatal(err)
		}
		tg.MaxSize = size
	}
	if restart := os.Getenv("MILLRACE_BROKERS_RESTART"); restart != "" {
		tg.LoseCoordinator = func(t *testing.T, _ string) {
			t.Helper()
			cmd := exec.Command("sh", "-c", restart)
			cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
			if err := cmd.Run(); err != nil {
				t.Fatalf("restart the broker: %v", err)
			}
		}
	}
	conformance.RunAll(t, tg)
}
