package workflow

import (
	"errors"
	"fmt"
	"strings"

	"github.com/osteele/liquid"

	"ostoolkit/internal/wire"
)

// defaultPrompt stands where a file has no body.
const defaultPrompt = "Work on issue {{ issue.identifier }}: {{ issue.title }}"

// Prompt is a checked Liquid template. It may be rendered from several goroutines.
//
// The library is lax where a prompt must not be: it leaves an unclosed brace in the
// text, prints nothing for a misspelt variable and is blind inside tags. So a
// template is checked by ours when it is loaded, and rendered by the library.
type Prompt struct {
	path     string
	text     string
	template *liquid.Template
}

// Vars is what a prompt may name.
type Vars struct {
	Issue     *wire.Issue
	Attempt   *int64 // nil on the first run
	Workspace *Folder
	Turn      int64 // from 1; 0 where it is not known
	MaxTurns  int64 // 0 where it is not known
}

// Folder is the variable workspace of a prompt.
type Folder struct {
	Key     string `json:"key"`
	Path    string `json:"path"`
	Created bool   `json:"created"`
}

// parsePrompt checks a template that begins on the given line of path, as messages
// name it. A blank one is the default prompt.
func parsePrompt(path string, line int, text string) (*Prompt, []Warning, *Error) {
	if strings.TrimSpace(text) == "" {
		text = defaultPrompt
	}
	body := strings.TrimLeft(text, "\n")
	line += len(text) - len(body)
	body = strings.TrimRight(body, " \t\r\n")
	c := &checker{path: path, filters: standardFilters()}
	tokens := c.scan(body, line)
	if err := c.structure(tokens); err != nil {
		return nil, nil, err
	}
	template, err := compile(body, line)
	if err != nil {
		return nil, nil, c.problem(err.LineNumber(), "%s", reason(err))
	}
	if err := c.names(tokens); err != nil {
		return nil, nil, err
	}
	return &Prompt{path: path, text: body, template: template}, c.warnings, nil
}

// Text returns the template as it was written.
func (p *Prompt) Text() string { return p.text }

// Render fills the template in. What stands in v is data: braces in an issue's text
// come out as they are. The error is an *Error.
func (p *Prompt) Render(v Vars) (string, error) {
	values, err := v.bindings()
	if err != nil {
		return "", &Error{Path: p.path, Key: "prompt", Message: err.Error()}
	}
	out, problem := fill(p.template, values)
	if problem != nil {
		return "", &Error{Path: p.path, Line: problem.LineNumber(), Key: "prompt", Message: reason(problem)}
	}
	if strings.TrimSpace(out) == "" {
		return "", &Error{Path: p.path, Key: "prompt", Message: "the rendered text is blank"}
	}
	return out, nil
}

func compile(body string, line int) (t *liquid.Template, err liquid.SourceError) {
	defer caught(&err)
	// The path stays away from the library, which would open files beside it.
	return newEngine().ParseTemplateLocation([]byte(body), "", line)
}

func fill(t *liquid.Template, values map[string]any) (out string, err liquid.SourceError) {
	defer caught(&err)
	return t.RenderString(values)
}

// caught turns a panic of the library, which an odd argument of a filter is enough
// for, into an error.
func caught(err *liquid.SourceError) {
	if p := recover(); p != nil {
		first, _, _ := strings.Cut(fmt.Sprint(p), "\n")
		*err = panicked{errors.New(first)}
	}
}

// panicked is a SourceError without a place.
type panicked struct{ error }

func (p panicked) Cause() error  { return p.error }
func (panicked) Path() string    { return "" }
func (panicked) LineNumber() int { return 0 }

// reason is the library's message without its own idea of a place, which it repeats
// at each level.
func reason(err liquid.SourceError) string {
	if err.Cause() != nil {
		if inner, ok := err.Cause().(liquid.SourceError); ok {
			return reason(inner)
		}
		return err.Cause().Error()
	}
	text := err.Error()
	for strings.HasPrefix(text, "Liquid error") {
		_, after, ok := strings.Cut(text, ": ")
		if !ok {
			break
		}
		text = after
	}
	return text
}
