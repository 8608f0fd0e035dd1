package member

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/topology"
)

var rewrite = flag.Bool("rewrite", false, "rewrite the outputs in testdata; read them afterwards")

// A script is a text file of blocks: lines of input, a line "----", lines of output, an empty line. Lines that begin with # are comments and
// are kept. Inputs:
//
//	new [instance=I] [rack=R] [endpoint=H:P] [tags=k:v] [poll=D] [keep-on-topic-denied] [internal-timeout=D] [new-ids]
//	join | polled | migrated | shutdown | leave [default|leave|remain] [closed] | tick
//	found [version=1]              nocoordinator CLASS
//	ok [epoch=N] [interval=D] [active=T,T] [standby=T] [warmup=T] [status=null|CODE:DETAIL,...] [endpoint-epoch=N] [hosts=H:P/topic-0/topic-1,...]
//	   [offset-interval=D] [lag=N] [foreign=X] [only-active=T]
//	err CLASS                      the heartbeat in flight; "leave ok", "leave err CLASS": the leave; "late ok …": the one in flight before
//	revoked|assigned [ERROR]       lost
//	described epoch=N [active=…]|notfound    undescribed CLASS      topics [missing=X] [mismatched=X] [err=X]
//	offsets T=OFFSET/END …         ? is unknown, an empty END absent
//	advance D                      time passes, with ticks at each deadline
type script struct {
	t   *testing.T
	m   *Member
	now time.Time
	out strings.Builder

	heartbeat, late, leave  uint64 // ids of the last actions
	lookup, describe, check uint64
	revoke, assign, lose    uint64
}

var epoch0 = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.HasPrefix(string(data), "# ") {
				t.Error("a script begins with a comment that tells the scenario")
			}
			got := runScript(t, string(data))
			if *rewrite {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if got != string(data) {
				t.Errorf("output differs from the file; run with -rewrite and read the difference:\n%s", firstDifference(string(data), got))
			}
		})
	}
}

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range w {
		if i >= len(g) || w[i] != g[i] {
			end := func(s []string) string { return strings.Join(s[min(i, len(s)):min(i+6, len(s))], "\n\t") }
			return fmt.Sprintf("line %d\nwant\n\t%s\ngot\n\t%s", i+1, end(w), end(g))
		}
	}
	return "more output than wanted"
}

// runScript returns the text of a script with the outputs it gives now.
func runScript(t *testing.T, text string) string {
	s := &script{t: t, now: epoch0}
	var out strings.Builder
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	for i := 0; i < len(lines); i++ {
		line := lines[i]
		out.WriteString(line + "\n")
		switch {
		case line == "----":
			out.WriteString(s.flush() + "\n")
			for i+1 < len(lines) && lines[i+1] != "" { // the old output
				i++
			}
			i++ // the empty line
		case line == "" || strings.HasPrefix(line, "#"):
		default:
			s.input(line)
		}
	}
	return strings.TrimRight(out.String(), "\n") + "\n"
}

func (s *script) flush() string {
	out := s.out.String()
	s.out.Reset()
	if s.m == nil {
		return out
	}
	snap := s.m.Snapshot()
	out += fmt.Sprintf("%v epoch=%d", snap.State, snap.Epoch)
	if d := s.m.Deadline(); !d.IsZero() {
		out += fmt.Sprintf(", next in %v", d.Sub(s.now))
	}
	if snap.Waiting != "" {
		out += ", waiting for " + snap.Waiting
	}
	if snap.Suspect {
		out += ", suspect"
	}
	return out + "\n"
}

type args map[string]string

func (a args) has(key string) bool { _, ok := a[key]; return ok }

func parseArgs(words []string) args {
	a := make(args)
	for _, w := range words {
		k, v, _ := strings.Cut(w, "=")
		a[k] = v
	}
	return a
}

