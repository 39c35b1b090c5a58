package cli

import (
	"io"
	"syscall"

	"golang.org/x/sys/unix"
)

// ReaderGone reports whether w is a pipe or a socket that nobody reads any more.
func ReaderGone(w io.Writer) bool {
	f, ok := w.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return false
	}
	gone := false
	err = raw.Control(func(fd uintptr) {
		ask := []unix.PollFd{{Fd: int32(fd)}}
		n, err := unix.Poll(ask, 0)
		gone = err == nil && n == 1 && ask[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0
	})
	return err == nil && gone
}
