package linear

import (
	"testing"

	"ostoolkit/internal/tracker"
)

func auths(l *lab) []string {
	var out []string
	for _, r := range l.requests() {
		out = append(out, r.Operation+" "+r.Auth)
	}
	return out
}

func TestKeyIsSentAsItIs(t *testing.T) {
	l := newLab(t, board(`{"identifier": "ENG-1"}`))
	for key, want := range map[string]string{testKey: "key", "Bearer " + testKey: "bearer"} {
		list(t, l.open(map[string]any{"api_key": key}), "Todo")
		all := l.requests()
		if got := all[len(all)-1].Auth; got != want {
			t.Errorf("came in as %q, want %q", got, want)
		}
	}
	_, err := tracker.Collect(t.Context(), l.open(map[string]any{"api_key": "lin_api_wrong"}), tracker.Query{All: true})
	wantCategory(t, err, tracker.Denied)
}

func TestApplicationMintsItsTokens(t *testing.T) {
	// A token that is about to end is not used any more: the second request mints again.
	for life, want := range map[string]int{"3600": 1, "1": 2} {
		l := newLab(t, `{"token_life": `+life+`, "projects": [{"slug": "0c79b11b75ea"}], "issues": [{"identifier": "ENG-1"}]}`)
		p := l.open(map[string]any{"api_key": nil, "client_id": "app", "client_secret": testSecret})
		list(t, p, "Todo")
		list(t, p, "Todo")
		if l.count("token") != want || l.count("OsIssues") != 2 {
			t.Errorf("life %s: %q; want %d tokens", life, auths(l), want)
		}
	}
	l := newLab(t, board(""))
	_, err := tracker.Collect(t.Context(), l.open(map[string]any{"api_key": nil, "client_id": "app", "client_secret": "wrong-secret"}), tracker.Query{All: true})
	wantCategory(t, err, tracker.Denied, "401", "invalid_client")
}
