package linear

import (
	"os"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/validator/rules"

	"ostoolkit/internal/peertest"
)

// wholeSchema names a file with Linear's own schema, for those who have it.
const wholeSchema = "OS_LINEAR_SCHEMA"

// queries are all documents that we send.
func queries() []string {
	return []string{
		issuesQuery, labelsQuery, relationsQuery, childrenQuery, attachmentsQuery, viewerQuery,
		projectQuery, commentsQuery, touchedQuery, commentIssueQuery,
	}
}

func load(t *testing.T, name, text string) *ast.Schema {
	t.Helper()
	schema, err := gqlparser.LoadSchema(&ast.Source{Name: name, Input: text})
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func linearsOwn(t *testing.T) *ast.Schema {
	t.Helper()
	path := os.Getenv(wholeSchema)
	if path == "" {
		t.Skip(wholeSchema + " is not set")
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return load(t, path, string(text))
}

func checkQueries(t *testing.T, schema *ast.Schema) {
	t.Helper()
	for _, q := range queries() {
		doc, errs := gqlparser.LoadQueryWithRules(schema, q, rules.NewDefaultRules())
		if errs != nil {
			t.Errorf("%v in\n%s", errs, q)
			continue
		}
		bounded(t, doc.Operations[0].SelectionSet)
	}
}

// bounded fails at a list without a size of its own (case P10).
func bounded(t *testing.T, set ast.SelectionSet) {
	t.Helper()
	for _, s := range set {
		switch s := s.(type) {
		case *ast.FragmentSpread:
			bounded(t, s.Definition.SelectionSet)
		case *ast.Field:
			if strings.HasSuffix(s.Definition.Type.Name(), "Connection") && s.Arguments.ForName("first") == nil {
				t.Errorf("the list %s has no size of its own", s.Name)
			}
			bounded(t, s.SelectionSet)
		}
	}
}

func TestQueriesFitTheExcerpt(t *testing.T) {
	checkQueries(t, load(t, "excerpt", peertest.LinearSchema))
}

func TestQueriesFitLinear(t *testing.T) { checkQueries(t, linearsOwn(t)) }

// The stand-in knows a part of Linear, and nothing that Linear does not.
func TestExcerptFitsLinear(t *testing.T) {
	whole, excerpt := linearsOwn(t), load(t, "excerpt", peertest.LinearSchema)
	for name, part := range excerpt.Types {
		of := whole.Types[name]
		if of == nil || of.Kind != part.Kind {
			t.Errorf("Linear has no %s %s", part.Kind, name)
			continue
		}
		for _, f := range part.Fields {
			if strings.HasPrefix(f.Name, "__") {
				continue
			}
			own := of.Fields.ForName(f.Name)
			if own == nil || own.Type.String() != f.Type.String() {
				t.Errorf("Linear has no %s.%s: %s", name, f.Name, f.Type)
				continue
			}
			for _, a := range f.Arguments {
				if arg := own.Arguments.ForName(a.Name); arg == nil || arg.Type.String() != a.Type.String() {
					t.Errorf("Linear has no %s.%s(%s: %s)", name, f.Name, a.Name, a.Type)
				}
			}
		}
		for _, v := range part.EnumValues {
			if of.EnumValues.ForName(v.Name) == nil {
				t.Errorf("Linear has no %s.%s", name, v.Name)
			}
		}
	}
}
