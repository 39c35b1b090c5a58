package folder

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"ostoolkit/internal/tracker"
)

// document is a card's front matter as lines, edited in place: a line that does not
// hold a changed value keeps every byte, its comment and its line end.
//
// Lines are found by the positions of the YAML parser; its columns are of no use, since
// an empty value has none. Whoever edits parses the result again (see change.apply):
// what cannot be edited safely is refused.
type document struct {
	lines   []string // each with its line end
	newline string
	mapping *ast.MappingNode // nil if the front matter is empty
}

func newDocument(front []byte, newline string) (*document, error) {
	mapping, err := parseFront(front)
	if err != nil {
		return nil, err
	}
	if mapping != nil && mapping.IsFlowStyle {
		return nil, errors.New(`front matter is written in braces; write it as "key: value" lines first`)
	}
	return &document{lines: slices.Collect(strings.Lines(string(front))), newline: newline, mapping: mapping}, nil
}

func (d *document) bytes() []byte { return []byte(strings.Join(d.lines, "")) }

// entry returns the place of key among the entries, or -1.
func (d *document) entry(key string) int {
	if d.mapping == nil {
		return -1
	}
	return slices.IndexFunc(d.mapping.Values, func(v *ast.MappingValueNode) bool { return v.Key.GetToken().Value == key })
}

// span returns the lines of entry i as a half-open range, without blank lines and
// comments that follow it.
func (d *document) span(i int) (from, to int) {
	values := d.mapping.Values
	from, to = lineIndex(values[i].Key), len(d.lines)
	if i+1 < len(values) {
		to = lineIndex(values[i+1].Key)
	}
	for to > from+1 && isFiller(d.lines[to-1]) {
		to--
	}
	return from, to
}

func lineIndex(n ast.Node) int { return n.GetToken().Position.Line - 1 }

func isFiller(line string) bool {
	line = strings.TrimSpace(line)
	return line == "" || strings.HasPrefix(line, "#")
}

// set gives key a value, written as YAML already, where its old value stands; a new
// key becomes the last one.
func (d *document) set(key, value string) {
	i := d.entry(key)
	if i < 0 {
		d.append(key + ": " + value)
		return
	}
	from, to := d.span(i)
	d.lines = slices.Replace(d.lines, from, to, d.withValue(d.lines[from], to-from == 1, value))
}

// withValue returns line, which holds a key, with another value. Only where the old
// value is on this one line can there be something behind it to keep.
func (d *document) withValue(line string, single bool, value string) string {
	text := strings.TrimRight(line, "\r\n")
	head := keyEnd.FindString(text)
	key := strings.TrimRight(head, " \t")
	rest := text[len(head):]
	switch {
	case !single:
		return key + " " + value + d.newline
	case rest == "" || rest[0] == '#': // no value yet; the blanks stand before the comment
		head, rest = key+" ", strings.TrimRight(text[len(key):], " \t")
	default:
		rest = strings.TrimRight(rest[valueEnd(rest):], " \t")
	}
	return head + value + rest + line[len(text):]
}

// keyEnd matches a key, plain or quoted, with its colon and the blanks behind it.
var keyEnd = regexp.MustCompile(`^\s*("(\\.|[^"\\])*"|'[^']*'|[^:]*)\s*:\s*`)

// valueEnd returns where the value at the beginning of s ends: the rest is blank or
// a comment.
func valueEnd(s string) int {
	if m := oneLine.FindString(s); m != "" {
		return len(m)
	}
	if i := strings.Index(s, " #"); i >= 0 {
		return len(strings.TrimRight(s[:i], " \t"))
	}
	return len(strings.TrimRight(s, " \t"))
}

// oneLine matches a quoted text, or a list in brackets.
var oneLine = regexp.MustCompile(`^("(\\.|[^"\\])*"|'([^']|'')*'|\[("(\\.|[^"\\])*"|'([^']|'')*'|[^\]"'])*\])`)

func (d *document) append(line string) {
	indent := ""
	if d.mapping != nil && len(d.mapping.Values) > 0 {
		first := d.lines[lineIndex(d.mapping.Values[0].Key)]
		indent = first[:len(first)-len(strings.TrimLeft(first, " "))]
	}
	d.lines = append(d.lines, indent+line+d.newline)
}

// setList makes the list under key hold exactly the values of want. A block list
// loses and gains lines; any other form is written anew in brackets.
func (d *document) setList(key string, want []string) {
	i := d.entry(key)
	if i >= 0 {
		if seq, ok := d.mapping.Values[i].Value.(*ast.SequenceNode); ok && !seq.IsFlowStyle && len(want) > 0 && d.onePerLine(seq) {
			d.setBlock(i, seq, want)
			return
		}
	}
	items := make([]string, len(want))
	for n, w := range want {
		items[n] = yamlText(w)
	}
	d.set(key, "["+strings.Join(items, ", ")+"]")
}

// onePerLine tells whether each item of a block list is on a line of its own that
// begins with its dash.
func (d *document) onePerLine(seq *ast.SequenceNode) bool {
	seen := map[int]bool{}
	for _, item := range seq.Values {
		at := lineIndex(item)
		if seen[at] || !strings.HasPrefix(strings.TrimSpace(d.lines[at]), "-") {
			return false
		}
		seen[at] = true
	}
	return len(seen) > 0
}

func (d *document) setBlock(i int, seq *ast.SequenceNode, want []string) {
	_, to := d.span(i)
	missing := slices.Clone(want)
	drop := map[int]bool{}
	for _, item := range seq.Values {
		value, _ := scalar(item)
		at := slices.IndexFunc(missing, func(w string) bool { return tracker.Fold(w) == tracker.Fold(value) })
		if at < 0 {
			drop[lineIndex(item)] = true
			continue
		}
		missing = slices.Delete(missing, at, at+1)
	}
	first := d.lines[lineIndex(seq.Values[0])]
	dash := first[:strings.Index(first, "-")] + "- "
	var lines []string
	for n, l := range d.lines {
		if !drop[n] {
			lines = append(lines, l)
		}
		if n == to-1 {
			for _, w := range missing {
				lines = append(lines, dash+yamlText(w)+d.newline)
			}
		}
	}
	d.lines = lines
}

var plainYAML = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_./-]*( [A-Za-z0-9_./-]+)*$`)

// yamlText writes s so that YAML reads it back as this very text, anywhere.
func yamlText(s string) string {
	switch tracker.Fold(s) {
	case "true", "false", "null", "yes", "no", "on", "off", "y", "n":
	default:
		if plainYAML.MatchString(s) {
			return s
		}
	}
	quoted, err := json.Marshal(s) // JSON is YAML
	if err != nil {
		return fmt.Sprintf("%q", s)
	}
	return string(quoted)
}
