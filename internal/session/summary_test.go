package session

import (
	"strings"
	"testing"
	"unicode/utf8"

	"ostoolkit/internal/wire"
)

func TestSummarize(t *testing.T) {
	long := strings.Repeat("ä", 500)
	tests := []struct{ name, text, want string }{
		{"lines", "one\n\ttwo\r\n\n three ", "one two three"},
		{"colours", "\x1b[31mred\x1b[0m and \x1b]0;title\x07plain\x00", "red and plain"},
		{"assignment", "curl -d token=abc123 x", "curl -d token=[redacted] x"},
		{"variable", `GITHUB_TOKEN="a b" make API_KEY='c'`, "GITHUB_TOKEN=[redacted] make API_KEY=[redacted]"},
		{"query", "https://x/?access_token=abc&n=1", "https://x/?access_token=[redacted]&n=1"},
		{"header", "curl -H 'Authorization: Bearer abc.def' x", "curl -H 'Authorization: [redacted]' x"},
		{"bare header", "authorization: abcdef", "authorization: [redacted]"},
		{"configured", "the key is hunter2hunter2!", "the key is [redacted]!"},
		{"harmless", "3 tokens in this run, no secret", "3 tokens in this run, no secret"},
		{"short value", "a short one stays", "a short one stays"},
	}
	for _, tt := range tests {
		if got := Summarize(tt.text, []string{"hunter2hunter2", "short"}); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	got := Summarize(long, nil)
	if n := utf8.RuneCountInString(got); n != wire.MaxSummary || !strings.HasSuffix(got, "…") {
		t.Errorf("a long text has %d characters, want %d and an ellipsis", n, wire.MaxSummary)
	}
}

// A megabyte of text must not be searched for the sake of 160 characters.
func TestSummarizeHuge(t *testing.T) {
	text := strings.Repeat("x", 9000) + strings.Repeat("ä", 1<<20)
	if got := Summarize(text, nil); !utf8.ValidString(got) || utf8.RuneCountInString(got) != wire.MaxSummary {
		t.Errorf("summary %q", got)
	}
}

func TestDescribe(t *testing.T) {
	yes := true
	tests := []struct {
		members any
		want    string
	}{
		{&wire.Command{Command: "make", ExitCode: wire.Count(2)}, "exit 2: make"},
		{&wire.Command{Command: "make"}, "make"},
		{&wire.Command{Output: "building"}, "building"},
		{&wire.Tool{Tool: "t"}, "t"},
		{&wire.Tool{Tool: "t", Success: &yes}, "t succeeded"},
		{&wire.Tokens{}, "tokens unknown"},
		{&wire.Tokens{Usage: &wire.Usage{TotalTokens: wire.Count(7)}}, "7 tokens in this run"},
		{&wire.Session{Model: "m", Reason: "gone"}, "m, gone"},
		{&wire.Turn{Number: 2, Status: "failed"}, "turn 2 failed"},
	}
	for _, tt := range tests {
		if got := describe("x", tt.members); got != tt.want {
			t.Errorf("%+v is %q, want %q", tt.members, got, tt.want)
		}
	}
}
