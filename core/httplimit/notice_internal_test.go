package httplimit

import (
	"bytes"
	"context"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestANoticeIsLoggedOncePerMinute(t *testing.T) {
	var logged bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&logged, nil)))
	defer slog.SetDefault(before)
	synctest.Test(t, func(*testing.T) {
		var n notice
		for range 5 {
			n.log(context.Background(), "first")
		}
		time.Sleep(repeatNotice)
		n.log(context.Background(), "second")
	})
	if first, second := strings.Count(logged.String(), "first"), strings.Count(logged.String(), "second"); first != 1 || second != 1 {
		t.Errorf("logged %d and %d times, want once each: %s", first, second, logged.String())
	}
}
