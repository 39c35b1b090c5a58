package loop

import (
	"bytes"
	_ "embed" // the page's text
	"fmt"
	"html/template"
	"net/http"
	"time"

	"ostoolkit/internal/schedule"
)

//go:embed http_page.html
var pageText string

// pageView is what the page shows. Times are words: the page is drawn anew every few
// seconds, by the browser itself.
type pageView struct {
	Title   string
	Notes   []string // what a person should know first
	Running []pageRow
	Waiting []pageRow
	Parked  []pageRow
	Skipped []schedule.Skipped
	Summary string
}

type pageRow struct {
	Identifier, URL, Title, State, Harness, Turn, Event, Age, Tokens, Time, Why string
}

func (a *api) page(w http.ResponseWriter, _ *http.Request) {
	v := a.seen(w)
	if v == nil {
		return
	}
	var b bytes.Buffer
	t, err := template.New("page").Parse(pageText) // now, since most os-loops are never asked
	if err == nil {
		err = t.Execute(&b, pageOf(v, a.now()))
	}
	if err != nil {
		a.warn("draw the page: %v", err)
		refuse(w, http.StatusInternalServerError, "internal", "the page cannot be drawn")
		return
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	h.Set("Referrer-Policy", "no-referrer")
	_, _ = w.Write(b.Bytes()) // as in respond
}

func pageOf(v *View, now time.Time) *pageView {
	p := &pageView{Title: v.Headline(now), Notes: v.Notes(), Summary: v.Summary(now), Skipped: v.Skipped}
	for _, s := range v.Running {
		row := rowOf(&s.Entry, now)
		row.Harness, row.Event, row.Age = string(s.Harness), string(s.LastEvent), Age(s.LastEventAt, now)
		if s.LastMessage != "" {
			row.Event += ": " + string(s.LastMessage)
		}
		if s.Turn != nil {
			row.Turn = fmt.Sprint(*s.Turn)
		}
		row.Time, row.Why = Age(s.StartedAt, now), s.Word()
		p.Running = append(p.Running, row)
	}
	for _, e := range v.Waiting {
		row := rowOf(&e, now)
		row.Time = Until(e.DueAt, now)
		p.Waiting = append(p.Waiting, row)
	}
	for _, e := range v.Parked {
		row := rowOf(&e, now)
		row.Time = Age(e.ParkedAt, now)
		p.Parked = append(p.Parked, row)
	}
	return p
}

func rowOf(e *schedule.Entry, now time.Time) pageRow {
	return pageRow{
		Identifier: e.Identifier, URL: string(e.URL), Title: string(e.Title), State: string(e.State),
		Tokens: fmt.Sprint(e.Lifetime.Tokens + e.Tokens), Why: string(e.Reason),
	}
}
