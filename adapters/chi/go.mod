module github.com/atomicbucket/ratelimit/adapters/chi

go 1.26.0

require (
	github.com/atomicbucket/ratelimit/adapters/nethttp v0.1.0
	github.com/atomicbucket/ratelimit/core v0.1.0
	github.com/go-chi/chi/v5 v5.5.0
)

require github.com/felixge/httpsnoop v1.1.0 // indirect

replace (
	github.com/atomicbucket/ratelimit/adapters/nethttp => ../nethttp
	github.com/atomicbucket/ratelimit/core => ../../core
)
