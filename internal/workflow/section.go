package workflow

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// section is one mapping of the file. Its methods take a key, check its value and
// store it; a key that is missing or null leaves the default alone. What nobody has
// taken when done is called is unknown.
type section struct {
	r       *reader
	name    string // "agent"; "" at the top
	line    int
	isMap   bool
	entries []entry
	known   []string
}

// section returns the mapping n as a section; nil is an empty one.
func (r *reader) section(name string, n *node) *section {
	s := &section{r: r, name: name}
	if n == nil {
		return s
	}
	s.line = n.line
	if s.entries, s.isMap = n.value.([]entry); !s.isMap {
		r.refuse(name, n, "a map")
	}
	return s
}

func (s *section) key(key string) string {
	if s.name == "" {
		return key
	}
	return s.name + "." + key
}

// take returns the value of key as it stands in the file, or nil.
func (s *section) take(key string) *node {
	s.known = append(s.known, key)
	for _, e := range s.entries {
		if e.key == key && e.node.value != nil {
			return e.node
		}
	}
	return nil
}

// value is take with a $NAME resolved.
func (s *section) value(key string) *node {
	n := s.take(key)
	if n == nil {
		return nil
	}
	n, ok := s.r.resolveOrFault(s.key(key), n)
	if !ok {
		return nil
	}
	return n
}

// has tells whether key is there with a value.
func (s *section) has(key string) bool {
	return slices.ContainsFunc(s.entries, func(e entry) bool { return e.key == key && e.node.value != nil })
}

// ignore knows keys of other tools that mean nothing to these commands.
func (s *section) ignore(keys ...string) { s.known = append(s.known, keys...) }

// inert knows a key whose loss somebody would notice.
func (s *section) inert(key, why string) {
	if n := s.take(key); n != nil {
		s.r.warn(n.line, "%s has no effect: %s", s.key(key), why)
	}
}

// done warns of the keys that nobody took.
func (s *section) done() {
	for _, e := range s.entries {
		if slices.Contains(s.known, e.key) {
			continue
		}
		prefix := ""
		if s.name != "" {
			prefix = s.name + "."
		}
		s.r.warn(e.line, "unknown key %q%s", s.key(e.key), didYouMean(prefix, e.key, s.known))
	}
}

// table returns the section below key.
func (s *section) table(key string) *section {
	return s.r.section(s.key(key), s.take(key))
}

// text stores a string that is not blank.
func (s *section) text(key string, dst *string) {
	n := s.value(key)
	if n == nil {
		return
	}
	if v, ok := s.r.text(s.key(key), n); ok {
		*dst = v
	}
}

// text returns n as a string that is not blank.
func (r *reader) text(key string, n *node) (string, bool) {
	v, ok := n.value.(string)
	switch {
	case !ok && isScalar(n):
		r.fault(key, n, "%s is not a string, put it in quotes", n.describe())
	case !ok:
		r.refuse(key, n, "a string")
	case strings.TrimSpace(v) == "":
		r.fault(key, n, "the value is blank")
	default:
		return v, true
	}
	return "", false
}

// script is text that may be blank, which is as good as missing.
func (s *section) script(key string, dst *string) {
	if n := s.take(key); n != nil && isScalar(n) && strings.TrimSpace(n.text) == "" {
		return
	}
	s.text(key, dst)
}

// word stores one of a closed list of strings.
func (s *section) word(key string, dst *string, allowed ...string) {
	n := s.value(key)
	if n == nil {
		return
	}
	v, ok := n.value.(string)
	if !ok || !slices.Contains(allowed, v) {
		s.r.refuse(s.key(key), n, "one of "+strings.Join(allowed, ", "))
		return
	}
	*dst = v
}

// flag stores a truth value.
func (s *section) flag(key string, dst *bool) {
	n := s.value(key)
	if n == nil {
		return
	}
	switch v := n.value.(type) {
	case bool:
		*dst = v
		return
	case string:
		if n.env != "" && (v == "true" || v == "false") {
			*dst = v == "true"
			return
		}
	}
	s.r.refuse(s.key(key), n, "true or false")
}

