package avro_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"uuid"

	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/streams/serde/avro"
	"github.com/millrace/millrace/streams/serde/registry"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"
	"pgregory.net/rapid"
)

// fake is a registry without a network, so that it can stand in a bubble of synctest.
type fake struct {
	*srfake.Registry
	client *sr.Client
	asked  atomic.Int64
	down   atomic.Bool
}

func newFake(t testing.TB) *fake {
	f := &fake{Registry: srfake.NewRegistry()}
	cl, err := sr.NewClient(sr.URLs("http://registry:8081"), sr.HTTPClient(&http.Client{Transport: f}))
	if err != nil {
		t.Fatal(err)
	}
	f.client = cl
	return f
}

func (f *fake) RoundTrip(r *http.Request) (*http.Response, error) {
	f.asked.Add(1)
	if f.down.Load() {
		return nil, errors.New("connection refused")
	}
	w := httptest.NewRecorder()
	f.Handler().ServeHTTP(w, r)
	return w.Result(), nil
}

type Order struct {
	ID     string `avro:"id"`
	Amount int64  `avro:"amount"`
}

const orderSchema = `{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"id","type":"string"},{"name":"amount","type":"long"}]}`

var (
	value = serde.Place{Topic: "orders"}
	keyed = serde.Place{Topic: "orders", Key: true}
)

func seed(f *fake, subject string, id int, schema string) {
	f.SeedSchema(subject, 1, id, sr.Schema{Schema: schema, Type: sr.TypeAvro})
}

// A value on the wire: a byte 0, the id, and Avro's binary form (a string's length and a long are zigzag varints).
func TestBytes(t *testing.T) {
	f := newFake(t)
	seed(f, "orders-value", 258, orderSchema)
	s := avro.SerdeOf[Order](registry.New(f.client), orderSchema)
	want := "\x00\x00\x00\x01\x02\x04o1\x54"
	b, err := s.Append([]byte("before"), value, Order{"o1", 42})
	if err != nil || string(b) != "before"+want {
		t.Fatalf("%x, %v; want %x", b, err, want)
	}
	got, err := s.Decode(value, []byte(want))
	if err != nil || got != (Order{"o1", 42}) {
		t.Errorf("%v, %v", got, err)
	}
	asked := f.asked.Load()
	for range 10 {
		if b, err = s.Append(nil, value, Order{"o2", 1}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Decode(value, b); err != nil {
			t.Fatal(err)
		}
	}
	if f.asked.Load() != asked {
		t.Errorf("the registry was asked %d times for what is known", f.asked.Load()-asked)
	}
}

// Java's serializer writes a value of the schema "bytes" without Avro's length; other primitives have Avro's form.
func TestPrimitives(t *testing.T) {
	f := newFake(t)
	r := registry.New(f.client, registry.AutoRegister())
	raw := avro.SerdeOf[[]byte](r, `"bytes"`)
	b, err := raw.Append(nil, serde.Place{Topic: "raw"}, []byte{1, 2})
	if err != nil || !bytes.Equal(b, []byte{0, 0, 0, 0, 1, 1, 2}) {
		t.Errorf("bytes: %x, %v", b, err)
	}
	if v, err := raw.Decode(serde.Place{Topic: "raw"}, b); err != nil || !bytes.Equal(v, []byte{1, 2}) {
		t.Errorf("bytes: %x, %v", v, err)
	}
	number := avro.SerdeOf[int64](r, `"long"`)
	if b, err = number.Append(nil, serde.Place{Topic: "numbers"}, 64); err != nil || !bytes.Equal(b, []byte{0, 0, 0, 0, 2, 0x80, 1}) {
		t.Errorf("long: %x, %v", b, err)
	}
	if v, err := number.Decode(serde.Place{Topic: "numbers"}, b); err != nil || v != 64 {
		t.Errorf("long: %d, %v", v, err)
	}
}

func TestSubjects(t *testing.T) {
	for name, c := range map[string]struct {
		opts []registry.Option
		want []string
	}{
		"topic":        {nil, []string{"orders-key", "orders-value"}},
		"record":       {[]registry.Option{registry.SubjectBy(registry.RecordName)}, []string{"shop.Order"}},
		"topic record": {[]registry.Option{registry.SubjectBy(registry.TopicRecordName)}, []string{"orders-shop.Order"}},
		"own": {[]registry.Option{registry.SubjectBy(func(at serde.Place, record string) string { return fmt.Sprint(at.Key, record) })},
			[]string{"falseshop.Order", "trueshop.Order"}},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t)
			s := avro.SerdeOf[Order](registry.New(f.client, registry.AutoRegister()), orderSchema, c.opts...)
			for _, at := range []serde.Place{value, keyed} {
				if _, err := s.Append(nil, at, Order{}); err != nil {
					t.Fatal(err)
				}
			}
			subjects, err := f.client.Subjects(t.Context())
			slices.Sort(subjects)
			if err != nil || !slices.Equal(subjects, c.want) {
				t.Errorf("subjects %q, %v; want %q", subjects, err, c.want)
			}
		})
	}
}

