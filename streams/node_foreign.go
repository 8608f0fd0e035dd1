package streams

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/murmur3"

	"github.com/millrace/millrace/streams/serde"
	"github.com/millrace/millrace/topology"
)

// A foreign-key join, step by step: [subscribe] tells the partition of the other table which row refers to which key; [receiveSubscription] keeps that in a
// store there, and [answerSubscription] answers it; [answerAll] answers all subscribers of a row when it changes; [resolveForeign] joins an answer with
// the row as it is by then, if it is still the one that asked, which a hash of the value shows (F-114…F-120).

// instruction says what becomes of a subscription, and when it is answered.
type instruction byte

const (
	deleteSilently   instruction = iota // forget it
	deleteAndAnswer                     // forget it and answer that there is nothing
	answerAlways                        // keep it and answer, also that there is nothing
	answerIfThereAre                    // keep it and answer if there is something
)

// valueHash is the hash of a row's value; a deleted row has none.
type valueHash struct {
	hi, lo uint64
	ok     bool
}

// hasher computes hashes of values as Kafka Streams does: murmur3 of 128 bits, with its seed.
type hasher[V any] struct {
	serde placedSerde[V]
	buf   []byte
}

const hashSeed = 104729

func (h *hasher[V]) of(b *base, value V) valueHash {
	data, err := h.serde.Append(h.buf[:0], serde.Place{}, value)
	if err != nil {
		b.t.storeFailed(b.info.name, "encode value", err)
	}
	h.buf = data
	hi, lo := murmur3.SeedSum128(hashSeed, hashSeed, data)
	return valueHash{hi, lo, true}
}

// placedSerde is a serde that is told one place, whatever the caller says.
type placedSerde[T any] struct {
	inner serde.Serde[T]
	at    serde.Place
}

func (s placedSerde[T]) Append(dst []byte, _ serde.Place, v T) ([]byte, error) {
	return s.inner.Append(dst, s.at, v)
}

func (s placedSerde[T]) Decode(_ serde.Place, data []byte) (T, error) {
	return s.inner.Decode(s.at, data)
}

// subscription is a row's wish to hear about a row of the other table.
type subscription[K any] struct {
	hash      valueHash
	do        instruction
	key       K
	partition int32 // of the row; -1 if a writer before 3.4 did not say
}

// The form of subscriptions and answers: a version whose highest bit says that there is no hash, and what follows.
const (
	subscriptionVersion = 1
	noHash              = 0x80
	hashLen             = 16
)

func appendHash(dst []byte, version byte, h valueHash, between ...byte) []byte {
	if !h.ok {
		return append(append(dst, version|noHash), between...)
	}
	dst = append(append(dst, version), between...)
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(dst, h.hi), h.lo)
}

// cutHash reads what appendHash wrote.
func cutHash(data []byte, between int) (version byte, h valueHash, mid, rest []byte, err error) {
	if len(data) < 1+between {
		return 0, h, nil, nil, errors.New("it ends early")
	}
	version, h.ok = data[0]&^noHash, data[0]&noHash == 0
	mid, rest = data[1:1+between], data[1+between:]
	if !h.ok {
		return version, h, mid, rest, nil
	}
	if len(rest) < hashLen {
		return 0, h, nil, nil, errors.New("it ends early")
	}
	h.hi, h.lo = binary.BigEndian.Uint64(rest), binary.BigEndian.Uint64(rest[8:])
	return version, h, mid, rest[hashLen:], nil
}

// subscriptionSerde is the form of subscriptions on their topic and in their store.
type subscriptionSerde[K any] struct{ key placedSerde[K] }

func (s subscriptionSerde[K]) Append(dst []byte, at serde.Place, v subscription[K]) ([]byte, error) {
	dst, err := s.key.Append(appendHash(dst, subscriptionVersion, v.hash, byte(v.do)), at, v.key)
	return binary.BigEndian.AppendUint32(dst, uint32(v.partition)), err
}

func (s subscriptionSerde[K]) Decode(at serde.Place, data []byte) (v subscription[K], err error) {
	version, hash, do, rest, err := cutHash(data, 1)
	switch {
	case err != nil:
	case version > subscriptionVersion:
		err = fmt.Errorf("version %d is not known", version)
	case do[0] > byte(answerIfThereAre):
		err = fmt.Errorf("instruction %d is not known", do[0])
	case version == 0:
		v.partition = -1
	case len(rest) < 4:
		err = errors.New("it ends early")
	default:
		v.partition = int32(binary.BigEndian.Uint32(rest[len(rest)-4:]))
		rest = rest[:len(rest)-4]
	}
	if err != nil {
		return v, fmt.Errorf("subscription of a foreign-key join: %w", err)
	}
	v.hash, v.do = hash, instruction(do[0])
	v.key, err = s.key.Decode(at, rest)
	return v, err
}

