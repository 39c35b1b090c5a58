package session

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"ostoolkit/internal/mailbox"
	"ostoolkit/internal/state"
	"ostoolkit/internal/watch"
	"ostoolkit/internal/wire"
)

// helm is a Steered that writes down what it is asked to do.
type helm struct {
	did     []string
	letters map[string]*Letter
	refuse  error
}

func (h *helm) note(what string, l *Letter) {
	h.did = append(h.did, what+" "+l.Request.ID)
	h.letters[l.Request.ID] = l
}

func (h *helm) Steer(l *Letter)     { h.note("steer", l) }
func (h *helm) Interrupt(l *Letter) { h.note("interrupt", l) }
func (h *helm) Stop(end *Ending)    { h.did = append(h.did, "stop "+end.Category) }
func (h *helm) Decide(id string, r mailbox.Request) error {
	h.did = append(h.did, r.Kind+" "+id)
	return h.refuse
}
func (h *helm) TimedOut(id string, limit time.Duration) {
	h.did = append(h.did, fmt.Sprintf("late %s %v", id, limit))
}

func (h *helm) take() string {
	did := strings.Join(h.did, ", ")
	h.did = nil
	return did
}

// office is an Inbox with its mailbox and what is behind it.
type office struct {
	*Inbox
	t     *testing.T
	peer  *helm
	place Place
	out   bytes.Buffer
}

func openOffice(t *testing.T, files ...string) *office {
	t.Helper()
	dir := state.Dir(t.TempDir())
	o := &office{t: t, peer: &helm{letters: map[string]*Letter{}}, place: Place{
		Workspace: &wire.Workspace{Key: "k"}, RunID: "r1", Run: dir.Run("r1"), State: dir,
	}}
	if err := errors.Join(dir.Make(), o.place.Run.Make()); err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(files); i += 2 {
		o.write(files[i], files[i+1])
	}
	now := func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }
	em, err := NewEmitter(o.place, Output{Stdout: &o.out, Now: now, Warn: t.Logf})
	if err != nil {
		t.Fatal(err)
	}
	o.Inbox = OpenInbox(o.place, em, o.peer, InboxOptions{Harness: "h", Now: now, Watch: watch.Options{Interval: time.Hour}})
	return o
}

func (o *office) write(name, text string) {
	o.t.Helper()
	if err := os.WriteFile(filepath.Join(o.place.State.Mailbox(), name), []byte(text), 0o600); err != nil {
		o.t.Fatal(err)
	}
}

func (o *office) text(id string) { o.write(id+".request.json", `{"text":"`+id+`"}`) }

// expect delivers and checks what the peer was asked to do.
func (o *office) expect(want string) {
	o.t.Helper()
	o.Deliver()
	if got := o.peer.take(); got != want {
		o.t.Errorf("did %q, want %q", got, want)
	}
}

func (o *office) state(id string) mailbox.State {
	o.t.Helper()
	var r mailbox.Reply
	name := id + ".reply.json"
	if state.ReadJSON(filepath.Join(o.place.State.Mailbox(), name), &r) != nil {
		if err := state.ReadJSON(filepath.Join(string(o.place.Run), "mailbox", name), &r); err != nil {
			return "(none)"
		}
	}
	return r.State
}

func (o *office) is(id string, want mailbox.State) {
	o.t.Helper()
	if got := o.state(id); got != want {
		o.t.Errorf("%s is %q, want %q", id, got, want)
	}
}

func (o *office) closed(over bool, want ...string) {
	o.t.Helper()
	if got := o.Close(over); !slices.Equal(got, want) {
		o.t.Errorf("undelivered %q, want %q", got, want)
	}
}

func TestTextsWaitForATurn(t *testing.T) {
	o := openOffice(t)
	o.text("b")
	o.text("a")
	o.expect("")
	o.Begin("T", "U1")
	o.expect("steer a, steer b")
	var active mailbox.Active
	if err := state.ReadJSON(filepath.Join(o.place.State.Mailbox(), "active.json"), &active); err != nil || active.Turn != "U1" || active.RunID != "r1" || active.Harness != "h" {
		t.Errorf("%+v, %v", active, err)
	}
	if a, err := mailbox.ReadActive(o.place.State.Mailbox()); err != nil || a == nil {
		t.Errorf("our own process is not alive: %v", err)
	}
	o.Consumed("r1/a", "U1")
	o.Accepted(o.peer.letters["b"], "U1")
	o.is("a", mailbox.Consumed)
	o.is("b", mailbox.Accepted)
	o.End()
	if a, err := mailbox.ReadActive(o.place.State.Mailbox()); err != nil || a != nil {
		t.Errorf("active %+v, %v", a, err)
	}
	o.text("c")
	o.closed(true, "b", "c")
	o.is("b", mailbox.Undelivered)
	o.is("c", mailbox.Undelivered)
}

