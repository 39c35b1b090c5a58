package workflow

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/osteele/liquid/parser"
)

// tagKind says how the words in a tag are to be read.
type tagKind int

const (
	tagBare    tagKind = iota // no words
	tagExpr                   // an expression, or several with commas
	tagAssign                 // name = expression
	tagCapture                // name
	tagLoop                   // name in expression, modifiers
	tagCycle                  // strings
	tagVerb                   // raw and comment: no tags up to their end
)

// promptTags are the tags of a prompt. What reads other files is not among them.
var promptTags = map[string]tagKind{
	"assign": tagAssign, "break": tagBare, "capture": tagCapture, "case": tagExpr, "comment": tagVerb,
	"continue": tagBare, "cycle": tagCycle, "else": tagBare, "elsif": tagExpr, "endcapture": tagBare,
	"endcase": tagBare, "endcomment": tagBare, "endfor": tagBare, "endif": tagBare, "endraw": tagBare,
	"endtablerow": tagBare, "endunless": tagBare, "for": tagLoop, "if": tagExpr, "raw": tagVerb,
	"tablerow": tagLoop, "unless": tagExpr, "when": tagExpr,
}

var (
	assignment = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_-]*)\s*=\s*((?s:.*))$`)
	iteration  = regexp.MustCompile(`^([A-Za-z_][A-Za-z0-9_-]*)\s+in\s+((?s:.*))$`)
	identifier = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*$`)
)

// checker finds what the library would let pass in one template.
type checker struct {
	path     string
	filters  filterArgs
	warnings []Warning

	root     *shape
	assigned map[string]*shape
	loops    []loop // the innermost last
}

type loop struct {
	name string
	item *shape
}

func (c *checker) problem(line int, format string, args ...any) *Error {
	return &Error{Path: c.path, Line: line, Key: "prompt", Message: fmt.Sprintf(format, args...)}
}

// scan splits the text with the library's own scanner, so that both always agree on
// what is a tag, and drops what stands in raw and comment blocks.
func (c *checker) scan(text string, line int) []parser.Token {
	var out []parser.Token
	until := ""
	for _, t := range parser.Scan(text, parser.SourceLoc{LineNo: line}, nil) {
		switch {
		case t.Type == parser.TrimLeftTokenType || t.Type == parser.TrimRightTokenType:
		case until != "" && (t.Type != parser.TagTokenType || t.Name != until):
		default:
			// Of {% else -%} the scanner gives the dash as an argument.
			if t.Args == "-" {
				t.Args = ""
			}
			out = append(out, t)
			until = ""
			if t.Type == parser.TagTokenType && promptTags[t.Name] == tagVerb {
				until = "end" + t.Name
			}
		}
	}
	return out
}

// structure checks braces and tags; the library checks that blocks are closed.
func (c *checker) structure(tokens []parser.Token) *Error {
	loops := 0
	for i, t := range tokens {
		switch t.Type {
		case parser.TextTokenType:
			if err := c.leftOver(t); err != nil {
				return err
			}
		case parser.TagTokenType:
			if err := c.tag(t, loops); err != nil {
				return err
			}
			if promptTags[t.Name] == tagVerb && i == len(tokens)-1 {
				return c.problem(t.SourceLoc.LineNo, "the tag %q is not closed by %q", t.Name, "end"+t.Name)
			}
			switch t.Name {
			case "for", "tablerow":
				loops++
			case "endfor", "endtablerow":
				loops--
			}
		}
	}
	return nil
}

// leftOver finds a brace that the scanner took for text.
func (c *checker) leftOver(t parser.Token) *Error {
	for _, brace := range []string{"{{", "{%"} {
		if before, after, ok := strings.Cut(t.Source, brace); ok {
			line := t.SourceLoc.LineNo + strings.Count(before, "\n")
			rest, _, _ := strings.Cut(after, "\n")
			return c.problem(line, "%q is not closed on its line or is empty: %q", brace, clip(brace+rest))
		}
	}
	return nil
}

