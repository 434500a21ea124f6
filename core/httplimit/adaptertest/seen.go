package adaptertest

import (
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/httplimit"
)

var quiet = ratelimit.WithLogger(slog.New(slog.DiscardHandler))

// seen notes how often a handler has run, and what ResultFrom told it.
type seen struct {
	mu      sync.Mutex
	results []ratelimit.Result
	found   []bool
}

func (s *seen) note(res ratelimit.Result, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.results, s.found = append(s.results, res), append(s.found, ok)
}

func (s *seen) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.results)
}

// last is what the last run was told.
func (s *seen) last(t *testing.T) (ratelimit.Result, bool) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.results) == 0 {
		t.Fatal("the handler has not run")
	}
	return s.results[len(s.results)-1], s.found[len(s.found)-1]
}

// ok is a reply of 200 that is noted in s.
func (s *seen) ok() Reply { return s.status(http.StatusOK) }

func (s *seen) status(code int) Reply { return Reply{Seen: s.note, Status: code, Body: "body"} }

// route is a route with one limiter in front of a handler.
func (s suite[C, H]) route(path string, reply Reply, l *ratelimit.Limiter, configs ...httplimit.Config[C, H]) Route[C, H] {
	return Route[C, H]{Path: path, Limits: []Limit[C, H]{{l, configs}}, Handler: s.Handler(reply)}
}

// native is a key of the framework's own: the header X-User.
func (s suite[C, H]) native(c C) (string, error) { return s.Header(c, "X-User"), nil }

// eventually waits until holds does.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not in %v: %s", patience, what)
		}
	}
}
