package member

import (
	"fmt"
	"slices"
	"time"
)

// statusWatch remembers what was made of the conditions the broker tells (§5), and of those the member finds out itself.
type statusWatch struct {
	missing  condition // source topics, status 1 or found by our own check
	internal condition // internal topics, status 3

	incorrect bool // status 2 is reported
	stop      bool // status 4 is passed on

	warned map[string]map[string]bool // details that were logged, by topic of the warning

	check   uint64 // id of the CheckTopics under way, 0: none
	lacking bool   // our own check found source topics missing or mismatching
}

// condition is one that turns into an error after a while.
type condition struct {
	since  time.Time // zero: does not hold
	detail string
	told   bool
}

func (c *condition) holds(now time.Time, detail string) {
	if c.since.IsZero() {
		c.since = now
	}
	c.detail = detail
}

func (w *statusWatch) init() { w.warned = make(map[string]map[string]bool) }

// once notes a warning once for each detail, until forget.
func (w *statusWatch) once(m *Member, topic, message, detail string) {
	if w.warned[topic] == nil {
		w.warned[topic] = make(map[string]bool)
	}
	if !w.warned[topic][detail] {
		w.warned[topic][detail] = true
		m.note(true, message, detail)
	}
}

func (w *statusWatch) forget(topic string) { delete(w.warned, topic) }

// has reports whether the last statuses hold the code.
func (m *Member) has(code StatusCode) bool {
	return slices.ContainsFunc(m.statuses, func(s Status) bool { return s.Code == code })
}

func (m *Member) detail(code StatusCode) string {
	for _, s := range m.statuses {
		if s.Code == code {
			return s.Detail
		}
	}
	return ""
}

// onStatuses takes the conditions of a response. Null, which old brokers send for none, keeps what was told before but counts as ready.
func (m *Member) onStatuses(statuses []Status) {
	w := &m.watch
	if w.lacking { // a heartbeat succeeded, so the topology can be configured again
		w.lacking = false
		w.missing = condition{}
		w.incorrect = false
	}
	if statuses == nil {
		m.ready = true
		return
	}
	m.statuses = statuses
	m.ready = true
	for _, s := range statuses {
		switch s.Code {
		case MissingSourceTopics, IncorrectlyPartitioned, MissingInternalTopics, AssignmentDelayed:
			m.ready = false
		}
		switch s.Code {
		case StaleTopology, MissingSourceTopics, MissingInternalTopics, MissingClientTags:
			w.once(m, s.Code.String(), "the group has a condition: "+s.Code.String(), s.Detail)
		case IncorrectlyPartitioned, ShutdownApplication, AssignmentDelayed:
			// The first two are reported below, the last is a matter of course.
		default:
			if w.warned[s.Code.String()] == nil { // once for each code, whatever its details are
				w.once(m, s.Code.String(), "unknown status code ignored", fmt.Sprintf("%d: %s", int8(s.Code), s.Detail))
			}
		}
	}
	for _, code := range []StatusCode{StaleTopology, MissingSourceTopics, MissingInternalTopics, MissingClientTags} {
		if !m.has(code) {
			w.forget(code.String())
		}
	}
	for _, c := range []struct {
		code StatusCode
		cond *condition
	}{{MissingSourceTopics, &w.missing}, {MissingInternalTopics, &w.internal}} {
		if m.has(c.code) {
			c.cond.holds(m.now, m.detail(c.code))
		} else {
			*c.cond = condition{}
		}
	}
	if !m.has(IncorrectlyPartitioned) {
		w.incorrect = false
	} else {
		m.reportIncorrect(m.detail(IncorrectlyPartitioned))
	}
	if !m.has(ShutdownApplication) {
		w.stop = false
	} else if !w.stop {
		w.stop = true
		m.do(StopApplication{m.detail(ShutdownApplication)})
	}
}

func (m *Member) reportIncorrect(detail string) {
	if !m.watch.incorrect {
		m.watch.incorrect = true
		m.do(Report{Err: m.err(fmt.Errorf("%w: %s", ErrIncorrectlyPartitioned, detail)), Stop: true})
	}
}

// missingBy is when missing source topics fail the worker: after two intervals, as in Kafka Streams.
func (w *statusWatch) missingBy(m *Member) time.Time {
	if w.missing.since.IsZero() || w.missing.told || !m.state.inGroup() {
		return noTime
	}
	interval := m.interval
	if interval == 0 {
		interval = defaultInterval
	}
	return w.missing.since.Add(2 * interval)
}

func (w *statusWatch) internalBy(m *Member) time.Time {
	if w.internal.since.IsZero() || w.internal.told || !m.state.inGroup() || m.cfg.InternalTopicTimeout == 0 {
		return noTime
	}
	return w.internal.since.Add(m.cfg.InternalTopicTimeout)
}

func (m *Member) expireStatus() {
	w := &m.watch
	if by := w.missingBy(m); !by.IsZero() && !m.now.Before(by) {
		w.missing.told = true
		m.do(Report{Err: m.err(fmt.Errorf("%w: %s", ErrMissingSourceTopics, w.missing.detail)), Stop: true})
	}
	if by := w.internalBy(m); !by.IsZero() && !m.now.Before(by) {
		w.internal.told = true
		m.do(Report{Err: m.err(fmt.Errorf("%w: %s", ErrMissingInternalTopics, w.internal.detail)), Stop: true})
	}
}

// unexplained is UNKNOWN_SERVER_ERROR or a code of the future. It is retried for a session timeout. For a member with an endpoint it may stand
// for status 1 or 2, which brokers fail to say to such a member (§4, M-58), so the source topics are looked at.
func (m *Member) unexplained(err error) {
	m.backOff()
	if m.unexplainedAt.IsZero() {
		m.unexplainedAt = m.now
	}
	if !m.watch.lacking && m.now.Sub(m.unexplainedAt) >= m.cfg.SessionTimeout {
		m.fail(err)
		return
	}
	if m.cfg.Endpoint != nil && m.watch.check == 0 {
		m.watch.check = m.nextID()
		m.do(CheckTopics{m.watch.check})
	}
}

func (m *Member) onTopicsChecked(e TopicsChecked) {
	w := &m.watch
	if e.ID == 0 || e.ID != w.check {
		return
	}
	w.check = 0
	if e.Err != nil || m.unexplainedAt.IsZero() || !m.state.inGroup() {
		return // a heartbeat that succeeded meanwhile knows better
	}
	if e.Missing == "" && e.Mismatched == "" {
		if w.lacking {
			w.lacking, w.missing, w.incorrect = false, condition{}, false
			m.unexplainedAt = m.now
		}
		return
	}
	if !w.lacking {
		w.lacking = true
		m.ready = false
		// Brokers that can say it take all tasks away. Once the topics are back, the lists are not repeated, so ask for them.
		switch m.state {
		case Reconciling, Acknowledging, Stable:
			m.setTarget(Assignment{}, false)
			m.suspect()
		}
	}
	if e.Mismatched != "" {
		m.reportIncorrect(e.Mismatched)
	}
	if e.Missing == "" {
		w.missing = condition{}
		return
	}
	w.once(m, MissingSourceTopics.String(), "the group has a condition: "+MissingSourceTopics.String(), e.Missing)
	w.missing.holds(m.now, e.Missing)
}
