package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// section is the answer to one question.
type section struct {
	Title string   `json:"title"`
	Rows  []row    `json:"rows,omitempty"`
	Goals []goal   `json:"goals,omitempty"`
	Notes []string `json:"notes,omitempty"`
}

// row is one subject. All rows of a section have the same figures.
type row struct {
	Who     string   `json:"who"`
	Figures []figure `json:"figures"`
}

type figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
}

// goal is a figure that has to be reached.
type goal struct {
	What     string  `json:"what"`
	Measured float64 `json:"measured"`
	// From and To hold the middle half of the rounds.
	From    float64 `json:"from"`
	To      float64 `json:"to"`
	Goal    string  `json:"goal"`
	Reached bool    `json:"reached"`
}

func (s *section) row(who string, figures ...figure) {
	s.Rows = append(s.Rows, row{who, figures})
}

func (s *section) note(format string, args ...any) {
	s.Notes = append(s.Notes, fmt.Sprintf(format, args...))
}

func (s *section) atLeast(what string, measured rounds, bound float64, unit string) {
	s.goal(what, measured, fmt.Sprintf(">= %v%s", bound, unit), measured.median() >= bound)
}

func (s *section) atMost(what string, measured rounds, bound float64, unit string) {
	s.goal(what, measured, fmt.Sprintf("<= %v%s", bound, unit), measured.median() <= bound)
}

func (s *section) goal(what string, measured rounds, bound string, reached bool) {
	s.Goals = append(s.Goals, goal{
		What: what, Measured: measured.median(), From: measured.quantile(0.25), To: measured.quantile(0.75),
		Goal: bound, Reached: reached,
	})
}

// printer prints a run as it goes along.
type printer interface {
	machine(m machine)
	section(s *section)
	end() error
}

func newPrinter(out io.Writer, asJSON bool) printer {
	if asJSON {
		return &jsonPrinter{out: out}
	}
	return &textPrinter{out: out}
}

// jsonPrinter prints one object at the end.
type jsonPrinter struct {
	out      io.Writer
	Machine  machine    `json:"machine"`
	Sections []*section `json:"sections"`
}

func (p *jsonPrinter) machine(m machine)  { p.Machine = m }
func (p *jsonPrinter) section(s *section) { p.Sections = append(p.Sections, s) }

func (p *jsonPrinter) end() error {
	out := json.NewEncoder(p.out)
	out.SetIndent("", "  ")
	return out.Encode(p)
}

// textPrinter prints tables.
type textPrinter struct {
	out  io.Writer
	lost []string // goals that are not reached
}

func (p *textPrinter) machine(m machine) {
	fmt.Fprintf(p.out, "%d x %s, %s, %s, Redis %s on loopback\n", m.Cores, m.CPU, m.Go, m.OS, m.Redis)
	for _, path := range slices.Sorted(maps.Keys(m.Modules)) {
		fmt.Fprintf(p.out, "%s %s\n", path, m.Modules[path])
	}
	fmt.Fprintf(p.out, "all clients: %s\n", m.Clients)
	fmt.Fprintf(p.out, "medians of %d rounds of %s each, taken in turns; [middle half of the rounds]\n", m.Rounds, m.Round)
}

func (p *textPrinter) section(s *section) {
	fmt.Fprintf(p.out, "\n%s\n", s.Title)
	p.table(s.Rows)
	for _, g := range s.Goals {
		verdict := "ok"
		if !g.Reached {
			verdict = "NOT reached"
			p.lost = append(p.lost, s.Title+": "+g.What)
		}
		fmt.Fprintf(p.out, "  %s: %s [%s..%s], goal %s: %s\n", g.What, number(g.Measured), number(g.From), number(g.To), g.Goal, verdict)
	}
	for _, note := range s.Notes {
		fmt.Fprintf(p.out, "  note: %s\n", note)
	}
}

func (p *textPrinter) table(rows []row) {
	if len(rows) == 0 {
		return
	}
	out := tabwriter.NewWriter(p.out, 0, 0, 2, ' ', tabwriter.AlignRight)
	for _, f := range rows[0].Figures {
		fmt.Fprintf(out, "\t%s", f.Name)
	}
	fmt.Fprintln(out, "\t")
	width := 0
	for _, r := range rows {
		width = max(width, len(r.Who))
	}
	for _, r := range rows {
		fmt.Fprintf(out, "  %-*s", width, r.Who)
		for _, f := range r.Figures {
			fmt.Fprintf(out, "\t%s", number(f.Value))
		}
		fmt.Fprintln(out, "\t")
	}
	_ = out.Flush()
}

func (p *textPrinter) end() error {
	if len(p.lost) > 0 {
		fmt.Fprintf(p.out, "\nNOT reached:\n  %s\n", strings.Join(p.lost, "\n  "))
	}
	return nil
}

// number prints three digits, and more of large numbers, in groups.
func number(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 10:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case v < 100:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	digits := strconv.FormatFloat(v, 'f', 0, 64)
	var groups []string
	for len(digits) > 3 {
		groups = append([]string{digits[len(digits)-3:]}, groups...)
		digits = digits[:len(digits)-3]
	}
	return strings.Join(append([]string{digits}, groups...), ",")
}
