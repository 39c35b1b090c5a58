package loop

import (
	"errors"
	"io/fs"
	"os"
	"testing"

	"ostoolkit/internal/schedule"
	"ostoolkit/internal/state"
	"ostoolkit/internal/workflow"
)

func reloadDriver(t *testing.T, mode schedule.Mode) (*driver, *workflow.Workflow) {
	t.Helper()
	b := newBench(t, nil)
	d := newDriver(b.config(mode))
	t.Cleanup(d.close)
	now := *b.flow
	now.Text = []byte("another")
	return d, &now
}

// What the programs are to go by is on disk before the scheduler hears of it; where it
// cannot be put there, the old one stays in force for all.
func TestAdoptKeepsACopy(t *testing.T) {
	d, now := reloadDriver(t, schedule.Forever)
	if f, ok := d.adopt(schedule.Reloaded{Workflow: now}).(schedule.ConfigBroken); !ok || d.flow == now {
		t.Errorf("without a folder for the copy: %+v", f)
	}
	if err := state.MakeDir(d.path()); err != nil {
		t.Fatal(err)
	}
	if f, ok := d.adopt(schedule.Reloaded{Workflow: now}).(schedule.Reloaded); !ok || f.Workflow != now || d.flow != now {
		t.Errorf("with it: %+v", f)
	}
	if text, err := os.ReadFile(d.programs.workflow); err != nil || string(text) != "another" {
		t.Errorf("the programs read %q, %v", text, err)
	}
}

// A plan touches nothing, and reads the file itself.
func TestPlanKeepsNoCopy(t *testing.T) {
	d, now := reloadDriver(t, schedule.PlanOnly)
	if err := d.keep(now); err != nil || d.programs.workflow != now.Path {
		t.Errorf("the programs read %q, %v", d.programs.workflow, err)
	}
	if _, err := os.Stat(d.path()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a folder was made: %v", err)
	}
}
