package httplimit

import (
	"math/bits"
	"net/http"
	"strconv"

	ratelimit "github.com/atomicbucket/ratelimit/core"
)

const problemTypes = "https://iana.org/assignments/http-problem-types#"

// problemFor is the body of a denial. Those of the limiter given to New are made
// once.
func (m *Middleware[C, H]) problemFor(res *ratelimit.Result) []byte {
	denied := denials(res)
	if res.Name != m.name {
		return deniedProblem(deniedMessage, policies(res.Name, denied)...)
	}
	if problem, ok := m.problems.Load(denied); ok {
		return problem.([]byte) //nolint:forcetypeassert // nothing else is stored
	}
	problem := deniedProblem(deniedMessage, policies(res.Name, denied)...)
	m.problems.Store(denied, problem)
	return problem
}

// denials are the limits that did not admit a call, as bits.
func denials(res *ratelimit.Result) (denied uint64) {
	eachLimit(res, func(i int, l ratelimit.LimitResult) {
		if l.RetryAfter > 0 {
			denied |= 1 << i
		}
	})
	return denied
}

// policies are the names of the limits whose bit is set.
func policies(name string, limits uint64) (names []string) {
	for i := range bits.Len64(limits) {
		if limits&(1<<i) != 0 {
			names = append(names, string(appendPolicy(nil, name, i)))
		}
	}
	return names
}

// deniedProblem is the body of a 429. policies are the names of the limits that
// did not admit the request.
func deniedProblem(message string, policies ...string) []byte {
	body := openProblem("quota-exceeded", message, http.StatusTooManyRequests)
	body = append(body, `,"violated-policies":[`...)
	for i, policy := range policies {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, '"')
		body = append(body, policy...)
		body = append(body, '"')
	}
	return append(body, "]}\n"...)
}

// unavailableProblem is the body of a 503.
var unavailableProblem = append(openProblem("temporary-reduced-capacity", unavailableMessage, http.StatusServiceUnavailable), "}\n"...)

// openProblem is the start of a problem, up to where more members may follow.
// None of its values needs escaping.
func openProblem(kind, title string, status int) []byte {
	body := make([]byte, 0, 256)
	body = append(body, `{"type":"`+problemTypes...)
	body = append(body, kind...)
	body = append(body, `","title":"`...)
	body = append(body, title...)
	body = append(body, `","status":`...)
	return strconv.AppendInt(body, int64(status), 10)
}
