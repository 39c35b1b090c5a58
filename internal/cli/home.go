package cli

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
)

// Home returns the user's home folder: HOME, or the passwd entry where cron or
// launchd left HOME unset. A literal "~" is never a home.
func (e *Env) Home() (string, error) {
	if home := e.Getenv("HOME"); filepath.IsAbs(home) {
		return home, nil
	}
	u, err := user.LookupId(strconv.Itoa(os.Getuid()))
	if err != nil || !filepath.IsAbs(u.HomeDir) {
		return "", fmt.Errorf("HOME is not set and uid %d has no home in the passwd database", os.Getuid())
	}
	return u.HomeDir, nil
}
