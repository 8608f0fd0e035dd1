// Package registry is what serdes with a schema registry share: Confluent's wire forms, the subjects of schemas, the registry's client and its cache.
// The serdes themselves are in the packages avro and protobuf below streams/serde. A program that imports none of them carries none of this.
//
//	cl, err := sr.NewClient(sr.URLs("http://localhost:8081"))
//	…
//	reg := registry.New(cl)
//	orders := streams.NewTopic("orders", serde.String, avro.Serde[Order](reg))
//
// # Bytes
//
// A value begins with a byte 0 and the id of its schema in 4 bytes, big-endian; Protobuf adds the path of the message in its file. With the option
// [InHeaders] the schema's GUID is in the header __value_schema_id (__key_schema_id for keys) instead, after a byte 1. Both forms are read, whatever the
// options say. Where a record has no headers, as in stores, the first form is written. These are the forms of Confluent's serializers in Java.
//
// # Subjects
//
// A schema is registered under a subject, by default that of Java's TopicNameStrategy. A store's topic is its changelog, or the source topic that serves as
// one (F-035), and so has a subject of its own.
//
// # What can go wrong
//
// A serde asks the registry once for each schema it writes or reads. The worker waits for the answer; heartbeats go on. A registry that does not answer is
// asked again until [Timeout]. What then fails goes the way of every failed record, to Config.OnDecodeError or OnProduceError. The sentinels of this package
// tell the causes apart, so that a handler can skip records that are broken ([ErrForm], [ErrUnknownSchema]) and yet stop while the registry is away
// ([ErrUnavailable]).
package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/millrace/millrace/streams/serde"
	"github.com/twmb/franz-go/pkg/sr"
)

// Errors that handlers branch on.
var (
	ErrUnavailable   = errors.New("the schema registry does not answer")
	ErrUnknownSchema = errors.New("the schema registry does not know the schema")
	ErrNotRegistered = errors.New("the schema is not registered")
	ErrIncompatible  = errors.New("the schema is not compatible")
	ErrForm          = errors.New("the bytes do not begin with the id of a schema")
)

// Registry is a schema registry as serdes see it. It may be used by several goroutines at once.
type Registry struct {
	cl       *sr.Client
	settings settings
}

// New returns a registry that asks cl. The options are the defaults of all serdes made with it.
func New(cl *sr.Client, opts ...Option) *Registry {
	r := &Registry{cl, settings{naming: TopicName, timeout: 10 * time.Second}}
	r.settings.apply(opts)
	return r
}

// settings are what options set.
type settings struct {
	naming   Naming
	register bool
	headers  bool
	timeout  time.Duration
}

func (s *settings) apply(opts []Option) {
	for _, o := range opts {
		if o != nil {
			o(s)
		}
	}
}

// Option changes how a serde uses the registry.
type Option func(*settings)

// AutoRegister registers a schema when it is first written. Without it the schema must be there, which in production is the safer way (Java's
// auto.register.schemas=false).
func AutoRegister() Option { return func(s *settings) { s.register = true } }

// InHeaders writes the GUID of the schema into a header instead of its id before the value. The registry must have GUIDs (Confluent Platform 8).
func InHeaders() Option { return func(s *settings) { s.headers = true } }

// SubjectBy chooses the subject of a schema. Default: [TopicName].
func SubjectBy(n Naming) Option { return func(s *settings) { s.naming = n } }

// Timeout is how long a registry that does not answer is asked again, before a record fails. Default: 10 s.
func Timeout(d time.Duration) Option { return func(s *settings) { s.timeout = d } }

// Naming makes the subject of a schema from the place of a value and the full name of its record or message.
type Naming func(at serde.Place, record string) string

// TopicName is Java's TopicNameStrategy: the topic, and -key or -value.
func TopicName(at serde.Place, _ string) string {
	if at.Key {
		return at.Topic + "-key"
	}
	return at.Topic + "-value"
}

// RecordName is Java's RecordNameStrategy: the name of the record, one subject for all topics.
func RecordName(_ serde.Place, record string) string { return record }

// TopicRecordName is Java's TopicRecordNameStrategy: several kinds of records in a topic, each with a subject.
func TopicRecordName(at serde.Place, record string) string { return at.Topic + "-" + record }

// Schema is a schema with those that it refers to.
type Schema struct {
	Type       sr.SchemaType
	Text       string
	References []Reference
}

// Reference is a schema that another one refers to.
type Reference struct {
	Name    string // how the other one calls it: an Avro type's full name, the path of an imported file
	Subject string
	Schema  Schema
}

// ids are the names of a registered schema.
type ids struct {
	id      int
	guid    string // empty with registries that have none
	version int
}

