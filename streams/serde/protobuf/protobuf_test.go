package protobuf_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"uuid"

	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/streams/serde/avro"
	"github.com/millrace/millrace/streams/serde/protobuf"
	"github.com/millrace/millrace/streams/serde/protobuf/internal/orderpb"
	"github.com/millrace/millrace/streams/serde/registry"
	"github.com/millrace/millrace/streams/streamstest"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// fake is a registry without a network.
type fake struct{ *srfake.Registry }

func (f fake) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	f.Handler().ServeHTTP(w, r)
	return w.Result(), nil
}

func newFake(t testing.TB) (fake, *sr.Client) {
	f := fake{srfake.NewRegistry()}
	cl, err := sr.NewClient(sr.URLs("http://registry:8081"), sr.HTTPClient(&http.Client{Transport: f}))
	if err != nil {
		t.Fatal(err)
	}
	return f, cl
}

var at = serde.Place{Topic: "orders"}

func order() *orderpb.Order {
	return &orderpb.Order{
		Id: "o1", Items: []*orderpb.Order_Item{{Sku: "pen", Count: 2}}, Total: &orderpb.Money{Currency: "EUR", Cents: 250},
		At: &timestamppb.Timestamp{Seconds: 1}, Labels: map[string]string{"b": "2", "a": "1", "c": "3"},
	}
}

// The id, the path of the message in its file, the message. Imported files are registered before the file itself, those that every registry has are not.
func TestBytes(t *testing.T) {
	f, cl := newFake(t)
	r := registry.New(cl, registry.AutoRegister())
	for _, c := range []struct {
		name   string
		encode func() ([]byte, error)
		want   string
	}{
		{"first message", func() ([]byte, error) {
			return protobuf.Serde[*orderpb.Customer](r).Append(nil, at, &orderpb.Customer{Name: "x"})
		}, "\x00\x00\x00\x00\x02" + "\x00" + "\x0a\x01x"},
		{"second message", func() ([]byte, error) {
			return protobuf.Serde[*orderpb.Order](r).Append(nil, at, &orderpb.Order{Id: "x"})
		}, "\x00\x00\x00\x00\x02" + "\x02\x02" + "\x0a\x01x"},
		// Its index is 1: the entries of the map before it are messages of the file as well, and Java counts them.
		{"nested message", func() ([]byte, error) {
			return protobuf.Serde[*orderpb.Order_Item](r).Append(nil, at, &orderpb.Order_Item{Sku: "x"})
		}, "\x00\x00\x00\x00\x02" + "\x04\x02\x02" + "\x0a\x01x"},
	} {
		if b, err := c.encode(); err != nil || string(b) != c.want {
			t.Errorf("%s: %x, %v; want %x", c.name, b, err, c.want)
		}
	}
	subjects, err := cl.Subjects(t.Context())
	slices.Sort(subjects)
	if want := []string{"orders-value", "shop/money.proto"}; err != nil || !slices.Equal(subjects, want) {
		t.Errorf("subjects %q, %v; want %q", subjects, err, want)
	}
	schema, _ := f.GetSchema("orders-value", 1)
	if len(schema.References) != 1 || schema.References[0] != (sr.SchemaReference{Name: "shop/money.proto", Subject: "shop/money.proto", Version: 1}) {
		t.Errorf("references %v", schema.References)
	}
}

func TestRoundTrip(t *testing.T) {
	_, cl := newFake(t)
	s := protobuf.Serde[*orderpb.Order](registry.New(cl, registry.AutoRegister()))
	var first []byte
	for range 20 { // maps have no order of their own
		b, err := s.Append(nil, at, order())
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = b
		}
		if string(b) != string(first) {
			t.Fatalf("%x and %x are of equal messages", first, b)
		}
	}
	got, err := s.Decode(at, first)
	if err != nil || !proto.Equal(got, order()) {
		t.Errorf("%v, %v", got, err)
	}
}

// In headers, the path of the message follows the GUID.
func TestHeaderForm(t *testing.T) {
	f, cl := newFake(t)
	s := protobuf.Serde[*orderpb.Order_Item](registry.New(cl, registry.AutoRegister(), registry.InHeaders())).(serde.HeaderSerde[*orderpb.Order_Item])
	var headers []serde.Header
	b, err := s.AppendWithHeaders(nil, at, &headers, &orderpb.Order_Item{Sku: "x"})
	if err != nil || string(b) != "\x0a\x01x" {
		t.Fatalf("%x, %v", b, err)
	}
	schema, _ := f.GetSchema("orders-value", 1)
	guid := uuid.MustParse(schema.GUID)
	if want := "\x01" + string(guid[:]) + "\x04\x02\x02"; len(headers) != 1 || headers[0].Key != "__value_schema_id" || string(headers[0].Value) != want {
		t.Errorf("headers %q, want %q", headers, want)
	}
	if got, err := s.DecodeWithHeaders(at, headers, b); err != nil || got.Sku != "x" {
		t.Errorf("%v, %v", got, err)
	}
}

// Java does not count the entries of maps if it normalizes schemas.
func TestPathWithoutMapEntries(t *testing.T) {
	_, cl := newFake(t)
	s := protobuf.Serde[*orderpb.Order_Item](registry.New(cl, registry.AutoRegister()))
	if _, err := s.Append(nil, at, &orderpb.Order_Item{Sku: "x"}); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Decode(at, []byte("\x00\x00\x00\x00\x02\x04\x02\x00\x0a\x01x")); err != nil || got.Sku != "x" {
		t.Errorf("%v, %v", got, err)
	}
}

