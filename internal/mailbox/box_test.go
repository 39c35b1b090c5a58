package mailbox_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"ostoolkit/internal/mailbox"
	"ostoolkit/internal/proc"
	"ostoolkit/internal/wire"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a mailbox in a state folder, with a clock that stands.
type rig struct {
	*mailbox.Box
	t        testing.TB
	dir      string
	now      time.Time
	warnings []string
}

func newRig(t testing.TB) *rig {
	r := &rig{t: t, dir: filepath.Join(t.TempDir(), "mailbox"), now: time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)}
	r.open("run-1")
	return r
}

// open opens the box anew, as the next process would.
func (r *rig) open(runID string) {
	r.t.Helper()
	box, err := mailbox.Open(r.dir, mailbox.Options{
		Now: func() time.Time { return r.now }, Kinds: mailbox.SessionKinds, RunID: runID,
		Warn: func(format string, args ...any) { r.warnings = append(r.warnings, format) },
	})
	r.must(err)
	r.Box = box
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) path(name string) string { return filepath.Join(r.dir, name) }

// put lets a file appear as a script does.
func (r *rig) put(name, content string) {
	r.t.Helper()
	r.must(os.WriteFile(r.path(".t"), []byte(content), 0o600))
	r.must(os.Rename(r.path(".t"), r.path(name)))
}

func (r *rig) request(id, content string) { r.t.Helper(); r.put(id+".request.json", content) }

func (r *rig) scan() []mailbox.Request {
	r.t.Helper()
	ready, err := r.Scan()
	r.must(err)
	return ready
}

func (r *rig) ids() []string {
	r.t.Helper()
	var ids []string
	for _, req := range r.scan() {
		ids = append(ids, req.ID)
	}
	return ids
}

// take claims the one request that is there.
func (r *rig) take() mailbox.Request {
	r.t.Helper()
	ready := r.scan()
	if len(ready) != 1 {
		r.t.Fatalf("%d requests are ready", len(ready))
	}
	r.must(r.Claim(ready[0]))
	return ready[0]
}

func (r *rig) reply(id string, state mailbox.State) {
	r.t.Helper()
	r.must(r.Reply(mailbox.Reply{ID: id, State: state}))
}

func (r *rig) wantReply(id string, state mailbox.State) mailbox.Reply {
	r.t.Helper()
	data, err := os.ReadFile(r.path(id + ".reply.json"))
	r.must(err)
	var reply mailbox.Reply
	r.must(json.Unmarshal(data, &reply))
	if reply.ID != id || reply.State != state {
		r.t.Errorf("reply to %q: %s, want %s", id, data, state)
	}
	return reply
}

// files lists the box.
func (r *rig) files() string {
	r.t.Helper()
	entries, err := os.ReadDir(r.dir)
	r.must(err)
	var names []string
	for _, e := range entries {
		if e.Name() != ".owner.json" { // it is always there
			names = append(names, e.Name())
		}
	}
	return strings.Join(names, " ")
}

func (r *rig) wantFiles(want string) {
	r.t.Helper()
	if got := r.files(); got != want {
		r.t.Errorf("the box holds %q, want %q", got, want)
	}
}