// A text that is held keeps those behind it back, so that they stay in order.
func TestHeldTextsKeepTheOrder(t *testing.T) {
	o := openOffice(t)
	o.Begin("T", "U1")
	o.text("a")
	o.expect("steer a")
	a := o.peer.letters["a"]
	o.Hold(a, "a review runs", 2*time.Second)
	o.text("b")
	o.expect("")
	o.Tick(time.Second)
	o.expect("")
	o.Tick(time.Second)
	o.expect("steer a, steer b")
	if a.Try != 2 {
		t.Errorf("try %d", a.Try)
	}
	o.Hold(a, "the turn is over", 0)
	o.Tick(time.Hour)
	o.expect("")
	o.End()
	o.Begin("T", "U2")
	o.expect("steer a")
	o.closed(true, "a", "b")
}

func TestSilenceIsUnconfirmedAndMadeRight(t *testing.T) {
	o := openOffice(t)
	o.Begin("T", "U1")
	o.text("a")
	o.expect("steer a")
	o.Tick(unconfirmedAfter - 1)
	o.is("a", "(none)")
	o.Tick(1)
	o.is("a", mailbox.Unconfirmed)
	o.Accepted(o.peer.letters["a"], "U1")
	o.is("a", mailbox.Accepted)
	o.Doubt(o.peer.letters["a"], "a state never goes back")
	o.is("a", mailbox.Accepted)
	o.Consumed("r1/a", "U1")
	o.Refused(o.peer.letters["a"], "nor this far")
	o.is("a", mailbox.Consumed)
	o.closed(true)
}

func TestUnansweredTextsAreFew(t *testing.T) {
	o := openOffice(t)
	for i := range maxUnanswered + 5 {
		o.text(fmt.Sprintf("%03d", i))
	}
	o.Begin("T", "U1")
	if n := len(o.peer.did); n != maxUnanswered {
		t.Errorf("%d texts are with the peer", n)
	}
	o.peer.take()
	o.Accepted(o.peer.letters["000"], "U1")
	o.expect(fmt.Sprintf("steer %03d", maxUnanswered))
	o.Leave()
}

func TestQueueInOrder(t *testing.T) {
	o := openOffice(t)
	o.write("b.request.json", `{"kind":"queue","text":"b"}`)
	o.write("a.request.json", `{"kind":"queue","text":"a"}`)
	o.Begin("T", "U1")
	o.expect("")
	o.End()
	a := o.Next()
	if a == nil || a.Request.ID != "a" || o.Next() != a {
		t.Fatalf("next %+v", a)
	}
	o.Sent(a)
	o.Accepted(a, "U2")
	o.Consumed(a.ClientID, "U2")
	if b := o.Next(); b == nil || b.Request.ID != "b" {
		t.Errorf("next %+v", b)
	}
	o.closed(true, "b")
	o.is("a", mailbox.Consumed)
}

func TestStopEndsDelivery(t *testing.T) {
	o := openOffice(t)
	o.text("a")
	o.write("b.request.json", `{"kind":"interrupt"}`)
	o.write("c.request.json", `{"kind":"stop","reason":"tracker"}`)
	o.text("d")
	o.Begin("T", "U1")
	o.expect("steer a, interrupt b, stop tracker")
	o.is("c", mailbox.Accepted)
	o.closed(false, "d") // whether a was read the next run finds out
	o.is("a", "(none)")
	o.is("b", mailbox.Expired)
}

