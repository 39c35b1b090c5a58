package workflow

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// maxDepth and maxNodes bound the front matter's tree, aliases unfolded.
const (
	maxDepth = 100
	maxNodes = 100_000
)

// node is one value of the front matter.
type node struct {
	line  int    // in the file, from 1
	text  string // a scalar as it is written
	env   string // the variable that gave the value
	value any    // nil, bool, int64, uint64, float64, string, []*node or []entry
	size  int    // nodes in this tree, aliases unfolded
}

// entry is one key of a mapping, in the order of the file.
type entry struct {
	key  string
	line int
	node *node
}

// parse returns the mapping of the front matter; it is empty for empty text.
func (r *reader) parse(front string) (*node, error) {
	empty := &node{line: 1, value: []entry(nil)}
	if len(front) > maxFrontMatter {
		return nil, r.wrong(1, "the front matter is over the limit of %d bytes", maxFrontMatter)
	}
	if line := tooDeep(front); line > 0 {
		return nil, r.wrong(line+1, "the front matter is nested more than %d deep", maxDepth)
	}
	file, err := parseYAML(front)
	if err != nil {
		line, message := yamlProblem(err)
		return nil, r.wrong(line+1, "%s", message)
	}
	if len(file.Docs) > 1 {
		return nil, r.wrong(1, "the front matter holds more than one YAML document")
	}
	if len(file.Docs) == 0 || file.Docs[0].Body == nil {
		return empty, nil
	}
	b := builder{anchors: map[string]*node{}}
	root, err := b.build(file.Docs[0].Body, 0)
	if err != nil {
		return nil, r.wrong(b.line, "%v", err)
	}
	if _, ok := root.value.([]entry); !ok {
		return nil, r.wrong(root.line, "the front matter is not a map of keys to values")
	}
	return root, nil
}

// parseYAML guards against panics of the YAML library, which would take down a
// command over a typing error.
func parseYAML(text string) (file *ast.File, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the front matter is not YAML: %v", p)
		}
	}()
	return parser.ParseBytes([]byte(text), 0)
}

func yamlProblem(err error) (line int, message string) {
	var syntax yaml.Error
	if !errors.As(err, &syntax) {
		return 0, err.Error()
	}
	if t := syntax.GetToken(); t != nil && t.Position != nil {
		line = t.Position.Line
	}
	return line, "the front matter is not YAML: " + syntax.GetMessage()
}

// tooDeep returns the line, from 1, where brackets or dashes nest so deep that the
// parser would need minutes, or 0. It does not know quotes; an unbalanced text in
// quotes would need a hundred brackets to be misjudged.
func tooDeep(text string) int {
	depth := 0
	for i, line := range strings.Split(text, "\n") {
		dashes := strings.Count(line, "- ") - strings.Count(strings.TrimLeft(line, "- "), "- ")
		for _, c := range line {
			switch c {
			case '[', '{':
				depth++
			case ']', '}':
				depth = max(0, depth-1)
			}
			if depth > maxDepth || dashes > maxDepth {
				return i + 1
			}
		}
	}
	return 0
}

// builder turns the library's tree into nodes. line is where it met an error.
type builder struct {
	anchors map[string]*node
	line    int
}

func (b *builder) build(n ast.Node, depth int) (*node, error) {
	line := lineOf(n)
	b.line = line
	if depth > maxDepth {
		return nil, fmt.Errorf("the front matter is nested more than %d deep", maxDepth)
	}
	switch n := n.(type) {
	case nil:
		return &node{line: line, size: 1}, nil
	case *ast.AnchorNode:
		v, err := b.build(n.Value, depth+1)
		if err == nil {
			b.anchors[n.Name.GetToken().Value] = v
		}
		return v, err
	case *ast.AliasNode:
		return b.alias(n, line)
	case *ast.TagNode:
		return b.tagged(n, depth)
	case *ast.SequenceNode:
		return b.sequence(n, line, depth)
	case ast.MapNode:
		return b.mapping(n, line, depth)
	case ast.ScalarNode:
		return scalar(n, line)
	}
	return nil, fmt.Errorf("the front matter has a %s, which has no meaning here", n.Type())
}

func lineOf(n ast.Node) int {
	if n == nil {
		return 1
	}
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		return lineOf(m.Values[0].Key)
	}
	if t := n.GetToken(); t != nil && t.Position != nil {
		return t.Position.Line + 1 // the file's first line is the delimiter
	}
	return 1
}

