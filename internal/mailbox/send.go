package mailbox

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ostoolkit/internal/state"
	"ostoolkit/internal/watch"
	"ostoolkit/internal/wire"
)

// SendOptions are how a request is sent.
type SendOptions struct {
	Wait  time.Duration // for the reply; 0: not at all
	Kinds Kinds         // what the box knows, to refuse a wrong request at once; nil: not checked here
	Now   func() time.Time
	Rand  io.Reader
	Watch watch.Options // of the wait
}

// ErrNoMailbox is the error of a folder that is not there.
var ErrNoMailbox = errors.New("no such mailbox")

// InvalidError is the error of a request that was not sent because no box would take
// it.
type InvalidError struct{ Reason string }

func (e *InvalidError) Error() string { return "request is not valid: " + e.Reason }

// UnansweredError is the error of a request that is in the box, or taken, and was not
// answered in time. It is still pending and may be delivered later.
type UnansweredError struct {
	ID    string
	State State // Claimed, which here may be unread as well, or Unconfirmed
	Wait  time.Duration
}

func (e *UnansweredError) Error() string {
	if e.State == Unconfirmed {
		return fmt.Sprintf("request %q was sent to the agent and not confirmed within %v: it is still pending", e.ID, e.Wait)
	}
	return fmt.Sprintf("request %q was not answered within %v: it is still pending", e.ID, e.Wait)
}

// RejectedError is the error of a request that was answered with refused, invalid,
// expired or undelivered.
type RejectedError struct{ Reply Reply }

func (e *RejectedError) Error() string {
	text := fmt.Sprintf("request %q is %s", e.Reply.ID, e.Reply.State)
	if e.Reply.Message != "" {
		text += ": " + string(e.Reply.Message)
	}
	return text
}

// Send puts a request into the mailbox dir, under an id of its own that sorts by time,
// and waits for a reply: accepted is enough. The reply that is returned has at least
// the id, also beside an error, once the request is in the box.
//
// Errors are ErrNoMailbox, *InvalidError, *UnansweredError and *RejectedError, ctx's
// cause, and those of the file system.
func Send(ctx context.Context, dir string, r Request, o SendOptions) (*Reply, error) {
	r.Kind = cmp.Or(r.Kind, Steer)
	if o.Kinds != nil {
		if err := o.Kinds.check(r); err != nil {
			return nil, &InvalidError{err.Error()}
		}
	}
	if info, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return nil, fmt.Errorf("%w: %q", ErrNoMailbox, dir)
	} else if err != nil {
		return nil, fmt.Errorf("look for mailbox: %w", err)
	}
	id, err := newID(o.Now(), o.Rand)
	if err != nil {
		return nil, err
	}
	if o.Wait <= 0 {
		return &Reply{ID: id, Kind: wire.Text(r.Kind)}, put(dir, id, r)
	}
	// Watched before it is sent, so that no reply is missed.
	w, err := watch.Open([]string{dir}, o.Watch)
	if err != nil {
		return nil, fmt.Errorf("wait for reply: %w", err)
	}
	defer w.Close()
	if err := put(dir, id, r); err != nil {
		return nil, err
	}
	reply, err := await(ctx, w, dir, id, o.Wait)
	if reply == nil {
		reply = &Reply{ID: id, Kind: wire.Text(r.Kind)}
	}
	return reply, err
}

// newID returns an id that sorts by time to the microsecond.
func newID(now time.Time, random io.Reader) (string, error) {
	var b [4]byte
	if _, err := io.ReadFull(random, b[:]); err != nil {
		return "", fmt.Errorf("make a request id: %v", err)
	}
	stamp := strings.Replace(now.UTC().Format("20060102-150405.000000"), ".", "-", 1)
	return stamp + "-" + hex.EncodeToString(b[:]), nil
}

// put lets the request appear whole.
func put(dir, id string, r Request) error {
	data, err := wire.Encode(r)
	if err != nil {
		return fmt.Errorf("encode request: %v", err)
	}
	temp := filepath.Join(dir, sendTemp+id)
	err = os.WriteFile(temp, append(data, '\n'), 0o600)
	if err == nil {
		err = os.Rename(temp, filepath.Join(dir, id+requestSuffix))
	}
	if err != nil {
		_ = os.Remove(temp) // best effort: the error above is the one to tell
		return fmt.Errorf("send request: %w", err)
	}
	return nil
}

// await waits for the word on a request. The last reply that it saw is returned with
// its error.
func await(ctx context.Context, w *watch.Watcher, dir, id string, limit time.Duration) (*Reply, error) {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	var last *Reply
	for {
		if reply := find(dir, id); reply != nil {
			switch last = reply; {
			case reply.Accepted:
				return reply, nil
			case reply.State.rank() == final:
				return reply, &RejectedError{*reply}
			}
		}
		select {
		case <-w.C():
		case <-ctx.Done():
			return last, context.Cause(ctx)
		case <-timer.C:
			e := &UnansweredError{ID: id, Wait: limit}
			if last != nil {
				e.State = last.State
			}
			return last, e
		}
	}
}

// find returns the reply to a request: from the box or, where the run has ended
// since, from its folder.
func find(dir, id string) *Reply {
	if reply := readReply(filepath.Join(dir, id+replySuffix)); reply != nil {
		return reply
	}
	for _, suffix := range []string{requestSuffix, claimSuffix} {
		if _, err := os.Lstat(filepath.Join(dir, id+suffix)); err == nil {
			return nil
		}
	}
	runs := state.Dir(filepath.Dir(dir)).Runs()
	entries, err := os.ReadDir(runs)
	if err != nil {
		return nil
	}
	for _, e := range slices.Backward(entries) { // the newest run comes last
		if reply := readReply(filepath.Join(runs, e.Name(), "mailbox", id+replySuffix)); reply != nil {
			return reply
		}
	}
	return nil
}
