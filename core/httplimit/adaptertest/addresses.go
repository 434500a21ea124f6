package adaptertest

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/httplimit"
)

// AddressCase is a request and the key of its client's address.
type AddressCase struct {
	// Name says what the case is about.
	Name string
	// Peer is "127.0.0.1", "::1", or "" for a unix socket.
	Peer string
	// Trusted is a list for httplimit.ParseTrusted.
	Trusted string
	// Lines of the header ("" is X-Forwarded-For), and further options.
	Lines      []string
	Header     string
	IPv6Bits   int
	UnixSocket bool
	// Key is what httplimit.ClientAddress returns.
	Key string
}

// Address returns the options of c.
func (c AddressCase) Address(t testing.TB) httplimit.ClientAddress {
	t.Helper()
	trusted, err := httplimit.ParseTrusted(c.Trusted)
	if err != nil {
		t.Fatal(err)
	}
	return httplimit.ClientAddress{Trusted: trusted, Header: c.Header, IPv6Bits: c.IPv6Bits, UnixSocket: c.UnixSocket}
}

// HeaderName is the canonical name of the header that Lines are of.
func (c AddressCase) HeaderName() string {
	if c.Header == "" {
		return "X-Forwarded-For"
	}
	return http.CanonicalHeaderKey(c.Header)
}

// PeerAddr is Peer as an address, the zero Addr for a unix socket.
func (c AddressCase) PeerAddr() netip.Addr {
	addr, _ := netip.ParseAddr(c.Peer)
	return addr
}

const (
	v4 = "127.0.0.1"
	v6 = "::1"
)

// AddressCases are the rules for the client's address, case by case.
func AddressCases() []AddressCase {
	return append(append(peerCases(), forwardedCases()...), optionCases()...)
}

func lines(l ...string) []string { return l }

// peerCases are about who is believed.
func peerCases() []AddressCase {
	return []AddressCase{
		{Name: "the peer alone", Peer: v4, Key: v4},
		{Name: "an IPv6 peer alone", Peer: v6, Key: "::/64"},
		{Name: "an IPv6 peer by its whole address", Peer: v6, IPv6Bits: 128, Key: v6},
		{Name: "an untrusted peer forges one entry", Peer: v4, Lines: lines("203.0.113.7"), Key: v4},
		{Name: "an untrusted peer forges another entry", Peer: v4, Lines: lines("203.0.113.8"), Key: v4},
		{Name: "an untrusted peer forges several lines", Peer: v4, Lines: lines("203.0.113.7", "203.0.113.8"), Key: v4},
		{Name: "an untrusted peer names a trusted proxy", Peer: v4, Trusted: "10.0.0.0/8", Lines: lines("203.0.113.7, 10.0.0.1"), Key: v4},
		{Name: "an untrusted peer sends garbage", Peer: v4, Trusted: "10.0.0.0/8", Lines: lines("garbage"), Key: v4},
		{Name: "an untrusted IPv6 peer forges an entry", Peer: v6, Trusted: "127.0.0.1", Lines: lines("203.0.113.7"), Key: "::/64"},
		{Name: "an untrusted peer forges a single-value header", Peer: v4, Header: "X-Real-IP", Lines: lines("203.0.113.7"), Key: v4},
		{Name: "a trusted peer that says nothing", Peer: v4, Trusted: "127.0.0.0/8", Key: v4},
		{Name: "a trusted IPv6 peer that says nothing", Peer: v6, Trusted: "::1", Key: "::/64"},
		{Name: "a trusted peer by prefix", Peer: v4, Trusted: "127.0.0.0/8", Lines: lines("203.0.113.7"), Key: "203.0.113.7"},
		{Name: "a trusted peer by address", Peer: v4, Trusted: "127.0.0.1", Lines: lines("203.0.113.7"), Key: "203.0.113.7"},
		{Name: "a trusted peer by one of several prefixes", Peer: v4, Trusted: "10.0.0.0/8, 127.0.0.0/8", Lines: lines("203.0.113.7"), Key: "203.0.113.7"},
		{Name: "a trusted peer by a prefix with host bits", Peer: v4, Trusted: "127.9.9.9/8", Lines: lines("203.0.113.7"), Key: "203.0.113.7"},
		{Name: "a trusted peer by a mapped prefix", Peer: v4, Trusted: "::ffff:127.0.0.0/104", Lines: lines("203.0.113.7"), Key: "203.0.113.7"},
		{Name: "a trusted peer by a mapped address", Peer: v4, Trusted: "::ffff:127.0.0.1", Lines: lines("203.0.113.7"), Key: "203.0.113.7"},
		{Name: "a trusted IPv6 peer", Peer: v6, Trusted: "::1/128", Lines: lines("203.0.113.7"), Key: "203.0.113.7"},
		{Name: "a prefix just beside the peer", Peer: v4, Trusted: "127.0.0.2", Lines: lines("203.0.113.7"), Key: v4},
		{Name: "a unix socket", Peer: "", Key: ""},
		{Name: "a unix socket is not trusted by itself", Peer: "", Trusted: "127.0.0.0/8", Lines: lines("203.0.113.7"), Key: ""},
		{Name: "a trusted unix socket", Peer: "", UnixSocket: true, Lines: lines("203.0.113.7"), Key: "203.0.113.7"},
		{Name: "a trusted unix socket behind a proxy", Peer: "", UnixSocket: true, Trusted: "10.0.0.0/8", Lines: lines("198.51.100.1, 203.0.113.7, 10.0.0.1"), Key: "203.0.113.7"},
		{Name: "a trusted unix socket that says nothing", Peer: "", UnixSocket: true, Key: ""},
		{Name: "a trusted unix socket that sends garbage", Peer: "", UnixSocket: true, Lines: lines("unknown"), Key: ""},
		{Name: "a unix socket's option does not trust TCP peers", Peer: v4, UnixSocket: true, Lines: lines("203.0.113.7"), Key: v4},
	}
}

