package adaptertest

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// patience is how long the suite waits for what must happen.
const patience = 30 * time.Second

var discard = log.New(io.Discard, "", 0)

// client talks to one app, on one connection as long as that stays open.
type client struct {
	t       *testing.T
	network string
	address string
	http    *http.Client
}

// response is a response that was read to its end.
type response struct {
	status int
	header http.Header
	body   string
}

func (r response) get(name string) string { return r.header.Get(name) }

// start serves the routes on a TCP port of the loopback interface.
func (s suite[C, H]) start(t *testing.T, routes ...Route[C, H]) *client {
	return s.serve(t, listen(t, "tcp4", "127.0.0.1:0"), routes)
}

func (s suite[C, H]) startUnix(t *testing.T, routes ...Route[C, H]) *client {
	dir, err := os.MkdirTemp("", "rl") // t.TempDir's names are too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return s.serve(t, listen(t, "unix", filepath.Join(dir, "s")), routes)
}

func listen(t *testing.T, network, address string) net.Listener {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func (s suite[C, H]) serve(t *testing.T, l net.Listener, routes []Route[C, H]) *client {
	for i := range routes {
		if routes[i].Done == nil {
			routes[i].Done = func() {}
		}
	}
	s.Serve(t, l, routes)
	c := &client{t: t, network: l.Addr().Network(), address: l.Addr().String()}
	transport := &http.Transport{
		DisableCompression: true,
		MaxConnsPerHost:    1,
		DialContext:        func(context.Context, string, string) (net.Conn, error) { return c.dial() },
	}
	c.http = &http.Client{Transport: transport, Timeout: patience}
	t.Cleanup(transport.CloseIdleConnections)
	return c
}

func (c *client) dial() (net.Conn, error) { return net.DialTimeout(c.network, c.address, patience) }

// request makes a request. headers are names and values in turn.
func (c *client) request(ctx context.Context, method, path string, headers ...string) *http.Request {
	c.t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, "http://app.test"+path, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

// try sends a request whose response may be an error.
func (c *client) try(method, path string, headers ...string) (response, error) {
	c.t.Helper()
	res, err := c.http.Do(c.request(c.t.Context(), method, path, headers...))
	if err != nil {
		return response{}, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	return response{status: res.StatusCode, header: res.Header, body: string(body)}, err
}

func (c *client) do(method, path string, headers ...string) response {
	c.t.Helper()
	res, err := c.try(method, path, headers...)
	if err != nil {
		c.t.Fatal(err)
	}
	return res
}

func (c *client) get(path string, headers ...string) response {
	c.t.Helper()
	return c.do(http.MethodGet, path, headers...)
}

// expect sends GET and checks the status.
func (c *client) expect(status int, path string, headers ...string) response {
	c.t.Helper()
	res := c.get(path, headers...)
	if res.status != status {
		c.t.Fatalf("GET %s %q: status %d, want %d; headers %v, body %q", path, headers, res.status, status, res.header, res.body)
	}
	return res
}

// wantHeader checks one header of a response; "" means that it must be absent.
func (r response) wantHeader(t *testing.T, name, want string) {
	t.Helper()
	lines := r.header.Values(name)
	if want == "" && len(lines) > 0 || want != "" && (len(lines) != 1 || lines[0] != want) {
		t.Errorf("%s: %q, want %q", name, lines, want)
	}
}

// startIPv6 skips the test where there is no IPv6.
func (s suite[C, H]) startIPv6(t *testing.T, routes []Route[C, H]) *client {
	l, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		t.Skipf("no IPv6 on this machine: %v", err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return s.serve(t, l, routes)
}
