// Package storetest is the suite that every ratelimit.Store must pass. It holds
// the contract in the comment of ratelimit.Store as checks, for the stores of
// this module and for those of others:
//
//	func TestMyStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) ratelimit.Store {
//			return mystore.New(...) // empty, or in a namespace of its own
//		})
//	}
//
// A store whose clock a test can set is checked to the microsecond, with
// [RunHarness] and [Harness].Advance. Without it, checks that need it are
// skipped, and the others use limits so slow that no machine is too slow for
// them.
//
// [Failures] is the way to show that the suite can fail: run it over a store
// that is broken on purpose.
package storetest
