package redisstore

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	ratelimit "github.com/atomicbucket/ratelimit/core"
)

// ConfigError is an error that an operator has to cure: Redis answers, but
// refuses. It wraps ratelimit.ErrMisconfigured and Redis' own error.
type ConfigError struct {
	// Limiter is the name of the limiter whose call was refused. Empty from Ping.
	Limiter string
	// Advice says what to do about it.
	Advice string
	// Err is Redis' error.
	Err error
}

// Error returns the limiter, Redis' error and the advice.
func (e *ConfigError) Error() string {
	reply := anonymous(e.Err.Error())
	if e.Limiter == "" {
		return fmt.Sprintf("redisstore: %s: %s", reply, e.Advice)
	}
	return fmt.Sprintf("redisstore: limiter %q: %s: %s", e.Limiter, reply, e.Advice)
}

// Unwrap returns ratelimit.ErrMisconfigured and Redis' error.
func (e *ConfigError) Unwrap() []error { return []error{ratelimit.ErrMisconfigured, e.Err} }

// budgetError means that a decision took longer than it may.
type budgetError struct{ budget time.Duration }

func (e *budgetError) Error() string {
	return fmt.Sprintf("redisstore: no answer from Redis within %v", e.budget)
}

// Timeout makes it a timeout to those who ask for that.
func (e *budgetError) Timeout() bool { return true }

// openError means that Redis was not asked, because it has been failing.
type openError struct {
	cause      error // may be nil
	retryAfter time.Duration
}

func (e *openError) Error() string {
	return fmt.Sprintf("redisstore: Redis is failing, next trial in %v: %v", e.retryAfter.Round(time.Millisecond), e.cause)
}

func (e *openError) Unwrap() error { return e.cause }

// RetryAfter is the time until Redis is tried again.
func (e *openError) RetryAfter() time.Duration { return e.retryAfter }

// replyError is an error of Redis in the reply for several buckets.
type replyError string

var _ redis.Error = replyError("")

func (e replyError) Error() string { return string(e) }

// RedisError makes it one to go-redis.
func (e replyError) RedisError() {}

const missingPermission = "grant the Redis user the permissions that the documentation of redisstore lists, on the keys of this prefix, and +cluster|slots with Redis Cluster"

// advice is what to do about the replies with which Redis refuses a call for a
// reason that does not pass by itself.
var advice = []struct{ code, text string }{
	{"WRONGTYPE", otherValue},
	{"attempt to perform arithmetic", otherValue}, // how Lua says it of a string that is no number
	{"NOAUTH", "set the client's Username and Password"},
	{"WRONGPASS", "correct the client's Username and Password"},
	{"NOPERM", missingPermission},
	{"The user executing the script", missingPermission}, // how Redis 7.0 says it of a command in a script
	{"ACL failure in script", missingPermission},         // and how Redis 7.2, 8 and Valkey do
	{"CROSSSLOT", clusterClient},
	{"MOVED", clusterClient},
}

const (
	otherValue    = "the bucket's key holds something else: delete it, or set redisstore.WithPrefix so that nobody else uses these keys"
	clusterClient = "use a go-redis ClusterClient with Redis Cluster"
)

// passing are the replies with which Redis refuses a call for a reason that does
// pass. Redis 6 reports those of a command in a script as "ERR Error running
// script", with the rest behind it.
var passing = []string{"READONLY", "OOM", "LOADING", "MASTERDOWN", "CLUSTERDOWN", "NOREPLICAS", "MISCONF", "BUSY"}

// misconfiguration returns what to do about err, if it is a reply that waiting
// does not cure. All of Redis' errors without a code of their own, such as errors
// of the script, are.
func misconfiguration(err error) (text string, ok bool) {
	var reply redis.Error
	if !errors.As(err, &reply) || redis.IsMaxClientsError(err) {
		return "", false
	}
	message := reply.Error()
	for _, a := range advice {
		if strings.Contains(message, a.code) {
			return a.text, true
		}
	}
	if !strings.HasPrefix(message, "ERR ") || slices.ContainsFunc(passing, func(code string) bool { return strings.Contains(message, code) }) {
		return "", false
	}
	return "the script cannot run: check that this is Redis 6.2 or later, with EVAL and EVALSHA under their own names", true
}

// anonymous is what Redis says without what it quotes of the call, which would
// put callers' keys into logs, and make one mistake look like many.
func anonymous(message string) string {
	message, _, _ = strings.Cut(message, ", with args beginning with")
	if strings.HasPrefix(message, "MOVED ") {
		return "MOVED"
	}
	return message
}

// isFailure reports whether err tells that the node cannot decide now: it is
// out of reach, too slow, or says so. A node that refuses for a reason of
// configuration, or because a slot is moving, is alive and well.
func isFailure(err error) bool {
	if err == nil || redis.IsTryAgainError(err) {
		return false
	}
	_, refused := misconfiguration(err)
	return !refused
}

// isBroken reports whether err is that of a connection which has ended.
func isBroken(err error) bool {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Op != "dial" && !op.Timeout()
	}
	return errors.Is(err, io.EOF)
}

// isNoScript reports whether Redis does not know the script's hash.
func isNoScript(err error) bool { return redis.HasErrorPrefix(err, "NOSCRIPT") }

// isCrossSlot reports whether a command was refused because its keys are in
// several slots.
func isCrossSlot(err error) bool { return redis.HasErrorPrefix(err, "CROSSSLOT") }

// isNoPermission reports whether a command was refused because the user may not
// run it on one of its keys.
func isNoPermission(err error) bool { return redis.HasErrorPrefix(err, "NOPERM") }

// isRedirect reports whether a node of Redis Cluster says to ask another one.
func isRedirect(err error) bool {
	if _, moved := redis.IsMovedError(err); moved {
		return true
	}
	_, ask := redis.IsAskError(err)
	return ask
}

// guard calls f, and turns a panic into an error: the client's owner may have
// added hooks to it, and we call them on goroutines of our own, where a panic
// would end the process.
func guard(f func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("redisstore: panic in the Redis client: %v", r)
		}
	}()
	return f()
}

// wrap returns err as a caller of the limiter of that name gets to see it.
func wrap(limiter string, err error) error {
	if err == nil {
		return nil
	}
	if text, ok := misconfiguration(err); ok {
		return &ConfigError{Limiter: limiter, Advice: text, Err: err}
	}
	if strings.HasPrefix(err.Error(), "redisstore: ") {
		return err
	}
	return fmt.Errorf("redisstore: %w", err)
}
