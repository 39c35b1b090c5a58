package spawn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"ostoolkit/internal/proc"
	"ostoolkit/internal/state"
)

const (
	probeEvery = 100 * time.Millisecond
	probeLimit = 5 * time.Second
	// stopLimit is for a server that ends politely: it pauses what runs. A tool that
	// runs would hold it for longer, which is why sessions interrupt theirs first.
	stopLimit = 15 * time.Second
	killLimit = 2 * time.Second
	// userLook is how often the keeper looks whether there is still a session, and who has
	// left a conversation behind. A session that ends in order tells at once.
	userLook = time.Second
)

// Keeping is what Keep is given.
type Keeping struct {
	Dir     string
	Command []string        // an absolute path first
	Env     []string        // its own environment
	Hurry   <-chan struct{} // closed: kill
}

// Keep runs the server until ctx ends, the server does, or no session uses it any more,
// and then ends all that is below it. It is a process of its own, started by Open.
func Keep(ctx context.Context, k Keeping) error {
	if err := proc.Subreap(); err != nil { // tmux leaves its parents
		return fmt.Errorf("adopt orphans: %w", err)
	}
	self := proc.Self()
	r := record{Keeper: state.Keeper{PID: self.Pid, PIDStart: self.Started}, URL: readRecord(k.Dir).URL, Command: k.Command}
	ctx, leave := k.whileUsed(ctx)
	defer leave() // whoever is let in then reads what has become of us
	err := k.keep(ctx, &r)
	// The record stays, so that the next server listens where this one did.
	if err != nil {
		r.Error = err.Error()
	}
	return errors.Join(err, r.write(k.Dir))
}

func (r *record) write(dir string) error { return state.WriteVolatile(state.KeeperFile(dir), r) }

func (k *Keeping) keep(ctx context.Context, r *record) (err error) {
	secret, err := readSecret(k.Dir)
	if err != nil {
		return err
	}
	temp, err := makeTemp(k.Dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, state.RemoveTree(temp)) }()
	address, err := address(r.URL)
	if err != nil {
		return err
	}
	child, err := k.start(address, Environ(k.Env, k.Dir, temp, secret))
	if err != nil {
		return err
	}
	r.URL = "http://" + address
	if err = r.write(k.Dir); err == nil {
		err = k.serve(ctx, r, child, sessionKey(secret))
	}
	return errors.Join(err, k.end(child))
}

// serve sees the server to its end, or to where it is to be ended.
func (k *Keeping) serve(ctx context.Context, r *record, child *proc.Child, key string) (err error) {
	if r.Version, err = ready(ctx, r.URL, key, child.Done()); err != nil {
		if ctx.Err() != nil {
			return nil // nobody waits for it any more
		}
		return err
	}
	r.Ready = true
	if err := r.write(k.Dir); err != nil {
		return err
	}
	k.watch(ctx, child, r.URL, key)
	r.Ready = false // nobody is to join it any more, however long its end may take
	return r.write(k.Dir)
}

// watch returns when the server has ended, or is to end.
func (k *Keeping) watch(ctx context.Context, child *proc.Child, url, key string) {
	client := newClient()
	tick := time.NewTicker(userLook)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-child.Done():
			return
		case <-tick.C:
			k.interruptAbandoned(ctx, client, url, key)
		}
	}
}

// whileUsed returns a context that ends with ctx, or as soon as no session uses the
// server: then the others are kept out until leave, which also ends the looking. Where
// the lock cannot be asked, nobody is told to be gone, unless its folder is: nobody will
// ever come there.
func (k *Keeping) whileUsed(ctx context.Context) (used context.Context, leave func()) {
	used, cancel := context.WithCancel(ctx)
	var lock *state.Lock
	var looking sync.WaitGroup
	looking.Go(func() {
		defer cancel()
		tick := time.NewTicker(userLook)
		defer tick.Stop()
		for lock == nil {
			select {
			case <-used.Done():
				return
			case <-tick.C:
			}
			var err error
			lock, err = state.TryAcquire(usersLock(k.Dir)) // busy while there is one
			if errors.Is(err, fs.ErrNotExist) {
				return
			}
		}
	})
	return used, func() {
		cancel()
		looking.Wait()
		_ = lock.Release() // the end of the process does it too
	}
}

