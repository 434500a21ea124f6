package ginlimit_test

import (
	"net"
	"net/http"
	"testing"

	"github.com/gin-gonic/gin"

	ginlimit "github.com/atomicbucket/ratelimit/adapters/gin"
	"github.com/atomicbucket/ratelimit/core/httplimit/adaptertest"
)

type route = adaptertest.Route[*gin.Context, gin.HandlerFunc]

func TestAdapter(t *testing.T) {
	adaptertest.Run(t, adaptertest.Adapter[*gin.Context, gin.HandlerFunc]{
		Serve:         serve,
		Handler:       handler,
		By:            ginlimit.By,
		ResultFrom:    ginlimit.ResultFrom,
		Header:        func(c *gin.Context, name string) string { return c.GetHeader(name) },
		ReturnsErrors: true,
	})
}

func serve(t testing.TB, l net.Listener, routes []route) {
	engine := gin.New()
	engine.Use(gin.RecoveryWithWriter(nil))
	for _, r := range routes {
		handlers := []gin.HandlerFunc{outer(r)}
		for _, limit := range r.Limits {
			handlers = append(handlers, ginlimit.New(limit.Limiter, limit.Configs...))
		}
		engine.Any(adaptertest.Colons(r.Path), append(handlers, r.Handler)...)
	}
	adaptertest.ServeHTTP(t, l, engine)
}

// outer also renders the errors that handlers record, as apps do.
func outer(r route) gin.HandlerFunc {
	return func(c *gin.Context) {
		defer r.Done()
		for name, value := range r.Outer {
			c.Header(name, value)
		}
		c.Next()
		if len(c.Errors) > 0 && !c.Writer.Written() {
			c.AbortWithStatus(http.StatusInternalServerError)
		}
	}
}

func handler(reply adaptertest.Reply) gin.HandlerFunc {
	return func(c *gin.Context) {
		reply.Seen(ginlimit.ResultFrom(c))
		switch {
		case reply.Panic:
			panic("handler")
		case reply.Err != nil:
			_ = c.Error(reply.Err)
		case reply.Upgrade:
			upgrade(c)
		case reply.Chunks != nil:
			stream(c, reply)
		default:
			c.String(reply.Status, "%s", reply.Body)
		}
	}
}

func upgrade(c *gin.Context) {
	conn, rw, err := c.Writer.Hijack()
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

func stream(c *gin.Context, reply adaptertest.Reply) {
	for _, chunk := range reply.Chunks {
		<-reply.Gate
		_, _ = c.Writer.WriteString(chunk)
		c.Writer.Flush()
	}
}
