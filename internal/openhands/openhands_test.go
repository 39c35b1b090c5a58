package openhands

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"ostoolkit/internal/session"
	"ostoolkit/internal/wire"
)

// opensymphony 8.22: an address from which no port follows is told, as one of its own.
func TestCheckURL(t *testing.T) {
	for _, tt := range []struct {
		url  string
		key  bool
		want string // part of the error; "" for none
	}{
		{"http://127.0.0.1:8000", false, ""},
		{"http://localhost:8000/prefix/", false, ""},
		{"http://[::1]:8000", false, ""},
		{"https://agents.example:8443", true, ""},
		{"https://agents.example", false, "needs a session key"},
		{"http://agents.example", true, "not asked over https"},
		{"http://127.0.0.1.example", true, "not asked over https"},
		{"ftp://127.0.0.1", true, `agent-server "ftp://127.0.0.1": scheme "ftp" is neither`},
		{"custom://agents.example", true, `"custom://agents.example": scheme "custom"`},
		{"127.0.0.1:8000", true, "no address"},
		{"http://LocalHost:8000", false, ""},
		{"http://127.0.0.1:65535", false, ""},
		{"http://127.0.0.1:", true, "no port"},
		{"http://127.0.0.1:0", true, "no port"},
		{"http://127.0.0.1:65536", true, "65536 is no port"},
		{"http://user:word@127.0.0.1", true, "http://127.0.0.1"},
		{"http://127.0.0.1/?session_api_key=x", true, "query"},
	} {
		err := CheckURL(tt.url, tt.key)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.url, err, tt.want)
		}
		if err != nil && strings.Contains(err.Error(), "word") {
			t.Errorf("%s: the error shows the password", tt.url)
		}
	}
}

func TestCheckVersion(t *testing.T) {
	for version, ok := range map[string]bool{
		"1.58.2": true, "1.44.0": true, "2.0.0": true, "1.43.9": false, "1.16.1": false, "0.99.0": false, "": false, "new": false, "1.60.0rc1": true,
	} {
		if err := CheckVersion(version); (err == nil) != ok {
			t.Errorf("%q: %v", version, err)
		}
	}
}

// A secret is taken out before a text is cut, so that none is left in halves.
func TestRedaction(t *testing.T) {
	r := newRedactor([]string{"", `se"cret-key`})
	for _, text := range []string{`se"cret-key`, `"se\"cret-key"`, strings.Repeat("x", 235) + `se"cret-key` + strings.Repeat("y", 90)} {
		if got := r.head(text, maxDetail); strings.Contains(got, "cret") {
			t.Errorf("%q: %q", text, got)
		}
	}
	if got := r.head(strings.Repeat("ä", 200), 241); len(got) > 244 || !strings.HasSuffix(got, "ä...") {
		t.Errorf("cut in a character: %q", got)
	}
	var out bytes.Buffer
	tr := newTracer(&out, func() time.Time { return time.Unix(0, 0) }, r)
	tr.request(request{method: "POST", path: ""}, []byte(`{"api_key":"se\"cret-key"}`))
	tr.frame("in", eventsRoute, []byte(`{broken se"cret-key`))
	if strings.Contains(out.String(), "cret") || strings.Count(out.String(), "[redacted]") != 2 {
		t.Errorf("trace %s", out.String())
	}
}

func TestCreateBody(t *testing.T) {
	a := Agent{Model: "openai/m", Key: "k", LLM: map[string]any{"model": "other", "timeout": 3}, Tools: []string{"terminal"},
		MaxIterations: 5, Confirm: ConfirmAlways, Condenser: map[string]any{"max_size": 240}}
	b, err := json.Marshal(a.createBody("id-1", "/ws"))
	if err != nil {
		t.Fatal(err)
	}
	body := gjson.ParseBytes(b)
	for path, want := range map[string]string{
		"conversation_id": "id-1", "workspace.working_dir": "/ws", "autotitle": "false", "agent.llm.model": "openai/m", "agent.llm.api_key": "k",
		"agent.llm.timeout": "3", "agent.tools.0.name": "terminal", "max_iterations": "5", "stuck_detection": "false",
		"confirmation_policy.kind": "AlwaysConfirm", "agent.condenser.llm.usage_id": "condenser", "agent.llm.usage_id": "default",
		"agent.condenser.max_size": "240", "initial_message": "",
	} {
		if got := body.Get(path).String(); got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
}

// Only a policy that tells risks apart needs somebody who rates them.
func TestCreateBodyAnalyzer(t *testing.T) {
	for confirm, want := range map[string]any{ConfirmRisky: riskAnalyzer(), ConfirmAlways: nil, ConfirmNever: nil, "": nil} {
		a := Agent{Confirm: confirm}
		if got := a.createBody("id-1", "/ws")["security_analyzer"]; !reflect.DeepEqual(got, want) {
			t.Errorf("--confirm %q: analyzer %v, want %v", confirm, got, want)
		}
	}
}

func TestWorse(t *testing.T) {
	order := []string{"", "low", "medium", "unknown", "high"}
	for i, a := range order {
		for j, b := range order {
			if got, want := worse(a, b), order[max(i, j)]; got != want {
				t.Errorf("worse(%q, %q) = %q, want %q", a, b, got, want)
			}
		}
	}
}

// A redirect must not take the session key, nor that of the provider, to another address.
func TestNoRedirect(t *testing.T) {
	asked := make(chan *http.Request, 8)
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- r }))
	defer other.Close()
	for _, status := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		server := httptest.NewServer(http.RedirectHandler(other.URL, status))
		c, err := newClient(Server{URL: server.URL, Key: "session-key"}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range []request{requestInfo(), requestCreate(map[string]any{"api_key": "k"})} {
			if _, err := c.do(t.Context(), r); statusOf(err) != status {
				t.Errorf("%s redirected with %d: %v", r.op, status, err)
			}
		}
		if _, err := newLink(c, "id", 0).dial(t.Context()); err == nil {
			t.Errorf("a socket is opened behind a redirect with %d", status)
		}
		c.close()
		server.Close()
	}
	if n := len(asked); n > 0 {
		t.Errorf("%d requests reached the other address", n)
	}
}

