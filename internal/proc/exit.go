package proc

import (
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Exit is how a child ended: by a status or by a signal.
type Exit struct {
	Code   int            // the exit status; -1 after a signal, or where it is not known
	Signal syscall.Signal // 0 where it ended by itself
}

func exitOf(state *os.ProcessState, err error) Exit {
	if err != nil {
		return Exit{Code: -1}
	}
	ws := state.Sys().(syscall.WaitStatus)
	if ws.Signaled() {
		return Exit{Code: -1, Signal: ws.Signal()}
	}
	return Exit{Code: ws.ExitStatus()}
}

// Success tells whether the child ended with status 0.
func (e Exit) Success() bool { return e.Code == 0 }

// Status returns the exit status as a shell has it: 128+n for signal n, 1 where it
// is not known.
func (e Exit) Status() int {
	switch {
	case e.Signal != 0:
		return 128 + int(e.Signal)
	case e.Code < 0:
		return 1
	default:
		return e.Code
	}
}

func (e Exit) String() string {
	switch {
	case e.Signal != 0:
		return "signal " + unix.SignalName(e.Signal)
	case e.Code < 0:
		return "exit status unknown"
	default:
		return fmt.Sprintf("exit status %d", e.Code)
	}
}
