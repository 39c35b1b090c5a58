package mailbox_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"ostoolkit/internal/mailbox"
	"ostoolkit/internal/watch"
)

// history is what the property test knows of each text: where it must be, or why it
// need not be anywhere.
type history struct {
	*rig
	rt    *rapid.T
	texts int
	runs  int
	lies  map[string]string // id -> text of the request file
	torn  map[string]bool   // whether that file is still being written
	seen  []mailbox.Request // of the last scan
	taken map[string]int    // text -> claims
	by    map[string]string // id -> run that took the open claim
	open  map[string]string // id -> text of the open claim
	told  map[string]bool   // text -> answered without having been claimed
}

func (h *history) id() string {
	return rapid.SampledFrom([]string{"a", "a-1", "b"}).Draw(h.rt, "id")
}

// write replaces whatever lies under an id: the last one wins.
func (h *history) write(torn bool) {
	id := h.id()
	h.texts++
	text := strconv.Itoa(h.texts)
	content := fmt.Sprintf(`{"text":%q}`, text)
	if torn {
		content = content[:rapid.IntRange(0, len(content)-1).Draw(h.rt, "cut")]
	}
	h.request(id, content)
	h.lies[id], h.torn[id] = text, torn
}

func (h *history) complete() {
	id := h.id()
	if h.torn[id] {
		h.must(os.WriteFile(h.path(id+".request.json"), fmt.Appendf(nil, `{"text":%q}`, h.lies[id]), 0o600))
		h.torn[id] = false
	}
}

func (h *history) look() {
	h.now = h.now.Add(time.Duration(rapid.IntRange(0, 1500).Draw(h.rt, "ms")) * time.Millisecond)
	h.seen = h.scan()
	for _, r := range h.seen {
		if h.lies[r.ID] != r.Text || h.torn[r.ID] {
			h.rt.Errorf("scan returned %q under %q, where %q lies", r.Text, r.ID, h.lies[r.ID])
		}
	}
	h.settleTurnedAway()
}

// settleTurnedAway checks that a file which vanished without a claim was answered.
func (h *history) settleTurnedAway() {
	for id, text := range h.lies {
		if _, err := os.Lstat(h.path(id + ".request.json")); err == nil {
			continue
		}
		if !h.torn[id] {
			h.wantReply(id, mailbox.Undelivered)
		} else {
			h.wantReply(id, mailbox.Invalid)
		}
		h.told[text] = true
		delete(h.lies, id)
		delete(h.torn, id)
	}
}

func (h *history) claim() {
	if len(h.seen) == 0 {
		return
	}
	r := h.seen[0]
	h.seen = h.seen[1:]
	err := h.Claim(r)
	if h.lies[r.ID] != r.Text || h.torn[r.ID] || h.open[r.ID] != "" {
		if err == nil {
			h.rt.Errorf("%q was claimed, but %q lies there", r.Text, h.lies[r.ID])
		}
		return
	}
	h.must(err)
	h.take(r)
}

func (h *history) take(r mailbox.Request) {
	if h.taken[r.Text]++; h.taken[r.Text] > 1 {
		h.rt.Errorf("%q was claimed twice", r.Text)
	}
	if h.told[r.Text] {
		h.rt.Errorf("%q was claimed after it had been answered", r.Text)
	}
	h.open[r.ID], h.by[r.ID] = r.Text, h.run()
	delete(h.lies, r.ID)
	delete(h.torn, r.ID)
}

func (h *history) settle() {
	id := h.id()
	state := rapid.SampledFrom([]mailbox.State{mailbox.Unconfirmed, mailbox.Accepted, mailbox.Consumed, mailbox.Refused}).Draw(h.rt, "state")
	err := h.Reply(mailbox.Reply{ID: id, State: state})
	switch {
	case h.open[id] == "" && !errors.Is(err, mailbox.ErrSettled):
		h.rt.Errorf("reply without a claim: %v", err)
	case err == nil && (state == mailbox.Consumed || state == mailbox.Refused):
		if reply := h.wantReply(id, state); string(reply.Text) != h.open[id] {
			h.rt.Errorf("reply to %q, want %q", reply.Text, h.open[id])
		}
		delete(h.open, id)
	}
}

func (h *history) run() string { return fmt.Sprint("run-", h.runs) }

// reopen is the start of the next run.
func (h *history) reopen() {
	h.runs++
	h.rig.open(h.run())
}

// crash is a death at any of the points where a file has moved and its successor is
// not there yet.
func (h *history) crash() {
	id := h.id()
	switch rapid.IntRange(0, 3).Draw(h.rt, "point") {
	case 1: // a request was being turned away
		if err := os.Rename(h.path(id+".request.json"), h.path(".taken-"+id)); err != nil {
			break
		}
	case 2: // a claim had been made and nothing done about it
		if text := h.lies[id]; text != "" && !h.torn[id] && h.open[id] == "" {
			h.must(os.RemoveAll(h.path(id + ".reply.json")))
			h.must(os.Rename(h.path(id+".request.json"), h.path(id+".claimed.json")))
			h.take(mailbox.Request{ID: id, Text: text})
		}
	case 3: // a claim had been settled and was still there
		if h.open[id] != "" {
			h.put(id+".reply.json", fmt.Sprintf(`{"id":%q,"state":"consumed"}`, id))
			delete(h.open, id)
		}
	}
	h.seen = nil
	h.reopen()
	h.wantClaims()
}

