package httplimit

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// Request is what a neutral key sees of a request, whatever the framework. The
// zero Request is one without an address, a route or headers.
//
// It is valid until the handler returns. Method and Path may share memory that
// the framework uses again (fiber does), so clone them to keep them.
type Request struct {
	// Context ends when the client goes away, if the framework tells. Nil means
	// context.Background().
	Context context.Context
	// Method is the HTTP method in upper case.
	Method string
	// Path of the URL, without the query.
	Path string
	// Route is the pattern of the route that matched, in the framework's own
	// form, such as "/items/{id}". Empty before routing and when none matched.
	Route string
	// Peer is the address of the TCP peer. The zero Addr means that there is
	// none, as on a unix socket.
	Peer netip.Addr
	// Header gives the lines of the request's header. Nil means none.
	Header RequestHeader
}

// RequestHeader is the header of a request. [http.Header] is one.
type RequestHeader interface {
	// Values returns the lines of the named header in order, nil if there are
	// none. The strings may be kept.
	Values(name string) []string
}

// ResponseHeader is the header of a response. [http.Header] is one.
type ResponseHeader interface {
	// Get returns the first line of the named header, "" if there is none.
	Get(name string) string
	// Set replaces all lines of the named header.
	Set(name, value string)
}

// FromHTTP returns r as a Request. Its Route is r.Pattern without the method,
// which net/http knows only inside the ServeMux that has matched it. Frameworks
// with routers of their own set Route themselves.
func FromHTTP(r *http.Request) Request {
	return Request{
		Context: r.Context(),
		Method:  r.Method,
		Path:    r.URL.Path,
		Route:   withoutMethod(r.Pattern),
		Peer:    peer(r),
		Header:  r.Header,
	}
}

// withoutMethod is a ServeMux pattern, "[METHOD ][HOST]/[PATH]", from its host
// on.
func withoutMethod(pattern string) string {
	if i := strings.IndexAny(pattern, " \t"); i >= 0 {
		return strings.TrimLeft(pattern[i:], " \t")
	}
	return pattern
}

// peer is the address of r's peer. On a unix socket there is none, though the
// peer may have named its own end like one.
func peer(r *http.Request) netip.Addr {
	if _, unix := r.Context().Value(http.LocalAddrContextKey).(*net.UnixAddr); unix {
		return netip.Addr{}
	}
	return parsePeer(r.RemoteAddr)
}

// parsePeer reads http.Request.RemoteAddr: ip:port, or a bare address where a
// middleware has put one. A unix socket's is "@" or empty.
func parsePeer(remoteAddr string) netip.Addr {
	if addrPort, err := netip.ParseAddrPort(remoteAddr); err == nil {
		return addrPort.Addr()
	}
	addr, _ := netip.ParseAddr(remoteAddr) // the zero Addr on an error
	return addr
}

func (r Request) context() context.Context {
	if r.Context == nil {
		return context.Background()
	}
	return r.Context
}

// lines are the lines of the named header.
func (r Request) lines(name string) []string {
	if r.Header == nil {
		return nil
	}
	return r.Header.Values(name)
}

// first is the first line of the named header, which is the one that the
// getters of all frameworks return.
func (r Request) first(name string) string {
	if lines := r.lines(name); len(lines) > 0 {
		return lines[0]
	}
	return ""
}
