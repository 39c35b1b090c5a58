package mailbox

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"ostoolkit/internal/state"
	"ostoolkit/internal/wire"
)

// Claim is a request that its owner has taken and not settled.
type Claim struct {
	Request Request
	RunID   string // the run that took it; the peer knows the text as RunID/Request.ID
	State   State  // what its reply says: Claimed, Unconfirmed or Accepted
}

// ErrGone is the error of a claim to a request that was withdrawn or replaced since
// it was seen. There is nothing to do about it: the next Scan tells what is there now.
var ErrGone = errors.New("the request is gone")

// Claim takes a request that Scan has returned, so that whatever happens from now on
// it is not delivered a second time. Nothing may be done about a request before that.
func (b *Box) Claim(r Request) error {
	s, ok := b.seen[r.ID]
	if !ok || s.info == nil {
		return fmt.Errorf("claim %q: %w", r.ID, ErrGone)
	}
	if _, ok := b.claims[r.ID]; ok {
		return fmt.Errorf("claim %q: an earlier request with this id is not settled", r.ID)
	}
	// First: a claim beside the reply of an earlier request would pass for settled.
	if err := remove(b.path(r.ID, replySuffix)); err != nil {
		return fmt.Errorf("claim %q: %w", r.ID, err)
	}
	delete(b.seen, r.ID)
	path := b.path(r.ID, claimSuffix)
	// One step, unlike a link and an unlink, so that a request which replaces this one
	// at this very moment is not what is unlinked.
	if err := os.Rename(b.path(r.ID, requestSuffix), path); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("claim %q: %w", r.ID, ErrGone)
	} else if err != nil {
		return fmt.Errorf("claim %q: %w", r.ID, err)
	}
	if !s.is(path) {
		return errors.Join(fmt.Errorf("claim %q: %w", r.ID, ErrGone), b.putBack(path, r.ID))
	}
	b.claims[r.ID] = &Claim{Request: s.request, RunID: b.runID}
	return nil
}

// Claims returns the open claims in the order of their file names. Right after Open
// they are what a dead owner had taken: each is to be settled from what the peer
// remembers, and delivered, with the same id, only if it does not know it.
func (b *Box) Claims() []Claim {
	ids := slices.SortedFunc(maps.Keys(b.claims), func(x, y string) int {
		return strings.Compare(x+claimSuffix, y+claimSuffix)
	})
	claims := make([]Claim, 0, len(ids))
	for _, id := range ids {
		claims = append(claims, *b.claims[id])
	}
	return claims
}

// ExpireOpenControls answers the open claims that bring no text (approve, interrupt,
// stop, …) with expired. It is for the start: what they were about died with their
// owner.
func (b *Box) ExpireOpenControls() error {
	var errs []error
	for _, c := range b.Claims() {
		if !speaks(c.Request.Kind) {
			errs = append(errs, b.Reply(Reply{ID: c.Request.ID, State: Expired, Message: "the run that took it has ended"}))
		}
	}
	return errors.Join(errs...)
}

// owner is the content of .owner.json: which run took the claims that are in the box.
// Beside them and not in them, so that a claim costs one rename.
type owner struct {
	RunID  string            `json:"run_id"`
	Claims map[string]string `json:"claims,omitempty"` // id -> run, of those that earlier runs took
}

// readOwner returns what the last owner wrote; with no such file, nothing is known.
func (b *Box) readOwner() (owner, error) {
	var o owner
	err := state.ReadJSON(filepath.Join(b.dir, ownerName), &o)
	if errors.Is(err, fs.ErrNotExist) {
		return owner{}, nil
	}
	return o, err
}

// writeOwner notes who owns the box and what it has inherited.
func (b *Box) writeOwner() error {
	if b.runID == "" {
		return nil
	}
	o := owner{RunID: b.runID, Claims: map[string]string{}}
	for id, c := range b.claims {
		if c.RunID != b.runID {
			o.Claims[id] = c.RunID
		}
	}
	return state.WriteVolatile(filepath.Join(b.dir, ownerName), o)
}

// recoverClaim takes over the claim of an earlier owner.
func (b *Box) recoverClaim(id string, earlier owner) error {
	path := b.path(id, claimSuffix)
	data, err := state.ReadFile(path)
	if err != nil {
		return err
	}
	r, fault := parse(data)
	if fault == nil {
		fault = b.kinds.check(r)
	}
	r.ID = id
	c := &Claim{Request: r, RunID: cmp.Or(earlier.Claims[id], earlier.RunID, b.runID)}
	if reply := readReply(b.path(id, replySuffix)); reply != nil {
		c.State = reply.State
	}
	if settles(r.Kind, c.State) {
		return remove(path)
	}
	b.claims[id] = c
	if fault != nil {
		// A power cut may have emptied it.
		return b.Reply(Reply{ID: id, State: Invalid, Message: wire.Text(fault.Error())})
	}
	return nil
}
