package redisstore

import (
	"context"
	"errors"
	"testing"
	"time"

	ratelimit "github.com/atomicbucket/ratelimit/core"
)

var errFromTheNode = errors.New("redisstore: the node's own answer")

// instant is a router to a node that takes no time to answer.
type instant struct{}

func (instant) nodes(context.Context, func(context.Context, conn) error) error {
	return errFromTheNode
}

func (instant) lane(context.Context, *ratelimit.Bucket) (*lane, error) {
	return nil, errFromTheNode
}

// There is room for one ping: the next one finds it free as soon as the one
// before has its answer.
func TestAPingReturnsTheNodesAnswerHoweverSoonItComes(t *testing.T) {
	t.Parallel()
	s := &Store{settings: settings{budget: time.Minute}, router: instant{}, pings: make(chan struct{}, 1)}
	for i := range 100_000 {
		if err := s.Ping(t.Context()); !errors.Is(err, errFromTheNode) {
			t.Fatalf("ping %d: %v, want the node's answer", i, err)
		}
	}
}
