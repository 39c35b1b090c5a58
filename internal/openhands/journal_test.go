package openhands

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"ostoolkit/internal/session"
	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
)

// said is an event in which the agent says its own id.
func said(id string) gjson.Result {
	return gjson.Parse(fmt.Sprintf(`{"id":%q,"kind":"MessageEvent","source":"agent","llm_message":{"content":%[1]q}}`, id))
}

// What a socket brought while REST fetched the same events is not told twice, and what is
// newer keeps its order.
func TestHeldEventsAreToldOnce(t *testing.T) {
	for fetched, want := range map[string]string{"": "a b c", "a": "a b c", "a b": "a b c", "a b c": "a b c", "x a": "x a b c"} {
		dir := state.Dir(t.TempDir())
		place := session.Place{Workspace: &wire.Workspace{Key: "k", Path: t.TempDir()}, RunID: "r1", Run: dir.Run("r1"), State: dir}
		var out bytes.Buffer
		em, err := session.NewEmitter(place, session.Output{Stdout: &out, Now: time.Now, Warn: t.Logf})
		if err != nil {
			t.Fatal(err)
		}
		d := newDriver(t.Context(), Config{Config: session.Config{Place: place, Emitter: em, Now: time.Now}})
		t.Cleanup(d.release)
		d.log.filling = true
		for _, id := range []string{"a", "b", "c"} {
			d.heard(frame{kind: frameEvent, event: said(id)}, true)
		}
		for _, id := range strings.Fields(fetched) {
			d.take(said(id))
		}
		d.filled(nil)
		var told []string
		for line := range strings.Lines(out.String()) {
			told = append(told, gjson.Get(line, "text").Str)
		}
		if got := strings.Join(told, " "); got != want {
			t.Errorf("with %q fetched, %q is told, want %q", fetched, got, want)
		}
	}
}
