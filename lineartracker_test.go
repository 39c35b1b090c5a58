package ostoolkit_test

import (
	"errors"
	"os"

	"github.com/rogpeppe/go-internal/testscript"

	"ostoolkit/internal/peertest"
)

// Credentials of the stand-in of Linear. They are as long as real ones, so that a search
// for them finds nothing by chance.
const (
	linearKey    = "lin_api_4uTq8ScriptedKeyOfTheTests0123456789"
	linearID     = "c0ffee00scripted0client0id"
	linearSecret = "5ecretOfTheScriptedApplication0123456789"
)

// cmdLinearTracker is the script command lineartracker DATA [FAULTS]: serve a stand-in of Linear until the script's end, with the
// issues of the JSON file DATA. FAULTS is read at each request and may come and go. It
// sets LINEAR_URL (the endpoint), LINEAR_LOG (one JSON line a request) and LINEAR_API_KEY,
// and LINEAR_TEST_CLIENT_ID and _SECRET of an application.
func cmdLinearTracker(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 || len(args) > 2 {
		ts.Fatalf("usage: lineartracker data [faults]")
	}
	o := peertest.LinearOptions{Data: []byte(ts.ReadFile(args[0])), Key: linearKey, ClientID: linearID, ClientSecret: linearSecret}
	if len(args) == 2 {
		o.Faults = ts.MkAbs(args[1])
	}
	logFile := ts.MkAbs("linear.ndjson")
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	ts.Check(err)
	o.Log = log
	tracker, err := peertest.StartLinear(o)
	ts.Check(err)
	ts.Defer(func() {
		if err := errors.Join(tracker.Close(), log.Close()); err != nil {
			ts.Logf("end the tracker: %v", err)
		}
	})
	ts.Setenv("LINEAR_URL", tracker.URL())
	ts.Setenv("LINEAR_LOG", logFile)
	ts.Setenv("LINEAR_API_KEY", linearKey)
	ts.Setenv("LINEAR_TEST_CLIENT_ID", linearID)
	ts.Setenv("LINEAR_TEST_CLIENT_SECRET", linearSecret)
}
