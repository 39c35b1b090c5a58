package codex

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"ostoolkit/internal/approval"
	"ostoolkit/internal/cli"
	"ostoolkit/internal/codex"
)

// options is the parsed command line. What a flag does not say comes from the
// workflow.
type options struct {
	workflow       string
	cwd            string
	promptFile     string
	model          string
	effort         string
	resume         string
	maxTurns       int
	again          string // --continue
	recheck        string
	goal           string
	goalWait       time.Duration
	maxTokens      int64
	timeout        time.Duration
	turnTimeout    time.Duration
	stall          time.Duration
	grace          time.Duration
	approvals      approval.Policy
	approvalWait   time.Duration
	inputWait      time.Duration
	tools          []string
	env            []string
	raw            bool
	deltas         bool
	quiet          bool
	dryRun         bool
	trace          string
	command        string
	sandbox        string
	approvalPolicy any
	overrides      map[string]any
	noSchema       bool

	prompt   string // the argument; "" for none, "-" for standard input
	prompted bool
	given    map[string]bool // the flags that were on the command line
}

var usage = cli.Usage{
	Name:     "os-codex",
	Synopsis: []string{"[flags] [PROMPT | -]", "send [flags] TARGET [TEXT | -]", "check [flags]", "rehearse [flags]"},
	About: `
Drives one session of the Codex app-server and prints its events and its outcome, one
JSON record a line. With a PROMPT ("-": from standard input) it works in --cwd.
Without one it reads workspace records from standard input and makes a session for
each, with the prompt of WORKFLOW.md.`,
	Verbs: [][2]string{{"send", "a text or a request for a session that runs"}, {"check", "tells what would keep a session from working"}, {"rehearse", "a stand-in for the app-server that asks no model"}},
	Examples: `
os-codex 'fix the failing test'
os-poll --ready | os-workspace run -- os-codex
os-codex --max-turns 5 --continue 'go on until make test passes' 'port it to Go 1.26'
os-codex send ABC-1 'write the test first'
os-codex 'say hello' | jq -r 'select(.type=="outcome").final_text'`,
	Statuses: []int{cli.StatusOK, cli.StatusFailed, cli.StatusInputRequired, cli.StatusStalled, cli.StatusTimedOut,
		cli.StatusBudgetExceeded, cli.StatusCancelled, cli.StatusUsage, cli.StatusData, cli.StatusNoInput, cli.StatusUnavailable,
		cli.StatusProtocol, cli.StatusState, cli.StatusTemporary, cli.StatusAuth, cli.StatusConfig},
	Notes: map[int]string{
		cli.StatusOK:     "succeeded",
		cli.StatusFailed: "failed: the provider, no answer, or the app-server died",
	},
}

// defaultWait is how long a person may take to answer the agent.
const defaultWait = 30 * time.Minute

// defaultGoalWait is long for a server that begins the next turn within milliseconds.
const defaultGoalWait = 20 * time.Second

// parse reads the command line. It is pure.
func parse(args []string) (*options, error) {
	o := &options{}
	fs := usage.Flags()
	o.addShared(fs)
	approvals := fs.String("approvals", "policy", "`who` answers when the agent asks for leave, and what: policy, accept, decline, mailbox")
	fs.DurationVar(&o.approvalWait, "approval-wait", defaultWait, "with --approvals mailbox, wait `D` for the answer to an approval (0: no limit)")
	fs.DurationVar(&o.inputWait, "input-wait", defaultWait, "with --approvals mailbox, wait `D` for the answer to a question (0: no limit)")
	fs.StringVar(&o.command, "command", "", "the `COMMAND` that starts the app-server (default \"codex app-server\")")
	fs.StringVar(&o.sandbox, "sandbox", "", "the agent's `sandbox`: read-only, workspace-write, danger-full-access")
	policy := fs.String("approval-policy", "", "when Codex asks for leave: untrusted, on-request, never, or a JSON `object`")
	config := fs.StringArray("config", nil, "set `KEY=VALUE` in Codex's configuration, the value as JSON if it is; may be repeated")
	fs.BoolVar(&o.noSchema, "no-schema", false, "do not compare our requests with the app-server's schema")
	rest, err := usage.Parse(fs, args)
	if err != nil {
		return nil, err
	}
	fs.Visit(func(f *pflag.Flag) { o.given[f.Name] = true })
	if o.approvals, err = approval.Parse(*approvals); err != nil {
		return nil, wrong("--%v", err)
	}
	if o.approvalPolicy, err = parsePolicy(*policy); err != nil {
		return nil, err
	}
	if o.overrides, err = parseOverrides(*config); err != nil {
		return nil, err
	}
	return o, o.check(rest)
}

