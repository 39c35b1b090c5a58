package openhands

import (
	"testing"

	"github.com/tidwall/gjson"
)

func heldFrame(kind frameKind, id string) frame {
	return frame{kind: kind, event: gjson.Parse(`{"id":"` + id + `"}`)}
}

// What a socket brought while REST fetched the same events is not told twice, also where
// there are more of them than ids are remembered.
func TestReleaseLeavesOutWhatWasFetched(t *testing.T) {
	frames := []frame{heldFrame(frameEvent, "a"), heldFrame(frameState, "s"), heldFrame(frameEvent, "b"), heldFrame(frameEvent, "c")}
	for _, tt := range []struct{ last, want string }{
		{"b", "sc"}, {"c", "s"}, {"a", "sbc"}, {"earlier", "asbc"}, {"", "asbc"},
	} {
		j := journal{last: tt.last, held: append([]frame(nil), frames...)}
		got := ""
		for _, f := range j.release() {
			got += f.event.Get("id").Str
		}
		if got != tt.want || j.held != nil {
			t.Errorf("behind %q come %q, want %q; %d are still held", tt.last, got, tt.want, len(j.held))
		}
	}
}
