package storetest

import (
	"strings"
	"time"

	ratelimit "github.com/atomicbucket/ratelimit/core"
)

var identityChecks = []Check{
	{"names are independent", namesAreIndependent},
	{"keys are distinct, however awkward", keysAreDistinct},
	{"names and keys do not run into each other", namesDoNotRunIntoKeys},
	{"limits of equal capacity share a bucket", equalCapacityShares},
	{"a limit of another capacity has another bucket", otherCapacityDoesNotShare},
	{"capacities are told apart by whole milliseconds", capacityIsInMilliseconds},
	{"two versions of a limit in turn admit at most both bursts", versionsInTurn},
}

func namesAreIndependent(s subject) {
	s.Helper()
	limit := ratelimit.PerDay(3)
	for _, name := range []string{"a", "b", "a.b", "a-b", "a_b", "ab", "0", strings.Repeat("a", 64), strings.Repeat("a", 63)} {
		s.admitsExactly(3, s.limiter(name, limit), "k")
	}
}

// awkward are keys that stores have mixed up, refused or choked on.
func awkward() []string {
	long := strings.Repeat("x", 1<<20)
	return []string{
		"a", "A", "a ", " a", " ", "  ", "\t", "\n", "\r\n", "\x00", "\x00\x00", "a\x00", "a\x00b", "\x7f",
		"\xff", "\xfe", "\xff\xfe", "\uFFFD", "é", "e\u0301",
		"a:b", "a::b", ":", "a/b", "a\\b", "*", "?", "[a]", "%s", "%00", "'", "\"", "$1", "--",
		"{", "}", "{}", "}{", "{{", "{a}", "{a}b", "a{b}c", "a{b}d", "{}a", "{}b",
		"#", "##", "#a", "#" + strings.Repeat("0", 32), "#021fb596db81e6d02bf3d2586ee3981f",
		"nil", "null", "0", "-1", "1e3", "127.0.0.1", "2001:db8::1", "user:42",
		strings.Repeat("x", 127), strings.Repeat("x", 128), strings.Repeat("x", 129), strings.Repeat("x", 130),
		long, long + "x", long + "y", "y" + long,
	}
}

func keysAreDistinct(s subject) {
	s.Helper()
	l := s.limiter("keys", ratelimit.PerDay(1))
	for _, key := range awkward() {
		if res := s.allow(l, key); !res.Allowed {
			s.Fatalf("key %.40q, %d bytes, is denied its first call", key, len(key))
		}
	}
	for _, key := range awkward() {
		if res := s.allow(l, key); res.Allowed {
			s.Fatalf("key %.40q, %d bytes, is allowed a second call", key, len(key))
		}
	}
}

func namesDoNotRunIntoKeys(s subject) {
	s.Helper()
	for _, pair := range [][2]string{
		{"a", "b:c"},
		{"a", "b.c"},
		{"a", ":b:c"},
		{"a.b", "c"},
		{"a.b", ":c"},
		{"a.b.c", ":"},
		{"a", "b}{a:b"},
		{"a", "b}"},
		{"a-b", "c"},
		{"a", "-b:c"},
	} {
		s.admitsExactly(1, s.limiter(pair[0], ratelimit.PerDay(1)), pair[1])
	}
}

func equalCapacityShares(s subject) {
	s.Helper()
	few := s.limiter("plan", ratelimit.PerDay(10))
	many := s.with(few, ratelimit.PerDay(1000))
	for range 5 {
		s.allow(few, "k")
	}
	if res := s.allowN(many, "k", 500); !res.Allowed || res.Remaining > 1 {
		s.Fatalf("half of 10/d is spent, half of 1000/d should be left: %+v", res)
	}
	s.admitsExactly(0, few, "k")
}

func otherCapacityDoesNotShare(s subject) {
	s.Helper()
	l := s.limiter("plan", ratelimit.PerDay(10))
	s.admitsExactly(10, l, "k")
	s.admitsExactly(5, s.with(l, ratelimit.PerDay(10).WithBurst(5)), "k")
	s.admitsExactly(20, s.with(l, ratelimit.PerDay(10).WithBurst(20)), "k")
	s.admitsExactly(0, l, "k")
}

func capacityIsInMilliseconds(s subject) {
	s.Helper()
	hour := bucketOf("ms", "k", time.Hour, time.Hour)
	under := bucketOf("ms", "k", time.Hour-999*time.Microsecond, time.Minute)
	over := bucketOf("ms", "k", time.Hour+time.Microsecond, time.Minute)
	s.take(hour)
	if s.take(under) {
		s.Fatalf("capacities of one whole millisecond, rounded up, do not share a bucket")
	}
	if under := s.deficit(under); under > time.Hour-999*time.Microsecond {
		s.Fatalf("deficit of %v is above the capacity", under)
	}
	if !s.take(over) {
		s.Fatalf("capacities of different milliseconds share a bucket")
	}
}

func versionsInTurn(s subject) {
	s.Helper()
	before := s.limiter("deploy", ratelimit.PerDay(1).WithBurst(100))
	after := s.with(before, ratelimit.PerDay(1).WithBurst(10))
	admitted := 0
	for range 200 {
		for _, version := range []*ratelimit.Limiter{before, after} {
			if s.allow(version, "k").Allowed {
				admitted++
			}
		}
	}
	if admitted != 110 {
		s.Fatalf("%d calls are admitted, want the bursts of both versions, 110", admitted)
	}
}
