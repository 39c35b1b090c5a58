package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/peertest"
)

// agentServer is the verb that makes this program an OpenHands agent-server which does
// what its first argument, a script of peertest, says. It prints its address and ends
// with its stdin. On the pipe that is its second argument, if any, it tells of each text
// as it arrives.
const agentServer = "agentserver"

func agentServerMain(env *cli.Env) int {
	return cli.Main("bench "+agentServer, env, serveAgent)
}

func serveAgent(ctx context.Context, env *cli.Env) (err error) {
	if len(env.Args) < 1 || len(env.Args) > 2 {
		return cli.Usagef("the script is missing")
	}
	script, err := os.ReadFile(env.Args[0])
	if err != nil {
		return err
	}
	o := peertest.OpenHandsOptions{Script: string(script), Dir: filepath.Dir(env.Args[0]), Now: time.Now}
	if len(env.Args) == 2 {
		pipe, err := os.OpenFile(env.Args[1], os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		defer func() { _ = pipe.Close() }() // what is not there is missed at the other end
		o.Log = &arrivals{pipe}
	}
	server, err := peertest.StartOpenHands(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	if _, err := fmt.Fprintln(env.Stdout, server.URL()); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() { // ends with stdin, or with the process
		defer close(ended)
		_, _ = io.Copy(io.Discard, env.Stdin) // an error is an end as well
	}()
	select {
	case <-ended:
	case <-ctx.Done():
	}
	return nil
}

// arrivals is a log of the stand-in, which writes each request down before it does
// anything about it. It tells of the texts that are sent into a run, and of the begin of
// one, as tell does for an app-server.
type arrivals struct{ pipe io.Writer }

func (a *arrivals) Write(line []byte) (int, error) {
	at, err := monotonic()
	if err != nil {
		return 0, err
	}
	var r struct {
		Method, Path string
		Body         struct {
			Run     bool
			Content []struct{ Text string }
		}
	}
	if err := json.Unmarshal(line, &r); err != nil {
		return 0, err
	}
	switch {
	case r.Method != "POST":
	case strings.HasSuffix(r.Path, "/run"):
		_, err = fmt.Fprintf(a.pipe, "run %d\n", at)
	case strings.HasSuffix(r.Path, "/events") && r.Body.Run && len(r.Body.Content) == 1:
		_, err = fmt.Fprintf(a.pipe, "%s %d\n", r.Body.Content[0].Text, at)
	}
	return len(line), err
}

// agent is an agent-server that runs.
type agent struct {
	url   string
	model string       // where the model is asked; "": nowhere
	close func() error // ends the server and waits for it
}

// startAgent starts a stand-in in a process of its own: what it holds must not count for
// the children of this one (see measures).
func (r *rig) startAgent(ctx context.Context, script string, args ...string) (*agent, error) {
	file, err := os.CreateTemp(r.dir, "agent-*.oh")
	if err != nil {
		return nil, err
	}
	_, err = file.WriteString(script)
	if err := errors.Join(err, file.Close()); err != nil {
		return nil, err
	}
	cmd := r.command(ctx, r.self, append([]string{agentServer, file.Name()}, args...)...)
	var said bytes.Buffer
	cmd.Stderr = &said
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	a := &agent{close: func() error {
		err := in.Close()
		if waitErr := cmd.Wait(); waitErr != nil {
			err = errors.Join(err, fmt.Errorf("agent-server: %w: %s", waitErr, bytes.TrimSpace(said.Bytes())))
		}
		return err
	}}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("read the agent-server's address: %w", err), a.close())
	}
	a.url = strings.TrimSpace(line)
	return a, nil
}
