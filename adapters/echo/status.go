package echolimit

import (
	"bufio"
	"errors"
	"net"
	"net/http"

	"github.com/felixge/httpsnoop"
	"github.com/labstack/echo/v4"
)

// status is the code that a response was sent with, 0 as long as it was not.
// Response.Status would not do: it also changes when a second answer is tried.
type status int

// capture has res note its status. Its writer keeps its optional methods.
func capture(res *echo.Response) *status {
	s := new(status)
	res.Writer = httpsnoop.Wrap(res.Writer, httpsnoop.Hooks{
		WriteHeader: func(next httpsnoop.WriteHeaderFunc) httpsnoop.WriteHeaderFunc {
			return func(code int) { s.sent(code); next(code) }
		},
		Hijack: func(next httpsnoop.HijackFunc) httpsnoop.HijackFunc {
			return func() (net.Conn, *bufio.ReadWriter, error) {
				conn, rw, err := next()
				if err == nil {
					*s = http.StatusSwitchingProtocols
				}
				return conn, rw, err
			}
		},
	})
	return s
}

// sent notes the first code that is not informational.
func (s *status) sent(code int) {
	if *s == 0 && (code >= 200 || code == http.StatusSwitchingProtocols) {
		*s = status(code)
	}
}

// final is the status when the handler has returned err or panicked. A panic
// counts as 500, whatever was sent before it, unless the connection has been
// taken over. So does an error without a code, unless a failure was sent.
func (s *status) final(err error, panicked bool) int {
	var he *echo.HTTPError
	switch {
	case *s == http.StatusSwitchingProtocols:
		return int(*s)
	case panicked:
		return http.StatusInternalServerError
	case err == nil && *s == 0:
		return http.StatusOK
	case err == nil, *s >= 400:
		return int(*s)
	case errors.As(err, &he):
		return he.Code
	default:
		return http.StatusInternalServerError
	}
}
