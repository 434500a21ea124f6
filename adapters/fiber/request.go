package fiberlimit

import (
	"net"
	"net/netip"
	"strings"

	"github.com/gofiber/fiber/v2"

	"github.com/atomicbucket/ratelimit/core/httplimit"
)

// request is what a neutral key sees. Method and Path share memory with fiber,
// which a Request may.
func request(c *fiber.Ctx) httplimit.Request {
	return httplimit.Request{
		Context: c.UserContext(),
		Method:  c.Method(),
		Path:    c.Path(),
		Route:   c.Route().Path,
		Peer:    peer(c.Context().RemoteAddr()),
		Header:  requestHeader{c},
	}
}

// peer is the address of the TCP peer, and none of a unix socket, whose client
// may have given it a name that reads like one.
func peer(addr net.Addr) netip.Addr {
	switch addr := addr.(type) {
	case *net.TCPAddr:
		return addr.AddrPort().Addr()
	case *net.UnixAddr:
		return netip.Addr{}
	default: // of a listener that is not net's
		addrPort, _ := netip.ParseAddrPort(addr.String())
		return addrPort.Addr()
	}
}

// requestHeader implements httplimit.RequestHeader.
type requestHeader struct{ c *fiber.Ctx }

// Values returns copies, which may be kept. It compares names itself, so that
// it finds them in an app with DisableHeaderNormalizing, however they are
// written.
func (h requestHeader) Values(name string) []string {
	var lines []string
	h.c.Request().Header.VisitAll(func(key, value []byte) {
		if len(key) == len(name) && strings.EqualFold(string(key), name) {
			lines = append(lines, string(value))
		}
	})
	return lines
}

// responseHeader implements httplimit.ResponseHeader.
type responseHeader struct{ c *fiber.Ctx }

func (h responseHeader) Get(name string) string { return h.c.GetRespHeader(name) }
func (h responseHeader) Set(name, value string) { h.c.Set(name, value) }
