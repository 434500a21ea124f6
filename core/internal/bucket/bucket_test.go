package bucket

import (
	"math"
	"math/big"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const year = int64(365 * 24 * time.Hour / time.Microsecond)

func TestAnIntervalIsRoundedUpToAWholeMicrosecond(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		tokens int
		period time.Duration
		want   int64
	}{
		{1, time.Second, 1_000_000},
		{10, time.Second, 100_000},
		{3, time.Second, 333_334},
		{30_000, time.Second, 34},
		{1_000_000, time.Second, 1},
		{999_999, time.Second, 2},
		{1000, time.Millisecond, 1},
		{1, time.Millisecond + 1, 1001},
		{7, 24 * time.Hour, 12_342_857_143},
		{1, math.MaxInt64, math.MaxInt64/1000 + 1},
		{math.MaxInt, math.MaxInt64, 1},
	} {
		if got := Interval(tt.tokens, tt.period); got != tt.want {
			t.Errorf("Interval(%d, %v) is %d, want %d", tt.tokens, tt.period, got, tt.want)
		}
	}
}

func TestAnIntervalServesNeverMoreThanTheRateAndHardlyLess(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		tokens := rapid.IntRange(1, math.MaxInt).Draw(t, "tokens")
		period := rapid.Int64Range(1, math.MaxInt64).Draw(t, "period")
		// (interval - 1) * tokens us < period <= interval * tokens us
		got := Interval(tokens, time.Duration(period))
		nanos := func(interval int64) *big.Int {
			n := big.NewInt(interval)
			return n.Mul(n, big.NewInt(int64(tokens))).Mul(n, big.NewInt(1000))
		}
		if nanos(got).Cmp(big.NewInt(period)) < 0 {
			t.Fatalf("interval %d is too short", got)
		}
		if nanos(got-1).Cmp(big.NewInt(period)) >= 0 {
			t.Fatalf("interval %d is longer than it need be", got)
		}
	})
}

func TestMillisIsRoundedUp(t *testing.T) {
	t.Parallel()
	for capacity, want := range map[int64]int64{1: 1, 999: 1, 1000: 1, 1001: 2, 2000: 2, year: year / 1000} {
		if got := Millis(capacity); got != want {
			t.Errorf("Millis(%d) is %d, want %d", capacity, got, want)
		}
	}
}

// state is a bucket at some instant, full_at anywhere.
func state(t *rapid.T) (fullAt, now, capacity, charge int64) {
	capacity = rapid.Int64Range(1, year).Draw(t, "capacity")
	charge = rapid.Int64Range(1, capacity).Draw(t, "charge")
	now = rapid.Int64Range(0, 4_000_000_000_000_000).Draw(t, "now")
	fullAt = now + rapid.OneOf(
		rapid.Int64Range(-now, 2*year),
		rapid.Int64Range(-2, 2),
		rapid.Map(rapid.Int64Range(-2, 2), func(d int64) int64 { return capacity + d }),
	).Draw(t, "ahead")
	return fullAt, now, capacity, charge
}

func TestADeficitIsNeverNegativeNorAboveTheCapacity(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		fullAt, now, capacity, _ := state(t)
		got := Deficit(fullAt, now, capacity)
		switch ahead := fullAt - now; {
		case ahead <= 0 && got != 0:
			t.Fatalf("a full bucket lacks %d", got)
		case ahead >= capacity && got != capacity:
			t.Fatalf("an empty bucket lacks %d", got)
		case 0 < ahead && ahead < capacity && got != ahead:
			t.Fatalf("deficit is %d, want %d", got, ahead)
		}
	})
}

func TestWhatFitsFitsAndOneMoreDoesNot(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		fullAt, now, capacity, charge := state(t)
		deficit := Deficit(fullAt, now, capacity)
		n := Fits(deficit, capacity, charge)
		if n < 0 || deficit+n*charge > capacity {
			t.Fatalf("%d calls are said to fit", n)
		}
		if deficit+(n+1)*charge <= capacity {
			t.Fatalf("only %d calls are said to fit", n)
		}
	})
}

func TestAfterTheWaitTheCallFitsAndAMicrosecondBeforeItDoesNot(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		fullAt, now, capacity, charge := state(t)
		fullAt = min(fullAt, now+capacity) // as it is after a clock has been healed
		wait := Wait(Deficit(fullAt, now, capacity), capacity, charge)
		if Fits(Deficit(fullAt, now+wait, capacity), capacity, charge) < 1 {
			t.Fatalf("the call does not fit after %d", wait)
		}
		if wait > 0 && Fits(Deficit(fullAt, now+wait-1, capacity), capacity, charge) > 0 {
			t.Fatalf("the call fits before %d", wait)
		}
		if wait < 0 || wait > charge {
			t.Fatalf("wait is %d, charge is %d", wait, charge)
		}
	})
}

// What calls make of a bucket by themselves is never taken for a clock that
// stepped back, nor is a step of up to a second.
func TestOnlyAClockThatSteppedBackIsSkewed(t *testing.T) {
	t.Parallel()
	const now, capacity = int64(1_700_000_000_000_000), int64(2_000_000)
	for ahead, want := range map[int64]bool{
		-now:                 false,
		0:                    false,
		capacity:             false,
		capacity + 1_000_000: false,
		capacity + 1_000_001: true,
		capacity + 2*86400e6: true,
	} {
		if got := Skewed(now+ahead, now, capacity); got != want {
			t.Errorf("full_at %d us ahead, capacity %d: skewed is %v", ahead, capacity, got)
		}
	}
}

// The bucket as a whole: in any window, what is admitted is at most the
// capacity and what refills in it.
func TestNoHistoryOfCallsAdmitsMoreThanTheBucketRefills(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		capacity := rapid.Int64Range(1, 1000).Draw(t, "capacity")
		var fullAt, now int64
		type admission struct{ at, charge int64 }
		var admitted []admission
		for range rapid.IntRange(1, 50).Draw(t, "calls") {
			now += rapid.Int64Range(0, 300).Draw(t, "pause")
			charge := rapid.Int64Range(1, capacity).Draw(t, "charge")
			deficit := Deficit(fullAt, now, capacity)
			if Fits(deficit, capacity, charge) > 0 {
				fullAt = now + deficit + charge
				admitted = append(admitted, admission{now, charge})
			}
		}
		for i, first := range admitted {
			sum := int64(0)
			for _, last := range admitted[i:] {
				sum += last.charge
				if window := last.at - first.at; sum > capacity+window {
					t.Fatalf("%d are admitted in %d, capacity %d", sum, window, capacity)
				}
			}
		}
	})
}
