package openhands

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/harness"
	"ostoolkit/internal/openhands"
	"ostoolkit/internal/session"
)

// options is the parsed command line: the shared flags and those of OpenHands.
type options struct {
	*harness.Options
	server        string
	spawn         string
	apiKeyEnv     string
	llmBaseURL    string
	llmKeyEnv     string
	llm           map[string]any
	maxIterations int
	confirm       string
	reuse         string
}

var usage = cli.Usage{
	Name:     "os-openhands",
	Synopsis: []string{"[flags] [PROMPT | -]", "send [flags] TARGET [TEXT | -]", "check [flags]"},
	About: `
Drives one conversation of an OpenHands agent-server and prints its events and its
outcome, one JSON record a line. With a PROMPT ("-": from standard input) it works in
--cwd. Without one it reads workspace records from standard input and makes a session for
each, with the prompt of WORKFLOW.md. The server runs the agent's commands as itself: it
confines nothing unless it is in a container.`,
	Verbs: [][2]string{{"send", "a text or a request for a session that runs"}, {"check", "tells what would keep a session from working"}},
	Examples: `
os-openhands --server http://127.0.0.1:8000 --model openai/gpt-5.4 'fix the failing test'
os-openhands --spawn agent-server --api-key-env KEY 'fix the failing test'
os-poll --ready | os-workspace run -- os-openhands
os-openhands send ABC-1 'write the test first'`,
	Statuses: []int{cli.StatusOK, cli.StatusFailed, cli.StatusInputRequired, cli.StatusStalled, cli.StatusTimedOut,
		cli.StatusBudgetExceeded, cli.StatusCancelled, cli.StatusUsage, cli.StatusData, cli.StatusNoInput, cli.StatusUnavailable,
		cli.StatusProtocol, cli.StatusState, cli.StatusTemporary, cli.StatusAuth, cli.StatusConfig},
	Notes: map[int]string{
		cli.StatusOK:          "succeeded",
		cli.StatusFailed:      "failed: the provider, no answer, or the agent-server died",
		cli.StatusStalled:     "no progress for the stall limit, or the agent goes round in circles",
		cli.StatusUnavailable: "the agent-server cannot be reached, or does not know the conversation",
	},
}

// parse reads the command line. It is pure.
func parse(args []string) (*options, error) {
	o := &options{Options: harness.NewOptions(&usage)}
	fs := usage.Flags()
	o.AddTo(fs)
	o.addServer(fs)
	fs.StringVar(&o.llmBaseURL, "llm-base-url", "", "ask the model at `URL` (default the variable named by openhands.llm.base_url_env, else LLM_BASE_URL)")
	fs.StringVar(&o.llmKeyEnv, "llm-api-key-env", "", "the `VARIABLE` with the key of the model's provider (default openhands.llm.api_key_env, else LLM_API_KEY)")
	llm := fs.StringArray("llm-option", nil, "set `KEY=VALUE` in the model's configuration, the value as JSON if it is; may be repeated")
	fs.IntVar(&o.maxIterations, "max-iterations", 0, "let the agent make at most `N` steps in a turn (default 500)")
	fs.StringVar(&o.confirm, "confirm", "", "when the agent asks for leave: never, always, `risky` (default never)")
	fs.StringVar(&o.reuse, "reuse", "", "the conversation of a later run: `per_issue` goes on with it, fresh_each_run does not (default per_issue)")
	if err := o.Parse(fs, args); err != nil {
		return nil, err
	}
	var err error
	if o.llm, err = o.parseLLM(*llm); err != nil {
		return nil, err
	}
	return o, o.check()
}

// addServer adds the flags that check has too.
func (o *options) addServer(fs *pflag.FlagSet) {
	fs.StringVar(&o.server, "server", "", "the `URL` of the agent-server: http on this machine, https and a key elsewhere (default http://127.0.0.1:8000)")
	fs.StringVar(&o.spawn, "spawn", "", "start an agent-server of our own with `CMD`, or join the one of another session; the last one out ends it")
	fs.StringVar(&o.apiKeyEnv, "api-key-env", "", "the `VARIABLE` with the session key of the agent-server")
}

func (o *options) parseLLM(pairs []string) (map[string]any, error) {
	llm := make(map[string]any)
	for _, pair := range pairs {
		key, text, ok := strings.Cut(pair, "=")
		if !ok || key == "" {
			return nil, o.Wrong("--llm-option %q is not KEY=VALUE", pair)
		}
		if isSecret(key) {
			return nil, o.Wrong("--llm-option %s would show a secret to everybody who lists processes: name its variable with --llm-api-key-env", key)
		}
		var value any
		if err := json.Unmarshal([]byte(text), &value); err != nil {
			value = text
		}
		llm[key] = value
	}
	return llm, nil
}

// isSecret reports whether a member of the model's configuration is one.
func isSecret(key string) bool {
	return slices.Contains([]string{"api_key", "aws_access_key_id", "aws_secret_access_key", "aws_session_token"}, key)
}

// check validates what flags alone can tell.
func (o *options) check() error {
	switch {
	case o.maxIterations < 0 || o.maxIterations == 0 && o.Given("max-iterations"):
		return o.Wrong("--max-iterations %d is not at least 1", o.maxIterations)
	case o.confirm != "" && !slices.Contains(confirmWords, o.confirm):
		return o.Wrong("--confirm %q is none of %s", o.confirm, strings.Join(confirmWords, ", "))
	case o.reuse != "" && !slices.Contains(reuseWords, o.reuse):
		return o.Wrong("--reuse %q is none of %s", o.reuse, strings.Join(reuseWords, ", "))
	case o.server == "" && o.Given("server"):
		return o.Wrong("--server is empty")
	case o.spawn == "" && o.Given("spawn"):
		return o.Wrong("--spawn is empty")
	case o.server != "" && o.spawn != "":
		return o.Wrong("--server and --spawn exclude each other: a server that is started here has no address yet")
	}
	return nil
}

var (
	confirmWords = []string{openhands.ConfirmNever, openhands.ConfirmAlways, openhands.ConfirmRisky}
	reuseWords   = []string{session.ReusePerIssue, session.ReuseNever}
)