// A field that is new has its default, one that is gone is skipped, an int becomes a long.
func TestSchemasChange(t *testing.T) {
	f := newFake(t)
	const old = `{"type":"record","name":"Order","fields":[{"name":"id","type":"string"},{"name":"gone","type":"boolean"},{"name":"amount","type":"int"}]}`
	const now = `{"type":"record","name":"Order","fields":[{"name":"id","type":"string"},{"name":"amount","type":"long"},{"name":"currency","type":"string","default":"EUR"}]}`
	seed(f, "orders-value", 1, old)
	f.SeedSchema("orders-value", 2, 2, sr.Schema{Schema: now, Type: sr.TypeAvro})
	type oldOrder struct {
		ID     string `avro:"id"`
		Gone   bool   `avro:"gone"`
		Amount int32  `avro:"amount"`
	}
	type newOrder struct {
		ID       string `avro:"id"`
		Amount   int64  `avro:"amount"`
		Currency string `avro:"currency"`
	}
	r := registry.New(f.client)
	b, err := avro.SerdeOf[oldOrder](r, old).Append(nil, value, oldOrder{"o1", true, 5})
	if err != nil {
		t.Fatal(err)
	}
	got, err := avro.SerdeOf[newOrder](r, now).Decode(value, b)
	if err != nil || got != (newOrder{"o1", 5, "EUR"}) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err = avro.SerdeOf[oldOrder](r, old).Append(nil, serde.Place{Topic: "other"}, oldOrder{}); !errors.Is(err, registry.ErrNotRegistered) {
		t.Errorf("another topic: %v", err)
	}
	type wrong struct {
		ID int64 `avro:"id"`
	}
	_, err = avro.SerdeOf[wrong](r, `{"type":"record","name":"Order","fields":[{"name":"id","type":"long"}]}`).Decode(value, b)
	if err == nil || !strings.Contains(err.Error(), "does not fit") {
		t.Errorf("a schema that does not fit: %v", err)
	}
}

// The schema of what was written may refer to others in the registry.
func TestReferences(t *testing.T) {
	f := newFake(t)
	seed(f, "money", 1, `{"type":"record","name":"Money","namespace":"shop","fields":[{"name":"cents","type":"long"}]}`)
	f.SeedSchema("orders-value", 1, 2, sr.Schema{
		Schema: `{"type":"record","name":"Priced","namespace":"shop","fields":[{"name":"price","type":"shop.Money"}]}`, Type: sr.TypeAvro,
		References: []sr.SchemaReference{{Name: "shop.Money", Subject: "money", Version: 1}},
	})
	type Money struct {
		Cents int64 `avro:"cents"`
	}
	type Priced struct {
		Price Money `avro:"price"`
	}
	s := avro.SerdeOf[Priced](registry.New(f.client),
		`{"type":"record","name":"Priced","namespace":"shop","fields":[{"name":"price","type":{"type":"record","name":"Money","fields":[{"name":"cents","type":"long"}]}}]}`)
	if got, err := s.Decode(value, []byte("\x00\x00\x00\x00\x02\x02")); err != nil || got.Price.Cents != 1 {
		t.Errorf("%v, %v", got, err)
	}
}