func (s *script) input(line string) {
	words := strings.Fields(line)
	cmd, words := words[0], words[1:]
	a := parseArgs(words)
	switch cmd {
	case "new":
		s.create(a)
	case "join":
		s.step(Join{})
	case "tick":
		s.step(Tick{})
	case "polled":
		s.step(Polled{})
	case "migrated":
		s.step(Migrated{})
	case "shutdown":
		s.step(Shutdown{})
	case "found":
		version := 1
		if a.has("version") {
			version = s.int(a["version"])
		}
		s.step(CoordinatorFound{s.lookup, int16(version)})
	case "nocoordinator":
		s.step(CoordinatorFailed{s.lookup, s.class(words[0]), errors.New("no coordinator")})
	case "ok":
		s.step(HeartbeatOK{s.heartbeat, s.response(a)})
	case "err":
		s.step(HeartbeatFailed{s.heartbeat, s.class(words[0]), errors.New("broker says " + words[0])})
	case "late":
		if words[0] == "ok" {
			s.step(HeartbeatOK{s.late, s.response(parseArgs(words[1:]))})
		} else {
			s.step(HeartbeatFailed{s.late, s.class(words[1]), errors.New("broker says " + words[1])})
		}
	case "leave":
		switch {
		case len(words) > 0 && words[0] == "ok":
			s.step(HeartbeatOK{s.leave, Response{Epoch: -1}})
		case len(words) > 0 && words[0] == "err":
			s.step(HeartbeatFailed{s.leave, s.class(words[1]), errors.New("broker says " + words[1])})
		default:
			l := Leave{Closed: a.has("closed")}
			if a.has("leave") {
				l.Mode = LeaveGroup
			}
			if a.has("remain") {
				l.Mode = RemainInGroup
			}
			s.step(l)
		}
	case "revoked":
		s.step(Revoked{s.revoke, s.err(words)})
	case "assigned":
		s.step(Assigned{s.assign, s.err(words)})
	case "lost":
		s.step(LostDone{s.lose})
	case "described":
		e := Described{ID: s.describe, Found: !a.has("notfound"), Tasks: Assignment{s.tasks(a["active"]), s.tasks(a["standby"]), s.tasks(a["warmup"])}}
		e.Epoch = int32(s.int(a["epoch"]))
		s.step(e)
	case "undescribed":
		s.step(DescribeFailed{s.describe, s.class(words[0]), errors.New("broker says " + words[0])})
	case "topics":
		e := TopicsChecked{ID: s.check, Missing: a["missing"], Mismatched: a["mismatched"]}
		if a.has("err") {
			e.Err = errors.New(a["err"])
		}
		s.step(e)
	case "offsets":
		e := Offsets{make(map[topology.TaskID]int64), make(map[topology.TaskID]int64)}
		for task, value := range a {
			offset, end, _ := strings.Cut(value, "/")
			e.Offsets[s.tasks(task)[0]] = s.offset(offset)
			if end != "" {
				e.Ends[s.tasks(task)[0]] = s.offset(end)
			}
		}
		s.step(e)
	case "advance":
		d, err := time.ParseDuration(words[0])
		if err != nil {
			s.t.Fatal(err)
		}
		s.advance(d)
	default:
		s.t.Fatalf("unknown input %q", line)
	}
}

func (s *script) create(a args) {
	cfg := Config{Group: "g", MemberID: "m", ProcessID: "p", Topology: testTopology()}
	cfg.InstanceID, cfg.Rack = a["instance"], a["rack"]
	if host, port, ok := strings.Cut(a["endpoint"], ":"); ok {
		cfg.Endpoint = &Endpoint{host, uint16(s.int(port))}
	}
	if key, value, ok := strings.Cut(a["tags"], ":"); ok {
		cfg.Tags = []Tag{{key, value}}
	}
	duration := func(key string, to *time.Duration) {
		if a.has(key) {
			d, err := time.ParseDuration(a[key])
			if err != nil {
				s.t.Fatal(err)
			}
			*to = d
		}
	}
	duration("poll", &cfg.PollInterval)
	duration("internal-timeout", &cfg.InternalTopicTimeout)
	cfg.KeepOnTopicDenied = a.has("keep-on-topic-denied")
	if a.has("new-ids") {
		n := 0
		cfg.NewMemberID = func() string { n++; return fmt.Sprintf("m%d", n) }
	}
	if err := cfg.Validate(); err != nil {
		s.t.Fatal(err)
	}
	s.m = New(cfg)
}

func testTopology() topology.Metadata {
	return topology.Metadata{Subtopologies: []topology.SubtopologyMetadata{
		{ID: 0, SourceTopics: []string{"a"}}, {ID: 1, SourceTopics: []string{"b"}},
	}}
}

