package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// LookPath finds the program name for a child that works in dir. A name with a slash
// is relative to dir; any other is searched in the PATH that getenv returns, where
// relative entries are passed over: they would name files that an agent can write.
// The error matches fs.ErrNotExist or fs.ErrPermission and says where was searched.
func LookPath(name, dir string, getenv func(string) string) (string, error) {
	if strings.Contains(name, "/") {
		return lookIn(dir, name)
	}
	path := getenv("PATH")
	problem := fs.ErrNotExist
	for _, entry := range filepath.SplitList(path) {
		if name == "" || !filepath.IsAbs(entry) {
			continue
		}
		file := filepath.Join(entry, name)
		err := runnable(file)
		if err == nil {
			return file, nil
		}
		if errors.Is(err, fs.ErrPermission) {
			problem = fs.ErrPermission // worth more than "not found" elsewhere
		}
	}
	return "", fmt.Errorf("find program %q in PATH %q: %w", name, path, problem)
}

func lookIn(dir, name string) (string, error) {
	file := name
	if !filepath.IsAbs(file) {
		file = filepath.Join(dir, file)
	}
	// A child is in dir when it is executed, so that the path has to be absolute.
	file, err := filepath.Abs(file)
	if err == nil {
		err = runnable(file)
	}
	if err != nil {
		return "", fmt.Errorf("find program %q: %w", file, err)
	}
	return file, nil
}

func runnable(path string) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return errors.Unwrap(err) // without the path, which the caller names
	case info.IsDir():
		return fmt.Errorf("is a directory: %w", fs.ErrPermission)
	default:
		return unix.Faccessat(unix.AT_FDCWD, path, unix.X_OK, unix.AT_EACCESS)
	}
}

// defaultPath is where programs are looked for in an environment without PATH, such as
// that of env -i. An empty one would mean the working directory.
const defaultPath = "/usr/local/bin:/usr/bin:/bin"

// SearchPath is path for children that run other commands of ours: those are found beside
// our own where path has none.
func SearchPath(path string) string {
	if path == "" {
		path = defaultPath
	}
	if self, err := os.Executable(); err == nil {
		path += string(filepath.ListSeparator) + filepath.Dir(self)
	}
	return path
}

// Environ returns the environment of a child, sorted: base without the names that drop
// tells, then set over it. Of several values the last one counts. A nil drop keeps all.
func Environ(base []string, drop func(name string) bool, set map[string]string) []string {
	values := map[string]string{}
	for _, entry := range base {
		name, value, ok := strings.Cut(entry, "=")
		if ok && name != "" && (drop == nil || !drop(name)) {
			values[name] = value
		}
	}
	maps.Copy(values, set)
	environ := make([]string, 0, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		environ = append(environ, name+"="+values[name])
	}
	return environ
}

// gitLocation holds the variables that lead git to some other repository than the one
// of the working directory.
var gitLocation = map[string]bool{
	"GIT_ALTERNATE_OBJECT_DIRECTORIES": true,
	"GIT_COMMON_DIR":                   true,
	"GIT_DIR":                          true,
	"GIT_GRAFT_FILE":                   true,
	"GIT_IMPLICIT_WORK_TREE":           true,
	"GIT_INDEX_FILE":                   true,
	"GIT_NAMESPACE":                    true,
	"GIT_OBJECT_DIRECTORY":             true,
	"GIT_PREFIX":                       true,
	"GIT_QUARANTINE_PATH":              true,
	"GIT_REPLACE_REF_BASE":             true,
	"GIT_SHALLOW_FILE":                 true,
	"GIT_WORK_TREE":                    true,
}

// GitLocation tells whether the variable leads git away from the repository of its
// working directory. Such a variable is set when we run inside a git hook, and no
// child of ours may have it.
func GitLocation(name string) bool { return gitLocation[name] }
