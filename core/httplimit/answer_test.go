package httplimit_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/httplimit"
	"github.com/atomicbucket/ratelimit/core/memstore"
)

func TestAnAnswerToHEADHasNoBody(t *testing.T) {
	t.Parallel()
	limiter, err := ratelimit.New(decided{memstore.New(), false}, "api", ratelimit.PerSecond(10))
	if err != nil {
		t.Fatal(err)
	}
	m := httplimit.New(limiter, httplimit.FromHTTP, config{})
	for method, hasBody := range map[string]bool{http.MethodHead: false, http.MethodGet: true, http.MethodPost: true} {
		o := m.Decide(httptest.NewRequest(method, "/", nil), http.Header{})
		if contentType, body := o.Answer.Body(); contentType != "application/problem+json" || (len(body) > 0) != hasBody {
			t.Errorf("%s: %s %q", method, contentType, body)
		}
	}
}

// plain is a response header that is not an http.Header, as fiber's.
type plain map[string]string

func (p plain) Get(name string) string { return p[http.CanonicalHeaderKey(name)] }
func (p plain) Set(name, value string) { p[http.CanonicalHeaderKey(name)] = value }

func TestHeadersOfAnyKindAreSetAlike(t *testing.T) {
	t.Parallel()
	limiter, err := ratelimit.New(decided{memstore.New(), false}, "api", ratelimit.PerSecond(10))
	if err != nil {
		t.Fatal(err)
	}
	m := httplimit.New(limiter, httplimit.FromHTTP, config{Headers: httplimit.XRateLimit | httplimit.IETFDraft11})
	want, got := http.Header{}, plain{}
	for range 2 { // the second time beside those of another limiter
		m.Decide(httptest.NewRequest(http.MethodGet, "/", nil), want)
		m.Decide(httptest.NewRequest(http.MethodGet, "/", nil), got)
	}
	if len(want) != 7 || len(got) != len(want) {
		t.Errorf("%d and %d headers, want 7", len(got), len(want))
	}
	for name, lines := range want {
		if got[name] != lines[0] {
			t.Errorf("%s: %q, want %q", name, got[name], lines[0])
		}
	}
}
