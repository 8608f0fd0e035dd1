package member

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/millrace/millrace/topology"
)

// Heartbeat is the content of one request, exactly: a nil pointer or slice is a null on the wire, an empty slice an empty array.
type Heartbeat struct {
	MemberID      string
	Epoch         int32 // 0: join; -1: leave; -2: leave for a while (static)
	EndpointEpoch int32
	InstanceID    *string
	RackID        *string

	// RebalanceTimeout is negative if not told, which is -1 on the wire.
	RebalanceTimeout time.Duration

	// Topology says whether to send [Config.Topology].
	Topology bool

	// Tasks holds all three lists; nil: all three null. There is no mixture.
	Tasks *Assignment

	ProcessID *string
	Endpoint  *Endpoint
	Tags      []Tag

	// Offsets and EndOffsets are ascending by task. Always nil for version 0.
	Offsets    []TaskOffset
	EndOffsets []TaskOffset

	Shutdown bool
}

// TaskOffset is a position of a task: the sum over its changelogs.
type TaskOffset struct {
	Task   topology.TaskID
	Offset int64
}

// String prints what is not null, for logs and test scripts.
func (h Heartbeat) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "epoch=%d", h.Epoch)
	if h.EndpointEpoch != -1 {
		fmt.Fprintf(&b, " endpoint-epoch=%d", h.EndpointEpoch)
	}
	for _, f := range []struct {
		name  string
		value *string
	}{{"instance", h.InstanceID}, {"rack", h.RackID}, {"process", h.ProcessID}} {
		if f.value != nil {
			fmt.Fprintf(&b, " %s=%s", f.name, *f.value)
		}
	}
	if h.RebalanceTimeout >= 0 {
		fmt.Fprintf(&b, " rebalance-timeout=%v", h.RebalanceTimeout)
	}
	if h.Topology {
		b.WriteString(" topology")
	}
	if h.Endpoint != nil {
		fmt.Fprintf(&b, " endpoint=%v", h.Endpoint)
	}
	if h.Tags != nil {
		fmt.Fprintf(&b, " tags=%v", h.Tags)
	}
	if h.Tasks != nil {
		fmt.Fprintf(&b, " tasks=[%v]", h.Tasks)
	}
	for _, f := range []struct {
		name    string
		offsets []TaskOffset
	}{{"offsets", h.Offsets}, {"ends", h.EndOffsets}} {
		if f.offsets == nil {
			continue
		}
		var list []string
		for _, o := range f.offsets {
			if o.Offset == UnknownOffset {
				list = append(list, o.Task.String()+":?")
			} else {
				list = append(list, fmt.Sprintf("%v:%d", o.Task, o.Offset))
			}
		}
		fmt.Fprintf(&b, " %s=[%s]", f.name, strings.Join(list, " "))
	}
	if h.Shutdown {
		b.WriteString(" shutdown")
	}
	return b.String()
}

// sent is what the broker has been told since the last join or error; the zero value makes the next heartbeat repeat everything (§1.3).
type sent struct {
	tasks      bool // the lists
	join       bool // nothing was lost since the join
	offsets    []TaskOffset
	ends       []TaskOffset
	offsetsAt  time.Time
	anyOffsets bool // offsets and ends are what was told
}

// Epochs of leaving members.
const (
	epochLeave     = -1
	epochLeaveBack = -2 // static: back within the session timeout
)

func (m *Member) base(epoch int32) Heartbeat {
	h := Heartbeat{MemberID: m.id, Epoch: epoch, EndpointEpoch: m.endpointEpoch, RebalanceTimeout: -1, Shutdown: m.shutdown}
	if m.isStatic() {
		h.InstanceID = new(m.cfg.InstanceID)
	}
	return h
}

// joinHeartbeat repeats everything the broker must know, and clears what it was told before (§1.2, §1.3 rule 4).
func (m *Member) joinHeartbeat(now time.Time) Heartbeat {
	m.static = m.cfg.InstanceID != "" && m.version >= 1
	m.resetEndpointEpoch()
	m.sent = sent{join: true}
	m.offsetsAgain = true

	h := m.base(0)
	h.RebalanceTimeout = m.cfg.PollInterval
	h.Topology = true
	h.Tasks = &Assignment{}
	h.ProcessID = &m.cfg.ProcessID
	if strings.TrimSpace(m.cfg.Rack) != "" {
		h.RackID = &m.cfg.Rack
	}
	h.Endpoint = m.cfg.Endpoint
	h.Tags = slices.Clone(m.cfg.Tags)
	if h.Tags == nil {
		h.Tags = []Tag{}
	}
	m.addOffsets(&h, now, true)
	return h
}