// forwardedCases are about X-Forwarded-For from a trusted peer.
func forwardedCases() []AddressCase {
	cases := []AddressCase{
		{Name: "the client forges the left", Lines: lines("198.51.100.1, 203.0.113.7"), Key: "203.0.113.7"},
		{Name: "the client forges a trusted address on the left", Lines: lines("10.0.0.9, 203.0.113.7"), Key: "203.0.113.7"},
		{Name: "the client forges a line", Lines: lines("198.51.100.1", "203.0.113.7"), Key: "203.0.113.7"},
		{Name: "the client forges a line and the left", Lines: lines("198.51.100.1", "198.51.100.2, 203.0.113.7"), Key: "203.0.113.7"},
		{Name: "the client forges garbage on the left", Lines: lines("garbage, 203.0.113.7"), Key: "203.0.113.7"},
		{Name: "the client forges an empty line", Lines: lines("", "203.0.113.7"), Key: "203.0.113.7"},
		{Name: "two proxies", Lines: lines("203.0.113.7, 10.0.0.1"), Key: "203.0.113.7"},
		{Name: "two proxies, the left forged", Lines: lines("198.51.100.1, 203.0.113.7, 10.0.0.1"), Key: "203.0.113.7"},
		{Name: "two proxies, a line each", Lines: lines("203.0.113.7", "10.0.0.1"), Key: "203.0.113.7"},
		{Name: "two proxies, a line each, a line forged", Lines: lines("198.51.100.1", "203.0.113.7", "10.0.0.1"), Key: "203.0.113.7"},
		{Name: "three proxies over two lines", Lines: lines("203.0.113.7, 10.0.0.1", "10.0.0.2"), Key: "203.0.113.7"},
		{Name: "an IPv6 proxy", Lines: lines("203.0.113.7, 2001:db8:aaaa::1"), Key: "203.0.113.7"},
		{Name: "a mapped proxy", Lines: lines("203.0.113.7, ::ffff:10.0.0.1"), Key: "203.0.113.7"},
		{Name: "a proxy with a port", Lines: lines("203.0.113.7, 10.0.0.1:443"), Key: "203.0.113.7"},
		{Name: "a proxy with a zone", Lines: lines("203.0.113.7, 2001:db8:aaaa::1%eth0"), Key: "203.0.113.7"},
		{Name: "all are trusted", Lines: lines("10.0.0.3, 10.0.0.2"), Key: "10.0.0.3"},
		{Name: "all are trusted, over two lines", Lines: lines("10.0.0.3", "10.0.0.2"), Key: "10.0.0.3"},
		{Name: "one trusted client", Lines: lines("10.0.0.3"), Key: "10.0.0.3"},
		{Name: "garbage alone", Lines: lines("garbage"), Key: v4},
		{Name: "garbage on the right", Lines: lines("203.0.113.7, garbage"), Key: v4},
		{Name: "garbage behind a trusted proxy", Lines: lines("203.0.113.7, garbage, 10.0.0.1"), Key: v4},
		{Name: "an unknown client", Lines: lines("unknown"), Key: v4},
		{Name: "an obfuscated client", Lines: lines("_hidden, 10.0.0.1"), Key: v4},
		{Name: "an empty header", Lines: lines(""), Key: v4},
		{Name: "an empty entry on the right", Lines: lines("203.0.113.7,"), Key: v4},
		{Name: "an empty entry behind a trusted proxy", Lines: lines("203.0.113.7,, 10.0.0.1"), Key: v4},
		{Name: "commas alone", Lines: lines(",,,"), Key: v4},
		{Name: "the unspecified address", Lines: lines("0.0.0.0"), Key: v4},
		{Name: "the unspecified IPv6 address", Lines: lines("::"), Key: v4},
		{Name: "a host name", Lines: lines("client.example"), Key: v4},
		{Name: "a number", Lines: lines("3405803783"), Key: v4},
		{Name: "an octet too large", Lines: lines("203.0.113.256"), Key: v4},
		{Name: "an octet with a leading zero", Lines: lines("203.0.113.07"), Key: v4},
		{Name: "three octets", Lines: lines("203.0.113"), Key: v4},
		{Name: "a prefix", Lines: lines("203.0.113.0/24"), Key: v4},
		{Name: "a very long entry", Lines: lines(strings.Repeat("1", 2000)), Key: v4},
		{Name: "very many entries", Lines: lines(strings.Repeat("198.51.100.1, ", 200) + "203.0.113.7"), Key: "203.0.113.7"},
		{Name: "no space after the comma", Lines: lines("198.51.100.1,203.0.113.7"), Key: "203.0.113.7"},
		{Name: "much space", Lines: lines("198.51.100.1 ,\t  203.0.113.7 \t"), Key: "203.0.113.7"},
		{Name: "one port", Lines: lines("203.0.113.7:1"), Key: "203.0.113.7"},
		{Name: "another port", Lines: lines("203.0.113.7:2"), Key: "203.0.113.7"},
		{Name: "a port that is none", Lines: lines("203.0.113.7:http"), Key: v4},
		{Name: "a port too large", Lines: lines("203.0.113.7:65536"), Key: v4},
		{Name: "an empty port", Lines: lines("203.0.113.7:"), Key: v4},
		{Name: "a mapped client", Lines: lines("::ffff:203.0.113.7"), Key: "203.0.113.7"},
		{Name: "a mapped client in hexadecimal", Lines: lines("::ffff:cb00:7107"), Key: "203.0.113.7"},
		{Name: "a mapped client with a port", Lines: lines("[::ffff:203.0.113.7]:443"), Key: "203.0.113.7"},
		{Name: "an IPv6 client", Lines: lines("2001:db8::1"), Key: "2001:db8::/64"},
		{Name: "its neighbour in the /64", Lines: lines("2001:db8::ffff:ffff:ffff:ffff"), Key: "2001:db8::/64"},
		{Name: "the next /64", Lines: lines("2001:db8:0:1::1"), Key: "2001:db8:0:1::/64"},
		{Name: "an IPv6 client in capitals", Lines: lines("2001:DB8::1"), Key: "2001:db8::/64"},
		{Name: "an IPv6 client in full", Lines: lines("2001:0db8:0000:0000:0000:0000:0000:0001"), Key: "2001:db8::/64"},
		{Name: "an IPv6 client in brackets", Lines: lines("[2001:db8::1]"), Key: "2001:db8::/64"},
		{Name: "an IPv6 client with a port", Lines: lines("[2001:db8::1]:443"), Key: "2001:db8::/64"},
		{Name: "an IPv6 client with a zone", Lines: lines("fe80::1%eth0"), Key: "fe80::/64"},
		{Name: "an IPv6 client with a zone and a port", Lines: lines("[fe80::1%eth0]:443"), Key: "fe80::/64"},
		{Name: "an open bracket", Lines: lines("[2001:db8::1"), Key: v4},
		{Name: "empty brackets", Lines: lines("[]"), Key: v4},
		{Name: "quotes", Lines: lines(`"203.0.113.7"`), Key: v4},
	}
	for i := range cases {
		cases[i].Peer, cases[i].Trusted = v4, "127.0.0.0/8, 10.0.0.0/8, 2001:db8:aaaa::/48"
	}
	return cases
}

