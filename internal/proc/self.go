package proc

import "os"

// Self returns this process, as others may name it to Alive and SignalTo. Its Name is
// not filled in.
func Self() Process { return Process{Pid: os.Getpid(), Started: startOf(os.Getpid())} }
