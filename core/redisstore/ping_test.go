package redisstore_test

import (
	"context"
	"testing"

	"github.com/atomicbucket/ratelimit/core/redistest"
)

func TestAServersProbesMayPingAllAtOnce(t *testing.T) {
	t.Parallel()
	limiter := newLimiter(t, newStore(t, clientOf(t, redistest.Start(t).Addr())), plenty)
	for range 20 {
		together(50, func(int) {
			if err := limiter.Ping(context.Background()); err != nil {
				t.Errorf("Ping: %v", err)
			}
		})
	}
}
