module github.com/atomicbucket/ratelimit/adapters/nethttp

go 1.26.0

require (
	github.com/atomicbucket/ratelimit/core v0.1.0
	github.com/felixge/httpsnoop v1.1.0
)

replace github.com/atomicbucket/ratelimit/core => ../../core
