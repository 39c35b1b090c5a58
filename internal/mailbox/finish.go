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

// Finish ends the work on a box at the end of a run. It answers each request that
// nobody has read, except those to be kept, with undelivered and returns their ids;
// it removes active.json and the open questions and moves settled replies to the
// folder archive, which is made if it is missing.
//
// What stays is for the next run: claims that are open, requests with the id of one, and
// files that were still being written. It does as much as it can: the error tells
// what it could not.
func (b *Box) Finish(archive string) (undelivered []string, err error) {
	errs := []error{b.ClearActive()}
	ids, err := b.requests()
	if err != nil {
		return nil, errors.Join(append(errs, err)...)
	}
	now := b.now()
	for _, id := range ids {
		r := b.rule(id, now)
		if r = atEnd(r, b.seen[id]); r.act == answer && b.turnAway(id, r, now) && r.state == Undelivered {
			undelivered = append(undelivered, id)
		}
	}
	return undelivered, errors.Join(append(errs, b.clearOut(archive))...)
}

// atEnd is what becomes of a ruling when there is no later.
func atEnd(r ruling, s *sight) ruling {
	if r.act == answer || s == nil || s.info == nil || s.fault != nil || s.request.Keep {
		return r
	}
	return answered(Undelivered, "the run ended before it was read")
}

// clearOut removes the open questions and moves the settled replies to archive.
func (b *Box) clearOut(archive string) error {
	entries, err := os.ReadDir(b.dir)
	if err != nil {
		return fmt.Errorf("list mailbox: %w", err)
	}
	errs := []error{state.MakeDir(archive)}
	for _, e := range entries {
		path := filepath.Join(b.dir, e.Name())
		if strings.HasSuffix(e.Name(), approvalSuffix) {
			errs = append(errs, remove(path))
		} else if b.settled(e) {
			errs = append(errs, os.Rename(path, filepath.Join(archive, e.Name())))
		}
	}
	return errors.Join(errs...)
}

// Tidy removes the settled replies that are older than age. It is for a box whose
// owner never finishes.
func (b *Box) Tidy(age time.Duration) error {
	entries, err := os.ReadDir(b.dir)
	if err != nil {
		return fmt.Errorf("list mailbox: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if !b.settled(e) {
			continue
		}
		if info, err := e.Info(); err == nil && b.now().Sub(info.ModTime()) >= age {
			errs = append(errs, remove(filepath.Join(b.dir, e.Name())))
		}
	}
	return errors.Join(errs...)
}

// settled reports whether an entry is a reply whose claim is closed.
func (b *Box) settled(e fs.DirEntry) bool {
	id, ok := fileID(e, replySuffix)
	_, open := b.claims[id]
	return ok && !open
}
