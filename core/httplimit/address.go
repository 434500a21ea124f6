package httplimit

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

const (
	forwardedFor   = "X-Forwarded-For"
	defaultIPv6Len = 64
)

// ClientIP returns the address of the client as the key: the TCP peer's, unless
// the peer is in one of the trusted prefixes, which are those of the proxies in
// front of the service. Behind a trusted peer it is the last address in
// X-Forwarded-For that is not itself trusted. Without trusted prefixes no header
// is read.
//
//	trusted, err := httplimit.ParseTrusted(os.Getenv("TRUSTED_PROXIES"))
//	...
//	Key: ginlimit.By(httplimit.ClientIP(trusted...))
//
// It is short for [ClientAddress.Key], and panics as that does.
func ClientIP(trusted ...netip.Prefix) Key[Request] {
	return ClientAddress{Trusted: trusted}.Key()
}

// ClientAddress is how the address of a client is found. The zero value is the
// TCP peer's address.
type ClientAddress struct {
	// Trusted are the prefixes of the proxies in front of the service. Only a
	// peer in one of them is believed what it says about its client. Each proxy
	// must append the address of its own peer to X-Forwarded-For, or set Header.
	Trusted []netip.Prefix
	// Header names a header in which a trusted peer gives the client's address
	// alone, such as CF-Connecting-IP or X-Real-IP. The proxy must overwrite
	// what clients send in it. Empty means X-Forwarded-For.
	Header string
	// IPv6Bits is the length of the prefix that IPv6 addresses are grouped by,
	// from 1 to 128. 0 means 64: whoever has one IPv6 address usually has a
	// whole /64 of them.
	IPv6Bits int
	// UnixSocket trusts peers without an address: a proxy on this machine that
	// connects over a unix socket. Anyone who may open the socket is believed.
	UnixSocket bool
}

// Key returns the address of the client as a key: "203.0.113.7" or
// "2001:db8::/64". It never returns an error. A request has no key when its peer
// has no address and nobody trusted has given one.
//
// An IPv4 address within IPv6 counts as IPv4, and zones are dropped. Entries may
// carry a port. All X-Forwarded-For lines are read as one list, from right to
// left, skipping trusted addresses. If all are trusted, the leftmost is the
// client. An entry that is not an address, or is empty, ends the search, because
// anyone may have written what is left of it; the key is then the peer's
// address. So it is when Header is missing, repeated or not an address.
//
// Key panics with a sentence that says what to change if a trusted prefix is
// invalid or holds every address, or if IPv6Bits is out of range.
func (a ClientAddress) Key() Key[Request] {
	finder, err := a.finder()
	if err != nil {
		panic(err.Error())
	}
	return func(r Request) (string, error) {
		var buf [64]byte
		return string(finder.appendKey(buf[:0], r)), nil
	}
}

func (a ClientAddress) finder() (addressFinder, error) {
	f := addressFinder{header: a.Header, ipv6Bits: a.IPv6Bits, unixSocket: a.UnixSocket}
	if a.IPv6Bits == 0 {
		f.ipv6Bits = defaultIPv6Len
	}
	if f.ipv6Bits < 1 || f.ipv6Bits > 128 {
		return f, fmt.Errorf("httplimit: ClientAddress.IPv6Bits is %d: give a prefix length from 1 to 128, or 0 for 64", a.IPv6Bits)
	}
	for _, prefix := range a.Trusted {
		prefix, err := checkTrusted(prefix)
		if err != nil {
			return f, err
		}
		f.trusted = append(f.trusted, prefix)
	}
	return f, nil
}

// checkTrusted returns prefix unmapped, or says why it cannot be trusted.
func checkTrusted(prefix netip.Prefix) (netip.Prefix, error) {
	if !prefix.IsValid() {
		return prefix, errors.New("httplimit: a trusted prefix is invalid: make it with netip.ParsePrefix or httplimit.ParseTrusted")
	}
	unmapped := prefix.Masked()
	if addr := prefix.Addr(); addr.Is4In6() && prefix.Bits() >= 96 {
		unmapped = netip.PrefixFrom(addr.Unmap(), prefix.Bits()-96).Masked()
	}
	if unmapped.Bits() == 0 {
		return prefix, fmt.Errorf("httplimit: the trusted prefix %s holds every address, so that any client could choose its key: list the prefixes of your proxies", prefix)
	}
	return unmapped, nil
}

