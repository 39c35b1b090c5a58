package openhands

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/harness"
	"ostoolkit/internal/openhands"
	"ostoolkit/internal/session"
	"ostoolkit/internal/wire"
	"ostoolkit/internal/workflow"
)

var update = flag.Bool("update", false, "write the golden files")

func TestHelp(t *testing.T) {
	for name, ask := range map[string]func() error{
		"os-openhands": func() error { _, err := parse([]string{"--help"}); return err },
		"os-openhands-check": func() error {
			return check(t.Context(), &cli.Env{Dir: t.TempDir()}, []string{"--help"})
		},
		"os-openhands-keep": func() error {
			return keep(t.Context(), &cli.Env{Dir: t.TempDir()}, []string{"--help"})
		},
		"os-openhands-send": func() error {
			return harness.Send(t.Context(), &cli.Env{Dir: t.TempDir()}, usage.Name, []string{"--help"})
		},
	} {
		var out *cli.Output
		if err := ask(); !errors.As(err, &out) {
			t.Fatalf("%s --help: %v", name, err)
		}
		checkGolden(t, name, out.Text)
	}
}

func checkGolden(t *testing.T, name, text string) {
	t.Helper()
	golden := filepath.Join("testdata", "help", name+".golden")
	if *update {
		if err := os.WriteFile(golden, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("help is not %s; run go test -update and look at the difference:\n%s", golden, text)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, args := range [][]string{
		{"--max-iterations", "0"}, {"--confirm", "sometimes"}, {"--reuse", "x"}, {"--server", "http://h", "--spawn", "c"},
		{"--llm-option", "novalue"}, {"--llm-option", "api_key=secret"}, {"--nonsense"}, {"two", "words"},
	} {
		_, err := parse(args)
		if cli.Status(err) != cli.StatusUsage {
			t.Errorf("%q: %v, want a usage error", args, err)
		}
		if err != nil && strings.Contains(err.Error(), "=secret") {
			t.Errorf("%q: the error shows the secret: %v", args, err)
		}
	}
}

// The keys of OpenSymphony's files mean the same as ours.
func TestSettings(t *testing.T) {
	ours, err := readSettings(map[string]any{
		"server": map[string]any{"url": "http://127.0.0.1:9", "api_key_env": "K"},
		"llm":    map[string]any{"model": "m", "base_url_env": "U", "api_key_env": "P"},
		"conversation": map[string]any{"max_iterations": int64(7), "stuck_detection": false, "confirm": "always",
			"tools": []any{"terminal"}, "condenser": map[string]any{"enabled": false}},
	})
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := readSettings(map[string]any{
		"transport": map[string]any{"base_url": "http://127.0.0.1:9", "session_api_key_env": "K"},
		"conversation": map[string]any{"max_iterations": "7", "stuck_detection": false,
			"confirmation_policy": map[string]any{"kind": "AlwaysConfirm"},
			"agent": map[string]any{
				"llm":       map[string]any{"model": "m", "base_url_env": "U", "api_key_env": "P"},
				"tools":     []any{map[string]any{"name": "terminal"}},
				"condenser": map[string]any{"enabled": false},
			}},
	})
	if err != nil {
		t.Fatal(err)
	}
	theirs.urlKey = ours.urlKey
	if !reflect.DeepEqual(ours, theirs) {
		t.Errorf("ours %+v\ntheirs %+v", ours, theirs)
	}
	if ours.maxIterations != 7 || ours.stuck || ours.confirm != openhands.ConfirmAlways || ours.condenser != nil {
		t.Errorf("%+v", ours)
	}
}

func TestUnusedKeys(t *testing.T) {
	s, err := readSettings(map[string]any{
		"llm":       map[string]any{"modle": "m", "options": map[string]any{"timeout": int64(3)}},
		"websocket": map[string]any{"auth_mode": "auto"},
	})
	if want := []string{"llm.modle", "websocket.auth_mode"}; err != nil || !reflect.DeepEqual(s.unused, want) {
		t.Errorf("%q, %v, want %q", s.unused, err, want)
	}
}

func TestSettingsRefuse(t *testing.T) {
	for key, raw := range map[string]map[string]any{
		"openhands.conversation.max_iterations":           {"conversation": map[string]any{"max_iterations": int64(0)}},
		"openhands.conversation.reuse_policy":             {"conversation": map[string]any{"reuse_policy": "x"}},
		"openhands.transport.base_url":                    {"transport": map[string]any{"base_url": true}},
		"openhands.llm.options.api_key":                   {"llm": map[string]any{"options": map[string]any{"api_key": "s3cret"}}},
		"openhands.conversation.confirmation_policy.kind": {"conversation": map[string]any{"confirmation_policy": map[string]any{"kind": "Maybe"}}},
	} {
		_, err := readSettings(raw)
		if err == nil || !strings.Contains(err.Error(), key) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", key, err)
		}
	}
}

func testDriver(t *testing.T, section map[string]any, args ...string) (driver, *harness.Command) {
	t.Helper()
	o, err := parse(args)
	if err != nil {
		t.Fatal(err)
	}
	w := workflow.Defaults(workflow.Options{}, "/flow")
	w.OpenHands = section
	env := &cli.Env{Dir: "/here", Environ: []string{"KEY=session", "LLM_API_KEY=provider", "LLM_BASE_URL=http://m/v1"}}
	return driver{options: o}, &harness.Command{Env: env, Options: o.Options, Workflow: w}
}

// opensymphony 8.29: a command beside an address is refused in the spelling that the user
// wrote, wherever the server is.
func TestServerAndCommandExclude(t *testing.T) {
	for key, section := range map[string]map[string]any{
		"openhands.local_server.command": {"transport": map[string]any{"base_url": "https://agents.example"}, "local_server": map[string]any{"command": "c"}},
		"openhands.server.command":       {"server": map[string]any{"url": "http://127.0.0.1:1", "command": "c"}},
	} {
		d, c := testDriver(t, section)
		s, err := readSettings(c.Workflow.OpenHands)
		if err != nil {
			t.Fatal(err)
		}
		server, command := d.server(c, s)
		end := d.checkServer(s, server, command)
		if end == nil || end.Category != wire.CauseConfig || end.Detail != "openhands.invalid_configuration" || !strings.Contains(end.Message, key) {
			t.Errorf("%s: %+v", key, end)
		}
		d, c = testDriver(t, section, "--server", "http://127.0.0.1:2")
		server, command = d.server(c, s)
		if end := d.checkServer(s, server, command); end != nil || server.URL != "http://127.0.0.1:2" || command != "" {
			t.Errorf("%s: a flag does not win: %+v, %+v, %q", key, end, server, command)
		}
	}
}

func TestAgentPrefersFlags(t *testing.T) {
	d, c := testDriver(t, nil, "--api-key-env", "KEY", "--model", "m", "--effort", "low", "--llm-option", "num_retries=0", "--llm-option", "timeout=\"x\"")
	s, err := readSettings(nil)
	if err != nil {
		t.Fatal(err)
	}
	a := d.agent(c, s, &wire.Workspace{})
	want := map[string]any{"base_url": "http://m/v1", "num_retries": 0.0, "timeout": "x", "reasoning_effort": "low"}
	if a.Model != "m" || a.Key != "provider" || !reflect.DeepEqual(a.LLM, want) {
		t.Errorf("%+v", a)
	}
	if got := d.Secrets(c); !reflect.DeepEqual(got, []string{"session", "provider"}) {
		t.Errorf("secrets %q", got)
	}
}

// The server of our own serves other runs too, and its agents see what it has.
func TestServerEnv(t *testing.T) {
	d, c := testDriver(t, map[string]any{"llm": map[string]any{"api_key_env": "MODEL_KEY"}}, "--api-key-env", "KEY", "--env", "ADDED=x", "--env", "NPM_TOKEN")
	c.Env.Environ = append(c.Env.Environ, "MODEL_KEY=m", "NPM_TOKEN=n", "PLAIN=p")
	s, err := readSettings(c.Workflow.OpenHands)
	if err != nil {
		t.Fatal(err)
	}
	place := session.Place{RunID: "r", State: "/state/issues/A-1", Workspace: &wire.Workspace{Path: "/ws"}}
	got := d.spawn(c, s, place, []string{"/flow/bin/server"})
	want := []string{"ADDED=x", "LLM_BASE_URL=http://m/v1", "NPM_TOKEN=n", "PLAIN=p"}
	if env := slices.DeleteFunc(got.Env, func(kv string) bool { return kv == "LLM_API_KEY=provider" }); !slices.Equal(env, want) {
		t.Errorf("environment %q, want %q", env, want)
	}
	if got.Dir != "/state/shared/openhands" || got.Command[0] != "/flow/bin/server" {
		t.Errorf("%+v", got)
	}
	d.options.Env = append(d.options.Env, "MODEL_KEY")
	if env := d.spawn(c, s, place, []string{"server"}).Env; !slices.Contains(env, "MODEL_KEY=m") {
		t.Errorf("a key that was let through by name is not in %q", env)
	}
}

func TestKeepRefuses(t *testing.T) {
	for _, args := range [][]string{{}, {"dir"}, {"--nonsense", "dir", "--", "cmd"}} {
		if err := keep(t.Context(), &cli.Env{Dir: t.TempDir()}, args); cli.Status(err) != cli.StatusUsage {
			t.Errorf("keep %q: %v, want a usage error", args, err)
		}
	}
}
