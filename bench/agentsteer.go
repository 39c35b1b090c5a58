package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
)

// steerScript lets a run go on until the file "end" is there.
const steerScript = "run *\nwait end\nsay done\n"

// steerAgent starts an os-openhands whose turn lasts until it is told to end.
func (r *rig) steerAgent(ctx context.Context) (*steered, error) {
	pipe := r.path("oh-steer.pipe")
	s, err := newSteered(pipe)
	if err != nil {
		return nil, err
	}
	server, err := r.startAgent(ctx, steerScript, pipe)
	if err != nil {
		return nil, err
	}
	open := func(ctx context.Context) (*exec.Cmd, func() error, error) {
		cmd, tidy, err := r.agentSession(ctx, server)
		if err != nil {
			return nil, nil, errors.Join(err, server.close())
		}
		return cmd, func() error { return errors.Join(tidy(), server.close()) }, nil
	}
	err = s.begin(ctx, r, open, func(context.Context) error { return os.WriteFile(r.path("end"), nil, 0o600) })
	return s, err
}

// steerAgentPoller starts a loop that looks into a folder now and then, for a run of its
// own.
func (r *rig) steerAgentPoller(ctx context.Context) (*steered, error) {
	pipe := r.path("oh-polled.pipe")
	s, err := newSteered(pipe)
	if err != nil {
		return nil, err
	}
	s.box = r.path("oh-polled")
	if err := os.Mkdir(s.box, 0o700); err != nil {
		return nil, err
	}
	server, err := r.startAgent(ctx, steerScript, pipe)
	if err != nil {
		return nil, err
	}
	c := newRestClient(server.url)
	if err := c.create(ctx, r.dir); err != nil {
		return nil, errors.Join(err, server.close())
	}
	s.poll(func(text string) error { return c.say(ctx, text, true) }, server.close)
	return s, nil
}
