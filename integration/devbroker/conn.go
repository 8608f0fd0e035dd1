package devbroker

import (
	"encoding/binary"
	"io"
	"math"
	"net"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A control function of kfake sees a request, but neither the connection it came on nor the response that kfake makes. Both are added here: connections
// are wrapped, requests of some keys carry the number of an exchange in a private tag, and the exchange tells the control who the client is and takes
// from it what has to be changed in the response before it is written.

// exchange is one request and its response.
type exchange struct {
	client struct{ id, host string }
	req    kmsg.Request
	amend  func(kmsg.Response) // set by the control function; nil leaves the response as it is
}

// privateTag is the tag that carries an exchange's number. No version of Kafka uses such a number for a top-level tag.
const privateTag = 27756

// internalMark is the number in requests the broker makes of itself.
const internalMark = 0

type exchanges struct {
	mu   sync.Mutex
	next uint64
	open map[uint64]*exchange
}

func (e *exchanges) init() { e.open = map[uint64]*exchange{} }

func (e *exchanges) add(x *exchange) uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.next++
	e.open[e.next] = x
	return e.next
}

func (e *exchanges) take(id uint64) *exchange {
	e.mu.Lock()
	defer e.mu.Unlock()
	x := e.open[id]
	delete(e.open, id)
	return x
}

// mark puts the number of an exchange into a request.
func mark(req kmsg.Request, id uint64) {
	value := binary.BigEndian.AppendUint64(nil, id)
	if tags := unknownTags(req); tags != nil && req.IsFlexible() {
		tags.Set(privateTag, value)
	} else if r, ok := req.(*kmsg.OffsetDeleteRequest); ok {
		// This request has no tags in any version: a topic with an impossible name takes their place.
		t := kmsg.NewOffsetDeleteRequestTopic()
		t.Topic = string(append([]byte{0}, value...))
		r.Topics = append(r.Topics, t)
	}
}

// unmark takes the number out again.
func unmark(req kmsg.Request) (id uint64, ok bool) {
	if r, isDelete := req.(*kmsg.OffsetDeleteRequest); isDelete {
		if n := len(r.Topics) - 1; n >= 0 && len(r.Topics[n].Topic) == 9 && r.Topics[n].Topic[0] == 0 {
			id, ok = binary.BigEndian.Uint64([]byte(r.Topics[n].Topic[1:])), true
			r.Topics = r.Topics[:n]
		}
		return id, ok
	}
	if tags := unknownTags(req); tags != nil {
		tags.Each(func(key uint32, value []byte) {
			if key == privateTag && len(value) == 8 {
				id, ok = binary.BigEndian.Uint64(value), true
			}
		})
	}
	return id, ok
}

// unknownTags returns the tags of the requests that are marked; nil for others.
func unknownTags(req kmsg.Request) *kmsg.Tags {
	switch r := req.(type) {
	case *kmsg.StreamsGroupHeartbeatRequest:
		return &r.UnknownTags
	case *kmsg.OffsetCommitRequest:
		return &r.UnknownTags
	case *kmsg.OffsetFetchRequest:
		return &r.UnknownTags
	case *kmsg.DescribeGroupsRequest:
		return &r.UnknownTags
	case *kmsg.ListGroupsRequest:
		return &r.UnknownTags
	case *kmsg.DeleteGroupsRequest:
		return &r.UnknownTags
	case *kmsg.DescribeConfigsRequest:
		return &r.UnknownTags
	case *kmsg.IncrementalAlterConfigsRequest:
		return &r.UnknownTags
	}
	return nil
}

// wrapped reports whether requests of a key are looked at on the connection.
func wrapped(key kmsg.Key) bool {
	switch key {
	case kmsg.StreamsGroupHeartbeat, kmsg.ApiVersions, kmsg.TxnOffsetCommit, kmsg.OffsetFetch, kmsg.DescribeGroups, kmsg.ListGroups,
		kmsg.DeleteGroups, kmsg.OffsetDelete, kmsg.DescribeConfigs, kmsg.IncrementalAlterConfigs:
		return true
	}
	return false
}

type listener struct {
	net.Listener
	broker  *Broker
	virtual bool
}

func (l *listener) Accept() (net.Conn, error) {
	nc, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: nc, broker: l.broker, host: "/127.0.0.1"}
	if !l.virtual {
		if host, _, err := net.SplitHostPort(nc.RemoteAddr().String()); err == nil {
			c.host = "/" + host
		}
	}
	c.mu.open = map[int32]openExchange{}
	c.injected.Store(math.MinInt32)
	return c, nil
}

// conn is a connection from a client. kfake reads it on one goroutine and writes it on another, one whole response per Write.
type conn struct {
	net.Conn
	broker *Broker
	host   string

	ready []byte // bytes kfake is to read next
	pass  int    // bytes of the present frame that go through as they come

	injected atomic.Int32 // the last correlation id of a request of our own; clients count from 0 up

	mu struct {
		sync.Mutex
		open map[int32]openExchange // by correlation id
	}
}

type openExchange struct {
	x       *exchange
	id      uint64 // in broker.exchanges; 0: not registered
	swallow bool   // the response is not for the client
}

