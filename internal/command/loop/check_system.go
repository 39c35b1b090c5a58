package loop

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/loop"
	"ostoolkit/internal/watch"
)

// listener tries the address that the workflow names, if any.
func (c *checker) listener(ctx context.Context) {
	address, token, err := (&options{}).listener(c.env, c.flow)
	if err == nil && address == "" {
		return
	}
	if err == nil {
		err = loop.CheckListen(ctx, address, token)
	}
	if err != nil {
		c.say("listen", cli.Status(err), "%v", err)
		return
	}
	c.say("listen", cli.StatusOK, "port %s of loopback is free", address)
}

// watches tries to have one file watched. A user may have few of the system's
// watchers, and each os-loop and each session takes some.
func (c *checker) watches() {
	degraded := ""
	w, err := watch.Open([]string{c.flow.Dir}, watch.Options{Warn: func(format string, args ...any) { degraded = fmt.Sprintf(format, args...) }})
	if err != nil {
		c.say("watches", cli.StatusState, "%v", err)
		return
	}
	w.Close()
	if degraded != "" {
		c.warn("watches", "%s%s", degraded, inotifyLimits())
		return
	}
	c.say("watches", cli.StatusOK, "changes are seen at once%s", inotifyLimits())
}

// inotifyLimits are the kernel's, in words, where it has such ones.
func inotifyLimits() string {
	var known []string
	for _, name := range []string{"max_user_instances", "max_user_watches"} {
		if text, err := os.ReadFile(filepath.Join("/proc/sys/fs/inotify", name)); err == nil {
			known = append(known, "fs.inotify."+name+" is "+strings.TrimSpace(string(text)))
		}
	}
	if len(known) == 0 {
		return ""
	}
	return " (" + strings.Join(known, ", ") + ")"
}

// clock looks for one that is not set: due times, holds and certificates depend on it.
func (c *checker) clock() {
	now := c.env.Now().UTC()
	if now.Year() < 2026 { // over before this program was written
		c.say("clock", cli.StatusFailed, "it is not set: %s", now.Format(time.RFC3339))
		return
	}
	if info, err := os.Stat(c.flow.Path); err == nil && info.ModTime().Sub(now) > time.Minute {
		c.warn("clock", "%s is behind the time at which the workflow was written, %s", now.Format(time.RFC3339),
			info.ModTime().UTC().Format(time.RFC3339))
		return
	}
	c.say("clock", cli.StatusOK, "%s", now.Format(time.RFC3339))
}
