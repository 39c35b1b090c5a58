package harness

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/state"
)

func TestSupervised(t *testing.T) {
	real := t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(real, link); err != nil {
		t.Fatal(err)
	}
	all := []string{"OS_RUN_ID=r1", "OS_LOCK_FD=3", "OS_STATE_DIR=/state/A-1", "OS_WORKSPACE=" + real}
	tests := []struct {
		name, dir string
		args      []string
		environ   []string
		want      bool
	}{
		{"in the folder of the run", real, []string{"hello"}, all, true},
		{"through a link", link, []string{"hello"}, all, true},
		{"--cwd", "/", []string{"--cwd", real, "hello"}, all, true},
		{"--prompt-file", real, []string{"--prompt-file", "p.md"}, all, true},
		{"in another folder", "/", []string{"hello"}, all, false},
		{"no such folder", real, []string{"--cwd", "nowhere", "hello"}, all, false},
		{"without a PROMPT", real, nil, all, false},
		{"an agent has no lock", real, []string{"hello"}, slices.Concat(all, []string{"OS_LOCK_FD="}), false},
		{"by itself", real, []string{"hello"}, nil, false},
	}
	for _, tt := range tests {
		o, err := parse(tt.args)
		if err != nil {
			t.Fatal(err)
		}
		if got := o.supervised(&cli.Env{Dir: tt.dir, Environ: tt.environ}); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

// A record counts only for the run and the folder that it was written for.
func TestRecorded(t *testing.T) {
	dir := state.Dir(t.TempDir())
	write := func(text string) {
		t.Helper()
		path := dir.Run("r1").Record()
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"v":1,"type":"workspace","key":"A-1","state_dir":"` + string(dir) + `","run":{"id":"r1"}}` + "\n")
	if ws, err := recorded(dir, "r1"); err != nil || ws.Key != "A-1" {
		t.Errorf("%+v, %v", ws, err)
	}
	for _, id := range []string{"../r1", "r2"} {
		if ws, err := recorded(dir, id); err == nil {
			t.Errorf("run %q: %+v", id, ws)
		}
	}
	for _, text := range []string{
		"", "{", `{"v":1,"type":"issue","id":"1"}`, `{"v":1,"type":"workspace","key":"A-1","state_dir":"` + string(dir) + `"}`,
		`{"v":1,"type":"workspace","state_dir":"/elsewhere","run":{"id":"r1"}}`,
		`{"v":1,"type":"workspace","state_dir":"` + string(dir) + `","run":{"id":"r2"}}`,
	} {
		write(text)
		if ws, err := recorded(dir, "r1"); err == nil {
			t.Errorf("%s: %+v", text, ws)
		}
	}
}
