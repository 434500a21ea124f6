package faults

import (
	"fmt"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	ratelimit "github.com/atomicbucket/ratelimit/core"
)

// row is what was measured of one scenario. Negative numbers were not measured.
type row struct {
	fault         string
	requests      int64
	longest, open time.Duration
	stall         time.Duration
	bySource      [5]int64 // by ratelimit.Source
	over          int
	ran, sent     int64
	recovery      time.Duration
	conns         int64
	goroutines    int
	note          string
}

// rows are those of the scenarios that have ended.
var rows struct {
	sync.Mutex
	all []row
}

func report(r row) {
	rows.Lock()
	defer rows.Unlock()
	rows.all = append(rows.all, r)
}

// table is a line for each scenario that has ended.
func table() string {
	rows.Lock()
	defer rows.Unlock()
	if len(rows.all) == 0 {
		return ""
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nfault\trequests\tlongest\tstall\tmedian open\tstore\tshortcut\tlocal\tpolicy\tover\tran/sent\trecovery\tconns\tgoroutines\t")
	for _, r := range rows.all {
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%s\t%s\t%s\t%s\t%d\t%s\n",
			r.fault, r.requests, duration(r.longest), duration(r.stall), duration(r.open),
			r.bySource[ratelimit.SourceStore], r.bySource[ratelimit.SourceShortcut], r.bySource[ratelimit.SourceLocal], r.bySource[ratelimit.SourcePolicy],
			count(int64(r.over)), ratio(r.ran, r.sent), duration(r.recovery), count(r.conns), r.goroutines, r.note)
	}
	_ = w.Flush()
	return b.String() + "\n"
}

func duration(d time.Duration) string {
	switch {
	case d < 0:
		return "-"
	case d < time.Millisecond:
		return fmt.Sprintf("%.1fµs", float64(d)/float64(time.Microsecond))
	default:
		return fmt.Sprintf("%.1fms", float64(d)/float64(time.Millisecond))
	}
}

func count(n int64) string {
	if n < 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

func ratio(ran, sent int64) string { return count(ran) + "/" + count(sent) }
