package ostoolkit_test

import (
	"errors"
	"os"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"ostoolkit/internal/peertest"
)

// agentserver [SCRIPT]: serve a stand-in of an agent-server until the script's end,
// which does what SCRIPT says (peertest.AgentServer). It sets OPENHANDS_URL,
// OPENHANDS_KEY and OPENHANDS_LOG, as openhandsserver does for the real one. A SCRIPT
// that was expanded before may name files and the key.
func cmdAgentServer(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 1 {
		ts.Fatalf("usage: agentserver [script]")
	}
	o := peertest.AgentServerOptions{Key: openHandsKey, Dir: ts.MkAbs("."), Now: time.Now}
	if len(args) == 1 {
		o.Script = ts.ReadFile(args[0])
	}
	logFile := ts.MkAbs("agentserver.ndjson")
	log, err := os.OpenFile(logFile, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	ts.Check(err)
	o.Log = log
	server, err := peertest.StartAgentServer(o)
	ts.Check(err)
	ts.Defer(func() {
		if err := errors.Join(server.Close(), log.Close()); err != nil {
			ts.Logf("end the agent-server: %v", err)
		}
	})
	ts.Setenv("OPENHANDS_URL", server.URL())
	ts.Setenv("OPENHANDS_KEY", openHandsKey)
	ts.Setenv("OPENHANDS_LOG", logFile)
}
