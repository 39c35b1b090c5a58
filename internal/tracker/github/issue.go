package github

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"ostoolkit/internal/tracker"
	"ostoolkit/internal/tracker/remote"
	"ostoolkit/internal/wire"
)

// node is an issue as GitHub sends it. Without a number, a title and a state it is
// unusable; every other member may be missing.
type node struct {
	Number      int64                            `json:"number"`
	Title       string                           `json:"title"`
	State       string                           `json:"state"`
	PullRequest json.RawMessage                  `json:"pull_request"` // there in a pull request only
	ID          remote.Optional[int64]           `json:"id"`
	NodeID      remote.Optional[string]          `json:"node_id"`
	Reason      remote.Optional[string]          `json:"state_reason"`
	Body        remote.Optional[string]          `json:"body"`
	URL         remote.Optional[string]          `json:"html_url"`
	User        remote.Optional[user]            `json:"user"`
	Association remote.Optional[string]          `json:"author_association"`
	Assignee    remote.Optional[user]            `json:"assignee"`
	Assignees   remote.Optional[[]user]          `json:"assignees"`
	Labels      []remote.Optional[label]         `json:"labels"`
	Milestone   remote.Optional[milestone]       `json:"milestone"`
	Repository  remote.Optional[string]          `json:"repository_url"`
	Parent      remote.Optional[string]          `json:"parent_issue_url"`
	SubIssues   remote.Optional[*childCounts]    `json:"sub_issues_summary"`
	Blocking    remote.Optional[*blockingCounts] `json:"issue_dependencies_summary"`
	CreatedAt   remote.Optional[string]          `json:"created_at"`
	UpdatedAt   remote.Optional[string]          `json:"updated_at"`
}

type user struct {
	Login string `json:"login"`
}

type milestone struct {
	Title string `json:"title"`
}

type childCounts struct {
	Total int `json:"total"`
}

type blockingCounts struct {
	Blocked int `json:"total_blocked_by"` // by issues in any state
}

// label is an object, or in old answers a bare name.
type label struct{ name string }

// UnmarshalJSON implements json.Unmarshaler.
func (l *label) UnmarshalJSON(b []byte) error {
	var o struct {
		Name string `json:"name"`
	}
	if json.Unmarshal(b, &l.name) == nil {
		return nil
	}
	err := json.Unmarshal(b, &o)
	l.name = o.Name
	return err
}

// pull tells whether the entry is a pull request.
func (n *node) pull() bool { return len(n.PullRequest) > 0 && string(n.PullRequest) != "null" }

func decodeNode(raw json.RawMessage) (*node, error) {
	var n node
	if err := json.Unmarshal(raw, &n); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	if n.Number <= 0 {
		return nil, errors.New("number is missing")
	}
	return &n, nil
}

// nameOf returns how to call an entry that may not be readable.
func nameOf(raw json.RawMessage, place int) string {
	var n struct {
		Number remote.Optional[int64] `json:"number"`
	}
	_ = json.Unmarshal(raw, &n) // the place has to do then
	if n.Number.Value > 0 {
		return "issue " + identifier(n.Number.Value)
	}
	return fmt.Sprintf("entry %d of the page", place+1)
}

func identifier(number int64) string { return "GH-" + strconv.FormatInt(number, 10) }

var identifierForm = regexp.MustCompile(`^(?i:GH-)([1-9][0-9]{0,17})$`)

// issue returns the record of n without its relations.
func (r *Repo) issue(n *node, wanted string) (*wire.Issue, error) {
	labels := n.labels()
	_, name, _ := strings.Cut(r.repo, "/")
	issue := &wire.Issue{
		ID: strconv.FormatInt(n.Number, 10), Identifier: identifier(n.Number), Title: n.Title, NativeRef: r.nativeRef(n),
		Description: wire.Text(n.Body.Value), Priority: r.priorityOf(labels),
		State: r.state(n.State, labels), StateKind: stateKind(n, r.state(n.State, labels)),
		URL: wire.Text(n.URL.Value), AssigneeID: wire.Text(n.Assignee.Value.Login), Labels: labels,
		Project:   &wire.Project{Slug: wire.Text(r.repo), Name: wire.Text(name)},
		Milestone: wire.Text(n.Milestone.Value.Title),
		Author:    wire.Text(n.User.Value.Login), Trusted: new(r.trusts(n.User.Value.Login, n.Association.Value)),
		Dispatchable: n.assigned(wanted), Tracker: Kind,
		CreatedAt: tracker.Instant(n.CreatedAt.Value), UpdatedAt: tracker.Instant(n.UpdatedAt.Value),
	}
	if parent, ok := r.reference(n.Parent.Value); ok {
		issue.Parent = &parent
	}
	return issue, r.rules.Normalise(issue)
}

