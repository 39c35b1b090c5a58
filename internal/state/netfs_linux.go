package state

import "golang.org/x/sys/unix"

// networkFS names the file systems whose locks may not hold between machines.
var networkFS = map[int64]string{
	unix.NFS_SUPER_MAGIC:  "nfs",
	unix.SMB_SUPER_MAGIC:  "smb",
	unix.SMB2_SUPER_MAGIC: "smb2",
	unix.CIFS_SUPER_MAGIC: "cifs",
	unix.AFS_SUPER_MAGIC:  "afs",
	unix.CODA_SUPER_MAGIC: "coda",
	unix.CEPH_SUPER_MAGIC: "ceph",
}

// NetworkFS returns the name of the network file system that path lies on, or "".
func NetworkFS(path string) string {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return ""
	}
	return networkFS[int64(uint32(st.Type))]
}