func (k *Keeping) start(address string, environ []string) (*proc.Child, error) {
	home := filepath.Join(k.Dir, "home")
	if err := state.MakeDir(home); err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("split %q: %v", address, err)
	}
	argv := append(append([]string{}, k.Command...), "--host", host, "--port", port)
	child, err := proc.Start(proc.Spec{Argv: argv, Dir: home, Env: environ, Stdout: os.Stdout, Stderr: os.Stderr, Session: true})
	if err != nil {
		return nil, fmt.Errorf("start %q: %w", k.Command[0], err)
	}
	return child, nil
}

// end ends the server, politely first, and what it has left.
func (k *Keeping) end(child *proc.Child) error {
	child.Stop(k.Hurry, child.Send(syscall.SIGTERM, stopLimit), child.Send(syscall.SIGKILL, killLimit))
	ctx, cancel := context.WithTimeout(context.Background(), killLimit)
	defer cancel()
	if _, err := proc.KillDescendants(ctx); err != nil {
		return fmt.Errorf("end what the agent-server left: %w", err)
	}
	return nil
}

// address is where the server before listened, if that port is free, so that its clients
// find the new one; else a port of this machine that nobody uses. Somebody may take it
// before the server does, which then ends at once.
func address(old string) (string, error) {
	l, err := net.Listen("tcp", strings.TrimPrefix(old, "http://"))
	if old == "" || err != nil {
		l, err = net.Listen("tcp", "127.0.0.1:0")
	}
	if err != nil {
		return "", fmt.Errorf("find a free port: %v", err)
	}
	return l.Addr().String(), l.Close()
}

// makeTemp makes the server's TMPDIR, whose name follows from its folder so that the
// next keeper clears up after a killed one. /tmp is everybody's: what is there and not
// ours stays.
func makeTemp(dir string) (string, error) {
	temp := state.TempDir("agent-server of " + dir)
	fi, err := os.Lstat(temp)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return "", fmt.Errorf("make the agent-server's TMPDIR: %w", err)
	default:
		if st, ok := fi.Sys().(*syscall.Stat_t); !ok || !fi.IsDir() || int(st.Uid) != os.Getuid() {
			return "", &state.Refusal{Path: temp, Reason: "is there already and not ours"}
		}
		if err := state.RemoveTree(temp); err != nil {
			return "", fmt.Errorf("clear the agent-server's TMPDIR: %w", err)
		}
	}
	if err := os.Mkdir(temp, 0o700); err != nil {
		return "", fmt.Errorf("make the agent-server's TMPDIR: %w", err)
	}
	return temp, nil
}

// ready waits until the server answers and takes our key, and returns its version. The
// port is closed while it computes. How long that may take is for the sessions to say
// that wait for it: they leave, and with the last one ctx ends.
func ready(ctx context.Context, url, key string, ended <-chan struct{}) (string, error) {
	client := newClient()
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		if status, _, err := ask(ctx, client, http.MethodGet, url+"/ready", ""); err == nil && status == http.StatusOK {
			break
		}
		select {
		case <-tick.C:
		case <-ended:
			return "", errors.New("the agent-server has ended before it was ready")
		case <-ctx.Done():
			return "", context.Cause(ctx)
		}
	}
	status, _, err := ask(ctx, client, http.MethodGet, url+"/api/conversations/count", key)
	if err != nil || status != http.StatusOK {
		return "", fmt.Errorf("the agent-server does not take its own session key (status %d): somebody else listens on its port", status)
	}
	_, body, err := ask(ctx, client, http.MethodGet, url+"/server_info", "")
	var info struct {
		Version string `json:"version"`
	}
	if err != nil || json.Unmarshal(body, &info) != nil {
		return "", errors.New("the agent-server does not tell its version")
	}
	return info.Version, nil
}

func newClient() *http.Client {
	return &http.Client{Timeout: probeLimit, Transport: &http.Transport{DisableKeepAlives: true}}
}

// ask makes one request without a body; an empty key is not sent.
func ask(ctx context.Context, client *http.Client, method, url, key string) (status int, body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return 0, nil, err
	}
	if key != "" {
		req.Header.Set("X-Session-API-Key", key)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	body, err = io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return resp.StatusCode, body, errors.Join(err, resp.Body.Close())
}
