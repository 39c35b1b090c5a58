package folder

import (
	"slices"
	"testing"

	"ostoolkit/internal/tracker"
)

func TestComments(t *testing.T) {
	b := newBoard(t, map[string]string{"A-1.md": "---\nid: one\n---\n# T\n\n## Notes\n\n## Codex Workpad\nnot a comment\n\n" +
		"## Comment 2026-01-02T00:00:00Z\n\n## Codex Workpad\n\nolder\n\n```\n## Comment 2026-01-09T00:00:00Z\n```\n\n" +
		"## Comment 2026-01-03T00:00:00Z\n\nhello\n\n## Comment 2026-01-04T00:00:00Z\n\n  ## Codex Workpad\nnewer\n\n## Comment soon\n"})
	markers := []string{"## Codex Workpad"}
	for _, name := range []string{"a-1", "one"} {
		all, found, err := b.Comments(t.Context(), name, markers)
		if err != nil || !found || len(all) != 2 {
			t.Fatalf("%s: %d comments, %t, %v", name, len(all), found, err)
		}
		var ids []string
		for _, c := range all {
			ids = append(ids, c.ID)
		}
		if !slices.Equal(ids, []string{"one#1", "one#3"}) {
			t.Errorf("ids %q", ids)
		}
		latest := tracker.LatestMarked(all, markers)
		if want := "  ## Codex Workpad\nnewer\n\n## Comment soon"; latest == nil || latest.Body != want {
			t.Errorf("latest %+v, want %q", latest, want)
		}
	}
	if _, found, err := b.Comments(t.Context(), "A-9", markers); found || err != nil {
		t.Errorf("no such card: %t, %v", found, err)
	}
	put(t, b, "B-1.md", "no front matter")
	if _, found, err := b.Comments(t.Context(), "A-9", markers); found || err == nil {
		t.Errorf("a card that cannot be read: %t, %v", found, err)
	}
}
