package loop

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"
	"golang.org/x/term"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/loop"
	"ostoolkit/internal/schedule"
)

// maxTitle is the most columns that a title takes on a terminal.
const maxTitle = 32

// screen is what is known of the place where a report is shown.
type screen struct {
	terminal      bool
	fd            int
	width, height int // 0: no limit
	colour        bool
	cells         *runewidth.Condition

	drawn int // lines of the last frame; the cursor is below them
}

func screenOf(env *cli.Env) *screen {
	// Of its own, since the library's default looks at the environment.
	s := &screen{cells: &runewidth.Condition{StrictEmojiNeutral: true}}
	if f, ok := env.Stdout.(interface{ Fd() uintptr }); ok && term.IsTerminal(int(f.Fd())) {
		s.terminal, s.fd = true, int(f.Fd())
		s.colour = env.Getenv("NO_COLOR") == "" && env.Getenv("TERM") != "dumb"
		s.measure()
	}
	return s
}

// measure asks for the size and reports whether it has changed.
func (s *screen) measure() bool {
	width, height, err := term.GetSize(s.fd)
	if err != nil {
		return false
	}
	changed := width != s.width || height != s.height
	s.width, s.height = width, height
	return changed
}

// frame is a report that takes the place of the last one: one text for one write.
func (s *screen) frame(v *loop.View, now time.Time) string {
	var b strings.Builder
	switch resized := s.measure(); {
	case s.drawn == 0:
	case resized: // the old lines may have been wrapped: nobody knows where they are
		b.WriteString("\x1b[H\x1b[2J")
	default:
		fmt.Fprintf(&b, "\x1b[%dF", s.drawn)
	}
	lines := s.lines(v, now)
	if most := s.height - 1; s.height > 1 && len(lines) > most {
		hidden := len(lines) - most + 1
		lines = append(lines[:most-1], s.cut(fmt.Sprintf("… %d more lines", hidden)))
	}
	for _, l := range lines {
		b.WriteString(l + "\x1b[K\n")
	}
	b.WriteString("\x1b[J")
	s.drawn = len(lines)
	return b.String()
}

// report is the status for people: what os-loop is about, a table, and the sums.
func (s *screen) report(v *loop.View, now time.Time) string {
	return strings.Join(s.lines(v, now), "\n") + "\n"
}

func (s *screen) lines(v *loop.View, now time.Time) []string {
	lines := []string{s.cut(plain(v.Headline(now)))}
	for _, n := range v.Notes() {
		lines = append(lines, s.paint(red, s.cut(plain(n))))
	}
	if rows := rows(v, now); len(rows) > 1 {
		lines = append(lines, s.table(rows)...)
	} else {
		lines = append(lines, "nothing is claimed and nothing waits")
	}
	return append(lines, s.cut(v.Summary(now)))
}

// The columns of the table that are handled by themselves.
const (
	columnStatus = 1
	columnTitle  = 7
)

func rows(v *loop.View, now time.Time) [][]string {
	all := [][]string{{"ISSUE", "STATUS", "STATE", "HARNESS", "TURN", "TOKENS", "TIME", "TITLE", "WHAT"}}
	for i := range v.Running {
		all = append(all, runningRow(&v.Running[i], now))
	}
	for _, e := range v.Waiting {
		all = append(all, entryRow(&e, "waiting", "in "+cmp.Or(loop.Until(e.DueAt, now), "?"), string(e.Reason)))
	}
	for _, e := range v.Parked {
		all = append(all, entryRow(&e, "parked", loop.Age(e.ParkedAt, now), string(e.Reason)))
	}
	for _, k := range v.Skipped {
		all = append(all, []string{k.Identifier, "skipped", "", "", "", "", "", "", k.Reason})
	}
	return all
}

func runningRow(r *loop.Seen, now time.Time) []string {
	var what []string
	if r.Reason != "" {
		what = append(what, string(r.Reason))
	}
	if r.LastEvent != "" {
		what = append(what, strings.TrimSuffix(fmt.Sprintf("%s ago %s: %s", loop.Age(r.LastEventAt, now), r.LastEvent, r.LastMessage), ": "))
	}
	row := entryRow(&r.Entry, r.Word(), loop.Age(r.StartedAt, now), strings.Join(what, ", "))
	if r.Turn != nil {
		row[4] = fmt.Sprint(*r.Turn)
	}
	return row
}

func entryRow(e *schedule.Entry, status, at, what string) []string {
	return []string{
		e.Identifier, status, string(e.State), string(e.Harness), "", fmt.Sprint(e.Lifetime.Tokens + e.Tokens), at, string(e.Title), what,
	}
}

// table aligns columns by what they take on a screen. A cell that is empty is a dash.
func (s *screen) table(rows [][]string) []string {
	widths := make([]int, len(rows[0]))
	for _, r := range rows {
		for i := range r {
			r[i] = cmp.Or(plain(r[i]), "-")
			if s.terminal && i == columnTitle {
				r[i] = s.cells.Truncate(r[i], maxTitle, "…")
			}
			widths[i] = max(widths[i], s.cells.StringWidth(r[i]))
		}
	}
	lines := make([]string, 0, len(rows))
	for n, r := range rows {
		lines = append(lines, s.row(r, widths, n == 0))
	}
	return lines
}

// row is one line. What has no room is cut before it is coloured, so that no colour
// is left on.
func (s *screen) row(cells []string, widths []int, head bool) string {
	var b strings.Builder
	left := s.width
	for i, cell := range cells {
		if i < len(cells)-1 {
			cell = s.cells.FillRight(cell, widths[i]+2)
		}
		full := s.width > 0 && s.cells.StringWidth(cell) >= left
		if full {
			cell = s.cells.Truncate(strings.TrimRight(cell, " "), left, "…")
		}
		left -= s.cells.StringWidth(cell)
		switch {
		case head:
			cell = s.paint(bold, cell)
		case i == columnStatus:
			cell = s.paint(colours[strings.TrimSpace(cell)], cell)
		}
		b.WriteString(cell)
		if full {
			break
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// The ways to show a cell, as the parameters of the terminal's own command.
const (
	bold = "1"
	red  = "31"
)

var colours = map[string]string{"running": "32", "asking": "33", "stopping": "33", "ended": "33", "waiting": "36", "parked": red, "skipped": "2"}

func (s *screen) paint(how, text string) string {
	if !s.colour || how == "" || text == "" {
		return text
	}
	return "\x1b[" + how + "m" + text + "\x1b[0m"
}

func (s *screen) cut(line string) string {
	if s.width <= 0 {
		return line
	}
	return s.cells.Truncate(line, s.width, "…")
}

// plain keeps what came from a tracker or an agent from steering the terminal.
func plain(cell string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r < ' ' || r >= 0x7f && r < 0xa0:
			return '?'
		case r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069: // turn the order of a line round
			return -1
		}
		return r
	}, cell)
}