// headersOf is a serde as the runtime sees it.
func headersOf[T any](t *testing.T, s serde.Serde[T]) serde.HeaderSerde[T] {
	t.Helper()
	h, ok := s.(serde.HeaderSerde[T])
	if !ok {
		t.Fatal("not a serde with headers")
	}
	return h
}

// The form with headers has the GUID after a byte 1 in a header, and the value alone. Serdes without the option read it too.
func TestHeaderForm(t *testing.T) {
	f := newFake(t)
	r := registry.New(f.client, registry.AutoRegister())
	inHeaders := headersOf(t, avro.SerdeOf[Order](r, orderSchema, registry.InHeaders()))
	plain := headersOf(t, avro.SerdeOf[Order](r, orderSchema))
	for _, at := range []serde.Place{value, keyed} {
		name := map[bool]string{false: "__value_schema_id", true: "__key_schema_id"}[at.Key]
		shared := []serde.Header{{Key: "trace", Value: []byte("1")}, {Key: name, Value: []byte("of another schema")}}
		headers := shared
		b, err := inHeaders.AppendWithHeaders(nil, at, &headers, Order{"o1", 42})
		if err != nil || string(b) != "\x04o1\x54" {
			t.Fatalf("%x, %v", b, err)
		}
		registered, err := f.client.SchemaByVersion(t.Context(), registry.TopicName(at, ""), 1)
		if err != nil {
			t.Fatal(err)
		}
		guid := uuid.MustParse(registered.GUID)
		want := []serde.Header{{Key: "trace", Value: []byte("1")}, {Key: name, Value: append([]byte{1}, guid[:]...)}}
		if !reflect.DeepEqual(headers, want) {
			t.Errorf("headers %q, want %q", headers, want)
		}
		if string(shared[1].Value) != "of another schema" {
			t.Error("the headers of the record were changed, which others see")
		}
		for _, s := range []serde.HeaderSerde[Order]{inHeaders, plain} {
			if got, err := s.DecodeWithHeaders(at, headers, b); err != nil || got != (Order{"o1", 42}) {
				t.Errorf("%v, %v", got, err)
			}
		}
		// Passed on in the other form, the record must not keep the header: readers would take the prefix for a part of the value.
		b, err = plain.AppendWithHeaders(nil, at, &headers, Order{"o2", 1})
		if err != nil || !reflect.DeepEqual(headers, want[:1]) {
			t.Errorf("headers %q, %v", headers, err)
		}
		if got, err := inHeaders.DecodeWithHeaders(at, headers, b); err != nil || got != (Order{"o2", 1}) {
			t.Errorf("%v, %v", got, err)
		}
		// A store has no headers.
		if b, err = inHeaders.Append(nil, at, Order{"o3", 1}); err != nil || b[0] != 0 {
			t.Errorf("%x, %v", b, err)
		}
	}
	for _, bad := range []string{"", "\x01", "\x00\x00\x00\x00\x01and more", "\x02"} {
		_, err := plain.DecodeWithHeaders(value, []serde.Header{{Key: "__value_schema_id", Value: []byte(bad)}}, nil)
		if !errors.Is(err, registry.ErrForm) {
			t.Errorf("header %x: %v", bad, err)
		}
	}
}

