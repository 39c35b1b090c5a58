//go:build !linux

package state

import (
	"golang.org/x/sys/unix"
)

// NetworkFS returns the name of the network file system that path lies on, or "".
func NetworkFS(path string) string {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil || st.Flags&unix.MNT_LOCAL != 0 {
		return ""
	}
	return "network"
}