func (h *history) finish() {
	if _, err := h.Finish(filepath.Join(h.dir, "archive")); err != nil {
		h.rt.Fatal(err)
	}
	for id, text := range h.lies {
		if _, err := os.Lstat(h.path(id + ".request.json")); err == nil {
			continue
		}
		if _, err := os.Lstat(filepath.Join(h.dir, "archive", id+".reply.json")); err != nil {
			h.rt.Errorf("%q is gone without an answer", text)
		}
		delete(h.lies, id)
		delete(h.torn, id)
	}
	h.seen = nil
	h.wantClaims()
}

func (h *history) wantClaims() {
	claims := h.Claims()
	for _, c := range claims {
		if id := c.Request.ID; h.open[id] != c.Request.Text || h.by[id] != c.RunID {
			h.rt.Errorf("claim of %q under %q by %s, want %q by %s", c.Request.Text, id, c.RunID, h.open[id], h.by[id])
		}
	}
	if len(claims) != len(h.open) {
		h.rt.Errorf("%d claims, want %d", len(claims), len(h.open))
	}
}

// Whatever writers, the owner and deaths do in whatever order: no text is claimed
// twice, and none vanishes without a claim or an answer unless its writer replaced
// it.
func TestNothingTwiceNothingLost(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dir, err := os.MkdirTemp(t.TempDir(), "")
		if err != nil {
			rt.Fatal(err)
		}
		h := &history{
			rig: &rig{t: t, dir: dir, now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}, rt: rt,
			lies: map[string]string{}, torn: map[string]bool{}, taken: map[string]int{}, by: map[string]string{}, open: map[string]string{}, told: map[string]bool{},
		}
		h.reopen()
		rt.Repeat(map[string]func(*rapid.T){
			"write":      func(rt *rapid.T) { h.rt = rt; h.write(false) },
			"write torn": func(rt *rapid.T) { h.rt = rt; h.write(true) },
			"complete":   func(rt *rapid.T) { h.rt = rt; h.complete() },
			"scan":       func(rt *rapid.T) { h.rt = rt; h.look() },
			"claim":      func(rt *rapid.T) { h.rt = rt; h.claim() },
			"settle":     func(rt *rapid.T) { h.rt = rt; h.settle() },
			"crash":      func(rt *rapid.T) { h.rt = rt; h.crash() },
			"finish":     func(rt *rapid.T) { h.rt = rt; h.finish() },
		})
		h.rt = rt
		h.drain()
	})
}

// drain lets the owner work until nothing is left to do.
func (h *history) drain() {
	for id := range h.open {
		h.reply(id, mailbox.Consumed)
		delete(h.open, id)
	}
	h.now = h.now.Add(time.Minute)
	h.look()
	h.now = h.now.Add(time.Minute)
	for h.look(); len(h.seen) > 0; {
		h.claim()
	}
	if len(h.lies) > 0 {
		h.rt.Errorf("left over: %q", h.lies)
	}
}

// Writers that replace and add requests while the owner scans and claims: each last
// text under a name arrives, none twice.
func TestWritersAtTheSameTime(t *testing.T) {
	const writers, rounds = 4, 50
	r := newRig(t)
	w, err := watch.Open([]string{r.dir}, watch.Options{Interval: time.Hour})
	r.must(err)
	defer w.Close()
	var all sync.WaitGroup
	for n := range writers {
		all.Go(func() {
			for i := range rounds {
				temp := r.path(fmt.Sprintf(".t%d", n))
				content := fmt.Appendf(nil, `{"text":"%d.%d"}`, n, i)
				target := r.path(fmt.Sprintf("w%d-%d.request.json", n, i/10)) // ten texts a name
				if err := errors.Join(os.WriteFile(temp, content, 0o600), os.Rename(temp, target)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	defer all.Wait()
	taken := map[string]bool{}
	for left := lastTexts(writers, rounds); len(left) > 0; {
		select {
		case <-w.C():
		case <-time.After(10 * time.Second):
			t.Fatalf("never arrived: %v", left)
		}
		for _, req := range r.scan() {
			if err := r.Claim(req); errors.Is(err, mailbox.ErrGone) {
				continue
			} else if err != nil {
				t.Fatal(err)
			}
			if taken[req.Text] {
				t.Errorf("%s arrived twice", req.Text)
			}
			taken[req.Text] = true
			delete(left, req.Text)
			r.reply(req.ID, mailbox.Consumed)
		}
	}
}

func lastTexts(writers, rounds int) map[string]bool {
	last := map[string]bool{}
	for n := range writers {
		for i := 9; i < rounds; i += 10 {
			last[fmt.Sprintf("%d.%d", n, i)] = true
		}
	}
	return last
}
