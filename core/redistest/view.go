package redistest

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// id is the server's name in its cluster.
func (s *Server) id() string {
	s.tb.Helper()
	return s.Do("CLUSTER", "MYID")
}

// member is a node of a cluster as one of them sees it.
type member struct {
	id     string
	myself bool
	master string // id of its master; "" if it is one
	epoch  int
	ranges [][2]int
}

func (m member) serves(slot int) bool {
	for _, r := range m.ranges {
		if r[0] <= slot && slot <= r[1] {
			return true
		}
	}
	return false
}

// self is how the server sees itself.
func (s *Server) self() (member, error) {
	view, err := s.view()
	for _, m := range view {
		if m.myself {
			return m, nil
		}
	}
	return member{}, errors.Join(err, errors.New("server is not in its own CLUSTER NODES"))
}

// view is how the server sees its cluster, by id.
func (s *Server) view() (map[string]member, error) {
	nodes, err := s.Try("CLUSTER", "NODES")
	if err != nil {
		return nil, err
	}
	view := make(map[string]member)
	for line := range strings.Lines(nodes) {
		m, err := parseMember(line)
		if err != nil {
			return nil, err
		}
		view[m.id] = m
	}
	return view, nil
}

// parseMember reads a line of CLUSTER NODES:
//
//	id address flags master ping pong epoch link slot first-last [slot->-id] ...
func parseMember(line string) (member, error) {
	fields := strings.Fields(line)
	if len(fields) < 8 {
		return member{}, fmt.Errorf("CLUSTER NODES: unexpected line %q", line)
	}
	epoch, err := strconv.Atoi(fields[6])
	if err != nil {
		return member{}, fmt.Errorf("CLUSTER NODES: epoch: %w", err)
	}
	m := member{id: fields[0], myself: strings.Contains(fields[2], "myself"), master: strings.Trim(fields[3], "-"), epoch: epoch}
	for _, field := range fields[8:] {
		if strings.HasPrefix(field, "[") {
			continue // a slot on the move is still its master's
		}
		r, err := parseRange(field)
		if err != nil {
			return member{}, err
		}
		m.ranges = append(m.ranges, r)
	}
	return m, nil
}

func parseRange(s string) ([2]int, error) {
	from, to, several := strings.Cut(s, "-")
	if !several {
		to = from
	}
	first, err := strconv.Atoi(from)
	if err != nil {
		return [2]int{}, fmt.Errorf("CLUSTER NODES: slots: %w", err)
	}
	last, err := strconv.Atoi(to)
	if err != nil {
		return [2]int{}, fmt.Errorf("CLUSTER NODES: slots: %w", err)
	}
	return [2]int{first, last}, nil
}
