package httplimit

import (
	"net/http"
	"slices"
)

// When returns a predicate for Config.Skip that holds when one of the neutral
// predicates does. by is the function By of the adapter:
//
//	Skip: httplimit.When(ginlimit.By, httplimit.Preflight, httplimit.Path("/healthz"))
//
// It panics if by or a predicate is nil, or if there are no predicates.
func When[C any](by func(Key[Request]) Key[C], predicates ...func(Request) bool) func(C) bool {
	if by == nil || len(predicates) == 0 {
		panic("httplimit: When needs the adapter's By and at least one predicate")
	}
	for _, holds := range predicates {
		if holds == nil {
			panic("httplimit: a predicate given to When is nil")
		}
	}
	key := by(func(r Request) (string, error) {
		for _, holds := range predicates {
			if holds(r) {
				return "skip", nil
			}
		}
		return "", nil
	})
	return func(c C) bool {
		skip, _ := key(c) // never an error, see above
		return skip != ""
	}
}

// Preflight holds for the request by which a browser asks for permission before
// a cross-origin call: OPTIONS with Origin and Access-Control-Request-Method.
// Browsers show a denied preflight as a failed call without a status.
func Preflight(r Request) bool {
	return r.Method == http.MethodOptions &&
		r.first("Origin") != "" &&
		r.first("Access-Control-Request-Method") != ""
}

// Path returns a predicate that holds for requests of exactly one of the given
// paths, such as "/healthz"; of none, if there are none.
func Path(paths ...string) func(Request) bool {
	return func(r Request) bool {
		return slices.Contains(paths, r.Path)
	}
}
