package peertest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// inRepo answers for what is below the repository, by the parts of the path.
func (g *GitHub) inRepo(r *http.Request, parts []string, body []byte) *githubReply {
	switch {
	case len(parts) == 1 && parts[0] == "":
		return githubOK(map[string]any{
			"id": 77, "full_name": g.world.Repo, "html_url": "https://github.com/" + g.world.Repo, "has_issues": !g.world.NoIssues,
		})
	case parts[0] != "issues":
		return githubError(http.StatusNotFound, "Not Found")
	case g.world.NoIssues:
		return githubError(http.StatusGone, "Issues has been disabled in this repository.")
	case len(parts) == 1 && r.Method == http.MethodGet:
		return g.pagedIssues(r, g.listed(r.URL.Query()))
	case len(parts) == 1:
		return githubError(http.StatusMethodNotAllowed, "Method Not Allowed")
	}
	number, err := strconv.Atoi(parts[1])
	issue := g.world.find(number)
	switch {
	case err != nil || issue == nil || issue.Foreign != "":
		return githubError(http.StatusNotFound, "Not Found")
	case issue.Deleted:
		return githubError(http.StatusGone, "This issue was deleted")
	case issue.MovedTo != "":
		reply := githubError(http.StatusMovedPermanently, "Moved Permanently")
		reply.header.Set("Location", g.URL()+issue.MovedTo)
		return reply
	}
	return g.inIssue(r, issue, parts[2:], body)
}

func (g *GitHub) inIssue(r *http.Request, i *githubIssue, parts []string, body []byte) *githubReply {
	what := r.Method
	for _, p := range parts {
		what += " " + p
	}
	switch {
	case what == "GET":
		return githubOK(g.object(i))
	case what == "PATCH":
		return g.change(i, body)
	case what == "GET comments":
		return g.pagedObjects(r, i.comments())
	case what == "POST comments":
		return g.comment(i, body)
	case what == "GET timeline":
		return g.pagedObjects(r, i.timeline())
	case what == "GET dependencies blocked_by" && !g.world.Old:
		return g.pagedIssues(r, g.related(i.BlockedBy))
	case what == "GET sub_issues" && !g.world.Old:
		return g.pagedIssues(r, g.related(i.SubIssues))
	case what == "POST labels":
		return g.label(i, body)
	case r.Method == http.MethodDelete && len(parts) == 2 && parts[0] == "labels":
		i.Labels = slices.DeleteFunc(i.Labels, func(l string) bool { return l == parts[1] })
		return githubOK(g.object(i)["labels"])
	}
	return githubError(http.StatusNotFound, "Not Found")
}

// related are the issues with these numbers; one that is not in the data is not shown.
func (g *GitHub) related(numbers []int) []*githubIssue {
	var out []*githubIssue
	for _, n := range numbers {
		if i := g.world.find(n); i != nil {
			out = append(out, i)
		}
	}
	return out
}

func (i *githubIssue) comments() []map[string]any {
	for n, c := range i.Comments {
		if c["id"] == nil {
			c["id"] = 100*i.Number + n
		}
		if login, ok := c["user"].(string); ok {
			c["user"] = map[string]any{"login": login}
		}
	}
	return i.Comments
}

func (i *githubIssue) timeline() []map[string]any {
	out := []map[string]any{{"event": "labeled", "label": map[string]any{"name": "x"}}}
	for _, address := range i.LinkedBy {
		out = append(out, map[string]any{"event": "cross-referenced", "source": map[string]any{
			"type": "issue", "issue": map[string]any{"pull_request": map[string]any{"html_url": address}},
		}})
	}
	return out
}

func (g *GitHub) change(i *githubIssue, body []byte) *githubReply {
	var want struct {
		State  *string   `json:"state"`
		Title  *string   `json:"title"`
		Labels *[]string `json:"labels"`
	}
	if err := json.Unmarshal(body, &want); err != nil {
		return githubError(http.StatusBadRequest, "Problems parsing JSON")
	}
	if want.State != nil {
		i.State = *want.State
	}
	if want.Title != nil {
		i.Title = *want.Title
	}
	if want.Labels != nil {
		i.Labels = *want.Labels
	}
	i.UpdatedAt = g.o.Now().UTC().Format(time.RFC3339)
	return githubOK(g.object(i))
}

func (g *GitHub) comment(i *githubIssue, body []byte) *githubReply {
	var want struct {
		Body string `json:"body"`
	}
	if err := json.Unmarshal(body, &want); err != nil || want.Body == "" {
		return githubError(http.StatusUnprocessableEntity, "Validation Failed")
	}
	c := map[string]any{
		"id": 100*i.Number + len(i.Comments), "body": want.Body, "user": map[string]any{"login": g.world.Login},
		"author_association": "COLLABORATOR", "updated_at": g.o.Now().UTC().Format(time.RFC3339),
		"html_url": fmt.Sprintf("https://github.com/%s/issues/%d#c", g.world.Repo, i.Number),
	}
	i.Comments = append(i.Comments, c)
	reply := githubOK(c)
	reply.status = http.StatusCreated
	return reply
}

func (g *GitHub) label(i *githubIssue, body []byte) *githubReply {
	var want struct {
		Labels []string `json:"labels"`
	}
	if err := json.Unmarshal(body, &want); err != nil {
		return githubError(http.StatusBadRequest, "Problems parsing JSON")
	}
	i.Labels = append(i.Labels, want.Labels...)
	return githubOK(g.object(i)["labels"])
}