func (s *script) response(a args) Response {
	_, epoch := s.m.Identity()
	r := Response{Epoch: epoch, Interval: 5 * time.Second, OffsetInterval: time.Minute, RecoveryLag: 10000, Statuses: []Status{}}
	if a.has("epoch") {
		r.Epoch = int32(s.int(a["epoch"]))
	}
	for key, to := range map[string]*time.Duration{"interval": &r.Interval, "offset-interval": &r.OffsetInterval} {
		if a.has(key) {
			d, err := time.ParseDuration(a[key])
			if err != nil {
				s.t.Fatal(err)
			}
			*to = d
		}
	}
	if a.has("lag") {
		r.RecoveryLag = int64(s.int(a["lag"]))
	}
	if a.has("active") || a.has("standby") || a.has("warmup") || a.has("foreign") {
		r.Active, r.Standby, r.Warmup = s.tasks(a["active"]), s.tasks(a["standby"]), s.tasks(a["warmup"])
	}
	if a.has("only-active") {
		r.Active = s.tasks(a["only-active"])
	}
	if a.has("foreign") {
		r.Foreign = []string{a["foreign"]}
	}
	if a["status"] == "null" {
		r.Statuses = nil
	} else if a["status"] != "" {
		for _, status := range strings.Split(a["status"], ",") {
			code, detail, _ := strings.Cut(status, ":")
			r.Statuses = append(r.Statuses, Status{StatusCode(s.int(code)), detail})
		}
	}
	if a.has("endpoint-epoch") {
		r.EndpointEpoch = int32(s.int(a["endpoint-epoch"]))
	}
	if a.has("hosts") {
		r.Endpoints = []HostPartitions{}
		for _, entry := range strings.Split(a["hosts"], ",") {
			if entry == "" {
				continue
			}
			parts := strings.Split(entry, "/")
			host, port, _ := strings.Cut(parts[0], ":")
			h := HostPartitions{Endpoint: Endpoint{host, uint16(s.int(port))}}
			for i, p := range parts[1:] {
				topic, n, _ := strings.Cut(p, "-")
				tp := []TopicPartitions{{topic, []int32{int32(s.int(n))}}}
				if i == 0 {
					h.Active = tp
				} else {
					h.Standby = append(h.Standby, tp...)
				}
			}
			r.Endpoints = append(r.Endpoints, h)
		}
	}
	return r
}

func (s *script) int(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *script) offset(text string) int64 {
	if text == "?" {
		return UnknownOffset
	}
	return int64(s.int(text))
}

func (s *script) tasks(text string) []topology.TaskID {
	tasks := []topology.TaskID{}
	for _, name := range strings.Split(text, ",") {
		if name == "" {
			continue
		}
		id, err := topology.ParseTaskID(name)
		if err != nil {
			s.t.Fatal(err)
		}
		tasks = append(tasks, id)
	}
	return tasks
}

func (s *script) class(name string) Class {
	for c, n := range classNames {
		if n == name {
			return Class(c)
		}
	}
	s.t.Fatalf("no class %q", name)
	return 0
}

func (s *script) err(words []string) error {
	switch {
	case len(words) == 0:
		return nil
	case words[0] == "migrated":
		return ErrMigrated
	}
	return errors.New(strings.Join(words, " "))
}

func (s *script) advance(d time.Duration) {
	end := s.now.Add(d)
	for {
		next := s.m.Deadline()
		if next.IsZero() || next.After(end) {
			break
		}
		start := s.now
		s.now = maxTime(s.now, next)
		for _, a := range s.m.Step(s.now, Tick{}) {
			fmt.Fprintf(&s.out, "+%v ", d-end.Sub(s.now))
			s.print(a)
		}
		if again := s.m.Deadline(); again.Equal(next) && !start.Before(s.now) {
			s.t.Fatalf("a tick at the deadline %v changed nothing", next)
		}
	}
	s.now = end
}

func (s *script) step(e Event) {
	for _, a := range s.m.Step(s.now, e) {
		s.print(a)
	}
}

func (s *script) print(a Action) {
	switch a := a.(type) {
	case FindCoordinator:
		s.lookup = a.ID
		s.out.WriteString("FindCoordinator\n")
	case SendHeartbeat:
		if a.Request.Epoch < 0 && s.m.inflight.id != a.ID {
			s.leave = a.ID
		} else {
			s.late, s.heartbeat = s.heartbeat, a.ID
		}
		s.out.WriteString("SendHeartbeat ")
		if a.Request.MemberID != "m" {
			fmt.Fprintf(&s.out, "member=%s ", a.Request.MemberID)
		}
		fmt.Fprintf(&s.out, "%v timeout=%v\n", a.Request, a.Timeout)
	case Describe:
		s.describe = a.ID
		s.out.WriteString("Describe\n")
	case CheckTopics:
		s.check = a.ID
		s.out.WriteString("CheckTopics\n")
	case Revoke:
		s.revoke = a.ID
		fmt.Fprintf(&s.out, "Revoke %s\n", join(a.Tasks))
	case Assign:
		s.assign = a.ID
		fmt.Fprintf(&s.out, "Assign %v ready=%v\n", a.Tasks, a.Ready)
	case Lose:
		s.lose = a.ID
		s.out.WriteString("Lose\n")
	case UpdateEndpoints:
		fmt.Fprintf(&s.out, "UpdateEndpoints %v\n", a.Hosts)
	case StopApplication:
		fmt.Fprintf(&s.out, "StopApplication %q\n", a.Detail)
	case Report:
		fmt.Fprintf(&s.out, "Report %q stop=%v\n", a.Err, a.Stop)
	case Note:
		fmt.Fprintf(&s.out, "Note %q: %s\n", a.Message, a.Detail)
	case Left:
		s.out.WriteString("Left\n")
	case Fail:
		fmt.Fprintf(&s.out, "Fail %q\n", a.Err)
	default:
		s.t.Fatalf("unknown action %T", a)
	}
}
