package nethttplimit

import (
	"bufio"
	"io"
	"net"
	"net/http"

	"github.com/felixge/httpsnoop"
)

// status is the code that a response was sent with, 0 as long as it was not.
type status int

// capture returns w with the same optional methods, noting the status.
func (s *status) capture(w http.ResponseWriter) http.ResponseWriter {
	return httpsnoop.Wrap(w, httpsnoop.Hooks{
		WriteHeader: func(next httpsnoop.WriteHeaderFunc) httpsnoop.WriteHeaderFunc {
			return func(code int) { s.sent(code); next(code) }
		},
		Write: func(next httpsnoop.WriteFunc) httpsnoop.WriteFunc {
			return func(p []byte) (int, error) { s.sent(http.StatusOK); return next(p) }
		},
		ReadFrom: func(next httpsnoop.ReadFromFunc) httpsnoop.ReadFromFunc {
			return func(src io.Reader) (int64, error) { s.sent(http.StatusOK); return next(src) }
		},
		Flush: func(next httpsnoop.FlushFunc) httpsnoop.FlushFunc {
			return func() { s.sent(http.StatusOK); next() }
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
}

// sent notes the first code that is not informational.
func (s *status) sent(code int) {
	if *s == 0 && (code >= 200 || code == http.StatusSwitchingProtocols) {
		*s = status(code)
	}
}

// final is the status when the handler has returned or panicked. A panic counts
// as 500, whatever was sent before it, unless the connection has been taken over.
func (s *status) final(panicked bool) int {
	switch {
	case *s == http.StatusSwitchingProtocols:
		return int(*s)
	case panicked:
		return http.StatusInternalServerError
	case *s == 0:
		return http.StatusOK
	default:
		return int(*s)
	}
}
