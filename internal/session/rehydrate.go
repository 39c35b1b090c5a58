package session

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"ostoolkit/internal/wire"
)

// What a session is told of a lost one is kept small: it is to have room.
const (
	maxNotes    = 12 << 10 // bytes of the notes
	maxTold     = 6 << 10  // of all texts that people have sent, the newest first
	maxRecap    = 50       // events
	maxRecapped = 6 << 10  // bytes of their lines
	recapRuns   = 5        // runs that are looked through
	recapTail   = 1 << 20  // bytes of each log
)

// Lost is what is known of a session that cannot be gone on with, for the prompt of the
// session that stands in for it.
type Lost struct {
	Reason string
	Notes  string   // the newest notes that the agent has left at the issue; "": none
	Told   []string // texts that people have sent, oldest first
	Recap  []string // of its events, oldest first
}

// Prompt is the text of the first turn of the new session: full, and behind it what is
// known of the lost one.
func (l *Lost) Prompt(full string) string {
	var b strings.Builder
	b.WriteString(strings.TrimRight(full, "\n"))
	b.WriteString("\n\n## Earlier work\n\n")
	fmt.Fprintf(&b, "You have worked here before, in a conversation that could not be continued: %s. "+
		"Its files are as you left them, but you do not remember it; what is known of it follows. "+
		"Look at the working folder first, keep what is done, and go on from there.\n", strings.TrimRight(l.Reason, "."))
	if notes := strings.TrimSpace(l.Notes); notes != "" {
		if len(notes) > maxNotes {
			notes = head(notes, maxNotes) + "\n[the rest is left out]"
		}
		section(&b, "Your newest notes at the issue", notes)
	}
	if recap := newest(l.Recap, maxRecapped); len(recap) > 0 {
		section(&b, "The last events, oldest first", strings.Join(recap, "\n"))
	}
	if told := newest(l.Told, maxTold); len(told) > 0 {
		section(&b, "What you were told meanwhile, oldest first", strings.Join(told, "\n\n"))
	}
	return b.String()
}

func section(b *strings.Builder, title, text string) {
	fmt.Fprintf(b, "\n### %s\n\n%s\n", title, text)
}

// newest returns the last of the texts, as many as fit into limit bytes. One that alone
// is too long is cut.
func newest(texts []string, limit int) []string {
	first := len(texts)
	for first > 0 && limit >= len(texts[first-1]) {
		first--
		limit -= len(texts[first])
	}
	if first == len(texts) && first > 0 {
		return []string{head(texts[first-1], limit)}
	}
	return texts[first:]
}

// recapped are the events of which a recap has a line. What goes wrong with the harness or
// the mailbox is not the agent's business.
var recapped = []string{
	wire.EventMessage, wire.EventPlan, wire.EventCommandCompleted, wire.EventFileChanged, wire.EventToolCompleted,
}

// Recap returns a line about each of the last events of a session, oldest first, from
// the logs of this run and of those before it. They are the events' summaries, in which
// there are no secrets.
func (p Place) Recap(session string) ([]string, error) {
	runs, err := os.ReadDir(p.State.Runs())
	if err != nil {
		return nil, fmt.Errorf("look for the session's events: %w", err)
	}
	var lines []string
	slices.Reverse(runs) // their names sort by time
	for i, run := range runs {
		if i == recapRuns || len(lines) >= maxRecap {
			break
		}
		older, err := recap(p.State.Run(run.Name()).Events(), session)
		if err != nil {
			return nil, err
		}
		lines = append(older, lines...)
	}
	return lines[max(0, len(lines)-maxRecap):], nil
}

// recap reads the end of one log.
func recap(path, session string) ([]string, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the session's events: %w", err)
	}
	defer func() { _ = f.Close() }() // read only
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, fmt.Errorf("read the session's events: %w", err)
	}
	from := max(0, size-recapTail) // perhaps within a line, which is none then
	text, err := io.ReadAll(io.NewSectionReader(f, from, size-from))
	if err != nil {
		return nil, fmt.Errorf("read the session's events: %w", err)
	}
	var lines []string
	for line := range bytes.Lines(text) {
		if s := recapLine(line, session); s != "" {
			lines = append(lines, s)
		}
	}
	return lines, nil
}

// recapLine is the line about an event of the session, "" for all others.
func recapLine(line []byte, session string) string {
	var ev struct {
		Type    string `json:"type"`
		Event   string `json:"event"`
		Session string `json:"session"`
		Summary string `json:"summary"`
	}
	err := json.Unmarshal(line, &ev)
	if err != nil || ev.Type != "event" || ev.Session != session || ev.Summary == "" || !slices.Contains(recapped, ev.Event) {
		return ""
	}
	return "- " + ev.Event + ": " + ev.Summary
}