func (c *checker) tag(t parser.Token, loops int) *Error {
	line := t.SourceLoc.LineNo
	kind, ok := promptTags[t.Name]
	switch {
	case t.Name == "include" || t.Name == "render":
		return c.problem(line, "the tag %q is not available: a prompt includes no files", t.Name)
	case !ok:
		known := slices.Collect(maps.Keys(promptTags))
		return c.problem(line, "unknown tag %q%s", t.Name, didYouMean("", t.Name, known))
	case kind == tagBare && strings.TrimSpace(t.Args) != "":
		return c.problem(line, "the tag %q takes no words: %q", t.Name, clip(t.Args))
	case loops < 1 && (t.Name == "break" || t.Name == "continue" || t.Name == "cycle"):
		return c.problem(line, "the tag %q stands outside of a loop", t.Name)
	}
	return nil
}

// names checks each variable and filter. Assignments count for the whole template,
// since one in a loop may be read above it.
func (c *checker) names(tokens []parser.Token) *Error {
	c.root, c.assigned = promptShape(), map[string]*shape{}
	for _, t := range tokens {
		if t.Type != parser.TagTokenType {
			continue
		}
		switch promptTags[t.Name] {
		case tagAssign:
			if m := assignment.FindStringSubmatch(t.Args); m != nil {
				c.assigned[m[1]] = nil
			}
		case tagCapture:
			c.assigned[t.Args] = &shape{}
		}
	}
	for _, t := range tokens {
		if err := c.token(t); err != nil {
			return err
		}
	}
	return nil
}

func (c *checker) token(t parser.Token) *Error {
	line := t.SourceLoc.LineNo
	if t.Type == parser.ObjTokenType {
		_, err := c.expression(line, t.Args)
		return err
	}
	if t.Type != parser.TagTokenType {
		return nil
	}
	switch promptTags[t.Name] {
	case tagExpr:
		_, err := c.expression(line, t.Args)
		return err
	case tagAssign:
		m := assignment.FindStringSubmatch(t.Args)
		if m == nil {
			return c.problem(line, "the assignment %q does not name a variable", clip(t.Args))
		}
		_, err := c.expression(line, m[2])
		return err
	case tagCapture:
		if !identifier.MatchString(t.Args) {
			return c.problem(line, "%q is not the name of a variable", clip(t.Args))
		}
	case tagLoop:
		return c.enter(line, t.Args)
	}
	if t.Name == "endfor" || t.Name == "endtablerow" {
		c.loops = c.loops[:len(c.loops)-1]
	}
	return nil
}

func (c *checker) enter(line int, args string) *Error {
	m := iteration.FindStringSubmatch(args)
	if m == nil {
		return c.problem(line, "the loop %q is not NAME in LIST", clip(args))
	}
	list, err := c.expression(line, m[2])
	if err != nil {
		return err
	}
	next := loop{name: m[1]}
	if list != nil && list.list {
		next.item = list.item
	}
	c.loops = append(c.loops, next)
	return nil
}

// forloop is what every loop offers besides its variable.
var forloop = &shape{members: map[string]*shape{
	"first": {}, "last": {}, "index": {}, "index0": {}, "rindex": {}, "rindex0": {}, "length": {},
}}

// variable returns the shape of a variable by its first name.
func (c *checker) variable(name string) (*shape, bool) {
	for _, l := range slices.Backward(c.loops) {
		if l.name == name {
			return l.item, true
		}
	}
	if name == "forloop" && len(c.loops) > 0 {
		return forloop, true
	}
	if s, ok := c.assigned[name]; ok {
		return s, true
	}
	s, ok := c.root.members[name]
	return s, ok
}

// variables returns all first names that count here.
func (c *checker) variables() []string {
	names := c.root.names()
	for name := range c.assigned {
		names = append(names, name)
	}
	for _, l := range c.loops {
		names = append(names, l.name, "forloop")
	}
	return names
}
