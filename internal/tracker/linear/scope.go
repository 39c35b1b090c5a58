package linear

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/vektah/gqlparser/v2/ast"
	"github.com/vektah/gqlparser/v2/parser"

	"ostoolkit/internal/tracker"
)

// maxTokens bounds a document that an agent sends.
const maxTokens = 20_000

// touched is what a document reaches, by the names it uses.
type touched struct {
	mutation bool
	issues   []string // ids or identifiers
	comments []string // ids
	projects []string // ids
}

// rule says what one field at the root of a document reaches.
type rule struct {
	// The arguments that name an issue or a comment; "input.issueId" is a member.
	issues, comments, projects []string
	// inputs are the members that its argument input may have.
	inputs []string
	// needs is what has to be given, or the field reaches everything.
	needs string
}

// The fields that may be asked for and changed within a project. Whatever is not here
// needs the scope "any": what Linear adds tomorrow must not be open by itself.
func queryRules() map[string]rule {
	return map[string]rule{
		"issue":           {issues: []string{"id"}, needs: "id"},
		"comment":         {comments: []string{"id"}, needs: "id"},
		"issues":          {}, // its filter is looked at
		"viewer":          {},
		"workflowStates":  {},
		"team":            {},
		"teams":           {},
		"issueLabels":     {},
		"rateLimitStatus": {},
		"__schema":        {},
		"__type":          {},
		"__typename":      {},
	}
}

func mutationRules() map[string]rule {
	content := []string{"title", "description", "priority", "estimate", "assigneeId", "delegateId", "stateId", "labelIds", "dueDate",
		"sortOrder", "subIssueSortOrder", "parentId", "projectMilestoneId", "subscriberIds"}
	return map[string]rule{
		"issueUpdate": {issues: []string{"id", "input.parentId"}, needs: "id", inputs: append([]string{"addedLabelIds", "removedLabelIds"}, content...)},
		"issueCreate": {issues: []string{"input.parentId"}, projects: []string{"input.projectId"}, needs: "input.projectId",
			inputs: append([]string{"id", "teamId", "projectId"}, content...)},
		"issueAddLabel":    {issues: []string{"id"}, needs: "id"},
		"issueRemoveLabel": {issues: []string{"id"}, needs: "id"},
		"issueRelationCreate": {issues: []string{"input.issueId", "input.relatedIssueId"}, needs: "input.issueId",
			inputs: []string{"id", "issueId", "relatedIssueId", "type"}},
		"commentCreate": {issues: []string{"input.issueId"}, comments: []string{"input.parentId"}, needs: "input.issueId",
			inputs: []string{"id", "body", "bodyData", "issueId", "parentId", "quotedText", "doNotSubscribeToIssue"}},
		"commentUpdate": {comments: []string{"id", "input.resolvingCommentId"}, needs: "id",
			inputs: []string{"body", "bodyData", "quotedText", "resolvingCommentId", "doNotSubscribeToIssue"}},
		"commentDelete":          {comments: []string{"id"}, needs: "id"},
		"commentResolve":         {comments: []string{"id", "resolvingCommentId"}, needs: "id"},
		"commentUnresolve":       {comments: []string{"id"}, needs: "id"},
		"attachmentLinkURL":      {issues: []string{"issueId"}, needs: "issueId"},
		"attachmentLinkGitHubPR": {issues: []string{"issueId"}, needs: "issueId"},
		"attachmentCreate": {issues: []string{"input.issueId"}, needs: "input.issueId",
			inputs: []string{"id", "issueId", "title", "subtitle", "url", "iconUrl", "metadata"}},
		"fileUpload": {},
		"__typename": {},
	}
}

// inside are the fields with members of their own that may be followed below the root.
// None of them leads from an issue to issues in general.
func inside() []string {
	return []string{
		"nodes", "edges", "node", "pageInfo", "issue", "comment", "attachment", "entity", "issueRelation",
		"state", "states", "team", "labels", "parent", "children", "relations", "inverseRelations", "relatedIssue",
		"attachments", "comments", "user", "creator", "assignee", "delegate", "botActor", "resolvingUser",
		"project", "projectMilestone", "cycle", "limits", "uploadFile", "headers",
		"types", "fields", "args", "type", "ofType", "inputFields", "enumValues", "interfaces", "possibleTypes",
		"queryType", "mutationType", "subscriptionType", "directives",
	}
}

// reach returns what a document reaches. It is an error if that cannot be said, or is
// more than issues of one project.
func (p *Project) reach(query string, vars map[string]any) (*touched, error) {
	doc, err := parser.ParseQueryWithTokenLimit(&ast.Source{Input: query}, maxTokens)
	if err != nil {
		return nil, tracker.Errorf(tracker.BadArguments, "query: %s", p.remote.Secrets.Preview(err.Error()))
	}
	if len(doc.Operations) != 1 {
		return nil, tracker.Errorf(tracker.BadArguments, "query holds %d operations; one is wanted", len(doc.Operations))
	}
	op := doc.Operations[0]
	s := sight{p: p, doc: doc, vars: map[string]any{}, rules: queryRules(), inside: inside(), out: &touched{}}
	if err := s.variables(op, vars); err != nil {
		return nil, err
	}
	switch op.Operation {
	case ast.Mutation:
		s.out.mutation, s.rules = true, mutationRules()
	case ast.Subscription:
		return nil, tracker.Errorf(tracker.BadArguments, "query is a subscription, which has no end")
	}
	return s.out, s.set(op.SelectionSet, s.root, nil)
}

