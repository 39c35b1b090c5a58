package peertest

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"
)

// begin starts the server. It runs under the lock.
func (s *OpenHands) begin(listener net.Listener) {
	s.life, s.endLife = context.WithCancel(context.Background())
	s.listen(listener)
}

// listen starts to serve. It runs under the lock.
func (s *OpenHands) listen(listener net.Listener) {
	server := &http.Server{Handler: http.HandlerFunc(s.serve), ReadHeaderTimeout: 10 * time.Second}
	s.server = server
	s.work.Go(func() { _ = server.Serve(listener) }) // its end is ours
}

// Close ends the server, also in the middle of its answers, and returns the first error
// of its log.
func (s *OpenHands) Close() error {
	close(s.quit)
	s.mu.Lock()
	s.endLife()
	err := s.deaf()
	s.mu.Unlock()
	s.work.Wait()
	return errors.Join(err, s.logErr)
}

// deaf cuts all connections and takes no other. It runs under the lock.
func (s *OpenHands) deaf() error {
	for k := range s.sockets {
		k.cut()
	}
	return s.server.Close()
}

// crash ends the server as a kill does, and serves again on the old address after d:
// what ran is in error then, as the real server has it.
func (s *OpenHands) crash(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.endLife()
	s.logErr = errors.Join(s.logErr, s.deaf())
	for _, id := range s.order {
		s.convs[id].die()
	}
	s.again(d, s.begin)
}

// unreachable makes the port refuse connections for d, as where the way to a server is
// lost; what runs goes on.
func (s *OpenHands) unreachable(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.logErr = errors.Join(s.logErr, s.deaf())
	s.again(d, s.listen)
}

// again opens the old address after d and serves with it, unless the stand-in ends
// before.
func (s *OpenHands) again(d time.Duration, serve func(net.Listener)) {
	s.work.Go(func() {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-s.quit:
			return
		}
		listener, err := net.Listen("tcp", s.addr)
		s.mu.Lock()
		defer s.mu.Unlock()
		select {
		case <-s.quit: // the listener would outlive us
			if err == nil {
				_ = listener.Close()
			}
			return
		default:
		}
		if err != nil {
			s.logErr = errors.Join(s.logErr, err)
			return
		}
		serve(listener)
	})
}
