package ostoolkit_test

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/shlex"
	"github.com/rogpeppe/go-internal/testscript"
)

// TestRigFindsFaults runs scripts that have to fail: what the rig promises to find
// at the end of every script is found.
func TestRigFindsFaults(t *testing.T) {
	tests := []struct{ script, want string }{
		{"leftover.txtar", "processes are left: "},
		{"drift.txtar", "jsonschema validation failed"},
		{"status.txtar", "status 3, want 4"},
		{"jsonq.txtar", "outcome is failed, want succeeded"},
		{"numbers.txtar", "seq 4 comes after 1"},
	}
	for _, tt := range tests {
		t.Run(tt.script, func(t *testing.T) {
			if tt.script == "leftover.txtar" && runtime.GOOS != "linux" {
				t.Skip("leftovers are seen on Linux only")
			}
			p := scriptParams("")
			p.Files = []string{filepath.Join("testdata", "rig", tt.script)}
			v := &verdict{}
			testscript.RunT(v, p)
			if !v.failed || !strings.Contains(v.log.String(), tt.want) {
				t.Errorf("failed %t, want true with %q in\n%s", v.failed, tt.want, v.log.String())
			}
		})
	}
}

// verdict is a testscript.T that keeps the result for itself. It runs its one
// script to the end in Run, in the goroutine of the caller's making.
type verdict struct {
	failed bool
	log    strings.Builder
}

func (v *verdict) Log(args ...any)   { fmt.Fprintln(&v.log, args...) }
func (v *verdict) Parallel()         {}
func (v *verdict) Verbose() bool     { return false }
func (v *verdict) Skip(args ...any)  { v.Log(args...); runtime.Goexit() }
func (v *verdict) Fatal(args ...any) { v.Log(args...); v.FailNow() }
func (v *verdict) FailNow()          { v.failed = true; runtime.Goexit() }
func (v *verdict) Failed() bool      { return v.failed }

func (v *verdict) Run(_ string, f func(testscript.T)) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		f(v)
	}()
	<-done
}

func TestCodexCommandSplits(t *testing.T) {
	got, err := shlex.Split(codexCommand("/p/codex", "http://127.0.0.1:7/v1"))
	want := []string{
		"/p/codex", "app-server", "-c", `model="scripted"`, "-c", `model_provider="lab"`, "-c",
		`model_providers.lab={name="lab",base_url="http://127.0.0.1:7/v1",wire_api="responses",request_max_retries=1,stream_max_retries=1}`,
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v", got, err)
	}
}