// ParseTrusted reads a comma-separated list of prefixes and addresses, such as
// "10.0.3.0/28, 192.0.2.1", for [ClientIP]. Name the proxies alone: whoever else
// is in a trusted prefix chooses its own key. Spaces and empty entries are skipped,
// so "" is no prefix at all. It returns an error that names the entry that is
// neither, or that would hold every address.
func ParseTrusted(list string) ([]netip.Prefix, error) {
	var trusted []netip.Prefix
	for entry := range strings.SplitSeq(list, ",") {
		if entry = strings.TrimSpace(entry); entry == "" {
			continue
		}
		prefix, err := parsePrefix(entry)
		if err != nil {
			return nil, err
		}
		trusted = append(trusted, prefix)
	}
	return trusted, nil
}

func parsePrefix(entry string) (netip.Prefix, error) {
	if addr, err := netip.ParseAddr(entry); err == nil {
		addr = addr.Unmap().WithZone("")
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	prefix, err := netip.ParsePrefix(entry)
	if err != nil {
		return prefix, fmt.Errorf("httplimit: trusted proxy %q is neither an address nor a prefix such as 10.0.3.0/28", entry)
	}
	return checkTrusted(prefix)
}

// addressFinder is a ClientAddress that has been checked.
type addressFinder struct {
	trusted    []netip.Prefix
	header     string
	ipv6Bits   int
	unixSocket bool
}

// peerFinder finds the peer's address and believes no header.
var peerFinder = addressFinder{ipv6Bits: defaultIPv6Len}

// appendKey appends the client's address, or nothing if there is none.
func (f addressFinder) appendKey(buf []byte, r Request) []byte {
	client := f.client(r)
	switch {
	case !client.IsValid():
		return buf
	case client.Is4() || f.ipv6Bits == 128:
		return client.AppendTo(buf)
	default:
		return netip.PrefixFrom(client, f.ipv6Bits).Masked().AppendTo(buf)
	}
}

func (f addressFinder) client(r Request) netip.Addr {
	peer := normal(r.Peer)
	switch {
	case !f.trustsPeer(peer):
		return peer
	case f.header != "":
		return single(r.lines(f.header), peer)
	default:
		return f.forwarded(r.lines(forwardedFor), peer)
	}
}

func (f addressFinder) trustsPeer(peer netip.Addr) bool {
	if !peer.IsValid() {
		return f.unixSocket
	}
	return f.trusts(peer)
}

func (f addressFinder) trusts(addr netip.Addr) bool {
	for _, prefix := range f.trusted {
		if prefix.Contains(addr) {
			return true
		}
	}
	return false
}

// forwarded reads a list of addresses from right to left, as the proxies have
// appended them.
func (f addressFinder) forwarded(lines []string, peer netip.Addr) netip.Addr {
	client := peer
	for _, line := range slices.Backward(lines) {
		for rest, more := line, true; more; {
			var entry string
			rest, entry, more = cutLast(rest)
			client = parseAddress(entry)
			if !client.IsValid() {
				return peer
			}
			if !f.trusts(client) {
				return client
			}
		}
	}
	return client
}

// cutLast splits list at its last comma. more is whether there was one.
func cutLast(list string) (rest, entry string, more bool) {
	if i := strings.LastIndexByte(list, ','); i >= 0 {
		return list[:i], list[i+1:], true
	}
	return "", list, false
}

// single is the address in a header that must be there once.
func single(lines []string, peer netip.Addr) netip.Addr {
	if len(lines) != 1 {
		return peer
	}
	if addr := parseAddress(lines[0]); addr.IsValid() {
		return addr
	}
	return peer
}

// parseAddress reads an address that may carry brackets and a port. It returns
// the zero Addr for anything else.
func parseAddress(entry string) netip.Addr {
	entry = strings.Trim(entry, " \t")
	if addr, err := netip.ParseAddr(entry); err == nil {
		return normal(addr)
	}
	if addrPort, err := netip.ParseAddrPort(entry); err == nil {
		return normal(addrPort.Addr())
	}
	if inner, ok := strings.CutPrefix(entry, "["); ok {
		if inner, ok = strings.CutSuffix(inner, "]"); ok {
			addr, _ := netip.ParseAddr(inner)
			return normal(addr)
		}
	}
	return netip.Addr{}
}

// normal is addr as it is compared and keyed: IPv4 as IPv4, without a zone. The
// unspecified address, which is nobody's, becomes the zero Addr.
func normal(addr netip.Addr) netip.Addr {
	addr = addr.Unmap().WithZone("")
	if addr.IsUnspecified() {
		return netip.Addr{}
	}
	return addr
}
