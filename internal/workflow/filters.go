package workflow

import (
	"reflect"
	"strings"
	"time"

	"github.com/osteele/liquid"
	"github.com/osteele/liquid/filters"
	"github.com/osteele/liquid/render"
	"github.com/osteele/liquid/values"
	"github.com/osteele/tuesday"
)

// ourFilters stand in for those of the library that panic on plain input: truncate
// over 1,000 characters, truncatewords over 1,000 words, slice past the end, uniq on
// a null; and for date, which makes the year 1 of a null.
var ourFilters = map[string]any{
	"truncate":      truncate,
	"truncatewords": truncateWords,
	"slice":         slice,
	"uniq":          uniq,
	"date":          date,
}

// newEngine returns an engine that reads no files.
func newEngine() *liquid.Engine {
	e := liquid.NewEngine()
	for name, f := range ourFilters {
		e.RegisterFilter(name, f)
	}
	e.RegisterTag("include", func(ctx render.Context) (string, error) {
		return "", ctx.Errorf("a prompt includes no files")
	})
	return e
}

// filterArgs maps the name of a filter to the number of arguments that it takes.
type filterArgs map[string]int

// AddFilter implements filters.FilterDictionary.
func (f filterArgs) AddFilter(name string, fn any) { f[name] = reflect.TypeOf(fn).NumIn() - 1 }

func standardFilters() filterArgs {
	known := filterArgs{}
	filters.AddStandardFilters(known)
	for name, fn := range ourFilters {
		known.AddFilter(name, fn)
	}
	return known
}

func truncate(s string, length func(int) int, ellipsis func(string) string) string {
	tail := []rune(ellipsis("..."))
	text, limit := []rune(s), length(50)
	if len(text) <= limit {
		return s
	}
	return string(text[:max(0, limit-len(tail))]) + string(tail)
}

func truncateWords(s string, length func(int) int, ellipsis func(string) string) string {
	words, limit := strings.Fields(s), max(1, length(15))
	if len(words) <= limit {
		return s
	}
	return strings.Join(words[:limit], " ") + ellipsis("...")
}

func slice(s string, start int, length func(int) int) string {
	text := []rune(s)
	if start < 0 {
		start += len(text)
	}
	if start < 0 || start >= len(text) {
		return ""
	}
	n := min(max(0, length(1)), len(text)-start)
	return string(text[start : start+n])
}

func uniq(list []any) []any {
	var out []any
	for _, item := range list {
		known := false
		for _, o := range out {
			known = known || reflect.DeepEqual(o, item)
		}
		if !known {
			out = append(out, item)
		}
	}
	return out
}

func date(v any, format func(string) string) (any, error) {
	if v == nil || v == "" {
		return nil, nil
	}
	t, err := values.Convert(v, reflect.TypeFor[time.Time]())
	if err != nil {
		return nil, err
	}
	return tuesday.Strftime(format("%a, %b %d, %y"), t.(time.Time))
}
