package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/atomicbucket/ratelimit/core/httplimit"
	"github.com/atomicbucket/ratelimit/core/httplimit/adaptertest"
)

func TestClientAddressFollowsTheTable(t *testing.T) {
	t.Parallel()
	cases := adaptertest.AddressCases()
	if len(cases) < 60 {
		t.Fatalf("only %d cases", len(cases))
	}
	for _, c := range cases {
		r := httplimit.Request{Peer: c.PeerAddr(), Header: http.Header{c.HeaderName(): c.Lines}}
		if key := mustKey(t, c.Address(t).Key(), r); key != c.Key {
			t.Errorf("%s: %q, want %q", c.Name, key, c.Key)
		}
	}
}

func TestClientAddressReadsHeadersWhateverTheirCase(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("cf-connecting-ip", "203.0.113.7")
	address := httplimit.ClientAddress{Header: "CF-connecting-ip", Trusted: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}
	if key := mustKey(t, address.Key(), httplimit.FromHTTP(r)); key != "203.0.113.7" {
		t.Errorf("key %q", key)
	}
}

func TestPeersAreReadFromRemoteAddr(t *testing.T) {
	t.Parallel()
	for remoteAddr, want := range map[string]string{
		"192.0.2.1:1234":             "192.0.2.1",
		"192.0.2.1":                  "192.0.2.1",
		"[2001:db8::1]:1234":         "2001:db8::/64",
		"2001:db8::1":                "2001:db8::/64",
		"[fe80::1%eth0]:1234":        "fe80::/64",
		"fe80::1%eth0":               "fe80::/64",
		"[::ffff:192.0.2.1]:1234":    "192.0.2.1",
		"::ffff:192.0.2.1":           "192.0.2.1",
		"[::ffff:192.0.2.1%eth0]:80": "192.0.2.1",
		"0.0.0.0:0":                  "",
		"[::]:0":                     "",
		"@":                          "",
		"":                           "",
		"pipe":                       "",
		"<nil>":                      "",
		"192.0.2.1:99999":            "",
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = remoteAddr
		if key := mustKey(t, httplimit.ClientIP(), httplimit.FromHTTP(r)); key != want {
			t.Errorf("%q: key %q, want %q", remoteAddr, key, want)
		}
	}
}

func TestTrustedPeersAreKnownMappedAndZoned(t *testing.T) {
	t.Parallel()
	key := httplimit.ClientIP(netip.MustParsePrefix("192.0.2.0/24"), netip.MustParsePrefix("fe80::/10"))
	for _, peer := range []string{"192.0.2.1", "::ffff:192.0.2.1", "::ffff:192.0.2.1%eth0", "fe80::1", "fe80::1%eth0"} {
		r := httplimit.Request{Peer: netip.MustParseAddr(peer), Header: http.Header{"X-Forwarded-For": {"203.0.113.7"}}}
		if got := mustKey(t, key, r); got != "203.0.113.7" {
			t.Errorf("peer %s: key %q, so it was not trusted", peer, got)
		}
	}
}

func TestParseTrustedReadsPrefixesAndAddresses(t *testing.T) {
	t.Parallel()
	for list, want := range map[string][]string{
		"":                           nil,
		" , ,":                       nil,
		"10.0.0.0/8":                 {"10.0.0.0/8"},
		" 10.1.2.3/8 ,2001:db8::/32": {"10.0.0.0/8", "2001:db8::/32"},
		"192.0.2.1,2001:db8::1":      {"192.0.2.1/32", "2001:db8::1/128"},
		"::ffff:192.0.2.1":           {"192.0.2.1/32"},
		"::ffff:10.0.0.0/104":        {"10.0.0.0/8"},
		"fe80::1%eth0":               {"fe80::1/128"},
	} {
		trusted, err := httplimit.ParseTrusted(list)
		var got []string
		for _, prefix := range trusted {
			got = append(got, prefix.String())
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v; want %q", list, got, err, want)
		}
	}
}

