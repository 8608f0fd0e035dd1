package streams_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/streamstest"
	"github.com/millrace/millrace/streams/window"
)

var seed = flag.Uint64("seed", 0, "of the random tests; 0 takes a new one")

// F-055: a stream joined with itself gives the same records in the same order from one store as from two. F-104.
func TestF055SelfJoinFromOneStore(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	t.Logf("-seed %d", *seed)
	random := rand.New(rand.NewPCG(*seed, 0))
	for range 10 {
		before, after, grace := random.IntN(8)-1, random.IntN(8)-1, 12+random.IntN(6) // nothing is too late
		if before+after < 0 {
			continue
		}
		w := window.Within(0).Before(time.Duration(before) * time.Millisecond).After(time.Duration(after) * time.Millisecond).Grace(time.Duration(grace) * time.Millisecond)
		type arrival struct {
			key, value string
			ts         time.Time
		}
		var input []arrival
		for i := range 60 {
			input = append(input, arrival{string(rune('a' + random.IntN(3))), fmt.Sprint(i), time.UnixMilli(int64(100 + i/2 + random.IntN(12)))})
		}
		run := func(kind int, opts ...streams.BuilderOption) (got []string) {
			b := streams.NewBuilder(opts...)
			s := b.Stream(leftTopic)
			switch kind {
			case 0:
				s.Join(s, both, w).To(outTopic)
			case 1:
				s.LeftJoin(b.Stream(leftTopic), leftOf, w).To(outTopic)
			default:
				k := s.SelectKey(func(_, v string) string { return v[len(v)-1:] })
				k.JoinWithKey(k, func(k, v, w string) string { return k + ":" + v + "+" + w }, w).To(outTopic)
			}
			topology, err := b.Build()
			if err != nil {
				t.Fatal(err)
			}
			d := streamstest.New(t, topology)
			in, out := d.Input(leftTopic), d.Output(outTopic)
			for _, a := range input {
				in.PipeAt(a.ts, a.key, a.value)
				for _, r := range out.ReadAll() {
					got = append(got, fmt.Sprintf("%s=%s@%d", r.Key, r.Value, r.Timestamp.UnixMilli()))
				}
			}
			return got
		}
		for kind := range 3 {
			two, one := run(kind), run(kind, streams.SingleStoreSelfJoin)
			// From two stores, a left join gives a late record alone before it meets itself.
			if before >= 0 && after >= 0 {
				two = slices.DeleteFunc(two, func(s string) bool { return strings.Contains(s, "-") })
			}
			if !slices.Equal(one, two) {
				t.Fatalf("kind %d, before %d, after %d, grace %d: one store\n%q\ntwo stores\n%q", kind, before, after, grace, one, two)
			}
		}
	}
}

// F-055: a record that is too late does not meet itself, and one at the very edge does not either, unlike in the join that has two stores; nor does one with
// a null key get through a left join.
func TestF055LateRecordsOfASelfJoin(t *testing.T) {
	b := streams.NewBuilder(streams.SingleStoreSelfJoin)
	s := b.Stream(leftTopic)
	s.LeftJoin(s, leftOf, window.Within(10*time.Millisecond)).To(outTopic)
	joinScript(t, b, `
		L a=1@200 -> a=1+1@200
		L b=2@180 ->
		L b=3@181 ->
		L b=4@182 -> b=4+3@182 b=3+4@182 b=4+4@182
		L a=5@195 -> a=5+1@200 a=5+5@195 a=1+5@200
		L =6@200 ->
		L a@200 ->`)
}
