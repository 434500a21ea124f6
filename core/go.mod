module github.com/atomicbucket/ratelimit/core

go 1.26.0
