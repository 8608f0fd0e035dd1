package streams_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/streamstest"
)

// reference is the foreign key of a value such as "x:1": x; a value without a colon has none.
func reference(_, v string) (string, bool) {
	fk, _, ok := strings.Cut(v, ":")
	return fk, ok
}

func TestF115ForeignKeyJoin(t *testing.T) {
	b := streams.NewBuilder()
	b.Table(leftTopic).JoinForeign(b.Table(rightTopic), reference, both).ToStream().To(outTopic)
	joinScript(t, b, `
		L a=x:1@10 ->
		R x=X@20 -> a=x:1+X@20
		L b=x:2@5 -> b=x:2+X@20
		R x=Y@30 -> a=x:1+Y@30 b=x:2+Y@30
		L a=y:1@40 -> a@40
		R x=Z@50 -> b=x:2+Z@50
		R y=W@60 -> a=y:1+W@60
		L a=none@70 -> a@70
		L a=none@71 ->
		R x@80 -> b@80
		L b@90 -> b@90
		L b@91 ->`)
}

// F-117.
func TestF116ForeignKeyLeftJoin(t *testing.T) {
	b := streams.NewBuilder()
	b.Table(leftTopic).LeftJoinForeign(b.Table(rightTopic), reference, leftOf).ToStream().To(outTopic)
	joinScript(t, b, `
		L a=x:1@10 -> a=x:1+-@10
		R x=X@20 -> a=x:1+X@20
		L a=y:1@30 -> a=y:1+-@30
		R x=Y@40 ->
		L a=none@50 -> a=none+-@50
		L a=x:2@60 -> a=x:2+Y@60
		R x@70 -> a=x:2+-@70
		L a@80 -> a@80
		L a@81 ->`)
}

// F-119: subscriptions and answers find their partitions, whatever the partitions of both tables are.
func TestF119ForeignKeyJoinOverPartitions(t *testing.T) {
	b := streams.NewBuilder()
	joined := b.Table(leftTopic).JoinForeign(b.Table(rightTopic), reference, both, streams.Materialized("joined"))
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	d := streamstest.New(t, topology, streamstest.Partitions("left", 3), streamstest.Partitions("right", 2))
	left, right := d.Input(leftTopic), d.Input(rightTopic)
	for i := range 30 {
		left.PipeAt(time.UnixMilli(int64(i)), fmt.Sprint("k", i), fmt.Sprintf("x%d:%d", i%7, i))
	}
	for i := range 7 {
		right.PipeAt(time.UnixMilli(int64(i)), fmt.Sprint("x", i), fmt.Sprint("X", i))
	}
	var rows []string
	for k, v := range d.Store(joined.Store()).All() {
		rows = append(rows, k+"="+v)
	}
	slices.Sort(rows)
	var want []string
	for i := range 30 {
		want = append(want, fmt.Sprintf("k%d=x%d:%d+X%d", i, i%7, i, i%7))
	}
	slices.Sort(want)
	if !slices.Equal(rows, want) {
		t.Errorf("rows\n%v\nwant\n%v", rows, want)
	}
}
