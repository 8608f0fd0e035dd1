//go:build mutants

package oracle_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/millrace/millrace/integration/kafka"
	"github.com/millrace/millrace/integration/oracle"
)

// mutant is a rule of windows, joins, tables or suppression made wrong on purpose. In its text ON stands for "this mutant is at work", and BY(n) for n if it
// is and 0 if not, so that one build serves all.
type mutant struct{ rule, file, was, is string }

const (
	window   = "streams/node_window.go"
	sliding  = "streams/node_sliding.go"
	session  = "streams/node_session.go"
	twoOfOne = "streams/node_stream_join.go"
	tables   = "streams/node_join.go"
	rows     = "streams/node_table.go"
	groups   = "streams/node_group.go"
	foreign  = "streams/node_foreign.go"
	held     = "streams/node_suppress.go"
	globals  = "streams/global.go"
	history  = "state/versioned.go"
)

var mutants = []mutant{
	{"a window takes records until its end and grace have passed", window, `if end <= n.observed-n.w.Grace {`, `if end <= n.observed-n.w.Grace+BY(1) {`},
	{"a window closes when its end and grace have passed", window, `closed := n.observed - n.w.Grace`, `closed := n.observed - n.w.Grace + BY(1)`},
	{"a window contains its start", window, `start <= r.ts; start += n.w.Advance {`, `start <= r.ts-BY(1); start += n.w.Advance {`},
	{"a window does not contain its end", window, `return max(0, ts-w.Size+w.Advance) / w.Advance * w.Advance`, `return max(0, ts-w.Size+w.Advance-BY(1)) / w.Advance * w.Advance`},
	{"an unlimited window contains its start", window, `if r.ts >= n.w.Start {`, `if r.ts >= n.w.Start+BY(1) {`},
	{"all windows that have closed are given", window, `closed-n.w.Size // of starts`, `closed-n.w.Size-BY(1) // of starts`},
	{"closed windows are given once", window, `return max(0, n.onClose.last-n.w.Size) + 1`, `return max(0, n.onClose.last-n.w.Size-BY(50)) + 1`},
	{"closed windows are looked for once a second", window, `c.next = now + emitInterval`, `c.next = now + emitInterval - BY(900)`},
	{"a row in memory lives a millisecond less", window, `live++`, `live += 1 - BY(1)`},
	{"a final result has the time of its row", window, `w.End(start)), ts: ts, headers: headers}`, `w.End(start)), ts: ts + BY(1), headers: headers}`},
	{"a late record is in no sliding window", sliding, `if end := r.ts + n.w.Size; end < n.observed-n.w.Grace {`, `if end := r.ts + n.w.Size; end < n.observed-n.w.Grace+BY(1) {`},
	{"a closed sliding window does not change", sliding, "	if end < n.observed-n.w.Grace {", "	if end < n.observed-n.w.Grace+BY(1) {"},
	{"a sliding window is made once", sliding, `it := n.fetch(r.ts-2*n.w.Size, r.ts+1, true)`, `it := n.fetch(r.ts-2*n.w.Size, r.ts+1-BY(1), true)`},
	{"the left window of a record has what is no older than its start", sliding, `if around.before >= start {`, `if around.before >= start+BY(1) {`},
	{"the right window of a record needs a later one", sliding, `if !content.ok || content.ts <= r.ts {`, `if !content.ok || content.ts <= r.ts+BY(1) {`},
	{"a record makes the right window of the one before it", sliding, `around.before >= 0 && after+n.w.Size >= r.ts &&`, `around.before >= 0 && after+n.w.Size >= r.ts+BY(1) &&`},
	{"a sliding window contains its end", sliding, `closed-n.w.Size-1 // of starts`, `closed-n.w.Size-1+BY(1) // of starts`},
	{"sessions a gap apart are one", session, `it := find(n.key, r.ts-n.w.Gap, r.ts+n.w.Gap, false)`, `it := find(n.key, r.ts-n.w.Gap+BY(1), r.ts+n.w.Gap, false)`},
	{"a session takes records until gap and grace have passed", session, `if whole.end < closed {`, `if whole.end < closed+BY(1) {`},
	{"a session spans what it was made of", session, `max(whole.end, s.end)}`, `max(whole.end, s.end-BY(1))}`},
	{"sessions are merged oldest first", session, `sum.value = n.merge(r.key, sum.value, part)`, `if ON { sum.value = n.merge(r.key, part, sum.value) } else { sum.value = n.merge(r.key, sum.value, part) }`},
	{"a session that was taken over is withdrawn", session, `			n.give(r.key, s, c)`, `			if !ON { n.give(r.key, s, c) }`},
	{"a session closes one millisecond after its end", session, `closed-1 // of ends`, `closed-1+BY(1) // of ends`},
	{"sessions in memory expire before they are given", session, `n.table.store.Retention.Milliseconds()+1)`, `n.table.store.Retention.Milliseconds()+1-BY(1<<40))`},
	{"the time of a session is its end", session, `value: c, ts: s.end})`, `value: c, ts: s.end - BY(1)})`},

	{"records that come before are in the window of a join", twoOfOne, `from, to := max(0, r.ts-n.w.Before), max(0, r.ts+n.w.After)`, `from, to := max(0, r.ts-n.w.Before+BY(1)), max(0, r.ts+n.w.After)`},
	{"the window of the other side is the mirror of this one", "streams/stream_join.go", `Before: w.After, After: w.Before, Grace: w.Grace}`, `Before: w.After, After: w.Before + BY(1), Grace: w.Grace}`},
	{"a pair has the later time of both", twoOfOne, `n.give(r, n.f(r.key, r.value, true, w, true), max(r.ts, start))`, `n.give(r, n.f(r.key, r.value, true, w, true), max(r.ts, start-BY(1<<40)))`},
	{"a record with a partner does not go alone", twoOfOne, `if matched || !n.outer {`, `if matched && !ON || !n.outer {`},
	{"a late record without a partner goes alone at once", twoOfOne, `if to < n.side.tracker.now {`, `if to < n.side.tracker.now-BY(1<<40) {`},
	{"a left record waits until its window has closed", twoOfOne, `if left && ts+w.After+grace >= p.tracker.now {`, `if left && ts+w.After+grace-BY(1) >= p.tracker.now {`},
	{"a right record waits until its window has closed", twoOfOne, `if !left && ts+w.Before+grace >= p.tracker.now {`, `if !left && ts+w.Before+grace-BY(1) >= p.tracker.now {`},
	{"a partner ends the wait of the other side", twoOfOne, `p.remove(p.keyOf(key, otherTS, rightByte), now) },`, `if !ON { p.remove(p.keyOf(key, otherTS, rightByte), now) } },`},
	{"a record with a null key goes alone", twoOfOne, `if n.outer && r.nullKey && !r.nullValue {`, `if n.outer && r.nullKey && !r.nullValue && !ON {`},
	{"records without a partner are looked for once a second", twoOfOne, `t.nextLook = n.t.ctx.Now() + emitInterval`, `t.nextLook = n.t.ctx.Now() + emitInterval - BY(900)`},
	{"a late record of a self-join does not meet itself", twoOfOne, `meetsItself := r.ts > n.now-(n.w.Size()+n.w.Grace)+1`, `meetsItself := r.ts > n.now-(n.w.Size()+n.w.Grace)+1-BY(1<<40)`},
	{"a record of a self-join meets itself before later ones", twoOfOne, `if start > r.ts && meetsItself {`, `if start > r.ts+BY(1<<40) && meetsItself {`},

	{"an inner join with a table needs a row", rows, "	if !row.ok && !n.left {", "	if !row.ok && !n.left && !ON {"},
	{"a left join with a table takes null keys", rows, `if r.nullValue || r.nullKey && !n.left {`, `if r.nullValue || r.nullKey && (!n.left || ON) {`},
	{"a versioned table is read as of the record's time", rows, `row = n.asOf(r.key, r.ts)`, `row = n.asOf(r.key, r.ts+BY(1<<40))`},
	{"an inner join with a global table needs a row", globals, "	if !row.ok && !n.left {", "	if !row.ok && !n.left && !ON {"},

	{"a joined row has the later time of both", tables, `ts: max(r.ts, w.ts), headers: r.headers}`, `ts: max(r.ts, w.ts-BY(1<<40)), headers: r.headers}`},
	{"a joined row needs both sides", tables, `if !w.ok && (n.needsOther || r.value.newNull`, `if !w.ok && (n.needsOther && !ON || r.value.newNull`},
	{"without this side there is a row in an outer join only", tables, `if !vok && (n.needsThis || !w.ok) {`, `if !vok && (n.needsThis && !ON || !w.ok) {`},
	{"only the latest version of a row is joined", tables, `if n.versioned && r.value.stale {`, `if n.versioned && r.value.stale && !ON {`},
	{"a join knows its old row", tables, `out.value.old, out.value.hasOld = n.join(r.key, r.value.old, r.value.hasOld, w)`, `out.value.old, out.value.hasOld = n.join(r.key, r.value.old, r.value.hasOld && !ON, w)`},

	{"a change of the foreign key ends the old subscription", foreign, `changed := hadKey && (!hasKey || !n.same(oldKey, newKey))`, `changed := hadKey && (!hasKey || !n.same(oldKey, newKey)) && !ON`},
	{"a row that goes takes its joined row along", foreign, `			send(oldKey, true, deleteAndAnswer)`, `			if !ON { send(oldKey, true, deleteAndAnswer) }`},
	{"an answer has the later time of both", foreign, `ts: max(r.ts, row.ts), headers: r.headers})`, `ts: max(r.ts, row.ts-BY(1<<40)), headers: r.headers})`},
	{"an answer to a former value is none", foreign, `if now != r.value.hash {`, `if now != r.value.hash && !ON {`},
	{"a left join by foreign key has rows without one", foreign, `if r.value.do != answerAlways {`, `if r.value.do != answerAlways || ON {`},

	{"a result has the later time of row and record", rows, `return c, max(r.ts, row.ts)`, `return c, max(r.ts, row.ts-BY(1<<40))`},
	{"nulls take no part in an aggregation", rows, `if r.nullKey || r.nullValue {`, `if r.nullKey || r.nullValue && !ON {`},
	{"a filter does not delete what it never sent", rows, `if c.newNull && !c.hasOld && !n.versioned {`, `if c.newNull && !c.hasOld && !n.versioned && !ON {`},
	{"a row that stays in its group is one change", groups, `if add && subtract && n.same(oldKey, newKey) {`, `if add && subtract && n.same(oldKey, newKey) && !ON {`},
	{"a row that leaves a group is subtracted", groups, `if r.value.hasOld && ok {`, `if r.value.hasOld && ok && !ON {`},
	{"history ends retention before the greatest time", history, `return max(0, s.observed-s.spec.Retention.Milliseconds())`, `return max(0, s.observed-s.spec.Retention.Milliseconds()+BY(1))`},

	{"a change is held for the time limit", held, `n.held.order[0].time <= n.observed-n.limit {`, `n.held.order[0].time <= n.observed-n.limit-BY(1) {`},
	{"a deletion of what was never given is none", held, `if row.New != nil || n.end == nil {`, `if row.New != nil || n.end == nil || ON {`},
	{"a row stays where its first change has put it", held, `row.Prior, row.Time = held.Prior, held.Time`, `row.Prior, row.Time = held.Prior, held.Time+BY(1)`},
	{"a full buffer lets the oldest through", held, `return int64(len(n.held.order)) > n.maxRecords ||`, `return int64(len(n.held.order)) > n.maxRecords+BY(1) ||`},
	{"rows of one time leave by key", held, `cmp.Compare(h[i].key, h[j].key)) < 0`, `cmp.Compare(h[i].key, h[j].key)*int(1-BY(2))) < 0`},
	{"a final result waits for the end of its window", held, `at = n.end(r.key)`, `at = n.end(r.key) - BY(1)`},
	{"lookups see the row from before it was held back", held, `if row.Prior != nil {`, `if row.Prior != nil && !ON {`},
}

