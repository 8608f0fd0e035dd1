package streams_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/streams/streamstest"
	"github.com/millrace/millrace/streams/window"
)

// The topics of the examples.
var (
	words     = streams.NewTopic("words", serde.String, serde.String)
	totals    = streams.NewTopic("totals", serde.String, serde.Int64)
	views     = streams.NewTopic("views", serde.String, serde.JSON[View]())
	users     = streams.NewTopic("users", serde.String, serde.JSON[User]())
	orders    = streams.NewTopic("orders", serde.String, serde.JSON[Order]())
	payments  = streams.NewTopic("payments", serde.String, serde.JSON[Payment]())
	customers = streams.NewTopic("customers", serde.String, serde.JSON[Customer]())
)

type View struct{ UserID, Page string }

type User struct{ Name, Region string }

type Order struct {
	Customer, SKU string
	Amount        int64
}

type Payment struct{ Amount int64 }

type Customer struct{ Name string }

// In says who looked, as the joiner of a view and a user.
func (v View) In(u User) string { return u.Name + " looks at " + v.Page }

func bySKU(_ string, o Order) string { return o.SKU }

// noon is when the examples begin.
var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// try runs a program without a broker. What the program prints is the output of the example.
func try(b *streams.Builder, f func(d *streamstest.Driver), opts ...streamstest.Option) {
	topology, err := b.Build()
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := streamstest.Run(topology, f, append(opts, streamstest.StartAt(noon))...); err != nil {
		fmt.Println(err)
	}
}

// Word count, the whole program.
func Example() {
	b := streams.NewBuilder()
	b.Stream(lines).
		FlatMapValues(strings.Fields).
		GroupBy(func(_, word string) string { return word }).
		Count("counts").
		ToStream().
		To(totals)

	topology, err := b.Build() // every mistake at once, each with operator and line
	if err != nil {
		log.Fatal(err)
	}
	app, err := streams.New(streams.Config{
		ApplicationID: "word-count",
		Brokers:       []string{"localhost:9092"},
		StateDir:      "/var/lib/word-count",
		Guarantee:     streams.ExactlyOnce,
	}, topology)
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := app.Run(ctx); err != nil { // until Ctrl-C: commits, leaves the group, returns nil
		log.Fatal(err)
	}
}

// F-010.
func ExampleStream_Filter() {
	b := streams.NewBuilder()
	b.Stream(lines).
		Filter(func(_, line string) bool { return strings.Contains(line, "be") }).
		FilterNot(func(_, line string) bool { return strings.HasPrefix(line, "#") }).
		Print("kept")

	try(b, func(d *streamstest.Driver) {
		d.Input(lines).PipeValues("to be", "or not", "# to be")
	})
	// Output:
	// [kept]: null, to be
}

// F-012.
func ExampleStream_MapValues() {
	b := streams.NewBuilder()
	b.Stream(lines).
		MapValues(strings.ToUpper).
		MapValuesWithKey(func(key, line string) string { return key + ": " + line }).
		Print("upper")

	try(b, func(d *streamstest.Driver) {
		in := d.Input(lines)
		in.Pipe("hamlet", "to be")
		in.PipeNull("hamlet") // no function is called for a null
	})
	// Output:
	// [upper]: hamlet, hamlet: TO BE
	// [upper]: hamlet, null
}

// A function that can fail says so, and Config.OnProcessError decides what becomes of the record.
func ExampleStream_TryMapValues() {
	b := streams.NewBuilder()
	b.Stream(lines).
		TryMapValues(strconv.Atoi).
		Print("numbers")

	skip := streams.Config{OnProcessError: func(_ context.Context, f streams.Failure) streams.Response {
		fmt.Println(f.Node, f.Origin.Offset, f.Err)
		return streams.Resume
	}}
	try(b, func(d *streamstest.Driver) {
		d.Input(lines).PipeValues("1", "two", "3")
	}, streamstest.WithConfig(skip))
	// Output:
	// [numbers]: null, 1
	// KSTREAM-MAPVALUES-0000000001 1 strconv.Atoi: parsing "two": invalid syntax
	// [numbers]: null, 3
}

// F-012.
func ExampleStream_FlatMapValues() {
	b := streams.NewBuilder()
	b.Stream(lines).
		FlatMapValues(strings.Fields).
		Print("words")

	try(b, func(d *streamstest.Driver) {
		d.Input(lines).PipeValues("to be", "")
	})
	// Output:
	// [words]: null, to
	// [words]: null, be
}

// With an iterator there is no slice. F-012.
func ExampleStream_FlatMapValuesSeq() {
	b := streams.NewBuilder()
	b.Stream(lines).
		FlatMapValuesSeq(strings.FieldsSeq).
		Print("words")

	try(b, func(d *streamstest.Driver) {
		d.Input(lines).PipeValues("or not")
	})
	// Output:
	// [words]: null, or
	// [words]: null, not
}

