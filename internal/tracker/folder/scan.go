package folder

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"ostoolkit/internal/tracker"
	"ostoolkit/internal/wire"
)

// maxCard bounds one card in bytes.
const maxCard = 1 << 20

const suffix = ".md"

// snapshot is the board as one reading found it.
type snapshot struct {
	issues   []*wire.Issue // by file name
	byID     map[string]*wire.Issue
	byName   map[string]*wire.Issue // identifiers as they are
	byFold   map[string]*wire.Issue // identifiers folded; of several the first
	broken   []brokenCard
	warnings []tracker.Problem
}

// brokenCard is a file that is there and cannot be read as a card.
type brokenCard struct {
	file    string
	problem tracker.Problem
}

func (s *snapshot) byKey(key string) *wire.Issue {
	if issue := s.byName[strings.TrimSpace(key)]; issue != nil {
		return issue
	}
	return s.byFold[tracker.Fold(key)]
}

func (s *snapshot) problems() []tracker.Problem {
	out := make([]tracker.Problem, 0, len(s.broken))
	for _, b := range s.broken {
		out = append(out, b.problem)
	}
	return out
}

// scan reads the whole board: parents, blockers and children can only be told from
// all cards together.
func (b *Board) scan(ctx context.Context) (*snapshot, error) {
	root, err := b.root()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil {
		return nil, &tracker.Error{Category: tracker.Unavailable, Message: fmt.Sprintf("list board folder %q", b.dir), Err: err}
	}
	s := &snapshot{byID: map[string]*wire.Issue{}, byName: map[string]*wire.Issue{}, byFold: map[string]*wire.Issue{}}
	var cards []*card
	for _, e := range entries {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if !isCard(e) {
			continue
		}
		c, err := b.read(root, e.Name())
		switch {
		case errors.Is(err, fs.ErrNotExist): // replaced or removed since the folder was listed
		case err != nil:
			s.broken = append(s.broken, brokenCard{e.Name(), b.problem(e.Name(), err)})
		default:
			cards = append(cards, c)
		}
	}
	b.assemble(s, cards)
	return s, nil
}

// isCard tells a card from what else may lie in a board. What begins with "." or
// "_" is for editors, templates and our own lock; folders are not entered.
func isCard(e fs.DirEntry) bool {
	name := e.Name()
	return strings.HasSuffix(name, suffix) && name != suffix && !hidden(name) && !e.IsDir()
}

func hidden(name string) bool { return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") }

// read reads and parses one card.
func (b *Board) read(root *os.Root, name string) (*card, error) {
	data, info, err := readFile(root, name)
	if err != nil {
		return nil, err
	}
	c, err := parse(data)
	if err != nil {
		return nil, err
	}
	c.file, c.modified = name, info.ModTime()
	return c, nil
}

// readFile returns a card's bytes. The file is looked at again after opening, since
// it may have been exchanged meanwhile, and opened without waiting, since it may be
// a FIFO.
func readFile(root *os.Root, name string) ([]byte, fs.FileInfo, error) {
	if err := checkName(name); err != nil {
		return nil, nil, err
	}
	info, err := root.Lstat(name)
	if err != nil {
		return nil, nil, plain(err)
	}
	if err := checkFile(info); err != nil {
		return nil, nil, err
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, plain(err)
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return nil, nil, plain(err)
	}
	if err := checkFile(info); err != nil {
		return nil, nil, err
	}
	data, err := io.ReadAll(io.LimitReader(f, maxCard+1))
	if err != nil {
		return nil, nil, plain(err)
	}
	if len(data) > maxCard {
		return nil, nil, errTooBig
	}
	return data, info, nil
}

var errTooBig = fmt.Errorf("card is over %d bytes", maxCard)

func checkFile(info fs.FileInfo) error {
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		return errors.New("is a symbolic link; a card is a plain file in the board")
	case !info.Mode().IsRegular():
		return errors.New("is not a plain file")
	case info.Size() > maxCard:
		return errTooBig
	}
	return nil
}

