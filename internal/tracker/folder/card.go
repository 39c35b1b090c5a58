package folder

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"

	"ostoolkit/internal/tracker"
	"ostoolkit/internal/wire"
)

// card is one file as its author wrote it: what it does not say is zero.
type card struct {
	file     string
	modified time.Time

	id, title, state         string
	priority                 *int64
	labels, blockedBy        []string
	parent, assignee, author string
	branch, url, prURL       string
	milestone, project       string
	route                    wire.IssueRoute
	archived                 bool
	createdAt, updatedAt     wire.Time
	body                     []byte         // below the front matter, as it is
	bodyLine                 int            // where body begins, from 1
	lines                    map[string]int // key -> its line in the file
}

// lineError is a fault of a card at a line of its file, from 1.
type lineError struct {
	line    int
	message string
}

func (e *lineError) Error() string { return fmt.Sprintf("line %d: %s", e.line, e.message) }

func faultf(line int, format string, args ...any) error {
	return &lineError{line, fmt.Sprintf(format, args...)}
}

const (
	// maxFront and maxNesting bound the work of the YAML parser, whose time grows with
	// the square of the nesting.
	maxFront   = 64 << 10
	maxNesting = 200
)

// frontLine is the line of the file in which the front matter begins.
const frontLine = 2

// layout is a card cut into its parts; joined again they are the file.
type layout struct {
	open  []byte // a BOM, if any, and the first line
	front []byte
	end   []byte // the line that ends the front matter
	body  []byte
}

func cut(data []byte) (layout, error) {
	open, rest := line(data)
	if !isFence(bytes.TrimPrefix(open, []byte("\ufeff"))) {
		return layout{}, faultf(1, `card has no front matter: its first line must be "---" (a file whose name begins with "_" is not read as a card)`)
	}
	l := layout{open: open}
	for tail := rest; len(tail) > 0; {
		var current []byte
		current, tail = line(tail)
		if isFence(current) {
			size := len(rest) - len(tail) - len(current)
			l.front, l.end, l.body = rest[:size], current, tail
			return l, checkFront(l.front)
		}
	}
	return layout{}, faultf(1, `front matter has no end: a line "---" is missing`)
}

// line splits off the first line, with its line end.
func line(data []byte) (first, rest []byte) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return data[:i+1], data[i+1:]
	}
	return data, nil
}

func isFence(line []byte) bool {
	return string(bytes.TrimRight(line, " \t\r\n")) == "---"
}

func checkFront(front []byte) error {
	switch {
	case len(front) > maxFront:
		return faultf(frontLine, "front matter is over %d bytes", maxFront)
	case bytes.Count(front, []byte("["))+bytes.Count(front, []byte("{")) > maxNesting:
		return faultf(frontLine, "front matter has more than %d brackets", maxNesting)
	case !utf8.Valid(front):
		return faultf(frontLine+bytes.Count(front[:invalidAt(front)], []byte("\n")), "front matter is not valid UTF-8")
	}
	// To YAML a CR alone ends a line, to everybody else it does not: line numbers
	// would disagree.
	if i := bytes.IndexByte(bytes.ReplaceAll(front, []byte("\r\n"), []byte("\n\n")), '\r'); i >= 0 {
		return faultf(frontLine+bytes.Count(front[:i], []byte("\n")), "front matter has a carriage return within a line")
	}
	return nil
}

// invalidAt returns the offset of the first byte of b that is not UTF-8.
func invalidAt(b []byte) int {
	at := 0
	for at < len(b) {
		r, size := utf8.DecodeRune(b[at:])
		if r == utf8.RuneError && size <= 1 {
			break
		}
		at += size
	}
	return at
}

func parse(data []byte) (*card, error) {
	l, err := cut(data)
	if err != nil {
		return nil, err
	}
	mapping, err := parseFront(l.front)
	if err != nil {
		return nil, err
	}
	c := &card{body: l.body, lines: map[string]int{}}
	c.bodyLine = frontLine + bytes.Count(l.front, []byte("\n")) + 1
	if mapping == nil {
		return c, nil
	}
	for _, entry := range mapping.Values {
		key := entry.Key.GetToken()
		set, known := members[key.Value]
		if !known {
			continue
		}
		c.lines[key.Value] = key.Position.Line + frontLine - 1
		if err := set(c, entry.Value); err != nil {
			return nil, faultf(c.lines[key.Value], "%s: %v", key.Value, err)
		}
	}
	return c, nil
}

// parseFront returns the mapping of a front matter, or nil for an empty one.
func parseFront(front []byte) (*ast.MappingNode, error) {
	file, err := parseYAML(front)
	if err != nil {
		return nil, yamlFault(err)
	}
	if len(file.Docs) > 1 {
		return nil, faultf(frontLine, "front matter is more than one YAML document")
	}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		return nil, nil
	}
	mapping, ok := file.Docs[0].Body.(*ast.MappingNode)
	if !ok {
		return nil, faultf(frontLine, `front matter is not a list of "key: value" lines`)
	}
	return mapping, nil
}

