// Command gotest runs go test in each of the named modules, and closes with what
// was skipped and why, and one line of totals.
//
// Plain go test does not mention a skipped test: a machine without redis-server
// would look like one on which everything has passed. A test that no machine
// could run, such as one that sets the clock of a store whose clock cannot be
// set, says so in its reason, and only counts among the totals.
//
//	go run .ci/gotest/main.go [flags of go test --] module...
package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags, modules := split(args)
	redis := onPath("redis-server")
	if !redis && os.Getenv("REQUIRE_REDIS") == "1" {
		return errors.New("REQUIRE_REDIS=1, but redis-server is not on PATH: install it, for example with apt-get install redis-server")
	}
	r := newReport()
	for _, module := range modules {
		if err := r.test(module, flags); err != nil {
			r.broken = append(r.broken, fmt.Sprintf("%s: %v", module, err))
		}
	}
	if !slices.Contains(flags, "-race") {
		fmt.Println("\n#### WITHOUT THE RACE DETECTOR: -race needs cgo and a C compiler ####")
	}
	r.printSkipped(redis)
	return r.close()
}

func split(args []string) (flags, modules []string) {
	if i := slices.Index(args, "--"); i >= 0 {
		return args[:i], args[i+1:]
	}
	return nil, args
}

func onPath(name string) bool {
	_, err := exec.LookPath(name)
	return err == nil
}

// test is one test of one package.
type test struct{ pkg, name string }

// event is a line of go test -json; see go doc test2json.
type event struct {
	Action, Package, Test, Output string
}

// notApplicable begins the reason of a test that is skipped on every machine.
const notApplicable = "not applicable: "

// report collects the outcome over all modules.
type report struct {
	output                  map[test][]string // of tests that have not ended
	passed, failed, skipped int
	inapplicable            int               // skipped on every machine
	reasons                 map[string][]test // of those skipped on this one
	broken                  []string          // modules whose go test has failed
}

func newReport() *report {
	return &report{output: map[test][]string{}, reasons: map[string][]test{}}
}

// test runs go test in the folder module. It returns an error if go test does,
// whatever the events have told.
func (r *report) test(module string, flags []string) error {
	fmt.Printf("== %s: go test %s ./...\n", module, strings.Join(flags, " "))
	cmd := exec.Command("go", append(append([]string{"test", "-json"}, flags...), "./...")...)
	cmd.Dir, cmd.Stderr = module, os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	readErr := r.read(out)
	return errors.Join(cmd.Wait(), readErr)
}

func (r *report) read(out io.Reader) error {
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			r.line(line)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *report) line(line []byte) {
	var e event
	if json.Unmarshal(line, &e) != nil {
		fmt.Print(string(line)) // not an event: go has something to say of its own
		return
	}
	if e.Test == "" {
		r.ofPackage(e)
		return
	}
	r.ofTest(test{e.Package, e.Test}, e)
}

func (r *report) ofPackage(e event) {
	switch {
	case e.Action == "fail":
		r.printUnended(e.Package)
	case e.Action == "build-output", e.Action == "output" && e.Output != "PASS\n":
		fmt.Print(e.Output)
	}
}

func (r *report) ofTest(t test, e event) {
	switch e.Action {
	case "output":
		r.output[t] = append(r.output[t], e.Output)
		return
	case "pass":
		r.passed++
	case "fail":
		r.failed++
		fmt.Print(strings.Join(r.output[t], ""))
	case "skip":
		r.skip(t, reason(r.output[t]))
	default:
		return
	}
	delete(r.output, t)
}

func (r *report) skip(t test, why string) {
	if strings.HasPrefix(why, notApplicable) {
		r.inapplicable++
		return
	}
	r.skipped++
	r.reasons[why] = append(r.reasons[why], t)
}

// printUnended prints what those tests of pkg have written that were running
// when it died of a panic or a timeout.
func (r *report) printUnended(pkg string) {
	for t, out := range r.output {
		if t.pkg == pkg {
			r.failed++
			fmt.Print(strings.Join(out, ""))
			delete(r.output, t)
		}
	}
}

// reason is what a skipped test gave as its reason, without the place in the
// code.
func reason(output []string) string {
	for _, line := range slices.Backward(output) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "--- ") || strings.HasPrefix(line, "=== ") {
			continue
		}
		if _, why, ok := strings.Cut(line, ".go:"); ok {
			_, why, _ = strings.Cut(why, ": ")
			return why
		}
		return line
	}
	return "no reason given"
}

func (r *report) printSkipped(redis bool) {
	if !redis {
		fmt.Println("\n#### NOT TESTED ON A REAL REDIS: redis-server is not on PATH ####")
		fmt.Println("Install it (apt-get install redis-server, brew install redis) and run make test again.")
	}
	if r.skipped == 0 {
		return
	}
	fmt.Printf("\n#### SKIPPED: %d tests could not run on this machine ####\n", r.skipped)
	for _, why := range slices.Sorted(maps.Keys(r.reasons)) {
		fmt.Printf("%s:\n", why)
		printTests(r.reasons[why])
	}
}

// printTests prints a line for each test with the number of its subtests.
func printTests(tests []test) {
	subtests := map[test]int{}
	for _, t := range tests {
		top, _, isSubtest := strings.Cut(t.name, "/")
		if t.name = top; isSubtest {
			subtests[t]++
		} else {
			subtests[t] += 0
		}
	}
	for _, t := range slices.SortedFunc(maps.Keys(subtests), byName) {
		if n := subtests[t]; n > 0 {
			fmt.Printf("    %s %s (%d of its subtests)\n", t.pkg, t.name, n)
			continue
		}
		fmt.Printf("    %s %s\n", t.pkg, t.name)
	}
}

func byName(a, b test) int {
	return cmp.Or(strings.Compare(a.pkg, b.pkg), strings.Compare(a.name, b.name))
}

func (r *report) close() error {
	fmt.Printf("\n%d passed, %d failed, %d skipped, %d not applicable\n", r.passed, r.failed, r.skipped, r.inapplicable)
	if len(r.broken) > 0 {
		return errors.New("failed in " + strings.Join(r.broken, ", "))
	}
	return nil
}
