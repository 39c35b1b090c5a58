package codex

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/harness"
)

// options is the parsed command line: the shared flags and Codex's own.
type options struct {
	*harness.Options
	goal           string
	goalWait       time.Duration
	command        string
	sandbox        string
	gitWrite       bool
	approvalPolicy any
	overrides      map[string]any
	noSchema       bool
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

// defaultGoalWait is long for a server that begins the next turn within milliseconds.
const defaultGoalWait = 20 * time.Second

// parse reads the command line. It is pure.
func parse(args []string) (*options, error) {
	o := &options{Options: harness.NewOptions(&usage)}
	fs := usage.Flags()
	o.AddTo(fs)
	o.AddInputWait(fs)
	fs.StringVar(&o.goal, "goal", "", "give the thread the goal `TEXT`: Codex goes on by itself until it is reached")
	fs.DurationVar(&o.goalWait, "goal-wait", defaultGoalWait, "with --goal, wait `D` for Codex to begin the next turn (0: no limit)")
	o.addLaunch(fs)
	fs.StringVar(&o.sandbox, "sandbox", "", "the agent's `sandbox`: read-only, workspace-write, danger-full-access")
	fs.BoolVar(&o.gitWrite, "git-write", false, "let the agent write all of the workspace's git repository, its hooks and configuration included")
	policy := fs.String("approval-policy", "", "when Codex asks for leave: untrusted, on-request, never, or a JSON `object`")
	config := fs.StringArray("config", nil, "set `KEY=VALUE` in Codex's configuration, the value as JSON if it is; may be repeated")
	if err := o.Parse(fs, args); err != nil {
		return nil, err
	}
	var err error
	if o.approvalPolicy, err = o.parsePolicy(*policy); err != nil {
		return nil, err
	}
	if o.overrides, err = o.parseOverrides(*config); err != nil {
		return nil, err
	}
	return o, o.checkGoal()
}

// addLaunch adds the flags that check has too.
func (o *options) addLaunch(fs *pflag.FlagSet) {
	fs.StringVar(&o.command, "command", "", "the `COMMAND` that starts the app-server (default \"codex app-server\")")
	fs.BoolVar(&o.noSchema, "no-schema", false, "do not compare our requests with the app-server's schema")
}

func (o *options) parsePolicy(text string) (any, error) {
	switch {
	case text == "":
		return nil, nil
	case !strings.HasPrefix(text, "{"):
		return text, nil
	}
	var object map[string]any
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		return nil, o.Wrong("--approval-policy %q is not a JSON object: %v", text, err)
	}
	return object, nil
}

func (o *options) parseOverrides(pairs []string) (map[string]any, error) {
	var overrides map[string]any
	for _, pair := range pairs {
		key, text, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return nil, o.Wrong("--config %q is not KEY=VALUE", pair)
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

func (o *options) checkGoal() error {
	switch {
	case o.goalWait < 0:
		return o.Wrong("--goal-wait %v is negative", o.goalWait)
	case o.Given("goal") && strings.TrimSpace(o.goal) == "":
		return o.Wrong("--goal is empty")
	case o.goal != "" && o.Continue != "":
		return o.Wrong("--goal and --continue exclude each other: with a goal Codex writes the later prompts")
	}
	return nil
}
