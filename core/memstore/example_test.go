package memstore_test

import (
	"context"
	"fmt"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/memstore"
)

func ExampleNew() {
	limiter, err := ratelimit.New(memstore.New(), "api", ratelimit.PerHour(2))
	if err != nil {
		panic(err)
	}
	for range 3 {
		res, err := limiter.Allow(context.Background(), "user:42")
		if err != nil {
			panic(err)
		}
		fmt.Println(res.Allowed, res.Remaining)
	}
	// Output:
	// true 1
	// true 0
	// false 0
}
