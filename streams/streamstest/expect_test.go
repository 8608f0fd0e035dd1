package streamstest_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/streamstest"
)

type point struct{ X, Y int }

func TestDiff(t *testing.T) {
	type rec = streams.Record[string, any]
	at := func(ms int64) time.Time { return time.UnixMilli(ms) }
	text := "text"
	for _, c := range []struct {
		name      string
		want, got []rec
		diff      string
	}{
		{"nothing", nil, nil, ""},
		{"the same", []rec{{Key: "a", Value: 1}}, []rec{{Key: "a", Value: 1, Timestamp: at(5), Headers: streams.Headers{{Key: "h"}}}}, ""},
		{"another value", []rec{{Key: "a", Value: 1}}, []rec{{Key: "a", Value: 2}}, `
  expected  got
! "a" 1     "a" 2
`},
		{"null and zero", []rec{{Key: "a", Value: 0}, {Value: "x"}}, []rec{{Key: "a", NullValue: true}, {NullKey: true, Value: "x"}}, `
  expected  got
! "a" 0     "a" null
! "" "x"    null "x"
`},
		{"missing in the middle", []rec{{Key: "a"}, {Key: "b"}, {Key: "c"}}, []rec{{Key: "a"}, {Key: "c"}}, `
  expected   got
  "a" <nil>  "a" <nil>
- "b" <nil>
  "c" <nil>  "c" <nil>
`},
		{"too much at the end", []rec{{Key: "a", Value: "ä"}}, []rec{{Key: "a", Value: "ä"}, {Key: "b", Value: point{1, 2}}}, `
  expected  got
  "a" "ä"   "a" "ä"
+           "b" {X:1 Y:2}
`},
		{"swapped", []rec{{Key: "a", Value: 1}, {Key: "b", Value: 2}}, []rec{{Key: "b", Value: 2}, {Key: "a", Value: 1}}, `
  expected  got
- "a" 1
  "b" 2     "b" 2
+           "a" 1
`},
		{"time", []rec{{Key: "a", Value: 1, Timestamp: at(1)}, {Key: "b", Value: 2}}, []rec{{Key: "a", Value: 1, Timestamp: at(2)}, {Key: "b", Value: 2, Timestamp: at(3)}}, `
  expected                         got
! "a" 1 @1970-01-01T00:00:00.001Z  "a" 1 @1970-01-01T00:00:00.002Z
  "b" 2                            "b" 2 @1970-01-01T00:00:00.003Z
`},
		{"headers", []rec{{Key: "a", Value: 1, Headers: streams.Headers{}}}, []rec{{Key: "a", Value: 1, Headers: streams.Headers{{Key: "h", Value: []byte("x")}}}}, `
  expected  got
! "a" 1     "a" 1 h="x"
`},
		{"pointers, bytes and errors", []rec{{Value: &text}, {Value: []byte("b")}}, []rec{{Value: &text}, {Value: errors.New("e")}}, `
  expected    got
  "" &"text"  "" &"text"
! "" "b"      "" e
`},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			if got := streamstest.Diff(c.want, c.got); got != strings.TrimPrefix(c.diff, "\n") {
				t.Errorf("got\n%s\nwant%s", got, c.diff)
			}
		})
	}
}

func TestExpect(t *testing.T) {
	topology := passing(t)
	fails(t, func(tb testing.TB) {
		d := streamstest.New(tb, topology)
		in, out := d.Input(lines), d.Output(result)
		in.Pipe("a", "1")
		out.Expect(in.Record("a", "1"))
		out.Expect()
		in.Pipe("a", "2")
		out.Expect()                    // what is too much is read by this
		out.Expect(in.Record("a", "3")) // and this misses one
	}, "result\n  expected  got\n+           \"a\" \"2\"\n", "result\n  expected  got\n- \"a\" \"3\"\n")
}