// A registry from before the GUIDs.
func TestHeaderFormNeedsGUIDs(t *testing.T) {
	f := newFake(t)
	f.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != http.MethodPost {
			return false
		}
		json.NewEncoder(w).Encode(map[string]any{"id": 1, "version": 1, "subject": "orders-value", "schema": orderSchema})
		return true
	})
	s := headersOf(t, avro.SerdeOf[Order](registry.New(f.client), orderSchema, registry.InHeaders()))
	var headers []serde.Header
	if _, err := s.AppendWithHeaders(nil, value, &headers, Order{}); err == nil || !strings.Contains(err.Error(), "no GUID") || headers != nil {
		t.Errorf("%v, headers %v", err, headers)
	}
}

// What the registry has not, and what its answers are told as.
func TestErrors(t *testing.T) {
	f := newFake(t)
	seed(f, "orders-value", 1, orderSchema)
	f.SeedSchema("other-value", 1, 9, sr.Schema{Schema: `{}`, Type: sr.TypeJSON})
	r := registry.New(f.client)
	s := avro.SerdeOf[Order](r, orderSchema)
	check := func(err, is error, says ...string) {
		t.Helper()
		if err == nil || is != nil && !errors.Is(err, is) {
			t.Errorf("%v is not %v", err, is)
			return
		}
		for _, part := range says {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%q does not say %q", err, part)
			}
		}
	}
	_, err := s.Decode(value, []byte("\x00\x00\x00\x00\x05\x00"))
	check(err, registry.ErrUnknownSchema, "schema 5", "is it the registry that the writer used?")
	_, err = s.Decode(value, []byte(`{"id":1}`))
	check(err, registry.ErrForm, "value of topic orders", "0x7b226964", "written without a schema registry?")
	_, err = s.Decode(keyed, []byte("\x00\x00"))
	check(err, registry.ErrForm, "key of topic orders")
	_, err = s.Decode(value, nil)
	check(err, registry.ErrForm)
	_, err = s.Decode(value, []byte("\x00\x00\x00\x00\x01\x04o1"))
	check(err, nil, "value of topic orders", "schema 1")
	_, err = s.Decode(value, []byte("\x00\x00\x00\x00\x01\x04o1\x54\x00"))
	check(err, nil, "1 bytes are left")
	_, err = s.Decode(value, []byte("\x00\x00\x00\x00\x09{}"))
	check(err, nil, "schema 9 is of type JSON", "reads AVRO")
	_, err = s.Append(nil, keyed, Order{})
	check(err, registry.ErrNotRegistered, "subject orders-key", "registry.AutoRegister")

	for status, c := range map[int]struct {
		is  error
		say string
	}{
		http.StatusConflict:     {registry.ErrIncompatible, "compatibility level"},
		http.StatusUnauthorized: {nil, "sr.BasicAuth"},
		http.StatusForbidden:    {nil, "sr.BasicAuth"},
		422:                     {nil, "no such luck"},
	} {
		f.ClearInterceptors()
		f.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
			w.WriteHeader(status)
			fmt.Fprintf(w, `{"error_code":%d,"message":"no such luck"}`, status)
			return true
		})
		_, err := s.Append(nil, serde.Place{Topic: fmt.Sprint("t", status)}, Order{})
		check(err, c.is, c.say, "no such luck")
	}
}

// A registry that comes back in time is waited for, one that does not fails the record, and the next record asks again.
func TestRegistryAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t)
		s := avro.SerdeOf[Order](registry.New(f.client, registry.AutoRegister(), registry.Timeout(5*time.Second)), orderSchema)
		f.down.Store(true)
		began := time.Now()
		_, err := s.Append(nil, value, Order{"o1", 1})
		if !errors.Is(err, registry.ErrUnavailable) || !strings.Contains(err.Error(), "connection refused") || !strings.Contains(err.Error(), "is it up") {
			t.Errorf("%v", err)
		}
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("gave up after %v", took)
		}
		time.AfterFunc(2*time.Second, func() { f.down.Store(false) })
		b, err := s.Append(nil, value, Order{"o1", 1})
		if err != nil {
			t.Fatal(err)
		}
		broken := 3
		f.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
			if broken == 0 {
				return false
			}
			broken--
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		})
		if got, err := s.Decode(value, b); err != nil || got != (Order{"o1", 1}) || broken != 0 {
			t.Errorf("%v, %v, %d errors left", got, err, broken)
		}
	})
}

