package loop

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/term"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/loop"
	"ostoolkit/internal/proc"
	"ostoolkit/internal/schedule"
	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
)

func statusUsage() *cli.Usage {
	return &cli.Usage{
		Name:     "os-loop status",
		Synopsis: []string{"[flags]"},
		About: `Shows what runs, waits, is parked or is passed over, and why. On a terminal lines are
cut to its width. It reads files only: a busy os-loop is not disturbed, and of one that
has ended the last state is shown.`,
		Examples: `os-loop status
os-loop status --json | jq -r '.running[].identifier'`,
		Statuses: []int{cli.StatusOK, cli.StatusUsage, cli.StatusNoInput, cli.StatusState, cli.StatusConfig},
		Notes:    map[int]string{cli.StatusNoInput: "no os-loop has worked here yet, or there is no WORKFLOW.md"},
	}
}

// owner returns who holds the lock of a state root, or nil.
func owner(root state.Root) *proc.Process {
	holders, err := proc.Holders(lockFile(root))
	if err != nil || len(holders) == 0 {
		return nil
	}
	return &holders[0]
}

func status(_ context.Context, env *cli.Env, _ string, args []string) error {
	u := statusUsage()
	fs := u.Flags()
	var t target
	t.add(fs)
	asJSON := fs.Bool("json", false, "print one JSON object")
	rest, err := u.Parse(fs, args)
	if err != nil {
		return err
	}
	if len(rest) > 0 {
		return cli.Usagef("unexpected argument %q", rest[0])
	}
	root, _, err := t.root(env)
	if err != nil {
		return err
	}
	s, err := readState(root)
	if err != nil {
		return err
	}
	if *asJSON {
		return printJSON(env, root, s)
	}
	_, err = io.WriteString(env.Stdout, report(s, owner(root) != nil, width(env.Stdout), env.Now()))
	return err
}

func readState(root state.Root) (*loop.State, error) {
	s, err := loop.ReadState(root)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, cli.Errorf(cli.StatusNoInput, "no os-loop has worked on %q yet", root)
	case err != nil:
		return nil, cli.Errorf(cli.StatusState, "%w", err)
	}
	return s, nil
}

func printJSON(env *cli.Env, root state.Root, s *loop.State) error {
	b, err := wire.Encode(struct {
		Alive bool `json:"alive"`
		*loop.State
	}{owner(root) != nil, s})
	if err == nil {
		_, err = env.Stdout.Write(append(b, '\n'))
	}
	return err
}

// width is that of the terminal, or 0 where stdout is none.
func width(stdout io.Writer) int {
	f, ok := stdout.(interface{ Fd() uintptr })
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return 0
	}
	columns, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return columns
}

// report is the status for people: a line about os-loop, then a table.
func report(s *loop.State, alive bool, width int, now time.Time) string {
	var b strings.Builder
	b.WriteString(headline(s, alive) + "\n")
	for _, h := range s.Holds {
		until := "until it is cleared"
		if !h.Until.IsZero() {
			until = "until " + h.Until.Format(time.RFC3339)
		}
		fmt.Fprintf(&b, "%s is held %s: %s\n", h.Backend, until, h.Reason)
	}
	b.WriteString(table(rows(s, now), width))
	return b.String()
}

func headline(s *loop.State, alive bool) string {
	words := []string{fmt.Sprintf("os-loop %d", s.PID)}
	switch {
	case !alive:
		words = []string{"no os-loop runs; this is the last state"}
	case s.Closing:
		words = append(words, "shutting down")
	case s.Draining:
		words = append(words, "draining")
	case s.Paused:
		words = append(words, "paused")
	}
	if s.Config != "" {
		words = append(words, "config: "+string(s.Config))
	}
	if s.Tracker != "" {
		words = append(words, "tracker: "+string(s.Tracker))
	}
	return strings.Join(words, ", ")
}

func rows(s *loop.State, now time.Time) [][]string {
	all := [][]string{{"ISSUE", "STATUS", "STATE", "RUN", "TOKENS", "WHY"}}
	add := func(status string, entries []schedule.Entry) {
		for _, e := range entries {
			all = append(all, entryRow(status, e, now))
		}
	}
	add("running", s.Running)
	add("waiting", s.Waiting)
	add("parked", s.Parked)
	for _, k := range s.Skipped {
		all = append(all, []string{k.Identifier, "skipped", "-", "-", "-", k.Reason})
	}
	return all
}

func entryRow(status string, e schedule.Entry, now time.Time) []string {
	why := string(e.Reason)
	switch {
	case e.Asking:
		status = "asking"
	case status == "running" && why != "":
		status = "stopping"
	}
	if !e.DueAt.IsZero() {
		why = fmt.Sprintf("%s, due in %s", why, max(0, e.DueAt.Sub(now)).Round(time.Second))
	}
	tokens := e.Lifetime.Tokens + e.Tokens
	return []string{e.Identifier, status, cmp.Or(string(e.State), "-"), cmp.Or(string(e.RunID), "-"), fmt.Sprint(tokens), cmp.Or(why, "-")}
}

// table aligns columns and cuts lines to width; 0 is any width.
func table(rows [][]string, width int) string {
	if len(rows) < 2 {
		return "nothing is claimed and nothing waits\n"
	}
	widths := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, cell := range r {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	for _, r := range rows {
		var line strings.Builder
		for i, cell := range r {
			line.WriteString(plain(cell))
			if i < len(r)-1 {
				line.WriteString(strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+2))
			}
		}
		b.WriteString(cut(line.String(), width) + "\n")
	}
	return b.String()
}

// plain keeps what came from a tracker from steering the terminal.
func plain(cell string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return '?'
		}
		return r
	}, cell)
}

func cut(line string, width int) string {
	runes := []rune(line)
	if width <= 0 || len(runes) <= width {
		return line
	}
	return string(runes[:max(0, width-1)]) + "…"
}
