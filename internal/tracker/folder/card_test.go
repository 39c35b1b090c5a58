package folder

import (
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"ostoolkit/internal/tracker"
	"ostoolkit/internal/wire"
	"ostoolkit/internal/workflow"
)

var now = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func defaultRules() tracker.Rules {
	return tracker.Rules{Active: workflow.DefaultActive(), Terminal: workflow.DefaultTerminal()}
}

func TestParse(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       card // body, bodyLine, lines and file facts are not compared
	}{
		{"empty", "---\n---\n", card{}},
		{"comment only", "---\n# nothing yet\n---\n", card{}},
		{"no text and no last line end", "---\nstate: Done\n---", card{state: "Done"}},
		{"byte order mark and CRLF", "\ufeff---\r\nstate: In Progress\r\n---\r\nx\r\n", card{state: "In Progress"}},
		{"numbers stay as they are written", "---\nid: 007\ntitle: 1.50\nauthor: true\n---\n", card{id: "007", title: "1.50", author: "true"}},
		{"null is nothing", "---\ntitle: null\nlabels: ~\npriority:\n---\n", card{}},
		{"lists", "---\nlabels: [Bug, \"a, b\"]\nblocked_by:\n- A-1\n-\n- 2\n---\n", card{labels: []string{"Bug", "a, b"}, blockedBy: []string{"A-1", "2"}}},
		{"list as one text", "---\nblocked_by: A-1, A-2,\n---\n", card{blockedBy: []string{"A-1", "A-2"}}},
		{"the rest", "---\npriority: 2\nparent: P\nassignee: me\nbranch_name: b\nurl: u\npr_url: p\nmilestone: m\nproject: pr\narchived: true\ncreated_at: 2026-03-04T05:06:07Z\n---\n",
			card{priority: new(int64(2)), parent: "P", assignee: "me", branch: "b", url: "u", prURL: "p", milestone: "m", project: "pr", archived: true, createdAt: wire.At(now)}},
		{"foreign keys", "---\nmine: {a: [1]}\nstate: Todo\n---\n", card{state: "Todo"}},
		{"block text", "---\ntitle: >\n  two\n  lines\n---\n", card{title: "two lines"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := parse([]byte(c.text))
			if err != nil {
				t.Fatal(err)
			}
			got.body, got.bodyLine, got.lines = nil, 0, nil
			if !reflect.DeepEqual(*got, c.want) {
				t.Errorf("got  %+v\nwant %+v", *got, c.want)
			}
		})
	}
}

func TestParseFaults(t *testing.T) {
	for _, c := range []struct {
		name, text string
		line       int
		message    string
	}{
		{"nothing", "", 1, "no front matter"},
		{"text only", "# Title\n", 1, "no front matter"},
		{"fence not first", "\n---\n---\n", 1, "no front matter"},
		{"no end", "---\nstate: Todo\n", 1, "no end"},
		{"not YAML", "---\nstate: Todo\nlabels: [a\n---\n", 3, "not YAML"},
		{"key twice", "---\nstate: a\nstate: b\n---\n", 3, "already defined"},
		{"a list", "---\n- a\n---\n", 2, "key: value"},
		{"two documents", "---\na: 1\n--- # x\nb: 1\n---\n", 2, "more than one"},
		{"priority", "---\nstate: Todo\npriority: high\n---\n", 3, `priority: "high" is not a whole number`},
		{"date", "---\ncreated_at: soon\n---\n", 2, `created_at: "soon" is not a date`},
		{"flag", "---\narchived: maybe\n---\n", 2, "is not true or false"},
		{"map for a text", "---\n\ntitle: {a: 1}\n---\n", 3, "title: is not a single text"},
		{"map in a list", "---\nblocked_by: [{id: 1}]\n---\n", 2, "blocked_by: has an entry"},
		{"alias", "---\nx: &a 1\nid: *a\n---\n", 3, "id: is not a single text"},
		{"not UTF-8", "---\nstate: Todo\ntitle: \xff\n---\n", 3, "not valid UTF-8"},
		{"old line end", "---\r\na: 1\r\nb: 1\rc: 2\n---\n", 3, "carriage return"},
		{"long", "---\nx: " + strings.Repeat("y", maxFront) + "\n---\n", 2, "front matter is over"},
		{"deep", "---\nx: " + strings.Repeat("[", maxNesting+1) + "\n---\n", 2, "brackets"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parse([]byte(c.text))
			var at *lineError
			if !errors.As(err, &at) {
				t.Fatalf("error %v has no line", err)
			}
			if at.line != c.line || !strings.Contains(at.message, c.message) {
				t.Errorf("line %d: %s; want line %d: … %s …", at.line, at.message, c.line, c.message)
			}
		})
	}
}

func TestHeading(t *testing.T) {
	for body, want := range map[string]string{
		"":                                   "",
		"text\n## Second #\n# First\n":       "Second",
		"```\n# no\n```\n# yes\n":            "yes",
		"#hashtag\n# real":                   "real",
		"#\n# x":                             "x",
		"####### seven\n":                    "",
		"text\n\n## Comment 2026\n\n# not\n": "",
		"# CRLF\r\n":                         "CRLF",
	} {
		if got := heading([]byte(body)); got != want {
			t.Errorf("heading(%q) = %q, want %q", body, got, want)
		}
	}
}

// FuzzCard holds the parser and the editor to their promises: no panic, and an edit
// that is not refused changes what was asked and nothing else.
func FuzzCard(f *testing.F) {
	for _, seed := range []string{
		"---\nstate: Todo # now\nlabels:\n  - a\n  # b\n  - c\n---\n# T\n",
		"---\r\nlabels: [a, 'b''c', \"d\\\"\"] # x\r\n---\r\n",
		"---\n  state:\n  id: 1\n---\nx",
		"---\n{state: Todo}\n---\n",
		"---\n? state\n: Todo\n---\n",
		"---\nstate: |\n  Todo\nupdated_at: 2026-01-01\n---",
	} {
		f.Add([]byte(seed), "Human Review", "new: label")
	}
	f.Fuzz(func(t *testing.T, data []byte, state, label string) {
		before, err := parse(data)
		if err != nil {
			return
		}
		ch := change{state: strings.TrimSpace(state), labels: tracker.Labels([]string{label, "a"}), relabel: true, comment: "c", now: "2026-03-04T05:06:07Z"}
		out, err := ch.apply(data)
		if err != nil {
			return
		}
		after, err := parse(out)
		if err != nil {
			t.Fatalf("edit made %q of %q: %v", out, data, err)
		}
		if ch.state != "" && after.state != ch.state {
			t.Errorf("state %q, want %q in %q", after.state, ch.state, out)
		}
		if got := tracker.Labels(after.labels); !reflect.DeepEqual(got, ch.labels) && len(got)+len(ch.labels) > 0 {
			t.Errorf("labels %q, want %q in %q", got, ch.labels, out)
		}
		if !strings.HasPrefix(string(after.body), string(before.body)) || before.id != after.id || before.title != after.title {
			t.Errorf("edit made %q of %q", out, data)
		}
	})
}
