package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"ostoolkit/internal/peertest"
)

func startAgentIn(t *testing.T, script string) string {
	t.Helper()
	server, err := peertest.StartOpenHands(peertest.OpenHandsOptions{Script: script, Dir: t.TempDir(), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	return server.URL()
}

// The client that os-openhands is measured by sees a whole run, each event once, and
// does not take another end for a success.
func TestBareAgentClient(t *testing.T) {
	const n = 50
	few, err := newRestClient(startAgentIn(t, agentFlood(1))).session(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	many, err := newRestClient(startAgentIn(t, agentFlood(1+n))).session(t.Context(), t.TempDir())
	if err != nil || many-few != n {
		t.Errorf("%d frames came with %d more events, and %d without, %v", many, n, few, err)
	}
	_, err = newRestClient(startAgentIn(t, "run *\nstatus stuck\n")).session(t.Context(), t.TempDir())
	if err == nil || !strings.Contains(err.Error(), `"stuck"`) {
		t.Errorf("a run that failed: %v", err)
	}
}

// Each conversation of a server is another one.
func TestBareAgentClientTwice(t *testing.T) {
	url := startAgentIn(t, "run *\nsay hello\n")
	for range 2 {
		if _, err := newRestClient(url).session(t.Context(), t.TempDir()); err != nil {
			t.Error(err)
		}
	}
}

func TestArrivalsTellsOfRunsAndTexts(t *testing.T) {
	var pipe bytes.Buffer
	log := &arrivals{&pipe}
	for _, line := range []string{
		`{"method":"GET","path":"/server_info"}`,
		`{"method":"POST","path":"/api/conversations/x/events","body":{"run":false,"content":[{"text":"the prompt"}]}}`,
		`{"method":"POST","path":"/api/conversations/x/run"}`,
		`{"method":"POST","path":"/api/conversations/x/events","body":{"run":true,"content":[{"text":"000001"}]}}`,
		`{"method":"SOCKET","what":"open","path":"/sockets/session/x"}`,
	} {
		if n, err := log.Write([]byte(line + "\n")); err != nil || n != len(line)+1 {
			t.Errorf("%s: %d bytes, %v", line, n, err)
		}
	}
	var told []string
	for line := range strings.Lines(pipe.String()) {
		text, _, _ := strings.Cut(line, " ")
		told = append(told, text)
	}
	if got := strings.Join(told, " "); got != "run 000001" {
		t.Errorf("told of %q", got)
	}
}

// As for an app-server: the way of a text is that of this very text, here as a request to
// a server of another process.
func TestAgentPollerHandsOver(t *testing.T) { handsOver(t, (*rig).steerAgentPoller) }
