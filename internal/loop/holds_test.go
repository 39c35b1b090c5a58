package loop

import (
	"os"
	"strings"
	"testing"

	"ostoolkit/internal/schedule"
)

// Only a file that was there can be taken away: a hold that could not be written stays.
func TestMissHolds(t *testing.T) {
	b := newBench(t, nil)
	d := newDriver(b.config(schedule.Forever))
	if err := os.MkdirAll(d.path(holdsDir), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, backend := range []string{"kept", "taken", "unwritten"} {
		d.apply(schedule.Command{Kind: schedule.CommandHold, Target: backend})
	}
	d.held["unwritten"] = false
	for _, backend := range []string{"taken", "unwritten"} {
		path, err := d.holdFile(backend)
		if err == nil {
			err = os.Remove(path)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	d.missHolds()
	var left []string
	for _, h := range d.scheduler.Snapshot(d.Now()).Holds {
		left = append(left, h.Backend)
	}
	d.close()
	if got := strings.Join(left, " "); got != "kept unwritten" {
		t.Errorf("%q are held", got)
	}
	if said := b.said(); !strings.Contains(said, "released taken: cleared") || strings.Count(said, "released") != 1 {
		t.Errorf("%s", said)
	}
}
