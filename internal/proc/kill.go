package proc

import (
	"context"
	"time"
)

// Process names one process, also after its pid was given to another.
type Process struct {
	Pid     int    // 0 where the system does not tell
	Started string // as Child.Started
	Name    string // the program's short name, for messages
}

// Alive tells whether the process with that pid and start text still runs. A zombie
// does not.
func Alive(pid int, started string) bool { return alive(pid, started) }

// KillDescendants kills every process below this one, also those in sessions of their
// own, and returns them once they are gone. Orphans are found only after Subreap.
// The processes in except are left alone with all that is below them, and so are the
// children that were there before the first Subreap: a shell may start some and then
// exec us, as for a redirection into another command.
//
// It looks again until there is none, since a process may fork while it is being
// killed; ctx bounds that. One that cannot be killed is part of the error, and the
// others are ended all the same.
func KillDescendants(ctx context.Context, except ...int) ([]Process, error) {
	defer children.reap()
	return killDescendants(ctx, except)
}

// Sweep kills every process of our user, apart from ourselves and those that we descend
// from, whose environment matches, and returns them once they are gone. match gets a lookup in the environment
// that the process was started with; it is asked twice, the second time when the
// process can no longer be mistaken for another, and must not keep the lookup.
//
// It looks again until a look finds none; ctx bounds that. A process whose environment
// cannot be read is passed over. Between fork and exec a child shows the environment
// of its parent.
func Sweep(ctx context.Context, match func(env func(string) string) bool) ([]Process, error) {
	defer children.reap()
	return sweep(ctx, match)
}

// Inside tells whether a process that we descend from matches, as for Sweep, which
// would spare it.
func Inside(match func(env func(string) string) bool) bool { return inside(match) }

// KillGroup kills what a child left of its group, and of its session if it has one,
// and returns what had to be killed once that is gone. Those who have been told to end
// get grace to do so first. It is for children with Leave, after Done.
//
// The id of a group is not given away while it has a member.
func (c *Child) KillGroup(ctx context.Context, grace time.Duration) ([]Process, error) {
	defer children.reap()
	return c.killLeft(ctx, grace)
}

// Holders returns the processes that have the file open and hold a flock on it. See
// HoldersOf.
func Holders(path string) ([]Process, error) {
	all, err := HoldersOf([]string{path})
	return all[path], err
}

// HoldersOf looks once for the holders of several files. A lock belongs to the open
// file, not to a process: everybody who inherited it is a holder, also when the process
// that took it has died. A file that does not exist has none. Processes of other users
// are not seen. On macOS a holder has no Pid.
func HoldersOf(paths []string) (map[string][]Process, error) { return holdersOf(paths) }
