package wire

// Workspace is the folder of one issue, as os-workspace prints it and a harness
// reads it.
type Workspace struct {
	Issue    *Issue  `json:"issue"`
	Key      string  `json:"key"`
	Path     string  `json:"path"`      // absolute and canonical
	StateDir string  `json:"state_dir"` // absolute
	Created  bool    `json:"created"`   // made by this very call
	Attempt  *int64  `json:"attempt"`   // null on the first run
	Run      *RunRef `json:"run"`       // null before begin
	Route    *Route  `json:"route"`
	Prompt   Text    `json:"prompt,omitempty"`

	*Listing // in os-workspace list only
}

func (*Workspace) kind() string { return "workspace" }

// RunRef names one run of an issue.
type RunRef struct {
	ID        string `json:"id"`
	Attempt   *int64 `json:"attempt"`
	StartedAt Time   `json:"started_at"`

	Status  string `json:"status,omitempty"`  // list: preparing prepared running ended interrupted
	Outcome string `json:"outcome,omitempty"` // list: of an ended run
}

// Listing is what list adds to a workspace.
type Listing struct {
	Locked       bool          `json:"locked"`
	Category     string        `json:"category"`
	Conversation *Conversation `json:"conversation"`
	LastSeenAt   Time          `json:"last_seen_at"`
	Bytes        *int64        `json:"bytes,omitempty"`
}

// Conversation is what list tells of conversation.json.
type Conversation struct {
	Harness   string `json:"harness"`
	SessionID Text   `json:"session_id"`
	Status    Text   `json:"status"`
	UpdatedAt Time   `json:"updated_at"`
}

// Route is the decision which agent runs an issue, and why.
type Route struct {
	Harness      string `json:"harness"`
	Model        Text   `json:"model"`
	ModelProfile Text   `json:"model_profile"`
	Effort       Text   `json:"effort"`
	Reason       Text   `json:"reason"`
	Source       Text   `json:"source"` // workflow, env, rule, issue, flag
	DryRun       bool   `json:"dry_run"`
}
