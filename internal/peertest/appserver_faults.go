package peertest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// pollInterval is how often wait looks for its file: short for a test, and cheap.
const pollInterval = 5 * time.Millisecond

// sendBig sends one frame of n bytes, its newline not counted. The smallest frame
// that can be made has some 40 bytes.
func (p *player) sendBig(n int) error {
	const head, tail = `{"method":"x/big","params":{"text":"`, `"}}`
	if err := p.write([]byte(head)); err != nil {
		return err
	}
	if err := fill(n-len(head)-len(tail), 'A', p.write); err != nil {
		return err
	}
	return p.write([]byte(tail + "\n"))
}

// writeNoise writes n bytes on stderr, as a server that logs without end.
func (p *player) writeNoise(n int) error {
	return fill(n, 'E', func(b []byte) error {
		_, err := p.env.Stderr.Write(b)
		return err
	})
}

func fill(n int, char byte, write func([]byte) error) error {
	block := bytes.Repeat([]byte{char}, 64<<10)
	for n > 0 {
		part := block[:min(n, len(block))]
		if err := write(part); err != nil {
			return err
		}
		n -= len(part)
	}
	return nil
}

// child starts a process that inherits the streams and is never waited for: to
// leave something behind is its purpose.
func (p *player) child(command string) error {
	cmd := exec.Command("sh", "-c", command)
	cmd.Dir, cmd.Env = p.env.Dir, p.env.Environ
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %q: %w", command, err)
	}
	return nil
}

func (p *player) closeStdout() error {
	c, ok := p.env.Stdout.(io.Closer)
	if !ok {
		return errors.New("stdout cannot be closed")
	}
	return c.Close()
}

func (p *player) create(name string) error {
	return os.WriteFile(p.path(name), nil, 0o600)
}

func (p *player) await(ctx context.Context, name string) error {
	path := p.path(name)
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		if _, err := os.Stat(path); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errSignal
		case <-tick.C:
		}
	}
}

func (p *player) path(name string) string {
	name = os.Expand(name, p.env.Getenv)
	if !filepath.IsAbs(name) {
		name = filepath.Join(p.env.Dir, name)
	}
	return name
}
