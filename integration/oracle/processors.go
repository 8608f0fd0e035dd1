package oracle

import (
	"strconv"
	"time"

	"github.com/millrace/millrace/streams"
	"github.com/millrace/millrace/streams/serde"
)

// The processors of programs: "stamp" changes time and headers, "last" and "count" know what came before, "tick" gives what its store has at times of the
// wall clock. Their twins are in java/src/main/java/oracle/Processors.java.

// ownStore is the store of a processor.
func ownStoreOf[V value](b *builder, o Op) streams.KeyValueHandle[string, V] {
	h := streams.NewKeyValueStore(o.Store, serde.String, serdeOf[V](), options[streams.StoreOption](o)...)
	b.keep(storeRows(h))
	return h
}

func process[V value](b *builder, o Op, s *streams.Stream[string, V]) any {
	opts := options[streams.ProcessOption](o)
	if o.F == "count" {
		h := ownStoreOf[int64](b, o)
		return s.ProcessFunc(func(ctx *streams.Context[string, V], r streams.Record[string, V]) error {
			if !r.NullKey {
				r = r.WithValue(countRecord(ctx.Store(h), r))
			}
			ctx.Forward(r)
			return nil
		}, append(opts, streams.WithStores(h))...)
	}
	h := ownStoreOf[V](b, o)
	opts = append(opts, streams.WithStores(h))
	at := b.at
	switch o.F {
	case "stamp":
		return s.ProcessFunc(func(ctx *streams.Context[string, V], r streams.Record[string, V]) error {
			ctx.Forward(r.WithTimestamp(r.Timestamp.Add(ms(int64(o.N)))).WithHeader("p", []byte(strconv.Itoa(at))))
			if hash(r.Key+text(r.Value))%2 == 0 {
				ctx.Forward(r)
			}
			return nil
		}, opts...)
	case "last":
		return s.ProcessFunc(func(ctx *streams.Context[string, V], r streams.Record[string, V]) error {
			if out, ok := lastRecord(ctx.Store(h), r); ok {
				ctx.Forward(out)
			}
			return nil
		}, opts...)
	}
	return s.Process(func() *ticker[V] { return &ticker[V]{h, ms(200*int64(o.N) + int64(7*at))} }, opts...)
}

func processValues[V value](b *builder, o Op, s *streams.Stream[string, V]) any {
	opts := options[streams.ProcessOption](o)
	if o.F == "count" {
		h := ownStoreOf[int64](b, o)
		return s.ProcessValuesFunc(func(ctx *streams.FixedKeyContext[string, V], r streams.FixedKeyRecord[string, V]) error {
			if _, ok := r.Key(); ok {
				r = r.WithValue(countRecord(ctx.Store(h), r.Record()))
			}
			ctx.Forward(r)
			return nil
		}, append(opts, streams.WithStores(h))...)
	}
	h := ownStoreOf[V](b, o)
	opts = append(opts, streams.WithStores(h))
	at := b.at
	return s.ProcessValuesFunc(func(ctx *streams.FixedKeyContext[string, V], r streams.FixedKeyRecord[string, V]) error {
		rec := r.Record()
		if o.F == "last" {
			out, ok := lastRecord(ctx.Store(h), rec)
			switch {
			case ok && out.NullValue:
				ctx.Forward(r.Null())
			case ok:
				ctx.Forward(r.WithValue(out.Value))
			}
			return nil
		}
		ctx.Forward(r.WithTimestamp(rec.Timestamp.Add(ms(int64(o.N)))).WithHeaders(rec.Headers.With("p", []byte(strconv.Itoa(at)))))
		if hash(rec.Key+text(rec.Value))%2 == 0 {
			ctx.Forward(r)
		}
		return nil
	}, opts...)
}

// countRecord counts the records of a key.
func countRecord[V value](s streams.KeyValueStore[string, int64], r streams.Record[string, V]) V {
	n, _ := s.Get(r.Key)
	s.PutRecord(streams.Record[string, int64]{Key: r.Key, Value: n + 1, Timestamp: r.Timestamp})
	return as[V](result{text: decimal(n + 1)})
}

// lastRecord puts the value of a key before this one in front of it.
func lastRecord[V value](s streams.KeyValueStore[string, V], r streams.Record[string, V]) (streams.Record[string, V], bool) {
	if r.NullKey {
		return r, true
	}
	old, ok := s.GetRecord(r.Key)
	s.PutRecord(r)
	if r.NullValue {
		return r, ok
	}
	before := "-"
	if ok {
		before = text(old.Value) + "@" + decimal(old.Timestamp.UnixMilli())
	}
	return r.WithValue(as[V](join("concat", 0, before, text(r.Value)))), true
}

// ticker keeps the last value of each key and gives all of them at every interval.
type ticker[V value] struct {
	store    streams.KeyValueHandle[string, V]
	interval time.Duration
}

func (t *ticker[V]) Init(ctx *streams.Context[string, V]) error {
	ctx.Schedule(t.interval, streams.WallClockTime, func(ctx *streams.Context[string, V], now time.Time) error {
		for k, v := range ctx.Store(t.store).All() {
			ctx.Forward(streams.Record[string, V]{Key: k, Value: v, Timestamp: now})
		}
		return nil
	})
	return nil
}

func (t *ticker[V]) Process(ctx *streams.Context[string, V], r streams.Record[string, V]) error {
	if !r.NullKey {
		ctx.Store(t.store).PutRecord(r)
	}
	return nil
}

// processTable joins by hand, with the store of a table.
func processTable[V, W value](o Op, s *streams.Stream[string, V], t *streams.Table[string, W]) any {
	h := t.Store()
	return s.ProcessFunc(func(ctx *streams.Context[string, V], r streams.Record[string, V]) error {
		row, ok := ctx.Store(h).Get(r.Key)
		ctx.Forward(r.WithValue(as[V](join("concat", 0, text(r.Value), side(row, ok && !r.NullKey)))))
		return nil
	}, append(options[streams.ProcessOption](o), streams.WithStores(h))...)
}

// transformer maps rows, deleted ones too.
type transformer[V, U value] struct {
	f string
	n int
}

// Transformer is a [Mapper] with a context, for rows that may be deleted.
func Transformer[V, U value](f string, n int) func() transformer[V, U] {
	return func() transformer[V, U] { return transformer[V, U]{f, n} }
}

func (t transformer[V, U]) Transform(_ *streams.FixedKeyContext[string, U], k string, v V, ok bool) (u U, uok bool, err error) {
	if ok {
		return as[U](withKey(k, mapper(t.f, t.n, text(v)))), true, nil
	}
	if (hash(k)+uint32(t.n))%2 == 0 {
		return u, false, nil
	}
	return as[U](withKey(k, result{text: "gone"})), true, nil
}
