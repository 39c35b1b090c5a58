package poll

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/tracker"
	"ostoolkit/internal/tracker/execcmd"
	"ostoolkit/internal/tracker/folder"
	"ostoolkit/internal/tracker/github"
	"ostoolkit/internal/tracker/linear"
	"ostoolkit/internal/workflow"
)

// adapters are the trackers of this build.
func adapters() []tracker.Adapter {
	return []tracker.Adapter{folder.Adapter(), execcmd.Adapter(), github.Adapter(), linear.Adapter()}
}

func kinds() []string {
	var kinds []string
	for _, a := range adapters() {
		kinds = append(kinds, a.Kind)
	}
	return kinds
}

// opened is a tracker with what the workflow says of it.
type opened struct {
	flow    *workflow.Workflow
	adapter tracker.Adapter
	rules   tracker.Rules
	tracker tracker.Tracker
}

func (s *source) open(env *cli.Env) (*opened, error) {
	flow, err := workflow.Open(s.workflow, env)
	if err != nil {
		return nil, err
	}
	kind := flow.Tracker.Kind
	if s.kind != "" {
		kind = s.kind
	}
	all := adapters()
	i := slices.IndexFunc(all, func(a tracker.Adapter) bool { return a.Kind == tracker.Fold(kind) })
	if i < 0 {
		return nil, withStatus(tracker.Errorf(tracker.UnsupportedKind,
			"tracker kind %q is not one that this build knows: %s", kind, strings.Join(kinds(), ", ")))
	}
	o := &opened{flow: flow, adapter: all[i]}
	if o.rules, err = rules(flow.Tracker, all[i]); err != nil {
		return nil, withStatus(err)
	}
	o.tracker, err = all[i].Open(tracker.Config{
		Dir: flow.Dir, Provider: flow.Tracker.Provider, Missing: flow.Tracker.Missing, Getenv: env.Getenv, Environ: env.Environ,
		Rules: o.rules, Now: env.Now, ToolScopeAny: s.anyScope,
		// A request that hangs is to leave time for another attempt.
		Timeout: s.timeout / 3, MaxWait: s.maxWait, TrustedAuthors: s.trusted,
	})
	if err != nil {
		return nil, withStatus(err)
	}
	return o, nil
}

// rules are those of the workflow, or the adapter's where it has none. An empty list
// is no rule but a mistake: nothing would ever be found.
func rules(t workflow.Tracker, a tracker.Adapter) (tracker.Rules, error) {
	r := tracker.Rules{Active: t.ActiveStates, Terminal: t.TerminalStates, RequiredLabels: t.RequiredLabels}
	if r.Active == nil {
		r.Active = a.Active
	}
	if r.Terminal == nil {
		r.Terminal = a.Terminal
	}
	if len(r.Active) == 0 {
		return r, tracker.Errorf(tracker.InvalidConfig, "tracker.active_states names no state")
	}
	if len(r.Terminal) == 0 {
		return r, tracker.Errorf(tracker.InvalidConfig, "tracker.terminal_states names no state")
	}
	return r, nil
}

// limit bounds what is asked of the tracker.
func (s *source) limit(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, s.timeout,
		cli.Errorf(cli.StatusUnavailable, "the tracker gave no answer within %v", s.timeout))
}

// statusOf has a status for each category; anything else is 1.
var statusOf = map[tracker.Category]int{
	tracker.UnsupportedKind: cli.StatusConfig,
	tracker.InvalidConfig:   cli.StatusConfig,
	tracker.MissingSecret:   cli.StatusAuth,
	tracker.Denied:          cli.StatusAuth,
	tracker.Forbidden:       cli.StatusAuth,
	tracker.NotFound:        cli.StatusUnavailable,
	tracker.Unavailable:     cli.StatusUnavailable,
	tracker.TimedOut:        cli.StatusUnavailable,
	tracker.BadStatus:       cli.StatusProtocol,
	tracker.BadResponse:     cli.StatusProtocol,
	tracker.BadPaging:       cli.StatusProtocol,
	tracker.TooComplex:      cli.StatusConfig,
	tracker.RateLimited:     cli.StatusTemporary,
	tracker.Busy:            cli.StatusTemporary,
	tracker.BadArguments:    cli.StatusData,
}

// withStatus gives a tracker's error its exit status and its hint.
func withStatus(err error) error {
	var t *tracker.Error
	var stopped *cli.Interrupted
	if !errors.As(err, &t) || errors.As(err, &stopped) {
		return err // a signal has a status of its own
	}
	status, ok := statusOf[t.Category]
	if !ok {
		status = cli.StatusFailed
	}
	if !t.RetryAt.IsZero() {
		err = fmt.Errorf("%w; not before %s", err, t.RetryAt.UTC().Format(time.RFC3339))
	}
	err = &cli.ExitError{Status: status, Err: err}
	if t.Hint != "" {
		err = cli.WithHint(err, "%s", t.Hint)
	}
	return err
}
