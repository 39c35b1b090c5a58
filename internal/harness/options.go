package harness

import (
	"strings"
	"time"

	"github.com/spf13/pflag"

	"ostoolkit/internal/approval"
	"ostoolkit/internal/cli"
	"ostoolkit/internal/session"
)

// defaultWait is how long a person may take to answer the agent.
const defaultWait = 30 * time.Minute

// Options are the flags that all harnesses have, and the PROMPT. What a flag does not
// say comes from the workflow.
type Options struct {
	Workflow     string
	Cwd          string
	PromptFile   string
	Model        string
	Effort       string
	Resume       string
	MaxTurns     int
	Continue     string
	Recheck      string
	MaxTokens    int64
	Timeout      time.Duration
	TurnTimeout  time.Duration
	Stall        time.Duration
	Grace        time.Duration
	Approvals    approval.Policy
	ApprovalWait time.Duration
	InputWait    time.Duration
	Env          []string
	Tools        []string
	Raw          bool
	Deltas       bool
	Quiet        bool
	DryRun       bool
	Trace        string

	usage     *cli.Usage
	approvals string
	prompt    string // the argument; "" for none, "-" for standard input
	prompted  bool
	given     map[string]bool // the flags that were on the command line
}

// NewOptions returns the options of the command with that usage, before any flag was
// read.
func NewOptions(u *cli.Usage) *Options {
	return &Options{Cwd: ".", Resume: session.ResumeAuto, usage: u, given: make(map[string]bool)}
}

// AddTo adds the shared flags to fs.
func (o *Options) AddTo(fs *pflag.FlagSet) {
	fs.StringVar(&o.Workflow, "workflow", "", "the workflow `FILE` (default $OS_WORKFLOW, else ./WORKFLOW.md; none with a PROMPT)")
	fs.StringVar(&o.Cwd, "cwd", ".", "the `folder` to work in, with a PROMPT")
	fs.StringVar(&o.PromptFile, "prompt-file", "", "read the PROMPT from `FILE`")
	fs.StringVar(&o.Model, "model", "", "the `model` to ask for")
	fs.StringVar(&o.Effort, "effort", "", "the reasoning `effort` to ask for")
	fs.StringVar(&o.Resume, "resume", session.ResumeAuto, "go on with the recorded session if it fits, with none, or with that of an ID: `auto|never|ID`")
	fs.IntVar(&o.MaxTurns, "max-turns", 0, "make at most `N` turns (default agent.max_turns)")
	fs.StringVar(&o.Continue, "continue", "", "the `TEXT` of every turn after the first; without --recheck it asks for --max-turns turns")
	fs.StringVar(&o.Recheck, "recheck", "", "between turns, give the issue record to `CMD` and stop unless it prints an active issue")
	fs.Int64Var(&o.MaxTokens, "max-tokens", 0, "end the run once it has used `N` tokens (default budget.tokens_per_run; 0: no limit)")
	fs.DurationVar(&o.Timeout, "timeout", 0, "end the whole run after `D` (default agent.run_timeout_ms; 0: never)")
	fs.DurationVar(&o.TurnTimeout, "turn-timeout", 0, "end a turn after `D` (default codex.turn_timeout_ms; 0: never)")
	fs.DurationVar(&o.Stall, "stall", 0, "end the run after `D` without progress (default agent.stall_timeout_ms; 0: never)")
	fs.DurationVar(&o.Grace, "grace", 10*time.Second, "stop politely for `D`, then kill")
	fs.StringArrayVar(&o.Env, "env", nil, "let the variable `NAME` through to the agent, or set it with NAME=VALUE; may be repeated")
	fs.BoolVar(&o.Raw, "raw", false, "add the peer's frame to each event")
	fs.BoolVar(&o.Deltas, "deltas", false, "print pieces of messages and of output as they come")
	fs.BoolVar(&o.Quiet, "quiet", false, "no lines for people on stderr, even on a terminal")
	fs.BoolVar(&o.DryRun, "dry-run", false, "say what would be done and start nothing")
	fs.StringArrayVar(&o.Tools, "tools", nil, "offer the host-side tools of `CMD`; may be repeated (default tools.commands)")
	fs.StringVar(&o.Trace, "trace", "", "append every frame of both directions to `FILE`")
	fs.StringVar(&o.approvals, "approvals", "policy", "`who` answers when the agent asks for leave, and what: policy, accept, decline, mailbox")
	fs.DurationVar(&o.ApprovalWait, "approval-wait", defaultWait, "with --approvals mailbox, wait `D` for the answer to an approval (0: no limit)")
}