// Serdes belong to all workers at once.
func TestConcurrent(t *testing.T) {
	f := newFake(t)
	s := avro.SerdeOf[Order](registry.New(f.client, registry.AutoRegister()), orderSchema)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 200 {
				at := serde.Place{Topic: fmt.Sprint("t", j%3), Key: i%2 == 0}
				want := Order{fmt.Sprint(i, j), int64(j)}
				b, err := s.Append(nil, at, want)
				if err != nil {
					t.Error(err)
					return
				}
				if got, err := s.Decode(at, b); err != nil || got != want {
					t.Errorf("%v, %v; want %v", got, err, want)
				}
			}
		})
	}
	all.Wait()
}

// inferred has what a struct may have.
type inferred struct {
	Name   string            `avro:"name"`
	Count  int32             `avro:"count"`
	Price  float64           `avro:"price"`
	Tags   []string          `avro:"tags"`
	Labels map[string]string `avro:"labels"`
	Next   *Order            `avro:"next"`
}

func TestInferredSchemaRoundTrips(t *testing.T) {
	f := newFake(t)
	r := registry.New(f.client, registry.AutoRegister())
	s, pointers := avro.Serde[inferred](r), avro.Serde[*inferred](r)
	rapid.Check(t, func(t *rapid.T) {
		v := inferred{
			Name: rapid.String().Draw(t, "name"), Count: rapid.Int32().Draw(t, "count"), Price: rapid.Float64().Draw(t, "price"),
			Tags:   rapid.SliceOfN(rapid.String(), 1, 3).Draw(t, "tags"),
			Labels: rapid.MapOfN(rapid.String(), rapid.String(), 1, 3).Draw(t, "labels"),
		}
		if rapid.Bool().Draw(t, "more") {
			v.Next = &Order{ID: rapid.String().Draw(t, "id"), Amount: rapid.Int64().Draw(t, "amount")}
		}
		b, err := s.Append(nil, value, v)
		if err != nil {
			t.Fatal(err)
		}
		got, err := s.Decode(value, b)
		if err != nil || !reflect.DeepEqual(got, v) {
			t.Fatalf("%+v came back as %+v, %v", v, got, err)
		}
		p, err := pointers.Decode(value, b)
		if err != nil || !reflect.DeepEqual(*p, v) {
			t.Fatalf("%+v came back as %+v, %v", v, p, err)
		}
	})
}

func TestBadDeclarationsPanic(t *testing.T) {
	r := registry.New(newFake(t).client)
	for name, f := range map[string]func(){
		"no struct": func() { avro.Serde[int](r) },
		"no schema": func() { avro.SerdeOf[Order](r, `{"type":"tree"}`) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			f()
		}()
	}
}

// Bytes from elsewhere are an error or a value that is written and read again, never a panic.
func FuzzDecode(f *testing.F) {
	fk := newFake(f)
	seed(fk, "orders-value", 1, orderSchema)
	s := avro.SerdeOf[Order](registry.New(fk.client), orderSchema)
	f.Add([]byte("\x00\x00\x00\x00\x01\x04o1\x54"))
	f.Add([]byte("\x00\x00\x00\x00\x02\x04o1\x54"))
	f.Add([]byte("\x00\x00\x00\x00\x01\xfe\xff\xff\xff\x0f"))
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := s.Decode(value, data)
		if err != nil {
			return
		}
		b, err := s.Append(nil, value, v)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := s.Decode(value, b); err != nil || again != v {
			t.Fatalf("%v came back as %v, %v", v, again, err)
		}
	})
}