func TestScanGoesByName(t *testing.T) {
	r := newRig(t)
	for _, name := range []string{"b.request.json", "a.request.json", "B.request.json", "a-1.request.json",
		".c.request.json", "c d.request.json", "c.request.json.swp", "c.json", "request.json", ".request.json"} {
		r.put(name, `{"text":"`+name+`"}`)
	}
	r.must(os.MkdirAll(r.path("d.request.json/x"), 0o700))
	for range 2 { // until they are claimed
		if got, want := r.ids(), []string{"B", "a-1", "a", "b"}; !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	if len(r.warnings) > 0 {
		t.Errorf("warnings: %q", r.warnings)
	}
}

// Case C29.
func TestHalfWrittenFile(t *testing.T) {
	r := newRig(t)
	path := r.path("a.request.json")
	r.must(os.WriteFile(path, []byte(`{"te`), 0o600))
	r.request("b", `{"text":"whole"}`)
	step := func(forward time.Duration, want ...string) {
		t.Helper()
		r.now = r.now.Add(forward)
		if got := r.ids(); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	step(0, "b")
	step(1999*time.Millisecond, "b")
	r.must(os.WriteFile(path, []byte(`{"text":"o`), 0o600)) // it grows: the quiet time starts again
	step(1999*time.Millisecond, "b")
	step(1999*time.Millisecond, "b")
	r.must(os.WriteFile(path, []byte(`{"text":"one"}`), 0o600))
	step(0, "a", "b")

	r.must(os.WriteFile(r.path("c.request.json"), nil, 0o600))
	step(0, "a", "b")
	step(2*time.Second, "a", "b")
	r.wantReply("c", mailbox.Invalid)
	r.wantFiles("a.request.json b.request.json c.reply.json")
}

func TestWhatIsNoRequest(t *testing.T) {
	r := newRig(t)
	r.must(os.WriteFile(r.path("secret"), []byte(`{"text":"of somebody"}`), 0o600))
	r.must(os.Symlink("secret", r.path("link.request.json")))
	r.must(os.WriteFile(r.path("big.request.json"), []byte(`{"text":"x","y":"`+strings.Repeat("y", 1<<20)+`"}`), 0o600))
	r.must(unix.Mkfifo(r.path("pipe.request.json"), 0o600))
	r.request("garbage", "}{")
	r.request("kind", `{"kind":"shout","text":"hello"}`)
	if got := r.ids(); got != nil {
		t.Errorf("delivered: %q", got)
	}
	for id, message := range map[string]string{
		"link": "it is a symbolic link", "big": "it has 1048595 bytes, over the limit of 1048576", "pipe": "it is not a plain file",
		"garbage": "it is not a JSON object", "kind": `kind "shout" is none of`,
	} {
		reply := r.wantReply(id, mailbox.Invalid)
		if !strings.HasPrefix(string(reply.Message), message) || reply.Accepted || (reply.Kind == "") != (id != "kind") {
			t.Errorf("%s: %+v, want %q", id, reply, message)
		}
	}
	r.wantFiles("big.reply.json garbage.reply.json kind.reply.json link.reply.json pipe.reply.json secret")
}

func TestReplyFile(t *testing.T) {
	r := newRig(t)
	r.request("a", `{"text":"<do> it"}`)
	r.take()
	r.wantFiles("a.claimed.json")
	r.must(r.Reply(mailbox.Reply{ID: "a", State: mailbox.Accepted, Turn: "t1"}))
	data, err := os.ReadFile(r.path("a.reply.json"))
	r.must(err)
	want := `{"id":"a","kind":"steer","state":"accepted","accepted":true,"message":null,"turn":"t1","text":"<do> it","at":"2026-11-30T12:00:00.000Z"}` + "\n"
	if string(data) != want {
		t.Errorf("got %s, want %s", data, want)
	}
	r.wantFiles("a.claimed.json a.reply.json")
	r.reply("a", mailbox.Consumed)
	r.wantFiles("a.reply.json")
}

func TestRepliesOutOfTurn(t *testing.T) {
	r := newRig(t)
	r.request("a", `{"text":"x"}`)
	r.take()
	r.reply("a", mailbox.Unconfirmed)
	r.reply("a", mailbox.Accepted)
	if err := r.Reply(mailbox.Reply{ID: "a", State: mailbox.Unconfirmed}); !errors.Is(err, mailbox.ErrBackward) {
		t.Errorf("backward: %v", err)
	}
	r.wantReply("a", mailbox.Accepted)
	r.reply("a", mailbox.Consumed)
	if err := r.Reply(mailbox.Reply{ID: "a", State: mailbox.Consumed}); !errors.Is(err, mailbox.ErrSettled) {
		t.Errorf("settled: %v", err)
	}
	if err := r.Reply(mailbox.Reply{ID: "b", State: mailbox.Accepted}); !errors.Is(err, mailbox.ErrSettled) {
		t.Errorf("never claimed: %v", err)
	}
}

func TestClaimOfWhatHasChanged(t *testing.T) {
	changes := map[string]struct {
		do   func(r *rig)
		next string
	}{
		"withdrawn": {func(r *rig) { r.must(os.Remove(r.path("a.request.json"))) }, ""},
		"replaced":  {func(r *rig) { r.request("a", `{"text":"two"}`) }, "two"},
		"rewritten": {func(r *rig) { r.must(os.WriteFile(r.path("a.request.json"), []byte(`{"text":"other"}`), 0o600)) }, "other"},
	}
	for name, change := range changes {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.request("a", `{"text":"one"}`)
			ready := r.scan()
			change.do(r)
			if err := r.Claim(ready[0]); !errors.Is(err, mailbox.ErrGone) {
				t.Fatalf("claimed: %v", err)
			}
			if claims := r.Claims(); len(claims) > 0 {
				t.Errorf("claims: %+v", claims)
			}
			if change.next == "" {
				r.wantFiles("")
			} else if got := r.take(); got.Text != change.next {
				t.Errorf("then %q, want %q", got.Text, change.next)
			}
		})
	}
}

