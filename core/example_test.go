package ratelimit_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"maps"
	"slices"
	"sync"
	"time"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/memstore"
)

// A store in memory stands in for redisstore.New(rdb) in these examples.

func ExampleLimiter() {
	store := memstore.New()
	limiter, err := ratelimit.New(store, "api", ratelimit.PerMinute(60).WithBurst(2))
	if err != nil {
		log.Fatal(err)
	}
	for range 3 {
		res, err := limiter.Allow(context.Background(), "user:42")
		if err != nil {
			log.Fatal(err)
		}
		if !res.Allowed {
			fmt.Printf("slow down, try again in %v\n", res.RetryAfter.Round(time.Second))
			continue
		}
		fmt.Printf("welcome, %d more at once\n", res.Remaining)
	}
	// Output:
	// welcome, 1 more at once
	// welcome, 0 more at once
	// slow down, try again in 1s
}

func ExampleLimiter_AllowN() {
	limiter, err := ratelimit.New(memstore.New(), "export", ratelimit.PerDay(100))
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	for _, rows := range []int{80, 30, 500} {
		res, err := limiter.AllowN(ctx, "tenant:7", rows)
		switch {
		case errors.Is(err, ratelimit.ErrCostExceedsBurst):
			fmt.Println(rows, "rows: never, ask for less")
		case err != nil:
			log.Fatal(err)
		case !res.Allowed:
			fmt.Println(rows, "rows: not now,", res.Remaining, "are left")
		default:
			fmt.Println(rows, "rows: go on")
		}
	}
	// Output:
	// 80 rows: go on
	// 30 rows: not now, 20 are left
	// 500 rows: never, ask for less
}

func ExampleLimiter_With() {
	base, err := ratelimit.New(memstore.New(), "api", ratelimit.PerDay(2))
	if err != nil {
		log.Fatal(err)
	}
	plans := map[string]ratelimit.Limit{"free": ratelimit.PerDay(2), "paid": ratelimit.PerDay(1000)}
	for _, plan := range []string{"free", "paid"} {
		limiter, err := base.With(plans[plan])
		if err != nil {
			log.Fatal(err)
		}
		res, err := limiter.Allow(context.Background(), "user on "+plan)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(plan, res.Remaining)
	}
	// Output:
	// free 1
	// paid 999
}

func ExampleLimiter_Refund() {
	limiter, err := ratelimit.New(memstore.New(), "login", ratelimit.PerHour(5))
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	attempt := func(right bool) {
		if res, err := limiter.Allow(ctx, "ip:192.0.2.1"); err != nil || !res.Allowed {
			log.Fatal(res, err)
		}
		if right { // only failures count
			if err := limiter.Refund(ctx, "ip:192.0.2.1", 1); err != nil {
				log.Fatal(err)
			}
		}
	}
	attempt(false)
	attempt(true)
	attempt(true)
	res, err := limiter.Peek(ctx, "ip:192.0.2.1")
	fmt.Println(res.Remaining, err)
	// Output:
	// 4 <nil>
}

func ExampleLimit() {
	steady := ratelimit.PerSecond(10)
	bursty := ratelimit.PerSecond(10).WithBurst(50)
	rare := ratelimit.Per(3, 15*time.Minute)
	fmt.Println(steady)
	fmt.Println(bursty)
	fmt.Println(rare)
	// Output:
	// 10/s
	// 10/s burst 50
	// 3/15m0s
}

func ExampleParseLimit() {
	limit, err := ratelimit.ParseLimit("100/15m burst 10")
	fmt.Println(limit.Tokens, limit.Period, limit.Burst, err)
	_, err = ratelimit.ParseLimit("lots/s")
	fmt.Println(err)
	// Output:
	// 100 15m0s 10 <nil>
	// ratelimit: limit "lots/s": tokens is "lots", must be a whole number of at least 1
}

func ExampleWithLimit() {
	limiter, err := ratelimit.New(memstore.New(), "api", ratelimit.PerMinute(2), ratelimit.WithLimit(ratelimit.PerDay(3)))
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	for range 3 {
		res, err := limiter.Allow(ctx, "user:42")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(res.Allowed, "by", res.Limit, "with", res.Limits[0].Remaining, "and", res.Limits[1].Remaining, "left")
	}
	// Output:
	// true by 2/min burst 2 with 1 and 2 left
	// true by 2/min burst 2 with 0 and 1 left
	// false by 2/min burst 2 with 0 and 1 left
}

// decisions counts what limiters decide, as a metric does: by limiter, outcome
// and source. Keys and causes are no labels: there is no end of them.
type decisions struct {
	mu    sync.Mutex
	count map[string]int
}

func (d *decisions) ObserveDecision(_ context.Context, res ratelimit.Result, _ time.Duration) {
	outcome := "denied"
	if res.Allowed {
		outcome = "allowed"
	}
	d.add(fmt.Sprintf("decisions{limiter=%q,outcome=%q,source=%q}", res.Name, outcome, res.Source))
}

func (d *decisions) ObserveRefund(_ context.Context, name, _ string, _ int, err error) {
	d.add(fmt.Sprintf("refunds{limiter=%q,failed=\"%t\"}", name, err != nil))
}

func (d *decisions) add(series string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.count[series]++
}

// An alert on allowed decisions of source policy tells that a limiter is open:
// its store is out of reach, and it admits everyone.
func ExampleObserver() {
	metrics := &decisions{count: make(map[string]int)}
	limiter, err := ratelimit.New(memstore.New(), "api", ratelimit.PerHour(2), ratelimit.WithObserver(metrics))
	if err != nil {
		log.Fatal(err)
	}
	open, err := ratelimit.New(outOfReach{}, "search", ratelimit.PerHour(2),
		ratelimit.WithObserver(metrics),
		ratelimit.WithLogger(quiet))
	if err != nil {
		log.Fatal(err)
	}
	for _, l := range []*ratelimit.Limiter{limiter, limiter, limiter, open} {
		if _, err := l.Allow(context.Background(), "user:42"); err != nil {
			log.Fatal(err)
		}
	}
	for _, series := range slices.Sorted(maps.Keys(metrics.count)) {
		fmt.Println(series, metrics.count[series])
	}
	// Output:
	// decisions{limiter="api",outcome="allowed",source="store"} 2
	// decisions{limiter="api",outcome="denied",source="store"} 1
	// decisions{limiter="search",outcome="allowed",source="policy"} 1
}

func ExampleFailLocal() {
	// With four instances, each may admit a quarter of the limit while the
	// store they share is out of reach.
	limiter, err := ratelimit.New(outOfReach{}, "api", ratelimit.PerHour(8),
		ratelimit.FailLocal(memstore.New(), 0.25),
		ratelimit.WithLogger(quiet))
	if err != nil {
		log.Fatal(err)
	}
	for range 3 {
		res, err := limiter.Allow(context.Background(), "user:42")
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(res.Allowed, res.Source, res.Cause)
	}
	// Output:
	// true local out of reach
	// true local out of reach
	// false local out of reach
}

// outOfReach is a store that cannot decide.
type outOfReach struct{ ratelimit.Store }

func (outOfReach) Take(context.Context, []ratelimit.Bucket) (ratelimit.Decision, error) {
	return ratelimit.Decision{}, errors.New("out of reach")
}
