// Package schema finds out whether a Codex app-server would understand what we send: it
// has the program write the JSON Schema of its protocol and checks our requests against
// it. The verdict is kept in a cache folder, so that the work is done once for each
// program.
//
// It is a warning for people and never decides whether a session is made; it knows
// neither the protocol's meaning nor its answers. Check may be called from several
// goroutines and processes at once, also with one cache: whoever is last wins.
package schema

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"ostoolkit/internal/state"
)

// maxTold bounds the problems that a message names.
const maxTold = 5

// Request is one of our requests with every member that we may send.
type Request struct {
	Method string `json:"method"`
	Params any    `json:"params"`
}

// Options say what is checked.
type Options struct {
	Cache    string   // the folder of the verdicts, out of any agent's reach; it is made where it is missing
	Argv     []string // of Generator; Argv[0] is absolute
	Env      []string // KEY=value
	Version  string   // ours
	Peer     string   // the app-server's, which a wrapper's file does not tell
	Requests []Request
	Now      func() time.Time
}

// Problem is one thing that the app-server would not understand.
type Problem struct {
	Method string `json:"method"`
	Member string `json:"member"` // a.b.0.c; "" for the whole request
	Text   string `json:"text"`   // what is wrong with it
}

func (p Problem) String() string {
	if p.Member == "" {
		return p.Method + ": " + p.Text
	}
	return fmt.Sprintf("%s: %q %s", p.Method, p.Member, p.Text)
}

// Verdict is what a check has found.
type Verdict struct {
	Problems []Problem // none: all is well
	Cached   bool      // nothing was started for it
}

// String names the first few problems in one line; "" where there is none.
func (v *Verdict) String() string {
	var told []string
	for i, p := range v.Problems {
		if i == maxTold {
			told = append(told, fmt.Sprintf("and %d more", len(v.Problems)-i))
			break
		}
		told = append(told, p.String())
	}
	return strings.Join(told, "; ")
}

// entry is a verdict in the cache, with all that it depends on.
type entry struct {
	Binary   string    `json:"binary"`
	Size     int64     `json:"size"`
	MTime    int64     `json:"mtime_ns"`
	Requests string    `json:"requests"` // digest of our version, theirs, and what we send
	Problems []Problem `json:"problems"`
}

// Generator turns the command line that starts the app-server into the beginning of the
// one that writes its schema. It is nil where no word in front of app-server may be
// there but options: what another program (env, docker, ssh) would make of the rest
// cannot be known.
func Generator(argv []string) []string {
	for i := 1; i < len(argv); i++ {
		switch word := argv[i]; {
		case word == "app-server":
			return append(append([]string{}, argv[:i+1]...), "generate-json-schema")
		case takesValue[word]:
			i++
		case !strings.HasPrefix(word, "-") || word == "--":
			return nil
		}
	}
	return nil
}

// takesValue holds the options of codex whose value is a word of its own.
var takesValue = map[string]bool{
	"-c": true, "--config": true, "--enable": true, "--disable": true, "-p": true, "--profile": true,
	"-m": true, "--model": true, "-C": true, "--cd": true, "-s": true, "--sandbox": true,
}

// Check returns the verdict on a program, from the cache if it is there. An error says
// why there is none; it wraps ctx's where that ended the work. Without a cache folder
// nothing is started, since it would be started each time.
func Check(ctx context.Context, o Options) (*Verdict, error) {
	now, err := o.entry()
	if err != nil {
		return nil, err
	}
	path := filepath.Join(o.Cache, digest([]byte(now.Binary))+".json")
	var old entry
	// Whatever is wrong with a cached verdict, a new one mends it.
	if state.ReadJSON(path, &old) == nil && old.same(now) {
		return &Verdict{Problems: old.Problems, Cached: true}, nil
	}
	if err := state.MakeDir(o.Cache); err != nil {
		return nil, fmt.Errorf("keep the schema verdict: %w", err)
	}
	text, err := generate(ctx, o)
	if err != nil {
		return nil, err
	}
	if now.Problems, err = judge(text, o.Requests); err != nil {
		return nil, err
	}
	if err := state.WriteVolatile(path, now); err != nil {
		return nil, fmt.Errorf("keep the schema verdict: %w", err)
	}
	return &Verdict{Problems: now.Problems}, nil
}

// entry identifies what is to be checked.
func (o *Options) entry() (*entry, error) {
	if len(o.Argv) == 0 {
		return nil, errors.New("no command writes the schema")
	}
	path, err := filepath.EvalSymlinks(o.Argv[0])
	if err != nil {
		return nil, fmt.Errorf("look at the app-server's program: %w", err)
	}
	fi, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("look at the app-server's program: %w", err)
	}
	sent, err := json.Marshal([]any{o.Version, o.Peer, o.Requests})
	if err != nil {
		return nil, fmt.Errorf("encode our requests: %v", err)
	}
	return &entry{Binary: path, Size: fi.Size(), MTime: fi.ModTime().UnixNano(), Requests: digest(sent)}, nil
}

func (e *entry) same(as *entry) bool {
	return e.Binary == as.Binary && e.Size == as.Size && e.MTime == as.MTime && e.Requests == as.Requests
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:8])
}
