package linear

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"ostoolkit/internal/tracker"
	"ostoolkit/internal/tracker/remote"
	"ostoolkit/internal/wire"
)

// node is an issue as Linear sends it. Members that an issue can do without are
// remote.Optional: a value of the wrong kind is taken for none.
type node struct {
	ID          string                    `json:"id"`
	Identifier  string                    `json:"identifier"`
	Title       string                    `json:"title"`
	State       *state                    `json:"state"`
	Description remote.Optional[string]   `json:"description"`
	Priority    remote.Optional[float64]  `json:"priority"`
	BranchName  remote.Optional[string]   `json:"branchName"`
	URL         remote.Optional[string]   `json:"url"`
	CreatedAt   remote.Optional[string]   `json:"createdAt"`
	UpdatedAt   remote.Optional[string]   `json:"updatedAt"`
	ArchivedAt  remote.Optional[string]   `json:"archivedAt"`
	Trashed     remote.Optional[bool]     `json:"trashed"`
	Team        remote.Optional[team]     `json:"team"`
	Assignee    remote.Optional[user]     `json:"assignee"`
	Creator     remote.Optional[user]     `json:"creator"`
	Project     remote.Optional[project]  `json:"project"`
	Milestone   remote.Optional[named]    `json:"projectMilestone"`
	Parent      remote.Optional[neighbor] `json:"parent"`

	Labels           connection[remote.Optional[named]]      `json:"labels"`
	InverseRelations connection[*relation]                   `json:"inverseRelations"`
	Children         connection[*neighbor]                   `json:"children"`
	Attachments      connection[remote.Optional[attachment]] `json:"attachments"`
}

type (
	state struct {
		ID   string `json:"id"`
		Name string `json:"name"`
		Type string `json:"type"`
	}
	team struct {
		ID  string `json:"id"`
		Key string `json:"key"`
	}
	user struct {
		ID          string `json:"id"`
		DisplayName string `json:"displayName"`
		Guest       *bool  `json:"guest"`
	}
	project struct {
		ID     string `json:"id"`
		SlugID string `json:"slugId"`
		Name   string `json:"name"`
	}
	named struct {
		Name string `json:"name"`
	}
	// neighbor is an issue seen from another one.
	neighbor struct {
		ID         string `json:"id"`
		Identifier string `json:"identifier"`
		State      *named `json:"state"`
	}
	// relation stands at the issue it points to: in "A blocks B" the issue is A.
	relation struct {
		Type  string    `json:"type"`
		Issue *neighbor `json:"issue"`
	}
	attachment struct {
		URL        string `json:"url"`
		SourceType string `json:"sourceType"`
		CreatedAt  string `json:"createdAt"`
	}
)

// connection is one page of a list.
type connection[T any] struct {
	Nodes    []T       `json:"nodes"`
	PageInfo *pageInfo `json:"pageInfo"`
}

type pageInfo struct {
	HasNextPage *bool  `json:"hasNextPage"`
	EndCursor   string `json:"endCursor"`
}

// last tells whether a page is known to be the last one.
func (i *pageInfo) last() bool { return i != nil && i.HasNextPage != nil && !*i.HasNextPage }

// next returns the cursor of the page behind this one, and whether there is one.
func (c *connection[T]) next(pages *remote.Pages) (after string, more bool, err error) {
	if c.PageInfo == nil {
		c.PageInfo = &pageInfo{}
	}
	after = strings.TrimSpace(c.PageInfo.EndCursor)
	more, err = pages.Next(c.PageInfo.HasNextPage, after)
	return after, more, err
}

