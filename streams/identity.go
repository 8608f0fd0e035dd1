package streams

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"time"
	"uuid"

	"github.com/millrace/millrace/rebalance"
	"github.com/millrace/millrace/state"
	"github.com/millrace/millrace/streams/internal/client"
	"github.com/millrace/millrace/tasks"
	"github.com/millrace/millrace/topology"
	"github.com/twmb/franz-go/pkg/kgo"
)

// newProcessID is the identity of a process that keeps no state, and so none.
func newProcessID() string { return uuid.New().String() }

// explain gives the errors of the parts the sentinels of this package, and text that says what to do.
func (p *instance) explain(err error) error {
	if errors.Is(err, tasks.ErrStop) {
		return fmt.Errorf("%w: another instance asked the whole application to stop", ErrStopped)
	}
	for _, e := range explanations {
		if errors.Is(err, e.cause) {
			if e.todo == "" {
				return fmt.Errorf("%w: %w", e.is, err)
			}
			return fmt.Errorf("%w: %w; %s", e.is, err, e.todo)
		}
	}
	return err
}

// explanations are of errors that end a worker. What there is to do is empty where the cause says it already.
var explanations = []struct {
	cause, is error
	todo      string
}{
	{client.ErrNoOffset, ErrNoOffset, ""},
	{rebalance.ErrMissingSourceTopics, ErrMissingSourceTopic,
		"create it, or correct its name in streams.NewTopic: source topics are not created by the application"},
	{rebalance.ErrIncorrectlyPartitioned, ErrPartitionCount,
		"an internal topic keeps the partitions it was made with, so give its source topics their old number again, or stop all instances and delete the " +
			"internal topic with what is in it; inputs of a join must have equal numbers, which Repartition gives them"},
	{rebalance.ErrMissingInternalTopics, ErrInternalTopic,
		"check Config.ReplicationFactor against the number of brokers, Config.InternalTopics, and that the brokers let this client create topics"},
	{rebalance.ErrTopologyDiffers, ErrTopologyDiffers, ""},
	{rebalance.ErrUnsupported, ErrNoStreamsGroups, ""},
	{rebalance.ErrGroupOfAnotherType, ErrGroupType, ""},
	{rebalance.ErrInstanceIDInUse, ErrInstanceID, "give each process its own Config.InstanceID, or wait until the session of one that died has ended"},
}

// joinErrors joins what several workers ended with. Those that met the same trouble say so once.
func joinErrors(errs ...error) error {
	var kept []error
	for _, err := range errs {
		if err != nil && !slices.ContainsFunc(kept, func(k error) bool { return sameTrouble(k, err) }) {
			kept = append(kept, err)
		}
	}
	return errors.Join(kept...)
}

func sameTrouble(a, b error) bool {
	for _, e := range explanations {
		if errors.Is(a, e.is) && errors.Is(b, e.is) {
			return true
		}
	}
	return errors.Is(a, ErrStopped) && errors.Is(b, ErrStopped)
}

// dials remembers why the last connection to a broker could not be made. It is a hook of franz-go.
type dials struct{ err atomic.Pointer[error] }

// OnBrokerConnect implements [kgo.HookBrokerConnect].
func (d *dials) OnBrokerConnect(_ kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if err == nil {
		d.err.Store(nil)
	} else if !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded) {
		d.err.Store(&err)
	}
}

// cause says why no broker answers.
func (d *dials) cause() error {
	if e := d.err.Load(); e != nil {
		return *e
	}
	return errors.New("something takes the connection and answers nothing, so it is no Kafka broker, or wants TLS (Config.Dial) or SASL (Config.Kafka)")
}

// directory is the state directory as package tasks sees it.
type directory struct{ dir *state.Dir }

// Acquire implements [tasks.Directory].
func (d directory) Acquire(ctx context.Context, id topology.TaskID) (tasks.Claim, error) {
	for {
		c, err := d.dir.Acquire(id)
		if err == nil {
			return c, nil
		}
		busy, ok := errors.AsType[*state.BusyError](err)
		if !ok {
			return nil, err
		}
		select {
		case <-busy.Released:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// TaskPath implements [tasks.Directory].
func (d directory) TaskPath(id topology.TaskID) string { return d.dir.TaskPath(id) }