func TestClaimOfWhatWasNotScanned(t *testing.T) {
	r := newRig(t)
	if err := r.Claim(mailbox.Request{ID: "a"}); !errors.Is(err, mailbox.ErrGone) {
		t.Errorf("claimed: %v", err)
	}
}

func TestSameIDWaitsForItsClaim(t *testing.T) {
	r := newRig(t)
	r.request("a", `{"text":"one"}`)
	r.take()
	r.reply("a", mailbox.Accepted)
	r.request("a", `{"text":"two"}`)
	if got := r.ids(); got != nil {
		t.Errorf("ready while the claim is open: %q", got)
	}
	r.reply("a", mailbox.Consumed)
	if got := r.wantReply("a", mailbox.Consumed); got.Text != "one" {
		t.Errorf("reply to %q", got.Text)
	}
	if got := r.take(); got.Text != "two" {
		t.Errorf("then %q", got.Text)
	}
	r.wantFiles("a.claimed.json") // the old reply would pass for the new one's
}

// Case C30: the same name again and again, each delivered once.
func TestSameNameFiveTimes(t *testing.T) {
	r := newRig(t)
	for _, text := range []string{"1", "2", "3", "4", "5"} {
		r.request("a", `{"text":"`+text+`"}`)
		if got := r.take(); got.Text != text {
			t.Errorf("got %q, want %q", got.Text, text)
		}
		r.reply("a", mailbox.Consumed)
		if got := r.ids(); got != nil {
			t.Errorf("%q again", got)
		}
	}
}

func TestExpiryAndTarget(t *testing.T) {
	r := newRig(t)
	r.request("late", `{"text":"x","expires_at":"2026-11-30T12:00:01Z"}`)
	r.request("turn", `{"text":"x","target":{"turn":"t2"}}`)
	r.request("thread", `{"text":"x","target":{"thread":"th","pid":7}}`)
	if got, want := r.ids(), []string{"late"}; !slices.Equal(got, want) {
		t.Errorf("before a turn: %q, want %q", got, want)
	}
	r.wantReply("turn", mailbox.Refused)

	r.now = r.now.Add(time.Second)
	r.must(r.SetActive(mailbox.Active{RunID: "run-1", Thread: "th", Turn: "t1", PID: 7, Since: wire.At(r.now)}))
	r.request("turn", `{"text":"x","target":{"turn":"t1"}}`)
	r.request("run", `{"kind":"stop","target":{"run_id":"run-0"}}`)
	if got, want := r.ids(), []string{"thread", "turn"}; !slices.Equal(got, want) {
		t.Errorf("in a turn: %q, want %q", got, want)
	}
	r.wantReply("late", mailbox.Expired)
	r.wantReply("run", mailbox.Refused)

	r.must(r.ClearActive())
	if got, want := r.ids(), []string{"thread"}; !slices.Equal(got, want) {
		t.Errorf("after the turn: %q, want %q", got, want)
	}
	r.wantReply("turn", mailbox.Refused)
}

func TestActiveFile(t *testing.T) {
	r := newRig(t)
	if a, err := mailbox.ReadActive(r.dir); a != nil || err != nil {
		t.Errorf("without a file: %+v, %v", a, err)
	}
	child, err := proc.Start(proc.Spec{Argv: []string{"sleep", "60"}, Env: []string{"PATH=" + os.Getenv("PATH")}})
	r.must(err)
	want := mailbox.Active{
		RunID: "run-1", Session: "s", Thread: "th", Turn: "t1", PID: child.Pid(), PIDStart: child.Started(),
		Harness: "codex", Mailbox: r.dir, Since: wire.At(r.now),
	}
	r.must(r.SetActive(want))
	if a, err := mailbox.ReadActive(r.dir); err != nil || !reflect.DeepEqual(a, &want) {
		t.Errorf("got %+v, %v", a, err)
	}
	_, err = child.KillGroup(t.Context(), 0)
	r.must(err)
	if a, err := mailbox.ReadActive(r.dir); a != nil || err != nil {
		t.Errorf("of a dead process: %+v, %v", a, err)
	}
	r.open("run-2")
	r.wantFiles("")
	r.put("active.json", "{")
	if _, err := mailbox.ReadActive(r.dir); err == nil {
		t.Error("a damaged file was read")
	}
}

