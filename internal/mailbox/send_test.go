package mailbox_test

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ostoolkit/internal/mailbox"
	"ostoolkit/internal/watch"
)

func sendOptions(wait time.Duration) mailbox.SendOptions {
	return mailbox.SendOptions{
		Wait: wait, Kinds: mailbox.SessionKinds, Now: time.Now, Rand: bytes.NewReader([]byte{0xde, 0xad, 0xbe, 0xef}),
		Watch: watch.Options{Forbid: true},
	}
}

// Each owner does what one does with the request, while the sender waits by a clock
// that only the test moves.
func TestSend(t *testing.T) {
	const id = "20000101-000000-000000-deadbeef"
	tests := []struct {
		name  string
		owner func(r *rig)
		state mailbox.State
		err   string
		after time.Duration // at most
	}{
		{"accepted", func(r *rig) {
			r.take()
			r.reply(id, mailbox.Accepted)
		}, mailbox.Accepted, "", 200 * time.Millisecond},
		{"accepted in the end", func(r *rig) {
			r.take()
			r.reply(id, mailbox.Unconfirmed)
			<-time.After(3 * time.Second)
			r.reply(id, mailbox.Accepted)
		}, mailbox.Accepted, "", 4 * time.Second},
		{"refused", func(r *rig) {
			r.take()
			r.must(r.Reply(mailbox.Reply{ID: id, State: mailbox.Refused, Message: "no turn runs"}))
		}, mailbox.Refused, `request "` + id + `" is refused: no turn runs`, 200 * time.Millisecond},
		{"the run ends", func(r *rig) {
			ids, err := r.Finish(filepath.Join(filepath.Dir(r.dir), "runs", "run-1", "mailbox"))
			r.must(err)
			if len(ids) != 1 || ids[0] != id {
				r.t.Errorf("undelivered: %q", ids)
			}
			r.wantFiles("")
		}, mailbox.Undelivered, `request "` + id + `" is undelivered: the run ended before it was read`, time.Second},
		{"nobody is there", func(*rig) {}, mailbox.Claimed,
			`request "` + id + `" was not answered within 10s: it is still pending`, 10 * time.Second},
		{"not confirmed", func(r *rig) {
			r.take()
			r.reply(id, mailbox.Unconfirmed)
		}, mailbox.Unconfirmed, `request "` + id + `" was sent to the agent and not confirmed within 10s: it is still pending`, 10 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			synctest.Test(t, func(t *testing.T) {
				r.t = t
				start := time.Now()
				type answer struct {
					reply *mailbox.Reply
					err   error
				}
				answers := make(chan answer, 1)
				go func() {
					reply, err := mailbox.Send(t.Context(), r.dir, mailbox.Request{Text: "x"}, sendOptions(10*time.Second))
					answers <- answer{reply, err}
				}()
				synctest.Wait()
				r.wantFiles(id + ".request.json")
				tt.owner(r)
				got := <-answers
				if got.reply == nil || got.reply.ID != id || got.reply.State != tt.state || got.reply.Kind != "steer" {
					t.Errorf("reply %+v", got.reply)
				}
				if tt.err == "" && got.err != nil || tt.err != "" && (got.err == nil || got.err.Error() != tt.err) {
					t.Errorf("error %v, want %q", got.err, tt.err)
				}
				if took := time.Since(start); took > tt.after {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

func TestSendErrorsHaveTypes(t *testing.T) {
	r := newRig(t)
	send := func(ctx context.Context, dir string, req mailbox.Request, wait time.Duration) error {
		_, err := mailbox.Send(ctx, dir, req, sendOptions(wait))
		return err
	}
	text := mailbox.Request{Text: "x"}
	if err := send(t.Context(), r.dir+"x", text, 0); !errors.Is(err, mailbox.ErrNoMailbox) || !strings.Contains(err.Error(), r.dir+"x") {
		t.Errorf("no folder: %v", err)
	}
	var invalid *mailbox.InvalidError
	if err := send(t.Context(), r.dir, mailbox.Request{Text: " "}, 0); !errors.As(err, &invalid) {
		t.Errorf("a blank text: %v", err)
	}
	r.wantFiles("")
	var unanswered *mailbox.UnansweredError
	if err := send(t.Context(), r.dir, text, time.Millisecond); !errors.As(err, &unanswered) || unanswered.ID == "" {
		t.Errorf("nobody there: %v", err)
	}
	cause := errors.New("given up")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if err := send(ctx, r.dir, text, time.Hour); !errors.Is(err, cause) {
		t.Errorf("given up: %v", err)
	}
}

func TestSendWithoutWaiting(t *testing.T) {
	r := newRig(t)
	reply, err := mailbox.Send(t.Context(), r.dir, mailbox.Request{Kind: mailbox.Stop, Reason: "tracker"}, sendOptions(0))
	r.must(err)
	got := r.take()
	if got.ID != reply.ID || got.Kind != mailbox.Stop || got.Reason != "tracker" {
		t.Errorf("sent %+v, got %+v", reply, got)
	}
}

// Both ends with the system's own watcher.
func TestSendAndOwner(t *testing.T) {
	r := newRig(t)
	w, err := watch.Open([]string{r.dir}, watch.Options{Interval: time.Hour})
	r.must(err)
	defer w.Close()
	sent := make(chan error, 1)
	go func() {
		o := sendOptions(time.Minute)
		o.Watch = watch.Options{Interval: time.Hour}
		_, err := mailbox.Send(t.Context(), r.dir, mailbox.Request{Text: "x"}, o)
		sent <- err
	}()
	for {
		select {
		case <-w.C():
			for _, req := range r.scan() {
				r.must(r.Claim(req))
				r.reply(req.ID, mailbox.Accepted)
			}
		case err := <-sent:
			r.must(err)
			return
		}
	}
}