// optionCases are about single-value headers and IPv6 prefixes, behind a trusted
// peer.
func optionCases() []AddressCase {
	cases := []AddressCase{
		{Name: "a single-value header", Header: "CF-Connecting-IP", Lines: lines("203.0.113.7"), Key: "203.0.113.7"},
		{Name: "a single-value header with a port", Header: "X-Real-IP", Lines: lines("203.0.113.7:1"), Key: "203.0.113.7"},
		{Name: "a single-value header with IPv6", Header: "X-Real-IP", Lines: lines("2001:db8::1"), Key: "2001:db8::/64"},
		{Name: "a single-value header that is missing", Header: "X-Real-IP", Key: v4},
		{Name: "a single-value header that is empty", Header: "X-Real-IP", Lines: lines(""), Key: v4},
		{Name: "a single-value header with garbage", Header: "X-Real-IP", Lines: lines("unknown"), Key: v4},
		{Name: "a single-value header with two values", Header: "X-Real-IP", Lines: lines("198.51.100.1, 203.0.113.7"), Key: v4},
		{Name: "a single-value header twice", Header: "X-Real-IP", Lines: lines("198.51.100.1", "203.0.113.7"), Key: v4},
		{Name: "an IPv6 client by /56", IPv6Bits: 56, Lines: lines("2001:db8:0:12ff::1"), Key: "2001:db8:0:1200::/56"},
		{Name: "an IPv6 client by /128", IPv6Bits: 128, Lines: lines("2001:db8::1"), Key: "2001:db8::1"},
		{Name: "an IPv4 client is not grouped", IPv6Bits: 1, Lines: lines("203.0.113.7"), Key: "203.0.113.7"},
	}
	for i := range cases {
		cases[i].Peer, cases[i].Trusted = v4, "127.0.0.0/8"
	}
	return cases
}

