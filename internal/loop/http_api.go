package loop

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"ostoolkit/internal/schedule"
	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
)

// The paths of the API. An issue is named after apiPath; one whose identifier is
// "state" or "refresh" is reached by its id.
const (
	apiPath     = "/api/v1/"
	statePath   = apiPath + "state"
	refreshPath = apiPath + "refresh"
	healthPath  = "/healthz"
)

// api answers requests. Its handlers are safe for concurrent use.
type api struct {
	guard    guard
	root     state.Root
	look     func() *View    // nil: there is nothing to see yet
	refresh  chan<- struct{} // holds one
	now      func() time.Time
	patience time.Duration // how late a poll may be in a scheduler that is well
	warn     func(format string, args ...any)
}

func (a *api) handler() http.Handler {
	mux := http.NewServeMux()
	for path, h := range map[string]http.HandlerFunc{
		"/{$}":              only("GET", a.page),
		statePath:           only("GET", a.state),
		refreshPath:         only("POST", a.poll),
		apiPath + "{id...}": only("GET", a.issue),
		healthPath:          only("GET", a.health),
		"/": func(w http.ResponseWriter, r *http.Request) {
			refuse(w, http.StatusNotFound, "not_found", fmt.Sprintf("there is no %q", r.URL.Path))
		},
	} {
		mux.HandleFunc(path, h)
	}
	return a.guard.around(mux)
}

// only lets one method through, and HEAD with GET.
func only(method string, h http.HandlerFunc) http.HandlerFunc {
	allow := method
	if method == http.MethodGet {
		allow = "GET, HEAD"
	}
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method == method || r.Method == http.MethodHead && method == http.MethodGet {
			h(w, r)
			return
		}
		w.Header().Set("Allow", allow)
		refuse(w, http.StatusMethodNotAllowed, "method_not_allowed", fmt.Sprintf("only %s is allowed here", allow))
	}
}

