package openhands

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"ostoolkit/internal/session"
	"ostoolkit/internal/wire"
)

const testKey = "key-of-the-provider-1234"

// answering returns a client of a server that answers with a status and these chunks,
// and the client's trace.
func answering(t *testing.T, status int, chunks ...string) (*client, *bytes.Buffer) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(status)
		for _, chunk := range chunks {
			_, _ = w.Write([]byte(chunk)) // a client that has gone is the test's failure
			_ = http.NewResponseController(w).Flush()
		}
	}))
	t.Cleanup(server.Close)
	trace, secrets := &bytes.Buffer{}, newRedactor([]string{testKey})
	c, err := newClient(Server{URL: server.URL}, newTracer(trace, time.Now, secrets), secrets)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.close)
	return c, trace
}

// opensymphony 8.10: of a long answer the start is told, behind the operation and the code.
func TestLongAnswerIsCut(t *testing.T) {
	c, _ := answering(t, http.StatusBadGateway, strings.Repeat("x", 300))
	_, err := c.do(t.Context(), requestRun("id"))
	end := session.EndingOf(endingOf(err))
	if want := "agent-server answered 502 to run: " + strings.Repeat("x", maxDetail) + "..."; end.Message != want || len(end.Message) >= 300 {
		t.Errorf("message %q, want %q", end.Message, want)
	}
	if end.Detail != "openhands.http_status.run.502" {
		t.Errorf("detail %q", end.Detail)
	}
}

// A key that comes in two chunks of a body, or stands where an answer is cut, is in no
// message and in no trace, and neither are its halves.
func TestKeyAcrossChunks(t *testing.T) {
	for _, chunks := range [][]string{
		{`{"detail":"your key-of-the-`, `provider-1234 is wrong"}`},
		{strings.Repeat("x", maxDetail-12) + "key-of-the-", "provider-1234"},
		{strings.Repeat("x", maxDetail-12) + testKey},
	} {
		c, trace := answering(t, http.StatusUnprocessableEntity, chunks...)
		_, err := c.do(t.Context(), requestRun("id"))
		if told := fmt.Sprint(err) + trace.String(); strings.Contains(told, "provider") || strings.Contains(told, "key-of") || !strings.Contains(told, "[redacted]") {
			t.Errorf("%q: %s", chunks, told)
		}
	}
}

// A key that the agent streams in pieces is in no trace, on either socket; what only
// looks like its begin is not lost.
func TestKeyAcrossDeltas(t *testing.T) {
	for _, form := range []string{
		`{"id":"1","source":"agent","content":%q,"kind":"StreamingDeltaEvent"}`,
		`{"type":"transient","event":{"kind":"StreamingDeltaEvent","content":%q}}`,
		`{"type":"delta","item_id":"i","kind":"text","content":%q}`,
	} {
		var out bytes.Buffer
		tr := newTracer(&out, time.Now, newRedactor([]string{testKey}))
		for _, piece := range []string{"the k", "ey key", "-of-", "the-provider-", "12", "34 is key", " and so \"on\""} {
			tr.frame("in", eventsRoute, fmt.Appendf(nil, form, piece))
		}
		var said strings.Builder
		for line := range strings.Lines(out.String()) {
			v := gjson.Get(line, "frame")
			said.WriteString(v.Get("content").Str + v.Get("event.content").Str)
		}
		if want := "the key [redacted] is key and so \"on\""; said.String() != want {
			t.Errorf("%s: the trace says %q, want %q", form, said.String(), want)
		}
	}
}

// A key has one more spelling where the server escapes less than we do.
func TestKeyInForeignEscapes(t *testing.T) {
	r := newRedactor([]string{`a"<key>`})
	for _, text := range []string{`a"<key>`, `a\"<key>`, `a\"\u003ckey\u003e`} {
		if got := r.text(text); got != "[redacted]" {
			t.Errorf("%s: %s", text, got)
		}
	}
}

// The codes that another program may go by: opensymphony 5.11.
func TestCodesOfEndings(t *testing.T) {
	d := &driver{Loop: &session.Loop{}, turn: &turn{status: "dreaming"}}
	c, _ := answering(t, http.StatusOK, "<html>")
	_, noJSON := c.do(t.Context(), requestConversation("id"))
	away, _ := answering(t, http.StatusOK)
	away.base.Host = "127.0.0.1:1"
	_, unanswered := away.do(t.Context(), requestConversation("id"))
	_, noURL := newClient(Server{URL: "ftp://127.0.0.1"}, nil, nil)
	for _, tt := range []struct {
		err            error
		code, category string
	}{
		{noURL, "openhands.invalid_configuration", wire.CauseConfig},
		{endingOf(unanswered), "openhands.transport.attach", wire.CauseUnavailable},
		{noJSON, "openhands.protocol.attach", wire.CauseProtocol},
		{d.judge(), "openhands.protocol.execution_status", wire.CauseProtocol},
		{refusal(errUnauthorized), "openhands.websocket.follow", wire.CauseAuth},
		{refusal(errGone), "openhands.websocket.follow", wire.CauseNotFound},
	} {
		if end := session.EndingOf(tt.err); end.Detail != tt.code || end.Category != tt.category || end.Message == "" {
			t.Errorf("%+v, want %s and %s", end, tt.code, tt.category)
		}
	}
	for refused, want := range map[int]string{0: "openhands.websocket.readiness_timeout", maxRefused: "openhands.websocket.closed_before_readiness"} {
		d.reach.refused = refused
		if got := d.unready(); got != want {
			t.Errorf("after %d sockets: %s, want %s", refused, got, want)
		}
	}
}

func refusal(err error) error {
	d := &driver{Loop: &session.Loop{}}
	d.refused(err)
	return d.End
}

// A frame that is no JSON is told by its first 160 bytes.
func TestMalformedFrameIsCut(t *testing.T) {
	r := newRedactor([]string{testKey})
	if got := malformed(r, []byte(strings.Repeat("x", 150)+testKey+"yy")).Error(); got != "openhands.websocket.malformed_event: "+strings.Repeat("x", 150)+"[redacted]..." {
		t.Errorf("it is %q", got)
	}
}

// The manual names the requests whose names stand in codes, and no other.
func TestManualNamesRequests(t *testing.T) {
	manual, err := os.ReadFile("../../doc/os-openhands.1")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(manual), ".Ar OP\nis one of\n")
	list, _, _ = strings.Cut(list, "\n.Sh")
	named := strings.Fields(list)
	named = slices.DeleteFunc(named, func(word string) bool { return slices.Contains([]string{".Li", ",", "and", "."}, word) })
	var made []string
	for _, r := range []request{
		requestInfo(), requestCreate(nil), requestConversation(""), requestCount(""), requestEvents("", ""), requestMessage("", "", false, 0),
		requestRun(""), requestInterrupt(""), requestPause(""), requestConfirm("", false, ""), requestSwitch("", nil), requestPolicy("", ""),
		requestAnalyzer(""), requestLogin(),
	} {
		made = append(made, r.op)
	}
	if !slices.Equal(named, made) {
		t.Errorf("the manual has %q, the requests are %q", named, made)
	}
}
