package httplimit_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/atomicbucket/ratelimit/core/httplimit"
)

func constant(key string) httplimit.Key[int] {
	return func(int) (string, error) { return key, nil }
}

func failing(int) (string, error) { return "", errors.New("broken") }

func TestFirstOfTakesTheFirstKeyThereIs(t *testing.T) {
	t.Parallel()
	if key := mustKey(t, httplimit.FirstOf(constant(""), constant("a"), failing), 0); key != "a" {
		t.Errorf("key %q, want a", key)
	}
	if key := mustKey(t, httplimit.FirstOf(constant(""), constant("")), 0); key != "" {
		t.Errorf("key %q, want none", key)
	}
	if _, err := httplimit.FirstOf(constant(""), failing, constant("a"))(0); err == nil {
		t.Error("the error of a key is lost")
	}
}

func TestJoinHasNoKeyWithoutAllParts(t *testing.T) {
	t.Parallel()
	if key := mustKey(t, httplimit.Join(constant("a"), constant("")), 0); key != "" {
		t.Errorf("key %q, want none", key)
	}
	if _, err := httplimit.Join(constant("a"), failing)(0); err == nil {
		t.Error("the error of a part is lost")
	}
	if key := mustKey(t, httplimit.Join(constant("a"), constant("b")), 0); key != "a|b" {
		t.Errorf("key %q", key)
	}
}

// FuzzJoin holds that the parts can be told from the key, so that no other parts
// make the same one.
func FuzzJoin(f *testing.F) {
	f.Add("a:b", "c")
	f.Add("a", "b:c")
	f.Add("a|b", "c")
	f.Add(`a\`, "|c")
	f.Add(`\|`, `|\`)
	f.Fuzz(func(t *testing.T, a, b string) {
		key := mustKey(t, httplimit.Join(constant(a), constant(b)), 0)
		if a == "" || b == "" {
			return
		}
		if gotA, gotB := split(key); gotA != a || gotB != b {
			t.Errorf("%q and %q make %q, which reads as %q and %q", a, b, key, gotA, gotB)
		}
	})
}

func split(key string) (a, b string) {
	var parts [2]strings.Builder
	n := 0
	for i := 0; i < len(key); i++ {
		switch {
		case key[i] == '|':
			n++
			continue
		case key[i] == '\\':
			i++
		}
		parts[n].WriteByte(key[i])
	}
	return parts[0].String(), parts[1].String()
}

func TestHeaderHashesTheFirstLineAlone(t *testing.T) {
	t.Parallel()
	key := httplimit.Header("x-api-key")
	of := func(lines ...string) string {
		return mustKey(t, key, httplimit.Request{Header: http.Header{"X-Api-Key": lines}})
	}
	one := of("secret")
	if len(one) != 32 || one != of("secret", "other") || one == of("other", "secret") {
		t.Errorf("keys %q, %q, %q", one, of("secret", "other"), of("other", "secret"))
	}
	if of() != "" || of("") != "" || mustKey(t, key, httplimit.Request{}) != "" {
		t.Error("a request without the header has a key")
	}
	other := mustKey(t, httplimit.Header("X-Other"), httplimit.Request{Header: http.Header{"X-Other": {"secret"}}})
	if other == one {
		t.Error("one value in two headers is one key")
	}
}

func TestRouteIsMethodAndPattern(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ method, pattern, want string }{
		{"GET", "/items/{id}", "GET /items/{id}"},
		{"HEAD", "/items/{id}", "GET /items/{id}"},
		{"POST", "POST /items/{id}", "POST /items/{id}"},
		{"HEAD", "GET  example.com/", "GET example.com/"},
		{"GET", "GET\t/x", "GET /x"},
		{"MADE-UP1", "/login", "* /login"},
		{"MADE-UP2", "/login", "* /login"},
		{"get", "/login", "* /login"},
		{"GET", "", ""},
	} {
		r := httptest.NewRequest(c.method, "/", nil)
		r.Pattern = c.pattern
		if key := mustKey(t, httplimit.Route, httplimit.FromHTTP(r)); key != c.want {
			t.Errorf("%s under pattern %q: key %q, want %q", c.method, c.pattern, key, c.want)
		}
	}
}

func TestCombinationsOfNothingAreRefused(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]func(){
		"FirstOf nothing":      func() { httplimit.FirstOf[int]() },
		"FirstOf nil":          func() { httplimit.FirstOf(constant("a"), nil) },
		"Join nothing":         func() { httplimit.Join[int]() },
		"Join nil":             func() { httplimit.Join(constant("a"), nil) },
		"Header without name":  func() { httplimit.Header("") },
		"When without By":      func() { httplimit.When[int](nil, httplimit.Preflight) },
		"When nothing":         func() { httplimit.When(by) },
		"When a nil predicate": func() { httplimit.When(by, nil) },
	} {
		wantPanic(t, name, f)
	}
}

func TestPreflightIsMoreThanOptions(t *testing.T) {
	t.Parallel()
	skip := httplimit.When(by, httplimit.Preflight)
	for _, c := range []struct {
		method  string
		headers []string
		want    bool
	}{
		{"OPTIONS", []string{"Origin", "Access-Control-Request-Method"}, true},
		{"OPTIONS", []string{"Origin"}, false},
		{"OPTIONS", []string{"Access-Control-Request-Method"}, false},
		{"OPTIONS", nil, false},
		{"GET", []string{"Origin", "Access-Control-Request-Method"}, false},
	} {
		r := httptest.NewRequest(c.method, "/", nil)
		for _, name := range c.headers {
			r.Header.Set(name, "x")
		}
		if got := skip(r); got != c.want {
			t.Errorf("%s with %q: %v, want %v", c.method, c.headers, got, c.want)
		}
	}
}
