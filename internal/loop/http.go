package loop

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"time"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/wire"
)

// Limits of the HTTP API. Its requests are small and its answers quick; whoever takes
// longer than this is no reader.
const (
	httpHeaderWait = 5 * time.Second
	httpReadWait   = 10 * time.Second
	httpWriteWait  = 30 * time.Second
	httpIdleWait   = time.Minute
	httpCloseWait  = 2 * time.Second
	httpMaxHeader  = 16 << 10
	httpMaxBody    = 4 << 10
	httpAtOnce     = 32
)

// server is the HTTP API: a view of the scheduler, and a way to ask for a poll. Its
// goroutines only read what the owner published, and never wait for it.
type server struct {
	url     string        // with the port that was given
	refresh chan struct{} // holds one: a poll that is asked for
}

// openServer listens, if somebody wants that, and begins to answer.
func (d *driver) openServer() error {
	if d.Listen == "" {
		return nil
	}
	listener, loopback, err := listen(d.ctx, d.Listen, d.Token)
	if err != nil {
		return err
	}
	s := &server{url: "http://" + listener.Addr().String() + "/", refresh: make(chan struct{}, 1)}
	d.server = s
	api := &api{
		root: d.Root, look: d.view, refresh: s.refresh, now: d.Now, patience: d.Reading + httpReadWait, warn: d.Warn,
		guard: guard{token: d.Token, loopback: loopback, slots: make(chan struct{}, httpAtOnce)},
	}
	d.serve(listener, api.handler())
	return nil
}

// serve answers until the driver's context ends. What is under way then may be
// finished.
func (d *driver) serve(listener net.Listener, h http.Handler) {
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: httpHeaderWait, ReadTimeout: httpReadWait, WriteTimeout: httpWriteWait, IdleTimeout: httpIdleWait,
		MaxHeaderBytes: httpMaxHeader,
		ErrorLog:       slog.NewLogLogger(&complaints{slog.DiscardHandler, d.Warn}, slog.LevelError),
	}
	d.tasks.Go(func() {
		if err := srv.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			d.Warn("the HTTP API has ended: %v", err)
		}
	})
	d.tasks.Go(func() {
		<-d.ctx.Done()
		ctx, cancel := context.WithTimeout(context.Background(), httpCloseWait)
		defer cancel()
		if err := srv.Shutdown(ctx); err != nil {
			_ = srv.Close() // who still reads is cut off
		}
	})
}

// listen opens the port. One without a host is of loopback: nobody should be heard by
// the whole network for want of a few characters. Any other address wants a token.
func listen(ctx context.Context, address, token string) (_ net.Listener, loopback bool, err error) {
	if _, err := strconv.ParseUint(address, 10, 16); err == nil {
		address = net.JoinHostPort("127.0.0.1", address)
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", address)
	if err != nil {
		return nil, false, cli.Errorf(cli.StatusUnavailable, "listen on %q: %w", address, err)
	}
	at, ok := listener.Addr().(*net.TCPAddr)
	loopback = ok && at.IP.IsLoopback()
	if !loopback && token == "" {
		return nil, false, errors.Join(cli.Errorf(cli.StatusConfig,
			"listen on %q: beyond loopback a token is wanted, and server.token_env names no variable with one", address), listener.Close())
	}
	return listener, loopback, nil
}

// CheckListen tells whether the HTTP API could listen there. Its errors have the exit
// statuses of Run's.
func CheckListen(ctx context.Context, address, token string) error {
	l, _, err := listen(ctx, address, token)
	if err != nil {
		return err
	}
	return l.Close()
}

// address is where the API is, or "".
func (d *driver) address() string {
	if d.server == nil {
		return ""
	}
	return d.server.url
}

// refreshes brings the polls that were asked for through the API.
func (d *driver) refreshes() <-chan struct{} {
	if d.server == nil {
		return nil
	}
	return d.server.refresh
}

// announce adds to the first record what a reader cannot know otherwise.
func (d *driver) announce(l *wire.Loop) {
	if l.Event != "started" || d.server == nil {
		return
	}
	b, err := wire.Encode(struct {
		Listen string `json:"listen"`
	}{d.server.url})
	if err == nil {
		l.Detail = b
	}
}

// view is what the owner published last, with what the runs' files tell now; nil
// before the first time. Safe.
func (d *driver) view() *View {
	s := d.publisher.current.Load()
	if s == nil {
		return nil
	}
	v := &View{Alive: true, StateAt: wire.At(d.Now())}
	v.fill(d.Root, s)
	return v
}

// complaints passes on what net/http has to say, which has a log of its own kind.
type complaints struct {
	slog.Handler
	warn func(format string, args ...any)
}

// Enabled implements slog.Handler.
func (*complaints) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (c *complaints) Handle(_ context.Context, r slog.Record) error {
	c.warn("HTTP API: %s", r.Message)
	return nil
}
