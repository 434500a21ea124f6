package echolimit

import (
	"bytes"

	"github.com/labstack/echo/v4"

	"github.com/atomicbucket/ratelimit/core/httplimit"
)

// refusal is the error that answers a request. Handlers of errors take Message
// for a string, as it is in echo's own; echo's default handler prefers Internal.
func refusal(a httplimit.Answer) *echo.HTTPError {
	return &echo.HTTPError{
		Code:     a.Status,
		Message:  a.Message,
		Internal: &echo.HTTPError{Code: a.Status, Message: problem(a.Problem())},
	}
}

// problem is a body in JSON, and readable where the error is logged.
type problem []byte

// MarshalJSON implements json.Marshaler.
func (p problem) MarshalJSON() ([]byte, error) { return p, nil }

// String implements fmt.Stringer.
func (p problem) String() string { return string(bytes.TrimSpace(p)) }
