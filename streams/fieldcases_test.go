package streams_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/streamstest"
	"github.com/millrace/millrace/streams/window"
)

// B-006: a left or outer join gives no record alone that finds a partner afterwards, and what it gives alone has the time it came with.
func TestB006NoResultThatProvesWrong(t *testing.T) {
	w := window.Within(10 * time.Second)
	script := func(at16001 string) string {
		return `
			L k=L1@0 ->
			R k=R1@5000 -> k=L1+R1@5000
			R p=R2@5000 ->
			L p=L2@6000 -> p=L2+R2@6000
			L x=L3@6000 ->
			R y=R3@6000 ->
			L q=L4@7000 ->
			L q=L5@8000 ->
			R q=R4@9000 -> q=L4+R4@9000 q=L5+R4@9000
			L z=t@16000 ->
			tick 2s ->
			L z=t@16001 -> ` + at16001 + `
			tick 2s ->
			L z=t@26002 -> z=t+-@16000 z=t+-@16001`
	}
	b := streams.NewBuilder()
	b.Stream(leftTopic).LeftJoin(b.Stream(rightTopic), leftOf, w).To(outTopic)
	joinScript(t, b, script("x=L3+-@6000"))
	b = streams.NewBuilder()
	b.Stream(leftTopic).OuterJoin(b.Stream(rightTopic), outerOf, w).To(outTopic)
	joinScript(t, b, script("y=-+R3@6000 x=L3+-@6000"))

	// A record whose window is over when it comes goes alone at once, whatever the grace.
	b = streams.NewBuilder()
	b.Stream(leftTopic).LeftJoin(b.Stream(rightTopic), leftOf, w.Grace(time.Minute)).To(outTopic)
	joinScript(t, b, `
		L a=t@13002 ->
		L b=late@2000 -> b=late+-@2000`)
	// A partner that comes out of order after that is a pair all the same.
	b = streams.NewBuilder()
	b.Stream(leftTopic).LeftJoin(b.Stream(rightTopic), leftOf, w).To(outTopic)
	joinScript(t, b, `
		L x=v@0 ->
		tick 2s ->
		L z=t@10001 -> x=v+-@0
		R x=w@9999 -> x=v+w@9999`)
}

// pointing is a foreign key that is the value itself; "-" points nowhere.
func pointing(_, v string) (string, bool) { return v, v != "-" }

// B-007: when a foreign key points elsewhere, or nowhere, the old result goes.
func TestB007ForeignKeyPointsElsewhere(t *testing.T) {
	b := streams.NewBuilder()
	b.Table(leftTopic).JoinForeign(b.Table(rightTopic), pointing, both).ToStream().To(outTopic)
	joinScript(t, b, `
		L k=1@10 ->
		R 1=one@20 -> k=1+one@20
		L k=2@30 -> k@30
		R 2=two@40 -> k=2+two@40
		L k=-@50 -> k@50
		L k=1@60 -> k=1+one@60
		R 1@70 -> k@70
		L k@80 -> k@80`)
	b = streams.NewBuilder()
	b.Table(leftTopic).LeftJoinForeign(b.Table(rightTopic), pointing, leftOf).ToStream().To(outTopic)
	joinScript(t, b, `
		L k=1@10 -> k=1+-@10
		R 1=one@20 -> k=1+one@20
		L k=2@30 -> k=2+-@30
		R 2=two@40 -> k=2+two@40
		L k=-@50 -> k=-+-@50
		L k=1@60 -> k=1+one@60
		R 1@70 -> k=1+-@70
		L k@80 -> k@80`)
}

// B-008: a row of a left join that points nowhere is in the result.
func TestB008RowsWithoutAForeignKey(t *testing.T) {
	b := streams.NewBuilder()
	b.Table(leftTopic).LeftJoinForeign(b.Table(rightTopic), pointing, leftOf).ToStream().To(outTopic)
	joinScript(t, b, `
		R 1=one@5 ->
		L k=-@10 -> k=-+-@10
		L k=1@20 -> k=1+one@20
		L k=-@30 -> k=-+-@30
		L k@40 -> k@40`)
	b = streams.NewBuilder()
	b.Table(leftTopic).JoinForeign(b.Table(rightTopic), pointing, both).ToStream().To(outTopic)
	joinScript(t, b, `
		R 1=one@5 ->
		L k=-@10 ->
		L k=1@20 -> k=1+one@20
		L k=-@30 -> k@30
		L k@40 ->`)
}

// B-010: a row that stays in its group is subtracted and added in one step; one that moves is subtracted first. A group at zero stays.
func TestB010SubtractAndAdd(t *testing.T) {
	group := func(_, v string) (string, int64) {
		g, n, _ := strings.Cut(v, ":")
		amount, err := strconv.ParseInt(n, 10, 64)
		if err != nil {
			panic(err)
		}
		return g, amount
	}
	run := func(aggregate func(g *streams.GroupedTable[string, int64]) *streams.Stream[string, string], results ...string) {
		t.Helper()
		b := streams.NewBuilder()
		aggregate(b.Table(leftTopic).GroupBy(group)).To(outTopic)
		script := ""
		for i, line := range []string{"nobody@1", "k=a:5@2", "k=a:7@3", "k=a:7@4", "k=b:7@5", "j=b:1@6", "k@7", "k@8", "j=a:1@9"} {
			script += "L " + line + " -> " + results[i] + "\n"
		}
		joinScript(t, b, script, streamstest.WithConfig(streams.Config{CacheBytes: -1}))
	}
	run(func(g *streams.GroupedTable[string, int64]) *streams.Stream[string, string] {
		return g.Reduce("sum", func(a, v int64) int64 { return a + v }, func(a, v int64) int64 { return a - v }).ToStream().MapValues(decimal)
	}, "", "a=5@2", "a=7@3", "a=7@4", "a=0@5 b=7@5", "b=8@6", "b=1@7", "", "b=0@9 a=1@9")
	run(func(g *streams.GroupedTable[string, int64]) *streams.Stream[string, string] {
		return g.Count("count").ToStream().MapValues(decimal)
	}, "", "a=1@2", "a=1@3", "a=1@4", "a=0@5 b=1@5", "b=2@6", "b=1@7", "", "b=0@9 a=1@9")
	run(func(g *streams.GroupedTable[string, int64]) *streams.Stream[string, string] {
		return g.Aggregate("text", func() string { return "" },
			func(a, _ string, v int64) string { return a + "+" + decimal(v) }, func(a, _ string, v int64) string { return a + "-" + decimal(v) }).ToStream()
	}, "", "a=+5@2", "a=+5-5+7@3", "a=+5-5+7-7+7@4", "a=+5-5+7-7+7-7@5 b=+7@5", "b=+7+1@6", "b=+7+1-7@7", "", "b=+7+1-7-1@9 a=+5-5+7-7+7-7+1@9")
}

// B-011: the deletion of a row that never was subtracts nothing, nor does that of one that is gone already.
func TestB011DeletionOfAnUnknownRow(t *testing.T) {
	b := streams.NewBuilder()
	b.Table(leftTopic).GroupBy(func(k, v string) (string, string) { return v, k }).Count("counts").ToStream().MapValues(decimal).To(outTopic)
	joinScript(t, b, `
		L nobody@1 ->
		L k=red@2 -> red=1@2
		L k=blue@3 -> red=0@3 blue=1@3
		L k@4 -> blue=0@4
		L k@5 ->`, streamstest.WithConfig(streams.Config{CacheBytes: -1}))
}