// register finds out the ids of a schema under a subject.
func (r *Registry) register(s settings, subject string, schema Schema) (ids, error) {
	out := sr.Schema{Type: schema.Type, Schema: schema.Text}
	for _, ref := range schema.References {
		at, err := r.register(s, ref.Subject, ref.Schema)
		if err != nil {
			return ids{}, err
		}
		out.References = append(out.References, sr.SchemaReference{Name: ref.Name, Subject: ref.Subject, Version: at.version})
	}
	var found sr.SubjectSchema
	err := r.ask(s, func(ctx context.Context) (err error) {
		if s.register {
			if _, err := r.cl.RegisterSchema(ctx, subject, out, -1, -1); err != nil {
				return err
			}
		}
		found, err = r.cl.LookupSchema(ctx, subject, out)
		return err
	})
	var answer *sr.ResponseError
	switch {
	case err == nil:
		return ids{found.ID, found.GUID, found.Version}, nil
	case !errors.As(err, &answer):
	case answer.StatusCode == http.StatusNotFound:
		err = fmt.Errorf("%w under this subject; register it, or give the option registry.AutoRegister: %w", ErrNotRegistered, err)
	case answer.StatusCode == http.StatusConflict:
		err = fmt.Errorf("%w with those that the subject has; change it as the subject's compatibility level allows, or the level: %w", ErrIncompatible, err)
	}
	return ids{}, fmt.Errorf("registry: subject %s: %w", subject, err)
}

// byID reads a schema, and what it refers to.
func (r *Registry) byID(s settings, k key, kind sr.SchemaType) (Schema, error) {
	var found sr.Schema
	err := r.ask(s, func(ctx context.Context) error {
		ctx = formatted(ctx, kind)
		if k.guid != "" {
			at, err := r.cl.SchemaByGUID(ctx, k.guid)
			found = at.Schema
			return err
		}
		var err error
		found, err = r.cl.SchemaByID(ctx, k.id)
		return err
	})
	if err != nil {
		var answer *sr.ResponseError
		if errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound {
			err = fmt.Errorf("%w; is it the registry that the writer used? %w", ErrUnknownSchema, err)
		}
		return Schema{}, fmt.Errorf("registry: schema %v: %w", k, err)
	}
	if found.Type != kind {
		return Schema{}, fmt.Errorf("registry: schema %v is of type %v, and the serde reads %v", k, found.Type, kind)
	}
	return r.complete(s, found, 0)
}

// deepest is how many schemas may refer to one another in a row. A registry refuses cycles; this is for one that does not.
const deepest = 100

// complete reads what a schema refers to.
func (r *Registry) complete(s settings, found sr.Schema, depth int) (Schema, error) {
	schema := Schema{Type: found.Type, Text: found.Schema}
	if depth > deepest {
		return schema, errors.New("registry: schemas refer to one another without end")
	}
	for _, ref := range found.References {
		var at sr.SubjectSchema
		err := r.ask(s, func(ctx context.Context) (err error) {
			at, err = r.cl.SchemaByVersion(formatted(ctx, found.Type), ref.Subject, ref.Version)
			return err
		})
		if err != nil {
			return schema, fmt.Errorf("registry: version %d of subject %s, which is referred to as %s: %w", ref.Version, ref.Subject, ref.Name, err)
		}
		inner, err := r.complete(s, at.Schema, depth+1)
		if err != nil {
			return schema, err
		}
		schema.References = append(schema.References, Reference{ref.Name, ref.Subject, inner})
	}
	return schema, nil
}

// formatted asks for Protobuf schemas as descriptors: there is no parser of their text here.
func formatted(ctx context.Context, kind sr.SchemaType) context.Context {
	if kind == sr.TypeProtobuf {
		return sr.WithParams(ctx, sr.Format("serialized"))
	}
	return ctx
}

// ask calls f until the registry answers, or too much time has passed.
func (r *Registry) ask(s settings, f func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.timeout)
	defer cancel()
	for wait := 50 * time.Millisecond; ; wait = min(2*wait, time.Second) {
		err := f(ctx)
		var answer *sr.ResponseError
		switch {
		case err == nil:
			return nil
		case !errors.As(err, &answer):
		case answer.StatusCode == http.StatusUnauthorized, answer.StatusCode == http.StatusForbidden:
			return fmt.Errorf("the schema registry refuses the user; look at sr.BasicAuth or sr.BearerToken of its client: %w", err)
		case answer.StatusCode < 500 && answer.StatusCode != http.StatusTooManyRequests:
			return err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w for %v; is it up, and are its addresses right (sr.URLs)? %w", ErrUnavailable, s.timeout, err)
		}
	}
}
