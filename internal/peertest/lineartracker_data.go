package peertest

import (
	"cmp"
	"crypto/sha1"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// linearData is the data set of a stand-in as a test writes it. Everything refers to
// everything by name: issues by identifier, states by name within the team of the
// issue, projects by slug, users by display name. What is left out is made up, always
// in the same way.
type linearData struct {
	Viewer    string          `json:"viewer"`
	Users     []linearUser    `json:"users"`
	Teams     []linearTeam    `json:"teams"`
	Projects  []linearProject `json:"projects"`
	Issues    []linearIssue   `json:"issues"`
	Generate  []linearMany    `json:"generate"`
	Quota     linearQuota     `json:"quota"`
	TokenLife int             `json:"token_life"` // seconds
}

type linearUser struct {
	ID    string `json:"id"`
	Name  string `json:"name"`
	Guest bool   `json:"guest"`
}

type linearTeam struct {
	Key    string        `json:"key"`
	States []linearState `json:"states"`
}

type linearState struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

type linearProject struct {
	Slug  string   `json:"slug"`
	Name  string   `json:"name"`
	Teams []string `json:"teams"`
}

type linearIssue struct {
	Identifier  string             `json:"identifier"`
	Title       string             `json:"title"`
	Description string             `json:"description"`
	Priority    float64            `json:"priority"`
	State       string             `json:"state"`
	Project     string             `json:"project"` // "": the first one; "-": none
	Assignee    string             `json:"assignee"`
	Creator     string             `json:"creator"`
	Milestone   string             `json:"milestone"`
	Parent      string             `json:"parent"`
	Labels      []string           `json:"labels"`
	BlockedBy   []string           `json:"blocked_by"`
	RelatedTo   []string           `json:"related_to"` // issues that name this one as related
	Attachments []linearAttachment `json:"attachments"`
	Comments    []linearComment    `json:"comments"`
	CreatedAt   string             `json:"created_at"`
	UpdatedAt   string             `json:"updated_at"`
	ArchivedAt  string             `json:"archived_at"`
	Trashed     bool               `json:"trashed"`
	Raw         map[string]any     `json:"raw"` // members as they are sent, whatever the schema says
}

type linearAttachment struct {
	URL       string `json:"url"`
	Source    string `json:"source"`
	CreatedAt string `json:"created_at"`
}

type linearComment struct {
	Body      string `json:"body"`
	UpdatedAt string `json:"updated_at"`
	Resolved  bool   `json:"resolved"`
	Reply     bool   `json:"reply"` // to the comment before it
}

// linearMany stands for many issues like one, numbered from First.
type linearMany struct {
	Count int         `json:"count"`
	First int         `json:"first"`
	Like  linearIssue `json:"like"` // its identifier is the team's key
}

// entity is an object of the data set: scalars, other entities and lists of them by
// the names of Linear's fields.
type entity map[string]any

// linearWorld is the data set as the API shows it.
type linearWorld struct {
	issues    []entity
	projects  []entity
	teams     []entity
	comments  []entity
	attached  []entity
	viewer    entity
	byName    map[string]entity // "issue/ENG-1", "state/ENG/todo"
	tokenLife int
	lists     map[string][]entity // long lists that were asked for since the last mutation
}

func readLinear(text []byte) (*linearWorld, linearQuota, error) {
	d := linearData{Viewer: "robot", TokenLife: 3600, Quota: linearQuota{Requests: 2500, Complexity: 3_000_000}}
	if len(text) > 0 {
		if err := json.Unmarshal(text, &d); err != nil {
			return nil, d.Quota, fmt.Errorf("read the data of Linear's stand-in: %w", err)
		}
	}
	w := &linearWorld{byName: map[string]entity{}, tokenLife: d.TokenLife, lists: map[string][]entity{}}
	for _, many := range d.Generate {
		for i := range many.Count {
			issue := many.Like
			issue.Identifier = fmt.Sprintf("%s-%d", many.Like.Identifier, many.First+i)
			d.Issues = append(d.Issues, issue)
		}
	}
	for _, u := range d.Users {
		w.user(u)
	}
	w.viewer = w.user(linearUser{Name: d.Viewer})
	w.viewer["isMe"] = true
	for _, t := range d.Teams {
		w.team(t)
	}
	for _, p := range d.Projects {
		w.project(p)
	}
	for i := range d.Issues {
		if err := w.issue(&d.Issues[i], i); err != nil {
			return nil, d.Quota, err
		}
	}
	for i := range d.Issues {
		if err := w.link(&d.Issues[i]); err != nil {
			return nil, d.Quota, err
		}
	}
	return w, d.Quota, nil
}

// uuid makes an id from a name, always the same.
func uuid(name string) string {
	h := sha1.Sum([]byte(name))
	h[6], h[8] = h[6]&0x0f|0x50, h[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", h[:4], h[4:6], h[6:8], h[8:10], h[10:16])
}

// LinearIssueID is the id that the stand-in gives to the issue with an identifier.
func LinearIssueID(identifier string) string { return uuid("issue/" + strings.ToUpper(identifier)) }

// named returns the entity of a name, made by build at its first mention.
func (w *linearWorld) named(name string, build func() entity) entity {
	if e, ok := w.byName[name]; ok {
		return e
	}
	e := build()
	if e["id"] == nil {
		e["id"] = uuid(name)
	}
	w.byName[name] = e
	return e
}

func (w *linearWorld) user(u linearUser) entity {
	if u.Name == "" {
		return nil
	}
	return w.named("user/"+u.Name, func() entity {
		e := entity{"name": u.Name, "displayName": u.Name, "email": u.Name + "@example.com", "guest": u.Guest, "app": false, "isMe": false}
		if u.ID != "" {
			e["id"] = u.ID
		}
		return e
	})
}

func (w *linearWorld) team(t linearTeam) entity {
	return w.named("team/"+t.Key, func() entity {
		e := entity{"key": t.Key, "name": t.Key}
		if t.States == nil {
			t.States = usualStates()
		}
		states := []entity{}
		for i, s := range t.States {
			states = append(states, w.named("state/"+t.Key+"/"+strings.ToLower(s.Name), func() entity {
				return entity{"name": s.Name, "type": s.Type, "position": float64(i), "team": e}
			}))
		}
		e["states"] = states
		w.teams = append(w.teams, e)
		return e
	})
}

func usualStates() []linearState {
	return []linearState{
		{"Backlog", "backlog"}, {"Todo", "unstarted"}, {"In Progress", "started"}, {"Human Review", "started"},
		{"Done", "completed"}, {"Canceled", "canceled"}, {"Duplicate", "duplicate"},
	}
}

func (w *linearWorld) project(p linearProject) entity {
	return w.named("project/"+p.Slug, func() entity {
		name := cmp.Or(p.Name, p.Slug)
		teams := []entity{}
		for _, key := range p.Teams {
			teams = append(teams, w.team(linearTeam{Key: key}))
		}
		e := entity{"slugId": p.Slug, "name": name, "teams": teams, "issues": []entity{},
			"url": "https://linear.app/example/project/" + strings.ToLower(strings.ReplaceAll(name, " ", "-")) + "-" + p.Slug}
		w.projects = append(w.projects, e)
		return e
	})
}

// issue adds one issue, without what it refers to.
func (w *linearWorld) issue(d *linearIssue, place int) error {
	key, num, ok := strings.Cut(d.Identifier, "-")
	n, err := strconv.ParseFloat(num, 64)
	if !ok || err != nil {
		return fmt.Errorf("identifier %q is not TEAM-NUMBER", d.Identifier)
	}
	team := w.team(linearTeam{Key: key})
	state, ok := w.byName["state/"+key+"/"+strings.ToLower(cmp.Or(d.State, "Todo"))]
	if !ok {
		return fmt.Errorf("issue %s: no state %q in team %s", d.Identifier, d.State, key)
	}
	created := cmp.Or(d.CreatedAt, fmt.Sprintf("2026-01-%02dT%02d:%02d:%02d.000Z", 1+place/86400, place/3600%24, place/60%60, place%60))
	e := w.named("issue/"+strings.ToUpper(d.Identifier), func() entity {
		return entity{
			"identifier": d.Identifier, "number": n, "title": cmp.Or(d.Title, "Issue "+d.Identifier), "description": text(d.Description),
			"priority": d.Priority, "team": team, "state": state, "branchName": "agent/" + strings.ToLower(d.Identifier),
			"url": "https://linear.app/example/issue/" + d.Identifier, "assignee": nilIfNone(w.user(linearUser{Name: d.Assignee})),
			"creator": nilIfNone(w.user(linearUser{Name: d.Creator})), "createdAt": created, "updatedAt": cmp.Or(d.UpdatedAt, created),
			"archivedAt": text(d.ArchivedAt), "trashed": d.Trashed, "labels": []entity{}, "relations": []entity{}, "inverseRelations": []entity{},
			"children": []entity{}, "attachments": []entity{}, "comments": []entity{}, "parent": nil, "project": nil, "projectMilestone": nil,
		}
	})
	for _, l := range d.Labels {
		e["labels"] = append(e["labels"].([]entity), entity{"id": uuid("label/" + l), "name": l})
	}
	w.attach(e, d.Attachments)
	var thread entity
	for _, c := range d.Comments {
		if c.Reply {
			w.comment(e, c, thread)
			continue
		}
		thread = w.comment(e, c, nil)
	}
	maps.Copy(e, d.Raw)
	w.issues = append(w.issues, e)
	return nil
}

func (w *linearWorld) attach(issue entity, list []linearAttachment) {
	for _, a := range list {
		e := entity{"id": uuid("attachment/" + issue["id"].(string) + a.URL), "url": a.URL, "title": a.URL, "sourceType": cmp.Or(a.Source, "unknown"),
			"createdAt": cmp.Or(a.CreatedAt, issue["createdAt"].(string)), "metadata": map[string]any{}, "issue": issue}
		w.attached = append(w.attached, e)
		issue["attachments"] = append(issue["attachments"].([]entity), e)
	}
}

// comment adds a comment, as an answer to the thread if there is one, and returns it.
func (w *linearWorld) comment(issue entity, c linearComment, thread entity) entity {
	list := issue["comments"].([]entity)
	at := cmp.Or(c.UpdatedAt, issue["createdAt"].(string))
	e := entity{"id": uuid(fmt.Sprintf("comment/%s/%d", issue["id"], len(list))), "body": c.Body, "createdAt": at, "updatedAt": at, "resolvedAt": nil,
		"parent": nil, "parentId": nil, "issue": issue, "issueId": issue["id"], "user": w.viewer, "url": issue["url"]}
	if c.Resolved {
		e["resolvedAt"] = at
	}
	if thread != nil {
		e["parent"], e["parentId"] = thread, thread["id"]
	}
	w.comments = append(w.comments, e)
	issue["comments"] = append(list, e)
	return e
}

// link sets what an issue has to do with others.
func (w *linearWorld) link(d *linearIssue) error {
	e := w.byName["issue/"+strings.ToUpper(d.Identifier)]
	if slug := d.Project; slug != "-" {
		if slug == "" && len(w.projects) > 0 {
			slug = w.projects[0]["slugId"].(string)
		}
		p := w.project(linearProject{Slug: slug})
		e["project"] = p
		p["issues"] = append(p["issues"].([]entity), e)
		if teams := p["teams"].([]entity); !slices.ContainsFunc(teams, func(t entity) bool { return t["id"] == e["team"].(entity)["id"] }) {
			p["teams"] = append(teams, e["team"].(entity))
		}
	}
	if d.Milestone != "" {
		e["projectMilestone"] = entity{"id": uuid("milestone/" + d.Milestone), "name": d.Milestone}
	}
	if d.Parent != "" {
		parent := w.byName["issue/"+strings.ToUpper(d.Parent)]
		if parent == nil {
			return fmt.Errorf("issue %s: no parent %q", d.Identifier, d.Parent)
		}
		e["parent"], parent["children"] = parent, append(parent["children"].([]entity), e)
	}
	return cmp.Or(w.relate(e, "blocks", d.BlockedBy), w.relate(e, "related", d.RelatedTo))
}

// relate adds relations that point from the issues named to this one.
func (w *linearWorld) relate(to entity, kind string, from []string) error {
	for _, name := range from {
		source := w.byName["issue/"+strings.ToUpper(name)]
		if source == nil {
			return fmt.Errorf("issue %s: no issue %q", to["identifier"], name)
		}
		r := entity{"id": uuid(fmt.Sprint(kind, source["id"], to["id"])), "type": kind, "issue": source, "relatedIssue": to}
		source["relations"] = append(source["relations"].([]entity), r)
		to["inverseRelations"] = append(to["inverseRelations"].([]entity), r)
	}
	return nil
}

// text is null where there is none.
func text(s string) any {
	if s == "" {
		return nil
	}
	return s
}

func nilIfNone(e entity) any {
	if e == nil {
		return nil
	}
	return e
}
