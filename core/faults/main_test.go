package faults

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/atomicbucket/ratelimit/core/redistest"
)

func TestMain(m *testing.M) {
	redis.SetLogger(silence{}) // it has a line for each dial that fails
	code := redistest.Main(m)
	fmt.Print(table())
	os.Exit(code)
}

type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}
