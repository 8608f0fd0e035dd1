package member

import (
	"time"

	"github.com/millrace/millrace/topology"
)

// Action is something the caller must do: one of the structs of this file. Those with an ID are answered by an event with the same ID;
// the answer to an id that was overtaken is ignored.
type Action interface{ action() }

type (
	// FindCoordinator asks for the group's coordinator and for its versions of the heartbeat: [CoordinatorFound] or [CoordinatorFailed].
	// The coordinator known so far must not be used any more.
	FindCoordinator struct{ ID uint64 }

	// SendHeartbeat sends one heartbeat to the coordinator, once, never twice: [HeartbeatOK] or [HeartbeatFailed], no later than Timeout.
	SendHeartbeat struct {
		ID      uint64
		Request Heartbeat
		Timeout time.Duration
	}

	// Describe asks the coordinator for the member's current assignment and epoch: [Described] or [DescribeFailed].
	Describe struct{ ID uint64 }

	// CheckTopics asks whether the topology's source topics exist and fit together: [TopicsChecked].
	CheckTopics struct{ ID uint64 }

	// Revoke asks the worker to stop fetching the active tasks, commit them, and suspend them: [Revoked]. Tasks it does not have are done
	// already.
	Revoke struct {
		ID    uint64
		Tasks []topology.TaskID
	}

	// Assign asks the worker to have exactly these tasks: [Assigned]. What it has in the same role it keeps, what has another role it
	// recycles, what is not named it closes cleanly, the rest it creates; restoring goes on afterwards. If Ready is false the group is not ready:
	// new tasks wait, tasks that already run go on (§5.1).
	Assign struct {
		ID    uint64
		Tasks Assignment
		Ready bool
	}

	// Lose tells the worker that its active tasks belong to others: no commit, no output, close them as they are: [LostDone]. It overtakes
	// every command before it that is not finished.
	Lose struct{ ID uint64 }

	// UpdateEndpoints replaces the map of partitions by host, ascending by endpoint.
	UpdateEndpoints struct{ Hosts []HostPartitions }

	// StopApplication says that a member asked all instances of the application to stop.
	StopApplication struct{ Detail string }

	// Report makes an error visible to the application. Membership goes on; Stop asks the worker to close its tasks and leave.
	Report struct {
		Err  *Error
		Stop bool
	}

	// Note is something to log.
	Note struct {
		Warn    bool
		Message string
		Detail  string
	}

	// Left says that the member is out of the group, as asked. It is the last action.
	Left struct{}

	// Fail says that the membership ended for good. It is the last action.
	Fail struct{ Err *Error }
)

func (FindCoordinator) action() {}
func (SendHeartbeat) action()   {}
func (Describe) action()        {}
func (CheckTopics) action()     {}
func (Revoke) action()          {}
func (Assign) action()          {}
func (Lose) action()            {}
func (UpdateEndpoints) action() {}
func (StopApplication) action() {}
func (Report) action()          {}
func (Note) action()            {}
func (Left) action()            {}
func (Fail) action()            {}
