package member

import (
	"errors"
	"fmt"
)

// Class sorts what went wrong with a request by what the member does about it (§4). The caller turns wire errors into a class; the core
// sees no codes.
type Class uint8

const (
	// Transport: no parsed response, so the outcome is unknown. Look up the coordinator, back off, repeat all lists.
	Transport Class = iota + 1
	// Moved: the coordinator is another one. Look it up, no backoff.
	Moved
	// Loading: the coordinator is not ready. Back off.
	Loading
	// FencedEpoch: the broker knows the member under another epoch. Tasks are lost, join again.
	FencedEpoch
	// UnknownMember: the broker does not know the member. Tasks are lost, join again.
	UnknownMember
	// GroupGone: the broker does not know the group, or it is of another type. In the group: as UnknownMember, once.
	GroupGone
	// TopicDenied: a topic of the topology is not authorized. Visible to the application, heartbeats go on.
	TopicDenied
	// Unreleased: the instance id is held by another process. Retried for a while, then fatal.
	Unreleased
	// Unexplained: UNKNOWN_SERVER_ERROR or a code this client does not know. Retried for one session timeout, then fatal.
	Unexplained
	// Unrecoverable: retrying cannot help.
	Unrecoverable
)

var classNames = [...]string{
	Transport: "transport", Moved: "moved", Loading: "loading", FencedEpoch: "fenced-epoch", UnknownMember: "unknown-member",
	GroupGone: "group-gone", TopicDenied: "topic-denied", Unreleased: "unreleased", Unexplained: "unexplained", Unrecoverable: "unrecoverable",
}

func (c Class) String() string {
	if int(c) < len(classNames) && classNames[c] != "" {
		return classNames[c]
	}
	return fmt.Sprintf("class(%d)", uint8(c))
}

// Errors that an [Error] may hold, for errors.Is.
var (
	ErrMissingSourceTopics    = errors.New("source topics are missing")
	ErrIncorrectlyPartitioned = errors.New("topics do not have the partitions the topology needs")
	ErrMissingInternalTopics  = errors.New("internal topics are missing")
	ErrUnknownSubtopology     = errors.New("the assignment names sub-topologies this program does not have")
	ErrProtocol               = errors.New("the broker broke the protocol")
	ErrInstanceIDInUse        = errors.New("the instance id is in use by another process")
	ErrGroupOfAnotherType     = errors.New("the group id belongs to a group that is not a streams group")

	// ErrMigrated is what a worker answers a [Revoke] with when its commit was refused because other members own its tasks now.
	ErrMigrated = errors.New("tasks migrated to another member")
)

// Error is what the application gets to see: the cause, and whose it is.
type Error struct {
	Group    string
	MemberID string
	Epoch    int32 // when it happened; not positive: not in the group
	Err      error
}

func (e *Error) Error() string {
	return fmt.Sprintf("rebalance: group %q: member %s at epoch %d: %v", e.Group, e.MemberID, e.Epoch, e.Err)
}

func (e *Error) Unwrap() error { return e.Err }