func TestApprovals(t *testing.T) {
	r := newRig(t)
	r.must(r.WriteApproval(mailbox.Approval{Request: "ap-1", Approval: &wire.Approval{ID: "ap-1", Title: "rm"}, At: wire.At(r.now)}))
	r.must(r.WriteApproval(mailbox.Approval{Request: "q-1", Questions: json.RawMessage(`[{"q":1}]`)}))
	r.wantFiles("ap-1.approval.json q-1.approval.json")
	if data, err := os.ReadFile(r.path("q-1.approval.json")); err != nil ||
		string(data) != `{"request":"q-1","questions":[{"q":1}],"turn":null,"at":null}`+"\n" {
		t.Errorf("got %s, %v", data, err)
	}
	r.must(r.RemoveApproval("ap-1"))
	r.must(r.RemoveApproval("ap-1"))
	r.open("run-2")
	r.wantFiles("")
	if err := r.WriteApproval(mailbox.Approval{Request: "../x"}); err == nil {
		t.Error("a path was taken for an id")
	}
}

func TestTroubleIsPutAside(t *testing.T) {
	r := newRig(t)
	blocker := r.path("a.reply.json")
	r.must(os.MkdirAll(filepath.Join(blocker, "x"), 0o700)) // no reply can be written
	r.request("a", "garbage")
	for range 3 {
		if got := r.ids(); got != nil {
			t.Errorf("delivered %q", got)
		}
	}
	r.wantFiles("a.reply.json a.request.json")
	if len(r.warnings) != 1 {
		t.Errorf("warnings: %q", r.warnings)
	}
	r.must(os.RemoveAll(blocker))
	r.scan() // not yet
	r.wantFiles("a.request.json")
	r.now = r.now.Add(time.Second)
	r.scan()
	r.wantReply("a", mailbox.Invalid)
	r.wantFiles("a.reply.json")
}

func TestFinish(t *testing.T) {
	r := newRig(t)
	archive := filepath.Join(filepath.Dir(r.dir), "runs", "run-1", "mailbox")
	r.must(r.SetActive(mailbox.Active{RunID: "run-1"}))
	r.must(r.WriteApproval(mailbox.Approval{Request: "ap"}))
	r.request("done", `{"text":"done"}`)
	r.take()
	r.reply("done", mailbox.Consumed)
	r.request("open", `{"text":"open"}`)
	r.take()
	r.reply("open", mailbox.Accepted)
	r.request("open", `{"text":"after open"}`)
	r.request("kept", `{"text":"kept","keep":true}`)
	r.request("late", `{"text":"late"}`)
	r.request("stop", `{"kind":"stop"}`)
	r.request("waits", `{"text":"x","target":{"session":"s"}}`)
	r.request("bad", `{"text":7}`)
	r.request("old", `{"text":"x","expires_at":"2020-01-01T00:00:00Z"}`)
	r.must(os.WriteFile(r.path("torn.request.json"), []byte(`{"te`), 0o600))

	undelivered, err := r.Finish(archive)
	r.must(err)
	if want := []string{"late", "stop", "waits"}; !slices.Equal(undelivered, want) {
		t.Errorf("undelivered %q, want %q", undelivered, want)
	}
	r.wantFiles("kept.request.json open.claimed.json open.reply.json open.request.json torn.request.json")
	r.dir = archive
	r.wantFiles("bad.reply.json done.reply.json late.reply.json old.reply.json stop.reply.json waits.reply.json")
	if reply := r.wantReply("late", mailbox.Undelivered); reply.Text != "late" || reply.Accepted {
		t.Errorf("got %+v", reply)
	}
	r.wantReply("bad", mailbox.Invalid)
	r.wantReply("old", mailbox.Expired)
}

func TestTidy(t *testing.T) {
	r := newRig(t)
	for _, id := range []string{"done", "open"} {
		r.request(id, `{"text":"x"}`)
		r.take()
		r.reply(id, mailbox.Accepted)
	}
	r.reply("done", mailbox.Consumed)
	for _, id := range []string{"done", "open"} {
		r.must(os.Chtimes(r.path(id+".reply.json"), r.now, r.now))
	}
	r.now = r.now.Add(time.Minute)
	r.must(r.Tidy(time.Minute + 1))
	r.wantFiles("done.reply.json open.claimed.json open.reply.json")
	r.must(r.Tidy(time.Minute))
	r.wantFiles("open.claimed.json open.reply.json")
}

func TestBoxThatCannotBe(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink(dir, filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if _, err := mailbox.Open(filepath.Join(dir, "link"), mailbox.Options{Now: time.Now}); err == nil {
		t.Error("a symbolic link was opened")
	}
	r := newRig(t)
	r.must(os.RemoveAll(r.dir))
	if _, err := r.Scan(); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("scan of a folder that is gone: %v", err)
	}
}
