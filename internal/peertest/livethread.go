package peertest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"ostoolkit/internal/cli"
)

// liveThread is what a live server remembers: a file with a line "TURN CLIENT_ID" for
// each text that was read. The file is locked as long as its server lives, so that a
// second server of one thread is found out. The zero value remembers nothing.
type liveThread struct {
	id      string
	file    *os.File
	entries []members // as thread/items/list shows them
}

// LiveOverlap is the file in the folder of threads that tells of a thread which two
// servers had at once.
const LiveOverlap = "overlap"

func createLiveThread(dir, id string) (*liveThread, error) {
	t := &liveThread{id: id, entries: []members{}}
	if dir == "" {
		return t, nil
	}
	f, err := os.OpenFile(filepath.Join(dir, id+".thread"), os.O_CREATE|os.O_EXCL|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make a thread: %w", err)
	}
	if err := lockLiveThread(f); err != nil {
		return nil, err
	}
	t.file = f
	return t, nil
}

// openLiveThread resumes a thread. Its errors are in the words of the real server.
func openLiveThread(dir, id string) (*liveThread, error) {
	f, err := os.OpenFile(filepath.Join(dir, id+".thread"), os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("no rollout found for thread id %s", id)
	}
	if err := lockLiveThread(f); err != nil {
		return nil, errors.Join(err, os.WriteFile(filepath.Join(dir, LiveOverlap), []byte(id+"\n"), 0o600))
	}
	t := &liveThread{id: id, file: f, entries: []members{}}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		turn, client, ok := strings.Cut(lines.Text(), " ")
		if ok {
			item := members{"type": "userMessage", "id": fmt.Sprintf("old_%d", len(t.entries)), "clientId": client}
			t.entries = append(t.entries, members{"turnId": turn, "item": item})
		}
	}
	return t, nil
}

func lockLiveThread(f *os.File) error {
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return errors.Join(fmt.Errorf("thread already has an active writer: %w", err), f.Close())
	}
	return nil
}

// add keeps a text that was read.
func (t *liveThread) add(turn, client string, item members) error {
	t.entries = append(t.entries, members{"turnId": turn, "item": item})
	if t.file == nil {
		return nil
	}
	if _, err := t.file.WriteString(turn + " " + client + "\n"); err != nil {
		return fmt.Errorf("keep a text: %w", err)
	}
	return nil
}

func (t *liveThread) close() error {
	if t.file == nil {
		return nil
	}
	return t.file.Close()
}

// LiveMain runs `live TURN LAG THREADS`, a live server as a program: two durations and
// a folder. It returns its exit status.
func LiveMain(env *cli.Env) int {
	return cli.Main("live", env, func(ctx context.Context, env *cli.Env) error {
		if len(env.Args) != 3 {
			return cli.Usagef("usage: live TURN LAG THREADS")
		}
		turn, turnErr := time.ParseDuration(env.Args[0])
		lag, lagErr := time.ParseDuration(env.Args[1])
		if err := errors.Join(turnErr, lagErr); err != nil {
			return cli.Usagef("%v", err)
		}
		return ServeLive(ctx, env, LiveOptions{Turn: turn, Lag: lag, Threads: env.Args[2]})
	})
}
