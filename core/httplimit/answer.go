package httplimit

import (
	"net/http"
	"strconv"
	"strings"
)

const (
	contentProblem = "application/problem+json"
	contentText    = "text/plain; charset=utf-8"

	deniedMessage      = "Request cannot be satisfied as assigned quota has been exceeded"
	costMessage        = "Request costs more than its quota ever holds, so it cannot succeed by waiting"
	unavailableMessage = "Request cannot be satisfied due to temporary server capacity constraints"
)

// Answer is the default answer to a request that is not admitted. Its headers,
// other than Content-Type, are already set in the response.
type Answer struct {
	// Status is 429 or 503.
	Status int
	// Message says why in one sentence, for frameworks whose error handler
	// renders the answer.
	Message string

	problem []byte
	header  RequestHeader // nil if there is none
	head    bool
}

// Problem returns the body as application/problem+json (RFC 9457), whatever the
// client accepts. It is shared: do not change it.
func (a Answer) Problem() []byte { return a.problem }

// Body returns the body that suits what the client accepts, and its content
// type: a problem, or the message as plain text. The body is nil for HEAD. It is
// shared: do not change it. Body reads the request, so call it before the handler
// returns.
func (a Answer) Body() (contentType string, body []byte) {
	accept := Request{Header: a.header}.lines("Accept")
	contentType, body = contentProblem, a.problem
	if !acceptsJSON(accept) {
		contentType, body = contentText, []byte(a.Message+"\n")
	}
	if a.head {
		return contentType, nil
	}
	return contentType, body
}

// Send writes the answer to w.
func (a Answer) Send(w http.ResponseWriter) {
	contentType, body := a.Body()
	w.Header()["Content-Type"] = contentTypes[contentType]
	w.WriteHeader(a.Status)
	if body != nil {
		_, _ = w.Write(body) // an error means that the client has gone
	}
}

// contentTypes are the values of the header, ready to be shared by responses.
var contentTypes = map[string][]string{
	contentProblem: {contentProblem},
	contentText:    {contentText},
}

func newAnswer(status int, message string, problem []byte, req Request) Answer {
	return Answer{
		Status:  status,
		Message: message,
		problem: problem,
		header:  req.Header,
		head:    req.Method == http.MethodHead,
	}
}

// acceptsJSON reads the Accept header: whether the most specific range that
// covers a problem in JSON is not refused. No Accept header accepts everything.
func acceptsJSON(lines []string) bool {
	if len(lines) == 0 {
		return true
	}
	best, accepted := 0, false
	for _, line := range lines {
		for mediaRange := range strings.SplitSeq(line, ",") {
			name, params, _ := strings.Cut(mediaRange, ";")
			switch specific := specificity(strings.TrimSpace(name)); {
			case specific > best:
				best, accepted = specific, !refused(params)
			case specific == best && best > 0:
				accepted = accepted || !refused(params)
			}
		}
	}
	return accepted
}

// specificity ranks the media ranges that cover a problem in JSON. 0 is one that
// does not.
func specificity(mediaRange string) int {
	switch strings.ToLower(mediaRange) {
	case contentProblem, "application/json":
		return 3
	case "application/*":
		return 2
	case "*/*":
		return 1
	default:
		return 0
	}
}

// refused reports whether a media range's parameters give it a weight of 0.
func refused(params string) bool {
	for param := range strings.SplitSeq(params, ";") {
		name, weight, _ := strings.Cut(strings.TrimSpace(param), "=")
		if strings.EqualFold(name, "q") {
			q, err := strconv.ParseFloat(weight, 64)
			return err == nil && q == 0
		}
	}
	return false
}
