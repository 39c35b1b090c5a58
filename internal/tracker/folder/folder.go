// Package folder is the tracker that needs nothing but a folder: each *.md file in
// it is an issue, a card. YAML front matter between two lines "---" holds its
// members, the text below is its description. os-poll(1) documents the format.
//
// It does not watch the folder (package watch does) and keeps nothing in memory: each
// question reads the files. A Board may be used from several goroutines and from
// several processes; writers take turns by a lock file in the folder, readers need
// none, since a card is replaced by rename.
package folder

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"ostoolkit/internal/tracker"
	"ostoolkit/internal/wire"
	"ostoolkit/internal/workflow"
)

// Kind is the word for this adapter in tracker.kind.
const Kind = "folder"

const defaultPath = "issues"

// Adapter returns this kind of tracker.
func Adapter() tracker.Adapter {
	return tracker.Adapter{
		Kind:     Kind,
		Active:   workflow.DefaultActive(),
		Terminal: workflow.DefaultTerminal(),
		Open: func(c tracker.Config) (tracker.Tracker, error) {
			b, err := Open(c)
			if err != nil {
				return nil, err
			}
			return b, nil
		},
	}
}

// Board is one folder of cards.
type Board struct {
	dir   string // absolute
	rules tracker.Rules
	// parked are states that a card may be given besides active and terminal ones.
	parked []string
	now    func() time.Time
}

// Open returns the board that the configuration names. It reads
// tracker.provider.path (a folder, default "issues") and tracker.provider.states
// (names of states besides the active and terminal ones, default Backlog and
// Human Review).
func Open(c tracker.Config) (*Board, error) {
	path, err := text(c.Provider, "path")
	if err != nil {
		return nil, err
	}
	parked, err := names(c.Provider, "states")
	if err != nil {
		return nil, err
	}
	if parked == nil {
		parked = []string{"Backlog", "Human Review"}
	}
	path = cmp.Or(path, defaultPath)
	if !filepath.IsAbs(path) {
		path = filepath.Join(c.Dir, path)
	}
	return &Board{dir: filepath.Clean(path), rules: c.Rules, parked: parked, now: c.Now}, nil
}

func text(provider map[string]any, key string) (string, error) {
	switch v := provider[key].(type) {
	case nil:
		return "", nil
	case string:
		return strings.TrimSpace(v), nil
	default:
		return "", tracker.Errorf(tracker.InvalidConfig, "tracker.provider.%s: %v is not a text", key, v)
	}
}

func names(provider map[string]any, key string) ([]string, error) {
	wrong := func() ([]string, error) {
		return nil, tracker.Errorf(tracker.InvalidConfig, "tracker.provider.%s: %v is not a list of names", key, provider[key])
	}
	switch list := provider[key].(type) {
	case nil:
		return nil, nil
	case []string:
		return list, nil
	case []any:
		out := []string{}
		for _, v := range list {
			name, ok := v.(string)
			if name = strings.TrimSpace(name); !ok || name == "" {
				return wrong()
			}
			out = append(out, name)
		}
		return out, nil
	}
	return wrong()
}

// Dir returns the folder, absolute.
func (b *Board) Dir() string { return b.dir }

// List implements tracker.Tracker. A board is one page.
func (b *Board) List(ctx context.Context, q tracker.Query, use func(*tracker.Page) error) error {
	if !q.All && len(q.States) == 0 {
		return nil
	}
	s, err := b.scan(ctx)
	if err != nil {
		return err
	}
	page := &tracker.Page{Problems: s.problems(), Warnings: s.warnings}
	for _, issue := range s.issues {
		if q.All || tracker.Contains(q.States, issue.State) {
			page.Issues = append(page.Issues, issue)
		} else {
			page.Skipped++
		}
	}
	return use(page)
}

// ByIDs implements tracker.Tracker.
func (b *Board) ByIDs(ctx context.Context, ids []string) (*tracker.Page, error) {
	return b.pick(ctx, ids, func(s *snapshot, id string) *wire.Issue { return s.byID[id] })
}

// ByIdentifiers implements tracker.Tracker.
func (b *Board) ByIdentifiers(ctx context.Context, keys []string) (*tracker.Page, error) {
	return b.pick(ctx, keys, (*snapshot).byKey)
}

// pick answers for each name asked. Where a card is broken, a name that no card has
// may be that card's: it is not gone then, and the broken cards are told.
func (b *Board) pick(ctx context.Context, asked []string, find func(*snapshot, string) *wire.Issue) (*tracker.Page, error) {
	page := &tracker.Page{}
	if len(asked) == 0 {
		return page, nil
	}
	s, err := b.scan(ctx)
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{}
	for _, name := range asked {
		issue := find(s, name)
		switch {
		case issue == nil && len(s.broken) > 0:
			page.Problems = s.problems()
		case issue == nil:
			page.Gone = append(page.Gone, name)
		case !seen[issue.ID]:
			seen[issue.ID] = true
			page.Issues = append(page.Issues, issue)
		}
	}
	page.Skipped = len(s.issues) - len(page.Issues)
	return page, nil
}

// States returns the names that a card's state may be set to, each once.
func (b *Board) States() []string {
	var names []string
	for _, name := range slices.Concat(b.rules.Active, b.parked, b.rules.Terminal) {
		if !tracker.Contains(names, name) {
			names = append(names, strings.TrimSpace(name))
		}
	}
	return names
}

// root opens the folder so that no name in it can lead out of it.
func (b *Board) root() (*os.Root, error) {
	root, err := os.OpenRoot(b.dir)
	switch {
	case err == nil:
		return root, nil
	case errors.Is(err, fs.ErrNotExist):
		e := tracker.Errorf(tracker.InvalidConfig, "board folder %q does not exist", b.dir)
		e.Hint = fmt.Sprintf(`mkdir -p %s && printf -- '---\nstate: %s\n---\n# My first issue\n' > %s`,
			quote(b.dir), b.firstState(), quote(filepath.Join(b.dir, "A-1.md")))
		return nil, e
	case errors.Is(err, fs.ErrPermission):
		return nil, &tracker.Error{Category: tracker.Denied, Message: fmt.Sprintf("open board folder %q", b.dir), Err: fs.ErrPermission}
	}
	if info, statErr := os.Stat(b.dir); statErr == nil && !info.IsDir() {
		return nil, tracker.Errorf(tracker.InvalidConfig, "board %q is not a folder", b.dir)
	}
	return nil, &tracker.Error{Category: tracker.Unavailable, Message: "open the board", Err: err}
}

// firstState is the state of a card that names none.
func (b *Board) firstState() string {
	if len(b.rules.Active) == 0 {
		return ""
	}
	return b.rules.Active[0]
}

// quote makes s one word of a shell command.
func quote(s string) string {
	special := func(r rune) bool {
		return !strings.ContainsRune("/._-+,:@%=", r) && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}
	if s != "" && !strings.ContainsFunc(s, special) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