// F-011.
func ExampleStream_Map() {
	b := streams.NewBuilder()
	b.Stream(lines).
		Map(func(key, line string) (string, int) { return strings.ToUpper(key), len(line) }).
		Print("lengths")

	try(b, func(d *streamstest.Driver) {
		d.Input(lines).Pipe("hamlet", "to be")
	})
	// Output:
	// [lengths]: HAMLET, 5
}

// F-011.
func ExampleStream_FlatMap() {
	b := streams.NewBuilder()
	b.Stream(lines).
		FlatMap(func(_, line string, emit func(word string, position int)) {
			for i, word := range strings.Fields(line) {
				emit(word, i)
			}
		}).
		Print("positions")

	try(b, func(d *streamstest.Driver) {
		d.Input(lines).PipeValues("to be")
	})
	// Output:
	// [positions]: to, 0
	// [positions]: be, 1
}

// Whole records: nulls, time and headers. F-139.
func ExampleStream_MapRecords() {
	checked := streams.NewTopic("users-checked", serde.String, serde.JSON[User]())
	b := streams.NewBuilder()
	b.Stream(users).
		MapRecords(func(r streams.Record[string, User]) streams.Record[string, User] {
			if r.Value.Region == "" {
				return r.Null()
			}
			return r.WithHeader("checked", []byte("yes")).WithTimestamp(r.Timestamp.Truncate(time.Hour))
		}).
		To(checked)

	try(b, func(d *streamstest.Driver) {
		in, out := d.Input(users).At(noon.Add(time.Minute)), d.Output(checked)
		in.Pipe("7", User{"Ann", "north"})
		in.Pipe("8", User{"Bob", ""})
		for _, r := range out.ReadAll() {
			value, ok := r.Headers.Last("checked")
			fmt.Println(r.Key, r.Value, r.NullValue, r.Timestamp.Format(time.TimeOnly), string(value), ok)
		}
	})
	// Output:
	// 7 {Ann north} false 12:00:00 yes true
	// 8 { } true 12:01:00  false
}

// Changes of a table may be deletions. A function that looks at key and value sees the zero value of a null, unless nulls are dropped before. F-010, F-024.
func ExampleStream_DropNulls() {
	b := streams.NewBuilder()
	changes := b.Table(users).ToStream()
	changes.Filter(func(_ string, u User) bool { return u.Name == "" }).Print("zero")
	changes.DropNulls().Print("rows")

	try(b, func(d *streamstest.Driver) {
		in := d.Input(users)
		in.Pipe("7", User{"Ann", "north"})
		in.PipeNull("7")
	})
	// Output:
	// [rows]: 7, {Ann north}
	// [zero]: 7, null
}

// A changed key means another partition: what needs the records of a key in one place goes through a topic of the application. F-011, F-028.
func ExampleStream_SelectKey() {
	b := streams.NewBuilder()
	b.Stream(views).
		SelectKey(func(_ string, v View) string { return v.UserID }).
		JoinTable(b.Table(users), View.In).
		Print("views")

	try(b, func(d *streamstest.Driver) {
		d.Input(users).Pipe("7", User{"Ann", "north"})
		d.Input(views).PipeValues(View{"7", "/home"})
	})
	// Output:
	// [views]: 7, Ann looks at /home
}

// F-014.
func ExampleStream_Merge() {
	b := streams.NewBuilder()
	b.Stream(lines).Merge(b.Stream(words)).Print("both")

	try(b, func(d *streamstest.Driver) {
		d.Input(words).PipeValues("be")
		d.Input(lines).PipeValues("to be")
	})
	// Output:
	// [both]: null, be
	// [both]: null, to be
}

// A record goes to the first branch whose condition it meets. F-015.
func ExampleStream_Split() {
	b := streams.NewBuilder()
	split := b.Stream(orders).Split(streams.Named("orders-"))
	split.Branch(func(_ string, o Order) bool { return o.Amount > 1000 }, streams.Named("big")).Print("big")
	split.Branch(func(_ string, o Order) bool { return o.Amount == 0 }, streams.Named("free")).Print("free")
	split.Default().Print("rest")

	try(b, func(d *streamstest.Driver) {
		d.Input(orders).PipeValues(Order{"7", "pen", 2}, Order{"8", "car", 20000}, Order{"7", "bag", 0})
	})
	// Output:
	// [rest]: null, {7 pen 2}
	// [big]: null, {8 car 20000}
	// [free]: null, {7 bag 0}
}

// The topic of each record is computed. It must exist. F-017.
func ExampleStream_Route() {
	b := streams.NewBuilder()
	b.Stream(lines).Route(func(r streams.Record[string, string], from streams.Origin) string {
		return from.Topic + "-" + r.Key
	})

	try(b, func(d *streamstest.Driver) {
		d.Input(lines).Pipe("hamlet", "to be")
		fmt.Println(d.Topics())
	})
	// Output:
	// [lines lines-hamlet]
}

