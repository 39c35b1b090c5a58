package mailbox

import (
	"os"
	"testing"
	"time"
)

// A good request replaces a bad one between the ruling on that and its removal.
func TestTurnAwayOfWhatWasReplaced(t *testing.T) {
	b, err := Open(t.TempDir(), Options{Now: func() time.Time { return noon }, Kinds: SessionKinds})
	if err != nil {
		t.Fatal(err)
	}
	path := b.path("a", requestSuffix)
	put := func(content string) {
		t.Helper()
		if err := os.WriteFile(path+".t", []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".t", path); err != nil {
			t.Fatal(err)
		}
	}
	put("garbage")
	r := b.rule("a", noon)
	if r.act != answer {
		t.Fatalf("ruling %+v", r)
	}
	put(`{"text":"good"}`)
	if b.turnAway("a", r, noon) {
		t.Error("it was answered")
	}
	ready, err := b.Scan()
	if err != nil || len(ready) != 1 || ready[0].Text != "good" {
		t.Errorf("then %+v, %v", ready, err)
	}
}
