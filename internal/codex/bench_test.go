package codex

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"
)

// BenchmarkSteer measures how long a steer takes from the rename of its file to the
// frame in the app-server's standard input.
func BenchmarkSteer(b *testing.B) {
	var took []time.Duration
	var w *world
	w = newWorld(b, func(s *server) {
		s.hello()
		w.wait(b, "active.json")
		for i := range b.N {
			took = append(took, w.steerOnce(b, s, i))
		}
		s.ends("U1", "completed")
		s.rest()
	})
	w.run(b, b.Context())
	slices.Sort(took)
	at := func(q float64) float64 { return float64(took[int(q*float64(len(took)-1))].Nanoseconds()) / 1e3 }
	b.ReportMetric(at(0.5), "µs-p50")
	b.ReportMetric(at(0.99), "µs-p99")
	b.ReportMetric(at(1), "µs-max")
}

// steerOnce sends one text and has it consumed before it returns.
func (w *world) steerOnce(b *testing.B, s *server, i int) time.Duration {
	dir := w.cfg.Place.State.Mailbox()
	id := fmt.Sprintf("s%07d", i)
	temp := filepath.Join(dir, ".steer")
	if err := os.WriteFile(temp, []byte(`{"text":"write the test first"}`), 0o600); err != nil {
		b.Fatal(err)
	}
	// A hint of the temp file itself is not what is measured.
	start := time.Now()
	if err := os.Rename(temp, filepath.Join(dir, id+".request.json")); err != nil {
		b.Fatal(err)
	}
	f := s.expect("turn/steer")
	took := time.Since(start)
	s.answer(f, `{"turnId":"U1"}`)
	s.said(f)
	for w.has(id+".claimed.json") || !w.has(id+".reply.json") {
		runtime.Gosched()
	}
	return took
}
