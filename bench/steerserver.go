package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/peertest"
)

// steerServer is the verb that makes this program an app-server which tells, on the
// pipe that is its argument, of each text as it arrives.
const steerServer = "steerserver"

func steerServerMain(env *cli.Env) int {
	return cli.Main("bench "+steerServer, env, func(ctx context.Context, env *cli.Env) error {
		if len(env.Args) != 1 {
			return cli.Usagef("the pipe is missing")
		}
		pipe, err := os.OpenFile(env.Args[0], os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		defer func() { _ = pipe.Close() }() // what is not there is missed at the other end
		return peertest.ServeLive(ctx, env, peertest.LiveOptions{Arrived: func(frame []byte) { tell(pipe, frame) }})
	})
}

// tell writes "TEXT NANOSECONDS" for a text that is steered in, and the method in place of
// the text for the begin of a turn. The time is taken before all else.
func tell(pipe io.Writer, frame []byte) {
	at, err := monotonic()
	if err != nil {
		return // the other end misses the text and says so
	}
	var f struct {
		Method string `json:"method"`
		Params struct {
			Input []struct {
				Text string `json:"text"`
			} `json:"input"`
		} `json:"params"`
	}
	if json.Unmarshal(frame, &f) != nil {
		return
	}
	switch {
	case f.Method == "turn/start":
		_, _ = fmt.Fprintf(pipe, "%s %d\n", f.Method, at) // as above
	case f.Method == "turn/steer" && len(f.Params.Input) == 1:
		_, _ = fmt.Fprintf(pipe, "%s %d\n", f.Params.Input[0].Text, at)
	}
}

// monotonic is the time of a clock that all processes share and nobody sets.
func monotonic() (time.Duration, error) {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now); err != nil {
		return 0, fmt.Errorf("read the clock: %w", err)
	}
	return time.Duration(now.Nano()), nil
}