// decodeNode reads one record strictly where an issue cannot do without.
func decodeNode(raw json.RawMessage) (*node, error) {
	if bytes.Equal(raw, []byte("null")) {
		return nil, errors.New("record is null")
	}
	n := &node{}
	if err := json.Unmarshal(raw, n); err != nil {
		return nil, fmt.Errorf("record: %s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if n.State == nil {
		return nil, errors.New("state is missing")
	}
	return n, nil
}

// nameOf returns how to call a record that may not be readable.
func nameOf(raw json.RawMessage, place int) string {
	var n struct {
		ID         remote.Optional[string] `json:"id"`
		Identifier remote.Optional[string] `json:"identifier"`
	}
	_ = json.Unmarshal(raw, &n) // the place has to do then
	for _, name := range []string{n.Identifier.Value, n.ID.Value} {
		if strings.TrimSpace(name) != "" {
			return "issue " + name
		}
	}
	return fmt.Sprintf("issue number %d of the page", place+1)
}

// issue returns the record of n, whose nested lists are whole.
func (p *Project) issue(n *node, me string) (*wire.Issue, error) {
	issue := &wire.Issue{
		ID: n.ID, Identifier: n.Identifier, Title: n.Title, NativeRef: nativeRef(n),
		Description: wire.Text(n.Description.Value),
		Priority:    priority(n.Priority.Value),
		State:       n.State.Name, StateKind: stateKind(n.State.Type),
		BranchName: wire.Text(n.BranchName.Value), URL: wire.Text(n.URL.Value),
		AssigneeID: wire.Text(n.Assignee.Value.ID),
		BlockedBy:  blockers(n.InverseRelations.Nodes),
		Children:   children(n.Children.Nodes),
		PRURL:      wire.Text(pullRequest(n.Attachments.Nodes)),
		Milestone:  wire.Text(n.Milestone.Value.Name),
		Author:     wire.Text(n.Creator.Value.DisplayName), Trusted: trusted(n.Creator.Value),
		Archived:  n.ArchivedAt.Value != "" || n.Trashed.Value,
		Tracker:   Kind,
		CreatedAt: tracker.Instant(n.CreatedAt.Value), UpdatedAt: tracker.Instant(n.UpdatedAt.Value),
	}
	if parent := n.Parent.Value; parent.ID != "" {
		issue.Parent = new(reference(parent))
	}
	if pr := n.Project.Value; pr.ID != "" {
		issue.Project = &wire.Project{ID: wire.Text(pr.ID), Slug: wire.Text(pr.SlugID), Name: wire.Text(pr.Name)}
	}
	for _, l := range n.Labels.Nodes {
		issue.Labels = append(issue.Labels, l.Value.Name)
	}
	issue.Dispatchable = !issue.Archived && (me == "" || string(issue.AssigneeID) == me)
	return issue, p.rules.Normalise(issue)
}

// nativeRef holds the ids that a change by linear_graphql needs.
func nativeRef(n *node) json.RawMessage {
	b, err := wire.Encode(map[string]string{
		"id": n.ID, "state_id": n.State.ID, "team_id": n.Team.Value.ID, "team_key": n.Team.Value.Key, "project_id": n.Project.Value.ID,
	})
	if err != nil {
		return nil
	}
	return b
}

// priority is 1 to 4; Linear's 0 stands for none, and anything else ranks nowhere.
func priority(p float64) *int64 {
	if p != math.Trunc(p) || p < 1 || p > 4 {
		return nil
	}
	return new(int64(p))
}

func stateKind(kind string) string {
	known := []string{"triage", "backlog", "unstarted", "started", "completed", "canceled", "duplicate"}
	if kind = tracker.Fold(kind); slices.Contains(known, kind) {
		return kind
	}
	return "unknown"
}

// blockers are the issues that block this one, each once. One that Linear names
// without showing its state is not known, and so counts as open (case P12).
func blockers(relations []*relation) []wire.Blocker {
	var out []wire.Blocker
	for _, r := range relations {
		if r != nil && tracker.Fold(r.Type) != "blocks" {
			continue
		}
		b := wire.Blocker{}
		if r != nil && r.Issue != nil {
			ref := reference(*r.Issue)
			b = wire.Blocker{ID: wire.Text(ref.ID), Identifier: wire.Text(ref.Identifier), State: ref.State, Known: ref.State != ""}
		}
		if b.ID == "" || !slices.ContainsFunc(out, func(o wire.Blocker) bool { return o.ID == b.ID }) {
			out = append(out, b)
		}
	}
	return out
}

// children are the sub-issues, each once. One that is not shown counts as open.
func children(nodes []*neighbor) []wire.IssueRef {
	var out []wire.IssueRef
	for _, n := range nodes {
		if n == nil {
			n = &neighbor{}
		}
		ref := reference(*n)
		if !slices.ContainsFunc(out, func(o wire.IssueRef) bool { return o.ID == ref.ID }) {
			out = append(out, ref)
		}
	}
	return out
}

func reference(n neighbor) wire.IssueRef {
	ref := wire.IssueRef{ID: n.ID, Identifier: n.Identifier}
	if n.State != nil {
		ref.State = wire.Text(strings.TrimSpace(n.State.Name))
	}
	return ref
}

// pullPath is the end of the address of a pull or merge request at the usual hosts.
var pullPath = regexp.MustCompile(`^https?://[^/]+/.+/(?:pull|pulls|merge_requests|pull-requests)/[0-9]+/?(?:[?#].*)?$`)

// pullRequest returns the address of the newest attachment that is one, or "".
func pullRequest(attachments []remote.Optional[attachment]) string {
	newest, at := "", wire.Time{}
	for _, o := range attachments {
		a := o.Value
		if created := tracker.Instant(a.CreatedAt); pullPath.MatchString(a.URL) && (newest == "" || created.After(at.Time)) {
			newest, at = a.URL, created
		}
	}
	return newest
}

// trusted: members of the workspace are, guests are not. Of an issue that came in by
// an integration Linear does not tell who wrote it.
func trusted(creator user) *bool {
	if creator.DisplayName == "" || creator.Guest == nil {
		return nil
	}
	return new(!*creator.Guest)
}