func checkName(name string) error {
	switch {
	case !utf8.ValidString(name):
		return errors.New("file name is not valid UTF-8")
	case strings.ContainsFunc(name, unicode.IsControl):
		return errors.New("file name has control characters")
	case strings.TrimSpace(strings.TrimSuffix(name, suffix)) != strings.TrimSuffix(name, suffix):
		return errors.New("file name has blanks at its ends")
	}
	return nil
}

// plain takes the path out of a file error: the message names the file already.
// Not-exist stays recognisable.
func plain(err error) error {
	var path *fs.PathError
	if errors.As(err, &path) {
		return path.Err
	}
	return err
}

func (b *Board) problem(name string, err error) tracker.Problem {
	p := tracker.Problem{Where: printable(filepath.Join(b.dir, name)), Message: err.Error()}
	var at *lineError
	if errors.As(err, &at) {
		p.Line, p.Message = at.line, at.message
	}
	return p
}

// printable keeps a file name from breaking the line it is printed in.
func printable(name string) string {
	if checkName(filepath.Base(name)) == nil {
		return name
	}
	return fmt.Sprintf("%q", name)
}

// assemble makes issues of the cards, in two rounds: the cards by themselves, then
// what they say of each other.
func (b *Board) assemble(s *snapshot, cards []*card) {
	slices.SortFunc(cards, func(x, y *card) int { return strings.Compare(x.file, y.file) })
	files := map[string]string{} // id -> file
	kept := cards[:0]
	for _, c := range cards {
		issue, err := b.issue(c)
		if err == nil && files[issue.ID] != "" {
			err = &lineError{c.lines["id"], fmt.Sprintf("id %q is also that of %s", issue.ID, files[issue.ID])}
		}
		if err != nil {
			s.broken = append(s.broken, brokenCard{c.file, b.problem(c.file, err)})
			continue
		}
		files[issue.ID] = c.file
		kept = append(kept, c)
		s.add(issue)
		if !utf8.Valid(c.body) {
			line := c.bodyLine + bytes.Count(c.body[:invalidAt(c.body)], []byte("\n"))
			s.warnings = append(s.warnings, b.problem(c.file, &lineError{line, "text is not valid UTF-8; the bad bytes are shown as U+FFFD"}))
		}
	}
	for i, c := range kept {
		s.relate(s.issues[i], c)
	}
	slices.SortFunc(s.broken, func(x, y brokenCard) int { return strings.Compare(x.file, y.file) })
}

func (s *snapshot) add(issue *wire.Issue) {
	s.issues = append(s.issues, issue)
	s.byID[issue.ID] = issue
	s.byName[issue.Identifier] = issue
	if fold := tracker.Fold(issue.Identifier); s.byFold[fold] == nil {
		s.byFold[fold] = issue
	}
}

// relate fills in what one card says of others, and tells its parent.
func (s *snapshot) relate(issue *wire.Issue, c *card) {
	for _, key := range c.blockedBy {
		blocker := wire.Blocker{Identifier: wire.Text(key)}
		if other := s.byKey(key); other != nil {
			blocker = wire.Blocker{ID: wire.Text(other.ID), Identifier: wire.Text(other.Identifier), State: wire.Text(other.State), Known: true}
		}
		issue.BlockedBy = append(issue.BlockedBy, blocker)
	}
	if c.parent == "" {
		return
	}
	issue.Parent = &wire.IssueRef{ID: c.parent, Identifier: c.parent}
	if parent := s.byKey(c.parent); parent != nil {
		issue.Parent = ref(parent)
		parent.Children = append(parent.Children, *ref(issue))
	}
}

func ref(i *wire.Issue) *wire.IssueRef {
	return &wire.IssueRef{ID: i.ID, Identifier: i.Identifier, State: wire.Text(i.State)}
}
