package statetest

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/millrace/millrace/state"
	"github.com/millrace/millrace/topology"
)

// model is what a store should hold, by changelog key, and what those who are told of updates should know.
type model struct {
	rows     map[string]row
	observed int64
}

func (m model) clone() model { return model{maps.Clone(m.rows), m.observed} }

// world is a store beside its model.
type world struct {
	t    *testing.T
	rng  *rand.Rand
	f    Factory
	spec topology.Store
	s    *state.Stores

	now, committed     model
	changelog, logged  map[string]string // folded: as told, as of the last commit
	late, dropped      int               // puts that came too late: those the changelog was told of, and all
	downstream, passed map[string]string
	offset             int64
	clock              int64
}

var modelKeys = []string{"", "a", "aa", "a\x00", "a\x00\x00\x00\x00\x00\x00\x00\x01", "a\xff", "\xff\xff", "b", "\x00", "\x00\x01", "key-1", "key-2", "key-10"}

func testModel(t *testing.T, f Factory, spec topology.Store) {
	w := &world{t: t, rng: random(t), f: f, spec: spec, clock: 1000}
	w.now = model{map[string]row{}, -1}
	w.committed = w.now.clone()
	w.changelog, w.logged, w.downstream, w.passed = map[string]string{}, map[string]string{}, map[string]string{}, map[string]string{}
	w.open()
	n := 1000
	if testing.Short() {
		n = 300
	}
	for range n {
		switch p := w.rng.IntN(1000); {
		case p < 500:
			w.put()
		case p < 700:
			w.get()
		case p < 920:
			if w.spec.TimeIndex && w.rng.IntN(2) == 0 {
				w.walk()
			} else {
				w.scan()
			}
		case p < 950:
			must(t, w.s.Flush())
			w.checkTold()
		case p < 980:
			w.commit()
		case p < 990:
			w.discard()
		case p < 995:
			w.snapshot()
		default:
			w.reopen()
		}
	}
	w.commit()
	w.snapshot()
	w.reopen()
}

func (w *world) open() {
	w.s = open(w.t, w.f, w.spec)
	st := get[state.Store](w.t)(w.s.Store("s"))
	st.SetChangelog(func(key, value []byte, ts int64, _ []state.Header) error {
		if w.tooLate(key) {
			w.late++ // told, and not in the store
		} else {
			fold(w.changelog, string(key), value)
		}
		return nil
	})
	if w.spec.Caching {
		st.SetFlushListener(func(u *state.Update) error {
			key := w.changelogKey(string(u.Key), u.Start, u.End)
			if old, ok := w.downstream[key]; (ok && !w.expired(key)) != (u.Old != nil) || (u.Old != nil && old != string(u.Old)) {
				if !w.expired(key) {
					w.t.Fatalf("update of %x has old value %q, last told was %q (%v)", key, u.Old, old, ok)
				}
			}
			fold(w.downstream, key, u.New)
			return nil
		}, true)
	}
}

func fold(m map[string]string, key string, value []byte) {
	if value == nil {
		delete(m, key)
	} else {
		m[key] = string(value)
	}
}

func (w *world) changelogKey(key string, start, end int64) string {
	switch w.spec.Kind {
	case topology.WindowStore:
		return string(state.AppendWindowKey(nil, []byte(key), start, 0))
	case topology.SessionStore:
		return string(state.AppendSessionKey(nil, []byte(key), start, end))
	}
	return key
}

// time returns by what a row expires.
func (w *world) time(r row) int64 {
	if w.spec.Kind == topology.SessionStore {
		return r.end
	}
	return r.start
}

func (w *world) earliest() int64 {
	if w.spec.Kind == topology.KeyValueStore {
		return math.MinInt64
	}
	return w.now.observed - w.spec.Retention.Milliseconds() + 1
}

// earliestPut is the earliest time that can be put.
func (w *world) earliestPut() int64 {
	if w.spec.Kind == topology.SessionStore && (w.spec.Caching || w.spec.TimeIndex) {
		return w.earliest() - 1
	}
	return w.earliest()
}

func (w *world) expired(changelogKey string) bool {
	r, ok := w.now.rows[changelogKey]
	return ok && w.time(r) < w.earliest()
}

// tooLate reports whether the row of a changelog key is expired when the changelog is told of it, which without a cache is at once.
func (w *world) tooLate(key []byte) bool {
	return !w.spec.Caching && w.timeOfKey(key) < w.earliestPut()
}

// timeOfKey returns by what the row of a changelog key expires.
func (w *world) timeOfKey(key []byte) (at int64) {
	switch w.spec.Kind {
	case topology.WindowStore:
		_, at, _, _ = state.SplitWindowKey(key)
	case topology.SessionStore:
		_, _, at, _ = state.SplitSessionKey(key)
	}
	return at
}