func TestOtherMessages(t *testing.T) {
	f, cl := newFake(t)
	r := registry.New(cl, registry.AutoRegister())
	b, err := protobuf.Serde[*orderpb.Customer](r).Append(nil, at, &orderpb.Customer{Name: "x"})
	if err != nil {
		t.Fatal(err)
	}
	orders := protobuf.Serde[*orderpb.Order](r)
	if _, err = orders.Decode(at, b); err == nil || !strings.Contains(err.Error(), "the message is a shop.Customer, and the serde reads shop.Order") {
		t.Errorf("another message: %v", err)
	}
	if _, err = orders.Decode(at, []byte("\x00\x00\x00\x00\x02\x02\x0e")); err == nil || !strings.Contains(err.Error(), "no message at [7]") {
		t.Errorf("no message: %v", err)
	}
	if _, err = orders.Decode(at, []byte("\x00\x00\x00\x00\x02\x01")); !errors.Is(err, registry.ErrForm) {
		t.Errorf("no path: %v", err)
	}
	if _, err = orders.Decode(at, []byte("\x00\x00\x00\x00\x02\x02\x02\x0a\x09x")); err == nil || !strings.Contains(err.Error(), "value of topic orders") {
		t.Errorf("cut off: %v", err)
	}
	if _, err = orders.Decode(at, []byte("\x00\x00\x00\x00\x63\x00")); !errors.Is(err, registry.ErrUnknownSchema) {
		t.Errorf("unknown schema: %v", err)
	}
	// A registry that knows only text leaves the name of the message unseen.
	f.SeedSchema("text-value", 1, 40, sr.Schema{Schema: `syntax = "proto3"; message Order { string id = 1; }`, Type: sr.TypeProtobuf})
	if got, err := orders.Decode(at, []byte("\x00\x00\x00\x00\x28\x00\x0a\x01x")); err != nil || got.Id != "x" {
		t.Errorf("text: %v, %v", got, err)
	}
}

func TestTypeMustBeGenerated(t *testing.T) {
	_, cl := newFake(t)
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	protobuf.Serde[proto.Message](registry.New(cl))
}

// sale is the Avro side of the topology below.
type sale struct {
	SKU   string `avro:"sku"`
	Cents int64  `avro:"cents"`
}

// A topology reads Avro, keeps Avro in a store, and writes Protobuf. What has no schema goes to the handler, and the record after it is processed. F-035.
func TestTopologyFromAvroToProtobuf(t *testing.T) {
	f, cl := newFake(t)
	reg := registry.New(cl, registry.AutoRegister())
	sales := streams.NewTopic("sales", serde.String, avro.Serde[sale](reg))
	totals := streams.NewTopic("totals", serde.String, protobuf.Serde[*orderpb.Money](reg))

	b := streams.NewBuilder()
	b.Stream(sales).
		GroupByKey().
		Reduce("revenue", func(a, b sale) sale { return sale{b.SKU, a.Cents + b.Cents} }).
		ToStream().
		MapValues(func(s sale) *orderpb.Money { return &orderpb.Money{Currency: "EUR", Cents: s.Cents} }).
		To(totals)
	topology, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	var failures []streams.Failure
	d := streamstest.New(t, topology, streamstest.WithConfig(streams.Config{OnDecodeError: func(_ context.Context, f streams.Failure) streams.Response {
		failures = append(failures, f)
		return streams.Resume
	}}))
	in, out := d.Input(sales), d.Output(totals)
	in.Pipe("berlin", sale{"pen", 100})
	in.PipeRaw([]byte("berlin"), []byte(`{"sku":"pen","cents":100}`))
	in.PipeRaw([]byte("berlin"), []byte("\x00\x00\x00\x00\x63\x06pen\x02"))
	d.Restart(streamstest.StateLost)
	in.Pipe("berlin", sale{"ink", 250})
	var got []int64
	for _, r := range out.ReadAll() {
		got = append(got, r.Value.Cents)
	}
	if !slices.Equal(got, []int64{100, 350}) {
		t.Errorf("totals %v", got)
	}
	if len(failures) != 2 || !errors.Is(failures[0].Err, registry.ErrForm) || !errors.Is(failures[1].Err, registry.ErrUnknownSchema) ||
		failures[1].Stage != streams.DecodeValue || failures[1].Origin.Offset != 2 {
		t.Errorf("failures %v", failures)
	}
	for _, subject := range []string{"sales-value", "test-revenue-changelog-value", "totals-value"} {
		if !f.SubjectExists(subject) {
			t.Errorf("no subject %s", subject)
		}
	}
}

// Bytes from elsewhere are an error or a message that is written and read again, never a panic.
func FuzzDecode(f *testing.F) {
	_, cl := newFake(f)
	s := protobuf.Serde[*orderpb.Order](registry.New(cl, registry.AutoRegister()))
	b, err := s.Append(nil, at, order())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte("\x00\x00\x00\x00\x02\x02\x02"))
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := s.Decode(at, data)
		if err != nil {
			return
		}
		b, err := s.Append(nil, at, v)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := s.Decode(at, b); err != nil || !proto.Equal(again, v) {
			t.Fatalf("%v came back as %v, %v", v, again, err)
		}
	})
}