// F-021, F-051.
func ExampleStream_Repartition() {
	b := streams.NewBuilder()
	b.Stream(lines).
		SelectKey(func(_, line string) string { return line }).
		Repartition("by-line", streams.Partitions(4)).
		ProcessFunc(func(ctx *streams.Context[string, string], r streams.Record[string, string]) error {
			ctx.Forward(r.WithValue("in task " + ctx.Task()))
			return nil
		}).
		Print("placed")

	try(b, func(d *streamstest.Driver) {
		d.Input(lines).PipeValues("to be", "or", "not", "to be")
	})
	// Output:
	// [placed]: to be, in task 1_1
	// [placed]: or, in task 1_3
	// [placed]: not, in task 1_1
	// [placed]: to be, in task 1_1
}

// F-023.
func ExampleStream_ToTable() {
	b := streams.NewBuilder()
	b.Stream(lines).ToTable(streams.Materialized("latest"))

	try(b, func(d *streamstest.Driver) {
		in := d.Input(lines)
		in.Pipe("hamlet", "to be")
		in.Pipe("hamlet", "or not")
		line, ok := d.Store(streams.NewKeyValueStore("latest", serde.String, serde.String)).Get("hamlet")
		fmt.Println(line, ok)
	})
	// Output:
	// or not true
}

// A left join says about the row that may be missing whether it is there. F-105.
func ExampleStream_LeftJoinTable() {
	b := streams.NewBuilder()
	b.Stream(views).
		LeftJoinTable(b.Table(users), func(v View, u User, ok bool) string {
			if !ok {
				return "somebody looks at " + v.Page
			}
			return v.In(u)
		}).
		Print("views")

	try(b, func(d *streamstest.Driver) {
		d.Input(users).Pipe("7", User{"Ann", "north"})
		in := d.Input(views)
		in.Pipe("7", View{"7", "/home"})
		in.Pipe("8", View{"8", "/help"})
	})
	// Output:
	// [views]: 7, Ann looks at /home
	// [views]: 8, somebody looks at /help
}

// Payments are up to an hour after the order, and at most a minute before it. F-090, F-096.
func ExampleStream_Join() {
	b := streams.NewBuilder()
	b.Stream(orders).
		Join(b.Stream(payments), func(o Order, p Payment) string {
			return fmt.Sprintf("%s: %d of %d paid", o.SKU, p.Amount, o.Amount)
		}, window.Within(0).Before(time.Minute).After(time.Hour)).
		Print("settled")

	try(b, func(d *streamstest.Driver) {
		placed, paid := d.Input(orders), d.Input(payments)
		placed.PipeAt(noon, "1", Order{"7", "pen", 2})
		paid.PipeAt(noon.Add(59*time.Minute), "1", Payment{2})
		paid.PipeAt(noon.Add(61*time.Minute), "1", Payment{9})
	})
	// Output:
	// [settled]: 1, pen: 2 of 2 paid
}

// An order without a payment is given when its time is over: when a later record of either stream shows that. F-097.
func ExampleStream_LeftJoin() {
	b := streams.NewBuilder()
	b.Stream(orders).
		LeftJoin(b.Stream(payments), func(o Order, p Payment, paid bool) string {
			if !paid {
				return o.SKU + ": unpaid"
			}
			return o.SKU + ": paid"
		}, window.Within(time.Hour).Grace(time.Minute)).
		Print("orders")

	try(b, func(d *streamstest.Driver) {
		placed, paid := d.Input(orders), d.Input(payments)
		placed.PipeAt(noon, "1", Order{"7", "pen", 2})
		placed.PipeAt(noon, "2", Order{"7", "bag", 80})
		paid.PipeAt(noon.Add(time.Minute), "2", Payment{80})
		d.AdvanceWallClock(time.Second) // the search for orders without a partner runs once a second at most
		placed.PipeAt(noon.Add(2*time.Hour), "3", Order{"8", "car", 20000})
	})
	// Output:
	// [orders]: 2, bag: paid
	// [orders]: 1, pen: unpaid
}

// An aggregation of a changed key, cut into the steps that its topology has. F-028, F-038, F-041.
func ExampleTopology_Describe() {
	b := streams.NewBuilder()
	b.Stream(lines).
		GroupBy(func(_, line string) string { return line }, streams.Named("by-line")).
		Count("counts", streams.Named("count"))
	topology, err := b.Build()
	if err != nil {
		log.Fatal(err)
	}
	fmt.Print(strings.TrimSpace(topology.Describe()))
	// Output:
	// Topologies:
	//    Sub-topology: 0
	//     Source: KSTREAM-SOURCE-0000000000 (topics: [lines])
	//       --> by-line
	//     Processor: by-line (stores: [])
	//       --> by-line-repartition-filter
	//       <-- KSTREAM-SOURCE-0000000000
	//     Processor: by-line-repartition-filter (stores: [])
	//       --> by-line-repartition-sink
	//       <-- by-line
	//     Sink: by-line-repartition-sink (topic: by-line-repartition)
	//       <-- by-line-repartition-filter
	//
	//   Sub-topology: 1
	//     Source: by-line-repartition-source (topics: [by-line-repartition])
	//       --> count
	//     Processor: count (stores: [counts])
	//       --> none
	//       <-- by-line-repartition-source
}

