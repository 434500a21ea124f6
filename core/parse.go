package ratelimit

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// units are the period names that ParseLimit reads. String writes the first
// name of a unit.
var units = []struct {
	period time.Duration
	names  []string
}{
	{time.Second, []string{"s", "sec", "second"}},
	{time.Minute, []string{"min", "m", "minute"}},
	{time.Hour, []string{"h", "hour"}},
	{24 * time.Hour, []string{"d", "day"}},
}

var errLimitSyntax = errors.New(`want "TOKENS/PERIOD" or "TOKENS/PERIOD burst BURST", such as "10/s", "100/15m" or "10/s burst 20"`)

// ParseLimit reads a Limit as [Limit.String] writes it: tokens, a slash and a
// period, then optionally the word burst and the burst. A period is s, min, h
// or d, one of their longer names (second, minute, hour, day), or a Go
// duration:
//
//	10/s
//	10/s burst 20
//	5/min
//	100/15m burst 10
//
// It returns an error that quotes the limit when s is not of that form or is
// not a limit that [New] would accept.
func ParseLimit(s string) (Limit, error) {
	l, err := parseLimit(s)
	if err != nil {
		return Limit{}, fmt.Errorf("ratelimit: limit %q: %w", s, err)
	}
	if err := l.validate(); err != nil {
		return Limit{}, err
	}
	return l, nil
}

func parseLimit(s string) (Limit, error) {
	fields := strings.Fields(s)
	switch {
	case len(fields) == 1:
	case len(fields) == 3 && fields[1] == "burst":
	default:
		return Limit{}, errLimitSyntax
	}
	tokens, period, ok := strings.Cut(fields[0], "/")
	if !ok {
		return Limit{}, errLimitSyntax
	}
	var l Limit
	var err error
	if l.Tokens, err = parseCount("tokens", tokens); err != nil {
		return Limit{}, err
	}
	if l.Period, err = parsePeriod(period); err != nil {
		return Limit{}, err
	}
	if len(fields) == 3 {
		if l.Burst, err = parseCount("burst", fields[2]); err != nil {
			return Limit{}, err
		}
	}
	return l, nil
}

// parseCount reads a positive whole number. Burst 0, which means Tokens in a
// Limit, is written by leaving the burst out.
func parseCount(field, s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%s is %q, must be a whole number of at least 1", field, s)
	}
	return n, nil
}

func parsePeriod(s string) (time.Duration, error) {
	for _, unit := range units {
		if slices.Contains(unit.names, s) {
			return unit.period, nil
		}
	}
	period, err := time.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("period is %q, must be s, min, h, d or a Go duration such as 15m", s)
	}
	return period, nil
}

// String returns l as [ParseLimit] reads it, such as "10/s burst 20". The
// burst is left out when it is 0.
func (l Limit) String() string {
	s := strconv.Itoa(l.Tokens) + "/" + periodName(l.Period)
	if l.Burst != 0 {
		s += " burst " + strconv.Itoa(l.Burst)
	}
	return s
}

func periodName(period time.Duration) string {
	for _, unit := range units {
		if period == unit.period {
			return unit.names[0]
		}
	}
	return period.String()
}

// MarshalText returns l.String(), so that a Limit can stand in JSON, YAML and
// flags. The zero Limit is empty text. It returns an error for any other limit
// that [New] would refuse.
func (l Limit) MarshalText() ([]byte, error) {
	if l == (Limit{}) {
		return []byte{}, nil
	}
	if err := l.validate(); err != nil {
		return nil, err
	}
	return []byte(l.String()), nil
}

// UnmarshalText sets l to the limit that [ParseLimit] reads from text. Empty
// text is the zero Limit, which [New] refuses.
func (l *Limit) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*l = Limit{}
		return nil
	}
	parsed, err := ParseLimit(string(text))
	if err != nil {
		return err
	}
	*l = parsed
	return nil
}