// answer is what a subscriber is told: the row of the other table, or that there is none.
type answer[VO any] struct {
	hash      valueHash // of the row that asked
	value     VO
	ok        bool
	partition int32 // to send it to; -1 is unknown. It is not written
}

// answerSerde is the form of answers on their topic. An empty value can't be told from none, as in Kafka Streams.
type answerSerde[VO any] struct{ value serde.Serde[VO] }

func (s answerSerde[VO]) Append(dst []byte, at serde.Place, v answer[VO]) ([]byte, error) {
	dst = appendHash(dst, 0, v.hash)
	if !v.ok {
		return dst, nil
	}
	return s.value.Append(dst, at, v.value)
}

func (s answerSerde[VO]) Decode(at serde.Place, data []byte) (v answer[VO], err error) {
	version, hash, _, rest, err := cutHash(data, 0)
	if err == nil && version != 0 {
		err = fmt.Errorf("version %d is not known", version)
	}
	if err != nil {
		return v, fmt.Errorf("answer of a foreign-key join: %w", err)
	}
	v.hash, v.partition = hash, -1
	if v.ok = len(rest) > 0; v.ok {
		v.value, err = s.value.Decode(at, rest)
	}
	return v, err
}

// subscribe sends a row's subscription when the row changes.
type subscribe[K, V, KO any] struct {
	base
	children[KO, subscription[K]]
	fk         func(K, V) (KO, bool)
	left       bool
	versioned  bool // the table is: only the latest version of a row counts (F-121)
	foreignKey placedSerde[KO]
	hash       *hasher[V]
	oldBuf     []byte
	newBuf     []byte
}

func (n *subscribe[K, V, KO]) process(r rec[K, change[V]]) {
	c := &r.value
	if n.versioned && c.stale {
		n.t.ctx.Drop("out of order in a join of a versioned table")
		return
	}
	if c.newNull && !c.hasOld {
		return
	}
	n.enter()
	s := subscription[K]{key: r.key, partition: n.t.id.Partition}
	if !c.newNull {
		s.hash = n.hash.of(&n.base, c.new)
	}
	var oldKey, newKey KO
	var hadKey, hasKey bool
	if c.hasOld {
		oldKey, hadKey = n.fk(r.key, c.old)
	}
	if !c.newNull {
		newKey, hasKey = n.fk(r.key, c.new)
	}
	send := func(key KO, ok bool, do instruction) {
		s.do = do
		n.forward(rec[KO, subscription[K]]{key: key, nullKey: !ok, value: s, ts: r.ts, headers: r.headers})
	}
	changed := hadKey && (!hasKey || !n.same(oldKey, newKey))
	switch {
	case n.left:
		if changed {
			send(oldKey, true, deleteSilently)
		}
		send(newKey, hasKey, answerAlways)
	case hasKey && changed:
		send(oldKey, true, deleteSilently)
		send(newKey, true, answerAlways)
	case hasKey:
		send(newKey, true, answerIfThereAre)
	default:
		if !c.newNull {
			n.t.ctx.Drop("null foreign key in a join")
		}
		if hadKey {
			send(oldKey, true, deleteAndAnswer)
		}
	}
}

// same reports whether two foreign keys have the same bytes.
func (n *subscribe[K, V, KO]) same(a, b KO) bool {
	var err error
	if n.oldBuf, err = n.foreignKey.Append(n.oldBuf[:0], serde.Place{}, a); err == nil {
		n.newBuf, err = n.foreignKey.Append(n.newBuf[:0], serde.Place{}, b)
	}
	if err != nil {
		n.t.storeFailed(n.info.name, "encode foreign key", err)
	}
	return string(n.oldBuf) == string(n.newBuf)
}

// subscriptions is the store of them, by foreign key and key: the length of the one (4 bytes), the one, and the other.
type subscriptions[K, KO any] struct {
	*keyValue[KO, subscription[K]]
	primaryKey placedSerde[K]
	foreignKey placedSerde[KO]
	buf        []byte
}

func openSubscriptions[K, V, KO, VO any](t *task, spec topology.Store, j *foreignJoin[K, V, KO, VO]) *subscriptions[K, KO] {
	s := &subscriptions[K, KO]{primaryKey: j.primaryKey(t), foreignKey: j.foreignKey(t)}
	s.keyValue = openKeyValue[KO, subscription[K]](t, spec, s.foreignKey, subscriptionSerde[K]{s.primaryKey})
	return s
}

