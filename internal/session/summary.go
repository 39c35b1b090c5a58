package session

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"ostoolkit/internal/wire"
)

// minSecret is the shortest configured value that is taken out of summaries; a
// shorter one would blacken ordinary words.
const minSecret = 6

var (
	assignment = regexp.MustCompile(`(?i)\b([a-z0-9_.-]*(?:token|secret|passw(?:or)?d|api[_-]?key)[a-z0-9_]*)(["']?\s*=\s*)("[^"]*"|'[^']*'|[^\s&;,]+)`)
	authHeader = regexp.MustCompile(`(?i)\b(authorization\s*:\s*)((?:basic|bearer|token|digest)\s+)?[^\s"']+`)
)

// Summarize makes one line for people of text: without control characters and
// secrets, at most wire.MaxSummary characters.
func Summarize(text string, secrets []string) string {
	// A frame may carry megabytes; what lies behind a generous head cannot show.
	const head = 64 * wire.MaxSummary
	if len(text) > head {
		text = strings.ToValidUTF8(text[:head], "")
	}
	text = Redact(text, secrets)
	if suspicious(text) {
		text = assignment.ReplaceAllString(text, "$1$2[redacted]")
		text = authHeader.ReplaceAllString(text, "$1[redacted]")
	}
	return cut(oneLine(text), wire.MaxSummary)
}

// Redact takes the secrets out of text. What merely looks like one stays.
func Redact(text string, secrets []string) string {
	for _, s := range secrets {
		if len(s) >= minSecret {
			text = strings.ReplaceAll(text, s, "[redacted]")
		}
	}
	return text
}

// suspicious reports whether the expressions, which are slow for a flood of deltas,
// can find anything in text: a secret stands behind one of two signs.
func suspicious(text string) bool { return strings.ContainsAny(text, "=:") }

// oneLine drops terminal escapes and turns runs of blanks and control characters
// into single spaces.
func oneLine(text string) string {
	if text = strings.TrimSpace(text); plain(text) {
		return text
	}
	var b strings.Builder
	gap := false
	for _, r := range stripEscapes(text) {
		if unicode.IsSpace(r) || !unicode.IsPrint(r) {
			gap = b.Len() > 0
			continue
		}
		if gap {
			b.WriteByte(' ')
			gap = false
		}
		b.WriteRune(r)
	}
	return b.String()
}

// plain reports whether text is one line of ASCII already, its words one blank apart.
func plain(text string) bool {
	for i := 0; i < len(text); i++ {
		if c := text[i]; c < ' ' || c > '~' || c == ' ' && text[i-1] == ' ' {
			return false
		}
	}
	return true
}

var escapes = regexp.MustCompile("\x1b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?|[@-Z\\\\^_])")

func stripEscapes(text string) string {
	if !strings.Contains(text, "\x1b") {
		return text
	}
	return escapes.ReplaceAllString(text, "")
}

// cut returns at most n characters of text, the last one an ellipsis where
// something is missing.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	runes := []rune(text)
	if len(runes) <= n {
		return text
	}
	return string(runes[:n-1]) + "…"
}

// describe returns what the members of an event say in words.
func describe(name string, members any) string {
	switch m := members.(type) {
	case *wire.Session:
		return describeSession(m)
	case *wire.Turn:
		return strings.TrimSpace(fmt.Sprintf("turn %d %s", m.Number, m.Status))
	case *wire.Item:
		return m.Text
	case *wire.Command:
		return describeCommand(m)
	case *wire.FileChange:
		return strings.Join(m.Paths, ", ")
	case *wire.Tool:
		return describeTool(m)
	case *wire.Tokens:
		return describeTokens(m)
	case *wire.Limits:
		return "rate limits"
	case *wire.ApprovalChange:
		return m.Approval.Status + ": " + m.Approval.Title
	case *wire.InputChange:
		return "the agent asks: " + string(m.Request.Questions)
	case *wire.Steer:
		return strings.TrimSuffix(fmt.Sprintf("%s %s: %s", m.Kind, m.Request, m.Reason), ": ")
	case *wire.Notice:
		return m.Message
	case *wire.PeerNotice:
		return m.Method
	}
	return name
}

func describeSession(m *wire.Session) string {
	parts := []string{string(m.Model), string(m.Sandbox), string(m.Reason)}
	said := parts[:0]
	for _, p := range parts {
		if p != "" {
			said = append(said, p)
		}
	}
	return strings.Join(said, ", ")
}

func describeCommand(m *wire.Command) string {
	if m.Output != "" && m.Command == "" {
		return string(m.Output)
	}
	if m.ExitCode != nil {
		return fmt.Sprintf("exit %d: %s", *m.ExitCode, m.Command)
	}
	return string(m.Command)
}

func describeTool(m *wire.Tool) string {
	switch {
	case m.Success == nil:
		return m.Tool
	case *m.Success:
		return m.Tool + " succeeded"
	}
	return m.Tool + " failed"
}

func describeTokens(m *wire.Tokens) string {
	if m.Usage == nil || m.Usage.TotalTokens == nil {
		return "tokens unknown"
	}
	return fmt.Sprintf("%d tokens in this run", *m.Usage.TotalTokens)
}