func TestParseTrustedNamesTheEntryThatIsWrong(t *testing.T) {
	t.Parallel()
	for list, names := range map[string]string{
		"10.0.0.0/8,proxy.example": "proxy.example",
		"10.0.0.0/33":              "10.0.0.0/33",
		"10.0.0.0/8 10.1.0.0/16":   "10.0.0.0/8 10.1.0.0/16",
		"0.0.0.0/0":                "0.0.0.0/0",
		"10.0.0.0/8, ::/0":         "::/0",
		"::ffff:0.0.0.0/96":        "/96",
		"203.0.113.7/0":            "203.0.113.7/0",
	} {
		trusted, err := httplimit.ParseTrusted(list)
		if err == nil || !strings.Contains(err.Error(), names) || trusted != nil {
			t.Errorf("%q: %v, %v; want an error that names %q", list, trusted, err, names)
		}
	}
}

func TestClientAddressRefusesWhatCannotWork(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]httplimit.ClientAddress{
		"an invalid prefix":            {Trusted: []netip.Prefix{{}}},
		"everyone":                     {Trusted: []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0")}},
		"everyone, with host bits":     {Trusted: []netip.Prefix{netip.PrefixFrom(netip.MustParseAddr("10.0.0.1"), 0)}},
		"everyone, over IPv6":          {Trusted: []netip.Prefix{netip.MustParsePrefix("::/0")}},
		"everyone, mapped":             {Trusted: []netip.Prefix{netip.MustParsePrefix("::ffff:0.0.0.0/96")}},
		"a negative prefix length":     {IPv6Bits: -1},
		"a prefix length out of range": {IPv6Bits: 129},
	} {
		wantPanic(t, name, func() { address.Key() })
	}
}

// FuzzClientAddress holds that no header moves the key of an untrusted peer, and
// that a trusted one's key is always of an address.
func FuzzClientAddress(f *testing.F) {
	for _, c := range adaptertest.AddressCases() {
		f.Add(c.Peer, strings.Join(c.Lines, "\n"))
	}
	trusted := netip.MustParsePrefix("127.0.0.0/8")
	keys := map[string]httplimit.Key[httplimit.Request]{
		"X-Forwarded-For": httplimit.ClientIP(trusted),
		"X-Real-Ip":       httplimit.ClientAddress{Trusted: []netip.Prefix{trusted}, Header: "X-Real-IP"}.Key(),
	}
	f.Fuzz(func(t *testing.T, remoteAddr, text string) {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr = remoteAddr
		r.Header = http.Header{}
		request := httplimit.FromHTTP(r)
		alone := mustKey(t, httplimit.ClientIP(), request)
		for name, key := range keys {
			r.Header = http.Header{name: strings.Split(text, "\n")}
			got := mustKey(t, key, httplimit.FromHTTP(r))
			peer := request.Peer.Unmap().WithZone("")
			if !trusted.Contains(peer) && got != alone {
				t.Errorf("untrusted peer %q moved its key from %q to %q by %s: %q", remoteAddr, alone, got, name, text)
			}
			if got != "" && !isAddress(got) {
				t.Errorf("key %q is not of an address; peer %q, %s: %q", got, remoteAddr, name, text)
			}
		}
	})
}

func isAddress(key string) bool {
	if addr, err := netip.ParseAddr(key); err == nil {
		return addr.Is4()
	}
	prefix, err := netip.ParsePrefix(key)
	return err == nil && prefix.Bits() == 64 && prefix == prefix.Masked()
}

func mustKey[C any](t *testing.T, key httplimit.Key[C], c C) string {
	t.Helper()
	k, err := key(c)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func wantPanic(t *testing.T, name string, f func()) {
	t.Helper()
	defer func() {
		if said, ok := recover().(string); !ok || !strings.HasPrefix(said, "httplimit: ") {
			t.Errorf("%s: panicked with %q, want a sentence", name, said)
		}
	}()
	f()
}