// programs are those that are recorded: of all that give results when windows close, which are rare, and a part of the others.
func programs() (list []*oracle.Program) {
	for seed := uint64(1_000_000); len(list) < 3000; seed++ {
		p := oracle.Generate(seed)
		if seed%3 == 0 || slices.ContainsFunc(p.Ops, func(o oracle.Op) bool { return strings.HasSuffix(o.Op, ".emit") }) {
			list = append(list, p)
		}
	}
	return list
}

// Each rule that is made wrong is noticed by some program.
func TestMutants(t *testing.T) {
	if err := kafka.Available(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	recording := filepath.Join(dir, "recording")
	func() {
		java, err := oracle.StartJava(t.Context(), runtime.NumCPU())
		if err != nil {
			t.Fatal(err)
		}
		defer java.Close()
		f, err := os.Create(recording)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := oracle.WriteRecording(t.Context(), java, programs(), runtime.NumCPU(), f); err != nil {
			t.Fatal(err)
		}
	}()

	binary := filepath.Join(dir, "oracle")
	build := exec.CommandContext(t.Context(), "go", "build", "-overlay", overlay(t, dir), "-o", binary, "./cmd")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	try := func(number int) (text string, found bool) {
		cmd := exec.CommandContext(t.Context(), binary, "-against", recording, "-most", "1", "-threads", "1")
		cmd.Env = append(os.Environ(), "ORACLE_MUTANT="+strconv.Itoa(number))
		out, err := cmd.CombinedOutput()
		if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
			t.Error(err)
		}
		return string(out), err != nil
	}
	count := regexp.MustCompile(`(\d+) programs, 1 differences`)
	var wg sync.WaitGroup
	next := make(chan int)
	for range runtime.NumCPU() {
		wg.Go(func() {
			for i := range next {
				text, found := try(i)
				switch {
				case i == 0 && found:
					t.Errorf("without a mutant:\n%s", text)
				case i == 0:
				case !found:
					t.Errorf("nobody notices mutant %d, %s: %s\n%s", i, mutants[i-1].rule, mutants[i-1].file, text)
				default:
					after := "a crash"
					if m := count.FindStringSubmatch(text); m != nil {
						after = m[1] + " programs"
					}
					t.Logf("mutant %d, %s: %s", i, mutants[i-1].rule, after)
				}
			}
		})
	}
	for i := range len(mutants) + 1 {
		next <- i
	}
	close(next)
	wg.Wait()
}

