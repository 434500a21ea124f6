package httplimit

import (
	"net/http"
	"strconv"
	"sync"
)

const (
	// maxFields is how many headers one decision sets: three X-RateLimit, two of
	// the IETF, Retry-After and Cache-Control.
	maxFields = 7
	// maxNumber is the largest integer of a structured field (RFC 9651): 15
	// digits.
	maxNumber = 999_999_999_999_999
)

// headerSet collects the headers of one response in one text, so that they cost
// two allocations together and not two each.
type headerSet struct {
	text   []byte // all values, one after the other
	fields [maxFields]field
	n      int
}

var headerSets = sync.Pool{New: func() any { return new(headerSet) }}

// newHeaderSet returns an empty set, which writeTo takes back.
func newHeaderSet() *headerSet {
	return headerSets.Get().(*headerSet) //nolint:forcetypeassert // its New makes nothing else
}

type field struct {
	name     string
	from, to int // in text
}

// begin starts the header name with what is already in it.
func (s *headerSet) begin(name, before string) {
	s.fields[s.n] = field{name: name, from: len(s.text)}
	s.text = append(s.text, before...)
}

// end completes the header that begin has started.
func (s *headerSet) end() {
	s.fields[s.n].to = len(s.text)
	s.n++
}

// number adds a header whose value is one integer.
func (s *headerSet) number(name string, n int64) {
	s.begin(name, "")
	s.appendNumber(n)
	s.end()
}

// literal adds a header of a fixed value.
func (s *headerSet) literal(name, value string) {
	s.begin(name, value)
	s.end()
}

// item appends an item of a structured list: the name of the limiter's limit i.
// Names need no escaping; see ratelimit.New.
func (s *headerSet) item(name string, i int) {
	if len(s.text) > s.fields[s.n].from {
		s.text = append(s.text, ", "...)
	}
	s.text = append(s.text, '"')
	s.text = appendPolicy(s.text, name, i)
	s.text = append(s.text, '"')
}

// appendPolicy appends the policy name of a limiter's limit i: "api", "api.1".
func appendPolicy(text []byte, name string, i int) []byte {
	text = append(text, name...)
	if i > 0 {
		text = append(text, '.')
		text = strconv.AppendInt(text, int64(i), 10)
	}
	return text
}

// param appends a parameter to the item.
func (s *headerSet) param(name string, n int64) {
	s.text = append(s.text, name...)
	s.appendNumber(n)
}

func (s *headerSet) appendNumber(n int64) {
	s.text = strconv.AppendInt(s.text, min(max(n, 0), maxNumber), 10)
}

// writeTo sets the headers in out and gives the set back.
func (s *headerSet) writeTo(out ResponseHeader) {
	if s.n > 0 {
		s.set(out, string(s.text))
	}
	s.text, s.n = s.text[:0], 0
	headerSets.Put(s)
}

func (s *headerSet) set(out ResponseHeader, text string) {
	header, ok := out.(http.Header)
	if !ok {
		for _, f := range s.fields[:s.n] {
			out.Set(f.name, text[f.from:f.to])
		}
		return
	}
	values := make([]string, s.n)
	for i, f := range s.fields[:s.n] {
		values[i] = text[f.from:f.to]
		header[f.name] = values[i : i+1 : i+1]
	}
}

// parseNumber reads a header that holds one non-negative integer.
func parseNumber(value string) (int64, bool) {
	if value == "" { // the usual case, for which strconv would make an error
		return 0, false
	}
	n, err := strconv.ParseInt(value, 10, 64)
	return n, err == nil && n >= 0
}
