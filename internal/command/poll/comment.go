package poll

import (
	"context"
	"strings"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/tracker"
	"ostoolkit/internal/wire"
)

// workpads begin the comments in which agents keep their notes on an issue: those of
// Symphony's workflows and of OpenSymphony.
func workpads() []string { return []string{"## Codex Workpad", "## Agent Harness Workpad"} }

var commentUsage = cli.Usage{
	Name:     "os-poll comment",
	Synopsis: []string{"latest ISSUE [flags]"},
	About: `Prints, as a comment record, the newest comment of ISSUE, an identifier or id, in which
a line begins with a marker. Without --marker it is the notes of an agent that are
looked for: "## Codex Workpad" or "## Agent Harness Workpad". Nothing is printed where
there is none, and a gone record where there is no such issue.`,
	Examples: `os-poll comment latest A-1 | jq -r .body`,
	Statuses: []int{cli.StatusOK, cli.StatusFailed, cli.StatusUsage, cli.StatusNoInput,
		cli.StatusUnavailable, cli.StatusProtocol, cli.StatusTemporary, cli.StatusAuth, cli.StatusConfig},
	Notes: map[int]string{
		cli.StatusNoInput:     "the workflow named by --workflow or OS_WORKFLOW is missing",
		cli.StatusUnavailable: "the tracker is not to be reached, or not in time",
		cli.StatusProtocol:    "the tracker's answer makes no sense",
		cli.StatusTemporary:   "the tracker wants us to try again later",
		cli.StatusConfig:      "the workflow is wrong, or this tracker has no comments",
	},
}

func comment(ctx context.Context, env *cli.Env, args []string) error {
	var s source
	fs := commentUsage.Flags()
	markers := fs.StringArray("marker", nil, "look for lines that begin with `TEXT`; may be repeated")
	s.add(fs)
	s.addTimeout(fs)
	rest, err := commentUsage.Parse(fs, args)
	if err != nil {
		return err
	}
	if len(rest) != 2 || rest[0] != "latest" || strings.TrimSpace(rest[1]) == "" {
		return cli.WithHint(cli.Usagef("comment wants: latest ISSUE"), "os-poll comment --help")
	}
	if len(*markers) == 0 {
		*markers = workpads()
	}
	for _, m := range *markers {
		if strings.TrimSpace(m) == "" {
			return cli.Usagef("--marker is blank")
		}
	}
	if err := s.check(); err != nil {
		return err
	}
	return s.latest(ctx, env, strings.TrimSpace(rest[1]), *markers)
}

func (s *source) latest(ctx context.Context, env *cli.Env, name string, markers []string) error {
	o, err := s.open(env)
	if err != nil {
		return err
	}
	of, ok := o.tracker.(tracker.Commenter)
	if !ok {
		return cli.Errorf(cli.StatusConfig, "a tracker of the kind %q has no comments", o.adapter.Kind)
	}
	ctx, cancel := s.limit(ctx)
	defer cancel()
	list, found, err := of.Comments(ctx, name, markers)
	if err != nil {
		return withStatus(err)
	}
	out := wire.NewWriter(env.Stdout)
	if !found {
		return out.Write(&wire.Gone{ID: name})
	}
	latest := tracker.LatestMarked(list, markers)
	if latest == nil {
		return nil
	}
	return out.Write(latest)
}