func TestUnreadIsSettledByHistory(t *testing.T) {
	o := openOffice(t,
		".owner.json", `{"run_id":"r0"}`,
		"a.claimed.json", `{"text":"a"}`, "b.claimed.json", `{"text":"b"}`,
		"q.claimed.json", `{"kind":"queue","text":"q"}`, "s.claimed.json", `{"kind":"stop"}`)
	o.is("s", mailbox.Expired)
	if n := len(o.Unread()); n != 3 {
		t.Errorf("%d unread", n)
	}
	o.Settle(map[string]string{"r0/a": "U0"})
	o.is("a", mailbox.Consumed)
	o.text("c")
	o.Begin("T", "U1")
	o.expect("steer b, steer c")
	o.End()
	if q := o.Next(); q == nil || q.ClientID != "r0/q" {
		t.Errorf("next %+v", q)
	}
	// b and c may have been read meanwhile, and nobody can tell.
	o.Unsettled(errors.New("no history"))
	o.is("b", mailbox.Unconfirmed)
	o.closed(true, "q")
	for _, id := range []string{"b", "c"} {
		if _, err := os.Stat(filepath.Join(o.place.State.Mailbox(), id+".claimed.json")); err != nil {
			t.Errorf("the next run cannot settle %s: %v", id, err)
		}
	}
}

// A run that ends before it has asked the history cannot say that a dead run's text was
// not read: the next one finds out. The leak run found this.
func TestClaimOfADeadRunWaitsForTheHistory(t *testing.T) {
	o := openOffice(t, ".owner.json", `{"run_id":"r0"}`, "a.claimed.json", `{"text":"a"}`)
	o.closed(true)
	if _, err := os.Stat(filepath.Join(o.place.State.Mailbox(), "a.claimed.json")); err != nil {
		t.Errorf("the claim is gone: %v", err)
	}
}

func TestKeptTextStaysForTheNextRun(t *testing.T) {
	o := openOffice(t)
	o.write("a.request.json", `{"text":"a","keep":true}`)
	o.Begin("T", "U1")
	o.expect("steer a")
	o.End()
	o.closed(true)
	if _, err := os.Stat(filepath.Join(o.place.State.Mailbox(), "a.claimed.json")); err != nil {
		t.Error(err)
	}
}

func TestQuestions(t *testing.T) {
	o := openOffice(t)
	id := o.NextAsk()
	if other := o.NextAsk(); other == id || len(id) > 64 {
		t.Errorf("ids %q, %q", id, other)
	}
	o.Ask(mailbox.Approval{Request: id, Approval: &wire.Approval{ID: id}}, time.Minute)
	file := filepath.Join(o.place.State.Mailbox(), id+".approval.json")
	if _, err := os.Stat(file); err != nil || !o.Asking() {
		t.Errorf("asking %v, %v", o.Asking(), err)
	}
	o.peer.refuse = errors.New("not on offer")
	o.write("a.request.json", `{"kind":"approve","request":"`+id+`"}`)
	o.write("b.request.json", `{"kind":"approve","request":"1"}`)
	o.expect("approve " + id)
	o.is("a", mailbox.Refused)
	o.is("b", mailbox.Refused)
	o.peer.refuse = nil
	o.write("c.request.json", `{"kind":"decline","request":"`+id+`"}`)
	o.expect("decline " + id)
	o.is("c", mailbox.Accepted)
	o.Tick(time.Minute - 1)
	o.expect("")
	o.Tick(1)
	o.expect("late " + id + " 1m0s")
	o.Answered(id)
	if _, err := os.Stat(file); err == nil || o.Asking() {
		t.Error("it is still open")
	}
	o.closed(true)
}

// Somebody else's run: nothing is answered, all waits.
func TestLeave(t *testing.T) {
	o := openOffice(t)
	o.text("a")
	o.Leave()
	o.expect("")
	if _, err := os.Stat(filepath.Join(o.place.State.Mailbox(), "a.request.json")); err != nil {
		t.Error(err)
	}
}

func TestPlanTakesQueuedTextsFirst(t *testing.T) {
	queue := []*Letter{{Request: mailbox.Request{Text: "x"}}, nil, {Request: mailbox.Request{Text: "y"}}}
	p := Plan{MaxTurns: 1, Full: "full", Queued: func() *Letter {
		if len(queue) == 0 {
			return nil
		}
		l := queue[0]
		queue = queue[1:]
		return l
	}}
	var said []string
	end := p.Run(t.Context(), false, func(p Prompt) error {
		said = append(said, fmt.Sprintf("%d %s", p.Turn, p.Text))
		return nil
	})
	if got := strings.Join(said, ", "); got != "1 full, 2 x, 3 y" || end.Outcome != wire.Succeeded {
		t.Errorf("turns %s, end %v", got, end)
	}
}
