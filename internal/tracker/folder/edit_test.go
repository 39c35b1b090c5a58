package folder

import (
	"strings"
	"testing"
)

func TestApply(t *testing.T) {
	const stamp = "2026-03-04T05:06:07Z"
	for _, c := range []struct {
		name         string
		change       change
		before, want string
	}{
		{"state keeps its comment and blanks", change{state: "Done"},
			"---\nid:  7   # seven\nstate:   Todo   # now\nmine: [ 1,2 ]\n---\nx\n",
			"---\nid:  7   # seven\nstate:   Done   # now\nmine: [ 1,2 ]\n---\nx\n"},
		{"quoted state", change{state: "In Progress"},
			"---\n\"state\": \"To # do\" # c\n---\n", "---\n\"state\": In Progress # c\n---\n"},
		{"state without a value", change{state: "Done"},
			"---\nstate:\ntitle: x\n---\n", "---\nstate: Done\ntitle: x\n---\n"},
		{"state without a value, with a comment", change{state: "Done"},
			"---\nstate: # none\n---\n", "---\nstate: Done # none\n---\n"},
		{"state over several lines", change{state: "Done"},
			"---\nstate: >\n  In\n  Progress\n\n# next\ntitle: x\n---\n", "---\nstate: Done\n\n# next\ntitle: x\n---\n"},
		{"new key goes last", change{state: "Done"}, "---\ntitle: x\n# end\n---\nb", "---\ntitle: x\n# end\nstate: Done\n---\nb"},
		{"indented front matter", change{state: "Done"}, "---\n  title: x\n---\n", "---\n  title: x\n  state: Done\n---\n"},
		{"empty front matter", change{state: "Done"}, "---\n---\n", "---\nstate: Done\n---\n"},
		{"CRLF stays CRLF", change{state: "Done", comment: "a\nb"},
			"\ufeff---\r\nstate: Todo\r\n---\r\nx", "\ufeff---\r\nstate: Done\r\n---\r\nx\r\n\r\n## Comment " + stamp + "\r\n\r\na\r\nb\r\n"},
		{"odd state is quoted", change{state: "yes"}, "---\nstate: Todo\n---\n", "---\nstate: \"yes\"\n---\n"},
		{"text that looks like YAML", change{state: "a: b # c"}, "---\nstate: Todo\n---\n", "---\nstate: \"a: b # c\"\n---\n"},
		{"block list loses and gains lines", change{labels: []string{"bug", "new one"}, relabel: true},
			"---\nlabels: # all\n    - Bug   # keep\n    # inner\n    - old\n    - older\n\nstate: Todo\n---\n",
			"---\nlabels: # all\n    - Bug   # keep\n    # inner\n    - new one\n\nstate: Todo\n---\n"},
		{"block list at the margin", change{labels: []string{"a", "b"}, relabel: true},
			"---\nlabels:\n- a\nstate: Todo\n---\n", "---\nlabels:\n- a\n- b\nstate: Todo\n---\n"},
		{"block list loses all", change{relabel: true},
			"---\nlabels:\n- a\n- b\nstate: Todo\n---\n", "---\nlabels: []\nstate: Todo\n---\n"},
		{"list in brackets", change{labels: []string{"a", "b, c"}, relabel: true},
			"---\nlabels: [a, \"x]\", 'y'] # c\n---\n", "---\nlabels: [a, \"b, c\"] # c\n---\n"},
		{"no list yet", change{labels: []string{"a"}, relabel: true}, "---\nstate: Todo\n---\n", "---\nstate: Todo\nlabels: [a]\n---\n"},
		{"nothing to do", change{state: "Todo", labels: []string{"a"}, relabel: true},
			"---\nstate: Todo\nlabels: [A, a]\nupdated_at: 2026-01-01\n---\n", "---\nstate: Todo\nlabels: [A, a]\nupdated_at: 2026-01-01\n---\n"},
		{"time of change, where there is one", change{comment: "hi"},
			"---\nupdated_at: 2026-01-01 # last\n---\n# T\n", "---\nupdated_at: " + stamp + " # last\n---\n# T\n\n## Comment " + stamp + "\n\nhi\n"},
		{"comment below a text without a line end", change{comment: " hi \n"},
			"---\n---", "---\n---\n\n## Comment " + stamp + "\n\nhi\n"},
		{"bad bytes in the text stay", change{state: "Done"}, "---\nstate: Todo\n---\n\xff\x00", "---\nstate: Done\n---\n\xff\x00"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.change.now = stamp
			got, err := c.change.apply([]byte(c.before))
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != c.want {
				t.Errorf("got\n%q\nwant\n%q", got, c.want)
			}
		})
	}
}

func TestApplyRefuses(t *testing.T) {
	for name, before := range map[string]string{
		"braces":       "---\n{state: Todo}\n---\n",
		"explicit key": "---\n? state\n: Todo\n---\n",
		"anchor":       "---\nx: &s Todo\nstate: *s\n---\n",
		"too big":      "---\nstate: Todo\n---\n" + strings.Repeat("x", maxCard-20),
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := (change{state: "In Progress"}).apply([]byte(before)); err == nil {
				t.Errorf("edited to %q", got)
			}
		})
	}
}