// addShared adds the flags that every harness has.
func (o *options) addShared(fs *pflag.FlagSet) {
	o.given = make(map[string]bool)
	fs.StringVar(&o.workflow, "workflow", "", "the workflow `FILE` (default $OS_WORKFLOW, else ./WORKFLOW.md; none with a PROMPT)")
	fs.StringVar(&o.cwd, "cwd", ".", "the `folder` to work in, with a PROMPT")
	fs.StringVar(&o.promptFile, "prompt-file", "", "read the PROMPT from `FILE`")
	fs.StringVar(&o.model, "model", "", "the `model` to ask for")
	fs.StringVar(&o.effort, "effort", "", "the reasoning `effort` to ask for")
	fs.StringVar(&o.resume, "resume", codex.ResumeAuto, "go on with the recorded session if it fits, with none, or with that of an ID: `auto|never|ID`")
	fs.IntVar(&o.maxTurns, "max-turns", 0, "make at most `N` turns (default agent.max_turns)")
	fs.StringVar(&o.again, "continue", "", "the `TEXT` of every turn after the first; without --recheck it asks for --max-turns turns")
	fs.StringVar(&o.recheck, "recheck", "", "between turns, give the issue record to `CMD` and stop unless it prints an active issue")
	fs.StringVar(&o.goal, "goal", "", "give the thread the goal `TEXT`: Codex goes on by itself until it is reached")
	fs.DurationVar(&o.goalWait, "goal-wait", defaultGoalWait, "with --goal, wait `D` for Codex to begin the next turn (0: no limit)")
	fs.Int64Var(&o.maxTokens, "max-tokens", 0, "end the run once it has used `N` tokens (default budget.tokens_per_run; 0: no limit)")
	fs.DurationVar(&o.timeout, "timeout", 0, "end the whole run after `D` (default agent.run_timeout_ms; 0: never)")
	fs.DurationVar(&o.turnTimeout, "turn-timeout", 0, "end a turn after `D` (default codex.turn_timeout_ms; 0: never)")
	fs.DurationVar(&o.stall, "stall", 0, "end the run after `D` without progress (default agent.stall_timeout_ms; 0: never)")
	fs.DurationVar(&o.grace, "grace", 10*time.Second, "stop politely for `D`, then kill")
	fs.StringArrayVar(&o.tools, "tools", nil, "offer the host-side tools of `CMD`; may be repeated (default tools.commands)")
	fs.StringArrayVar(&o.env, "env", nil, "let the variable `NAME` through to the agent, or set it with NAME=VALUE; may be repeated")
	fs.BoolVar(&o.raw, "raw", false, "add the peer's frame to each event")
	fs.BoolVar(&o.deltas, "deltas", false, "print pieces of messages and of output as they come")
	fs.BoolVar(&o.quiet, "quiet", false, "no lines for people on stderr, even on a terminal")
	fs.BoolVar(&o.dryRun, "dry-run", false, "say what would be done and start nothing")
	fs.StringVar(&o.trace, "trace", "", "append every frame of both directions to `FILE`")
}

func wrong(format string, args ...any) error {
	return cli.WithHint(cli.Usagef(format, args...), "%s --help", usage.Name)
}

func parsePolicy(text string) (any, error) {
	switch {
	case text == "":
		return nil, nil
	case !strings.HasPrefix(text, "{"):
		return text, nil
	}
	var object map[string]any
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		return nil, wrong("--approval-policy %q is not a JSON object: %v", text, err)
	}
	return object, nil
}

func parseOverrides(pairs []string) (map[string]any, error) {
	var overrides map[string]any
	for _, pair := range pairs {
		key, text, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return nil, wrong("--config %q is not KEY=VALUE", pair)
		}
		var value any
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			value = text
		}
		if overrides == nil {
			overrides = make(map[string]any)
		}
		overrides[key] = value
	}
	return overrides, nil
}

// check validates what flags alone can tell, and takes the PROMPT.
func (o *options) check(rest []string) error {
	for name, d := range map[string]time.Duration{"timeout": o.timeout, "turn-timeout": o.turnTimeout, "stall": o.stall, "grace": o.grace, "goal-wait": o.goalWait, "approval-wait": o.approvalWait, "input-wait": o.inputWait} {
		if d < 0 {
			return wrong("--%s %v is negative", name, d)
		}
	}
	for _, kv := range o.env {
		if name, _, _ := strings.Cut(kv, "="); name == "" {
			return wrong("--env %q names no variable", kv)
		}
	}
	switch {
	case o.given["max-turns"] && o.maxTurns < 1:
		return wrong("--max-turns %d is not at least 1", o.maxTurns)
	case o.maxTokens < 0:
		return wrong("--max-tokens %d is negative", o.maxTokens)
	case o.given["goal"] && strings.TrimSpace(o.goal) == "":
		return wrong("--goal is empty")
	case o.goal != "" && o.again != "":
		return wrong("--goal and --continue exclude each other: with a goal Codex writes the later prompts")
	case o.resume == "":
		return wrong("--resume is empty")
	case len(rest) > 1:
		return wrong("%d arguments where one PROMPT may stand: put it in quotes", len(rest))
	case len(rest) == 1 && o.promptFile != "":
		return wrong("a PROMPT and --prompt-file exclude each other")
	case len(rest) == 1 && strings.TrimSpace(rest[0]) == "":
		return wrong("the PROMPT is empty")
	}
	if o.prompted = len(rest) == 1 || o.promptFile != ""; len(rest) == 1 {
		o.prompt = rest[0]
	}
	return nil
}

// duration is the value of a flag, or what the workflow says where it is not given.
func (o *options) duration(name string, flag, otherwise time.Duration) time.Duration {
	if o.given[name] {
		return flag
	}
	return otherwise
}

// split separates --env NAME from --env NAME=VALUE.
func (o *options) splitEnv() (allow []string, set map[string]string) {
	set = make(map[string]string)
	for _, kv := range o.env {
		if name, value, ok := strings.Cut(kv, "="); ok {
			set[name] = value
		} else {
			allow = append(allow, name)
		}
	}
	return allow, set
}
