package mailbox_test

import (
	"os"
	"slices"
	"testing"
	"time"

	"ostoolkit/internal/mailbox"
)

// Case C32: what was taken and not settled is there for the next owner, and says
// which run took it and how far it came.
func TestClaimsOutliveTheirOwner(t *testing.T) {
	r := newRig(t)
	states := map[string]mailbox.State{
		"b": mailbox.Claimed, "a": mailbox.Accepted, "a-1": mailbox.Unconfirmed, "q": mailbox.Accepted, "done": mailbox.Consumed,
	}
	for id, state := range states {
		kind := "steer"
		if id == "q" {
			kind = "queue"
		}
		r.request(id, `{"kind":"`+kind+`","text":"`+id+`"}`)
		r.take()
		if state != mailbox.Claimed {
			r.reply(id, state)
		}
	}
	for _, owner := range []string{"run-2", "run-3"} {
		r.open(owner)
		var got []string
		for _, c := range r.Claims() {
			got = append(got, c.Request.ID)
			if c.RunID != "run-1" || c.State != states[c.Request.ID] || c.Request.Text != c.Request.ID {
				t.Errorf("%s: %+v", owner, c)
			}
		}
		if want := []string{"a-1", "a", "b", "q"}; !slices.Equal(got, want) {
			t.Errorf("%s: claims %q, want %q", owner, got, want)
		}
		if got := r.ids(); got != nil {
			t.Errorf("%s: delivered again: %q", owner, got)
		}
	}
	r.reply("a", mailbox.Consumed)
	r.reply("b", mailbox.Undelivered)
	r.wantReply("a", mailbox.Consumed)
	r.wantFiles("a-1.claimed.json a-1.reply.json a.reply.json b.reply.json done.reply.json q.claimed.json q.reply.json")
}

func TestExpireOpenControls(t *testing.T) {
	r := newRig(t)
	controls := map[string]string{
		"1": `{"kind":"approve","request":"x"}`, "2": `{"kind":"decline","request":"x"}`, "3": `{"kind":"cancel","request":"x"}`,
		"4": `{"kind":"answer","request":"x","answers":{}}`, "5": `{"kind":"interrupt"}`, "6": `{"kind":"stop"}`,
	}
	for id, content := range controls {
		r.request(id, content)
		r.take()
	}
	r.reply("6", mailbox.Unconfirmed)
	r.request("text", `{"text":"x"}`)
	r.take()
	r.open("run-2")
	r.must(r.ExpireOpenControls())
	for id := range controls {
		r.wantReply(id, mailbox.Expired)
	}
	if claims := r.Claims(); len(claims) != 1 || claims[0].Request.ID != "text" {
		t.Errorf("claims: %+v", claims)
	}
}

// Each of these is what the files look like after a death between two steps.
func TestDeathBetweenSteps(t *testing.T) {
	tests := []struct {
		name  string
		files map[string]string
		ready []string
		open  []string // claims
		left  string   // files after a scan
	}{
		{"a claim was settled and not removed", map[string]string{
			"a.claimed.json": `{"text":"x"}`, "a.reply.json": `{"id":"a","state":"consumed"}`,
		}, nil, nil, "a.reply.json"},
		{"a control was accepted and not removed", map[string]string{
			"a.claimed.json": `{"kind":"stop"}`, "a.reply.json": `{"id":"a","state":"accepted"}`,
		}, nil, nil, "a.reply.json"},
		{"a text was accepted", map[string]string{
			"a.claimed.json": `{"text":"x"}`, "a.reply.json": `{"id":"a","state":"accepted"}`,
		}, nil, []string{"a"}, "a.claimed.json a.reply.json"},
		{"a reply was being written", map[string]string{
			"a.claimed.json": `{"text":"x"}`, ".tmp-12": `{"id":"a"`,
		}, nil, []string{"a"}, "a.claimed.json"},
		{"who took the claim is not known", map[string]string{
			"a.claimed.json": `{"text":"x"}`, ".owner.json": `{`,
		}, nil, []string{"a"}, "a.claimed.json"},
		{"a claim was emptied by a power cut", map[string]string{
			"a.claimed.json": ``,
		}, nil, nil, "a.reply.json"},
		{"a request was taken and not answered", map[string]string{
			".taken-a": `{"text":"x"}`,
		}, []string{"a"}, nil, "a.request.json"},
		{"the same, answered", map[string]string{
			".taken-a": `garbage`, "a.reply.json": `{"id":"a","state":"invalid"}`,
		}, nil, nil, "a.reply.json"},
		{"the same, and replaced since", map[string]string{
			".taken-a": `garbage`, "a.request.json": `{"text":"x"}`,
		}, []string{"a"}, nil, "a.request.json"},
		{"a sender died", map[string]string{
			".send-old": `{"text`, ".send-new": `{"text`,
		}, nil, nil, ".send-new"},
		{"a person's own temp file", map[string]string{
			".t": `{"text`,
		}, nil, nil, ".t"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			for name, content := range tt.files {
				r.must(os.WriteFile(r.path(name), []byte(content), 0o600))
				r.must(os.Chtimes(r.path(name), r.now, r.now))
			}
			if _, ok := tt.files[".send-old"]; ok {
				r.must(os.Chtimes(r.path(".send-old"), r.now, r.now.Add(-time.Minute)))
			}
			r.open("run-1")
			if got := r.ids(); !slices.Equal(got, tt.ready) {
				t.Errorf("ready: %q, want %q", got, tt.ready)
			}
			var open []string
			for _, c := range r.Claims() {
				open = append(open, c.Request.ID)
				if c.RunID == "" {
					t.Errorf("claim %q bears no run", c.Request.ID)
				}
			}
			if !slices.Equal(open, tt.open) {
				t.Errorf("claims: %q, want %q", open, tt.open)
			}
			r.wantFiles(tt.left)
			if len(r.warnings) > 0 != (tt.files[".owner.json"] != "") {
				t.Errorf("warnings: %q", r.warnings)
			}
		})
	}
}