// A request that found nobody listening was not seen; one whose answer is lost may have
// been.
func TestUnsent(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	c, err := newClient(Server{URL: server.URL}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if _, err := c.do(t.Context(), requestInfo()); err == nil || unsent(err) {
		t.Errorf("a lost answer: %v, unsent %v", err, unsent(err))
	}
	server.Close()
	if _, err := c.do(t.Context(), requestInfo()); !unsent(err) || !unclear(err) {
		t.Errorf("nobody listens: %v, unsent %v", err, unsent(err))
	}
}

func TestFailure(t *testing.T) {
	now := time.Unix(1000, 0)
	d := &driver{cfg: Config{Config: session.Config{Now: func() time.Time { return now }}}}
	for event, want := range map[string]string{
		`{"code":"LLMAuthenticationError","classification":{"kind":"auth"}}`:              wire.CauseAuth,
		`{"code":"LLMRateLimitError","classification":{"kind":"rate_limit"}}`:             wire.RateLimited,
		`{"code":"LLMContextWindowExceedError","classification":{"kind":"agent_action"}}`: wire.CauseContextWindow,
		`{"code":"MaxIterationsReached","classification":{"kind":"agent_action"}}`:        wire.BudgetExceeded,
		`{"code":"LLMServiceUnavailableError","classification":{"kind":"transient"}}`:     wire.CauseProvider,
		`{"code":"New","classification":{"kind":"unheard of"}}`:                           wire.CauseProvider,
		`{"code":"X","classification":{"kind":"config"}}`:                                 wire.CauseConfig,
		``: wire.CausePeerDied,
	} {
		end := d.failure(gjson.Parse(event))
		if end.Category != want || end.Message == "" {
			t.Errorf("%s: %+v, want %s", event, end, want)
		}
		if (want == wire.RateLimited) == end.RetryAt.IsZero() {
			t.Errorf("%s: retry at %v", event, end.RetryAt)
		}
	}
}

func TestStatusesOfRequests(t *testing.T) {
	for status, want := range map[int]string{401: wire.CauseAuth, 403: wire.CausePermission, 404: wire.CauseNotFound, 422: wire.CauseConfig,
		429: wire.RateLimited, 500: wire.CauseProtocol, 503: wire.CauseUnavailable} {
		end := session.EndingOf(endingOf(&statusError{op: "run", status: status}))
		if end.Category != want || !strings.HasPrefix(end.Detail, "openhands.http_status.run.") {
			t.Errorf("%d: %+v, want %s", status, end, want)
		}
	}
	end := session.EndingOf(endingOf(&transportError{op: "run", err: errors.New("x")}))
	if end.Category != wire.CauseUnavailable || end.Detail != "openhands.transport.run" {
		t.Errorf("%+v", end)
	}
}

// The session socket's events come in the order of their numbers, once, whatever order
// they arrive in.
func TestDurableOrder(t *testing.T) {
	l := newLink(nil, "id", 0)
	for _, seq := range []int64{0, 2, 1, 1, 0, 4, 3} {
		l.durable(t.Context(), seq, frame{kind: frameEvent, event: gjson.Parse(`{"seq":` + string(rune('0'+seq)) + `}`)})
	}
	close(l.frames)
	var got []int64
	for f := range l.frames {
		got = append(got, f.event.Get("seq").Int())
	}
	if !slices.Equal(got, []int64{0, 1, 2, 3, 4}) || l.next != 5 || len(l.held) != 0 {
		t.Errorf("order %v, next %d, held %v", got, l.next, l.held)
	}
}

// What the recorded events sockets tell, the session sockets beside them tell too: the
// one that numbers its events may be relied on.
func TestRecordedSockets(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "testdata", "openhands", "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no recordings: %v", err)
	}
	compared := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		byRoute := map[string][]string{}
		l := newLink(nil, "id", 0)
		for line := range strings.Lines(string(text)) {
			v := gjson.Parse(line)
			l.route = v.Get("socket").Str
			switch e := v.Get("frame"); {
			case !e.Exists():
				continue
			case l.route == sessionRoute:
				l.envelope(t.Context(), e)
			default:
				l.event(t.Context(), e, false)
			}
			for len(l.frames) > 0 {
				if f := <-l.frames; f.kind == frameEvent {
					byRoute[l.route] = append(byRoute[l.route], f.event.Get("id").Str)
				}
			}
		}
		if len(byRoute[sessionRoute]) == 0 || len(byRoute[eventsRoute]) == 0 {
			continue
		}
		compared++
		for _, id := range byRoute[eventsRoute] {
			if !slices.Contains(byRoute[sessionRoute], id) {
				t.Errorf("%s: event %s is missing on the session socket", file, id)
			}
		}
	}
	if compared == 0 {
		t.Error("no recording has both sockets")
	}
}
