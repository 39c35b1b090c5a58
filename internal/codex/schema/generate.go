package schema

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"ostoolkit/internal/proc"
	"ostoolkit/internal/state"
)

const (
	generateLimit = 30 * time.Second
	killWait      = 500 * time.Millisecond
	maxPreview    = 400 // bytes
	workPrefix    = ".work-"
)

// schemaFile is the file, of all that are written, that describes the requests of a
// client and everything in them.
const schemaFile = "ClientRequest.json"

// generate has the program write its schema and returns it. Builds that do not know
// --experimental leave nothing out without it.
func generate(ctx context.Context, o Options) (text []byte, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, generateLimit, fmt.Errorf("the schema was not written in %s", generateLimit))
	defer cancel()
	tidy(o.Cache, o.Now())
	dir, err := os.MkdirTemp(o.Cache, workPrefix+"*")
	if err != nil {
		return nil, fmt.Errorf("make room for the schema: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	for _, flag := range []string{"--experimental", ""} {
		argv := append([]string{}, o.Argv...)
		if flag != "" {
			argv = append(argv, flag)
		}
		out := filepath.Join(dir, "out"+flag)
		if err = run(ctx, o.Env, append(argv, "--out", out), dir); err == nil {
			text, err := state.ReadFile(filepath.Join(out, schemaFile))
			if err != nil {
				return nil, fmt.Errorf("read the schema: %w", err)
			}
			return text, nil
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, err
}

// run runs one program in dir to its end, which comes at the latest with ctx.
func run(ctx context.Context, env, argv []string, dir string) error {
	stderr, err := os.OpenFile(filepath.Join(dir, "stderr"), os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o600)
	if err != nil {
		return fmt.Errorf("write the schema: %w", err)
	}
	defer func() { _ = stderr.Close() }() // a temporary file
	child, err := proc.Start(proc.Spec{Argv: argv, Dir: dir, Env: env, Stderr: stderr, Session: true})
	if err != nil {
		return fmt.Errorf("write the schema: %w", err)
	}
	select {
	case <-child.Done():
	case <-ctx.Done():
		child.Stop(nil, child.Send(syscall.SIGKILL, killWait))
		return fmt.Errorf("write the schema: %w", context.Cause(ctx))
	}
	if child.Exit().Success() {
		return nil
	}
	head := make([]byte, 4*maxPreview)
	n, _ := stderr.ReadAt(head, 0) // what cannot be read is not shown
	if said := Preview(head[:n]); said != "" {
		return fmt.Errorf("write the schema: %s: %s", child.Exit(), said)
	}
	return fmt.Errorf("write the schema: %s", child.Exit())
}

// tidy removes what checks left that were killed.
func tidy(cache string, now time.Time) {
	left, err := filepath.Glob(filepath.Join(cache, workPrefix+"*"))
	if err != nil {
		return // the folder's name is a bad pattern; little is lost
	}
	for _, dir := range left {
		if fi, err := os.Lstat(dir); err == nil && now.Sub(fi.ModTime()) > 2*generateLimit {
			_ = os.RemoveAll(dir) // or the next check does
		}
	}
}

// Preview is the beginning of what a program has printed, in one line: at most 400 bytes
// and "..." where it was cut, without escape sequences and control characters.
func Preview(printed []byte) string {
	text := strings.ToValidUTF8(string(printed), "\uFFFD")
	var b strings.Builder
	escape := false
	for _, r := range text {
		switch {
		case r == '\x1b':
			escape = true
			continue
		case escape:
			// A sequence ends with its first letter.
			escape = !unicode.IsLetter(r)
			continue
		case unicode.IsControl(r) || unicode.IsSpace(r):
			r = ' '
		}
		if b.Len()+utf8.RuneLen(r) > maxPreview {
			return strings.Join(strings.Fields(b.String()), " ") + "..."
		}
		b.WriteRune(r)
	}
	return strings.Join(strings.Fields(b.String()), " ")
}