func (w *world) put() {
	key := modelKeys[w.rng.IntN(len(modelKeys))]
	if w.rng.IntN(3) == 0 {
		key = fmt.Sprintf("k%d", w.rng.IntN(200))
	}
	w.clock += int64(w.rng.IntN(3000))
	r := row{key: key, ts: w.clock}
	var value []byte
	if w.rng.IntN(4) != 0 {
		value = append([]byte{}, fmt.Sprint(w.rng.IntN(1000))[:w.rng.IntN(2)]...)
		value = append(value, byte(w.rng.IntN(256)))
		value = value[w.rng.IntN(2):]
	}
	r.value = string(value)
	var err error
	switch w.spec.Kind {
	case topology.KeyValueStore:
		kv := get[*state.KeyValue](w.t)(w.s.KeyValue("s"))
		err = kv.Put([]byte(key), value, r.ts, nil)
	case topology.WindowStore:
		r.start = max(0, w.clock-int64(w.rng.IntN(400))*1000) / 10_000 * 10_000
		ws := get[*state.Window](w.t)(w.s.Window("s"))
		err = ws.Put([]byte(key), value, r.start, r.ts, nil)
	case topology.SessionStore:
		r.end = max(0, w.clock-int64(w.rng.IntN(400))*1000) / 10_000 * 10_000
		r.start = max(0, r.end-int64(w.rng.IntN(3))*10_000)
		ss := get[*state.Session](w.t)(w.s.Session("s"))
		err = ss.Put([]byte(key), value, r.start, r.end, r.ts, nil)
	}
	must(w.t, err)
	if w.spec.Kind != topology.KeyValueStore {
		w.now.observed = max(w.now.observed, w.time(r))
		removal := w.spec.Kind == topology.SessionStore && w.spec.Caching && value == nil
		if w.time(r) < w.earliestPut() && !removal {
			if !w.spec.Caching {
				w.dropped++
			}
			return
		}
	}
	if !w.spec.Timestamped {
		r.ts = -1
	}
	ck := w.changelogKey(key, r.start, r.end)
	if value == nil {
		delete(w.now.rows, ck)
	} else {
		w.now.rows[ck] = r
	}
}

// visible returns the model's rows that reads show, by key and time.
func (w *world) visible(m model, keep func(r row) bool) []row {
	return w.sorted(m, func(r row) bool { return w.time(r) >= w.earliest() && keep(r) })
}

// held returns the rows whose segment has not expired.
func (w *world) held(keep func(r row) bool) []row {
	return w.sorted(w.now, func(r row) bool {
		return w.segment(w.time(r)) >= w.segment(w.now.observed-w.spec.Retention.Milliseconds()) && keep(r)
	})
}

// segment is the number of a time's segment.
func (w *world) segment(t int64) int64 {
	return max(t, 0) / max(w.spec.Retention.Milliseconds()/2, 60_000)
}

func (w *world) sorted(m model, keep func(r row) bool) []row {
	var rows []row
	for _, r := range m.rows {
		if keep(r) {
			rows = append(rows, r)
		}
	}
	slices.SortFunc(rows, func(a, b row) int {
		if c := bytes.Compare([]byte(a.key), []byte(b.key)); c != 0 {
			return c
		}
		return bytes.Compare([]byte(w.changelogKey("", a.start, a.end)), []byte(w.changelogKey("", b.start, b.end)))
	})
	return rows
}

func (w *world) anyRow() row {
	if len(w.now.rows) == 0 || w.rng.IntN(5) == 0 {
		return row{key: modelKeys[w.rng.IntN(len(modelKeys))], start: w.clock / 10_000 * 10_000, end: w.clock / 10_000 * 10_000}
	}
	keys := slices.Sorted(maps.Keys(w.now.rows))
	return w.now.rows[keys[w.rng.IntN(len(keys))]]
}

func (w *world) get() {
	r := w.anyRow()
	want, there := w.now.rows[w.changelogKey(r.key, r.start, r.end)]
	there = there && w.time(want) >= w.earliest()
	var value []byte
	var ts int64
	var ok bool
	var err error
	switch w.spec.Kind {
	case topology.KeyValueStore:
		value, ts, ok, err = get[*state.KeyValue](w.t)(w.s.KeyValue("s")).Get([]byte(r.key))
	case topology.WindowStore:
		value, ts, ok, err = get[*state.Window](w.t)(w.s.Window("s")).Get([]byte(r.key), r.start)
	case topology.SessionStore:
		value, ok, err = get[*state.Session](w.t)(w.s.Session("s")).Get([]byte(r.key), r.start, r.end)
		ts = -1
	}
	must(w.t, err)
	if ok != there || (ok && (string(value) != want.value || (w.spec.Timestamped && ts != want.ts) || value == nil)) {
		w.t.Fatalf("get %v: got %q at %d, %v; want %v, %v", r, value, ts, ok, want, there)
	}
}

