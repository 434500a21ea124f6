package httplimit_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/atomicbucket/ratelimit/core/httplimit"
)

func TestAPeerOnAUnixSocketHasNoAddressWhateverItCallsItself(t *testing.T) {
	t.Parallel()
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = "203.0.113.7:1"
	if peer := httplimit.FromHTTP(r).Peer; peer.String() != "203.0.113.7" {
		t.Fatalf("the peer is %v", peer)
	}
	socket := &net.UnixAddr{Name: "/run/app.sock", Net: "unix"}
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, socket))
	if peer := httplimit.FromHTTP(r).Peer; peer.IsValid() {
		t.Errorf("a peer on a unix socket has the address %v", peer)
	}
}
