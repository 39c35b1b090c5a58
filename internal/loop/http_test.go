package loop

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/schedule"
	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
)

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// testAPI is the API of a board with one issue of each kind. A-1 has a log.
func testAPI(t *testing.T) (*api, *State) {
	t.Helper()
	root := state.Root(t.TempDir())
	dir := root.Issue("A-1")
	run := "20261130T115500.000Z-1234abcd"
	if err := os.MkdirAll(string(dir.Run(run)), 0o700); err != nil {
		t.Fatal(err)
	}
	log := eventLine(run, 1, "session.started", "") + eventLine(run, 2, "turn.started", `,"number":3,"status":null,"duration_ms":null`) +
		eventLine(run, 3, "usage", `,"usage":{"input_tokens":7,"output_tokens":2,"total_tokens":9}`) +
		eventLine(run, 4, "rate_limits", `,"limits":{"primary":5},"reset_at":null`) +
		eventLine("another", 5, "message", "") + eventLine(run, 5, "message", `,"item":"x","text":"say \"usage\""`) + `{"torn`
	for path, text := range map[string]string{
		dir.RunFile():         fmt.Sprintf(`{"run_id":%q,"status":"running","started_at":"2026-11-30T11:55:00.000Z"}`, run),
		dir.Run(run).Events(): log,
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s := &State{PID: 7, Root: "/w", Slots: 4}
	s.NextPoll = wire.At(noon.Add(10 * time.Second))
	s.Totals = Totals{Since: wire.At(noon.Add(-time.Hour)), Runs: 2, InputTokens: 100, OutputTokens: 20, TotalTokens: 120, Seconds: 60}
	s.Snapshot.Running = []schedule.Entry{{
		IssueID: "1", Identifier: "A-1", Title: "<b>bold</b>", URL: "javascript:alert(1)", State: "Todo", RunID: wire.Text(run), Harness: "codex",
		Attempt: wire.Count(1), Lifetime: schedule.Lifetime{Runs: 2},
	}}
	s.Waiting = []schedule.Entry{{IssueID: "2", Identifier: "o/r#2", Reason: "stalled", Attempt: wire.Count(3), DueAt: wire.At(noon.Add(time.Minute))}}
	s.Parked = []schedule.Entry{{IssueID: "3", Identifier: "A-3", Reason: "operator", ParkedAt: wire.At(noon)}}
	s.Skipped = []schedule.Skipped{{IssueID: "4", Identifier: "A-4", Code: "blocked", Reason: "blocked by A-3"}}
	s.Holds = []schedule.Hold{{Backend: "codex", Reason: "auth"}}
	a := &api{
		root: root, refresh: make(chan struct{}, 1), now: func() time.Time { return noon }, patience: time.Minute, warn: t.Errorf,
		guard: guard{loopback: true, slots: make(chan struct{}, 2)},
	}
	a.look = func() *View {
		v := &View{Alive: true}
		v.fill(root, s)
		return v
	}
	return a, s
}

func eventLine(run string, seq int, name, more string) string {
	return fmt.Sprintf(`{"v":1,"type":"event","time":"2026-11-30T11:59:%02d.000Z","seq":%d,"run_id":%q,"issue_id":"1","identifier":"A-1",`+
		`"session":"thread","turn":null,"event":%q,"summary":"s%d"%s}`+"\n", seq, seq, run, name, seq, more)
}

func ask(a *api, method, path string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader("{}"))
	r.Host = "localhost:4040"
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Host" {
			r.Host = header[i+1]
		} else {
			r.Header.Set(header[i], header[i+1])
		}
	}
	w := httptest.NewRecorder()
	a.handler().ServeHTTP(w, r)
	return w
}

func TestAPIState(t *testing.T) {
	a, _ := testAPI(t)
	w := ask(a, "GET", "/api/v1/state")
	const want = `{"generated_at":"2026-11-30T12:00:00.000Z","counts":{"running":1,"retrying":1,"blocked":1,"skipped":1,"slots":4},` +
		`"running":[{"issue_id":"1","issue_identifier":"A-1","title":"<b>bold</b>","state":"Todo","worker_host":null,"workspace_path":"/w/A-1",` +
		`"session_id":"thread","run_id":"20261130T115500.000Z-1234abcd","harness":"codex","turn_count":3,"last_event":"message","last_message":"s5",` +
		`"started_at":"2026-11-30T11:55:00.000Z","last_event_at":"2026-11-30T11:59:05.000Z","asking":false,"stopping":null,` +
		`"tokens":{"input_tokens":7,"output_tokens":2,"total_tokens":9}}],` +
		`"retrying":[{"issue_id":"2","issue_identifier":"o/r#2","title":null,"attempt":3,"due_at":"2026-11-30T12:01:00.000Z","error":"stalled",`
	if got := w.Body.String(); w.Code != 200 || !strings.HasPrefix(got, want) {
		t.Errorf("%d\n%s\nwant\n%s", w.Code, got, want)
	}
	for _, part := range []string{
		`"blocked":[{"issue_id":"3","issue_identifier":"A-3","title":null,"state":null,"error":"operator",`, `"rate_limits":{"primary":5}`,
		`"codex_totals":{"input_tokens":107,"output_tokens":22,"total_tokens":129,"seconds_running":360,"runs":2,"since":"2026-11-30T11:00:00.000Z"}`,
		`"holds":[{"backend":"codex","reason":"auth",`,
	} {
		if !strings.Contains(w.Body.String(), part) {
			t.Errorf("no %s in\n%s", part, w.Body)
		}
	}
	if h := w.Header(); h.Get("Content-Type") != "application/json; charset=utf-8" || h.Get("Cache-Control") != "no-store" {
		t.Errorf("%v", h)
	}
}

