package workflow

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// reader resolves the settings of one file and collects what is wrong with them.
type reader struct {
	file     string // absolute; "" without a file
	path     string // the file in messages
	dir      string
	opts     Options
	errs     []*Error
	warnings []Warning
}

func newReader(file, path string, o Options) *reader {
	if o.LookupEnv == nil {
		o.LookupEnv = func(string) (string, bool) { return "", false }
	}
	if o.Temp == "" {
		o.Temp = "/tmp"
	}
	return &reader{file: file, path: path, dir: cmp.Or(o.Base, filepath.Dir(file)), opts: o}
}

// wrong returns an error about the file as a whole.
func (r *reader) wrong(line int, format string, args ...any) *Error {
	return &Error{Path: r.path, Line: line, Message: fmt.Sprintf(format, args...)}
}

// refuse records that the value n of key is not what must: "x" is not <must>.
func (r *reader) refuse(key string, n *node, must string) {
	r.errs = append(r.errs, &Error{
		Path: r.path, Line: n.line, Key: key, Value: n.text,
		Message: n.describe() + " is not " + must,
	})
}

func (r *reader) fault(key string, n *node, format string, args ...any) {
	r.errs = append(r.errs, &Error{
		Path: r.path, Line: n.line, Key: key, Value: n.text, Message: fmt.Sprintf(format, args...),
	})
}

func (r *reader) warn(line int, format string, args ...any) {
	r.warnings = append(r.warnings, Warning{r.path, line, fmt.Sprintf(format, args...)})
}

// describe is a value in a message. What a variable holds may be a secret.
func (n *node) describe() string {
	switch n.value.(type) {
	case []*node:
		return "a list"
	case []entry:
		return "a map"
	case nil:
		return "an empty value"
	}
	if n.env != "" {
		return "the value of $" + n.env
	}
	if _, ok := n.value.(string); ok {
		return fmt.Sprintf("%q", clip(n.text))
	}
	return clip(n.text)
}

func clip(s string) string {
	const limit = 60
	if r := []rune(s); len(r) > limit {
		return string(r[:limit]) + "…"
	}
	return s
}

// reference returns the variable that a value names with $NAME or ${NAME}.
func (n *node) reference() (string, bool) {
	s, ok := n.value.(string)
	if !ok {
		return "", false
	}
	name, ok := strings.CutPrefix(s, "$")
	if inner, braced := strings.CutPrefix(name, "{"); braced {
		name, ok = strings.CutSuffix(inner, "}")
	}
	return name, ok && isVariable(name)
}

// isVariable tells whether s can be the name of an environment variable.
func isVariable(s string) bool {
	for i, c := range s {
		letter := c == '_' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
		if !letter && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}

// resolve replaces a $NAME by its value; false means that it is unset or empty.
func (r *reader) resolve(n *node) (*node, bool) {
	name, ok := n.reference()
	if !ok {
		return n, true
	}
	value, _ := r.opts.LookupEnv(name)
	if strings.TrimSpace(value) == "" {
		return n, false
	}
	out := *n
	out.value, out.env = value, name
	return &out, true
}

// resolveOrFault is resolve for a key that must not be empty. n may be nil.
func (r *reader) resolveOrFault(key string, n *node) (*node, bool) {
	out, ok := r.resolve(n)
	if !ok {
		name, _ := n.reference()
		r.fault(key, n, "the variable %s is not set or empty", name)
	}
	return out, ok
}

// references returns the variables named anywhere below n, sorted.
func (n *node) references() []string {
	seen := map[string]bool{}
	var walk func(*node)
	walk = func(n *node) {
		switch v := n.value.(type) {
		case []*node:
			for _, item := range v {
				walk(item)
			}
		case []entry:
			for _, e := range v {
				walk(e.node)
			}
		default:
			if name, ok := n.reference(); ok {
				seen[name] = true
			}
		}
	}
	walk(n)
	names := make([]string, 0, len(seen))
	for name := range seen {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// absolutePath resolves ~ and what is relative to the file's folder.
func (r *reader) absolutePath(path string) (string, error) {
	switch {
	case path == "~" || strings.HasPrefix(path, "~/"):
		if r.opts.Home == "" {
			return "", fmt.Errorf("the home folder that ~ stands for is not known")
		}
		return filepath.Join(r.opts.Home, path[1:]), nil
	case strings.HasPrefix(path, "~"):
		return "", fmt.Errorf("the home folder of another user is not looked up")
	case filepath.IsAbs(path):
		return filepath.Clean(path), nil
	}
	return filepath.Join(r.dir, path), nil
}

// absoluteCommand makes a first word that starts with ./ or ../ absolute, so that a
// command means the same program wherever it is run. The rest stays as it is.
func (r *reader) absoluteCommand(command string) string {
	command = strings.TrimSpace(command)
	if !strings.HasPrefix(command, "./") && !strings.HasPrefix(command, "../") {
		return command
	}
	word, rest := command, ""
	if i := strings.IndexAny(command, " \t\n;|&<>()"); i >= 0 {
		word, rest = command[:i], command[i:]
	}
	dir, base := filepath.Split(filepath.Join(r.dir, word))
	return shellQuote(dir) + base + rest
}

// shellQuote quotes the folder, whose name the author of the command did not write.
func shellQuote(s string) string {
	plain := func(c rune) bool {
		return strings.ContainsRune("/._-+@%,:=", c) || c >= '0' && c <= '9' || c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z'
	}
	if !strings.ContainsFunc(s, func(c rune) bool { return !plain(c) }) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
