package fiberlimit_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gofiber/fiber/v2"

	fiberlimit "github.com/atomicbucket/ratelimit/adapters/fiber"
	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/httplimit"
)

// kept notes strings as they are, beside copies of what they said at the time.
type kept struct {
	mu      sync.Mutex
	strings []string
	copies  []string
}

func (k *kept) note(s string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.strings, k.copies = append(k.strings, s), append(k.copies, strings.Clone(s))
}

// changed counts the strings that no longer say what they did.
func (k *kept) changed() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	n := 0
	for i, s := range k.strings {
		if s != k.copies[i] {
			n++
		}
	}
	return n
}

func TestKeysKeepTheirOwnStateOverKeepAlive(t *testing.T) {
	t.Parallel()
	for name, padding := range map[string]int{"short keys": 0, "keys of 1000 bytes": 1000} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testKeysKeepTheirOwnState(t, padding)
		})
	}
}

func testKeysKeepTheirOwnState(t *testing.T, padding int) {
	const connections, users, rounds = 4, 50, 50 // 10,000 requests
	limiter := newLimiter(t, ratelimit.Per(300, 300*24*time.Hour))
	var lines, results kept
	line := fiberlimit.By(func(r httplimit.Request) (string, error) {
		line := r.Header.Values("X-User")[0]
		lines.note(line)
		return line, nil
	})
	app := fiber.New(fiber.Config{DisableStartupMessage: true, ReadBufferSize: 8192})
	app.Get("/native", fiberlimit.New(limiter, fiberlimit.Config{
		Key: func(c *fiber.Ctx) (string, error) { return c.Get("X-User"), nil },
	}), func(c *fiber.Ctx) error {
		res, _ := fiberlimit.ResultFrom(c)
		results.note(res.Key)
		return nil
	})
	app.Get("/neutral", fiberlimit.New(limiter, fiberlimit.Config{Key: line}), ok)
	l := listenTCP(t)
	listen(t, app, l)

	user := func(i int) string { return fmt.Sprintf("user-%02d%s", i, strings.Repeat("x", max(padding-7, 0))) }
	var running sync.WaitGroup
	for conn := range connections {
		client := dial(t, l.Addr())
		running.Go(func() {
			for i := range users * rounds {
				path := []string{"/native", "/neutral"}[(i/users+conn)%2]
				if res := client.get(t, path, "X-User: "+user(i%users)); res == nil || res.StatusCode != http.StatusOK {
					t.Errorf("request %d: %+v", i, res)
					return
				}
			}
		})
	}
	running.Wait()

	for i := range users {
		res, err := limiter.Peek(t.Context(), "k:"+user(i))
		if want := 300 - connections*rounds; err != nil || res.Remaining != want {
			t.Errorf("user %d: remaining %d, %v; want %d", i, res.Remaining, err, want)
		}
	}
	if n := len(lines.strings) + len(results.strings); n != connections*users*rounds {
		t.Errorf("kept %d strings", n)
	}
	if n := lines.changed() + results.changed(); n > 0 {
		t.Errorf("%d strings have changed", n)
	}
}

func TestHeadersAreFoundInAppsThatDoNotNormalizeThem(t *testing.T) {
	t.Parallel()
	trusted, err := httplimit.ParseTrusted("127.0.0.1, 10.0.0.0/8")
	if err != nil {
		t.Fatal(err)
	}
	app := fiber.New(fiber.Config{DisableStartupMessage: true, DisableHeaderNormalizing: true})
	config := fiberlimit.Config{Key: fiberlimit.By(httplimit.ClientIP(trusted...))}
	app.Get("/", fiberlimit.New(newLimiter(t, ratelimit.PerHour(9)), config), sendKey)
	l := listenTCP(t)
	listen(t, app, l)
	res := dial(t, l.Addr()).get(t, "/", "x-forwarded-for: 203.0.113.7", "X-FORWARDED-FOR: 10.0.0.1")
	if key := res.Header.Get("X-Key"); key != "k:203.0.113.7" {
		t.Errorf("key %q", key)
	}
}

func sendKey(c *fiber.Ctx) error {
	res, _ := fiberlimit.ResultFrom(c)
	c.Set("X-Key", res.Key)
	return nil
}

func TestAUnixSocketsClientCannotNameItselfLikeAnAddress(t *testing.T) {
	t.Chdir(t.TempDir())
	l, err := net.Listen("unix", "s")
	if err != nil {
		t.Fatal(err)
	}
	app := newApp()
	app.Get("/", fiberlimit.New(newLimiter(t, ratelimit.PerHour(9))), sendKey)
	listen(t, app, l)
	conn, err := net.DialUnix("unix", &net.UnixAddr{Name: "203.0.113.7:1", Net: "unix"}, &net.UnixAddr{Name: "s", Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	if res := newClient(t, conn).get(t, "/"); res.Header.Get("X-Key") != "*" {
		t.Errorf("key %q, want *", res.Header.Get("X-Key"))
	}
}

// relayed is a listener whose connections come from elsewhere, as those behind a
// PROXY protocol do.
type relayed struct{ net.Listener }

func (l relayed) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return relayedConn{conn}, nil
}

type relayedConn struct{ net.Conn }

func (relayedConn) RemoteAddr() net.Addr { return relayedAddr{} }

type relayedAddr struct{}

func (relayedAddr) Network() string { return "tcp" }
func (relayedAddr) String() string  { return "[2001:db8::1]:443" }

func TestPeersOfOtherListenersHaveTheirAddress(t *testing.T) {
	t.Parallel()
	app := newApp()
	app.Get("/", fiberlimit.New(newLimiter(t, ratelimit.PerHour(9))), sendKey)
	l := listenTCP(t)
	listen(t, app, relayed{l})
	if res := dial(t, l.Addr()).get(t, "/"); res.Header.Get("X-Key") != "a:2001:db8::/64" {
		t.Errorf("key %q", res.Header.Get("X-Key"))
	}
}

func listenTCP(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// client sends requests over one connection, with headers as they are written.
type client struct {
	conn net.Conn
	r    *bufio.Reader
}

func dial(t *testing.T, addr net.Addr) *client {
	t.Helper()
	conn, err := net.Dial(addr.Network(), addr.String())
	if err != nil {
		t.Fatal(err)
	}
	return newClient(t, conn)
}

func newClient(t *testing.T, conn net.Conn) *client {
	t.Cleanup(func() { _ = conn.Close() })
	return &client{conn, bufio.NewReader(conn)}
}

func (c *client) get(t *testing.T, path string, lines ...string) *http.Response {
	t.Helper()
	request := "GET " + path + " HTTP/1.1\r\nHost: app.test\r\n" + strings.Join(append(lines, ""), "\r\n") + "\r\n"
	if _, err := c.conn.Write([]byte(request)); err != nil {
		t.Error(err)
		return nil
	}
	res, err := http.ReadResponse(c.r, nil)
	if err != nil {
		t.Error(err)
		return nil
	}
	_ = res.Body.Close() // reads it
	return res
}
