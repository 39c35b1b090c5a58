package ostoolkit_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// process is one that a script has started, by whatever detour.
type process struct {
	pid     int
	command string
	mine    func(pid int) bool
}

// kill ends the process, unless its pid is somebody else's by now.
func (p process) kill() {
	if p.mine(p.pid) {
		_ = syscall.Kill(p.pid, syscall.SIGKILL) // it may end by itself in between
	}
}

// leftovers returns the processes of a script that are still there after limit.
// A process is the script's if its environment bears the script's id or home, or
// if it stands below $WORK: a hook or a sandbox may drop one of them.
func leftovers(work, id string, limit time.Duration, except ...int) []process {
	marks := [][]byte{
		[]byte("\x00" + testIDVar + "=" + id + "\x00"),
		[]byte("\x00HOME=" + filepath.Join(work, "home") + "\x00"),
	}
	mine := func(pid int) bool {
		return pid != os.Getpid() && !slices.Contains(except, pid) && belongs(pid, work, marks)
	}
	var left []process
	eventually(limit, func() bool {
		left = scan(mine)
		return len(left) == 0
	})
	return left
}

func belongs(pid int, work string, marks [][]byte) bool {
	proc := fmt.Sprintf("/proc/%d/", pid)
	environ, err := os.ReadFile(proc + "environ")
	if err != nil || len(environ) == 0 {
		return false // gone, a zombie, or another user's
	}
	environ = append([]byte{0}, environ...)
	for _, mark := range marks {
		if bytes.Contains(environ, mark) {
			return true
		}
	}
	if bytes.Contains(environ, []byte("\x00"+peerVar+"="+sharedID()+"\x00")) {
		return false // a terminal of the agent-server that other scripts use too
	}
	cwd, err := os.Readlink(proc + "cwd")
	return err == nil && (cwd == work || strings.HasPrefix(cwd, work+"/"))
}

func scan(mine func(pid int) bool) []process {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var found []process
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || !mine(pid) {
			continue
		}
		command, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline") // for the message only
		found = append(found, process{pid, string(bytes.ReplaceAll(command, []byte{0}, []byte(" "))), mine})
	}
	return found
}

func list(left []process) string {
	var b strings.Builder
	for _, p := range left {
		fmt.Fprintf(&b, "\n\t%d %.300s", p.pid, p.command)
	}
	return b.String()
}
