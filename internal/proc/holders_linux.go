package proc

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/unix"
)

// fileID tells files apart whatever name they were opened by.
type fileID struct{ dev, ino uint64 }

func fileIDOf(path string) (fileID, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return fileID{}, err
	}
	return fileID{uint64(st.Dev), st.Ino}, nil
}

func holdersOf(paths []string) (map[string][]Process, error) {
	wanted := map[fileID][]string{}
	for _, path := range paths {
		switch id, err := fileIDOf(path); {
		case err == nil:
			wanted[id] = append(wanted[id], path)
		case !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR):
			return nil, fmt.Errorf("look for holders of %q: %w", path, err)
		}
	}
	held := map[string][]Process{}
	if len(wanted) == 0 {
		return held, nil
	}
	pids, err := allPids()
	if err != nil {
		return nil, err
	}
	for _, pid := range pids {
		addLocks(held, pid, wanted)
	}
	return held, nil
}

// addLocks adds pid to the holders of each wanted file that it has locked. A process
// that ends meanwhile, or is not ours to look at, holds nothing.
func addLocks(held map[string][]Process, pid int, wanted map[fileID][]string) {
	locked := lockedBy(pid, wanted)
	if len(locked) == 0 {
		return
	}
	s, ok := readStat(pid)
	if !ok || s.dead {
		return
	}
	for id := range locked {
		for _, path := range wanted[id] {
			held[path] = append(held[path], s.Process)
		}
	}
}

func lockedBy(pid int, wanted map[fileID][]string) map[fileID]bool {
	folder := procPath(pid, "fd")
	fds, err := dirNames(folder)
	if err != nil {
		return nil
	}
	locked := map[fileID]bool{}
	for _, fd := range fds {
		id, err := fileIDOf(folder + "/" + fd)
		if err == nil && len(wanted[id]) > 0 && hasFlock(pid, fd) {
			locked[id] = true
		}
	}
	return locked
}

// hasFlock reads the lock lines of one descriptor. /proc/locks would not do: in a pid
// namespace it hides a lock whose taker has died.
func hasFlock(pid int, fd string) bool {
	text, err := readProc(procPath(pid, "fdinfo/"+fd))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "lock:"); ok && strings.Contains(rest, " FLOCK ") {
			return true
		}
	}
	return false
}
