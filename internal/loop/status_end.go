package loop

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"

	"ostoolkit/internal/schedule"
	"ostoolkit/internal/wire"
)

// maxEnd is how much of a run's log is looked at, in bytes: many runs are looked at
// at once, and some logs are long.
const maxEnd = 1 << 20

// maxRecent is how many events of a run are shown.
const maxRecent = 20

// readEnd returns the last whole lines of a log, or nil where there are none.
func readEnd(path string) []byte {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }() // read only
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil
	}
	from := max(0, info.Size()-maxEnd)
	text := make([]byte, info.Size()-from)
	n, err := f.ReadAt(text, from)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil
	}
	text = text[:n]
	if from > 0 { // the first line is most likely not whole
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	return text[:bytes.LastIndexByte(text, '\n')+1]
}

// take reads off the end of a log where the run stands.
func (g *Glimpse) take(end []byte, runID string) {
	if e := newest(end, runID, "event"); e != nil {
		g.Session, g.LastEvent, g.LastMessage, g.LastEventAt = e.Session, wire.Text(e.Event), wire.Text(e.Summary), e.Time
	}
	if e := newest(end, runID, wire.EventTurnStarted); e != nil {
		var t wire.Turn
		if e.As(&t) == nil && t.Number > 0 {
			g.Turn = wire.Count(t.Number)
		}
	}
	if e := newest(end, runID, wire.EventUsage); e != nil {
		var u struct{ Usage *wire.Usage }
		if e.As(&u) == nil {
			g.Usage = u.Usage
		}
	}
	if e := newest(end, runID, wire.EventRateLimits); e != nil {
		var l wire.Limits
		if e.As(&l) == nil && json.Valid(l.Limits) {
			g.limits = limits{e.Time, l.Limits}
		}
	}
}

// newest returns the last event of a run, of that name, or of any where the name is
// "event"; nil if there is none. Only lines that have the name in them are decoded.
func newest(end []byte, runID, name string) *wire.Event {
	sign := []byte(`"` + name + `"`)
	for {
		at := bytes.LastIndex(end, sign)
		if at < 0 {
			return nil
		}
		from := bytes.LastIndexByte(end[:at], '\n') + 1
		line, _, _ := bytes.Cut(end[from:], []byte("\n"))
		if e := eventOf(line, runID); e != nil && (name == "event" || e.Event == name) {
			return e
		}
		end = end[:from]
	}
}

// eventOf decodes a line, if it is an event of the run.
func eventOf(line []byte, runID string) *wire.Event {
	rec, err := wire.Decode(line, "")
	if err != nil {
		return nil
	}
	e, ok := rec.(*wire.Event)
	if !ok || e.RunID != runID {
		return nil
	}
	return e
}

// recent returns the last events of a run, the oldest first.
func recent(end []byte, runID string) []*wire.Event {
	var events []*wire.Event
	for len(end) > 0 && len(events) < maxRecent {
		from := bytes.LastIndexByte(end[:len(end)-1], '\n') + 1
		if e := eventOf(bytes.TrimSuffix(end[from:], []byte("\n")), runID); e != nil {
			events = append([]*wire.Event{e}, events...)
		}
		end = end[:from]
	}
	return events
}

func named(e *schedule.Entry, name string) bool {
	return e.IssueID == name || strings.EqualFold(e.Identifier, name)
}
