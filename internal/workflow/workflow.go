// Package workflow reads WORKFLOW.md: YAML front matter that configures the
// commands, and a Liquid prompt that is rendered for each issue.
//
// It reads files and resolves $VAR in them; it starts nothing, talks to no tracker
// and keeps no state. A Workflow is not changed after Load and may be read from
// several goroutines; so may its Prompt be rendered.
package workflow

import "time"

// Workflow is one loaded file with all defaults filled in.
type Workflow struct {
	Path     string    // absolute; "" where defaults stand without a file
	Name     string    // absolute; what people and hooks call it: Path, unless that is a copy of another file
	Dir      string    // what relative paths and commands are relative to
	Text     []byte    // the file as it was read
	Warnings []Warning // those of Load

	Tracker   Tracker
	Polling   Polling
	Workspace Workspace
	Hooks     Hooks
	Agent     Agent
	Codex     Codex
	Routing   Routing
	Budget    Budget
	Tools     Tools
	OpenHands map[string]any // raw: its own issue gives it a shape
	Memory    Memory
	Server    Server

	Prompt *Prompt
}

// Tracker says which issues there are. Provider is passed to the adapter as it is,
// with $VAR, relative paths and commands resolved; old flat spellings are moved into
// it. Its values are nil, bool, int64, float64, string, []any and map[string]any.
type Tracker struct {
	Kind           string
	Provider       map[string]any
	RequiredLabels []string // trimmed and lower case; a blank one matches nothing
	ActiveStates   []string // nil: the adapter's defaults
	TerminalStates []string // nil: the adapter's defaults
	// Secrets names every variable that the tracker section takes a value from,
	// sorted.
	Secrets []string
	// Missing maps a provider key that was left out to the unset or empty variable
	// that should have given its value, so that an adapter can name it.
	Missing map[string]string
}

// Polling is the scheduler's cadence.
type Polling struct{ Interval time.Duration }

// Workspace says where the per-issue folders and their state lie. Both are absolute.
type Workspace struct {
	Root           string
	StateRoot      string // "": derived from Root
	RemoveTerminal bool
}

// Hooks are sh -c texts, "" where there is none.
type Hooks struct {
	AfterCreate, BeforeRun, AfterRun, BeforeRemove string

	Timeout time.Duration
	Env     []string // names that are let through to hooks
	// Locks maps a hook to the lock that it wants: hooks with the same lock run one at
	// a time on this state root. nil: none.
	Locks map[string]string
}

// Agent bounds the runs.
type Agent struct {
	MaxConcurrent        int
	MaxConcurrentByState map[string]int // keys lower case
	MaxTurns             int
	MaxRetryBackoff      time.Duration
	StallTimeout         time.Duration // 0: off
	RunTimeout           time.Duration
	LaunchTimeout        time.Duration
	TerminalGrace        time.Duration
	InterruptWhen        []Transition
	Env                  []string // names that are let through to agents
}

// Transition is a change of an issue's state.
type Transition struct{ From, To string }

// Codex configures os-codex.
type Codex struct {
	Command           string
	ApprovalPolicy    any            // a word, or the granular object, passed through
	ThreadSandbox     string         // read-only, workspace-write, danger-full-access
	TurnSandboxPolicy map[string]any // nil: the harness derives it from ThreadSandbox
	TurnTimeout       time.Duration
	ReadTimeout       time.Duration
}

// Routing says which harness runs an issue. The environment has been applied.
type Routing struct {
	Harness, Model, ModelProfile                   string
	HarnessSource, ModelSource, ModelProfileSource string // workflow, env, default
	Rules                                          []Rule
	Commands                                       map[string]string // harness name -> command, where one is configured
}

// Rule routes the issues that have its label and state; "" matches all. Label is
// lower case. At least one of Label and State is set, and one of Harness and Model.
type Rule struct{ Label, State, Harness, Model string }

// Budget bounds what a run or an issue may cost. 0 means no bound, except
// NoProgressRuns and RunsPerIssue, which have defaults.
type Budget struct {
	TokensPerRun, TokensPerIssue int64
	RunsPerIssue, NoProgressRuns int
}

// Tools are the host-side tool commands.
type Tools struct{ Commands []string }

// Memory is where agents may read and write shared notes.
type Memory struct{ Endpoint, Project, ExecutionRepo, TokenEnv string }

// Server is os-loop's listener.
type Server struct {
	Port     int // 0: none
	TokenEnv string
}