func TestAPIIssue(t *testing.T) {
	a, _ := testAPI(t)
	for path, want := range map[string]string{"a-1": "running", "1": "running", "o%2Fr%232": "retrying", "o/r%232": "retrying", "A-3": "blocked", "A-4": "skipped"} {
		w := ask(a, "GET", "/api/v1/"+path)
		var got issueBody
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 200 || got.Status != want {
			t.Errorf("%s: %d %v\n%s", path, w.Code, err, w.Body)
		}
	}
	var got issueBody
	if err := json.Unmarshal(ask(a, "GET", "/api/v1/A-1").Body.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if n := len(got.RecentEvents); n != 5 || got.RecentEvents[4].Event != "message" || got.Attempts.Restarts != 1 || got.Attempts.Current != 1 ||
		got.Workspace.Path != "/w/A-1" || len(got.Logs.Sessions) != 1 || filepath.Base(got.Logs.Sessions[0].Path) != "events.ndjson" {
		t.Errorf("%+v", got)
	}
}

func TestAPIRefusals(t *testing.T) {
	a, _ := testAPI(t)
	tests := []struct {
		method, path, code, allow string
		status                    int
	}{
		{"GET", "/api/v1/X-9", "issue_not_found", "", 404},
		{"GET", "/api/v2/state", "not_found", "", 404},
		{"GET", "/favicon.ico", "not_found", "", 404},
		{"POST", "/api/v1/state", "method_not_allowed", "GET, HEAD", 405},
		{"DELETE", "/api/v1/A-1", "method_not_allowed", "GET, HEAD", 405},
		{"GET", "/api/v1/refresh", "method_not_allowed", "POST", 405},
		{"PUT", "/", "method_not_allowed", "GET, HEAD", 405},
	}
	for _, tt := range tests {
		w := ask(a, tt.method, tt.path)
		want := fmt.Sprintf(`{"error":{"code":%q,"message":"`, tt.code)
		if w.Code != tt.status || !strings.HasPrefix(w.Body.String(), want) || w.Header().Get("Allow") != tt.allow {
			t.Errorf("%s %s: %d %q %v", tt.method, tt.path, w.Code, w.Body, w.Header())
		}
	}
	a.look = func() *View { return nil }
	for path, want := range map[string]string{"/": "snapshot_unavailable", "/api/v1/state": "snapshot_unavailable", "/healthz": "starting"} {
		if w := ask(a, "GET", path); w.Code != 503 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}

func TestAPIRefresh(t *testing.T) {
	a, _ := testAPI(t)
	for _, coalesced := range []bool{false, true} {
		want := fmt.Sprintf(`{"queued":true,"coalesced":%t,"requested_at":"2026-11-30T12:00:00.000Z","operations":["poll","reconcile"]}`+"\n", coalesced)
		if w := ask(a, "POST", "/api/v1/refresh"); w.Code != 202 || w.Body.String() != want {
			t.Errorf("%d %s, want %s", w.Code, w.Body, want)
		}
	}
}

func TestHealth(t *testing.T) {
	a, s := testAPI(t)
	tests := []struct {
		change func()
		status int
		text   string
	}{
		{func() {}, 200, "ok\n"},
		{func() { s.NextPoll = wire.At(noon.Add(-59 * time.Second)) }, 200, "ok\n"},
		{func() { s.NextPoll = wire.At(noon.Add(-61 * time.Second)) }, 503, "the poll that was due at 2026-11-30T11:58:59Z has not come\n"},
		{func() { s.Closing = true }, 503, "shutting down\n"},
	}
	for _, tt := range tests {
		tt.change()
		if w := ask(a, "GET", "/healthz"); w.Code != tt.status || w.Body.String() != tt.text {
			t.Errorf("%d %q, want %d %q", w.Code, w.Body, tt.status, tt.text)
		}
	}
}

// A page of a stranger can reach neither: not by a name that resolves to loopback, and
// not by sending a request from its own origin.
func TestLoopbackGuard(t *testing.T) {
	a, _ := testAPI(t)
	for host, want := range map[string]int{
		"localhost": 200, "LOCALHOST:1": 200, "127.0.0.1:4040": 200, "127.8.8.8": 200, "[::1]:4040": 200, "[::1]": 200,
		"evil.example": 403, "evil.example:4040": 403, "localhost.evil.example": 403, "192.168.0.1": 403, "": 403,
	} {
		if w := ask(a, "GET", "/api/v1/state", "Host", host); w.Code != want {
			t.Errorf("host %q: %d, want %d", host, w.Code, want)
		}
	}
	for origin, want := range map[string]int{"http://localhost:4040": 202, "http://evil.example": 403, "null": 403} {
		if w := ask(a, "POST", "/api/v1/refresh", "Origin", origin); w.Code != want {
			t.Errorf("origin %q: %d, want %d", origin, w.Code, want)
		}
	}
}

func TestToken(t *testing.T) {
	a, _ := testAPI(t)
	a.guard.token, a.guard.loopback = "s3cret", false
	basic := func(password string) string {
		r := httptest.NewRequest("GET", "/", nil)
		r.SetBasicAuth("me", password)
		return r.Header.Get("Authorization")
	}
	for header, want := range map[string]int{
		"Bearer s3cret": 200, basic("s3cret"): 200,
		"": 401, "Bearer": 401, "Bearer s3cre": 401, "Bearer s3crets": 401, "bearer s3cret": 401, "s3cret": 401, basic(""): 401, "Basic x": 401,
	} {
		w := ask(a, "GET", "/", "Host", "box.example:80", "Authorization", header)
		if w.Code != want {
			t.Errorf("%q: %d, want %d", header, w.Code, want)
		}
		if want == 401 && (len(w.Header().Values("WWW-Authenticate")) != 2 || strings.Contains(w.Body.String(), "A-1")) {
			t.Errorf("%q: %v %s", header, w.Header(), w.Body)
		}
	}
	if w := ask(a, "GET", "/healthz", "Host", "box.example"); w.Code != 200 {
		t.Errorf("healthz: %d", w.Code)
	}
}

func TestTooManyRequests(t *testing.T) {
	a, _ := testAPI(t)
	a.guard.slots <- struct{}{}
	if w := ask(a, "GET", "/healthz"); w.Code != 200 {
		t.Errorf("with a slot left: %d", w.Code)
	}
	a.guard.slots <- struct{}{}
	if w := ask(a, "GET", "/healthz"); w.Code != 503 || w.Header().Get("Retry-After") == "" || !strings.Contains(w.Body.String(), `"busy"`) {
		t.Errorf("with none: %d %s", w.Code, w.Body)
	}
}

// What a tracker says cannot become a part of the page.
func TestPage(t *testing.T) {
	a, _ := testAPI(t)
	w := ask(a, "GET", "/")
	text := w.Body.String()
	for _, want := range []string{
		`<meta http-equiv="refresh"`, "os-loop 7", "&lt;b&gt;bold&lt;/b&gt;", "message: s5", "55s", "codex is held until it is cleared: auth", "o/r#2", "blocked by A-3",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if w.Code != 200 || strings.Contains(text, "javascript:") || strings.Contains(text, "<b>") || !strings.Contains(w.Header().Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("%d %v\n%s", w.Code, w.Header(), text)
	}
}

func TestListen(t *testing.T) {
	for address, want := range map[string]int{
		"0": 0, "127.0.0.1:0": 0, "localhost:0": 0, ":0": cli.StatusConfig, "0.0.0.0:0": cli.StatusConfig, "[::]:0": cli.StatusConfig,
		"70000": cli.StatusUnavailable, "nowhere": cli.StatusUnavailable,
	} {
		if err := CheckListen(t.Context(), address, ""); cli.Status(err) != want {
			t.Errorf("%q: %v, want status %d", address, err, want)
		}
	}
	if err := CheckListen(t.Context(), ":0", "token"); err != nil {
		t.Errorf("with a token: %v", err)
	}
}

// A scheduler answers while it works, says where, and closes its door at the end.
func TestServer(t *testing.T) {
	b := newBench(t, map[string]string{"os-poll": oneIssue, "os-workspace": "exit 0"})
	c := b.config(schedule.Forever)
	c.Schedule.Paused = true
	c.Listen = "0"
	if err := os.MkdirAll(c.path(), 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() {
		_, err := Run(ctx, c)
		over <- err
	}()
	b.await("state/loop/state.json", `"code":"paused"`)
	s, err := ReadState(c.Root)
	if err != nil || !strings.HasPrefix(string(s.Listen), "http://127.0.0.1:") {
		t.Fatalf("%q, %v", s.Listen, err)
	}
	for path, want := range map[string]string{"healthz": "ok\n", "api/v1/state": `"identifier":"A-1","code":"paused"`} {
		resp, err := http.Get(string(s.Listen) + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != 200 || !strings.Contains(string(body), want) {
			t.Errorf("%s: %d %s %v", path, resp.StatusCode, body, err)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	cancel()
	if err := <-over; err != nil {
		t.Fatal(err)
	}
	if _, err := http.Get(string(s.Listen)); err == nil {
		t.Error("it still answers")
	}
	if !strings.Contains(b.stdout.String(), `"detail":{"listen":"http://127.0.0.1:`) {
		t.Errorf("the address is not told:\n%s", &b.stdout)
	}
}