// refuse writes the envelope that every error of the API has.
func refuse(w http.ResponseWriter, status int, code, message string) {
	var e struct {
		Error struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	e.Error.Code, e.Error.Message = code, message
	respond(w, status, e)
}

func respond(w http.ResponseWriter, status int, v any) {
	b, err := wire.Encode(v)
	if err != nil {
		status, b = http.StatusInternalServerError, []byte(`{"error":{"code":"internal","message":"the answer cannot be encoded"}}`)
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // a reader that has gone needs no answer
}

// seen returns the view, or answers that there is none.
func (a *api) seen(w http.ResponseWriter) *View {
	v := a.look()
	if v == nil {
		refuse(w, http.StatusServiceUnavailable, "snapshot_unavailable", "os-loop is taking up what was left")
	}
	return v
}

func (a *api) state(w http.ResponseWriter, _ *http.Request) {
	if v := a.seen(w); v != nil {
		respond(w, http.StatusOK, stateOf(v, a.now()))
	}
}

func (a *api) issue(w http.ResponseWriter, r *http.Request) {
	v := a.seen(w)
	if v == nil {
		return
	}
	name := r.PathValue("id")
	body := a.issueOf(v, name)
	if body == nil {
		refuse(w, http.StatusNotFound, "issue_not_found", fmt.Sprintf("issue %q is not on the board", name))
		return
	}
	respond(w, http.StatusOK, body)
}

// poll asks for a pass. Requests that come before it begins are one.
func (a *api) poll(w http.ResponseWriter, _ *http.Request) {
	answer := struct {
		Queued      bool      `json:"queued"`
		Coalesced   bool      `json:"coalesced"`
		RequestedAt wire.Time `json:"requested_at"`
		Operations  []string  `json:"operations"`
	}{true, false, wire.At(a.now()), []string{"poll", "reconcile"}}
	select {
	case a.refresh <- struct{}{}:
	default:
		answer.Coalesced = true
	}
	respond(w, http.StatusAccepted, answer)
}

// health is 200 while the scheduler does what it is to do: polls come in time.
func (a *api) health(w http.ResponseWriter, _ *http.Request) {
	status, text := http.StatusOK, "ok"
	switch s := a.look(); {
	case s == nil:
		status, text = http.StatusServiceUnavailable, "starting"
	case s.Closing:
		status, text = http.StatusServiceUnavailable, "shutting down"
	case a.now().Sub(s.NextPoll.Time) > a.patience:
		status, text = http.StatusServiceUnavailable, "the poll that was due at "+s.NextPoll.Format(time.RFC3339)+" has not come"
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(text + "\n")) // as in respond
}

// issueOf returns the answer about an issue, or nil where nothing is known of it.
func (a *api) issueOf(v *View, name string) *issueBody {
	seen, waiting, parked := v.find(name)
	b := &issueBody{RecentEvents: []eventBody{}, Tracked: struct{}{}}
	var e *schedule.Entry
	switch {
	case seen != nil:
		e, b.Status = &seen.Entry, "running"
		body := runningOf(seen, v)
		b.Running = &body
	case waiting != nil:
		e, b.Status = waiting, "retrying"
		body := retryOf(waiting, v)
		b.Retry, b.LastError = &body, waiting.Reason
	case parked != nil:
		e, b.Status = parked, "blocked"
		body := blockedOf(parked, v)
		b.Blocked, b.LastError = &body, parked.Reason
	default:
		return skippedBody(b, v, name)
	}
	b.name(e, v)
	a.addLog(b, e)
	return b
}

// skippedBody is the answer about an issue that nobody claims, or nil.
func skippedBody(b *issueBody, v *View, name string) *issueBody {
	for _, k := range v.Skipped {
		if k.IssueID == name || strings.EqualFold(k.Identifier, name) {
			b.Status, b.LastError = "skipped", wire.Text(k.Reason)
			b.Logs.Sessions = []logBody{}
			b.name(&schedule.Entry{IssueID: k.IssueID, Identifier: k.Identifier}, v)
			return b
		}
	}
	return nil
}

func (b *issueBody) name(e *schedule.Entry, v *View) {
	b.IssueID, b.Identifier, b.Title, b.URL = e.IssueID, e.Identifier, e.Title, e.URL
	b.Workspace.Path = placeOf(e, v)
	b.Attempts.Runs = e.Lifetime.Runs
	b.Attempts.Restarts = max(0, e.Lifetime.Runs-1)
	b.Attempts.Current = *cmp.Or(e.Attempt, new(int64))
}

// addLog tells where the log of the newest run is, and what is new in it.
func (a *api) addLog(b *issueBody, e *schedule.Entry) {
	b.Logs.Sessions = []logBody{}
	key, err := state.Key(e.Identifier)
	if err != nil {
		return
	}
	dir := a.root.Issue(key)
	m, err := readRun(dir)
	if err != nil || m == nil || state.CheckRunID(m.RunID) != nil {
		return
	}
	path := dir.Run(m.RunID).Events()
	b.Logs.Sessions = append(b.Logs.Sessions, logBody{Label: "latest", Path: path})
	for _, e := range recent(readEnd(path), m.RunID) {
		b.RecentEvents = append(b.RecentEvents, eventBody{At: e.Time, Event: e.Event, Message: wire.Text(e.Summary)})
	}
}

// placeOf is the folder that an issue has or would have.
func placeOf(e *schedule.Entry, v *View) string {
	key, err := state.Key(e.Identifier)
	if err != nil {
		return ""
	}
	return filepath.Join(v.Root, key)
}

// rateLimits is what a provider said last about its own, of all runs; null where none
// did.
func rateLimits(v *View) json.RawMessage {
	var newest limits
	for _, r := range v.Running {
		if r.limits.Limits != nil && !r.limits.At.Before(newest.At.Time) {
			newest = r.limits
		}
	}
	return newest.Limits
}