// nativeRef holds what a change by github_api needs.
func (r *Repo) nativeRef(n *node) json.RawMessage {
	b, err := wire.Encode(struct {
		ID     int64  `json:"id"`
		NodeID string `json:"node_id"`
		Number int64  `json:"number"`
		Repo   string `json:"repo"`
	}{n.ID.Value, n.NodeID.Value, n.Number, r.repo})
	if err != nil {
		return nil
	}
	return b
}

func (n *node) labels() []string {
	var names []string
	for _, l := range n.Labels {
		names = append(names, l.Value.name)
	}
	return tracker.Labels(names)
}

// assigned tells whether the issue is the wanted user's, among others or alone.
func (n *node) assigned(wanted string) bool {
	if wanted == "" {
		return true
	}
	all := append(slices.Clone(n.Assignees.Value), n.Assignee.Value)
	return slices.ContainsFunc(all, func(u user) bool { return strings.EqualFold(u.Login, wanted) })
}

// trusts fails closed: an author or an association that is missing or not known is not
// trusted (case P14).
func (r *Repo) trusts(login, association string) bool {
	if login == "" {
		return false
	}
	switch strings.ToUpper(association) {
	case "OWNER", "MEMBER", "COLLABORATOR":
		return true
	}
	return slices.ContainsFunc(r.trusted, func(t string) bool { return strings.EqualFold(strings.TrimSpace(t), login) })
}

// state returns the state of an issue: that of its label, or GitHub's own. A closed
// issue is never taken back by a label that was left on it. Of several labels on an open
// issue one that keeps it from being worked on counts: who put it there has a reason.
func (r *Repo) state(raw string, labels []string) string {
	own := strings.TrimSpace(raw)
	var names []string
	for _, l := range labels {
		if s := r.stateLabel[l]; s != "" && (tracker.Fold(own) == stateOpen || r.rules.Category(s) == wire.CategoryTerminal) {
			names = append(names, s)
		}
	}
	if len(names) == 0 || own == "" {
		return own
	}
	rank := map[string]int{wire.CategoryTerminal: 0, wire.CategoryOther: 1, wire.CategoryActive: 2}
	return slices.MinFunc(names, func(a, b string) int {
		if d := rank[r.rules.Category(a)] - rank[r.rules.Category(b)]; d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
}

// stateKind is the kind of a state: of a closed issue by the reason that it was closed
// for.
func stateKind(n *node, state string) string {
	if tracker.Fold(n.State) != stateClosed {
		return tracker.StateKind(state)
	}
	switch tracker.Fold(n.Reason.Value) {
	case "not_planned":
		return "canceled"
	case "duplicate":
		return "duplicate"
	}
	if kind := tracker.StateKind(state); kind != "unknown" {
		return kind
	}
	return "completed"
}

// priorityOf returns the most urgent priority that a label stands for, or nil.
func (r *Repo) priorityOf(labels []string) *int64 {
	var best *int64
	for _, l := range labels {
		if p, ok := r.priority[l]; ok && (best == nil || p < *best) {
			best = new(p)
		}
	}
	return best
}

var issueAddress = regexp.MustCompile(`/repos/([^/]+/[^/]+)/issues/([1-9][0-9]*)$`)

// reference names the issue at an address of the API. One of another repository has its
// repository in its names, since ids and identifiers are those of this one.
func (r *Repo) reference(address string) (wire.IssueRef, bool) {
	m := issueAddress.FindStringSubmatch(address)
	switch {
	case m == nil:
		return wire.IssueRef{}, false
	case strings.EqualFold(m[1], r.repo):
		return wire.IssueRef{ID: m[2], Identifier: "GH-" + m[2]}, true
	}
	name := m[1] + "#" + m[2]
	return wire.IssueRef{ID: name, Identifier: name}, true
}
