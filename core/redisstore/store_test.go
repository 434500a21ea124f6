package redisstore_test

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/atomicbucket/ratelimit/core/redisstore"
)

func TestANilClientIsRefusedOfWhateverTypeItIs(t *testing.T) {
	t.Parallel()
	for name, rdb := range map[string]redis.UniversalClient{
		"nil":            nil,
		"*Client":        (*redis.Client)(nil),
		"*ClusterClient": (*redis.ClusterClient)(nil),
		"*Ring":          (*redis.Ring)(nil),
	} {
		if store, err := redisstore.New(rdb); err == nil || store != nil {
			t.Errorf("%s: New returned %v, %v, want an error", name, store, err)
		}
	}
}