// F-058, F-060.
func ExampleGrouped_Count() {
	b := streams.NewBuilder()
	b.Stream(orders).
		GroupBy(bySKU).
		Count("orders-per-sku").
		ToStream().
		Print("count")

	try(b, func(d *streamstest.Driver) {
		d.Input(orders).PipeValues(Order{"7", "pen", 2}, Order{"8", "bag", 80}, Order{"9", "pen", 2})
	})
	// Output:
	// [count]: pen, 1
	// [count]: bag, 1
	// [count]: pen, 2
}

// F-058.
func ExampleGrouped_Reduce() {
	b := streams.NewBuilder()
	b.Stream(orders).
		GroupByKey().
		Reduce("largest", func(a, o Order) Order {
			if o.Amount > a.Amount {
				return o
			}
			return a
		}).
		ToStream().
		Print("largest")

	try(b, func(d *streamstest.Driver) {
		in := d.Input(orders)
		in.Pipe("7", Order{"7", "pen", 2})
		in.Pipe("7", Order{"7", "bag", 80})
		in.Pipe("7", Order{"7", "cup", 5})
	})
	// Output:
	// [largest]: 7, {7 pen 2}
	// [largest]: 7, {7 bag 80}
	// [largest]: 7, {7 bag 80}
}

// Stats has an Add that folds an order into it. The accumulator comes first, so that the method itself can be handed over.
type Stats struct{ Orders, Amount int64 }

func (s Stats) Add(_ string, o Order) Stats { return Stats{s.Orders + 1, s.Amount + o.Amount} }

func (s Stats) Subtract(_ string, o Order) Stats { return Stats{s.Orders - 1, s.Amount - o.Amount} }

func noStats() Stats { return Stats{} }

// F-058.
func ExampleGrouped_Aggregate() {
	b := streams.NewBuilder(streams.DefaultJSON)
	b.Stream(orders).
		GroupBy(bySKU).
		Aggregate("stats", noStats, Stats.Add).
		ToStream().
		Print("stats")

	try(b, func(d *streamstest.Driver) {
		d.Input(orders).PipeValues(Order{"7", "pen", 2}, Order{"8", "pen", 3})
	})
	// Output:
	// [stats]: pen, {1 2}
	// [stats]: pen, {2 5}
}

// Basket is used through pointers, so nil can delete its row.
type Basket struct{ Items []string }

func (b *Basket) Add(_ string, o Order) *Basket {
	if o.SKU == "" {
		return nil
	}
	return &Basket{append(slices.Clone(b.Items), o.SKU)}
}

// An aggregator that returns nil deletes the row. F-058.
func ExampleGrouped_Aggregate_deletion() {
	b := streams.NewBuilder(streams.DefaultJSON)
	b.Stream(orders).
		GroupByKey().
		Aggregate("baskets", func() *Basket { return &Basket{} }, (*Basket).Add).
		ToStream().
		MapValues(func(b *Basket) int { return len(b.Items) }).
		Print("items")

	try(b, func(d *streamstest.Driver) {
		in := d.Input(orders)
		in.Pipe("7", Order{SKU: "pen"})
		in.Pipe("7", Order{SKU: "bag"})
		in.Pipe("7", Order{})
	})
	// Output:
	// [items]: 7, 1
	// [items]: 7, 2
	// [items]: 7, null
}

// Orders per hour: each is counted in the window of its own time, also when it comes late. F-080, F-082.
func ExampleGrouped_WindowedBy() {
	b := streams.NewBuilder()
	b.Stream(orders).
		GroupBy(bySKU).
		WindowedBy(window.Tumbling(time.Hour).Grace(10 * time.Minute)).
		Count("orders-per-hour").
		ToStream().
		SelectKey(func(k window.Windowed[string], _ int64) string { return k.Key + " from " + k.Start.Format("15:04") }).
		Print("hour")

	try(b, func(d *streamstest.Driver) {
		in, pen := d.Input(orders), Order{"7", "pen", 2}
		for _, minute := range []time.Duration{5, 59, 61, 58, 71, 57} { // the last is late for the first hour
			in.PipeAt(noon.Add(minute*time.Minute), "", pen)
		}
		fmt.Println(d.Dropped())
	})
	// Output:
	// [hour]: pen from 12:00, 1
	// [hour]: pen from 12:00, 2
	// [hour]: pen from 13:00, 1
	// [hour]: pen from 12:00, 3
	// [hour]: pen from 13:00, 2
	// map[late for its window:1]
}

