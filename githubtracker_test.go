package ostoolkit_test

import (
	"errors"
	"os"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"ostoolkit/internal/peertest"
)

// githubToken is as long as a real one, so that a search for it finds nothing by chance.
const githubToken = "ghp_8sScriptedTokenOfTheTests0123456789"

// cmdGitHubTracker is the script command githubtracker DATA [FAULTS]: serve a stand-in
// of GitHub until the script's end, with the issues of the JSON file DATA. FAULTS is
// read at each request and may come and go. It sets GITHUB_URL (the endpoint),
// GITHUB_LOG (one JSON line a request) and GITHUB_TOKEN.
func cmdGitHubTracker(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: githubtracker data [faults]")
	}
	o := peertest.GitHubOptions{Data: []byte(ts.ReadFile(args[0])), Token: githubToken, Now: time.Now}
	if len(args) == 2 {
		o.Faults = ts.MkAbs(args[1])
	}
	logFile := ts.MkAbs("github.ndjson")
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	ts.Check(err)
	o.Log = log
	tracker, err := peertest.StartGitHub(o)
	ts.Check(err)
	ts.Defer(func() {
		if err := errors.Join(tracker.Close(), log.Close()); err != nil {
			ts.Logf("end the tracker: %v", err)
		}
	})
	ts.Setenv("GITHUB_URL", tracker.URL())
	ts.Setenv("GITHUB_LOG", logFile)
	ts.Setenv("GITHUB_TOKEN", githubToken)
}
