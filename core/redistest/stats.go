package redistest

import (
	"strconv"
	"strings"
)

// Calls is how often the server has executed a command since it started or
// since CONFIG RESETSTAT, failed executions included. Commands a script runs
// count too. A subcommand is written "script|load".
func (s *Server) Calls(command string) int {
	s.tb.Helper()
	return s.commandstat(command, "calls")
}

// Usec is the time in microseconds that the server has spent in all Calls of a
// command.
func (s *Server) Usec(command string) int {
	s.tb.Helper()
	return s.commandstat(command, "usec")
}

// commandstat reads one figure of "cmdstat_get:calls=2,usec=10,…".
func (s *Server) commandstat(command, figure string) int {
	s.tb.Helper()
	stat := infoField(s.Do("INFO", "commandstats"), "cmdstat_"+strings.ToLower(command))
	for field := range strings.SplitSeq(stat, ",") {
		if value, found := strings.CutPrefix(field, figure+"="); found {
			n, err := strconv.Atoi(value)
			if err != nil {
				s.tb.Fatalf("redistest: INFO commandstats: %v", err)
			}
			return n
		}
	}
	return 0
}

// Info is one field of INFO, such as Info("used_memory"), or "".
func (s *Server) Info(field string) string {
	s.tb.Helper()
	return infoField(s.Do("INFO", "everything"), field)
}

// infoField finds a field in the lines "field:value" of INFO and CLUSTER INFO.
func infoField(info, field string) string {
	for line := range strings.Lines(info) {
		if value, found := strings.CutPrefix(line, field+":"); found {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
