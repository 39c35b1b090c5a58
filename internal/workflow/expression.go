package workflow

import (
	"maps"
	"slices"
	"strings"
)

// expression checks the variables and filters of one Liquid expression, whose syntax
// the library has accepted. Where the expression is nothing but a variable, apart
// from the modifiers of a loop, its shape is returned; else nil.
func (c *checker) expression(line int, text string) (*shape, *Error) {
	s := &scanner{c: c, line: line, text: text}
	if err := s.run(""); err != nil {
		return nil, err
	}
	if s.variables == 1 && s.alone {
		return s.first, nil
	}
	return nil, nil
}

// scanner walks over one expression.
type scanner struct {
	c    *checker
	line int
	text string
	at   int

	piped  bool   // the next name is a filter
	filter string // the one whose arguments are being read
	args   int

	variables int
	alone     bool   // nothing but names so far
	first     *shape // of the first variable
}

// literals are the words of an expression that name no variable. null is no word of
// the library, but a name without a value, which is the same.
var literals = []string{"and", "or", "contains", "in", "true", "false", "nil", "null", "reversed"}

// run reads up to the closing bracket, or to the end of the text.
func (s *scanner) run(closing string) *Error {
	s.alone = true
	for s.at < len(s.text) {
		ch := s.text[s.at]
		switch {
		case closing != "" && ch == closing[0]:
			return s.endFilter()
		case ch == '"' || ch == '\'':
			s.quoted(ch)
			s.alone = false
		case isDigit(ch):
			s.at += len(s.text[s.at:]) - len(strings.TrimLeft(s.text[s.at:], "0123456789"))
		case isLetter(ch):
			if err := s.word(); err != nil {
				return err
			}
		default:
			if err := s.sign(ch); err != nil {
				return err
			}
		}
	}
	return s.endFilter()
}

func (s *scanner) sign(ch byte) *Error {
	s.at++
	switch ch {
	case '|':
		s.piped, s.alone = true, false
		return s.endFilter()
	case ',':
		if s.filter != "" {
			s.args++
		}
	case ' ', '\t', '\n', '\r':
		return nil
	}
	s.alone = false
	return nil
}

func (s *scanner) quoted(quote byte) {
	end := strings.IndexByte(s.text[s.at+1:], quote)
	if end < 0 {
		s.at = len(s.text)
		return
	}
	s.at += end + 2
}

// name reads one name as the library does: dashes belong to it, a final ? too.
func (s *scanner) name() string {
	start := s.at
	for s.at < len(s.text) && (isLetter(s.text[s.at]) || isDigit(s.text[s.at]) || s.text[s.at] == '-') {
		s.at++
	}
	if s.at < len(s.text) && s.text[s.at] == '?' {
		s.at++
	}
	return s.text[start:s.at]
}

func (s *scanner) word() *Error {
	name := s.name()
	colon := s.at < len(s.text) && s.text[s.at] == ':'
	if colon {
		s.at++
	}
	switch {
	case s.piped:
		s.piped = false
		return s.startFilter(name, colon)
	case colon: // limit:, offset: or cols: of a loop
		return nil
	case slices.Contains(literals, name):
		if name != "reversed" {
			s.alone = false
		}
		return nil
	}
	return s.path(name)
}

func (s *scanner) startFilter(name string, colon bool) *Error {
	if _, ok := s.c.filters[name]; !ok {
		known := slices.Collect(maps.Keys(s.c.filters))
		return s.c.problem(s.line, "unknown filter %q%s", name, didYouMean("", name, known))
	}
	s.filter, s.args = name, 0
	if colon {
		s.args = 1
	}
	return nil
}

// endFilter checks the number of arguments, which the library does too late.
func (s *scanner) endFilter() *Error {
	name := s.filter
	s.filter = ""
	if name != "" && s.args > s.c.filters[name] {
		return s.c.problem(s.line, "the filter %q takes at most %d arguments, not %d", name, s.c.filters[name], s.args)
	}
	return nil
}

// path checks a variable and what follows it: .name, ["name"] and [expression].
func (s *scanner) path(name string) *Error {
	at, ok := s.c.variable(name)
	if !ok {
		return s.unknown("", name, s.c.variables())
	}
	full := name
	for {
		key, dynamic, err := s.step()
		if err != nil {
			return err
		}
		if key == "" && !dynamic {
			break
		}
		next, ok := at.member(key)
		if dynamic {
			next, ok = at.element()
			key = "[…]"
		}
		if !ok {
			return s.unknown(full+".", key, at.names())
		}
		at, full = next, full+"."+key
	}
	if at != nil && at.vacant {
		s.c.warnings = append(s.c.warnings, Warning{s.c.path, s.line, "the prompt's " + full + " is always empty here"})
	}
	if s.variables++; s.variables == 1 {
		s.first = at
	}
	return nil
}

func (s *scanner) unknown(prefix, name string, known []string) *Error {
	return s.c.problem(s.line, "unknown variable %q%s", prefix+name, didYouMean(prefix, name, known))
}

// element is the shape of what an index that is not written out selects.
func (s *shape) element() (*shape, bool) {
	if s == nil || len(s.members) > 0 {
		return nil, true
	}
	return s.item, s.list
}

// step reads one step of a path; key is "" for one that is computed, or for none.
func (s *scanner) step() (key string, dynamic bool, err *Error) {
	rest := strings.TrimLeft(s.text[s.at:], " \t\r\n")
	skip := len(s.text) - s.at - len(rest)
	switch {
	case len(rest) > 1 && rest[0] == '.' && isLetter(rest[1]):
		s.at += skip + 1
		return s.name(), false, nil
	case strings.HasPrefix(rest, "["):
		s.at += skip + 1
		return s.index()
	}
	return "", false, nil
}

func (s *scanner) index() (key string, dynamic bool, err *Error) {
	inner := &scanner{c: s.c, line: s.line, text: s.text, at: s.at}
	if err := inner.run("]"); err != nil {
		return "", false, err
	}
	text := strings.TrimSpace(s.text[s.at:inner.at])
	s.at = min(inner.at+1, len(s.text))
	if n := len(text); n > 2 && (text[0] == '"' || text[0] == '\'') && strings.IndexByte(text[1:], text[0]) == n-2 {
		return text[1 : n-1], false, nil
	}
	return "", true, nil
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isLetter(c byte) bool { return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
