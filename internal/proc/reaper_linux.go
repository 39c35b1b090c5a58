package proc

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

func becomeSubreaper() (bool, error) {
	return true, unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
}

// collect waits for the child's end and leaves it a zombie until its group is buried:
// so long the kernel gives its id to nobody else, and a signal cannot go astray.
func (c *Child) collect(p *os.Process) (*os.ProcessState, error) {
	for errors.Is(unix.Waitid(unix.P_PID, c.pid, nil, unix.WEXITED|unix.WNOWAIT, nil), unix.EINTR) {
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.buryGroup()
	return p.Wait()
}

// ownChildren returns the pids of our children. It may miss one while others end,
// which the next look makes good.
func ownChildren() []int {
	lists, _ := filepath.Glob("/proc/self/task/*/children")
	if len(lists) == 0 { // a kernel without CONFIG_PROC_CHILDREN
		return childrenByTable(os.Getpid())
	}
	var pids []int
	for _, name := range lists {
		text, err := os.ReadFile(name)
		if err != nil {
			continue // the thread has ended
		}
		for _, field := range strings.Fields(string(text)) {
			if pid, err := strconv.Atoi(field); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

func childrenByTable(parent int) []int {
	table, err := readTable()
	if err != nil {
		return nil
	}
	var pids []int
	for _, s := range table {
		if s.parent == parent {
			pids = append(pids, s.Pid)
		}
	}
	return pids
}
