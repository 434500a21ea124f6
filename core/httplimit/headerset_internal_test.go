package httplimit

import (
	"math"
	"net/http"
	"testing"
)

func TestNumbersHaveAtMost15DigitsAndNoSign(t *testing.T) {
	t.Parallel()
	for n, want := range map[int64]string{
		math.MinInt64:         "0",
		-1:                    "0",
		0:                     "0",
		999_999_999_999_999:   "999999999999999",
		1_000_000_000_000_000: "999999999999999",
		math.MaxInt64:         "999999999999999",
	} {
		header := http.Header{}
		set := newHeaderSet()
		set.number("N", n)
		set.writeTo(header)
		if got := header.Get("N"); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