// parseYAML is the YAML parser without two of its faults: it loses count of the lines
// where CRLF ends a comment, and it may panic.
func parseYAML(front []byte) (file *ast.File, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	return parser.ParseBytes(bytes.ReplaceAll(front, []byte("\r\n"), []byte("\n")), 0)
}

func yamlFault(err error) error {
	var e yaml.Error
	if !errors.As(err, &e) || e.GetToken() == nil {
		return faultf(frontLine, "front matter is not YAML: %s", strings.SplitN(err.Error(), "\n", 2)[0])
	}
	return faultf(e.GetToken().Position.Line+frontLine-1, "front matter is not YAML: %s", e.GetMessage())
}

// setter takes the value of one key over into a card.
type setter func(*card, ast.Node) error

// members are the keys that mean something. Others are the author's own: they are
// neither read nor touched.
var members = map[string]setter{
	"id":          word(func(c *card) *string { return &c.id }),
	"title":       word(func(c *card) *string { return &c.title }),
	"state":       word(func(c *card) *string { return &c.state }),
	"parent":      word(func(c *card) *string { return &c.parent }),
	"assignee":    word(func(c *card) *string { return &c.assignee }),
	"assignee_id": word(func(c *card) *string { return &c.assignee }),
	"author":      word(func(c *card) *string { return &c.author }),
	"branch_name": word(func(c *card) *string { return &c.branch }),
	"url":         word(func(c *card) *string { return &c.url }),
	"pr_url":      word(func(c *card) *string { return &c.prURL }),
	"milestone":   word(func(c *card) *string { return &c.milestone }),
	"project":     word(func(c *card) *string { return &c.project }),

	"harness":       word(func(c *card) *string { return (*string)(&c.route.Harness) }),
	"model":         word(func(c *card) *string { return (*string)(&c.route.Model) }),
	"model_profile": word(func(c *card) *string { return (*string)(&c.route.ModelProfile) }),
	"effort":        word(func(c *card) *string { return (*string)(&c.route.Effort) }),

	"labels":     words(func(c *card) *[]string { return &c.labels }),
	"blocked_by": words(func(c *card) *[]string { return &c.blockedBy }),
	"created_at": instant(func(c *card) *wire.Time { return &c.createdAt }),
	"updated_at": instant(func(c *card) *wire.Time { return &c.updatedAt }),
	"priority":   setPriority,
	"archived":   setArchived,
}

func word(field func(*card) *string) setter {
	return func(c *card, n ast.Node) error {
		s, err := scalar(n)
		*field(c) = s
		return err
	}
}

func words(field func(*card) *[]string) setter {
	return func(c *card, n ast.Node) error {
		list, err := list(n)
		*field(c) = list
		return err
	}
}

func instant(field func(*card) *wire.Time) setter {
	return func(c *card, n ast.Node) error {
		s, err := scalar(n)
		if err != nil || s == "" {
			return err
		}
		if *field(c) = tracker.Instant(s); field(c).IsZero() {
			return fmt.Errorf("%q is not a date or time, like 2026-01-31 or 2026-01-31T12:00:00Z", s)
		}
		return nil
	}
}

func setPriority(c *card, n ast.Node) error {
	s, err := scalar(n)
	if err != nil || s == "" {
		return err
	}
	p, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return fmt.Errorf("%q is not a whole number", s)
	}
	c.priority = &p
	return nil
}

func setArchived(c *card, n ast.Node) error {
	switch s, err := scalar(n); {
	case err != nil:
		return err
	case s == "true":
		c.archived = true
	case s != "false" && s != "":
		return fmt.Errorf("%q is not true or false", s)
	}
	return nil
}

// scalar returns the text of a plain value as it is written: 007 stays 007.
func scalar(n ast.Node) (string, error) {
	switch v := n.(type) {
	case nil, *ast.NullNode:
		return "", nil
	case *ast.StringNode:
		return strings.TrimSpace(v.Value), nil
	case *ast.LiteralNode:
		return strings.TrimSpace(v.Value.Value), nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, nil
	}
	return "", errors.New("is not a single text or number")
}

// list returns the texts of a YAML list, or of one text with commas.
func list(n ast.Node) ([]string, error) {
	var out []string
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		s, err := scalar(n)
		for part := range strings.SplitSeq(s, ",") {
			if part = strings.TrimSpace(part); part != "" {
				out = append(out, part)
			}
		}
		return out, err
	}
	for _, item := range seq.Values {
		s, err := scalar(item)
		if err != nil {
			return nil, errors.New("has an entry that is not a single text or number")
		}
		if s != "" {
			out = append(out, s)
		}
	}
	return out, nil
}