func scalar(n ast.ScalarNode, line int) (*node, error) {
	out := &node{line: line, size: 1, text: n.GetToken().Value, value: n.GetValue()}
	if block, ok := n.(*ast.LiteralNode); ok {
		out.value = block.Value.Value // GetValue is the block as it was written
	}
	switch v := out.value.(type) {
	case string:
		out.text = v
	case nil, bool, int64, float64:
	case uint64:
		if v < 1<<63 {
			out.value = int64(v)
		}
	default:
		return nil, fmt.Errorf("the front matter has a %s, which has no meaning here", n.Type())
	}
	return out, nil
}

func (b *builder) alias(n *ast.AliasNode, line int) (*node, error) {
	name := n.Value.GetToken().Value
	v, ok := b.anchors[name]
	if !ok {
		return nil, fmt.Errorf("the alias %q names no anchor above it", name)
	}
	out := *v
	out.line = line
	return &out, nil
}

// tagged honours !!str, which makes text of a number; other tags say nothing that
// the checks of each key do not say better.
func (b *builder) tagged(n *ast.TagNode, depth int) (*node, error) {
	v, err := b.build(n.Value, depth+1)
	if err == nil && n.GetToken().Value == "!!str" && isScalar(v) {
		v.value = v.text
	}
	return v, err
}

func isScalar(n *node) bool {
	switch n.value.(type) {
	case []*node, []entry:
		return false
	}
	return true
}

func (b *builder) sequence(n *ast.SequenceNode, line, depth int) (*node, error) {
	out := &node{line: line, size: 1}
	items := make([]*node, 0, len(n.Values))
	for _, v := range n.Values {
		item, err := b.build(v, depth+1)
		if err != nil {
			return nil, err
		}
		items = append(items, item)
		if out.size += item.size; out.size > maxNodes {
			return nil, b.tooMany(line)
		}
	}
	out.value = items
	return out, nil
}

func (b *builder) tooMany(line int) error {
	b.line = line
	return fmt.Errorf("the front matter has more than %d values", maxNodes)
}

func (b *builder) mapping(n ast.MapNode, line, depth int) (*node, error) {
	out := &node{line: line, size: 1}
	var own, merged []entry
	for it := n.MapRange(); it.Next(); {
		value, err := b.build(it.Value(), depth+1)
		if err != nil {
			return nil, err
		}
		if out.size += value.size; out.size > maxNodes {
			return nil, b.tooMany(line)
		}
		if it.Key().IsMergeKey() {
			more, err := b.merge(it.Key(), value)
			if err != nil {
				return nil, err
			}
			merged = append(merged, more...)
			continue
		}
		key, err := b.build(it.Key(), depth+1)
		if err != nil {
			return nil, err
		}
		if !isScalar(key) {
			return nil, errors.New("a key of the front matter is not a word")
		}
		own = append(own, entry{key: key.text, line: key.line, node: value})
	}
	out.value = withDefaults(own, merged)
	return out, nil
}

// merge returns the entries that << brings in.
func (b *builder) merge(key ast.Node, value *node) ([]entry, error) {
	switch v := value.value.(type) {
	case []entry:
		return v, nil
	case []*node:
		var all []entry
		for _, item := range v {
			entries, err := b.merge(key, item)
			if err != nil {
				return nil, err
			}
			all = append(all, entries...)
		}
		return all, nil
	}
	b.line = lineOf(key)
	return nil, errors.New("<< takes a map or a list of maps")
}

// withDefaults adds the merged entries whose keys are not there yet.
func withDefaults(own, merged []entry) []entry {
	seen := map[string]bool{}
	for _, e := range own {
		seen[e.key] = true
	}
	for _, e := range merged {
		if !seen[e.key] {
			seen[e.key] = true
			own = append(own, e)
		}
	}
	return own
}

// plain returns a value as encoding/json would: map[string]any, []any and scalars.
func (n *node) plain() any {
	switch v := n.value.(type) {
	case []*node:
		list := make([]any, len(v))
		for i, item := range v {
			list[i] = item.plain()
		}
		return list
	case []entry:
		m := make(map[string]any, len(v))
		for _, e := range v {
			m[e.key] = e.node.plain()
		}
		return m
	default:
		return v
	}
}
