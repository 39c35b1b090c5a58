// Package mailbox is the folder through which any script steers a running session,
// or os-loop: plain files that appear by rename, one request and one reply each.
//
//	<id>.request.json   what somebody asks for; a file that is still being written is waited for
//	<id>.claimed.json   the same file, taken by the owner before anything is done about it
//	<id>.reply.json     what became of it, written again as more is known
//	<id>.approval.json  a question of the agent that is open
//	active.json         the turn that runs, while one does
//	.owner.json         which run took which claims
//
// The package decides what is a request, in which order requests come and what state
// follows which. It does not deliver anything, keeps no goroutine and watches nothing:
// its owner calls Scan when internal/watch gives a hint.
//
// A Box has one owner, who holds the lock of the issue or of the loop, and belongs to
// one goroutine. Send and ReadActive are for everybody else and safe at any time.
//
// No file is synced: what matters survives SIGKILL, and a power cut ends the session
// that the messages were for.
package mailbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"ostoolkit/internal/state"
)

const (
	requestSuffix  = ".request.json"
	claimSuffix    = ".claimed.json"
	replySuffix    = ".reply.json"
	approvalSuffix = ".approval.json"

	activeName = "active.json"
	ownerName  = ".owner.json"

	// Names of files on their way, which no reader looks at.
	ownTemp  = ".tmp-"  // of state.WriteVolatile: the owner's
	sendTemp = ".send-" // of Send
	takenTag = ".taken-"

	maxID      = 64
	maxFile    = 1 << 20         // bytes of a request file
	quiet      = 2 * time.Second // without a change: a file that is not whole never will be
	retryAfter = time.Second     // after trouble with a file
	sendAlive  = time.Minute     // a sender's temp file older than this is nobody's
)

// Options are how a box is opened.
type Options struct {
	Now   func() time.Time
	Kinds Kinds // what may be asked for in this box
	// RunID is the run that owns the box: its claims bear it. "" in os-loop's, where
	// nobody asks later.
	RunID string
	// Warn tells people of trouble with single files, which is never an error of the
	// box. nil: nobody is told.
	Warn func(format string, args ...any)
}

// Box is a mailbox as its owner sees it.
type Box struct {
	dir    string
	now    func() time.Time
	kinds  Kinds
	runID  string
	warn   func(string, ...any)
	known  map[string]any // members of the active turn, as a target may name them
	seen   map[string]*sight
	warned map[string]bool // about the request with this id
	claims map[string]*Claim
}

// Open takes over the mailbox in dir, which is made where it is missing, and clears
// away what a dead owner has left: active.json, open questions, temp files, claims
// that are settled. Claims tells what it was still about.
func Open(dir string, o Options) (*Box, error) {
	b := &Box{
		dir: dir, now: o.Now, kinds: o.Kinds, runID: o.RunID, warn: o.Warn,
		known: map[string]any{}, seen: map[string]*sight{}, warned: map[string]bool{}, claims: map[string]*Claim{},
	}
	if b.warn == nil {
		b.warn = func(string, ...any) {}
	}
	if err := state.MakeDir(dir); err != nil {
		return nil, err
	}
	earlier, err := b.readOwner()
	if err != nil {
		b.warn("mailbox: claims are taken for our own: %v", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("open mailbox: %w", err)
	}
	for _, e := range entries {
		if err := b.recover(e, earlier); err != nil {
			b.warn("mailbox: clear away %q: %v", e.Name(), err)
		}
	}
	if err := b.writeOwner(); err != nil {
		return nil, fmt.Errorf("open mailbox: %w", err)
	}
	return b, nil
}

func (b *Box) path(id, suffix string) string { return filepath.Join(b.dir, id+suffix) }

// recover settles what one file of an earlier owner says.
func (b *Box) recover(e fs.DirEntry, earlier owner) error {
	name := e.Name()
	path := filepath.Join(b.dir, name)
	switch {
	case name == activeName, strings.HasPrefix(name, ownTemp), strings.HasSuffix(name, approvalSuffix):
		return remove(path)
	case strings.HasPrefix(name, takenTag):
		return b.putBack(path, strings.TrimPrefix(name, takenTag))
	case strings.HasPrefix(name, sendTemp):
		info, err := e.Info()
		if err != nil || b.now().Sub(info.ModTime()) < sendAlive {
			return nil // gone, or the sender may still be at it
		}
		return remove(path)
	}
	if id, ok := fileID(e, claimSuffix); ok {
		return b.recoverClaim(id, earlier)
	}
	return nil
}

// fileID returns the id of an entry that is named <id><suffix>. A folder with such a
// name is none.
func fileID(e fs.DirEntry, suffix string) (string, bool) {
	id, ok := strings.CutSuffix(e.Name(), suffix)
	return id, ok && validID(id) && !e.IsDir()
}

func validID(id string) bool {
	for i := range len(id) {
		switch c := id[i]; {
		case 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '_', c == '-':
		default:
			return false
		}
	}
	return id != "" && len(id) <= maxID
}

// putBack makes a file that was taken a request again. Where a newer request has its
// name already, that one has replaced it, as it would have without us.
func (b *Box) putBack(path, id string) error {
	if err := os.Link(path, b.path(id, requestSuffix)); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return remove(path)
}

// remove removes a file that may be gone already.
func remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