// steadyHeartbeat carries the task lists if it acknowledges an assignment or if the broker may not know them, else nothing.
//
// A list must never omit an active task that was granted and not given up, even if the worker has not created it yet. This is what would happen:
// a join is answered with task X; the next heartbeat is due while the worker creates X, and says that the member has nothing; it gets to the
// coordinator just after X was planned for another member. The coordinator takes the list for the release of X, gives it away, and both run it.
// A task that is named too early costs nothing: lists only say what was not released. After a join nothing has to be said at all before the
// acknowledgement, so then the lists are null.
func (m *Member) steadyHeartbeat(now time.Time) Heartbeat {
	h := m.base(m.epoch)
	granted := union(m.running, m.target.Active)
	creating := len(minus(granted, m.reported.Active)) > 0
	if m.state == Acknowledging || !m.sent.tasks && !(m.sent.join && creating) {
		h.Tasks = new(Assignment{union(m.reported.Active, granted), m.reported.Standby, m.reported.Warmup}.normalize())
		m.sent.tasks = true
	}
	// A heartbeat that creates its group loses its offsets on the broker, so the first one after a join repeats them (M-57).
	if m.offsetsAgain {
		m.sent.anyOffsets = false
		m.offsetsAgain = false
	}
	m.addOffsets(&h, now, h.Tasks != nil)
	return h
}

// leaveHeartbeat says good-bye; the broker checks neither epoch nor lists.
func (m *Member) leaveHeartbeat(epoch int32) Heartbeat { return m.base(epoch) }

// addOffsets adds the offsets that are due (§8.3). Each list goes out only if it differs from what was told.
func (m *Member) addOffsets(h *Heartbeat, now time.Time, lists bool) {
	if m.version < 1 {
		return
	}
	s := &m.sent
	due := lists || !s.anyOffsets || now.Sub(s.offsetsAt) >= m.offsetInterval || m.warmupCaughtUp()
	if !due {
		return
	}
	if !s.anyOffsets || !slices.Equal(s.offsets, m.offsets) {
		h.Offsets = notNil(m.offsets)
	}
	if !s.anyOffsets || !slices.Equal(s.ends, m.ends) {
		h.EndOffsets = notNil(m.ends)
	}
	if h.Offsets != nil || h.EndOffsets != nil {
		s.offsets, s.ends, s.offsetsAt, s.anyOffsets = m.offsets, m.ends, now, true
	}
}

// warmupCaughtUp reports whether a warm-up task is within the lag at which the coordinator makes it active.
func (m *Member) warmupCaughtUp() bool {
	if m.recoveryLag < 0 {
		return false
	}
	for _, t := range m.reported.Warmup {
		offset, known1 := find(m.offsets, t)
		end, known2 := find(m.ends, t)
		if known1 && known2 && offset != UnknownOffset && end != UnknownOffset && end-offset <= m.recoveryLag {
			return true
		}
	}
	return false
}

func find(offsets []TaskOffset, t topology.TaskID) (int64, bool) {
	i, ok := slices.BinarySearchFunc(offsets, t, func(o TaskOffset, t topology.TaskID) int { return o.Task.Compare(t) })
	if !ok {
		return 0, false
	}
	return offsets[i].Offset, true
}

// taskOffsets returns a map's entries in ascending order.
func taskOffsets(offsets map[topology.TaskID]int64) []TaskOffset {
	var out []TaskOffset
	for _, t := range slices.SortedFunc(maps.Keys(offsets), topology.TaskID.Compare) {
		out = append(out, TaskOffset{t, offsets[t]})
	}
	return out
}

func notNil[E any](s []E) []E {
	if s == nil {
		return []E{}
	}
	return s
}

// isStatic reports whether heartbeats carry the instance id: it was joined with, and the coordinator of the moment understands it.
func (m *Member) isStatic() bool { return m.static && m.version >= 1 }

// resetEndpointEpoch makes the next response carry the whole map: the broker's counter lives in memory and starts again at 0 when the
// coordinator moves, so equal numbers may mean different maps. While the topology cannot be configured a differing number makes the
// broker fail, so it is kept (§1.2 remark 4, §4).
func (m *Member) resetEndpointEpoch() {
	if !m.has(MissingSourceTopics) && !m.has(IncorrectlyPartitioned) {
		m.endpointEpoch = -1
	}
}
