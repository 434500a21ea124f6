package ginlimit

import (
	"bufio"
	"net"
	"net/http"

	"github.com/gin-gonic/gin"
)

// status is a writer that tells what a request was answered with.
type status struct {
	gin.ResponseWriter

	errors   int // recorded before the limiter
	hijacked bool
}

// capture has c write through a status.
func capture(c *gin.Context) *status {
	s := &status{ResponseWriter: c.Writer, errors: len(c.Errors)}
	c.Writer = s
	return s
}

// Hijack implements http.Hijacker.
func (s *status) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := s.ResponseWriter.Hijack()
	s.hijacked = s.hijacked || err == nil
	return conn, rw, err
}

// Unwrap is for http.ResponseController.
func (s *status) Unwrap() http.ResponseWriter { return s.ResponseWriter }

// final is the status when the handlers have returned or panicked. A panic counts
// as 500, whatever was sent before it, unless the connection has been taken over.
// So does an error that they recorded, unless they failed with another status.
func (s *status) final(c *gin.Context, panicked bool) int {
	sent := s.Status()
	switch {
	case s.hijacked:
		return http.StatusSwitchingProtocols
	case panicked, len(c.Errors) > s.errors && sent < 400:
		return http.StatusInternalServerError
	default:
		return sent
	}
}
