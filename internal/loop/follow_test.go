package loop

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"ostoolkit/internal/schedule"
	"ostoolkit/internal/state"
)

var kindNames = map[schedule.EventKind]string{
	schedule.Launched: "launched", schedule.Opened: "opened", schedule.Progress: "progress",
	schedule.Asking: "asking", schedule.Answered: "answered", schedule.Chatter: "chatter",
}

// following runs a follower on a log that is written piece by piece, and returns what
// it told.
func following(t *testing.T, pieces ...string) []string {
	t.Helper()
	b := newBench(t, nil)
	d := newDriver(b.config(schedule.Once))
	now := time.Unix(0, 0)
	d.Now = func() time.Time {
		now = now.Add(progressInterval) // nothing is thinned out
		return now
	}
	w := &worker{d: d, issueID: "1", runID: "r1", dir: state.Dir(b.dir), stop: make(chan struct{})}
	if err := os.MkdirAll(string(w.dir.Run("r1")), 0o700); err != nil {
		t.Fatal(err)
	}
	log, err := os.OpenFile(w.dir.Run("r1").Events(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for _, p := range pieces {
			if _, err := log.WriteString(p); err != nil {
				t.Error(err)
			}
		}
		close(over)
	}()
	var told []string
	d.tasks.Go(func() {
		w.follow(d.ctx, over)
		d.send(note{over: w})
	})
	for n := (note{}); n.over == nil; {
		n = <-d.inbox
		if e, ok := n.fact.(schedule.RunEvent); ok {
			text := kindNames[e.Kind]
			if e.Tokens != nil {
				text += fmt.Sprintf(" %d", *e.Tokens)
			}
			told = append(told, text)
		}
	}
	<-done
	d.close()
	return told
}

func line(seq int, event, more string) string {
	return fmt.Sprintf(`{"v":1,"type":"event","run_id":"r1","seq":%d,"event":%q%s}`+"\n", seq, event, more)
}

func TestFollow(t *testing.T) {
	long := line(5, "message", `,"text":"`+strings.Repeat("x", 200_000)+`"`)
	got := following(t,
		line(1, "session.planned", ""), line(2, "session.started", ""),
		line(2, "message", ""), // told already
		`{"v":1,"type":"event","run_id":"r0","seq":9,"event":"message"}`+"\n", // of another run
		"not JSON\n",
		line(3, "turn.started", "")[:20], line(3, "turn.started", "")[20:],
		line(4, "usage", `,"usage":{"total_tokens":7}`),
		long[:100_000], long[100_000:],
		line(6, "approval.requested", ""), line(7, "approval.resolved", ""), line(8, "retrying", ""),
		line(9, "command.completed", "")[:30], // its writer died
	)
	want := "launched opened progress chatter 7 progress asking answered"
	if s := strings.Join(got, " "); s != want {
		t.Errorf("got  %s\nwant %s", s, want)
	}
}
