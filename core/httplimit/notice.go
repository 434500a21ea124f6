package httplimit

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

// repeatNotice is how long a notice stays quiet after it was logged. A request
// must not be able to fill the log.
const repeatNotice = time.Minute

// notice logs errors, at most one per minute.
type notice struct {
	last atomic.Int64 // Unix nanoseconds, 0 if never
}

func (n *notice) log(ctx context.Context, message string, args ...any) {
	now, last := time.Now().UnixNano(), n.last.Load()
	if last != 0 && now-last < int64(repeatNotice) || !n.last.CompareAndSwap(last, now) {
		return
	}
	slog.ErrorContext(ctx, message, args...)
}
