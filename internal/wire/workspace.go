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

	*Listing // in os-workspace list, show and sweep only
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

// Listing is what list, show and sweep add to a workspace.
type Listing struct {
	Locked       bool          `json:"locked"`
	Category     string        `json:"category"`
	Harness      string        `json:"harness"` // of the session; HarnessUnknown where nothing names one
	Conversation *Conversation `json:"conversation"`
	LastSeenAt   Time          `json:"last_seen_at"`
	Dirty        *bool         `json:"dirty"`           // a git tree holds work that is nowhere else; null: nobody can say
	Bytes        *int64        `json:"bytes,omitempty"` // on disk

	Action string `json:"action,omitempty"` // sweep: what became of it
	Reason string `json:"reason,omitempty"` // sweep, where it was kept
	Detail string `json:"detail,omitempty"` // the same for people
}

// HarnessUnknown is the harness of a workspace without a session.
const HarnessUnknown = "unknown"

// Values of Listing.Action.
const (
	SweepRemoved     = "removed"      // the folder is gone, the state put aside
	SweepKept        = "kept"         // for Listing.Reason
	SweepPruned      = "pruned"       // the state that was put aside is gone
	SweepWouldRemove = "would_remove" // the same for a rehearsal
	SweepWouldPrune  = "would_prune"
)

// Values of Listing.Reason.
const (
	KeptBusy    = "busy"    // a run is in flight
	KeptRecent  = "recent"  // it was seen or changed too lately
	KeptUnsaved = "unsaved" // work would be lost
	KeptError   = "error"   // it cannot be removed
)

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
