package peertest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// githubData is the data set of a stand-in of GitHub.
type githubData struct {
	Repo     string         `json:"repo"`      // owner/name
	Login    string         `json:"login"`     // of the token's user
	Quota    int            `json:"quota"`     // requests; default 5000
	Left     int            `json:"left"`      // of them; default all
	NoIssues bool           `json:"no_issues"` // switched off
	NoLinks  bool           `json:"no_links"`  // something on the way takes the Link headers out
	NoTags   bool           `json:"no_tags"`   // no ETag
	Old      bool           `json:"old"`       // knows no dependencies and no sub-issues
	Fill     int            `json:"fill"`      // issues of no interest to add
	Issues   []*githubIssue `json:"issues"`

	byNumber map[int]*githubIssue
	parent   map[int]int
}

// githubIssue is an issue or a pull request.
type githubIssue struct {
	Number      int              `json:"number"`
	Title       string           `json:"title"`
	Body        any              `json:"body"`
	State       string           `json:"state"` // default open
	Reason      any              `json:"state_reason"`
	User        string           `json:"user"`
	Association string           `json:"author_association"`
	Labels      []string         `json:"labels"`
	Assignees   []string         `json:"assignees"`
	Milestone   string           `json:"milestone"`
	Pull        bool             `json:"pull"`
	BlockedBy   []int            `json:"blocked_by"`
	SubIssues   []int            `json:"sub_issues"`
	Foreign     string           `json:"foreign"`   // the repository that it is in, if not this one: seen as a relation only
	Deleted     bool             `json:"deleted"`   // 410
	MovedTo     string           `json:"moved_to"`  // 301
	LinkedBy    []string         `json:"linked_by"` // addresses of pull requests
	Comments    []map[string]any `json:"comments"`
	CreatedAt   string           `json:"created_at"` // default by number
	UpdatedAt   string           `json:"updated_at"` // default created_at
	Set         map[string]any   `json:"set"`        // members in place of the usual ones
}

func readGitHub(data []byte) (*githubData, error) {
	world := &githubData{Repo: "acme/app", Login: "bot", Quota: 5000, Left: -1}
	if err := json.Unmarshal(data, world); err != nil {
		return nil, fmt.Errorf("read the data of GitHub's stand-in: %w", err)
	}
	if world.Left < 0 {
		world.Left = world.Quota
	}
	number := 0
	for _, i := range world.Issues {
		number = max(number, i.Number)
	}
	for n := number + 1; n <= number+world.Fill; n++ {
		world.Issues = append(world.Issues, &githubIssue{Number: n, Title: fmt.Sprintf("Issue %d", n), Body: strings.Repeat("text ", 100)})
	}
	world.byNumber, world.parent = map[int]*githubIssue{}, map[int]int{}
	for _, i := range world.Issues {
		i.complete()
		world.byNumber[i.Number] = i
		for _, child := range i.SubIssues {
			world.parent[child] = i.Number
		}
	}
	slices.SortStableFunc(world.Issues, func(a, b *githubIssue) int { return strings.Compare(a.CreatedAt, b.CreatedAt) })
	return world, nil
}

func (i *githubIssue) complete() {
	if i.State == "" {
		i.State = "open"
	}
	if i.CreatedAt == "" {
		i.CreatedAt = time.Date(2026, 1, 1, 0, i.Number, 0, 0, time.UTC).Format(time.RFC3339)
	}
	if i.UpdatedAt == "" {
		i.UpdatedAt = i.CreatedAt
	}
	if i.User == "" {
		i.User, i.Association = "octocat", "OWNER"
	}
}

func (d *githubData) find(number int) *githubIssue { return d.byNumber[number] }

