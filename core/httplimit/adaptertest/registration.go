package adaptertest

import (
	"net/netip"
	"strings"
	"testing"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/httplimit"
)

func (s suite[C, H]) testRegistration(t *testing.T) {
	l := limiter(t, newStore(), "api", ratelimit.PerHour(1))
	type config = httplimit.Config[C, H]
	for name, register := range map[string]func() Limit[C, H]{
		"no limiter":      func() Limit[C, H] { return Limit[C, H]{} },
		"two Configs":     func() Limit[C, H] { return Limit[C, H]{l, []config{{}, {}}} },
		"negative jitter": func() Limit[C, H] { return Limit[C, H]{l, []config{{RetryJitter: -1}}} },
		"unknown headers": func() Limit[C, H] { return Limit[C, H]{l, []config{{Headers: 128}}} },
		"headers and none": func() Limit[C, H] {
			return Limit[C, H]{l, []config{{Headers: httplimit.NoHeaders | httplimit.XRateLimit}}}
		},
		"two X-RateLimits": func() Limit[C, H] {
			return Limit[C, H]{l, []config{{Headers: httplimit.GitHub | httplimit.XRateLimit}}}
		},
		"everyone trusted":  func() Limit[C, H] { return Limit[C, H]{l, []config{{Key: s.trusting("0.0.0.0/0")}}} },
		"all IPv6 trusted":  func() Limit[C, H] { return Limit[C, H]{l, []config{{Key: s.trusting("::/0")}}} },
		"a nil key":         func() Limit[C, H] { return Limit[C, H]{l, []config{{Key: httplimit.FirstOf[C](nil)}}} },
		"a nil neutral key": func() Limit[C, H] { return Limit[C, H]{l, []config{{Key: s.By(nil)}}} },
		"nothing to join":   func() Limit[C, H] { return Limit[C, H]{l, []config{{Key: httplimit.Join[C]()}}} },
		"a nameless header": func() Limit[C, H] { return Limit[C, H]{l, []config{{Key: s.By(httplimit.Header(""))}}} },
	} {
		t.Run(name+" is refused with a sentence", func(t *testing.T) {
			listener := listen(t, "tcp4", "127.0.0.1:0")
			defer func() {
				if said, ok := recover().(string); !ok || !strings.HasPrefix(said, "httplimit: ") {
					t.Errorf("New has not panicked with a sentence: %v", said)
				}
			}()
			var handler seen
			limit := register()
			s.Serve(t, listener, []Route[C, H]{{Path: "/", Done: func() {}, Limits: []Limit[C, H]{limit}, Handler: s.Handler(handler.ok())}})
		})
	}
}

func (s suite[C, H]) trusting(prefix string) httplimit.Key[C] {
	return s.By(httplimit.ClientIP(netip.MustParsePrefix(prefix)))
}
