// Package redistest starts real redis-server processes for tests: a standalone
// server, a cluster, or a primary with a replica and sentinels. It uses the
// redis-server on PATH, Redis 7 or later, and nothing outside the standard
// library.
//
//	func TestSomething(t *testing.T) {
//		srv := redistest.Start(t)
//		rdb := redis.NewClient(&redis.Options{Addr: srv.Addr()})
//		...
//		srv.Kill()    // kill -9
//		srv.Restart() // same port, same directory
//	}
//
// Servers listen on free loopback ports between 10000 and 22000 and on a unix
// socket, keep their files in a directory of their own, and are gone when the
// test ends. No goroutine runs on their behalf, so leak checks stay quiet. Every
// function that waits, waits for a condition, and fails the test when it does
// not come.
//
// # Without redis-server
//
// Tests are skipped where redis-server is not on PATH. So that this does not go
// unnoticed, a package that uses redistest says how many in its TestMain:
//
//	func TestMain(m *testing.M) { os.Exit(redistest.Main(m)) }
//
// With REQUIRE_REDIS=1 in the environment they fail instead.
package redistest
