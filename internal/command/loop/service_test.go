package loop

import (
	"encoding/xml"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/shlex"
)

const examples = "../../../examples"

func example(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(examples, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// wantLoop checks that argv is an os-loop with flags that it has, and with these.
func wantLoop(t *testing.T, argv []string, want ...string) {
	t.Helper()
	if len(argv) == 0 || filepath.Base(argv[0]) != "os-loop" {
		t.Fatalf("%q is no os-loop", argv)
	}
	if _, err := parse(argv[1:]); err != nil {
		t.Errorf("%q: %v", argv, err)
	}
	for _, w := range want {
		if !slices.Contains(argv, w) {
			t.Errorf("%q lacks %s", argv, w)
		}
	}
}

// A restart of the unit leaves the sessions alone, both by what systemd does and by
// what os-loop does.
func TestSystemdUnit(t *testing.T) {
	unit := map[string]string{}
	for line := range strings.Lines(example(t, "systemd/os-loop.service")) {
		if key, value, ok := strings.Cut(strings.TrimSpace(line), "="); ok && !strings.HasPrefix(line, "#") {
			unit[key] += value
		}
	}
	argv, err := shlex.Split(unit["ExecStart"])
	if err != nil {
		t.Fatal(err)
	}
	wantLoop(t, argv, "--on-exit", "detach")
	for key, want := range map[string]string{"KillMode": "process", "OOMPolicy": "continue", "Restart": "on-failure"} {
		if unit[key] != want {
			t.Errorf("%s=%s, want %s", key, unit[key], want)
		}
	}
}

func TestCrontab(t *testing.T) {
	jobs := 0
	for line := range strings.Lines(example(t, "cron/crontab")) {
		schedule := strings.SplitN(strings.TrimSpace(line), " ", 6)
		if strings.HasPrefix(line, "#") || len(schedule) < 6 {
			continue
		}
		jobs++
		_, command, _ := strings.Cut(schedule[5], "{ ")
		command, _, _ = strings.Cut(command, " >")
		wantLoop(t, strings.Fields(command), "--once", "--timeout")
		if strings.Contains(line, "%") {
			t.Errorf("cron takes a %% for a new line: %q", line)
		}
	}
	if jobs != 1 {
		t.Errorf("%d jobs", jobs)
	}
}

func TestLaunchdPlist(t *testing.T) {
	job := plist(t, example(t, "launchd/org.example.os-loop.plist"))
	wantLoop(t, job["ProgramArguments"], "--on-exit", "detach")
	if job["Label"][0]+".plist" != "org.example.os-loop.plist" || job["AbandonProcessGroup"][0] != "true" {
		t.Errorf("%v", job)
	}
	known := []string{"AbandonProcessGroup", "EnvironmentVariables", "ExitTimeOut", "KeepAlive", "Label", "ProgramArguments", "RunAtLoad",
		"StandardErrorPath", "StandardOutPath", "ThrottleInterval", "WorkingDirectory"}
	if keys := slices.Sorted(maps.Keys(job)); !slices.Equal(keys, known) {
		t.Errorf("keys %q, want %q", keys, known)
	}
}

// plist returns the values of the outer dictionary: what is a text in them, and the
// names of elements that have none.
func plist(t *testing.T, text string) map[string][]string {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	job, key, depth := map[string][]string{}, "", 0
	var element string
	for {
		token, err := d.Token()
		if err == io.EOF {
			return job
		}
		if err != nil {
			t.Fatal(err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			depth++
			element = token.Name.Local
			if element == "true" || element == "false" {
				job[key] = append(job[key], element)
			}
		case xml.EndElement:
			depth--
			element = ""
		case xml.CharData:
			switch {
			case element == "key" && depth == 3: // plist, dict, key
				key = string(token)
			case element != "" && element != "key" && strings.TrimSpace(string(token)) != "":
				job[key] = append(job[key], string(token))
			}
		}
	}
}