// Hopping windows overlap, so a record is in several of them. F-081.
func ExampleGrouped_WindowedBy_hopping() {
	b := streams.NewBuilder()
	b.Stream(orders).
		GroupBy(bySKU).
		WindowedBy(window.Hopping(time.Hour, 30*time.Minute)).
		Count("orders-per-hour").
		ToStream().
		SelectKey(func(k window.Windowed[string], _ int64) string {
			return k.Start.Format("15:04") + "-" + k.End.Format("15:04")
		}).
		Print("window")

	try(b, func(d *streamstest.Driver) {
		d.Input(orders).PipeAt(noon.Add(45*time.Minute), "", Order{"7", "pen", 2})
	})
	// Output:
	// [window]: 12:00-13:00, 1
	// [window]: 12:30-13:30, 1
}

// Rows that stop matching are deleted from the result. F-066.
func ExampleTable_Filter() {
	b := streams.NewBuilder()
	b.Table(users).
		Filter(func(_ string, u User) bool { return u.Region == "north" }).
		MapValues(func(u User) string { return u.Name }).
		ToStream().
		Print("north")

	try(b, func(d *streamstest.Driver) {
		in := d.Input(users)
		in.Pipe("7", User{"Ann", "north"})
		in.Pipe("7", User{"Ann", "south"})
	})
	// Output:
	// [north]: 7, Ann
	// [north]: 7, null
}

// Tables join by key. A change on either side updates the result. F-111.
func ExampleTable_OuterJoin() {
	b := streams.NewBuilder()
	b.Table(users).
		OuterJoin(b.Table(customers), func(u User, isUser bool, c Customer, isCustomer bool) string {
			return fmt.Sprintf("%s%s %t %t", u.Name, c.Name, isUser, isCustomer)
		}).
		ToStream().
		Print("people")

	try(b, func(d *streamstest.Driver) {
		d.Input(users).Pipe("7", User{"Ann", "north"})
		d.Input(customers).Pipe("7", Customer{"Ann Ltd"})
		d.Input(users).PipeNull("7")
		d.Input(customers).PipeNull("7")
	})
	// Output:
	// [people]: 7, Ann true false
	// [people]: 7, AnnAnn Ltd true true
	// [people]: 7, Ann Ltd false true
	// [people]: 7, null
}

// Each order refers to a customer. When the customer changes, so do the results of all its orders. F-116.
func ExampleTable_LeftJoinForeign() {
	b := streams.NewBuilder()
	customerOf := func(_ string, o Order) (string, bool) { return o.Customer, o.Customer != "" }
	b.Table(orders).
		LeftJoinForeign(b.Table(customers), customerOf, func(o Order, c Customer, ok bool) string {
			if !ok {
				return o.SKU + " for somebody"
			}
			return o.SKU + " for " + c.Name
		}).
		ToStream().
		Print("labels")

	try(b, func(d *streamstest.Driver) {
		d.Input(orders).Pipe("1", Order{"7", "pen", 2})
		d.Input(orders).Pipe("2", Order{"7", "bag", 80})
		d.Input(customers).Pipe("7", Customer{"Ann Ltd"})
		d.Input(orders).Pipe("3", Order{SKU: "cup"})
	})
	// Output:
	// [labels]: 1, pen for somebody
	// [labels]: 2, bag for somebody
	// [labels]: 1, pen for Ann Ltd
	// [labels]: 2, bag for Ann Ltd
	// [labels]: 3, cup for somebody
}

// A grouped table takes the old row off before it adds the new one. F-061, F-063.
func ExampleTable_GroupBy() {
	b := streams.NewBuilder(streams.DefaultJSON)
	b.Table(orders).
		GroupBy(func(_ string, o Order) (string, Order) { return o.SKU, o }).
		Aggregate("stats", noStats, Stats.Add, Stats.Subtract).
		ToStream().
		Print("stats")

	try(b, func(d *streamstest.Driver) {
		in := d.Input(orders)
		in.Pipe("1", Order{"7", "pen", 2})
		in.Pipe("1", Order{"7", "bag", 80}) // the order changes
	})
	// Output:
	// [stats]: pen, {1 2}
	// [stats]: pen, {0 0}
	// [stats]: bag, {1 80}
}

