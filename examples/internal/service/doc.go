// Package service is what the examples have in common and is neither about
// limits nor about a framework: reading the environment, opening Redis, serving
// until a signal comes.
//
//	ADDR             where to listen; default :8080
//	REDIS_URL        redis://user:password@host:6379/0, or rediss:// or unix://; default: a Redis inside this process
//	LIMIT            of each client; default "5/s burst 10"
//	TRUSTED_PROXIES  comma-separated addresses and prefixes whose X-Forwarded-For is believed; default: none
//	API_KEYS         comma-separated keys that identify a client; default demo
//
// A variable that is empty counts as not set.
package service