// overlay writes the mutated files, and says in a file which they stand for. Every package gets the two functions that the mutants are written with.
func overlay(t *testing.T, dir string) string {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	texts, packages := map[string]string{}, map[string]bool{}
	for i, m := range mutants {
		path := filepath.Join(root, m.file)
		if texts[path] == "" {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			texts[path] = string(data)
		}
		if n := strings.Count(texts[path], m.was); n != 1 {
			t.Errorf("mutant %d, %s: %s has %d times\n%s", i+1, m.rule, m.file, n, m.was)
		}
		is := strings.NewReplacer("ON", fmt.Sprintf("mutantIs(%d)", i+1), "BY(", fmt.Sprintf("mutantBy(%d, ", i+1)).Replace(m.is)
		texts[path] = strings.Replace(texts[path], m.was, is, 1)
		packages[filepath.Dir(path)] = true
	}
	if t.Failed() {
		t.FailNow()
	}
	for pkg := range packages {
		texts[filepath.Join(pkg, "zz_mutant.go")] = "package " + filepath.Base(pkg) + `

import "os"

var mutant = os.Getenv("ORACLE_MUTANT")

func mutantIs(n int) bool {
	digits := ""
	for ; n > 0; n /= 10 {
		digits = string(rune('0'+n%10)) + digits
	}
	return mutant == digits
}

func mutantBy(n int, by int64) int64 {
	if mutantIs(n) {
		return by
	}
	return 0
}
`
	}
	replace := map[string]string{}
	for path, text := range texts {
		copied := filepath.Join(dir, fmt.Sprintf("%d.go", len(replace)))
		if err := os.WriteFile(copied, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[path] = copied
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
