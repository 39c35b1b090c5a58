package openhands

import (
	"time"

	"ostoolkit/internal/session"
	"ostoolkit/internal/wire"
)

// readyLimit is how long a server may take to start: it computes for 20 s on a slow
// machine before it listens.
const readyLimit = time.Minute

// Spawn says how a server of our own is started.
type Spawn struct{ Command string }

type server struct{ done chan struct{} }

func (s *server) exited() <-chan struct{} {
	if s == nil {
		return nil
	}
	return s.done
}

func (s *server) exit() *wire.Exit { return nil }

func (d *driver) spawn() error {
	return session.Failf(wire.CauseConfig, "starting a server is not part of this build")
}

func (d *driver) serverEnded() {}
func (d *driver) stopServer()  {}
