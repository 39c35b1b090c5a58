package proc

import (
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"
)

// reapInterval is how long a dead orphan may stay a zombie while children run. A
// ticker, since SIGCHLD belongs to internal/cli and a look costs a few small reads.
const reapInterval = time.Second

// children mirrors what the kernel keeps once a process, so there can be only one.
var children = registry{known: map[int]*Child{}}

// registry knows the children that Start made, so that the reaper takes only others.
type registry struct {
	mu        sync.Mutex // held over a whole start: no child is seen before it is known
	known     map[int]*Child
	subreaper bool
	foreign   []Process // children that others started before they made us of themselves
	ticker    *ticker   // not nil exactly while a subreaper has known children
}

// ticker is the goroutine that reaps orphans while children run.
type ticker struct{ quit, gone chan struct{} }

func (r *registry) start(path string, s Spec, null *os.File) (*Child, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, err := os.StartProcess(path, s.Argv, s.attr(null))
	if err != nil {
		return nil, fmt.Errorf("start %q: %w", s.Argv[0], err)
	}
	c := &Child{pid: p.Pid, started: startOf(p.Pid), leave: s.Leave, done: make(chan struct{})}
	r.known[c.pid] = c
	r.tick()
	go c.await(p)
	return c, nil
}

// tick starts the ticker where one is wanted. The caller holds r.mu.
func (r *registry) tick() {
	if !r.subreaper || r.ticker != nil || len(r.known) == 0 {
		return
	}
	r.ticker = &ticker{make(chan struct{}), make(chan struct{})}
	go r.reapEvery(reapInterval, r.ticker)
}

func (r *registry) reapEvery(interval time.Duration, t *ticker) {
	defer close(t.gone)
	clock := time.NewTicker(interval)
	defer clock.Stop()
	for {
		select {
		case <-t.quit:
			return
		case <-clock.C:
			r.reap()
		}
	}
}

// forget takes a reaped child out. The last one ends the ticker and waits for it.
func (r *registry) forget(c *Child) {
	r.mu.Lock()
	if r.known[c.pid] == c { // else a newer child has got the pid already
		delete(r.known, c.pid)
	}
	r.reapOrphans()
	var idle *ticker
	if len(r.known) == 0 {
		idle, r.ticker = r.ticker, nil
	}
	r.mu.Unlock()
	if idle != nil {
		close(idle.quit)
		<-idle.gone
	}
}

func (r *registry) reap() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reapOrphans()
}

// reapOrphans reaps each dead child that Start did not make, by its own pid: a wait
// for any child would steal the exit status of a known one. The caller holds r.mu.
func (r *registry) reapOrphans() {
	if !r.subreaper {
		return
	}
	for _, pid := range ownChildren() {
		if r.known[pid] == nil {
			// Most are alive, which is no error; one that is gone needs no reaping.
			_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
		}
	}
}

// Subreap makes this process the parent of every descendant whose own parent dies, so
// that KillDescendants finds it, and reaps those that end: whenever a child ends, in
// KillDescendants and once a second while a child runs. It does nothing on macOS.
func Subreap() error {
	adopts, err := becomeSubreaper()
	if err != nil {
		return fmt.Errorf("adopt orphans: %w", err)
	}
	children.mu.Lock()
	defer children.mu.Unlock()
	if adopts && !children.subreaper {
		children.foreign = children.unknown()
	}
	children.subreaper = adopts
	children.tick()
	return nil
}

// unknown returns our children that Start did not make. The caller holds r.mu.
func (r *registry) unknown() []Process {
	var found []Process
	for _, pid := range ownChildren() {
		if r.known[pid] == nil {
			found = append(found, Process{Pid: pid, Started: startOf(pid)})
		}
	}
	return found
}

// strangers returns the pids of those foreign children that are still there.
func (r *registry) strangers() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	var pids []int
	for _, p := range r.foreign {
		if startOf(p.Pid) == p.Started {
			pids = append(pids, p.Pid)
		}
	}
	return pids
}
