package chilimit

import (
	"net/http"
	"strings"
	"sync"

	"github.com/go-chi/chi/v5"
)

// route is the pattern of the route that r is on its way to, "" if chi has none
// for it.
//
// What chi has matched so far is all of it in With, in Group and in handlers. It
// is nothing yet in Use, and ends in a wildcard in Use of a sub-router, where
// there may be more to come.
func route(r *http.Request, routing *chi.Context) string {
	matched := routing.RoutePattern()
	if matched != "" && !strings.HasSuffix(matched, "*") || routing.Routes == nil {
		return matched
	}
	if ahead := lookAhead(r, routing); ahead != "" {
		return ahead
	}
	return matched
}

// searches are contexts of chi's for looking ahead.
var searches = sync.Pool{New: func() any { return chi.NewRouteContext() }}

// lookAhead finds the route as chi will, from the outermost router on.
func lookAhead(r *http.Request, routing *chi.Context) string {
	search := searches.Get().(*chi.Context) //nolint:forcetypeassert // its New makes nothing else
	defer searches.Put(search)
	method, path := routing.RouteMethod, routingPath(r, routing)
	if method == "" {
		method = r.Method
	}
	if found := find(routing.Routes, search, method, path); found != "" || method != http.MethodHead {
		return found
	}
	// chi's GetHead, further in, may send it to the handler of GET.
	return find(routing.Routes, search, http.MethodGet, path)
}

func find(routes chi.Routes, search *chi.Context, method, path string) string {
	search.Reset()
	if !routes.Match(search, method, path) {
		return ""
	}
	return search.RoutePattern()
}

// routingPath is the path by which the outermost router has routed r, or will.
// Middlewares such as chi's StripSlashes and CleanPath make it another than the
// URL's.
func routingPath(r *http.Request, routing *chi.Context) string {
	if routing.RoutePath == "" {
		return urlPath(r)
	}
	path := matchedPath(routing)
	if values := routing.URLParams.Values; len(values) > 0 && values[len(values)-1] != "" {
		return path // with the rest in the wildcard's value, until a sub-router takes it
	}
	return strings.TrimSuffix(path, "/") + routing.RoutePath
}

func urlPath(r *http.Request) string {
	switch {
	case r.URL.RawPath != "":
		return r.URL.RawPath
	case r.URL.Path != "":
		return r.URL.Path
	default:
		return "/"
	}
}

// matchedPath is the patterns matched so far with their parameters filled in.
func matchedPath(routing *chi.Context) string {
	path, values := "", routing.URLParams.Values
	for _, pattern := range routing.RoutePatterns {
		var filled string
		filled, values = fill(pattern, values)
		path = strings.TrimSuffix(path, "/") + filled
	}
	return path
}

// fill puts values in the place of the parameters of pattern, {name},
// {name:regexp} and *, and returns those that are left.
func fill(pattern string, values []string) (path string, left []string) {
	var filled []byte
	depth := 0 // of braces; a regexp may have its own
	for i := range len(pattern) {
		c := pattern[i]
		if depth == 0 && (c == '{' || c == '*') && len(values) > 0 {
			filled, values = append(filled, values[0]...), values[1:]
		}
		switch {
		case c == '{':
			depth++
		case c == '}':
			depth--
		case depth == 0 && c != '*':
			filled = append(filled, c)
		}
	}
	return string(filled), values
}
