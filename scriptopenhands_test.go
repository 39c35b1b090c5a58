package ostoolkit_test

import (
	"errors"
	"os"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"ostoolkit/internal/peertest"
)

// openhandspeer [SCRIPT]: serve a stand-in of an agent-server until the script's end,
// which does what SCRIPT says (peertest.OpenHands). It sets OPENHANDS_URL,
// OPENHANDS_KEY and OPENHANDS_LOG (SCRIPT.log), as openhandsserver does for the real one.
// A SCRIPT that was expanded before may name files and the key. Once more in the same
// script it serves another one.
func cmdOpenHandsPeer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 1 {
		ts.Fatalf("usage: openhandspeer [script]")
	}
	o := peertest.OpenHandsOptions{Key: openHandsKey, Dir: ts.MkAbs("."), Now: time.Now}
	logFile := ts.MkAbs("openhandspeer.log")
	if len(args) == 1 {
		o.Script, logFile = ts.ReadFile(args[0]), ts.MkAbs(args[0]+".log")
	}
	serveOpenHands(ts, o, logFile)
	ts.Setenv("OPENHANDS_LOG", logFile)
}

// serveOpenHands serves a stand-in until the script's end, and says where.
func serveOpenHands(ts *testscript.TestScript, o peertest.OpenHandsOptions, logFile string) {
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	ts.Check(err)
	o.Log = log
	server, err := peertest.StartOpenHands(o)
	ts.Check(err)
	ts.Defer(func() {
		if err := errors.Join(server.Close(), log.Close()); err != nil {
			ts.Logf("end the agent-server: %v", err)
		}
	})
	ts.Setenv("OPENHANDS_URL", server.URL())
	ts.Setenv("OPENHANDS_KEY", o.Key)
}
