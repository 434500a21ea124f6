package redisstore_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	ratelimit "github.com/atomicbucket/ratelimit/core"
	"github.com/atomicbucket/ratelimit/core/redisstore"
	"github.com/atomicbucket/ratelimit/core/redistest"
)

// mistakes are configurations in which Redis refuses each call in words that
// depend on the call. Each returns an address.
var mistakes = map[string]func(t *testing.T) string{
	"a command that is renamed": func(t *testing.T) string {
		return redistest.Start(t, redistest.Args("--rename-command", "EVALSHA", "")).Addr()
	},
	"a plain client on a cluster": func(t *testing.T) string {
		return redistest.StartCluster(t, 3, 0).Nodes[0].Addr()
	},
}

func TestOneMistakeIsLoggedOnceAndNamesNobodysKey(t *testing.T) {
	t.Parallel()
	for name, mistake := range mistakes {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store, err := redisstore.New(clientOf(t, mistake(t)), patient)
			if err != nil {
				t.Fatal(err)
			}
			var log bytes.Buffer
			limiter, err := ratelimit.New(store, "api", plenty, ratelimit.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
			if err != nil {
				t.Fatal(err)
			}
			for i := range 100 {
				allow(t, limiter, fmt.Sprint("somebody@example.com ", i))
			}
			if lines := strings.Count(log.String(), "\n"); lines != 1 {
				t.Errorf("%d lines were logged for one mistake", lines)
			}
			if strings.Contains(log.String(), "somebody") {
				t.Errorf("a key is named in the log:\n%s", log.String())
			}
		})
	}
}
