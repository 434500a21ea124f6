package httplimit

import (
	"errors"
	"fmt"
	"log/slog"

	ratelimit "github.com/atomicbucket/ratelimit/core"
)

// bucket is whose bucket the request spends from.
func (m *Middleware[C, H]) bucket(c C, req Request) (*ratelimit.Limiter, string, error) {
	limiter, err := m.limiterFor(c)
	if err != nil {
		return nil, "", err
	}
	key, err := m.key(c, req)
	return limiter, key, err
}

func (m *Middleware[C, H]) limiterFor(c C) (*ratelimit.Limiter, error) {
	if m.config.Limiter == nil {
		return m.limiter, nil
	}
	limiter, err := m.config.Limiter(c)
	switch {
	case err != nil:
		return nil, fmt.Errorf("httplimit: Config.Limiter: %w", err)
	case limiter != nil:
		return limiter, nil
	case m.limiter != nil:
		return m.limiter, nil
	default:
		return nil, errors.New("httplimit: Config.Limiter has returned no limiter, and New was given none")
	}
}

// The tags of keys. What Config.Key returns is copied behind its tag, so it may
// share memory with the framework.
const (
	tagKey    = "k:"
	tagPeer   = "a:"
	sharedKey = "*"
)

func (m *Middleware[C, H]) key(c C, req Request) (string, error) {
	if m.config.Key != nil {
		key, err := m.config.Key(c)
		if err != nil {
			return "", fmt.Errorf("httplimit: Config.Key: %w", err)
		}
		if key != "" {
			return tagKey + key, nil
		}
	}
	var buf [64]byte
	key := peerFinder.appendKey(append(buf[:0], tagPeer...), req)
	if len(key) > len(tagPeer) {
		return string(key), nil
	}
	m.warnShared(req)
	return sharedKey, nil
}

// warnShared says once that requests share a bucket that nobody has chosen.
func (m *Middleware[C, H]) warnShared(req Request) {
	if m.warnedShared.CompareAndSwap(false, true) {
		slog.WarnContext(req.context(), "httplimit: a request has no key and its peer no address, as on a unix socket: all such requests share one bucket; set Config.Key", "limiter", m.name)
	}
}