// headerSize is the size of what every frame begins with: size, key, version, correlation id.
const headerSize = 12

func (c *conn) Read(p []byte) (int, error) {
	for {
		switch {
		case len(c.ready) > 0:
			n := copy(p, c.ready)
			c.ready = c.ready[n:]
			return n, nil
		case c.pass > 0:
			n, err := c.Conn.Read(p[:min(len(p), c.pass)])
			c.pass -= n
			return n, err
		}
		if err := c.next(); err != nil {
			return 0, err
		}
	}
}

// next reads the head of a frame, and all of it if it is to be changed.
func (c *conn) next() error {
	head := make([]byte, headerSize)
	if _, err := io.ReadFull(c.Conn, head); err != nil {
		return err
	}
	size := int(int32(binary.BigEndian.Uint32(head)))
	if size < headerSize-4 {
		return io.ErrUnexpectedEOF
	}
	rest := size - (headerSize - 4)
	key := kmsg.Key(int16(binary.BigEndian.Uint16(head[4:])))
	if !wrapped(key) {
		c.ready, c.pass = head, rest
		return nil
	}
	frame := make([]byte, headerSize+rest)
	copy(frame, head)
	if _, err := io.ReadFull(c.Conn, frame[headerSize:]); err != nil {
		return err
	}
	c.ready = c.rewrite(frame)
	return nil
}

// rewrite opens an exchange for a frame and returns what kfake is to read instead.
func (c *conn) rewrite(frame []byte) []byte {
	r := kbin.Reader{Src: frame[4:]}
	key, version, corr, clientID := r.Int16(), r.Int16(), r.Int32(), r.NullableString()
	req := kmsg.RequestForKey(key)
	if req == nil || version > req.MaxVersion() {
		return frame
	}
	req.SetVersion(version)
	if req.IsFlexible() {
		kmsg.SkipTags(&r)
	}
	if req.ReadFrom(r.Src) != nil {
		return frame // kfake will find the same fault
	}
	x := &exchange{req: req}
	x.client.host = c.host
	if clientID != nil {
		x.client.id = *clientID
	}
	switch t := req.(type) {
	case *kmsg.ApiVersionsRequest:
		x.amend = c.broker.amendVersions
		c.open(corr, openExchange{x: x})
		return frame
	case *kmsg.TxnOffsetCommitRequest:
		return append(c.ensureGroup(t.Group, clientID), frame...)
	}
	id := c.broker.exchanges.add(x)
	mark(req, id)
	c.open(corr, openExchange{x: x, id: id})
	return appendRequest(nil, req, clientID, corr)
}

// ensureGroup makes kfake know a streams group before offsets are staged for it. kfake reports unstable offsets only for groups it knows, and would
// learn of the group when the first transaction ends; a member that fetches offsets before that would be told there are none. The request is an
// OffsetCommit without topics, which kfake answers by creating the group.
func (c *conn) ensureGroup(group string, clientID *string) []byte {
	if !c.broker.hasGroup(group) {
		return nil
	}
	req := kmsg.NewPtrOffsetCommitRequest()
	req.SetVersion(9)
	req.Group = group
	mark(req, internalMark)
	corr := c.injected.Add(1)
	c.open(corr, openExchange{swallow: true})
	return appendRequest(nil, req, clientID, corr)
}

func appendRequest(dst []byte, req kmsg.Request, clientID *string, corr int32) []byte {
	var opts []kmsg.RequestFormatterOpt
	if clientID != nil {
		opts = append(opts, kmsg.FormatterClientID(*clientID))
	}
	return kmsg.NewRequestFormatter(opts...).AppendRequest(dst, req, corr)
}

func (c *conn) open(corr int32, o openExchange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.open[corr] = o
}

// Write takes one response from kfake.
func (c *conn) Write(p []byte) (int, error) {
	if len(p) < 8 {
		return c.Conn.Write(p)
	}
	corr := int32(binary.BigEndian.Uint32(p[4:]))
	c.mu.Lock()
	o, ok := c.mu.open[corr]
	delete(c.mu.open, corr)
	c.mu.Unlock()
	switch {
	case !ok:
		return c.Conn.Write(p)
	case o.swallow:
		return len(p), nil
	case o.x.amend == nil:
		return c.Conn.Write(p)
	}
	resp := o.x.req.ResponseKind()
	tagged := resp.IsFlexible() && resp.Key() != int16(kmsg.ApiVersions)
	body := p[8:]
	if tagged {
		if len(body) == 0 || body[0] != 0 {
			return c.Conn.Write(p)
		}
		body = body[1:]
	}
	if resp.ReadFrom(body) != nil {
		return c.Conn.Write(p) // an answer in another version, such as the refusal of ApiVersions
	}
	o.x.amend(resp)
	out := append([]byte(nil), p[:8]...)
	if tagged {
		out = append(out, 0)
	}
	out = resp.AppendTo(out)
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	if _, err := c.Conn.Write(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (c *conn) Close() error {
	c.mu.Lock()
	for _, o := range c.mu.open {
		if o.id != 0 {
			c.broker.exchanges.take(o.id)
		}
	}
	clear(c.mu.open)
	c.mu.Unlock()
	return c.Conn.Close()
}
