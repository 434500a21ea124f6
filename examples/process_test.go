package examples_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/atomicbucket/ratelimit/core/redistest"
)

// binaries is the folder in which the examples are built, once for all tests.
var binaries string

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(built{redistest.WithSummary(m)})
}

// built builds the examples before the tests run, and removes them after.
type built struct{ redistest.TestingM }

func (b built) Run() int {
	var err error
	if binaries, err = os.MkdirTemp("", "examples"); err != nil {
		panic(err)
	}
	defer os.RemoveAll(binaries)
	if out, err := exec.Command("go", "build", "-o", binaries, "./...").CombinedOutput(); err != nil {
		panic(err.Error() + "\n" + string(out))
	}
	return b.TestingM.Run()
}

// patience is how long a test waits for what must come. It says nothing about
// how long that takes.
const patience = 30 * time.Second

// command is an example that is ready to start, in an environment of its own.
func command(t *testing.T, name string, env ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, filepath.Join(binaries, name))
	cmd.Env = append([]string{"ADDR=127.0.0.1:0"}, env...)
	return cmd
}

// process is an example that serves.
type process struct {
	t    *testing.T
	url  string // without a slash at its end
	line string // the first of its output
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
}

var urlIn = regexp.MustCompile(`curl -i (http://\S+)/`)

// start starts an example on a free port, and returns once it has a Redis that
// decides. It is gone when the test ends.
func start(t *testing.T, name string, env ...string) *process {
	t.Helper()
	p := launch(t, name, env...)
	await(t, "a decision by Redis", func() bool { return p.limited("warm") })
	return p
}

// launch is start for a service whose Redis is out of reach.
func launch(t *testing.T, name string, env ...string) *process {
	t.Helper()
	keys := "API_KEYS=demo, other, warm"
	p := &process{t: t, cmd: command(t, name, append([]string{keys}, env...)...), done: make(chan struct{})}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr strings.Builder
	p.cmd.Stderr = &stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	p.line, _ = lines.ReadString('\n')
	go func() {
		defer close(p.done)
		_, _ = io.Copy(io.Discard, lines)
		_ = p.cmd.Wait()
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
		if t.Failed() {
			t.Logf("%s said: %s%s", name, p.line, stderr.String())
		}
	})
	url := urlIn.FindStringSubmatch(p.line)
	if url == nil {
		t.Fatalf("the first line of output shows no curl to try: %q", p.line)
	}
	p.url = url[1]
	return p
}

// limited reports whether Redis decides on a call of the client with that API
// key, and spends one of its tokens.
func (p *process) limited(apiKey string) bool {
	return p.get("/", "X-API-Key", apiKey).header.Get("RateLimit") != ""
}

// stop tells the service to stop.
func (p *process) stop() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
}

// exitCode waits until the service has ended.
func (p *process) exitCode() int {
	p.t.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		p.t.Fatal("the service has not ended")
	}
	return p.cmd.ProcessState.ExitCode()
}

// response is a response that was read to its end.
type response struct {
	status int
	header http.Header
	body   string
}

func (p *process) get(path string, header ...string) response {
	p.t.Helper()
	return p.do(http.MethodGet, path, header...)
}

// do sends a request with headers given as name and value in turn, on a
// connection of its own.
func (p *process) do(method, path string, header ...string) response {
	p.t.Helper()
	r, err := p.try(method, path, header...)
	if err != nil {
		p.t.Fatal(err)
	}
	return r
}

// try is do for any goroutine.
func (p *process) try(method, path string, header ...string) (response, error) {
	res, err := p.open(method, path, header...)
	if err != nil {
		return response{}, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return response{res.StatusCode, res.Header, string(body)}, err
}

// open sends a request and leaves the body to be read.
func (p *process) open(method, path string, header ...string) (*http.Response, error) {
	req, err := http.NewRequest(method, p.url+path, nil)
	if err != nil {
		return nil, err
	}
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	req.Close = true
	client := http.Client{Timeout: patience, Transport: &http.Transport{DisableKeepAlives: true}}
	return client.Do(req)
}

// await waits until reached holds.
func await(t *testing.T, what string, reached func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !reached(); {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain for %s", what)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// refusal runs an example that cannot start, and returns its exit code and what
// it says.
func refusal(t *testing.T, name string, env ...string) (code int, message string) {
	t.Helper()
	out, err := command(t, name, env...).CombinedOutput()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		return failed.ExitCode(), string(out)
	}
	t.Fatalf("it has not failed: %v %s", err, out)
	return 0, ""
}