// AddInputWait adds the flag of harnesses whose agents ask questions.
func (o *Options) AddInputWait(fs *pflag.FlagSet) {
	fs.DurationVar(&o.InputWait, "input-wait", defaultWait, "with --approvals mailbox, wait `D` for the answer to a question (0: no limit)")
}

// Parse parses args, takes the PROMPT and checks what the shared flags alone can tell.
func (o *Options) Parse(fs *pflag.FlagSet, args []string) error {
	rest, err := o.usage.Parse(fs, args)
	if err != nil {
		return err
	}
	fs.Visit(func(f *pflag.Flag) { o.given[f.Name] = true })
	if o.Approvals, err = approval.Parse(o.approvals); err != nil {
		return o.Wrong("--%v", err)
	}
	return o.check(rest)
}

// Wrong returns a usage error that points to the help.
func (o *Options) Wrong(format string, args ...any) error {
	return cli.WithHint(cli.Usagef(format, args...), "%s --help", o.usage.Name)
}

// Given reports whether the flag was on the command line.
func (o *Options) Given(name string) bool { return o.given[name] }

// Prompted reports whether there is a PROMPT, so that one session is made; otherwise each
// workspace record on standard input asks for one.
func (o *Options) Prompted() bool { return o.prompted }

// Duration is the value of a flag, or what the workflow says where it is not given.
func (o *Options) Duration(name string, flag, otherwise time.Duration) time.Duration {
	if o.given[name] {
		return flag
	}
	return otherwise
}

func (o *Options) check(rest []string) error {
	if err := o.checkValues(); err != nil {
		return err
	}
	switch {
	case len(rest) > 1:
		return o.Wrong("%d arguments where one PROMPT may stand: put it in quotes", len(rest))
	case len(rest) == 1 && o.PromptFile != "":
		return o.Wrong("a PROMPT and --prompt-file exclude each other")
	case len(rest) == 1 && strings.TrimSpace(rest[0]) == "":
		return o.Wrong("the PROMPT is empty")
	}
	if o.prompted = len(rest) == 1 || o.PromptFile != ""; len(rest) == 1 {
		o.prompt = rest[0]
	}
	return nil
}

func (o *Options) checkValues() error {
	for name, d := range map[string]time.Duration{
		"timeout": o.Timeout, "turn-timeout": o.TurnTimeout, "stall": o.Stall, "grace": o.Grace,
		"approval-wait": o.ApprovalWait, "input-wait": o.InputWait,
	} {
		if d < 0 {
			return o.Wrong("--%s %v is negative", name, d)
		}
	}
	for _, kv := range o.Env {
		if name, _, _ := strings.Cut(kv, "="); name == "" {
			return o.Wrong("--env %q names no variable", kv)
		}
	}
	switch {
	case o.given["max-turns"] && o.MaxTurns < 1:
		return o.Wrong("--max-turns %d is not at least 1", o.MaxTurns)
	case o.MaxTokens < 0:
		return o.Wrong("--max-tokens %d is negative", o.MaxTokens)
	case o.Resume == "":
		return o.Wrong("--resume is empty")
	}
	return nil
}

// splitEnv separates --env NAME from --env NAME=VALUE.
func (o *Options) splitEnv() (allow []string, set map[string]string) {
	set = make(map[string]string)
	for _, kv := range o.Env {
		if name, value, ok := strings.Cut(kv, "="); ok {
			set[name] = value
		} else {
			allow = append(allow, name)
		}
	}
	return allow, set
}
