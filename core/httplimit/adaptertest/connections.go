package adaptertest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/httplimit"
)

func (s suite[C, H]) testConnections(t *testing.T) {
	always := httplimit.Config[C, H]{Refund: func(C, int) bool { return true }}
	for name, config := range map[string]httplimit.Config[C, H]{"": {}, " with Refund": always} {
		t.Run("a stream is flushed chunk by chunk"+name, func(t *testing.T) {
			t.Parallel()
			s.testStream(t, config)
		})
		t.Run("a connection can be taken over"+name, func(t *testing.T) {
			t.Parallel()
			s.testUpgrade(t, config)
		})
	}
}

func (s suite[C, H]) testStream(t *testing.T, config httplimit.Config[C, H]) {
	var handler seen
	store, gate := newStore(), make(chan struct{})
	reply := Reply{Seen: handler.note, Chunks: []string{"data: one\n", "data: two\n", "data: three\n"}, Gate: gate}
	client := s.start(t, s.route("/", reply, limiter(t, store, "api", ratelimit.PerHour(9)), config))

	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	request := client.request(ctx, http.MethodGet, "/")
	opened := make(chan *http.Response, 1)
	go func() {
		res, err := client.http.Do(request)
		if err != nil {
			t.Error(err)
		}
		opened <- res
	}()
	gate <- struct{}{}
	res := <-opened
	if res == nil {
		return
	}
	defer func() { _ = res.Body.Close() }()
	body := bufio.NewReader(res.Body)
	for i, want := range reply.Chunks {
		if i > 0 {
			gate <- struct{}{}
		}
		// The handler is waiting for the next turn: only a flush brings this line.
		if got, err := body.ReadString('\n'); got != want || err != nil {
			t.Fatalf("chunk %d: %q, %v; want %q", i, got, err, want)
		}
	}
	if _, err := body.ReadByte(); err != io.EOF {
		t.Errorf("at the end: %v, want EOF", err)
	}
	if config.Refund != nil {
		eventually(t, "the tokens are given back", func() bool { return len(store.refunded()) == 1 })
	}
}

func (s suite[C, H]) testUpgrade(t *testing.T, config httplimit.Config[C, H]) {
	var handler seen
	store, done := newStore(), make(chan struct{}, 1)
	route := s.route("/", Reply{Seen: handler.note, Upgrade: true}, limiter(t, store, "api", ratelimit.PerHour(9)), config)
	route.Done = func() { done <- struct{}{} }
	client := s.start(t, route)
	conn, err := client.dial()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(patience))
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: app.test\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
	r := bufio.NewReader(conn)
	res, err := http.ReadResponse(r, nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols || res.Header.Get("Upgrade") != "echo" {
		t.Fatalf("response %+v, %v; want 101", res, err)
	}
	fmt.Fprint(conn, "hello\n")
	if line, err := r.ReadString('\n'); line != "hello\n" || err != nil {
		t.Errorf("echo: %q, %v", line, err)
	}
	<-done
	if got := store.refunded(); len(got) != 0 {
		t.Errorf("refunded %v after an upgrade, want nothing", got)
	}
}

func (s suite[C, H]) testClientsGone(t *testing.T) {
	if s.IgnoresClients {
		t.Skip("not applicable: the framework does not tell that a client has gone")
	}
	var handler, unavailable seen
	store := newStore()
	reached, done := make(chan struct{}, 1), make(chan struct{}, 1)
	wait := s.By(func(r httplimit.Request) (string, error) {
		reached <- struct{}{}
		<-r.Context.Done()
		return "alice", nil
	})
	route := s.route("/", handler.ok(), limiter(t, store, "api", ratelimit.PerHour(9)), httplimit.Config[C, H]{Key: wait, Unavailable: s.Handler(unavailable.status(503))})
	route.Done = func() { done <- struct{}{} }
	client := s.start(t, route)
	ctx, leave := context.WithCancel(t.Context())
	request := client.request(ctx, http.MethodGet, "/")
	left := make(chan struct{})
	go func() {
		defer close(left)
		if res, err := client.http.Do(request); err == nil {
			_ = res.Body.Close()
		}
	}()
	<-reached
	leave()
	<-left
	<-done
	if handler.count() != 0 || unavailable.count() != 0 || len(store.takes()) != 0 {
		t.Error("a request whose client had gone went on")
	}
}
