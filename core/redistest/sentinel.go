package redistest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const (
	masterName = "main"
	sentinels  = 3
)

// Sentinel is a primary and its replica, watched by three sentinels.
type Sentinel struct {
	// Sentinels are the watching processes.
	Sentinels []*Server

	tb   TB
	data []*Server // the primary and the replica, in whichever roles
}

// StartSentinel starts a primary, a replica of it and three sentinels, two of
// which must agree on a failover, and returns when all know each other and the
// replica is in step. A primary that is gone is noticed after half a second.
// The options go to the primary and the replica. Tests are skipped without
// redis-server on PATH; see [Require].
func StartSentinel(tb TB, opts ...Option) *Sentinel {
	tb.Helper()
	Require(tb)
	primary := Start(tb, append([]Option{Args("--repl-diskless-sync-delay", "0")}, opts...)...)
	replica := Start(tb, append([]Option{Args("--replicaof", "127.0.0.1 "+strconv.Itoa(primary.port))}, opts...)...)
	s := &Sentinel{tb: tb, data: []*Server{primary, replica}}
	// Sentinels look for replicas every 10 seconds, and at once when they
	// start: it must be there by then.
	await(tb, "a replica in step", func() error {
		return want(inStep(replica), "number of replicas", primary.Info("connected_slaves"), "1")
	})
	for range sentinels {
		s.Sentinels = append(s.Sentinels, startSentinel(tb, primary))
	}
	await(tb, "sentinels that know each other", s.complete)
	return s
}

func startSentinel(tb TB, primary *Server) *Server {
	tb.Helper()
	return start(tb, func(s *Server) []string {
		conf := filepath.Join(s.dir, "sentinel.conf")
		if err := os.WriteFile(conf, []byte(sentinelConf(primary)), 0o600); err != nil {
			tb.Fatalf("redistest: %v", err)
		}
		return append([]string{conf, "--sentinel"}, s.args...)
	})
}

func sentinelConf(primary *Server) string {
	return fmt.Sprintf(`sentinel monitor %[1]s 127.0.0.1 %[2]d 2
sentinel down-after-milliseconds %[1]s 500
sentinel failover-timeout %[1]s 3000
sentinel parallel-syncs %[1]s 1
`, masterName, primary.port)
}

// complete returns what a sentinel does not know yet.
func (s *Sentinel) complete() error {
	status := fmt.Sprintf("name=%s,status=ok,address=%s,slaves=1,sentinels=%d", masterName, s.data[0].Addr(), sentinels)
	for _, sentinel := range s.Sentinels {
		info, err := sentinel.Try("INFO", "sentinel")
		if err := want(err, "status", infoField(info, "master0"), status); err != nil {
			return err
		}
		if _, err := sentinel.Try("SENTINEL", "CKQUORUM", masterName); err != nil {
			return err
		}
	}
	return nil
}

// Addrs are the TCP addresses of the sentinels.
func (s *Sentinel) Addrs() []string {
	addrs := make([]string, len(s.Sentinels))
	for i, sentinel := range s.Sentinels {
		addrs[i] = sentinel.Addr()
	}
	return addrs
}

// MasterName is the name under which the sentinels know the primary.
func (s *Sentinel) MasterName() string { return masterName }

// Primary is the server that the sentinels name as primary now. It changes with
// a failover, and may be one that is gone until then.
func (s *Sentinel) Primary() *Server {
	s.tb.Helper()
	addr := s.primaryAddr()
	for _, server := range s.data {
		if server.Addr() == addr {
			return server
		}
	}
	s.tb.Fatalf("redistest: sentinels name %q as primary, which is neither %v nor %v", addr, s.data[0], s.data[1])
	return nil
}

// Replica is the server that is not Primary.
func (s *Sentinel) Replica() *Server {
	s.tb.Helper()
	if s.Primary() == s.data[0] {
		return s.data[1]
	}
	return s.data[0]
}

// AwaitFailover waits until a running server other than old is the primary, and
// returns it.
func (s *Sentinel) AwaitFailover(old *Server) *Server {
	s.tb.Helper()
	await(s.tb, "a failover", func() error {
		primary := s.Primary()
		if primary == old || !primary.answering() {
			return fmt.Errorf("primary is %v", primary)
		}
		return want(nil, "its role", primary.Info("role"), "master")
	})
	return s.Primary()
}

// primaryAddr asks the first sentinel that is neither killed nor paused.
func (s *Sentinel) primaryAddr() string {
	s.tb.Helper()
	for _, sentinel := range s.Sentinels {
		if sentinel.answering() {
			return strings.ReplaceAll(sentinel.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", masterName), "\n", ":")
		}
	}
	s.tb.Fatalf("redistest: no sentinel is running")
	return ""
}
