package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// stat is what /proc/PID/stat tells of a process.
type stat struct {
	Process
	parent, group, session int
	dead                   bool // a zombie without a living thread

	exiting bool   // it runs no more, but may still hold its files and locks
	memory  bool   // a zombie and a thread of the kernel have none
	envEnd  string // the address where its environment ends; "0": it has none yet
}

// pfExiting is PF_EXITING of the kernel: the process is on its way out. It gives its
// memory back before its files.
const pfExiting = 0x4

func readStat(pid int) (stat, bool) {
	text, err := readProc(procPath(pid, "stat"))
	if err != nil {
		return stat{}, false
	}
	return parseStat(string(text))
}

// parseStat splits after the last parenthesis: a name may hold blanks and brackets.
func parseStat(text string) (stat, bool) {
	open, end := strings.IndexByte(text, '('), strings.LastIndexByte(text, ')')
	if open < 1 || end < open {
		return stat{}, false
	}
	const state, parent, group, session, flags, threads, start, memory, envEnd = 0, 1, 2, 3, 6, 17, 19, 20, 48
	f := strings.Fields(text[end+1:])
	if len(f) <= start {
		return stat{}, false
	}
	s := stat{Process: Process{Started: f[start], Name: text[open+1 : end]}}
	var alive int // threads
	for _, field := range []struct {
		text string
		to   *int
	}{
		{text[:open-1], &s.Pid}, {f[parent], &s.parent}, {f[group], &s.group},
		{f[session], &s.session}, {f[threads], &alive},
	} {
		n, err := strconv.Atoi(field.text)
		if err != nil {
			return stat{}, false
		}
		*field.to = n
	}
	bits, err := strconv.ParseUint(f[flags], 10, 64)
	if err != nil {
		return stat{}, false
	}
	s.exiting = bits&pfExiting != 0 && f[state] != "Z" && f[state] != "X"
	// A leader whose other threads go on is shown as Z too.
	s.dead = (f[state] == "Z" || f[state] == "X") && alive <= 1
	if len(f) > envEnd {
		s.memory, s.envEnd = f[memory] != "0", f[envEnd]
	}
	return s, true
}

func readTable() ([]stat, error) {
	var table []stat
	err := eachPid(func(pid int) {
		if s, ok := readStat(pid); ok {
			table = append(table, s)
		}
	})
	return table, err
}

// eachPid looks at every process. It lists them again until a list has none that it
// has not looked at: one that forks and ends all the time is gone before it is looked
// at, but its child is in the next list then. The bound is for a machine that starts
// processes faster than we can look.
func eachPid(look func(pid int)) error {
	const lists = 100
	seen := map[int]bool{}
	for range lists {
		pids, err := allPids()
		if err != nil {
			return err
		}
		fresh := slices.DeleteFunc(pids, func(pid int) bool { return seen[pid] })
		if len(fresh) == 0 {
			return nil
		}
		for _, pid := range fresh {
			seen[pid] = true
			look(pid)
		}
	}
	return nil
}

func allPids() ([]int, error) {
	names, err := dirNames("/proc")
	if err != nil {
		return nil, fmt.Errorf("read the process table: %w", err)
	}
	pids := make([]int, 0, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

func dirNames(path string) ([]string, error) {
	dir, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	return dir.Readdirnames(-1)
}

func procPath(pid int, name string) string { return "/proc/" + strconv.Itoa(pid) + "/" + name }

// readProc is os.ReadFile for many small files: without the poller it takes half the
// system calls, and a look at the table is mostly system calls.
func readProc(path string) ([]byte, error) {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	text := make([]byte, 0, 4096)
	for {
		n, err := unix.Read(fd, text[len(text):cap(text)])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case n <= 0 || err != nil:
			return text, err
		}
		if text = text[:len(text)+n]; len(text) == cap(text) {
			text = slices.Grow(text, len(text))
		}
	}
}

func startOf(pid int) string {
	s, _ := readStat(pid)
	return s.Started
}

func alive(pid int, started string) bool {
	s, ok := readStat(pid)
	return ok && !s.dead && s.Started == started
}

// environOf returns a lookup in the environment that pid was started with. Like
// getenv(3) it takes the first of several values.
func environOf(pid int) (func(string) string, bool) {
	block, err := readProc(procPath(pid, "environ"))
	if err != nil || len(block) == 0 {
		return nil, false
	}
	return func(name string) string {
		for entry := range bytes.SplitSeq(block, []byte{0}) {
			if k, v, ok := bytes.Cut(entry, []byte{'='}); ok && string(k) == name {
				return string(v)
			}
		}
		return ""
	}, true
}

// between tells whether pid, whose environment was just now found empty, is between
// two states. It may be in an exec: it has been given new memory and not yet its
// environment; that this is empty for good is sure only if the memory was the same
// before and after one more look. Or it is on its way out: its memory is gone, and what
// it holds, a lock of an agent, is not yet. A process that does not let us read gets no
// answer.
func between(pid int) bool {
	before, ok := readStat(pid)
	if ok && before.exiting {
		return true
	}
	if !ok || before.dead || !before.memory {
		return false
	}
	block, err := readProc(procPath(pid, "environ"))
	if err != nil {
		return false
	}
	after, ok := readStat(pid)
	return len(block) > 0 || before.envEnd == "0" || ok && after.envEnd != before.envEnd
}

func ownedBy(uid, pid int) bool {
	var st unix.Stat_t
	err := unix.Stat(procPath(pid, ""), &st)
	return err == nil && int(st.Uid) == uid
}
