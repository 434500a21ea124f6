package chilimit_test

import (
	"fmt"
	"net"
	"net/http"
	"testing"

	"github.com/go-chi/chi/v5"

	chilimit "github.com/atomicbucket/ratelimit/adapters/chi"
	"github.com/atomicbucket/ratelimit/core/httplimit/adaptertest"
)

type route = adaptertest.Route[*http.Request, http.HandlerFunc]

func TestAdapter(t *testing.T) {
	adaptertest.Run(t, adaptertest.Adapter[*http.Request, http.HandlerFunc]{
		Serve:      serve,
		Handler:    handler,
		By:         chilimit.By,
		ResultFrom: chilimit.ResultFrom,
		Header:     func(r *http.Request, name string) string { return r.Header.Get(name) },
	})
}

func serve(t testing.TB, l net.Listener, routes []route) {
	router := chi.NewRouter()
	for _, r := range routes {
		limited := router.With(outer(r))
		for _, limit := range r.Limits {
			limited = limited.With(chilimit.New(limit.Limiter, limit.Configs...))
		}
		limited.Handle(r.Path, r.Handler)
	}
	adaptertest.ServeHTTP(t, l, router)
}

func outer(r route) func(http.Handler) http.Handler {
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			defer r.Done()
			for name, value := range r.Outer {
				w.Header().Set(name, value)
			}
			next.ServeHTTP(w, req)
		})
	}
}

func handler(reply adaptertest.Reply) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		reply.Seen(chilimit.ResultFrom(r))
		switch {
		case reply.Panic:
			panic("handler")
		case reply.Upgrade:
			upgrade(w)
		case reply.Chunks != nil:
			stream(w, reply)
		default:
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.WriteHeader(reply.Status)
			fmt.Fprint(w, reply.Body)
		}
	}
}

func upgrade(w http.ResponseWriter) {
	conn, rw, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	defer func() { _ = conn.Close() }()
	_, _ = rw.WriteString(adaptertest.Switching)
	_ = rw.Flush()
	line, _ := rw.ReadString('\n')
	_, _ = rw.WriteString(line)
	_ = rw.Flush()
}

func stream(w http.ResponseWriter, reply adaptertest.Reply) {
	for _, chunk := range reply.Chunks {
		<-reply.Gate
		fmt.Fprint(w, chunk)
		if err := http.NewResponseController(w).Flush(); err != nil {
			panic(err)
		}
	}
}