// One handle names a table's store for processors, tests and queries. F-073, F-149.
func ExampleTable_Store() {
	b := streams.NewBuilder()
	perSKU := b.Stream(orders).GroupBy(bySKU).Count("orders-per-sku")
	b.Stream(lines).
		ProcessFunc(func(ctx *streams.Context[string, int64], r streams.Record[string, string]) error {
			n, _ := ctx.Store(perSKU.Store()).Get(r.Value)
			ctx.Forward(ctx.Record(r.Value, n))
			return nil
		}, streams.WithStores(perSKU.Store())).
		Print("asked")

	try(b, func(d *streamstest.Driver) {
		d.Input(orders).PipeValues(Order{"7", "pen", 2}, Order{"8", "pen", 2})
		d.Input(lines).PipeValues("pen", "car")
		for sku, n := range d.Store(perSKU.Store()).All() {
			fmt.Println(sku, n)
		}
	})
	// Output:
	// [asked]: pen, 2
	// [asked]: car, 0
	// pen 2
}

// A processor of one's own: a store, a schedule, errors.
type dedup struct{ ttl time.Duration }

var seen = streams.NewKeyValueStore("seen", serde.String, serde.Int64, streams.InMemory)

func newDedup() *dedup { return &dedup{ttl: time.Hour} }

func (d *dedup) Init(ctx *streams.Context[string, Order]) error {
	ctx.Schedule(time.Minute, streams.StreamTime, func(ctx *streams.Context[string, Order], now time.Time) error {
		store := ctx.Store(seen)
		for id, at := range store.All() {
			if now.Sub(time.UnixMilli(at)) > d.ttl {
				store.Delete(id)
			}
		}
		return nil
	})
	return nil
}

func (d *dedup) Process(ctx *streams.Context[string, Order], r streams.Record[string, Order]) error {
	if r.NullValue {
		return errors.New("an order cannot be null")
	}
	if _, ok := ctx.Store(seen).PutIfAbsent(r.Key, r.Timestamp.UnixMilli()); !ok {
		ctx.Forward(r)
	}
	return nil
}

// F-025, F-138.
func ExampleStream_Process() {
	b := streams.NewBuilder()
	b.Stream(orders).
		Process(newDedup, streams.WithStores(seen), streams.Named("dedup")).
		Print("once")

	try(b, func(d *streamstest.Driver) {
		in := d.Input(orders)
		in.PipeAt(noon, "1", Order{SKU: "pen"})
		in.PipeAt(noon, "1", Order{SKU: "pen"})
		in.PipeAt(noon.Add(2*time.Hour), "2", Order{SKU: "bag"})
		in.PipeAt(noon.Add(2*time.Hour), "1", Order{SKU: "pen"}) // forgotten by now
	})
	// Output:
	// [once]: 1, { pen 0}
	// [once]: 2, { bag 0}
	// [once]: 1, { pen 0}
}

// What cannot change the key needs no repartition topic afterwards. F-026.
func ExampleStream_ProcessValuesFunc() {
	b := streams.NewBuilder()
	b.Stream(orders).
		ProcessValuesFunc(func(ctx *streams.FixedKeyContext[string, int64], r streams.FixedKeyRecord[string, Order]) error {
			if o, ok := r.Get(); ok {
				ctx.Forward(r.WithValue(o.Amount))
			}
			return nil
		}).
		GroupByKey().
		Reduce("spent", func(sum, amount int64) int64 { return sum + amount }).
		ToStream().
		Print("spent")

	try(b, func(d *streamstest.Driver) {
		in := d.Input(orders)
		in.Pipe("7", Order{Amount: 2})
		in.Pipe("7", Order{Amount: 80})
	})
	// Output:
	// [spent]: 7, 2
	// [spent]: 7, 82
}

// A window store of a processor's own. F-164.
func ExampleNewWindowStore() {
	perMinute := streams.NewWindowStore("per-minute", serde.String, serde.Int64, time.Minute, streams.Retention(time.Hour))
	b := streams.NewBuilder()
	b.Stream(orders).ForEach(func(string, Order) {})
	b.Stream(orders).ProcessFunc(func(ctx *streams.Context[streams.None, streams.None], r streams.Record[string, Order]) error {
		store, start := ctx.Store(perMinute), r.Timestamp.Truncate(time.Minute)
		n, _ := store.Get(r.Value.SKU, start)
		store.Put(r.Value.SKU, n+1, start)
		return nil
	}, streams.WithStores(perMinute))

	try(b, func(d *streamstest.Driver) {
		in := d.Input(orders).AutoAdvance(25 * time.Second)
		in.PipeValues(slices.Repeat([]Order{{SKU: "pen"}}, 5)...)
		for k, n := range d.Store(perMinute).Fetch("pen", noon, noon.Add(time.Hour)) {
			fmt.Println(k.Start.Format("15:04"), n)
		}
	})
	// Output:
	// 12:00 3
	// 12:01 2
}

