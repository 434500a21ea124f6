package faults

import (
	"bytes"
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
)

// conns dials a client's connections. It counts those that were made, those that
// are open, and the calls of the script that go out on them.
type conns struct {
	made, open, most, sent atomic.Int64
}

func (c *conns) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	inner, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c.made.Add(1)
	raise(&c.most, c.open.Add(1))
	return &conn{Conn: inner, conns: c}, nil
}

// raise makes n the value of highest, if it is higher.
func raise(highest *atomic.Int64, n int64) {
	for was := highest.Load(); n > was && !highest.CompareAndSwap(was, n); was = highest.Load() {
	}
}

type conn struct {
	net.Conn
	conns *conns
	tail  []byte // of what was written, in which a name may have begun
	once  sync.Once
}

// The names of the commands that run the script, as they go out.
var names = [][]byte{[]byte("$7\r\nevalsha\r\n"), []byte("$4\r\neval\r\n")}

func (c *conn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.count(p[:n])
	return n, err
}

// count counts the calls in what was written.
func (c *conn) count(p []byte) {
	c.tail = append(c.tail, p...)
	end := len(c.tail) - len(names[0]) + 1
	for _, name := range names {
		c.conns.sent.Add(int64(bytes.Count(c.tail, name)))
		from := max(end-len(name), 0) // what ends before is cut off anyway
		if i := bytes.LastIndex(c.tail[from:], name); i >= 0 {
			end = max(end, from+i+len(name))
		}
	}
	c.tail = append(c.tail[:0], c.tail[max(end, 0):]...)
}

// SyscallConn lets go-redis see that the other end has closed an idle
// connection, as it can without conns.
func (c *conn) SyscallConn() (syscall.RawConn, error) {
	inner, ok := c.Conn.(syscall.Conn)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	return inner.SyscallConn()
}

func (c *conn) Close() error {
	c.once.Do(func() { c.conns.open.Add(-1) })
	return c.Conn.Close()
}