func (w *world) scan() {
	a, b := w.anyRow(), w.anyRow()
	lo, hi := a.key, b.key
	reverse := w.rng.IntN(2) == 0
	orient := func(rows []row) []row {
		if reverse {
			return reversed(rows)
		}
		return rows
	}
	within := func(r row) bool { return r.key >= lo && r.key <= hi }
	switch w.spec.Kind {
	case topology.KeyValueStore:
		kv := get[*state.KeyValue](w.t)(w.s.KeyValue("s"))
		equal(w.t, "range", collect(w.t, kv.Range([]byte(lo), []byte(hi), reverse)), orient(w.visible(w.now, within)))
		equal(w.t, "open start", collect(w.t, kv.Range(nil, []byte(hi), reverse)), orient(w.visible(w.now, func(r row) bool { return r.key <= hi })))
		prefix := []byte(lo)[:w.rng.IntN(len(lo)+1)]
		equal(w.t, "prefix", collect(w.t, kv.Prefix(prefix, reverse)), orient(w.visible(w.now, func(r row) bool { return bytes.HasPrefix([]byte(r.key), prefix) })))
		equal(w.t, "all", collect(w.t, kv.All(reverse)), orient(w.visible(w.now, func(row) bool { return true })))
		n, err := kv.ApproximateLen()
		must(w.t, err)
		if n != int64(len(w.now.rows)) {
			w.t.Fatalf("length %d, want %d", n, len(w.now.rows))
		}
	case topology.WindowStore:
		ws := get[*state.Window](w.t)(w.s.Window("s"))
		from, to := a.start-int64(w.rng.IntN(100))*1000, b.start+int64(w.rng.IntN(100))*1000
		timed := func(r row) bool { return r.start >= from && r.start <= to }
		equal(w.t, "fetch", collect(w.t, ws.Fetch([]byte(lo), from, to, reverse)), orient(w.visible(w.now, func(r row) bool { return r.key == lo && timed(r) })))
		equal(w.t, "fetch held", collect(w.t, ws.FetchHeld([]byte(lo), from, to, reverse)), orient(w.held(func(r row) bool { return r.key == lo && timed(r) })))
		sameRows(w, "fetch range", collect(w.t, ws.FetchRange([]byte(lo), []byte(hi), from, to, reverse)), reverse, w.visible(w.now, func(r row) bool { return within(r) && timed(r) }))
		sameRows(w, "all", collect(w.t, ws.All(reverse)), reverse, w.visible(w.now, func(row) bool { return true }))
	case topology.SessionStore:
		ss := get[*state.Session](w.t)(w.s.Session("s"))
		earliest, latest := a.end, b.start
		timed := func(r row) bool { return r.end >= earliest && r.start <= latest }
		equal(w.t, "find", collect(w.t, ss.Find([]byte(lo), earliest, latest, reverse)), orient(w.visible(w.now, func(r row) bool { return r.key == lo && timed(r) })))
		equal(w.t, "find held", collect(w.t, ss.FindHeld([]byte(lo), earliest, latest, reverse)), orient(w.held(func(r row) bool { return r.key == lo && timed(r) })))
		equal(w.t, "fetch", collect(w.t, ss.Fetch([]byte(lo), reverse)), orient(w.visible(w.now, func(r row) bool { return r.key == lo })))
		sameRows(w, "find range", collect(w.t, ss.FindRange([]byte(lo), []byte(hi), earliest, latest, reverse)), reverse, w.visible(w.now, func(r row) bool { return within(r) && timed(r) }))
		sameRows(w, "find ending", collect(w.t, ss.FindEnding(a.end, b.end, reverse)), reverse, w.visible(w.now, func(r row) bool { return r.end >= a.end && r.end <= b.end }))
	}
}

// walk compares the rows in the order of time, of an index, with the model's.
func (w *world) walk() {
	from, to := w.time(w.anyRow()), w.time(w.anyRow())
	var got []row
	switch w.spec.Kind {
	case topology.WindowStore:
		got = windowsByTime(w.t, w.s, from, to)
	case topology.SessionStore:
		got = sessionsByTime(w.t, w.s, from, to)
	}
	live := w.segment(w.now.observed - w.spec.Retention.Milliseconds())
	got = slices.DeleteFunc(got, func(r row) bool { return w.segment(w.time(r)) < live }) // the next commit deletes it
	want := w.held(func(r row) bool { return w.time(r) >= from && w.time(r) <= to })
	slices.SortFunc(want, func(a, b row) int {
		return cmp.Or(cmp.Compare(w.time(a), w.time(b)), cmp.Compare(a.start, b.start), cmp.Compare(string(byTimeOrder(w.spec, a)), string(byTimeOrder(w.spec, b))))
	})
	equal(w.t, "by time", got, want)
}