// The time of a record may be in its content. F-154. F-155.
func ExampleTopic_TimestampFrom() {
	dated := lines.TimestampFrom(func(_, line string) time.Time {
		day, _, _ := strings.Cut(line, " ")
		t, _ := time.Parse(time.DateOnly, day) // a zero time is invalid
		return t
	})
	b := streams.NewBuilder()
	b.Stream(dated, streams.OnInvalidTimestamp(streams.SkipOnInvalidTime)).To(words)

	try(b, func(d *streamstest.Driver) {
		d.Input(lines).PipeValues("2026-03-01 to be", "or not")
		for _, r := range d.Output(words).ReadAll() {
			fmt.Println(r.Timestamp.Format(time.DateOnly), r.Value)
		}
	})
	// Output:
	// 2026-03-01 2026-03-01 to be
}

// Records with a key go where Java's producer would put them, unless the topic says otherwise. F-019.
func ExampleTopic_PartitionBy() {
	byLength := words.PartitionBy(func(r streams.Record[string, string], partitions int) streams.Placement {
		if r.NullValue {
			return streams.Nowhere
		}
		return streams.Partition(len(r.Value) % partitions)
	})
	b := streams.NewBuilder()
	b.Stream(lines).To(byLength)

	try(b, func(d *streamstest.Driver) {
		in, out := d.Input(lines), d.Output(words)
		in.PipeValues("to", "be", "or", "not")
		in.PipeNull("k")
		for p := range 2 {
			for _, r := range out.ReadPartition(p) {
				fmt.Println(p, r.Value)
			}
		}
	}, streamstest.Partitions("words", 2))
	// Output:
	// 0 to
	// 0 be
	// 0 or
	// 1 not
}

// Every mistake is reported, with the operator it is in and the line that added it.
func ExampleBuildError() {
	b := streams.NewBuilder(streams.RequireNames)
	b.Stream(views).GroupByKey().Count(streams.Unnamed)
	b.Stream(views).GroupBy(func(_ string, v View) View { return v }).Count("views")
	_, err := b.Build()
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		for _, err := range joined.Unwrap() {
			if e, ok := errors.AsType[*streams.BuildError](err); ok {
				fmt.Println(e.Operator, errors.Is(e, streams.ErrNameRequired), errors.Is(e, streams.ErrNoSerde))
			}
		}
	}
	// Output:
	// KSTREAM-AGGREGATE-0000000002 true false
	// KSTREAM-AGGREGATE-0000000005 false true
}

// What does not decode is skipped and kept in a dead letter topic, with the reason in its headers.
func ExampleLogAndResume() {
	letters := streams.NewTopic("dead-letters", serde.Bytes, serde.Bytes)
	b := streams.NewBuilder()
	b.Stream(totals).Print("totals")

	cfg := streams.Config{OnDecodeError: streams.LogAndResume, DeadLetterTopic: "dead-letters"}
	try(b, func(d *streamstest.Driver) {
		in := d.Input(totals)
		in.PipeRaw([]byte("k"), []byte("no number"))
		in.Pipe("k", 7)
		letter := d.Output(letters).Read()
		reason, _ := letter.Headers.Last("__streams.errors.message")
		fmt.Printf("%s: %s\n", letter.Value, reason)
	}, streamstest.WithConfig(cfg))
	// Output:
	// [totals]: k, 7
	// no number: serde: 9 bytes where the type has 8
}

// A handler of one's own: what is known to happen is put aside, all else stops the application.
func ExampleErrorHandler() {
	b := streams.NewBuilder()
	b.Stream(lines).TryMapValues(strconv.Atoi).Print("numbers")

	cfg := streams.Config{OnProcessError: func(_ context.Context, f streams.Failure) streams.Response {
		if _, ok := errors.AsType[*strconv.NumError](f.Err); ok {
			return streams.Resume.DeadLetter(streams.DeadLetterFrom("bad-numbers", f))
		}
		return streams.Fail
	}}
	try(b, func(d *streamstest.Driver) {
		d.Input(lines).PipeValues("1", "one")
		fmt.Println(d.Topics(), d.Err())
	}, streamstest.WithConfig(cfg))
	// Output:
	// [numbers]: null, 1
	// [lines bad-numbers] <nil>
}

// Caches send the last of several updates per key and commit. NoCaching sends all. F-076, F-176.
func ExampleNoCaching() {
	b := streams.NewBuilder()
	g := b.Stream(lines).GroupByKey()
	g.Count("cached").ToStream().Print("cached")
	g.Count("all", streams.NoCaching).ToStream().Print("all")

	try(b, func(d *streamstest.Driver) {
		in := d.Input(lines)
		in.Pipe("k", "a")
		in.Pipe("k", "b")
		d.Commit()
	}, streamstest.CommitEvery(0))
	// Output:
	// [all]: k, 1
	// [all]: k, 2
	// [cached]: k, 2
}

