package peertest

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
)

func TestOpenHandsFaults(t *testing.T) {
	c := startOpenHands(t, `
instead x2 GET /api/conversations/* 404 {"detail":"leased"}
instead POST /api/conversations/*/run 429 {"detail":"$BODY"}
afterwards POST /api/conversations/*/events cut
instead GET /api/conversations/*/events/count with {"a":1}
instead when late GET /api/conversations/* 404 {}
instead GET /api/conversations/* with {"execution_status":"running"}
`)
	c.create()
	c.call(404, "GET", "", "")
	c.call(404, "GET", "", "")
	if got := c.call(200, "GET", "", ""); !strings.Contains(got, `"execution_status":"running"`) || !strings.Contains(got, openHandsTestID) {
		t.Errorf("merged: %s", got)
	}
	if got := c.call(200, "GET", "", ""); !strings.Contains(got, `"execution_status":"idle"`) {
		t.Errorf("after all faults: %s", got)
	}
	if err := os.WriteFile(filepath.Join(c.s.o.Dir, "late"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c.call(404, "GET", "", "")
	c.call(200, "GET", "", "")
	if got := c.call(429, "POST", "/run", "x"); got != `{"detail":"x"}` {
		t.Errorf("$BODY: %s", got)
	}
	if status, _ := c.try("POST", "/api/conversations/"+openHandsTestID+"/events", `{"content":[]}`); status != 0 {
		t.Errorf("a cut answer has status %d", status)
	}
	if got := c.call(200, "GET", "/events/search?source=user", ""); strings.Count(got, "MessageEvent") != 1 {
		t.Errorf("the message whose answer was cut is not there once: %s", got)
	}
}

func TestOpenHandsSearch(t *testing.T) {
	c := startOpenHands(t, "")
	c.create()
	for _, text := range []string{"one", "two", "three"} {
		c.say(text, false)
	}
	var page struct {
		Items []struct{ ID string }
		Next  *string `json:"next_page_id"`
	}
	var seen []string
	for query := "?limit=3"; ; {
		page.Next = nil
		if err := json.Unmarshal([]byte(c.call(200, "GET", "/events/search"+query, "")), &page); err != nil {
			t.Fatal(err)
		}
		for _, item := range page.Items {
			seen = append(seen, item.ID)
		}
		if page.Next == nil {
			break
		}
		query = "?limit=3&page_id=" + *page.Next
	}
	if got := c.call(200, "GET", "/events/count", ""); strings.TrimSpace(got) != "7" || len(seen) != 7 || len(slices.Compact(seen)) != 7 {
		t.Errorf("count %s, pages give %q", got, seen)
	}
	if got := c.call(200, "GET", "/events/search?source=user&body=TWO&sort_order=TIMESTAMP_DESC", ""); strings.Count(got, `"MessageEvent"`) != 1 || !strings.Contains(got, "two") {
		t.Errorf("a search for a body: %s", got)
	}
	c.call(422, "GET", "/events/search?limit=101", "")
}

func TestOpenHandsSocketFaults(t *testing.T) {
	c := startOpenHands(t, `
run 1
say one
say two
socket 1
after 4
drop
socket 2
frame not json
history
socket 3
close 1013 slow_consumer
socket 4
refuse 502
`)
	c.create()
	first := c.follow("/sockets/events/" + openHandsTestID)
	first.await("full_state idle")
	c.say("go", true)
	for got := first.next(); !strings.HasPrefix(got, "closed"); got = first.next() {
	}
	if n := len(first.got); n != 5 {
		t.Errorf("the first socket got %d frames: %q", n, first.got)
	}
	second := c.follow("/sockets/events/" + openHandsTestID)
	second.await("full_state finished")
	if second.got[0] != "not json" {
		t.Errorf("the second socket begins with %q", second.got)
	}
	second.await("message of agent")
	if got := c.follow("/sockets/events/" + openHandsTestID).next(); got != "closed 1013" {
		t.Errorf("the third socket: %s", got)
	}
	_, resp, err := websocket.Dial(t.Context(), c.s.URL()+"/sockets/events/"+openHandsTestID, nil)
	if err == nil || resp == nil || resp.StatusCode != http.StatusBadGateway {
		t.Errorf("the fourth socket: %v", err)
	}
}

// A tool holds the conversation's state: messages and new sockets wait for it, reads and
// interrupts do not.
func TestOpenHandsToolHoldsState(t *testing.T) {
	c := startOpenHands(t, "run 1\nact make\nwait go\nobserve 0 made\nwait message\nsay done")
	c.create()
	f := c.events()
	c.say("do it", true)
	f.await("TerminalAction")
	said := make(chan struct{})
	go func() {
		defer close(said)
		c.say("be quick", true)
	}()
	c.call(409, "POST", "/run", "")
	c.call(200, "GET", "", "")
	select {
	case <-said:
		t.Error("a message did not wait for the tool")
	default:
	}
	if err := os.WriteFile(filepath.Join(c.s.o.Dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	f.await("TerminalObservation")
	f.await("message of user")
	<-said
	f.await("full_state finished")
}

func TestOpenHandsTail(t *testing.T) {
	for _, stranding := range []bool{false, true} {
		script := "run 1\nsay one\ntail 200ms\nrun 2\nsay two\n"
		if stranding {
			script = "stranding\n" + script
		}
		c := startOpenHands(t, script)
		c.create()
		f := c.events()
		c.say("go", true)
		f.await("status finished")
		c.call(409, "POST", "/run", "")
		c.say("more", true)
		f.await("full_state idle")
		if stranding {
			c.call(200, "POST", "/run", "")
		}
		f.await("full_state finished")
	}
}

func TestOpenHandsCrash(t *testing.T) {
	c := startOpenHands(t, "run 1\nact make\ncrash 100ms\nrun 2\nsay again")
	c.create()
	f := c.events()
	// The server may die before it has answered.
	_, _ = c.try("POST", "/api/conversations/"+openHandsTestID+"/events", `{"role":"user","content":[{"type":"text","text":"go"}],"run":true}`)
	for got := f.next(); !strings.HasPrefix(got, "closed"); got = f.next() {
	}
	deadline := time.Now().Add(10 * time.Second)
	status := 0
	for reply := ""; status != 200; status, reply = c.try("GET", "/api/conversations/"+openHandsTestID, "") {
		if reply != "" || time.Now().After(deadline) {
			t.Fatalf("after the crash: %d %s", status, reply)
		}
	}
	if got := c.call(200, "GET", "", ""); !strings.Contains(got, `"execution_status":"error"`) {
		t.Errorf("what ran is %s", got)
	}
	if got := c.call(200, "GET", "/events/search?kind=AgentErrorEvent", ""); !strings.Contains(got, "A restart occurred") {
		t.Errorf("of the tool that ran there is %s", got)
	}
	back := c.follow("/sockets/events/" + openHandsTestID)
	back.await("full_state error")
	c.call(200, "POST", "/run", "")
	back.await("full_state finished")
}

// While the port refuses, what runs goes on: the state is that of its end afterwards.
func TestOpenHandsUnreachable(t *testing.T) {
	c := startOpenHands(t, "run 1\nwait go\nunreachable 1s\nsay meanwhile")
	c.create()
	f := c.events()
	c.say("go", true)
	if err := os.WriteFile(filepath.Join(c.s.o.Dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for got := f.next(); !strings.HasPrefix(got, "closed"); got = f.next() {
	}
	if status, _ := c.try("GET", "/ready", ""); status != 0 {
		t.Errorf("the port answers %d", status)
	}
	deadline := time.Now().Add(10 * time.Second)
	for status := 0; status != 200; status, _ = c.try("GET", "/ready", "") {
		if time.Now().After(deadline) {
			t.Fatalf("it does not come back: %d", status)
		}
	}
	if got := c.call(200, "GET", "", ""); !strings.Contains(got, `"execution_status":"finished"`) {
		t.Errorf("what ran is %s", got)
	}
	if got := c.call(200, "GET", "/agent_final_response", ""); !strings.Contains(got, "meanwhile") {
		t.Errorf("it said %s", got)
	}
}

// Sockets that are closed in mid-run get nothing that waits for them; a run can wait for
// a request, of which each counts once.
func TestOpenHandsCloseAndWait(t *testing.T) {
	c := startOpenHands(t, "run 1\nstate\nwait request GET /api/conversations/*\nsockets close 1013 slow_consumer\nsay one\nwait request GET /api/conversations/*")
	c.create()
	f := c.events()
	c.say("go", true)
	f.await("full_state running")
	c.call(200, "GET", "", "")
	if got := f.next(); got != "closed 1013" {
		t.Errorf("then %q", got)
	}
	back := c.follow("/sockets/session/" + openHandsTestID + "?after_seq=3")
	back.await("5 message of agent")
	if got := c.call(200, "GET", "/events/search", ""); strings.Contains(got, "finished") {
		t.Errorf("the run did not wait for another request: %s", got)
	}
	c.call(200, "GET", "", "")
	back.await("6 status finished")
}

func TestOpenHandsSwap(t *testing.T) {
	c := startOpenHands(t, "socket 1\nafter 4\nswap\nrun 1\nsay one")
	c.create()
	f := c.follow("/sockets/session/" + openHandsTestID + "?after_seq=-1")
	f.await("- full_state idle")
	c.say("go", true)
	f.await("- full_state finished")
	var order []string
	for _, got := range f.got {
		if n, _, _ := strings.Cut(got, " "); n >= "0" && n <= "9" {
			order = append(order, n)
		}
	}
	if want := []string{"0", "1", "2", "3", "5", "4", "6"}; !slices.Equal(order, want) {
		t.Errorf("order %q, want %q", order, want)
	}
}

func TestOpenHandsLog(t *testing.T) {
	var log bytes.Buffer
	s, err := StartOpenHands(OpenHandsOptions{Key: "the-key", Now: time.Now, Log: &log})
	if err != nil {
		t.Fatal(err)
	}
	c := &openHandsClient{t, s, "the-key"}
	c.create()
	c.events()
	c.say("hello", false)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"path":"/api/conversations"`, `"what":"auth"`, `"what":"state"`, `"text":"hello"`} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log has no %s: %s", want, log.String())
		}
	}
	if strings.Contains(log.String(), "the-key") {
		t.Error("the log tells the key")
	}
}

func TestOpenHandsScriptRefuses(t *testing.T) {
	for _, script := range []string{
		"say hello", "run x", "run 0", "run 1\nrun 1", "run 1\ndance", "socket 1\nsay x", "run 1\nsleep long", "run 1\nbig x",
		"run 1\nemit no", "run 1\nobserve x", "socket 1\nclose now", "instead GET", "instead x0 GET / 200", "instead GET [ 200",
		"instead GET / soon", "instead GET / slow x", "instead GET / with 1", "run 1\nunreachable soon",
		"run 1\nwait request GET [", "run 1\nwait for it",
	} {
		_, err := StartOpenHands(OpenHandsOptions{Script: script, Now: time.Now})
		if err == nil || errors.Unwrap(err) == nil || !strings.Contains(err.Error(), "line ") {
			t.Errorf("%q: %v, want an error with its line", script, err)
		}
	}
}
