package service

import (
	"cmp"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"

	"github.com/redis/go-redis/v9"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/httplimit"
)

// Env is what the environment has told.
type Env struct {
	// Addr to listen at.
	Addr string
	// Limit of each client.
	Limit ratelimit.Limit
	// Trusted are the proxies in front of the service.
	Trusted []netip.Prefix
	// Redis is open, but not necessarily within reach.
	Redis *redis.Client
	// Where says in words which Redis it is.
	Where string

	apiKeys map[string]bool
	close   []func()
}

// Open reads the environment and opens Redis. It reports all variables that are
// malformed, not only the first.
func Open() (*Env, error) {
	limit, limitErr := ratelimit.ParseLimit(cmp.Or(os.Getenv("LIMIT"), "5/s burst 10"))
	trusted, trustedErr := httplimit.ParseTrusted(os.Getenv("TRUSTED_PROXIES"))
	e := &Env{
		Addr:    cmp.Or(os.Getenv("ADDR"), ":8080"),
		Limit:   limit,
		Trusted: trusted,
		apiKeys: set(cmp.Or(os.Getenv("API_KEYS"), "demo")),
	}
	err := errors.Join(in("LIMIT", limitErr), in("TRUSTED_PROXIES", trustedErr), e.openRedis(os.Getenv("REDIS_URL")))
	if err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

// Close closes what Open has opened.
func (e *Env) Close() {
	for _, f := range e.close {
		f()
	}
}

// Known reports whether a client is known by its API key. A real service looks
// it up where its clients are kept.
func (e *Env) Known(apiKey string) bool { return e.apiKeys[apiKey] }

func set(list string) map[string]bool {
	entries := make(map[string]bool)
	for entry := range strings.SplitSeq(list, ",") {
		if entry = strings.TrimSpace(entry); entry != "" {
			entries[entry] = true
		}
	}
	return entries
}

// in says which variable an error is about.
func in(variable string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", variable, err)
}
