package harness

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"ostoolkit/internal/cli"
	"ostoolkit/internal/mailbox"
)

func TestParseSend(t *testing.T) {
	l, err := parseSend("os-codex", []string{"A-1", "do it"})
	if err != nil || l.target != "A-1" || l.text != "do it" || l.request.Kind != mailbox.Steer || l.wait != 30*time.Second {
		t.Errorf("%+v, %v", l, err)
	}
	l, err = parseSend("os-codex", []string{"--kind", "answer", "--request", "x-1", "--answers", `{"q":"a"}`, "--keep", "--wait", "0", "."})
	if err != nil || l.request.Request != "x-1" || string(l.request.Answers) != `{"q":"a"}` || !l.request.Keep || l.wait != 0 {
		t.Errorf("%+v, %v", l, err)
	}
	for _, args := range [][]string{
		{}, {""}, {"A-1"}, {"A-1", "two", "words"}, {"--kind", "queue", "A-1"}, {"--answers", "{", "A-1", "x"},
		{"--wait", "-1s", "A-1", "x"}, {"--expires", "-1s", "A-1", "x"},
	} {
		if _, err := parseSend("os-codex", args); cli.Status(err) != cli.StatusUsage {
			t.Errorf("%q: %v, want a usage error", args, err)
		}
	}
}

func TestSendFindsTheMailbox(t *testing.T) {
	home, dir := t.TempDir(), t.TempDir()
	box := filepath.Join(dir, "some", "mailbox")
	if err := os.MkdirAll(box, 0o700); err != nil {
		t.Fatal(err)
	}
	env := &cli.Env{Dir: dir, Environ: []string{"HOME=" + home, "XDG_STATE_HOME=" + filepath.Join(home, "state")}, Now: time.Now}
	for target, want := range map[string]string{
		box: box, "some/mailbox": box,
		".": filepath.Join(home, "state", "os", "*", "issues", filepath.Base(dir), "mailbox"),
	} {
		got, err := (&letter{target: target}).mailbox(env)
		if ok, _ := filepath.Match(want, got); err != nil || !ok {
			t.Errorf("%q: %q, %v", target, got, err)
		}
	}
	if _, err := (&letter{target: "./nowhere"}).mailbox(env); cli.Status(err) != cli.StatusNoInput {
		t.Errorf("a missing folder: %v", err)
	}
}

func TestSendStatuses(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want int
	}{
		{nil, cli.StatusOK},
		{&mailbox.RejectedError{}, cli.StatusFailed},
		{&mailbox.UnansweredError{}, cli.StatusTemporary},
		{&mailbox.InvalidError{Reason: "x"}, cli.StatusUsage},
		{mailbox.ErrNoMailbox, cli.StatusNoInput},
		{os.ErrPermission, cli.StatusFailed},
	} {
		if got := cli.Status(sendError(tt.err)); got != tt.want {
			t.Errorf("%v: status %d, want %d", tt.err, got, tt.want)
		}
	}
}