// object is an issue as GitHub sends it.
func (g *GitHub) object(i *githubIssue) map[string]any {
	repo := g.world.Repo
	if i.Foreign != "" {
		repo = i.Foreign
	}
	web := "https://github.com/" + repo
	labels := []any{}
	for n, l := range i.Labels {
		labels = append(labels, map[string]any{"id": n + 1, "name": l})
	}
	assignees := []any{}
	for _, login := range i.Assignees {
		assignees = append(assignees, map[string]any{"login": login})
	}
	o := map[string]any{
		"id": 1000 + i.Number, "node_id": fmt.Sprintf("I_%d", i.Number), "number": i.Number, "title": i.Title, "body": i.Body,
		"state": i.State, "state_reason": i.Reason, "html_url": fmt.Sprintf("%s/issues/%d", web, i.Number),
		"repository_url": g.URL() + "/repos/" + repo, "user": map[string]any{"login": i.User},
		"author_association": i.Association, "labels": labels, "assignees": assignees, "assignee": nil, "milestone": nil,
		"created_at": i.CreatedAt, "updated_at": i.UpdatedAt, "locked": false,
	}
	if len(assignees) > 0 {
		o["assignee"] = assignees[0]
	}
	if i.Milestone != "" {
		o["milestone"] = map[string]any{"title": i.Milestone, "number": 1}
	}
	if i.Pull {
		o["pull_request"] = map[string]any{"html_url": fmt.Sprintf("%s/pull/%d", web, i.Number)}
	}
	if !g.world.Old {
		g.relate(i, o)
	}
	maps.Copy(o, i.Set)
	return o
}

// relate adds the numbers of related issues and the address of the parent.
func (g *GitHub) relate(i *githubIssue, o map[string]any) {
	open := 0
	for _, n := range i.BlockedBy {
		if b := g.world.find(n); b == nil || b.State == "open" {
			open++
		}
	}
	o["issue_dependencies_summary"] = map[string]any{"blocked_by": open, "total_blocked_by": len(i.BlockedBy), "blocking": 0, "total_blocking": 0}
	o["sub_issues_summary"] = map[string]any{"total": len(i.SubIssues), "completed": 0, "percent_completed": 0}
	if p, ok := g.world.parent[i.Number]; ok {
		o["parent_issue_url"] = fmt.Sprintf("%s/repos/%s/issues/%d", g.URL(), g.world.Repo, p)
	}
}

// listed are the issues that a list of the repository selects.
func (g *GitHub) listed(q url.Values) []*githubIssue {
	state := q.Get("state")
	var out []*githubIssue
	for _, i := range g.world.Issues {
		if i.Foreign != "" || i.Deleted || i.MovedTo != "" || state != "all" && i.State != state && (state != "" || i.State != "open") {
			continue
		}
		if labels := q.Get("labels"); labels == "" || i.hasAll(strings.Split(labels, ",")) {
			out = append(out, i)
		}
	}
	return out
}

func (i *githubIssue) hasAll(labels []string) bool {
	for _, want := range labels {
		if !slices.ContainsFunc(i.Labels, func(l string) bool { return strings.EqualFold(l, want) }) {
			return false
		}
	}
	return true
}

// pagedIssues is one page of a list of issues.
func (g *GitHub) pagedIssues(r *http.Request, list []*githubIssue) *githubReply {
	return paged(g, r, list, g.object)
}

// pagedObjects is one page of another list.
func (g *GitHub) pagedObjects(r *http.Request, list []map[string]any) *githubReply {
	return paged(g, r, list, func(o map[string]any) map[string]any { return o })
}

// paged is one page of a list, with the links to the others.
func paged[T any](g *GitHub, r *http.Request, list []T, object func(T) map[string]any) *githubReply {
	q := r.URL.Query()
	size, err := strconv.Atoi(q.Get("per_page"))
	if err != nil || size < 1 || size > 100 {
		size = 30
	}
	page, err := strconv.Atoi(q.Get("page"))
	if err != nil || page < 1 {
		page = 1
	}
	begin := min((page-1)*size, len(list))
	end := min(begin+size, len(list))
	objects := []map[string]any{}
	for _, entry := range list[begin:end] {
		objects = append(objects, object(entry))
	}
	reply := githubOK(objects)
	if len(list) <= size || g.world.NoLinks {
		return reply
	}
	var links []string
	link := func(rel string, page int) {
		q.Set("page", strconv.Itoa(page))
		links = append(links, fmt.Sprintf(`<%s%s?%s>; rel="%s"`, g.URL(), r.URL.Path, q.Encode(), rel))
	}
	if begin > 0 {
		link("prev", page-1)
		link("first", 1)
	}
	if end < len(list) {
		link("next", page+1)
		link("last", (len(list)+size-1)/size)
	}
	reply.header.Set("Link", strings.Join(links, ", "))
	return reply
}