// byTimeOrder is what decides between rows of one time: the bytes of an index row after its times.
func byTimeOrder(spec topology.Store, r row) []byte {
	if spec.Kind == topology.WindowStore {
		return append([]byte(r.key), 0, 0, 0, 0)
	}
	return []byte(r.key)
}

func windowsByTime(t testing.TB, s *state.Stores, from, to int64) (rows []row) {
	ws := get[*state.Window](t)(s.Window("s"))
	must(t, ws.ByTime(from, to, func(key []byte, start int64, value []byte, ts int64) error {
		rows = append(rows, row{key: string(key), value: string(value), start: start, ts: ts})
		return nil
	}))
	return rows
}

func sessionsByTime(t testing.TB, s *state.Stores, from, to int64) (rows []row) {
	ss := get[*state.Session](t)(s.Session("s"))
	must(t, ss.ByTime(from, to, func(key []byte, start, end int64, value []byte) error {
		rows = append(rows, row{key: string(key), value: string(value), start: start, end: end, ts: -1})
		return nil
	}))
	return rows
}

// sameRows compares rows where the order of keys is not promised.
func sameRows(w *world, what string, got []row, reverse bool, want []row) {
	w.t.Helper()
	if reverse {
		got = reversed(got)
	}
	equal(w.t, what, byKey(got), want)
}

// checkTold compares what changelog and listener were told after a flush.
func (w *world) checkTold() {
	want := map[string]string{}
	for key, r := range w.now.rows {
		want[key] = r.value
	}
	equalMaps(w.t, "changelog", w.withoutGone(w.changelog, want), want)
	if w.late != w.dropped {
		w.t.Fatalf("the changelog was told of %d puts that came too late, want %d", w.late, w.dropped)
	}
	if w.spec.Caching {
		equalMaps(w.t, "downstream", w.withoutGone(w.downstream, want), want)
	}
}

// withoutGone leaves out the rows that are deleted and expired: a cache does not tell of a deletion that nobody could see any more.
func (w *world) withoutGone(told, want map[string]string) map[string]string {
	told = maps.Clone(told)
	maps.DeleteFunc(told, func(key, _ string) bool {
		_, there := want[key]
		return !there && w.spec.Caching && w.timeOfKey([]byte(key)) < w.earliest()
	})
	return told
}

func (w *world) commit() {
	must(w.t, w.s.Flush())
	w.checkTold()
	w.offset += int64(w.rng.IntN(10))
	must(w.t, w.s.Commit(state.CommitPoint{
		InputOffsets: map[state.TopicPartition]int64{{Topic: "in", Partition: 2}: w.offset}, StreamTime: w.clock,
		ChangelogOffsets: map[string]int64{"s": w.offset},
	}))
	w.committed = w.now.clone()
	w.logged, w.passed = maps.Clone(w.changelog), maps.Clone(w.downstream)
}

func (w *world) discard() {
	must(w.t, w.s.Discard())
	w.rollback()
}

func (w *world) rollback() {
	w.now = w.committed.clone()
	w.changelog, w.downstream = maps.Clone(w.logged), maps.Clone(w.passed)
}

func (w *world) reopen() {
	if !w.f.Durable || w.spec.InMemory {
		return
	}
	must(w.t, w.s.Close())
	w.rollback()
	w.open()
	if next, ok := w.s.ChangelogOffset("s"); ok && next != w.offset {
		w.t.Fatalf("changelog offset %d, want %d", next, w.offset)
	}
}

// snapshot compares a snapshot with the last commit, whatever happens to the store meanwhile.
func (w *world) snapshot() {
	sn := get[*state.Snapshot](w.t)(w.s.Snapshot())
	defer sn.Close()
	before := w.now
	w.now = w.committed // for the retention of what the snapshot shows
	want := w.visible(w.committed, func(row) bool { return true })
	w.now = before
	for range 20 {
		w.put()
	}
	var got []row
	switch w.spec.Kind {
	case topology.KeyValueStore:
		v := get[*state.KeyValueView](w.t)(sn.KeyValue("s"))
		got = collect(w.t, v.All(false))
	case topology.WindowStore:
		v := get[*state.WindowView](w.t)(sn.Window("s"))
		got = collect(w.t, v.All(false))
	case topology.SessionStore:
		v := get[*state.SessionView](w.t)(sn.Session("s"))
		got = collect(w.t, v.All(false))
	}
	equal(w.t, "snapshot", byKey(got), want)
}
