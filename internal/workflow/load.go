package workflow

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"
)

// fileName is the workflow that is taken where none is named.
const fileName = "WORKFLOW.md"

// variable names the workflow in the environment.
const variable = "OS_WORKFLOW"

// dirVariable names the folder that stands in for the file's own.
const dirVariable = "OS_WORKFLOW_DIR"

// maxFile and maxFrontMatter bound what is read, in bytes: the YAML parser needs
// time that grows with the square of its input.
const (
	maxFile        = 1 << 20
	maxFrontMatter = 256 << 10
)

// Options is what a file's meaning depends on besides its text.
type Options struct {
	LookupEnv func(string) (string, bool) // nil: no variable is set
	Home      string                      // what ~ stands for; "": not known
	Temp      string                      // where the default workspace root lies; "": /tmp
	Dir       string                      // the working directory, absolute; "": that of the process
	Base      string                      // what relative paths and commands are relative to, absolute; "": the file's own folder
	Name      string                      // what a file that is a copy is called in messages, absolute; "": its own path
}

// Find returns the workflow to load: flag, else OS_WORKFLOW, else dir/WORKFLOW.md.
// A relative path is joined to dir. explicit tells that somebody named the file, so
// that it has to be there.
func Find(flag string, getenv func(string) (string, bool), dir string) (path string, explicit bool) {
	name := flag
	if name == "" {
		name, _ = getenv(variable)
	}
	if explicit = name != ""; !explicit {
		name = fileName
	}
	if !filepath.IsAbs(name) {
		name = filepath.Join(dir, name)
	}
	return name, explicit
}

// Load reads the workflow file path and resolves it. A missing file is an error that
// matches fs.ErrNotExist; whatever is wrong in the file is an *Error, the first one by
// line. Warnings are in the order of their lines.
func Load(path string, o Options) (*Workflow, []Warning, error) {
	abs, err := absolute(path, o.Dir)
	if err != nil {
		return nil, nil, err
	}
	text, err := readFile(abs)
	if err != nil {
		return nil, nil, err
	}
	r := newReader(abs, shown(cmp.Or(o.Name, abs), o.Dir), o)
	w, err := r.load(text)
	if err != nil {
		return nil, r.warnings, err
	}
	w.Name, w.Text, w.Warnings = cmp.Or(o.Name, abs), text, r.warnings
	return w, r.warnings, nil
}

// Defaults returns what holds without a file, for work in dir, which is absolute.
// The environment's choice of a harness and a model counts here too, except that a
// harness of an unknown name is passed over.
func Defaults(o Options, dir string) *Workflow {
	r := newReader("", "", o)
	r.dir = dir
	w := r.workflow(&node{value: []entry(nil)})
	// The default prompt has no variable but its own, which a test renders.
	w.Prompt, _, _ = parsePrompt("", 0, "")
	return w
}

func absolute(path, dir string) (string, error) {
	if !filepath.IsAbs(path) && dir != "" {
		return filepath.Join(dir, path), nil
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("locate workflow %q: %v", path, err)
	}
	return abs, nil
}

// shown is the name of a file in messages: short where it lies below dir.
func shown(abs, dir string) string {
	if rel, err := filepath.Rel(dir, abs); dir != "" && err == nil && filepath.IsLocal(rel) {
		return rel
	}
	return abs
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read workflow: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("read workflow: %w", err)
	}
	return text, nil
}

// load turns the text of a file into a Workflow.
func (r *reader) load(text []byte) (*Workflow, error) {
	if len(text) > maxFile {
		return nil, r.wrong(0, "the file is over the limit of %d bytes", maxFile)
	}
	if line := badUTF8(text); line > 0 {
		return nil, r.wrong(line, "the text is not UTF-8")
	}
	front, body, bodyLine, err := r.split(normalise(text))
	if err != nil {
		return nil, err
	}
	root, err := r.parse(front)
	if err != nil {
		return nil, err
	}
	w := r.workflow(root)
	prompt, warnings, promptErr := parsePrompt(r.path, bodyLine, body)
	w.Prompt = prompt
	r.warnings = append(r.warnings, warnings...)
	slices.SortStableFunc(r.warnings, func(a, b Warning) int { return a.Line - b.Line })
	if promptErr != nil {
		r.errs = append(r.errs, promptErr)
	}
	if len(r.errs) > 0 {
		return nil, slices.MinFunc(r.errs, func(a, b *Error) int { return a.Line - b.Line })
	}
	return w, nil
}

func badUTF8(text []byte) int {
	if utf8.Valid(text) {
		return 0
	}
	for i, line := range bytes.Split(text, []byte("\n")) {
		if !utf8.Valid(line) {
			return i + 1
		}
	}
	return 0
}

// normalise drops a byte order mark and the CR of CRLF, which would end up in hooks
// and break their shell.
func normalise(text []byte) string {
	s := strings.TrimPrefix(string(text), "\ufeff")
	return strings.ReplaceAll(s, "\r\n", "\n")
}

// split separates the front matter from the prompt. bodyLine is the line that the
// body begins on. Front matter begins at line 2.
func (r *reader) split(text string) (front, body string, bodyLine int, err error) {
	rest, ok := strings.CutPrefix(text, "---\n")
	if !ok {
		if text == "---" {
			return "", "", 0, r.wrong(1, "the front matter is not closed by a line ---")
		}
		return "", text, 1, nil
	}
	bodyLine = 2
	for left := rest; left != ""; bodyLine++ {
		line, after, _ := strings.Cut(left, "\n")
		if line == "---" {
			return rest[:len(rest)-len(left)], after, bodyLine + 1, nil
		}
		left = after
	}
	return "", "", 0, r.wrong(1, "the front matter is not closed by a line ---")
}
