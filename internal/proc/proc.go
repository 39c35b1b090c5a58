// Package proc is the only place that starts and reaps children. It also finds and
// ends the processes that a child leaves behind: by group, by descent and by
// environment.
//
// It knows no records, hooks or agents, copies no streams (a child gets files) and
// looks nothing up in our own environment: that of a child is what its Spec says.
//
// Everything here is safe for concurrent use. After Subreap no other package may
// start a process, since the reaper could not tell it from an adopted orphan.
//
// Linux has all of it (kernel 5.3 or later, for pidfd). macOS has groups only: there
// KillDescendants ends the groups of known children and Sweep finds nothing.
package proc

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
)

// Spec says what to start. Start keeps none of the files: the caller closes its own
// copies of the child's ends once Start has returned, or the child's pipes never end.
type Spec struct {
	Argv []string // Argv[0] is found by LookPath in Dir and the PATH of Env
	Dir  string   // "": our own working directory
	Env  []string // KEY=value; nil is an empty environment, never our own

	Stdin, Stdout, Stderr *os.File   // nil: /dev/null
	Extra                 []*os.File // descriptors 3, 4, …

	// Session starts the child in a session of its own instead of only a group of its
	// own, so that it has no terminal and outlives ours.
	Session bool
	// Leave keeps what is left of the group when its leader ends. Without it the rest
	// is killed at that moment, before the leader's id can be given to another process.
	Leave bool
}

// Child is a started process, the leader of its group. It is reaped without anybody
// having to wait for it.
type Child struct {
	pid     int
	started string
	leave   bool

	mu     sync.Mutex // orders signals before the reaping, after which the pid is not ours
	reaped bool

	exit Exit // written before done is closed
	done chan struct{}
}

// Start starts a child. A program that is not there or may not be run is an error
// that matches fs.ErrNotExist or fs.ErrPermission; a missing Dir matches neither.
func Start(s Spec) (*Child, error) {
	if len(s.Argv) == 0 {
		return nil, errors.New("start a program: the command is empty")
	}
	if s.Dir != "" {
		if _, err := os.Stat(s.Dir); err != nil {
			return nil, fmt.Errorf("start %q: %v", s.Argv[0], err)
		}
	}
	path, err := LookPath(s.Argv[0], s.Dir, func(name string) string { return lookup(s.Env, name) })
	if err != nil {
		return nil, err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("start %q: %w", s.Argv[0], err)
	}
	defer null.Close()
	return children.start(path, s, null)
}

func (s *Spec) attr(null *os.File) *os.ProcAttr {
	files := append([]*os.File{s.Stdin, s.Stdout, s.Stderr}, s.Extra...)
	for i, f := range files[:3] {
		if f == nil {
			files[i] = null
		}
	}
	return &os.ProcAttr{
		Dir:   s.Dir,
		Env:   append([]string{}, s.Env...), // a nil Env would stand for our own
		Files: files,
		Sys:   &syscall.SysProcAttr{Setsid: s.Session, Setpgid: !s.Session},
	}
}

// lookup returns the last value of name, as the environment of a child is made.
func lookup(environ []string, name string) string {
	for i := len(environ) - 1; i >= 0; i-- {
		if k, v, ok := strings.Cut(environ[i], "="); ok && k == name {
			return v
		}
	}
	return ""
}

// Pid returns the child's process id, which is its group's id too.
func (c *Child) Pid() int { return c.pid }

// Started returns when the child was started, as a text that together with the pid
// names this process and no other since boot.
func (c *Child) Started() string { return c.started }

// Done is closed when the child has ended and was reaped.
func (c *Child) Done() <-chan struct{} { return c.done }

// Exit returns how the child ended. It may be called once Done is closed.
func (c *Child) Exit() Exit { return c.exit }

// Signal sends sig to the child's group. Once the child was reaped it does nothing.
func (c *Child) Signal(sig syscall.Signal) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.reaped {
		return nil
	}
	if err := c.killGroup(sig); err != nil {
		return fmt.Errorf("signal process group %d: %w", c.pid, err)
	}
	return nil
}

func (c *Child) killGroup(sig syscall.Signal) error {
	if err := syscall.Kill(-c.pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return err
	}
	return nil
}

// await is the goroutine that owns the child's end. It closes done as its last act.
func (c *Child) await(p *os.Process) {
	defer close(c.done)
	state, err := c.collect(p)
	c.exit = exitOf(state, err)
	children.forget(c)
}

// buryGroup ends what is left of the group. The caller holds c.mu.
func (c *Child) buryGroup() {
	c.reaped = true
	if !c.leave {
		// Only a member that changed its user can refuse, and it is not ours to end.
		_ = c.killGroup(syscall.SIGKILL)
	}
}