// whole returns n as a whole number from low to high; digits in quotes count too.
func (r *reader) whole(key string, n *node, low, high int64) (int64, bool) {
	var v int64
	ok := false
	switch x := n.value.(type) {
	case int64:
		v, ok = x, true
	case string:
		var err error
		v, err = strconv.ParseInt(strings.TrimSpace(x), 10, 64)
		ok = err == nil
	}
	if ok && v >= low && v <= high {
		return v, true
	}
	must := fmt.Sprintf("a whole number of at least %d", low)
	switch {
	case low == math.MinInt64:
		must = "a whole number"
	case ok && v > high:
		must = fmt.Sprintf("a whole number from %d to %d", low, high)
	}
	r.refuse(key, n, must)
	return 0, false
}

// number stores a whole number of at least low.
func (s *section) number(key string, dst *int, low int64) {
	if n := s.value(key); n != nil {
		if v, ok := s.r.whole(s.key(key), n, low, math.MaxInt32); ok {
			*dst = int(v)
		}
	}
}

// count is number for what may not fit an int.
func (s *section) count(key string, dst *int64, low int64) {
	if n := s.value(key); n != nil {
		if v, ok := s.r.whole(s.key(key), n, low, math.MaxInt64); ok {
			*dst = v
		}
	}
}

const maxMillis = math.MaxInt64 / int64(time.Millisecond)

// millis stores a duration that is given in milliseconds.
func (s *section) millis(key string, dst *time.Duration, low int64) {
	if n := s.value(key); n != nil {
		if v, ok := s.r.whole(s.key(key), n, low, maxMillis); ok {
			*dst = time.Duration(v) * time.Millisecond
		}
	}
}

// millisOr is millis where a value of 0 or less means whatever instead is.
func (s *section) millisOr(key string, dst *time.Duration, instead time.Duration) {
	n := s.value(key)
	if n == nil {
		return
	}
	v, ok := s.r.whole(s.key(key), n, math.MinInt64, maxMillis)
	switch {
	case ok && v > 0:
		*dst = time.Duration(v) * time.Millisecond
	case ok:
		*dst = instead
	}
}

// items returns the elements of a list, with $NAME resolved, and whether there is
// a list at all.
func (s *section) items(key string) ([]*node, bool) {
	n := s.take(key)
	if n == nil {
		return nil, false
	}
	list, ok := n.value.([]*node)
	if !ok {
		s.r.refuse(s.key(key), n, "a list")
		return nil, false
	}
	var out []*node
	for _, item := range list {
		if item, ok := s.r.resolveOrFault(s.key(key), item); ok {
			out = append(out, item)
		}
	}
	return out, true
}

// texts stores a list of strings, trimmed, each once. An empty list is not nil.
func (s *section) texts(key string, dst *[]string) {
	items, ok := s.items(key)
	if !ok {
		return
	}
	list := []string{}
	for _, item := range items {
		v, ok := s.r.text(s.key(key), item)
		if v = strings.TrimSpace(v); ok && !slices.Contains(list, v) {
			list = append(list, v)
		}
	}
	*dst = list
}

// names stores a list of names of environment variables. They are never resolved:
// $NAME for a name would be a secret in a message.
func (s *section) names(key string, dst *[]string) {
	n := s.take(key)
	if n == nil {
		return
	}
	list, ok := n.value.([]*node)
	if !ok {
		s.r.refuse(s.key(key), n, "a list")
		return
	}
	for _, item := range list {
		if v, ok := s.r.name(s.key(key), item); ok {
			*dst = append(*dst, v)
		}
	}
}

// variable stores the name of an environment variable.
func (s *section) variable(key string, dst *string) {
	n := s.take(key)
	if n == nil {
		return
	}
	if v, ok := s.r.name(s.key(key), n); ok {
		*dst = v
	}
}

func (r *reader) name(key string, n *node) (string, bool) {
	v, ok := n.value.(string)
	if !ok || !isVariable(v) {
		r.refuse(key, n, "the name of an environment variable")
		return "", false
	}
	return v, true
}

// path stores an absolute path.
func (s *section) path(key string, dst *string) {
	n := s.value(key)
	if n == nil {
		return
	}
	v, ok := s.r.text(s.key(key), n)
	if !ok {
		return
	}
	abs, err := s.r.absolutePath(v)
	if err != nil {
		s.r.fault(s.key(key), n, "%v", err)
		return
	}
	*dst = abs
}

// command stores a command whose program does not depend on the working directory.
func (s *section) command(key string, dst *string) {
	var v string
	if s.text(key, &v); v != "" {
		*dst = s.r.absoluteCommand(v)
	}
}
