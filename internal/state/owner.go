package state

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"ostoolkit/internal/wire"
)

// OwnerFile is the name of the file in a workspace root that says whose it is.
const OwnerFile = ".os-root"

// Owner is who works in a workspace root. Two owners would mean two schedulers that
// do not see each other's locks.
type Owner struct {
	StateRoot string    `json:"state_root"`
	Host      string    `json:"host"`
	UID       int       `json:"uid"`
	CreatedAt wire.Time `json:"created_at"`
}

// Claim makes me the owner of the workspace root dir, or checks that I am. Another
// owner is a Refusal that names both.
func Claim(dir string, me Owner) error {
	path := filepath.Join(dir, OwnerFile)
	var owner Owner
	err := ReadJSON(path, &owner)
	if errors.Is(err, fs.ErrNotExist) {
		err = claimFirst(path, me, &owner)
	}
	if err != nil {
		return err
	}
	if owner.StateRoot == me.StateRoot && owner.Host == me.Host && owner.UID == me.UID {
		return nil
	}
	return &Refusal{path, fmt.Sprintf("says that this root belongs to state root %q of uid %d on host %q, not to %q of uid %d on %q",
		owner.StateRoot, owner.UID, owner.Host, me.StateRoot, me.UID, me.Host)}
}

// claimFirst writes the file unless another first comer has done so meanwhile. They
// take turns by a lock on the root, which leaves nothing behind when one is killed.
func claimFirst(path string, me Owner, owner *Owner) (err error) {
	lock, err := AcquireDir(context.Background(), filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("claim workspace root: %w", err)
	}
	defer func() { err = errors.Join(err, lock.Release()) }()
	if err := ReadJSON(path, owner); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := removeTemps(filepath.Dir(path), path); err != nil {
		return err
	}
	*owner = me
	return WriteJSON(path, me)
}
