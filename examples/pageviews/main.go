// Command pageviews counts page views by region and minute: a stream of views joins a table of users.
//
//	go run ./examples/pageviews                            # a broker inside the process, nothing to install
//	go run ./examples/pageviews -brokers localhost:9092    # any Kafka with streams groups
//
// A view is joined with what is known of its user when it is processed; a user who is not known yet counts for the region "unknown". As the region is another
// key than the user, the views go through a repartition topic on their way to the counts.
package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/millrace/millrace/examples/internal/demo"
	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/streams/window"
	"github.com/twmb/franz-go/pkg/kgo"
)

// View is somebody looking at a page. Its key is the user's id.
type View struct{ Page string }

// User is what is known of a user. Its key is the id.
type User struct{ Name, Region string }

// Views are the views of a region in one minute. Their key is the region.
type Views struct {
	Minute time.Time
	Count  int64
}

var (
	views   = streams.NewTopic("pageviews-views", serde.String, serde.JSON[View]())
	users   = streams.NewTopic("pageviews-users", serde.String, serde.JSON[User]())
	regions = streams.NewTopic("pageviews-regions", serde.String, serde.JSON[Views]())
)

// viewsByRegion is the whole topology.
func viewsByRegion() (*streams.Topology, error) {
	b := streams.NewBuilder()
	b.Stream(views).
		LeftJoinTable(b.Table(users), regionOf).
		GroupBy(func(_, region string) string { return region }).
		WindowedBy(window.Tumbling(time.Minute).Grace(30 * time.Second)).
		Count("views-by-region").
		ToStream().
		Map(func(k window.Windowed[string], n int64) (string, Views) { return k.Key, Views{k.Start, n} }).
		To(regions)
	return b.Build()
}

func regionOf(_ View, u User, ok bool) string {
	if !ok {
		return "unknown"
	}
	return u.Region
}

func main() {
	demo.Main(demo.Program{
		Name:     "pageviews",
		Topology: viewsByRegion,
		Inputs:   []string{views.Name(), users.Name()},
		Outputs: []demo.Output{demo.Print(regions, func(r streams.Record[string, Views]) string {
			return fmt.Sprintf("%s  %-8s %d", r.Value.Minute.Format("15:04"), r.Key, r.Value.Count)
		})},
		Sample: func() ([]*kgo.Record, error) { return sample(time.Now().Add(-time.Hour).Truncate(time.Minute)) },
	})
}

// sample is users, and then views of theirs over two minutes.
func sample(begin time.Time) ([]*kgo.Record, error) {
	known, err := demo.Records(users,
		demo.At(begin, "ada", User{"Ada", "europe"}),
		demo.At(begin, "kim", User{"Kim", "asia"}),
		demo.At(begin, "leo", User{"Leo", "europe"}))
	if err != nil {
		return nil, err
	}
	seen, err := demo.Records(views,
		demo.At(begin.Add(5*time.Second), "ada", View{"/"}),
		demo.At(begin.Add(10*time.Second), "kim", View{"/"}),
		demo.At(begin.Add(20*time.Second), "leo", View{"/docs"}),
		demo.At(begin.Add(30*time.Second), "bob", View{"/docs"}),
		demo.At(begin.Add(70*time.Second), "ada", View{"/docs"}),
		demo.At(begin.Add(80*time.Second), "kim", View{"/blog"}))
	return slices.Concat(known, seen), err
}
