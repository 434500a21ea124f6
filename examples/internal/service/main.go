package service

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// patience is how long requests that are under way may take when the service is
// told to stop.
const patience = 10 * time.Second

// Server is a *http.Server, or a framework's own.
type Server interface {
	Serve(listener net.Listener) error
	// Shutdown closes the listener, and returns when all requests have ended or
	// ctx has.
	Shutdown(ctx context.Context) error
}

// Main runs the example called name: the server that newServer makes, until
// SIGINT or SIGTERM. It exits with 1 when that cannot be.
func Main(name string, newServer func(*Env) (Server, error)) {
	if err := run(name, newServer); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

func run(name string, newServer func(*Env) (Server, error)) error {
	e, err := Open()
	if err != nil {
		return err
	}
	defer e.Close()
	server, err := newServer(e)
	if err != nil {
		return err
	}
	var config net.ListenConfig
	listener, err := config.Listen(context.Background(), "tcp", e.Addr)
	if err != nil {
		return fmt.Errorf("ADDR %q: %w", e.Addr, err)
	}
	fmt.Printf("examples/%s limits each client to %v, on %s. Try: curl -i %s\n", name, e.Limit, e.Where, baseURL(listener))
	return serve(server, listener)
}

// serve serves until a signal comes, and then lets requests under way end. A
// second signal ends them.
func serve(server Server, listener net.Listener) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
		stop()
	}
	ending, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := server.Shutdown(ending); err != nil {
		return fmt.Errorf("requests were cut off after %v: %w", patience, err)
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// baseURL is a URL at which curl reaches the listener.
func baseURL(listener net.Listener) string {
	addr, ok := listener.Addr().(*net.TCPAddr)
	if ok && addr.IP.IsUnspecified() {
		return fmt.Sprintf("http://localhost:%d/", addr.Port)
	}
	return fmt.Sprintf("http://%v/", listener.Addr())
}
