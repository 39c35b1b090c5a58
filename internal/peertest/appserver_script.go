package peertest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"ostoolkit/internal/cli"
)

// step is one operation of a transcript, checked and ready to run.
type step func(ctx context.Context, p *player) error

func readTranscript(path string) ([]step, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, cli.Errorf(cli.StatusNoInput, "read the transcript: %w", err)
	}
	return parseTranscript(text)
}

func parseTranscript(text []byte) ([]step, error) {
	var script []step
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 16<<20)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#") {
			continue
		}
		run, err := parseOperation(n, line)
		if err != nil {
			return nil, cli.Usagef("line %d: %v", n, err)
		}
		script = append(script, run)
	}
	return script, lines.Err()
}

func parseOperation(n int, line string) (step, error) {
	word, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	switch word {
	case "<":
		return parseExpect(n, rest)
	case "<?":
		return parseAwait(n, rest)
	case ">":
		return parseSend(rest)
	case ">big":
		return counted(rest, (*player).sendBig)
	case ">many":
		return parseMany(rest)
	case "err":
		return counted(rest, (*player).writeNoise)
	}
	if strings.HasPrefix(line, ">") {
		return parseRaw(line[1:])
	}
	return parseControl(word, rest)
}

// parseControl parses the operations that send and expect nothing.
func parseControl(word, rest string) (step, error) {
	switch word {
	case "sleep":
		return parseSleep(rest)
	case "child":
		return func(_ context.Context, p *player) error { return p.child(rest) }, nil
	case "eof":
		return func(_ context.Context, p *player) error { return p.closeStdout() }, nil
	case "hang":
		return parseHang(rest)
	case "ready":
		return func(_ context.Context, p *player) error { return p.create(rest) }, nil
	case "wait":
		return func(ctx context.Context, p *player) error { return p.await(ctx, rest) }, nil
	case "exit":
		status, err := strconv.Atoi(rest)
		if err != nil {
			return nil, fmt.Errorf("exit needs a status, not %q", rest)
		}
		return func(context.Context, *player) error { return &cli.ExitError{Status: status} }, nil
	}
	return nil, fmt.Errorf("unknown operation %q", word)
}

func parseExpect(n int, frame string) (step, error) {
	var want any
	if err := json.Unmarshal([]byte(frame), &want); err != nil {
		return nil, fmt.Errorf("the frame is not JSON: %v", err)
	}
	return func(ctx context.Context, p *player) error {
		line, err := p.next(ctx)
		if errors.Is(err, errSignal) {
			return err
		}
		var got any
		if err != nil {
			return mismatch(n, err.Error(), frame)
		}
		if json.Unmarshal(line, &got) != nil || !matches(want, got) {
			return mismatch(n, strings.TrimSpace(string(line)), frame)
		}
		return nil
	}, nil
}

func parseAwait(n int, method string) (step, error) {
	if method == "" {
		return nil, errors.New("<? needs a method")
	}
	return func(ctx context.Context, p *player) error {
		for {
			line, err := p.next(ctx)
			if errors.Is(err, errSignal) {
				return err
			}
			if err != nil {
				return mismatch(n, err.Error(), method)
			}
			var head struct {
				Method string `json:"method"`
			}
			if json.Unmarshal(line, &head) == nil && head.Method == method {
				return nil
			}
		}
	}, nil
}

func mismatch(line int, got, want string) error {
	return cli.Errorf(statusMismatch, "line %d: got %s, want %s", line, got, want)
}

// matches reports whether got has all that want asks for. Lists must have the same
// length; objects may have members that want does not name.
func matches(want, got any) bool {
	switch w := want.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return false
		}
		for name, value := range w {
			if have, ok := g[name]; !ok || !matches(value, have) {
				return false
			}
		}
		return true
	case []any:
		g, ok := got.([]any)
		if !ok || len(g) != len(w) {
			return false
		}
		for i := range w {
			if !matches(w[i], g[i]) {
				return false
			}
		}
		return true
	default:
		return want == "…" || want == "*" || want == got
	}
}

func parseSend(frame string) (step, error) {
	if frame == "" {
		return nil, errors.New("> needs a frame")
	}
	return func(_ context.Context, p *player) error {
		frame := strings.ReplaceAll(frame, "$ID", orNull(p.lastID))
		return p.write([]byte(strings.ReplaceAll(frame, "$CLIENT", orNull(p.lastClient)) + "\n"))
	}, nil
}

func orNull(value json.RawMessage) string {
	if value == nil {
		return "null"
	}
	return string(value)
}

func parseRaw(text string) (step, error) {
	var out []byte
	for text != "" {
		// The quote 0 lets both kinds of quotes stand for themselves.
		char, multibyte, rest, err := strconv.UnquoteChar(text, 0)
		if err != nil {
			return nil, fmt.Errorf("bad escape at %q", text)
		}
		if multibyte {
			out = utf8.AppendRune(out, char)
		} else {
			out = append(out, byte(char))
		}
		text = rest
	}
	return func(_ context.Context, p *player) error { return p.write(out) }, nil
}

func parseMany(rest string) (step, error) {
	count, frame, _ := strings.Cut(rest, " ")
	if frame == "" {
		frame = `{"method":"item/agentMessage/delta","params":{"threadId":"T1","turnId":"U1","itemId":"I1","delta":"$N "}}`
	}
	return counted(count, func(p *player, n int) error {
		before, after, numbered := strings.Cut(frame, "$N")
		var b []byte
		for i := range n {
			b = append(b[:0], before...)
			if numbered {
				b = append(strconv.AppendInt(b, int64(i), 10), after...)
			}
			if err := p.write(append(b, '\n')); err != nil {
				return err
			}
		}
		return nil
	})
}

func parseSleep(rest string) (step, error) {
	d, err := time.ParseDuration(rest)
	if err != nil {
		return nil, fmt.Errorf("sleep needs a duration, not %q", rest)
	}
	return func(ctx context.Context, _ *player) error {
		select {
		case <-ctx.Done():
			return errSignal
		case <-time.After(d):
			return nil
		}
	}, nil
}

func parseHang(rest string) (step, error) {
	if rest != "" && rest != "hard" {
		return nil, fmt.Errorf("hang what: %q", rest)
	}
	return func(ctx context.Context, _ *player) error {
		if rest == "hard" {
			select {}
		}
		<-ctx.Done()
		return errSignal
	}, nil
}

// counted parses an operation whose operand is a number of bytes or frames.
func counted(operand string, do func(p *player, n int) error) (step, error) {
	n, err := strconv.Atoi(operand)
	if err != nil || n < 0 {
		return nil, fmt.Errorf("needs a number, not %q", operand)
	}
	return func(_ context.Context, p *player) error { return do(p, n) }, nil
}
