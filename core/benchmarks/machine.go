package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
)

// machine is what figures depend on.
type machine struct {
	CPU     string            `json:"cpu"`
	Cores   int               `json:"cores"`
	Go      string            `json:"go"`
	OS      string            `json:"os"`
	Redis   string            `json:"redis"`
	Clients string            `json:"clients"`
	Rounds  int               `json:"rounds"`
	Round   string            `json:"round"`
	Modules map[string]string `json:"modules"`
}

// measured are the modules whose versions matter.
var measured = []string{
	"github.com/redis/go-redis/v9",
	"github.com/go-redis/redis_rate/v10",
	"github.com/throttled/throttled/v2",
	"github.com/ulule/limiter/v3",
	"github.com/go-chi/httprate",
	"github.com/go-chi/chi/v5",
	"github.com/gin-gonic/gin",
	"github.com/labstack/echo/v4",
	"github.com/gofiber/fiber/v2",
}

func describeMachine(b *bench) machine {
	return machine{
		CPU:     cpuModel(),
		Cores:   runtime.NumCPU(),
		Go:      runtime.Version(),
		OS:      runtime.GOOS + "/" + runtime.GOARCH,
		Redis:   b.server.Info("redis_version"),
		Clients: b.describeClients(),
		Rounds:  b.rounds,
		Round:   b.duration.String(),
		Modules: moduleVersions(),
	}
}

func moduleVersions() map[string]string {
	versions := make(map[string]string)
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return versions
	}
	for _, module := range info.Deps {
		if slices.Contains(measured, module.Path) {
			versions[module.Path] = module.Version
		}
	}
	return versions
}

// cpuModel is what Linux calls the processor, or "".
func cpuModel() string {
	info, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return ""
	}
	for line := range strings.Lines(string(info)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
