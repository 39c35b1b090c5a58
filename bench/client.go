package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
)

// bareSession is the least that a client of the app-server does: it opens a thread,
// has one turn made, and lets the server go once that is completed.
func bareSession(server *exec.Cmd, cwd string) error {
	in, err := server.StdinPipe()
	if err != nil {
		return err
	}
	out, err := server.StdoutPipe()
	if err != nil {
		return err
	}
	if err := server.Start(); err != nil {
		return err
	}
	c := &client{in, bufio.NewReaderSize(out, 64<<10)}
	turnErr := c.turn(cwd)
	closeErr := in.Close()
	_, drainErr := io.Copy(io.Discard, c.out) // Wait must not close it under a reader
	return errors.Join(turnErr, closeErr, drainErr, server.Wait())
}

type client struct {
	in  io.Writer
	out *bufio.Reader
}

// reply is what the client reads of a frame.
type reply struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Error  json.RawMessage `json:"error"`
	Result struct {
		Thread struct {
			ID string `json:"id"`
		} `json:"thread"`
	} `json:"result"`
	Params struct {
		Turn struct {
			Status string `json:"status"`
		} `json:"turn"`
	} `json:"params"`
}

func (c *client) turn(cwd string) error {
	hello := map[string]any{"clientInfo": map[string]string{"name": "bench", "version": "1"}, "capabilities": map[string]bool{"experimentalApi": true}}
	if _, err := c.call(1, "initialize", hello); err != nil {
		return err
	}
	if err := c.send(map[string]string{"method": "initialized"}); err != nil {
		return err
	}
	opened, err := c.call(2, "thread/start", map[string]string{"cwd": cwd, "approvalPolicy": "never", "sandbox": "workspace-write"})
	if err != nil {
		return err
	}
	input := []map[string]string{{"type": "text", "text": "say hello"}}
	if _, err := c.call(3, "turn/start", map[string]any{"threadId": opened.Result.Thread.ID, "input": input}); err != nil {
		return err
	}
	end, err := c.await(func(r *reply) bool { return r.Method == "turn/completed" })
	if err == nil && end.Params.Turn.Status != "completed" {
		err = fmt.Errorf("the turn ended as %q", end.Params.Turn.Status)
	}
	return err
}

func (c *client) call(id int, method string, params any) (*reply, error) {
	if err := c.send(map[string]any{"id": id, "method": method, "params": params}); err != nil {
		return nil, err
	}
	r, err := c.await(func(r *reply) bool { return r.Method == "" && string(r.ID) == fmt.Sprint(id) })
	if err == nil && r.Error != nil {
		err = fmt.Errorf("%s: %s", method, r.Error)
	}
	return r, err
}

func (c *client) send(frame any) error {
	line, err := json.Marshal(frame)
	if err != nil {
		return err
	}
	_, err = c.in.Write(append(line, '\n'))
	return err
}

// await reads up to the frame that is wanted.
func (c *client) await(wanted func(*reply) bool) (*reply, error) {
	for {
		line, err := c.out.ReadBytes('\n')
		if err != nil {
			return nil, fmt.Errorf("read a frame: %w", err)
		}
		var r reply
		if err := json.Unmarshal(line, &r); err != nil {
			return nil, fmt.Errorf("decode a frame: %w", err)
		}
		if wanted(&r) {
			return &r, nil
		}
	}
}
