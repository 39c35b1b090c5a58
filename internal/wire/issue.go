package wire

import "encoding/json"

// Issue is one tracker issue as os-poll prints it. Every member is always there.
type Issue struct {
	ID          string          `json:"id"`
	NativeRef   json.RawMessage `json:"native_ref"` // the provider's own ids, for tools and prompts only
	Identifier  string          `json:"identifier"`
	Title       string          `json:"title"`
	Description Text            `json:"description"`
	Priority    *int64          `json:"priority"` // 1 is the most urgent; only 1 to 4 rank
	State       string          `json:"state"`    // in the tracker's spelling
	StateKind   string          `json:"state_kind"`
	Category    string          `json:"category"` // active, terminal, other
	BranchName  Text            `json:"branch_name"`
	URL         Text            `json:"url"`
	AssigneeID  Text            `json:"assignee_id"`
	Labels      []string        `json:"labels"` // lower case, in first-seen order
	BlockedBy   []Blocker       `json:"blocked_by"`
	Parent      *IssueRef       `json:"parent"`
	Children    []IssueRef      `json:"children"`
	// Dispatchable is the tracker's own word on whether it may be worked on.
	Dispatchable bool     `json:"dispatchable"`
	PRURL        Text     `json:"pr_url"`
	Project      *Project `json:"project"`
	Milestone    Text     `json:"milestone"`
	Author       Text     `json:"author"`
	Trusted      *bool    `json:"trusted"` // null where the tracker cannot tell
	Archived     bool     `json:"archived"`
	Tracker      string   `json:"tracker"`
	// Route is what the issue itself asks for; null where its tracker has no place for it.
	Route     *IssueRoute `json:"route"`
	CreatedAt Time        `json:"created_at"`
	UpdatedAt Time        `json:"updated_at"`
}

// Values of Issue.Category.
const (
	CategoryActive   = "active"
	CategoryTerminal = "terminal"
	CategoryOther    = "other"
)

// Blocker is an issue that has to be ended first. Known is false where the tracker
// names it without showing its state; an unknown blocker is an open one.
type Blocker struct {
	ID         Text `json:"id"`
	Identifier Text `json:"identifier"`
	State      Text `json:"state"`
	Known      bool `json:"known"`
}

// IssueRef names a parent or a child.
type IssueRef struct {
	ID         string `json:"id"`
	Identifier string `json:"identifier"`
	State      Text   `json:"state"`
}

// IssueRoute says who is to work on an issue. What is null is decided elsewhere.
type IssueRoute struct {
	Harness      Text `json:"harness"`
	Model        Text `json:"model"`
	ModelProfile Text `json:"model_profile"`
	Effort       Text `json:"effort"`
}

// Project is the tracker's project of an issue.
type Project struct {
	ID   Text `json:"id"`
	Slug Text `json:"slug"`
	Name Text `json:"name"`
}

func (*Issue) kind() string { return "issue" }

// MarshalJSON implements json.Marshaler: lists are empty, never null.
func (i *Issue) MarshalJSON() ([]byte, error) {
	type plain Issue
	c := plain(*i)
	if c.Labels == nil {
		c.Labels = []string{}
	}
	if c.BlockedBy == nil {
		c.BlockedBy = []Blocker{}
	}
	if c.Children == nil {
		c.Children = []IssueRef{}
	}
	return Encode(c)
}

// Gone says that an id that was asked for is not visible in the tracker.
type Gone struct {
	ID string `json:"id"`
}

func (*Gone) kind() string { return "gone" }

// Comment is one comment of an issue.
type Comment struct {
	ID        string `json:"id"`
	Body      string `json:"body"`
	UpdatedAt Time   `json:"updated_at"`
}

func (*Comment) kind() string { return "comment" }

// Summary is the last line of os-poll --summary.
type Summary struct {
	Tracker   string     `json:"tracker"`
	Issues    int64      `json:"issues"`    // issue records printed
	Gone      int64      `json:"gone"`      // gone records printed
	Malformed int64      `json:"malformed"` // entries that could not be read
	Skipped   int64      `json:"skipped"`   // read, but not asked for
	Truncated bool       `json:"truncated"` // a limit cut the list
	RateLimit *RateLimit `json:"rate_limit"`
}

// RateLimit is what the tracker said of its own limit.
type RateLimit struct {
	Limit     *int64 `json:"limit"`
	Remaining *int64 `json:"remaining"`
	ResetAt   Time   `json:"reset_at"`
}

func (*Summary) kind() string { return "summary" }
