package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"
)

// replyWithin is how long a server may take to answer one command.
const replyWithin = 10 * time.Second

// serverError is an error that the server replied, code first: "WRONGTYPE …".
type serverError string

func (e serverError) Error() string { return string(e) }

// command sends one command over a connection of its own, and returns the
// reply: a string, an int64, nil, or a list of these.
func command(network, addr string, args ...string) (any, error) {
	conn, err := net.DialTimeout(network, addr, replyWithin)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(replyWithin)); err != nil {
		return nil, err
	}
	var request strings.Builder
	fmt.Fprintf(&request, "*%d\r\n", len(args))
	for _, arg := range args {
		fmt.Fprintf(&request, "$%d\r\n%s\r\n", len(arg), arg)
	}
	if _, err := io.WriteString(conn, request.String()); err != nil {
		return nil, err
	}
	return readReply(bufio.NewReader(conn))
}

func readReply(r *bufio.Reader) (any, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimSuffix(line, "\r\n")
	if line == "" {
		return nil, errors.New("empty reply")
	}
	kind, rest := line[0], line[1:]
	switch kind {
	case '+':
		return rest, nil
	case '-':
		return nil, serverError(rest)
	}
	n, err := strconv.ParseInt(rest, 10, 64)
	switch {
	case err != nil:
		return nil, fmt.Errorf("unexpected reply %q", line)
	case kind == ':':
		return n, nil
	case n < 0:
		return nil, nil
	case kind == '$':
		return readBulk(r, n)
	case kind == '*':
		return readList(r, n)
	default:
		return nil, fmt.Errorf("unexpected reply %q", line)
	}
}

func readBulk(r *bufio.Reader, n int64) (any, error) {
	bulk := make([]byte, n+int64(len("\r\n")))
	if _, err := io.ReadFull(r, bulk); err != nil {
		return nil, err
	}
	return string(bulk[:n]), nil
}

// readList reads n replies. An error among them, as in EXEC's, becomes its
// text.
func readList(r *bufio.Reader, n int64) (any, error) {
	list := make([]any, 0, n)
	for range n {
		item, err := readReply(r)
		if refused, ok := errors.AsType[serverError](err); ok {
			item, err = refused.Error(), nil
		}
		if err != nil {
			return nil, err
		}
		list = append(list, item)
	}
	return list, nil
}

// text is a reply as Do returns it.
func text(reply any) string {
	switch reply := reply.(type) {
	case nil:
		return ""
	case []any:
		lines := make([]string, len(reply))
		for i, item := range reply {
			lines[i] = text(item)
		}
		return strings.Join(lines, "\n")
	default:
		return fmt.Sprint(reply)
	}
}
