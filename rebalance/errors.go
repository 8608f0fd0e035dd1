package rebalance

import (
	"errors"
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/millrace/millrace/rebalance/member"
)

// Error is the end of a membership, or of a worker: the cause, and whose it is.
type Error = member.Error

// Errors to look for with errors.Is.
var (
	// ErrMigrated is the answer to a [Revoke] whose commit was refused because other members own the tasks.
	ErrMigrated = member.ErrMigrated

	ErrMissingSourceTopics    = member.ErrMissingSourceTopics
	ErrIncorrectlyPartitioned = member.ErrIncorrectlyPartitioned
	ErrMissingInternalTopics  = member.ErrMissingInternalTopics
	ErrUnknownSubtopology     = member.ErrUnknownSubtopology
	ErrProtocol               = member.ErrProtocol
	ErrInstanceIDInUse        = member.ErrInstanceIDInUse
	ErrGroupOfAnotherType     = member.ErrGroupOfAnotherType

	// ErrTopologyDiffers: the group was created with another topology.
	ErrTopologyDiffers = errors.New("the topology of the group differs from this program's")
	// ErrUnsupported: the brokers have no streams groups.
	ErrUnsupported = errors.New("the brokers have no streams groups")

	errRunTwice = errors.New("rebalance: Run was called before")
)

// BrokerError is an error code of a broker. It unwraps to the error of package kerr, and to one of this package if there is one.
type BrokerError struct {
	Code    int16
	Message string // of the broker; may be empty
	Hint    string // what to do about it; may be empty
	is      error
}

func (e *BrokerError) Error() string {
	var b strings.Builder
	if e.is != nil {
		fmt.Fprintf(&b, "%v: ", e.is)
	}
	if known := kerr.TypedErrorForCode(e.Code); known != nil && known.Code == e.Code {
		fmt.Fprintf(&b, "%s (%d)", known.Message, e.Code)
	} else {
		fmt.Fprintf(&b, "error code %d", e.Code)
	}
	if e.Message != "" {
		fmt.Fprintf(&b, ": %q", e.Message)
	}
	if e.Hint != "" {
		fmt.Fprintf(&b, " (%s)", e.Hint)
	}
	return b.String()
}

func (e *BrokerError) Unwrap() []error {
	errs := []error{kerr.ErrorForCode(e.Code)}
	if e.is != nil {
		errs = append(errs, e.is)
	}
	return errs
}

// reaction is what an error code means for the member: its class, and what to tell the user if it is the end.
type reaction struct {
	class member.Class
	is    error
	hint  string
}

// reactions is the one table of error codes (member spec §4). A code that is not in it is of class Unexplained: brokers to come may have new ones for
// passing troubles, so it is retried for one session timeout.
var reactions = map[int16]reaction{
	// The coordinator is elsewhere. 15 also stands for timeouts inside the coordinator's log; looking it up again is right for them, too.
	kerr.NotCoordinator.Code:          {class: member.Moved},
	kerr.CoordinatorNotAvailable.Code: {class: member.Moved},
	// It is the right one, and still reads its log.
	kerr.CoordinatorLoadInProgress.Code: {class: member.Loading},
	// The broker has the member under another epoch: it took the tasks away, or an answer was lost and lists were not repeated in time.
	kerr.FencedMemberEpoch.Code: {class: member.FencedEpoch},
	// Session or rebalance timeout, or a coordinator that starts empty.
	kerr.UnknownMemberID.Code: {class: member.UnknownMember},
	// In the group: deleted or expired. On a join: a consumer group, or a classic group with members, has this id.
	kerr.GroupIDNotFound.Code: {class: member.GroupGone, hint: "a streams group takes over only an empty classic group: stop all its members, or use a new application id"},
	// Permissions can be given while the member waits.
	kerr.TopicAuthorizationFailed.Code: {class: member.TopicDenied, hint: "DESCRIBE is needed on every topic of the topology"},
	// A process that died, or our own former self, holds the instance id until its session ends.
	kerr.UnreleasedInstanceID.Code: {class: member.Unreleased},
	// An assignor that failed, a mistake of ours, or source topics that are missing while the member has an endpoint.
	kerr.UnknownServerError.Code: {class: member.Unexplained},

	// The rest cannot be helped by trying again.
	kerr.GroupAuthorizationFailed.Code:   {class: member.Unrecoverable, hint: "READ is needed on the group"},
	kerr.ClusterAuthorizationFailed.Code: {class: member.Unrecoverable},
	kerr.SaslAuthenticationFailed.Code:   {class: member.Unrecoverable},
	kerr.InvalidRequest.Code:             {class: member.Unrecoverable},
	kerr.InvalidGroupID.Code:             {class: member.Unrecoverable},
	kerr.GroupMaxSizeReached.Code:        {class: member.Unrecoverable, hint: "raise group.streams.max.size or run fewer workers"},
	kerr.UnsupportedVersion.Code: {class: member.Unrecoverable, is: ErrUnsupported,
		hint: "Kafka 4.2 or later is needed, with the feature streams.version at 1 and streams among the group coordinator's protocols"},
	kerr.StreamsInvalidTopology.Code:      {class: member.Unrecoverable},
	kerr.StreamsInvalidTopologyEpoch.Code: {class: member.Unrecoverable, is: ErrTopologyDiffers, hint: hintTopology},
	kerr.StreamsTopologyFenced.Code:       {class: member.Unrecoverable, is: ErrTopologyDiffers, hint: hintTopology},
	// Another process has taken over the instance id: this one must not come back.
	kerr.FencedInstanceID.Code: {class: member.Unrecoverable, hint: "another process runs with this instance id"},
}

const hintTopology = "use a new application id, or delete the group, which also deletes its committed offsets"

// brokerError classifies an error code; the message may be nil.
func brokerError(code int16, message *string) (member.Class, error) {
	r, ok := reactions[code]
	if !ok {
		r.class = member.Unexplained
	}
	e := &BrokerError{Code: code, Hint: r.hint, is: r.is}
	if message != nil {
		e.Message = *message
	}
	// Brokers up to 4.4 have no code of its own for it: "Topology updates are not supported yet."
	if code == kerr.InvalidRequest.Code && strings.Contains(strings.ToLower(e.Message), "topology update") {
		e.is, e.Hint = ErrTopologyDiffers, hintTopology
	}
	return r.class, e
}

// requestError classifies a request that has no response: in general the outcome is unknown and trying again is right.
func requestError(err error) (member.Class, error) {
	if known, ok := errors.AsType[*kerr.Error](err); ok { // from setting up the connection
		class, _ := brokerError(known.Code, nil)
		return class, err
	}
	if errors.Is(err, kgo.ErrClientClosed) {
		return member.Unrecoverable, err
	}
	return member.Transport, err
}
