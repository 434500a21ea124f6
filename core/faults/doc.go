// Package faults breaks Redis and the network under a limiter, and measures what
// its callers notice. All there is are tests:
//
//	make faults
//
// runs them and prints a table, a line for each scenario with a client of each of
// the settings: go-redis' own, those of redisstore, and these on a store without
// shortcut and batch. Its columns:
//
//   - requests: how many decisions the callers asked for.
//   - longest: the longest time that a decision took. The promise is the budget
//     (100 ms unless said otherwise) and 20 ms for the machine.
//   - stall: for how long the machine stood still at most, which may be twice in
//     the longest decision.
//   - median open: the median time of a decision while the breaker was open.
//   - store, shortcut, local, policy: decisions by who made them.
//   - over: admissions of the store beyond what its limits allow, of all keys
//     together.
//   - ran/sent: how often the servers have run the script, and how often the
//     client has sent it. "-" where the fault takes the server's counter along.
//   - recovery: from the end of the fault to the first decision by Redis.
//   - conns: the most connections that were open at once.
//   - goroutines: those left when the client was closed.
//
// The package is a module of its own, so that nobody else depends on toxiproxy.
package faults