// sight is one look through a document.
type sight struct {
	p      *Project
	doc    *ast.QueryDocument
	vars   map[string]any
	rules  map[string]rule
	inside []string
	out    *touched
}

// variables takes those that were given over the defaults of the document.
func (s *sight) variables(op *ast.OperationDefinition, given map[string]any) error {
	for _, v := range op.VariableDefinitions {
		if v.DefaultValue != nil {
			value, err := v.DefaultValue.Value(nil)
			if err != nil {
				return tracker.Errorf(tracker.BadArguments, "query: the default of $%s cannot be read", v.Variable)
			}
			s.vars[v.Variable] = value
		}
	}
	maps.Copy(s.vars, given)
	return nil
}

// set visits the fields of a selection, through its fragments. open are the names of
// the fragments on the way here.
func (s *sight) set(set ast.SelectionSet, visit func(*ast.Field, []string) error, open []string) error {
	for _, item := range set {
		var err error
		switch item := item.(type) {
		case *ast.Field:
			err = visit(item, open)
		case *ast.InlineFragment:
			err = s.set(item.SelectionSet, visit, open)
		case *ast.FragmentSpread:
			f := s.doc.Fragments.ForName(item.Name)
			if f == nil || slices.Contains(open, item.Name) {
				return tracker.Errorf(tracker.BadArguments, "query: fragment %q is missing, or holds itself", item.Name)
			}
			err = s.set(f.SelectionSet, visit, append(slices.Clone(open), item.Name))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// below refuses a field that leads out of the issues that the root names.
func (s *sight) below(f *ast.Field, open []string) error {
	if len(f.SelectionSet) > 0 && !slices.Contains(s.inside, f.Name) {
		return outOfScope("the field %q leads out of the project", f.Name)
	}
	return s.set(f.SelectionSet, s.below, open)
}

// root applies the rule of a field at the root.
func (s *sight) root(f *ast.Field, open []string) error {
	r, ok := s.rules[f.Name]
	if !ok {
		return outOfScope("%q is not among what a project's tool may use: %s", f.Name, strings.Join(slices.Sorted(maps.Keys(s.rules)), ", "))
	}
	args := map[string]any{}
	for _, a := range f.Arguments {
		value, err := a.Value.Value(s.vars)
		if err != nil {
			return tracker.Errorf(tracker.BadArguments, "query: argument %q: %s", a.Name, s.p.remote.Secrets.Preview(err.Error()))
		}
		args[a.Name] = value
	}
	if f.Name == "issues" && !s.p.pinned(args["filter"]) {
		return outOfScope(`the filter of "issues" has to hold project: {slugId: {eq: %q}}`, s.p.slugs[len(s.p.slugs)-1])
	}
	if err := s.apply(f.Name, r, args); err != nil {
		return err
	}
	return s.set(f.SelectionSet, s.below, open)
}

func (s *sight) apply(name string, r rule, args map[string]any) error {
	if input, ok := args["input"].(map[string]any); ok {
		for member := range input {
			if !slices.Contains(r.inputs, member) {
				return outOfScope("%s may not set %q", name, member)
			}
		}
	}
	for _, kind := range []struct {
		paths []string
		into  *[]string
	}{{r.issues, &s.out.issues}, {r.comments, &s.out.comments}, {r.projects, &s.out.projects}} {
		for _, path := range kind.paths {
			value := member(args, path)
			text, ok := value.(string)
			switch {
			case ok:
				*kind.into = append(*kind.into, strings.TrimSpace(text))
			case value != nil || path == r.needs:
				return tracker.Errorf(tracker.BadArguments, "%s: %s is not an id", name, path)
			}
		}
	}
	return nil
}

// member returns an argument, or a member of one; nil if it is not there.
func member(args map[string]any, path string) any {
	name, rest, nested := strings.Cut(path, ".")
	if !nested {
		return args[name]
	}
	inner, _ := args[name].(map[string]any)
	return inner[rest]
}

// pinned tells whether a filter for issues lets only those of the project through. The
// members of a filter hold together, so one of them is enough; "or" beside it is
// not trusted to.
func (p *Project) pinned(raw any) bool {
	f, _ := raw.(map[string]any)
	project, _ := f["project"].(map[string]any)
	slug, _ := project["slugId"].(map[string]any)
	eq, _ := slug["eq"].(string)
	_, or := f["or"]
	_, orProject := project["or"]
	return len(slug) == 1 && !or && !orProject && slices.Contains(p.slugs, eq)
}

func outOfScope(format string, args ...any) error {
	return &tracker.Error{Category: tracker.Denied, Message: fmt.Sprintf(format, args...), Hint: "os-poll tool --tool-scope any lifts the limit"}
}