// Keys of windows in a topic have Java's form, key and start. F-078.
func ExampleWindowedStream_To() {
	perHour := streams.NewTopic("per-hour", window.Serde(serde.String, time.Hour), serde.Int64)
	b := streams.NewBuilder()
	b.Stream(lines).
		GroupByKey().
		WindowedBy(window.Tumbling(time.Hour)).
		Count("counts").
		ToStream().
		To(perHour)

	try(b, func(d *streamstest.Driver) {
		d.Input(lines).PipeAt(noon.Add(time.Minute), "k", "a")
		r := d.Output(perHour).Read()
		fmt.Println(r.Key == window.At("k", noon, noon.Add(time.Hour)), r.Value)
	})
	// Output:
	// true 1
}

// Only the final count of a minute is told, once a later record shows that the minute is over. F-122, F-125.
func ExampleWindowedTable_Suppress() {
	b := streams.NewBuilder()
	b.Stream(orders).
		GroupBy(bySKU).
		WindowedBy(window.Tumbling(time.Minute).Grace(10 * time.Second)).
		Count("per-minute").
		Suppress(streams.UntilWindowCloses).
		ToStream().
		Map(func(k window.Windowed[string], n int64) (string, string) {
			return k.Key, fmt.Sprintf("%d in %s", n, k.Start.Format("15:04"))
		}).
		Print("final")

	try(b, func(d *streamstest.Driver) {
		placed := d.Input(orders)
		placed.PipeAt(noon, "1", Order{"7", "pen", 2})
		placed.PipeAt(noon.Add(30*time.Second), "2", Order{"8", "pen", 2})
		placed.PipeAt(noon.Add(70*time.Second), "3", Order{"8", "bag", 80})
	})
	// Output:
	// [final]: pen, 2 in 12:00
}

// A table that changes often speaks at most once a minute for each key. F-072, F-124.
func ExampleTable_Suppress() {
	b := streams.NewBuilder()
	b.Stream(orders).
		GroupBy(bySKU).
		Count("orders-per-sku").
		Suppress(streams.UntilTimeLimit(time.Minute)).
		ToStream().
		Print("count")

	try(b, func(d *streamstest.Driver) {
		placed := d.Input(orders)
		placed.PipeAt(noon, "1", Order{"7", "pen", 2})
		placed.PipeAt(noon.Add(30*time.Second), "2", Order{"8", "pen", 2})
		placed.PipeAt(noon.Add(time.Minute), "3", Order{"8", "pen", 80})
	})
	// Output:
	// [count]: pen, 3
}

// Orders and payments of one key make one account. F-074.
func ExampleCogrouped_Aggregate() {
	b := streams.NewBuilder()
	b.Stream(orders).GroupByKey().
		Cogroup(func(open int64, _ string, o Order) int64 { return open + o.Amount }).
		Cogroup(b.Stream(payments).GroupByKey(), func(open int64, _ string, p Payment) int64 { return open - p.Amount }).
		Aggregate("accounts", func() int64 { return 0 }).
		ToStream().
		Print("open")

	try(b, func(d *streamstest.Driver) {
		placed, paid := d.Input(orders), d.Input(payments)
		placed.Pipe("ada", Order{"7", "bag", 80})
		paid.Pipe("ada", Payment{50})
		placed.Pipe("ada", Order{"8", "pen", 2})
	})
	// Output:
	// [open]: ada, 80
	// [open]: ada, 30
	// [open]: ada, 32
}

// A windowed stream written as it is, and to a topic for each day. F-013, F-017.
func ExampleWindowedStream_Print() {
	b := streams.NewBuilder()
	counts := b.Stream(orders).
		GroupBy(bySKU).
		WindowedBy(window.Tumbling(24 * time.Hour)).
		Count("per-day").
		ToStream()
	counts.Print("day")
	counts.Route(func(r streams.Record[window.Windowed[string], int64], _ streams.Origin) string {
		return "orders-" + r.Key.Start.Format("2006-01-02")
	})

	try(b, func(d *streamstest.Driver) {
		d.Input(orders).PipeAt(noon, "1", Order{"7", "pen", 2})
		fmt.Println(slices.Contains(d.Topics(), "orders-2026-01-01"))
	})
	// Output:
	// [day]: [pen@1767225600000/1767312000000], 1
	// true
}

// The result of several partitions has no order over keys; a table does not need one. F-033.
func Example_partitions() {
	b := streams.NewBuilder()
	b.Stream(lines).
		FlatMapValues(strings.Fields).
		GroupBy(func(_, word string) string { return word }).
		Count("counts").
		ToStream().
		To(totals)

	try(b, func(d *streamstest.Driver) {
		in, out := d.Input(lines), d.Output(totals)
		in.To(0).PipeValues("to be or")
		in.To(2).PipeValues("not to be")
		last := streamstest.Latest(out)
		for _, word := range slices.SortedFunc(maps.Keys(last), func(a, c string) int { return cmp.Or(cmp.Compare(last[c], last[a]), cmp.Compare(a, c)) }) {
			fmt.Println(word, last[word])
		}
	}, streamstest.Partitions("lines", 3))
	// Output:
	// be 2
	// to 2
	// not 1
	// or 1
}
