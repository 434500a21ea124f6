package httplimit

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
)

// Key returns the key of a request: requests of one key spend from one bucket.
//
// C is the framework's context, or [Request] for a neutral key. An empty key
// means that the request has none; it is then limited by its TCP peer's address,
// which may be a proxy's, so end with [FirstOf] and [ClientIP] behind one. A
// request whose Key returns an error is answered as unavailable (503): nobody
// is unlimited because of an error.
//
// Where a key may come from several kinds of thing, say which: "user:" + id.
type Key[C any] func(C) (string, error)

// FirstOf returns the first key that is not empty. An error ends the search.
//
//	Key: httplimit.FirstOf(user, ginlimit.By(httplimit.ClientIP(trusted...)))
//
// It panics if there are no keys or one is nil.
func FirstOf[C any](keys ...Key[C]) Key[C] {
	mustHave("FirstOf", keys)
	return func(c C) (string, error) {
		for _, key := range keys {
			if k, err := key(c); k != "" || err != nil {
				return k, err
			}
		}
		return "", nil
	}
}

// Join returns a key of several parts, such as an address and a route: each
// combination of parts has a bucket of its own. Different parts never make the
// same key, whatever characters they are of.
//
// A request that lacks one of the parts has no key; use [FirstOf] inside Join to
// put something in its place.
//
// It panics if there are no keys or one is nil.
func Join[C any](keys ...Key[C]) Key[C] {
	mustHave("Join", keys)
	return func(c C) (string, error) {
		var buf [128]byte
		joined := buf[:0]
		for i, key := range keys {
			part, err := key(c)
			if part == "" || err != nil {
				return "", err
			}
			if i > 0 {
				joined = append(joined, separator)
			}
			joined = appendEscaped(joined, part)
		}
		return string(joined), nil
	}
}

const (
	separator = '|'
	escape    = '\\'
)

// appendEscaped appends part so that no separator in it is taken for one of
// Join's.
func appendEscaped(joined []byte, part string) []byte {
	for i := range len(part) {
		if part[i] == separator || part[i] == escape {
			joined = append(joined, escape)
		}
		joined = append(joined, part[i])
	}
	return joined
}

// Lift makes a key of a framework's context of a neutral one, given how that
// framework's requests are read. It is what an adapter's By does. It panics if key
// is nil.
func Lift[C any](key Key[Request], request func(C) Request) Key[C] {
	mustHave("By", []Key[Request]{key})
	return func(c C) (string, error) { return key(request(c)) }
}

func mustHave[C any](name string, keys []Key[C]) {
	if len(keys) == 0 {
		panic("httplimit: " + name + " needs at least one key")
	}
	for _, key := range keys {
		if key == nil {
			panic("httplimit: a key given to " + name + " is nil")
		}
	}
}

// Header returns a hash of the named header's first line as the key, so that a
// secret in it never reaches the store. Requests without the header have no
// key.
//
// Use it only behind something that has verified the header and refuses what it
// does not know; see the package comment.
//
// It panics if name is empty.
func Header(name string) Key[Request] {
	if name == "" {
		panic("httplimit: Header needs the name of a header")
	}
	name = http.CanonicalHeaderKey(name)
	return func(r Request) (string, error) {
		value := r.first(name)
		if value == "" {
			return "", nil
		}
		return hash(name, value), nil
	}
}

// hash is the first 128 bits of a SHA-256, in hex. A header's name has no NUL.
func hash(name, value string) string {
	var buf [256]byte
	text := append(buf[:0], name...)
	text = append(text, 0)
	text = append(text, value...)
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// Route is a neutral key of the method and the matched pattern, such as
// "GET /items/{id}". HEAD counts as GET, and methods that net/http has no name for
// count as one, because a client can make up any number of them. A request
// without a matched pattern has no key; in most frameworks that is any request
// seen by a middleware that runs before the router.
func Route(r Request) (string, error) {
	if r.Route == "" {
		return "", nil
	}
	return countedMethod(r.Method) + " " + r.Route, nil
}

// countedMethod is the method as Route counts it.
func countedMethod(method string) string {
	switch method {
	case http.MethodHead:
		return http.MethodGet
	case http.MethodGet, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodConnect, http.MethodOptions, http.MethodTrace:
		return method
	default:
		return "*"
	}
}
