package workspace

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ostoolkit/internal/cli"
)

var update = flag.Bool("update", false, "write the golden help texts")

func TestParse(t *testing.T) {
	tests := []struct {
		args string
		want config
	}{
		{"run -- os-codex --model x", config{verb: "run", grace: 10e9, argv: []string{"os-codex", "--model", "x"}}},
		{"run --grace 3s sh -c true", config{verb: "run", grace: 3e9, argv: []string{"sh", "-c", "true"}}},
		{"ensure --workflow w.md --root r --state-root s --state-unsafe", config{verb: "ensure", workflow: "w.md", root: "r", stateRoot: "s", stateUnsafe: true}},
		{"show ABC-1 --path", config{verb: "show", ref: "ABC-1", field: "path"}},
		{"show --run ABC-1", config{verb: "show", ref: "ABC-1", field: "run"}},
		{"list", config{verb: "list", dirty: true}},
		{"list --du --dirty=false", config{verb: "list", du: true}},
		{"check --root r", config{verb: "check", root: "r"}},
		{"sweep", config{verb: "sweep", keepDirty: true}},
		{"sweep --older-than 14d --logs-older-than 36h --dry-run --keep-dirty=false",
			config{verb: "sweep", olderThan: age(14 * 24 * time.Hour), logsOlder: age(36 * time.Hour), dryRun: true}},
		{"remove", config{verb: "remove"}},
		{"remove A-1 --force -- -B", config{verb: "remove", force: true, refs: []string{"A-1", "-B"}}},
	}
	for _, tt := range tests {
		got, err := parse(strings.Fields(tt.args))
		if err != nil {
			t.Errorf("%s: %v", tt.args, err)
			continue
		}
		if strings.Join(got.argv, "|") != strings.Join(tt.want.argv, "|") {
			t.Errorf("%s: argv %q", tt.args, got.argv)
		}
		got.argv, tt.want.argv = nil, nil
		if !same(got, tt.want) {
			t.Errorf("%s: %+v, want %+v", tt.args, got, tt.want)
		}
	}
}

func same(a, b config) bool {
	return a.verb == b.verb && a.workflow == b.workflow && a.root == b.root && a.stateRoot == b.stateRoot &&
		a.stateUnsafe == b.stateUnsafe && a.grace == b.grace && a.ref == b.ref && a.field == b.field &&
		slices.Equal(a.refs, b.refs) && a.force == b.force && a.du == b.du && a.dirty == b.dirty &&
		a.olderThan == b.olderThan && a.logsOlder == b.logsOlder && a.keepDirty == b.keepDirty && a.dryRun == b.dryRun
}

func TestParseRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"":                            "no verb",
		"--workflow x":                "--workflow",
		"fly":                         `"fly"`,
		"run":                         "no command",
		"run --":                      "no command",
		"run --grace -1s -- true":     "--grace",
		"run --grace soon -- true":    "--grace",
		"show":                        "one issue",
		"show A B":                    "one issue",
		"show A --path --mailbox":     "exclude",
		"list A":                      `"A"`,
		"ensure --grace 1s":           "--grace",
		"check A":                     `"A"`,
		"sweep A":                     `"A"`,
		"sweep --older-than 3":        "no duration",
		"sweep --older-than -3d":      "no duration",
		"sweep --older-than d":        "no duration",
		"sweep --older-than 9999999d": "no duration",
	} {
		_, err := parse(strings.Fields(args))
		if cli.Status(err) != cli.StatusUsage || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: status %d, %v", args, cli.Status(err), err)
		}
	}
}

func TestHelp(t *testing.T) {
	for _, verb := range []string{"", "run", "ensure", "begin", "end", "show", "list", "remove", "sweep", "check"} {
		_, err := parse(strings.Fields(verb + " --help"))
		var out *cli.Output
		if !errors.As(err, &out) {
			t.Fatalf("%s --help: %v", verb, err)
		}
		path := filepath.Join("testdata", "help", strings.Trim("os-workspace-"+verb, "-")+".golden")
		if *update {
			if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(out.Text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if out.Text != string(want) {
			t.Errorf("%s: help has changed; go test -update writes it:\n%s", path, out.Text)
		}
	}
}
