package streamstest

import (
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/millrace/millrace/streams"
)

// Expect reads all records that are left and fails the test if they are not the given ones, in this order, showing both side by side. Time and headers
// are compared where an expected record has them. Expect() wants nothing to be left.
func (out *Output[K, V]) Expect(want ...streams.Record[K, V]) {
	out.d.t.Helper()
	if diff := Diff(want, out.ReadAll()); diff != "" {
		if err := out.d.Err(); err != nil {
			diff += fmt.Sprintf("the topology stopped: %v\n", err)
		}
		out.d.t.Errorf("streamstest: %s\n%s", out.topic, diff)
	}
}

// Diff shows expected and got records side by side, or returns "" if they are the same. A line that begins with "-" has a record that is missing, "+"
// one that is too much, and "!" one in the place of another. Time and headers are compared where an expected record has them.
//
//	  expected  got
//	  "a" 1     "a" 1
//	! "b" 2     "b" 3
//	-           "c" 1
func Diff[K, V any](want, got []streams.Record[K, V]) string {
	var show shown
	for _, r := range want {
		show.time = show.time || !r.Timestamp.IsZero()
		show.headers = show.headers || r.Headers != nil
	}
	steps := align(len(want), len(got), func(i, j int) bool { return same(want[i], got[j]) })
	type line struct{ sign, left, right string }
	lines := []line{{" ", "expected", "got"}}
	differs := false
	for _, s := range steps {
		l := line{sign: " "}
		if s.want >= 0 {
			l.left = text(want[s.want], show)
		}
		if s.got >= 0 {
			l.right = text(got[s.got], show)
		}
		switch {
		case s.got < 0:
			l.sign = "-"
		case s.want < 0:
			l.sign = "+"
		case !same(want[s.want], got[s.got]):
			l.sign = "!"
		}
		differs = differs || l.sign != " "
		lines = append(lines, l)
	}
	if !differs {
		return ""
	}
	width := 0
	for _, l := range lines {
		width = max(width, utf8.RuneCountInString(l.left))
	}
	var b strings.Builder
	for _, l := range lines {
		pad := strings.Repeat(" ", width-utf8.RuneCountInString(l.left))
		b.WriteString(strings.TrimRight(l.sign+" "+l.left+pad+"  "+l.right, " ") + "\n")
	}
	return b.String()
}

// shown says what of a record is worth a place in the text.
type shown struct{ time, headers bool }

func same[K, V any](want, got streams.Record[K, V]) bool {
	return want.NullKey == got.NullKey && want.NullValue == got.NullValue &&
		(want.NullKey || reflect.DeepEqual(want.Key, got.Key)) && (want.NullValue || reflect.DeepEqual(want.Value, got.Value)) &&
		(want.Timestamp.IsZero() || want.Timestamp.Equal(got.Timestamp)) && (want.Headers == nil || reflect.DeepEqual(want.Headers, got.Headers))
}

func text[K, V any](r streams.Record[K, V], show shown) string {
	s := valueText(r.Key, r.NullKey) + " " + valueText(r.Value, r.NullValue)
	if show.time && !r.Timestamp.IsZero() {
		s += " @" + r.Timestamp.UTC().Format(time.RFC3339Nano)
	}
	if show.headers {
		for _, h := range r.Headers {
			s += fmt.Sprintf(" %s=%q", h.Key, h.Value)
		}
	}
	return s
}

func valueText(v any, null bool) string {
	if null {
		return "null"
	}
	switch v := v.(type) {
	case string, []byte:
		return fmt.Sprintf("%q", v)
	case fmt.Stringer, error:
		return fmt.Sprint(v)
	}
	if p := reflect.ValueOf(v); p.Kind() == reflect.Pointer && !p.IsNil() {
		return "&" + valueText(p.Elem().Interface(), false)
	}
	return fmt.Sprintf("%+v", v)
}

// step is a line of a comparison: a place in each list, -1 for none.
type step struct{ want, got int }

// align puts two lists beside each other, so that as many as possible are the same. What differs between two that are stands opposite each other.
func align(n, m int, same func(i, j int) bool) (steps []step) {
	// common[i][j] is the length of the longest common part of want[i:] and got[j:].
	common := make([][]int, n+1)
	for i := range common {
		common[i] = make([]int, m+1)
	}
	for i := n - 1; i >= 0; i-- {
		for j := m - 1; j >= 0; j-- {
			if same(i, j) {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var missing, extra []int
	flush := func() {
		for k := range max(len(missing), len(extra)) {
			s := step{-1, -1}
			if k < len(missing) {
				s.want = missing[k]
			}
			if k < len(extra) {
				s.got = extra[k]
			}
			steps = append(steps, s)
		}
		missing, extra = nil, nil
	}
	i, j := 0, 0
	for i < n || j < m {
		switch {
		case i < n && j < m && same(i, j):
			flush()
			steps = append(steps, step{i, j})
			i, j = i+1, j+1
		case j == m || i < n && common[i+1][j] >= common[i][j+1]:
			missing = append(missing, i)
			i++
		default:
			extra = append(extra, j)
			j++
		}
	}
	flush()
	return steps
}
