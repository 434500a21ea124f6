module github.com/atomicbucket/ratelimit/examples

go 1.26.0

require (
	github.com/alicebob/miniredis/v2 v2.40.0
	github.com/atomicbucket/ratelimit/adapters/nethttp v0.1.0
	github.com/atomicbucket/ratelimit/core v0.1.0
	github.com/redis/go-redis/v9 v9.23.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/felixge/httpsnoop v1.1.0 // indirect
	github.com/hashicorp/golang-lru/v2 v2.0.7 // indirect
	github.com/sony/gobreaker/v2 v2.4.0 // indirect
	github.com/yuin/gopher-lua v1.1.1 // indirect
	go.uber.org/atomic v1.12.0 // indirect
	golang.org/x/sys v0.48.0 // indirect
)

replace (
	github.com/atomicbucket/ratelimit/adapters/nethttp => ../adapters/nethttp
	github.com/atomicbucket/ratelimit/core => ../core
)