// prefix is what the keys of all subscriptions to a foreign key begin with.
func (s *subscriptions[K, KO]) prefix(fk KO) []byte {
	b, err := s.foreignKey.Append(append(s.buf[:0], 0, 0, 0, 0), serde.Place{}, fk)
	if err != nil {
		s.t.storeFailed(s.spec.Name, "encode foreign key", err)
	}
	binary.BigEndian.PutUint32(b, uint32(len(b)-4))
	s.buf = b
	return b
}

func (s *subscriptions[K, KO]) keyOf(fk KO, key K) []byte {
	b, err := s.primaryKey.Append(s.prefix(fk), serde.Place{}, key)
	if err != nil {
		s.t.storeFailed(s.spec.Name, "encode key", err)
	}
	s.buf = b
	return b
}

// receiveSubscription keeps subscriptions, and hands them on to be answered.
type receiveSubscription[K, KO any] struct {
	base
	children[KO, subscription[K]]
	rows *subscriptions[K, KO]
}

func (n *receiveSubscription[K, KO]) process(r rec[KO, subscription[K]]) {
	if r.nullKey {
		if r.value.do != answerAlways {
			n.t.ctx.Drop("null foreign key in a join")
			return
		}
		n.forward(r)
		return
	}
	n.enter()
	gone := r.value.do == deleteSilently || r.value.do == deleteAndAnswer
	n.rows.putEncoded(n.rows.keyOf(r.key, r.value.key), r.value, gone, r.ts, r.headers)
	n.forward(r)
}

// answerSubscription answers one subscription.
type answerSubscription[K, KO, VO any] struct {
	base
	children[K, answer[VO]]
	row func(KO) found[VO]
}

func (n *answerSubscription[K, KO, VO]) process(r rec[KO, subscription[K]]) {
	n.enter()
	row := found[VO]{ts: -1}
	if !r.nullKey {
		row = n.row(r.key)
	}
	a := answer[VO]{hash: r.value.hash, partition: r.value.partition}
	switch r.value.do {
	case deleteSilently:
		return
	case answerIfThereAre:
		if !row.ok {
			return
		}
		a.value, a.ok = row.value, true
	case answerAlways:
		a.value, a.ok = row.value, row.ok
	}
	n.forward(rec[K, answer[VO]]{key: r.value.key, value: a, ts: max(r.ts, row.ts), headers: r.headers})
}

// answerAll tells all subscribers of a row that it has changed.
type answerAll[K, KO, VO any] struct {
	base
	children[K, answer[VO]]
	rows      *subscriptions[K, KO]
	versioned bool // the table is: only the latest version of a row counts (F-121)
}

func (n *answerAll[K, KO, VO]) process(r rec[KO, change[VO]]) {
	if r.nullKey {
		n.t.ctx.Drop("null key in a join")
		return
	}
	if n.versioned && r.value.stale {
		n.t.ctx.Drop("out of order in a join of a versioned table")
		return
	}
	n.enter()
	it := n.rows.store.Prefix(n.rows.prefix(r.key), false)
	for it.Next() {
		s := n.rows.decodeValue(it.Value())
		a := answer[VO]{hash: s.hash, value: r.value.new, ok: !r.value.newNull, partition: s.partition}
		n.forward(rec[K, answer[VO]]{key: s.key, value: a, ts: r.ts, headers: r.headers})
	}
	if err := it.Close(); err != nil {
		n.t.storeFailed(n.rows.spec.Name, "prefix", err)
	}
}

// resolveForeign makes rows of the result out of answers.
type resolveForeign[K, V, VO, R any] struct {
	base
	children[K, R]
	row  func(K) found[V]
	hash *hasher[V]
	left bool
	f    func(V, VO, bool) R
	null func(R) bool
}

func (n *resolveForeign[K, V, VO, R]) process(r rec[K, answer[VO]]) {
	n.enter()
	row := n.row(r.key)
	var now valueHash
	if row.ok {
		now = n.hash.of(&n.base, row.value)
	}
	if now != r.value.hash {
		n.t.ctx.Drop("answer to a former value in a foreign-key join")
		return
	}
	out := rec[K, R]{key: r.key, ts: r.ts, headers: r.headers, nullValue: true}
	if r.value.ok || n.left && row.ok {
		out.value = n.f(row.value, r.value.value, r.value.ok)
		out.nullValue = n.null != nil && n.null(out.value)
	}
	n.forward(out)
}
