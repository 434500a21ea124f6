package faults

import (
	"bytes"
	"context"
	"encoding/json"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2"
	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"
	"github.com/rs/zerolog"
)

// proxy is a network between a client and a server, which can be made ill.
type proxy struct {
	*toxiproxy.Proxy
	s *scenario
}

var register = sync.OnceFunc(func() {
	toxics.Register("lose_one_in", new(loseOneIn))
	toxics.Register("half_open", new(halfOpen))
	toxics.Register("delayed", new(delayed))
})

// proxy starts a proxy to upstream.
func (s *scenario) proxy(upstream string) proxy {
	s.Helper()
	register()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	p := proxy{toxiproxy.NewProxy(server, "redis", "127.0.0.1:0", upstream), s}
	if err := p.Start(); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(p.Stop)
	return p
}

type attributes map[string]any

// infect adds a toxic to a stream: upstream is what the client sends.
func (p proxy) infect(name, kind, stream string, attrs attributes) {
	p.s.Helper()
	toxic, err := json.Marshal(map[string]any{"name": name, "type": kind, "stream": stream, "attributes": attrs})
	if err != nil {
		p.s.Fatal(err)
	}
	if _, err := p.Toxics.AddToxicJson(bytes.NewReader(toxic)); err != nil {
		p.s.Fatal(err)
	}
}

// heal removes all toxics.
func (p proxy) heal() { p.Toxics.ResetToxics(context.Background()) }

// loseOneIn closes the connection on which every so-manieth piece of data comes.
type loseOneIn struct {
	N int `json:"n"`
}

func (l *loseOneIn) Pipe(stub *toxics.ToxicStub) {
	for {
		select {
		case <-stub.Interrupt:
			return
		case data := <-stub.Input:
			if data == nil || rand.IntN(l.N) == 0 {
				end(stub)
				return
			}
			stub.Output <- data
		}
	}
}

// end ends a connection, and takes what still comes on it: toxiproxy waits for
// that to be taken.
func end(stub *toxics.ToxicStub) {
	stub.Close()
	for range stub.Input {
	}
}

// halfOpen swallows what comes on connections that were there when all were
// forgotten, as when a firewall has: neither end hears anything, nor of an end.
type halfOpen struct{}

// forgotten is how often all connections were forgotten.
var forgotten atomic.Int64

func (halfOpen) Pipe(stub *toxics.ToxicStub) {
	before := forgotten.Load()
	for {
		select {
		case <-stub.Interrupt:
			return
		case data := <-stub.Input:
			if data == nil {
				stub.Close()
				return
			}
			if forgotten.Load() == before {
				stub.Output <- data
			}
		}
	}
}

// delayed hands on each piece of data so many milliseconds after it came.
// Toxiproxy's own waits for ever when the receiving end has left meanwhile, as
// clients do whose budget has ended.
type delayed struct {
	By int64 `json:"by"`
}

func (*delayed) GetBufferSize() int { return 1024 }

func (d *delayed) Pipe(stub *toxics.ToxicStub) {
	for {
		select {
		case <-stub.Interrupt:
			return
		case data := <-stub.Input:
			if data == nil {
				stub.Close()
				return
			}
			interrupted := d.await(data, stub.Interrupt)
			if stub.WriteOutput(data, 2*time.Second) != nil {
				end(stub)
				return
			}
			if interrupted {
				return
			}
		}
	}
}

// await waits until it is time for data, or an interruption.
func (d *delayed) await(data *stream.StreamChunk, interrupt <-chan struct{}) (interrupted bool) {
	timer := time.NewTimer(time.Until(data.Timestamp.Add(time.Duration(d.By) * time.Millisecond)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return false
	case <-interrupt:
		return true
	}
}
