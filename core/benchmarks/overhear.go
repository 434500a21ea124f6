package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	ratelimit "github.com/atomicbucket/ratelimit/core"
)

// decision is the command with which a limiter has a call decided.
type decision struct {
	hash string
	key  string // in Redis
	args []string
}

// sampleKey is a key of 16 bytes, as all that are used here.
var sampleKey = keyOf(0)

func keyOf(i int) string { return fmt.Sprintf("user:%011d", i) }

// redisKey is the key in Redis for another key of the limiter.
func (d decision) redisKey(key string) string { return strings.Replace(d.key, sampleKey, key, 1) }

// command is the command for a key in Redis.
func (d decision) command(redisKey string) []any {
	command := []any{"evalsha", d.hash, 1, redisKey}
	for _, arg := range d.args {
		command = append(command, arg)
	}
	return command
}

// overhear makes a contestant decide, and listens to what it sends to Redis:
// that is what it runs there, whatever its source says. Redis knows its script
// afterwards.
func overhear(ctx context.Context, options *redis.Options, limit ratelimit.Limit, name string) (decision, error) {
	var sent recording
	rdb := redis.NewClient(&redis.Options{
		Addr: options.Addr,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := new(net.Dialer).DialContext(ctx, network, addr)
			return &tappedConn{Conn: conn, sent: &sent}, err
		},
	})
	defer rdb.Close()
	c, err := newContestant(ctx, rdb, limit, name)
	if err != nil {
		return decision{}, err
	}
	for range 2 { // the first may be sent in full, for want of the hash
		if _, err := c.allow(ctx, sampleKey); err != nil {
			return decision{}, err
		}
	}
	return sent.decision()
}

// recording is what went over the connections of a client.
type recording struct {
	mu    sync.Mutex
	bytes bytes.Buffer
}

type tappedConn struct {
	net.Conn
	sent *recording
}

func (c *tappedConn) Write(p []byte) (int, error) {
	c.sent.mu.Lock()
	c.sent.bytes.Write(p)
	c.sent.mu.Unlock()
	return c.Conn.Write(p)
}

// decision finds the last EVALSHA.
func (r *recording) decision() (decision, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var found decision
	in := bufio.NewReader(&r.bytes)
	for {
		command, err := readCommand(in)
		if err != nil {
			break
		}
		if len(command) >= 4 && strings.EqualFold(command[0], "evalsha") && command[2] == "1" {
			found = decision{hash: command[1], key: command[3], args: command[4:]}
		}
	}
	if found.hash == "" {
		return decision{}, errNoScript
	}
	return found, nil
}

// readCommand reads a command as clients write it: *2, $3, GET, $1, k.
func readCommand(in *bufio.Reader) ([]string, error) {
	n, err := readLength(in, '*')
	if err != nil {
		return nil, err
	}
	command := make([]string, n)
	for i := range command {
		size, err := readLength(in, '$')
		if err != nil {
			return nil, err
		}
		word := make([]byte, size+len("\r\n"))
		if _, err := io.ReadFull(in, word); err != nil {
			return nil, err
		}
		command[i] = string(word[:size])
	}
	return command, nil
}

func readLength(in *bufio.Reader, kind byte) (int, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return 0, err
	}
	if line[0] != kind {
		return 0, fmt.Errorf("%q is no RESP length", line)
	}
	return strconv.Atoi(strings.TrimSpace(line[1:]))
}