func (s suite[C, H]) testAddresses(t *testing.T) {
	t.Run("over IPv4", func(t *testing.T) {
		t.Parallel()
		s.testAddressesOf(t, v4, func(routes []Route[C, H]) *client { return s.start(t, routes...) })
	})
	t.Run("over IPv6", func(t *testing.T) {
		t.Parallel()
		s.testAddressesOf(t, v6, func(routes []Route[C, H]) *client { return s.startIPv6(t, routes) })
	})
	t.Run("over a unix socket", func(t *testing.T) {
		t.Parallel()
		s.testAddressesOf(t, "", func(routes []Route[C, H]) *client { return s.startUnix(t, routes...) })
	})
}

// testAddressesOf runs the cases of one peer in one app, with a route each.
func (s suite[C, H]) testAddressesOf(t *testing.T, peer string, start func([]Route[C, H]) *client) {
	var cases []AddressCase
	var routes []Route[C, H]
	var handlers []*seen
	l := limiter(t, newStore(), "address", ratelimit.PerSecond(1000))
	for _, c := range AddressCases() {
		if c.Peer != peer {
			continue
		}
		handler := new(seen)
		config := httplimit.Config[C, H]{Key: s.By(c.Address(t).Key())}
		routes = append(routes, s.route(fmt.Sprintf("/%d", len(cases)), handler.ok(), l, config))
		cases, handlers = append(cases, c), append(handlers, handler)
	}
	client := start(routes)
	for i, c := range cases {
		var headers []string
		for _, line := range c.Lines {
			headers = append(headers, c.HeaderName(), line)
		}
		client.expect(200, routes[i].Path, headers...)
		res, _ := handlers[i].last(t)
		if want := stored(c.Key); res.Key != want {
			t.Errorf("%s: key %q, want %q", c.Name, res.Key, want)
		}
	}
}

// stored is the key in the store of a request whose Config.Key returns key and
// whose peer has no address.
func stored(key string) string {
	if key == "" {
		return "*"
	}
	return "k:" + key
}
