package folder

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"ostoolkit/internal/tracker"
	"ostoolkit/internal/tracker/trackertest"
)

func TestConformance(t *testing.T) {
	trackertest.Run(t, trackertest.Harness{
		Kind: "folder", Active: "Todo", Terminal: "Done",
		Troubles: map[trackertest.Trouble]tracker.Category{
			trackertest.NoScope:     tracker.InvalidConfig,
			trackertest.Unreachable: tracker.InvalidConfig, // a file where the board should be
		},
		Open: openConformance,
	})
}

func openConformance(t *testing.T, w trackertest.Board, rules tracker.Rules) trackertest.Subject {
	b, err := Open(tracker.Config{Dir: t.TempDir(), Rules: rules, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	switch w.Trouble {
	case trackertest.NoScope:
	case trackertest.Unreachable:
		if err := os.WriteFile(b.Dir(), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		if err := os.Mkdir(b.Dir(), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, i := range w.Issues {
			put(t, b, identifierOf(i.N)+".md", cardText(i))
		}
	}
	return trackertest.Subject{Tracker: b, ID: identifierOf, Identifier: identifierOf, Unknown: "A-999"}
}

func identifierOf(n int) string { return fmt.Sprintf("A-%d", n) }

func cardText(i trackertest.Issue) string {
	if i.Malformed {
		return "---\npriority: [\n---\n"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "---\nstate: %s\nlabels: [%s]\n", i.State, strings.Join(i.Labels, ", "))
	if len(i.BlockedBy) > 0 {
		var names []string
		for _, n := range i.BlockedBy {
			names = append(names, identifierOf(n))
		}
		fmt.Fprintf(&b, "blocked_by: [%s]\n", strings.Join(names, ", "))
	}
	if i.Parent > 0 {
		fmt.Fprintf(&b, "parent: %s\n", identifierOf(i.Parent))
	}
	return b.String() + "---\n# " + i.Title + "\n"
}
